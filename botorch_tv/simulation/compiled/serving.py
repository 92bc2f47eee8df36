"""Whether rounds are compiled, of which strategies, and what the covariance is there."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import torch

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.product_basis import ProductBasis
from botorch_tv.simulation.compiled.parts import Factors, Sides
from botorch_tv.simulation.in_numbers.known import MOST_SLOTS, known, plain
from botorch_tv.simulation.in_numbers.rules import Rules
from botorch_tv.simulation.worlds import World
from botorch_tv.simulation.worlds.base import GridWorld
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import require, shown

FIRST_SLOTS = 48
"""Arms that there is room for at first, a multiple of three."""
WORTH_COMPILING = 2**30
"""Trials x rounds x arms x strategies from which on compiling, about ten seconds unless it has been
done before, pays: rounds of about half a minute."""


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


def factors(basis: Basis) -> Factors:
    """The covariance of a basis: a product over dimensions, or a matrix of few arms."""
    if isinstance(basis, ProductBasis):
        left, right = halves(basis)
        rows = padded(right, 3)
        return Factors(sides(basis)[0], rows, left @ left.T, right @ right.T, product=True)
    every = torch.arange(basis.arms, device="cpu")
    covariance = np.ascontiguousarray(basis.gram(every).numpy())
    one = np.ones((1, 1))
    return Factors(nowhere(one), covariance, one, covariance, product=False)


def halves(basis: ProductBasis) -> tuple[np.ndarray, np.ndarray]:
    """Features along the first dimensions and along the last one, `n_1 x r_1` and `n_2 x r_2`."""
    *first, last = basis.factors
    return functools.reduce(torch.kron, first).numpy(), last.numpy()


def sides(basis: ProductBasis) -> tuple[Sides, np.ndarray]:
    """What brings coordinates to the arms, and the places of a basis's own ones among them.

    Returns:
        The features, and places in the flattened `r_1 x r_2` matrix of coordinates, `r`.
    """
    left, right = halves(basis)
    points, rank = left.shape
    even, odd = (np.flatnonzero((left[::-1] == sign * left).all(0)) for sign in (1, -1))
    mirrored = len(even) + len(odd) == rank
    columns = np.arange(rank)
    width, height = rank + -rank % 6, points + points % 2
    if mirrored:
        half = max(len(even), len(odd))
        half += -half % 3
        columns[even], columns[odd] = np.arange(len(even)), half + np.arange(len(odd))
        width, height = 2 * half, points
    wide = np.zeros((height, width))
    wide[:points, columns] = left
    found = Sides(wide, np.ascontiguousarray(padded(right, 3).T), mirrored)
    first, second = np.divmod(basis.kept.numpy(), right.shape[1])
    return found, columns[first] * len(found.right) + second


def nowhere(left: np.ndarray) -> Sides:
    """What brings nothing to the arms, where it is there already."""
    return Sides(left, np.zeros((0, 0)), mirrored=False)


def padded(matrix: np.ndarray, columns: int) -> np.ndarray:
    """A matrix with zeros behind it, so that it has a multiple of so many columns."""
    return np.pad(matrix, ((0, 0), (0, -matrix.shape[1] % columns)))
