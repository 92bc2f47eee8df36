"""BoTorch models of objectives that change with time."""

from botorch_tv.models.adaptive_model import AdaptiveModel, adaptive_model
from botorch_tv.models.growing_gp import GrowingGP
from botorch_tv.models.time_varying_gp import TimeVaryingGP

__all__ = ["AdaptiveModel", "GrowingGP", "TimeVaryingGP", "adaptive_model"]
