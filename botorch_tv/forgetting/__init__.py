"""What an old measurement is worth now: decay, inflation and retention."""

from botorch_tv.forgetting.decay import Decay, Markov, Wiener
from botorch_tv.forgetting.glr import GLRTrigger
from botorch_tv.forgetting.inflation import ExponentialWeights, Inflation, UncertaintyInjection
from botorch_tv.forgetting.parameter import Parameter
from botorch_tv.forgetting.parts import Log, Observation, Part
from botorch_tv.forgetting.periodic import PeriodicMarkov
from botorch_tv.forgetting.retention import (
    ConfirmedTrigger,
    EventTrigger,
    KeepAll,
    Kept,
    PeriodicReset,
    Retention,
    SlidingWindow,
    TriggerRule,
    prediction_error,
)
from botorch_tv.forgetting.static import Static
from botorch_tv.forgetting.wasserstein import WassersteinRemoval

__all__ = [
    "ConfirmedTrigger",
    "Decay",
    "EventTrigger",
    "ExponentialWeights",
    "GLRTrigger",
    "Inflation",
    "KeepAll",
    "Kept",
    "Log",
    "Markov",
    "Observation",
    "Parameter",
    "Part",
    "PeriodicMarkov",
    "PeriodicReset",
    "Retention",
    "SlidingWindow",
    "Static",
    "TriggerRule",
    "UncertaintyInjection",
    "WassersteinRemoval",
    "Wiener",
    "prediction_error",
]
