"""Time-varying objectives on boxes, as BoTorch test functions.

Time is the last column of X, as in the models of this library and BoTorch's augmented functions.
The same `n x (d + 1)` tensor is therefore a valid input of a problem and of its model.
``problem.at(t)`` is the problem at the fixed time t: an ordinary BoTorch test function of the d
coordinates.
"""

from botorch_tv.test_functions.base import Snapshot, TimeVaryingTestFunction
from botorch_tv.test_functions.cart_pole import CartPole, CartPoleSystem
from botorch_tv.test_functions.drifting import (
    DriftingAckley,
    DriftingBranin,
    DriftingFunction,
    DriftingHartmann,
    DriftingRosenbrock,
    Jumps,
    Motion,
    Orbit,
)
from botorch_tv.test_functions.markov import MarkovFunction
from botorch_tv.test_functions.sliced import Schwefel, SlicedFunction, sliced_suite
from botorch_tv.test_functions.wind_farm import WindFarm

__all__ = [
    "CartPole",
    "CartPoleSystem",
    "DriftingAckley",
    "DriftingBranin",
    "DriftingFunction",
    "DriftingHartmann",
    "DriftingRosenbrock",
    "Jumps",
    "MarkovFunction",
    "Motion",
    "Orbit",
    "Schwefel",
    "SlicedFunction",
    "Snapshot",
    "TimeVaryingTestFunction",
    "WindFarm",
    "sliced_suite",
]
