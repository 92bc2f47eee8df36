"""A stateful optimisation loop, for people who run a machine overnight."""

from botorch_tv.strategies.loop.loop import Loop
from botorch_tv.strategies.loop.shown import (
    LastAnswer,
    NumberedConsultation,
    NumberedSuggestion,
    SupersededMeasurement,
    Table,
)

__all__ = [
    "LastAnswer",
    "Loop",
    "NumberedConsultation",
    "NumberedSuggestion",
    "SupersededMeasurement",
    "Table",
]
