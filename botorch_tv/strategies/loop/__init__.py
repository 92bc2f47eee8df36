"""A stateful optimisation loop, for people who run a machine overnight."""

from botorch_tv.strategies.loop.loop import Loop
from botorch_tv.strategies.loop.shown import NumberedConsultation, NumberedSuggestion, Table

__all__ = ["Loop", "NumberedConsultation", "NumberedSuggestion", "Table"]
