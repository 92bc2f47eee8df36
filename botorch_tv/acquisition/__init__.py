"""How a posterior becomes a choice: explorations, confidence widths, and the gains behind them."""

from botorch_tv.acquisition.candidates import Candidates
from botorch_tv.acquisition.exploration import (
    ExpectedImprovement,
    Exploration,
    ProbabilityOfImprovement,
    Thompson,
    UniformChoice,
    UpperConfidence,
)
from botorch_tv.acquisition.forced import Forced
from botorch_tv.acquisition.gains import (
    ClosedForm,
    DoublyWeighted,
    Fixed,
    Greedy,
    InformationGain,
    Realized,
    WidthContext,
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
)

__all__ = [
    "IGPUCB",
    "WGPUCB",
    "AgnosticGPUCB",
    "BayesEventTriggered",
    "BayesResetting",
    "BayesTV",
    "Candidates",
    "ClosedForm",
    "Constant",
    "DoublyWeighted",
    "ExpectedImprovement",
    "Exploration",
    "Fixed",
    "Forced",
    "Greedy",
    "Heteroscedastic",
    "InformationGain",
    "Logarithmic",
    "ProbabilityOfImprovement",
    "Realized",
    "Thompson",
    "UniformChoice",
    "UpperConfidence",
    "Width",
    "WidthContext",
]
