"""[W22]: functions of a reproducing kernel Hilbert space that change abruptly or slowly.

[W22] compares WGP-UCB with IGP-, BR- and SW-GP-UCB; [ET] repeats this in its Table 1 with
ET-GP-UCB besides and less noise. Functions are drawn anew for every trial; the papers' numbers
depend on the functions they drew, so that only orders can be compared.

Settings that theory derives from the functions hold for the study as a whole: B is the largest norm
of any of its functions, and B_T the mean over trials of Σ max_x |f_{t+1}(x) - f_t(x)|, computed
from the functions round by round. (In [W22] the budget bounds the changes in norm, not in maximum,
but a rule that holds up to a constant does not tell the two apart.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import NamedTuple

from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import IGPUCB
from botorch_tv.papers.cases import Drawn
from botorch_tv.papers.experiment import Experiment
from botorch_tv.papers.order import Claim, judge
from botorch_tv.papers.surveys import largest_norm, variation
from botorch_tv.simulation import AbruptWorld, DriftWorld, RKHSFunctions
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import (
    Grid,
    Strategy,
    br_gp_ucb,
    et_gp_ucb,
    igp_ucb,
    sw_gp_ucb,
    w_gp_ucb,
)
from botorch_tv.theory import budget_period, discount

HORIZON = 500
TRIALS = 200
DELTA = 0.1
NOISES = {"noise-0.1": 0.1, "noise-1": 1.0}
NOT_WORSE = -2.0

Make = Callable[[float], AbruptWorld | DriftWorld]


def abrupt(noise: float, terms: int = 20) -> AbruptWorld:
    """f1 for t < 100, f2 to 200, f3 after."""
    return AbruptWorld(_arms(), functions=_functions(terms), changes=(100, 200), noise=noise)


def slow(noise: float, terms: int = 20, legs: int = 1) -> DriftWorld:
    """f4 + (f5 - f4) t / T, or on to f6 in a second leg."""
    return DriftWorld(_arms(), functions=_functions(terms), horizon=HORIZON, legs=legs, noise=noise)


def _arms() -> Grid:
    return Grid.regular(points=100, dim=1)


def _functions(terms: int) -> RKHSFunctions:
    return RKHSFunctions(unit_kernel("se", 0.2), terms=terms)


class Forgetting(NamedTuple):
    """How fast the strategies with a variation budget forget.

    Attributes:
        period: H of BR-GP-UCB and W of SW-GP-UCB, in rounds.
        gamma: Discount γ of WGP-UCB.
    """

    period: int
    gamma: float


def forgetting(budget: float, horizon: int = HORIZON) -> Forgetting:
    """H = W = ⌈γ̇^¼ (T / B_T)^½⌉ and γ = 1 - γ̇^-¼ (B_T / T)^½ with γ̇ = ln² T, [W22] Corollary 5.

    Args:
        budget: Variation budget B_T, positive.
        horizon: Rounds T.
    """
    gain = math.log(horizon) ** 2
    return Forgetting(budget_period(horizon, budget, gain), discount(horizon, gain, budget))


@cache
def _survey(make: Make) -> tuple[float, Forgetting]:
    """B and the speed of forgetting, which do not depend on the noise."""
    world = make(1.0)
    return largest_norm(world, TRIALS), forgetting(variation(world, TRIALS, HORIZON))


def line_up(
    kernel: Kernel | Tensor, noise: float, B: float, memory: Forgetting
) -> dict[str, Strategy]:
    """The strategies of [W22] and ET-GP-UCB, with the widths of IGP-UCB and WGP-UCB.

    Args:
        kernel: Covariance of the arms.
        noise: Variance λ = R² of the noise.
        B: Bound on the norms of the objectives.
        memory: How fast the budgeted strategies forget.
    """
    period, gamma = memory
    width = IGPUCB(B=B, R=noise**0.5, delta=DELTA)
    return {
        "IGP-UCB": igp_ucb(kernel=kernel, noise=noise, B=B, delta=DELTA),
        "BR-GP-UCB": br_gp_ucb(kernel=kernel, noise=noise, period=period, B=B, delta=DELTA),
        "SW-GP-UCB": sw_gp_ucb(kernel=kernel, noise=noise, window=period, B=B, delta=DELTA),
        "WGP-UCB": w_gp_ucb(kernel=kernel, noise=noise, gamma=gamma, B=B, delta=DELTA),
        "ET-GP-UCB": et_gp_ucb(kernel=kernel, noise=noise, delta=0.1, width=width),
    }


def strategies(noise: float, *, make: Make) -> dict[str, Strategy]:
    """:func:`line_up` for a world that is drawn."""
    return line_up(unit_kernel("se", 0.2), noise, *_survey(make))


def case(title: str, variance: float, make: Make) -> Drawn:
    """A study on one of these worlds."""
    return Drawn(title, variance, make, partial(strategies, make=make), horizon=HORIZON)


def _experiment(id: str, title: str, make: Make, claims: Sequence[Claim], paper: str) -> Experiment:
    cases = {name: case(f"σ² = {noise:g}", noise, make) for name, noise in NOISES.items()}
    return Experiment(
        id=id,
        title=title,
        paper=paper,
        horizon=HORIZON,
        trials=TRIALS,
        cases=cases,
        score=partial(judge, claims),
        remark=_STATIC_WINS,
    )


DROPPING = ("BR-GP-UCB", "SW-GP-UCB")
FORGETTING = (*DROPPING, "WGP-UCB")
_WEIGHTS_WIN = [Claim("noise-1", "WGP-UCB", other, 2.0) for other in DROPPING]  # [W22] §7
_ABRUPT = [
    *(Claim("noise-0.1", "ET-GP-UCB", other) for other in ("IGP-UCB", *FORGETTING)),
    *(Claim("noise-1", "ET-GP-UCB", other) for other in DROPPING),  # [ET] Appendix A
    *_WEIGHTS_WIN,
]
_APPENDIX = [Claim("noise-1", "WGP-UCB", other, 2.0) for other in ("IGP-UCB", *DROPPING)]
_MAIN_TEXT = (
    "WGP-UCB outperforms BR- and SW-GP-UCB, with noise of variance 1; in the rerun of [ET] with "
    "0.1, ET-GP-UCB outperforms all."
)
_APPENDIX_TEXT = (
    "WGP-UCB outperforms IGP-, BR- and SW-GP-UCB; BR- and SW-GP-UCB may be worse than IGP-UCB."
)
_SLOW = [
    Claim("noise-0.1", "ET-GP-UCB", "IGP-UCB", NOT_WORSE),
    *(Claim("noise-0.1", "ET-GP-UCB", other) for other in FORGETTING),
    Claim("noise-1", "ET-GP-UCB", "IGP-UCB", NOT_WORSE),
    *_WEIGHTS_WIN,
]
_STATIC_WINS = (
    "Functions are drawn anew for every trial and widths are those of theory; the papers' numbers "
    "depend on the functions they drew. With these, IGP-UCB, which never forgets, pays less than "
    "WGP-UCB in all four studies."
)
abrupt_of_100 = partial(abrupt, terms=100)
slow_in_two_legs = partial(slow, terms=100, legs=2)

ABRUPT = _experiment(
    "w22-abrupt",
    "Functions that are replaced at a stroke",
    abrupt,
    _ABRUPT,
    _MAIN_TEXT,
)
SLOW = _experiment(
    "w22-slow",
    "Functions that turn slowly into others",
    slow,
    _SLOW,
    _MAIN_TEXT,
)
ABRUPT_100 = _experiment(
    "w22-abrupt-100",
    "Functions of 100 terms that are replaced at a stroke, as in the appendix",
    abrupt_of_100,
    _APPENDIX,
    _APPENDIX_TEXT,
)
SLOW_100 = _experiment(
    "w22-slow-100",
    "Functions of 100 terms that drift in two legs, as in the appendix",
    slow_in_two_legs,
    _APPENDIX,
    _APPENDIX_TEXT,
)
