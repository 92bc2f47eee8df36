"""Three ways to forget old measurements: decay, inflation and retention."""

from typing import TYPE_CHECKING

from botorch_tv.forgetting.base import Decay as Decay
from botorch_tv.forgetting.base import Inflation as Inflation
from botorch_tv.forgetting.base import Lifetime as Lifetime
from botorch_tv.forgetting.base import Log as Log
from botorch_tv.forgetting.base import Observation as Observation
from botorch_tv.forgetting.base import Parameter as Parameter
from botorch_tv.forgetting.base import Part as Part
from botorch_tv.forgetting.base import Retained as Retained
from botorch_tv.forgetting.base import Retention as Retention
from botorch_tv.forgetting.base import Static as Static
from botorch_tv.forgetting.change_detection import ConfirmedTrigger as ConfirmedTrigger
from botorch_tv.forgetting.change_detection import EventTrigger as EventTrigger
from botorch_tv.forgetting.change_detection import GLRTrigger as GLRTrigger
from botorch_tv.forgetting.change_detection import TriggerRule as TriggerRule
from botorch_tv.forgetting.change_detection import prediction_error as prediction_error
from botorch_tv.forgetting.decay import Markov as Markov
from botorch_tv.forgetting.decay import PeriodicMarkov as PeriodicMarkov
from botorch_tv.forgetting.decay import Smooth as Smooth
from botorch_tv.forgetting.decay import Wiener as Wiener
from botorch_tv.forgetting.inflation import ExponentialWeights as ExponentialWeights
from botorch_tv.forgetting.inflation import UncertaintyInjection as UncertaintyInjection
from botorch_tv.forgetting.relevance import WassersteinRemoval as WassersteinRemoval
from botorch_tv.forgetting.retention import KeepAll as KeepAll
from botorch_tv.forgetting.retention import PeriodicReset as PeriodicReset
from botorch_tv.forgetting.retention import SlidingWindow as SlidingWindow

if not TYPE_CHECKING:  # type checkers export the imports above
    __all__ = sorted(name for name, value in globals().items() if callable(value))
