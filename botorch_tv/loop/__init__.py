"""An optimisation loop that can be saved to a file and resumed from it."""

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
