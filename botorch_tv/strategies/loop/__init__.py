"""A loop with a memory of its own, for people who run a machine overnight."""

from botorch_tv.strategies.loop.consultations import NumberedConsultation
from botorch_tv.strategies.loop.log import NumberedSuggestion, Table
from botorch_tv.strategies.loop.loop import Loop

__all__ = ["Loop", "NumberedConsultation", "NumberedSuggestion", "Table"]
