"""Learning hyperparameters from data."""

from botorch_tv.learning.fit import Learned, learn
from botorch_tv.learning.refit import Free, Refit

__all__ = ["Free", "Learned", "Refit", "learn"]
