"""An optimisation loop that can be saved to a file and resumed from it."""

from botorch_tv.loop.loop import Loop
from botorch_tv.loop.monitor import Drift, Gain, Stop, Worth
from botorch_tv.loop.table import (
    LastAnswer,
    NumberedConsultation,
    NumberedSuggestion,
    SupersededMeasurement,
    Table,
)

__all__ = [
    "Drift",
    "Gain",
    "LastAnswer",
    "Loop",
    "NumberedConsultation",
    "NumberedSuggestion",
    "Stop",
    "SupersededMeasurement",
    "Table",
    "Worth",
]
