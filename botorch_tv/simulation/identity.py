"""What makes two studies the same."""

from botorch_tv.identity import Description, describe, differences

__all__ = ["Description", "describe", "differences"]
