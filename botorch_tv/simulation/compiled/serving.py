"""Which strategies are played by compiled rounds, and what they are in numbers."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch

from botorch_tv.acquisition import UpperConfidence
from botorch_tv.acquisition.exploration import TIE_TOLERANCE
from botorch_tv.forgetting import (
    EventTrigger,
    PeriodicReset,
    Retention,
    SlidingWindow,
    prediction_error,
)
from botorch_tv.forgetting.retention import prediction_band
from botorch_tv.inference.arm_recursion import ArmRecursion
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.costs import REFRESH_ROUNDS
from botorch_tv.inference.product_basis import ProductBasis
from botorch_tv.inference.recursion import amplifies
from botorch_tv.simulation.compiled.parts import Factors, Rules
from botorch_tv.simulation.compiled.widths import knows_width, width_tables
from botorch_tv.simulation.worlds import World
from botorch_tv.simulation.worlds.base import GridWorld
from botorch_tv.simulation.worlds.markov import MarkovWorld
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import require, shown

MOST_SLOTS = 512
"""Arms played up to which their inverse, which every round passes over, stays in a cache."""
FIRST_SLOTS = 48
"""Arms that there is room for at first, a multiple of three."""
MOST_ARMS = 512
"""Arms up to which rows of a covariance that is no product are cheaper than a matrix product of
all trials."""
WORTH_COMPILING = 2**30
"""Trials x rounds x arms x strategies from which on compiling, about ten seconds unless it has been
done before, pays: rounds of about half a minute."""


PLAIN = (GridWorld.objectives, MarkovWorld.objectives)
"""How worlds bring objectives that are values on the arms."""


def require_compiled(wanted: bool | None, world: World, rounds: int, device: torch.device) -> bool:
    """Whether a study compiles its rounds, or captures them.

    Args:
        wanted: What is asked for; None where the work ahead decides. On a GPU nothing is captured
            unless asked for.
        world: Where objectives are drawn from.
        rounds: Of all strategies in all trials.
        device: Where they are played.

    Raises:
        ImportError: If it is asked for on a CPU and there is no compiler.
        ValueError: If it is neither asked for nor not.
    """
    require(
        wanted is None or isinstance(wanted, bool),
        f"run_study: compiled is {shown(wanted)}; give True, False, or None to let the size of the "
        "study decide.",
    )
    if device.type != "cpu":
        return wanted is True
    available = find_spec("numba") is not None
    if wanted and not available:
        raise ImportError(
            "run_study: rounds are compiled by Numba, which is not installed; "
            "pip install 'botorch-tv[fast]', or compiled=False."
        )
    if wanted is None:
        arms = len(world.domain) if isinstance(world, GridWorld) else 0
        return available and rounds * arms >= WORTH_COMPILING
    return wanted


class TooManyArms(Exception):
    """A trial holds more arms than :data:`MOST_SLOTS`: the recursion is faster.

    Attributes:
        label: Of the strategy.
    """

    def __init__(self, label: str) -> None:
        super().__init__(label)
        self.label = label


class Known(NamedTuple):
    """A strategy in numbers."""

    rules: Rules
    slots: int
    """Most arms that a trial can hold at a time."""


@dataclass(frozen=True)
class Service:
    """A strategy as compiled rounds know it.

    Attributes:
        factors: Of its kernel.
        rules: All else.
        slots: Most arms that a trial can hold at a time, a multiple of three.
    """

    factors: Factors
    rules: Rules
    slots: int

    def room(self, needed: int, held: int) -> int:
        """Arms to make room for, a multiple of three, where there is room for some already."""
        if needed <= held:
            return held
        return min(max(needed + -needed % 3, 2 * held), self.slots)


def served(
    world: World, strategies: Mapping[str, Strategy], states: Mapping[str, State], horizon: int
) -> dict[str, Service]:
    """What compiled rounds play, by label.

    Args:
        world: Where objectives are drawn from; nothing is served on one that goes its own way.
        strategies: By label.
        states: A state of each.
        horizon: Rounds T.
    """
    if not plain(world) or find_spec("numba") is None:  # a worker may do without
        return {}
    found = {label: service(one, states[label], horizon) for label, one in strategies.items()}
    return {label: one for label, one in found.items() if one is not None}


def plain(world: World) -> bool:
    """Whether a world is one on a grid that goes no way of its own."""
    if not isinstance(world, GridWorld) or type(world).available is not World.available:
        return False
    kind = type(world)
    return kind.objectives in PLAIN and kind.first_arm is GridWorld.first_arm


def service(strategy: Strategy, state: State, horizon: int) -> Service | None:
    """A strategy as compiled rounds know it, on a CPU; None where they do not.

    Of an objective that stands still some arms are soon known to be no good, and a reset forgets
    them, so that few are held however many there are. One that moves is looked at everywhere.
    """
    found, basis = known(strategy, state, horizon), state.basis
    if found is None or not isinstance(basis, Basis) or basis.variance.device.type != "cpu":
        return None
    if found.rules.moves and found.slots > MOST_SLOTS:
        return None
    return Service(factors(basis), found.rules, found.slots + -found.slots % 3)


def known(strategy: Strategy, state: State, horizon: int) -> Known | None:
    """A strategy in numbers; None where rounds that are compiled or captured do not know it.

    They know upper confidence bounds, a known mean, noise that does not age and that rounding is
    small beside, one rule of retention at most, and float64.
    """
    process, basis = strategy.process, state.basis
    if not (
        type(strategy) is Strategy
        and isinstance(basis, Basis)
        and not amplifies(strategy.noise, basis)
        and isinstance(strategy.inference_for(state.domain, basis), ArmRecursion)
        and strategy.exploration == UpperConfidence()
        and knows_width(strategy.width, horizon)
        and process.known_mean is not None
    ):
        return None
    rules = process.retention
    if len(rules) > 1 or (process.slides and process.moves):
        return None
    if rules and not _knows(rules[0]):
        return None
    kept = process.most_kept(horizon)
    # Between two refreshments a window has room for what it left out.
    slots = min(kept + REFRESH_ROUNDS + 1 if process.slides else kept, horizon, basis.arms)
    # Rows of a covariance that is no product are as long as there are arms.
    short = isinstance(basis, ProductBasis) or basis.arms <= MOST_ARMS
    if not short:
        return None
    return Known(_rules(strategy, state, horizon), slots)


def _knows(rule: Retention) -> bool:
    """Whether a rule is one of those that the rounds are written for."""
    if isinstance(rule, EventTrigger):
        return type(rule) is EventTrigger and rule.rule is prediction_error
    return type(rule) in (PeriodicReset, SlidingWindow)


def _rules(strategy: Strategy, state: State, horizon: int) -> Rules:
    process, basis = strategy.process, state.basis
    assert isinstance(basis, Basis)
    assert process.known_mean is not None
    rule = process.retention[0] if process.retention else None
    ages = torch.arange(horizon + 1, dtype=torch.float64, device="cpu")
    sqrt_beta, gain_root, gain_slope = width_tables(strategy.width, state.domain.dim, horizon)
    band_sd = band_noise = np.empty(0)
    if isinstance(rule, EventTrigger):
        since = torch.arange(1, horizon + 2, device="cpu")
        one = torch.ones(horizon + 1, dtype=torch.float64, device="cpu")
        bands = (
            prediction_band(one, 0.0, since, rule.delta),
            prediction_band(torch.zeros_like(one), strategy.noise, since, rule.delta),
        )
        # Rounds count from 1.
        band_sd, band_noise = (np.concatenate([[0.0], one.numpy()]) for one in bands)
    return Rules(
        variance=basis.variance.cpu().numpy(),
        noise=strategy.noise,
        mean=process.known_mean,
        tie=TIE_TOLERANCE * basis.scale,
        sign=1.0 if strategy.maximize else -1.0,
        sqrt_beta=sqrt_beta,
        gain_root=gain_root,
        gain_slope=gain_slope,
        moves=process.moves,
        attenuation=process.decay.transition(ages, ages + 1).numpy(),
        prior=process.decay.prior_variance(ages).numpy(),
        period=int(rule.period) if isinstance(rule, PeriodicReset) else 0,
        window=int(rule.window) if isinstance(rule, SlidingWindow) else 0,
        band_sd=band_sd,
        band_noise=band_noise,
    )


def factors(basis: Basis) -> Factors:
    """The covariance of a basis: a product over dimensions, or a matrix of few arms."""
    if isinstance(basis, ProductBasis):
        left, right = halves(basis)
        first, second = left @ left.T, right @ right.T
        rows = padded(right, columns=3)
        return Factors(
            left=padded(left, rows=2, columns=3),
            right=np.ascontiguousarray(rows.T),
            rows=rows,
            first=first,
            second=second,
            product=True,
        )
    every = torch.arange(basis.arms, device="cpu")
    covariance = np.ascontiguousarray(basis.gram(every).numpy())
    one = np.ones((1, 1))
    return Factors(one, np.empty((0, 0)), covariance, one, covariance, product=False)


def halves(basis: ProductBasis) -> tuple[np.ndarray, np.ndarray]:
    """Features along the first dimensions and along the last one, `n_1 x r_1` and `n_2 x r_2`."""
    *first, last = basis.factors
    return functools.reduce(torch.kron, first).numpy(), last.numpy()


def padded(matrix: np.ndarray, rows: int = 1, columns: int = 1) -> np.ndarray:
    """A matrix with zeros behind it, so that its sizes are multiples of two numbers."""
    height, width = matrix.shape
    return np.pad(matrix, ((0, -height % rows), (0, -width % columns)))
