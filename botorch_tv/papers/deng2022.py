"""[W22]: functions of a reproducing kernel Hilbert space that change abruptly or slowly.

[W22] compares WGP-UCB with IGP-, BR- and SW-GP-UCB; [ET] repeats this in its Table 1 with
ET-GP-UCB besides and less noise. Both variances of the noise are run: 0.1 of [ET]'s rerun and 1 of
[W22]'s code. Functions are drawn anew for every trial; the papers' numbers depend on the functions
they drew, so that only orders can be compared. One of them is not found again: [W22] sees
WGP-UCB beat IGP-UCB in its appendix, but with functions drawn anew and these widths IGP-UCB is the
better of the two in all four studies.

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

from botorch_tv.acquisition import IGPUCB
from botorch_tv.papers.experiment import Case, Experiment, draw_panels
from botorch_tv.papers.order import Claim, judge
from botorch_tv.papers.surveys import largest_norm, variation
from botorch_tv.simulation import AbruptWorld, DriftWorld, KernelSum
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
TERMS = 20
NOISES = {"noise-0.1": 0.1, "noise-1": 1.0}
NOT_WORSE = -2.0

Make = Callable[[float], AbruptWorld | DriftWorld]


def abrupt(noise: float) -> AbruptWorld:
    """f1 for t < 100, f2 to 200, f3 after."""
    return AbruptWorld(_arms(), functions=_functions(), changes=(100, 200), noise=noise)


def slow(noise: float) -> DriftWorld:
    """f4 + (f5 - f4) t / T."""
    return DriftWorld(_arms(), functions=_functions(), horizon=HORIZON, noise=noise)


def _arms() -> Grid:
    return Grid.regular(points=100, dim=1)


def _functions() -> KernelSum:
    return KernelSum(unit_kernel("se", 0.2), terms=TERMS)


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


def _strategies(noise: float, *, make: Make) -> dict[str, Strategy]:
    kernel = unit_kernel("se", 0.2)
    B, (period, gamma) = _survey(make)
    width = IGPUCB(B=B, R=noise**0.5, delta=0.1)
    return {
        "IGP-UCB": igp_ucb(kernel=kernel, noise=noise, B=B, delta=0.1),
        "BR-GP-UCB": br_gp_ucb(kernel=kernel, noise=noise, period=period, B=B, delta=0.1),
        "SW-GP-UCB": sw_gp_ucb(kernel=kernel, noise=noise, window=period, B=B, delta=0.1),
        "WGP-UCB": w_gp_ucb(kernel=kernel, noise=noise, gamma=gamma, B=B, delta=0.1),
        "ET-GP-UCB": et_gp_ucb(kernel=kernel, noise=noise, delta=0.1, width=width),
    }


def _experiment(id: str, title: str, make: Make, claims: Sequence[Claim]) -> Experiment:
    cases = {
        name: Case(f"σ² = {noise:g}", make, partial(_strategies, make=make))
        for name, noise in NOISES.items()
    }
    return Experiment(
        id=id,
        title=title,
        horizon=HORIZON,
        trials=TRIALS,
        noise=NOISES,
        cases=cases,
        score=partial(judge, claims),
        picture=partial(draw_panels, cases),
    )


_DROPPING = ("BR-GP-UCB", "SW-GP-UCB")
_FORGETTING = (*_DROPPING, "WGP-UCB")
_WEIGHTS_WIN = [Claim("noise-1", "WGP-UCB", other, 2.0) for other in _DROPPING]  # [W22] §7

ABRUPT = _experiment(
    "w22-abrupt",
    "ET-GP-UCB pays least regret where functions are replaced at a stroke",
    abrupt,
    [
        *(Claim("noise-0.1", "ET-GP-UCB", other) for other in ("IGP-UCB", *_FORGETTING)),
        *(Claim("noise-1", "ET-GP-UCB", other) for other in _DROPPING),  # [ET] Appendix A
        *_WEIGHTS_WIN,
    ],
)

SLOW = _experiment(
    "w22-slow",
    "ET-GP-UCB is no worse than IGP-UCB on a slow drift, and better than strategies that forget",
    slow,
    [
        Claim("noise-0.1", "ET-GP-UCB", "IGP-UCB", NOT_WORSE),
        *(Claim("noise-0.1", "ET-GP-UCB", other) for other in _FORGETTING),
        Claim("noise-1", "ET-GP-UCB", "IGP-UCB", NOT_WORSE),
        *_WEIGHTS_WIN,
    ],
)
