"""Time-varying objectives on boxes, as BoTorch test functions.

Time is the last column of X, as in the models of this library and BoTorch's augmented functions.
The same `n x (d + 1)` tensor is therefore a valid input of a problem and of its model.
``problem.at(t)`` is the problem at the fixed time t: an ordinary BoTorch test function of the d
coordinates.
"""

from typing import TYPE_CHECKING

from botorch_tv.test_functions.base import Snapshot as Snapshot
from botorch_tv.test_functions.base import TimeVaryingTestFunction as TimeVaryingTestFunction
from botorch_tv.test_functions.cart_pole import CartPole as CartPole
from botorch_tv.test_functions.cart_pole import CartPoleSystem as CartPoleSystem
from botorch_tv.test_functions.drifting import DriftingAckley as DriftingAckley
from botorch_tv.test_functions.drifting import DriftingBranin as DriftingBranin
from botorch_tv.test_functions.drifting import DriftingFunction as DriftingFunction
from botorch_tv.test_functions.drifting import DriftingHartmann as DriftingHartmann
from botorch_tv.test_functions.drifting import DriftingRosenbrock as DriftingRosenbrock
from botorch_tv.test_functions.drifting import Jumps as Jumps
from botorch_tv.test_functions.drifting import Motion as Motion
from botorch_tv.test_functions.drifting import Orbit as Orbit
from botorch_tv.test_functions.markov import MarkovFunction as MarkovFunction
from botorch_tv.test_functions.sliced import Schwefel as Schwefel
from botorch_tv.test_functions.sliced import SlicedFunction as SlicedFunction
from botorch_tv.test_functions.sliced import sliced_suite as sliced_suite
from botorch_tv.test_functions.wind_farm import WindFarm as WindFarm

if not TYPE_CHECKING:  # type checkers export the imports above
    __all__ = sorted(name for name, value in globals().items() if callable(value))
