"""A stateful optimisation loop, for people who run a machine overnight."""

from botorch_tv.loop.loop import Loop
from botorch_tv.loop.table import (
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
