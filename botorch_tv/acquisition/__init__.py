"""Exploration: how far above its mean an arm is given credit for, and the gains behind it."""

from botorch_tv.acquisition.gains import (
    ClosedForm,
    DoublyWeighted,
    Greedy,
    InformationGain,
    Realised,
)
from botorch_tv.acquisition.widths import (
    IGPUCB,
    WGPUCB,
    AgnosticGPUCB,
    BayesEventTriggered,
    BayesResetting,
    BayesTV,
    Constant,
    Heteroscedastic,
    Logarithmic,
    Width,
    WidthContext,
)

__all__ = [
    "IGPUCB",
    "WGPUCB",
    "AgnosticGPUCB",
    "BayesEventTriggered",
    "BayesResetting",
    "BayesTV",
    "ClosedForm",
    "Constant",
    "DoublyWeighted",
    "Greedy",
    "Heteroscedastic",
    "InformationGain",
    "Logarithmic",
    "Realised",
    "Width",
    "WidthContext",
]
