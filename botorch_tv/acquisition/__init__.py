"""How a strategy chooses the next point: explorations, confidence widths and information gains."""

from typing import TYPE_CHECKING

from botorch_tv.acquisition.exploration import Candidates as Candidates
from botorch_tv.acquisition.exploration import ExpectedImprovement as ExpectedImprovement
from botorch_tv.acquisition.exploration import Exploration as Exploration
from botorch_tv.acquisition.exploration import Forced as Forced
from botorch_tv.acquisition.exploration import LatticeSets as LatticeSets
from botorch_tv.acquisition.exploration import ProbabilityOfImprovement as ProbabilityOfImprovement
from botorch_tv.acquisition.exploration import Thompson as Thompson
from botorch_tv.acquisition.exploration import TightConfidence as TightConfidence
from botorch_tv.acquisition.exploration import UniformChoice as UniformChoice
from botorch_tv.acquisition.exploration import UpperConfidence as UpperConfidence
from botorch_tv.acquisition.widths import IGPUCB as IGPUCB
from botorch_tv.acquisition.widths import WGPUCB as WGPUCB
from botorch_tv.acquisition.widths import AgnosticGPUCB as AgnosticGPUCB
from botorch_tv.acquisition.widths import BayesEventTriggered as BayesEventTriggered
from botorch_tv.acquisition.widths import BayesFinite as BayesFinite
from botorch_tv.acquisition.widths import BayesResetting as BayesResetting
from botorch_tv.acquisition.widths import BayesTV as BayesTV
from botorch_tv.acquisition.widths import ClosedForm as ClosedForm
from botorch_tv.acquisition.widths import Constant as Constant
from botorch_tv.acquisition.widths import DoublyWeighted as DoublyWeighted
from botorch_tv.acquisition.widths import Fixed as Fixed
from botorch_tv.acquisition.widths import Greedy as Greedy
from botorch_tv.acquisition.widths import Heteroscedastic as Heteroscedastic
from botorch_tv.acquisition.widths import InformationGain as InformationGain
from botorch_tv.acquisition.widths import Logarithmic as Logarithmic
from botorch_tv.acquisition.widths import Realized as Realized
from botorch_tv.acquisition.widths import Width as Width
from botorch_tv.acquisition.widths import WidthContext as WidthContext

if not TYPE_CHECKING:  # type checkers export the imports above
    __all__ = sorted(name for name, value in globals().items() if callable(value))
