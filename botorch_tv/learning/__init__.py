"""Learning hyperparameters from data."""

from botorch_tv.learning.fit import Learned, learn
from botorch_tv.learning.panel import PanelMarginalLogLikelihood, kronecker_log_likelihood
from botorch_tv.learning.refit import Free, Refit

__all__ = [
    "Free",
    "Learned",
    "PanelMarginalLogLikelihood",
    "Refit",
    "kronecker_log_likelihood",
    "learn",
]
