"""Optimise time-varying objectives in Ax, where every trial has a time.

Importing this package registers its models with Ax, so that Ax can build, save and load them.
"""

try:
    import ax.api.client  # noqa: F401
except ImportError as error:
    raise ImportError(
        "botorch_tv.ax needs Ax, which is not installed or cannot be imported; run "
        "pip install 'botorch-tv[ax]'."
    ) from error

from botorch_tv.ax.adaptive import AdaptiveNode, adaptive_generation_strategy
from botorch_tv.ax.best import (
    best_parameterization_now,
    complete_trial_at,
    pareto_frontier_now,
    predict_now,
)
from botorch_tv.ax.strategy import register, time_varying_generation_strategy
from botorch_tv.ax.surrogate import Clock, PresentAcquisition, time_varying_model_config

register()

__all__ = [
    "AdaptiveNode",
    "Clock",
    "PresentAcquisition",
    "adaptive_generation_strategy",
    "best_parameterization_now",
    "complete_trial_at",
    "pareto_frontier_now",
    "predict_now",
    "time_varying_generation_strategy",
    "time_varying_model_config",
]
