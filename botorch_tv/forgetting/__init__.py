"""Three ways to forget old measurements: decay, inflation and retention."""

from botorch_tv.forgetting.base import (
    Decay,
    Inflation,
    Log,
    Observation,
    Parameter,
    Part,
    Retained,
    Retention,
    Static,
)
from botorch_tv.forgetting.change_detection import (
    ConfirmedTrigger,
    EventTrigger,
    GLRTrigger,
    TriggerRule,
    prediction_error,
)
from botorch_tv.forgetting.decay import Markov, PeriodicMarkov, Wiener
from botorch_tv.forgetting.inflation import ExponentialWeights, UncertaintyInjection
from botorch_tv.forgetting.relevance import WassersteinRemoval
from botorch_tv.forgetting.retention import KeepAll, PeriodicReset, SlidingWindow

__all__ = [
    "ConfirmedTrigger",
    "Decay",
    "EventTrigger",
    "ExponentialWeights",
    "GLRTrigger",
    "Inflation",
    "KeepAll",
    "Log",
    "Markov",
    "Observation",
    "Parameter",
    "Part",
    "PeriodicMarkov",
    "PeriodicReset",
    "Retained",
    "Retention",
    "SlidingWindow",
    "Static",
    "TriggerRule",
    "UncertaintyInjection",
    "WassersteinRemoval",
    "Wiener",
    "prediction_error",
]
