"""The identity of a run: everything that determines its numbers, as readable JSON."""

from botorch_tv.identity.describe import describe
from botorch_tv.identity.differences import differences
from botorch_tv.identity.words import Description

__all__ = ["Description", "describe", "differences"]
