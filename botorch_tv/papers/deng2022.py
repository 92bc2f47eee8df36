"""[W22]: functions of a reproducing kernel Hilbert space that change abruptly or slowly.

[W22] compares WGP-UCB with IGP-, BR- and SW-GP-UCB; [ET] repeats this in its Table 1, with
ET-GP-UCB added and less noise. Functions are drawn anew for every trial; the papers' numbers depend
on the functions drawn there, so that only orders can be compared.

Settings that theory derives from the functions hold for the study as a whole. B_T is the mean over
trials of Σ max_x |f_{t+1}(x) - f_t(x)|, computed from the functions round by round. The paper does
not give B, so there are two readings: the largest norm of any function of the study, as theory
requires, and 1, which is far smaller. (In [W22] the budget bounds the changes in norm, not in
maximum, but the rule holds only up to a constant anyway.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import IGPUCB
from botorch_tv.papers.cases import Drawn
from botorch_tv.papers.experiment import Experiment
from botorch_tv.papers.order import Claim, Quantity, judge_readings, similar
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

if TYPE_CHECKING:
    from botorch_tv.simulation import StudyResult

HORIZON = 500
TRIALS = 200
DELTA = 0.1
NOISES = {"noise-0.1": 0.1, "noise-1": 1.0}

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
    """The largest norm and the forgetting, which do not depend on the noise."""
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


def strategies(noise: float, *, make: Make, B: float | None = None) -> dict[str, Strategy]:
    """:func:`line_up` for a drawn world; B is the largest norm by default."""
    norm, memory = _survey(make)
    return line_up(unit_kernel("se", 0.2), noise, norm if B is None else B, memory)


def case(title: str, variance: float, make: Make, B: float | None = None) -> Drawn:
    """A case on one of these worlds."""
    return Drawn(title, variance, make, partial(strategies, make=make, B=B), horizon=HORIZON)


READINGS: dict[str, float | None] = {"": None, "-B-1": 1.0}
"""B by the suffix of the names of cases; None is the largest norm."""
_READING_TITLES = {"": "the largest norm for B", "-B-1": "B = 1"}


def _experiment(
    id: str, title: str, make: Make, claims: Callable[[str], Sequence[Claim | Quantity]], paper: str
) -> Experiment:
    """An experiment with a case for every noise variance and every reading of B.

    Args:
        id: Name on the command line.
        title: One line on what it shows.
        make: Makes the world from the noise variance.
        claims: The papers' claims, by the suffix of the names of cases.
        paper: What the papers report.
    """
    cases = {
        name + end: case(
            f"σ² = {noise:g}, {'B the largest norm' if B is None else 'B = 1'}", noise, make, B
        )
        for end, B in READINGS.items()
        for name, noise in NOISES.items()
    }
    return Experiment(
        id=id,
        title=title,
        paper=paper,
        horizon=HORIZON,
        trials=TRIALS,
        cases=cases,
        score=partial(judge_readings, {_READING_TITLES[end]: claims(end) for end in READINGS}),
        remark=_DRAWN_ANEW,
    )


def share_with_reset(label: str, first: int, last: int) -> Callable[[StudyResult], float]:
    """Measures the share of trials in which a strategy resets from round first to last."""

    def measure(result: StudyResult) -> float:
        rounds = result.resets.sel(strategy=label, round=slice(first, last))
        return float(rounds.any("round").mean())

    return measure


DROPPING = ("BR-GP-UCB", "SW-GP-UCB")
FORGETTING = (*DROPPING, "WGP-UCB")
_EVENT = "ET-GP-UCB"
DETECTED_WITHIN = 50
"""Rounds after a change in which a reset counts as its detection."""


def _weights_win(end: str) -> list[Claim]:
    """The claim of [W22] §7."""
    return [Claim(f"noise-1{end}", "WGP-UCB", other, 2.0) for other in DROPPING]


def _abrupt(end: str) -> list[Claim | Quantity]:
    """The claims of [W22] §7, and of [ET] Appendix A for less and for equal noise."""
    detections = [
        Quantity(
            f"noise-1{end}",
            f"share of trials in which ET-GP-UCB resets within {DETECTED_WITHIN} rounds of round "
            f"{change}",
            share_with_reset(_EVENT, change, change + DETECTED_WITHIN),
            least,
            most,
        )
        for change, least, most in ((100, 0.9, 1.0), (200, 0.3, 0.7))
    ]
    return [
        *(Claim(f"noise-0.1{end}", _EVENT, other) for other in ("IGP-UCB", *FORGETTING)),
        *(Claim(f"noise-1{end}", _EVENT, other) for other in DROPPING),
        *_weights_win(end),
        *detections,
    ]


def _slow(end: str) -> list[Claim | Quantity]:
    """The claims of [W22] §7, and of [ET] Appendix A for less and for equal noise."""
    return [
        *(Claim(f"noise-0.1{end}", _EVENT, other, 2.0) for other in ("IGP-UCB", *FORGETTING)),
        similar(f"noise-1{end}", _EVENT, "WGP-UCB"),
        *_weights_win(end),
    ]


def _appendix(end: str) -> list[Claim | Quantity]:
    """The claim of [W22] Appendix E."""
    return [Claim(f"noise-1{end}", "WGP-UCB", other, 2.0) for other in ("IGP-UCB", *DROPPING)]


_ABRUPT_TEXT = (
    '[W22], noise of variance 1: WGP-UCB "outperforms two algorithms uniformly", BR- and '
    'SW-GP-UCB. [ET], noise 0.1: ET-GP-UCB "can outperform all baselines"; noise 1: it "can '
    'reliably detect the first change" and "the second change approx. 50% of the time", and '
    "outperforms BR- and SW-GP-UCB."
)
_SLOW_TEXT = (
    '[W22], noise of variance 1: WGP-UCB "outperforms two algorithms uniformly", BR- and '
    'SW-GP-UCB. [ET], noise 0.1: ET-GP-UCB "is the best performing algorithm"; noise 1: it '
    '"shows a similar performance as" WGP-UCB.'
)
_APPENDIX_TEXT = (
    'Appendix E: WGP-UCB "outperforms three algorithms over all experiments", IGP-, BR- and '
    'SW-GP-UCB; the last two "may be worse than IGP-UCB in some cases".'
)
_DRAWN_ANEW = (
    "Functions are drawn anew for every trial; the papers' numbers depend on the functions they "
    "drew. B decides: with the largest norm for it, which theory asks for, widths of those that "
    "forget are far beyond need, and IGP-UCB, which never forgets, pays less than WGP-UCB."
)
abrupt_of_100 = partial(abrupt, terms=100)
slow_in_two_legs = partial(slow, terms=100, legs=2)

ABRUPT = _experiment(
    "w22-abrupt",
    "Functions that are replaced at a stroke",
    abrupt,
    _abrupt,
    _ABRUPT_TEXT,
)
SLOW = _experiment(
    "w22-slow",
    "Functions that turn slowly into others",
    slow,
    _slow,
    _SLOW_TEXT,
)
ABRUPT_100 = _experiment(
    "w22-abrupt-100",
    "Functions of 100 terms that are replaced at a stroke, as in the appendix",
    abrupt_of_100,
    _appendix,
    _APPENDIX_TEXT,
)
SLOW_100 = _experiment(
    "w22-slow-100",
    "Functions of 100 terms that drift in two legs, as in the appendix",
    slow_in_two_legs,
    _appendix,
    _APPENDIX_TEXT,
)
