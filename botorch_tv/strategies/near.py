"""Searches near a setting: the points that differ from it by a limited step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.gp.search import DiscreteSearch
from botorch_tv.strategies.box import Box, searched
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.feasible import Cost, Feasible, MoveCost
from botorch_tv.strategies.parameters import BoxParameter, Space
from botorch_tv.strategies.state import State
from botorch_tv.validation import real_tensor, require_number, shown

Setting = Mapping[str, Any] | Tensor | Sequence[float]
"""Type of a setting or of a step: values by name, or coordinates `d`."""
FAR = 100.0
"""Risk of a point that is not near a setting, as a multiple of the allowed risk."""
ROUNDING = 1e-12
"""Rounding error of a step, relative to the coordinates."""


def near(state: State, at: Setting, reach: Setting) -> State:
    """A state whose choices and recommendations are near a setting: |x - at| ≤ reach.

    Several such states may be nested, and parameters may be held; see
    :func:`~botorch_tv.strategies.box.holding`.

    Args:
        state: A state on a box; of one trial if parameters are named.
        at: The setting: values by name in their units, or a point of the domain, `d`.
        reach: The largest step of each parameter, by name in its units; other parameters are not
            restricted. Positions count for ordered choices. Without names, `d` numbers in the units
            of the box, infinite for no restriction.

    Raises:
        InputDataError: If a name is unknown, if a parameter is a choice without an order, or if no
            point is near the setting.
        ValueError: If a step is negative or not a number.
    """
    box = state.domain
    assert isinstance(box, Box)
    if isinstance(box.search, DiscreteSearch):
        X = box.search.X[within(box, box.search.X, at, reach)]
        if not len(X):
            raise InputDataError(f"no candidate of {box!r} lies within {reach} of {at}.")
        return searched(state, DiscreteSearch(X))
    search, own = box.named_search, state.basis.variance
    if search is None:
        center, most = _row(at, box.dim, own), _row(reach, box.dim, own)
        lower, upper = box.part.like(own)
        lower, upper = torch.maximum(lower, center - most), torch.minimum(upper, center + most)
        if bool((lower > upper).any()):
            raise InputDataError(f"no point of {box!r} lies within {shown(reach)} of {shown(at)}.")
        return searched(state, box.search, torch.stack([lower, upper]))
    ranges = dict(search.ranges)
    for name, number, value, step in _steps(search.space, at, reach):
        before_low, before_high = ranges.get(name, (number.low, number.high))
        low, high = max(before_low, value - step), min(before_high, value + step)
        low, high = number.between(low, high, own.dtype) if low <= high else (1.0, 0.0)
        if low > high:
            raise InputDataError(
                f"no value of {name} lies within {step:g} of {value:g} and in its range; allow a "
                "larger step."
            )
        ranges[name] = (low, high)
    return searched(state, replace(search, ranges=ranges))


def within(domain: Domain, X: Tensor, at: Setting, reach: Setting) -> Tensor:
    """Whether points are near a setting, `*`, bool; see :func:`near`.

    Args:
        domain: A box or a grid.
        X: Points of the domain, `* x d`; a context may follow.
        at: The setting.
        reach: The largest steps.

    Raises:
        InputDataError, ValueError: As for :func:`near`.
    """
    search = domain.named_search if isinstance(domain, Box) else None
    X = X[..., : domain.dim]
    if search is None:
        center, most = _row(at, domain.dim, X), _row(reach, domain.dim, X)
        return ((X - center).abs() <= most + ROUNDING * (center.abs() + most)).all(-1)
    good = torch.ones(X.shape[:-1], dtype=torch.bool, device=X.device)
    places = {name: at for name, _, at in search.space.parts}
    for name, number, value, step in _steps(search.space, at, reach):
        apart = (number.along(X[..., places[name]]) - value).abs()
        good &= apart <= step + ROUNDING * (abs(value) + step)
    return good


class Moves(NamedTuple):
    """The largest steps from a setting, and the cost of moves from it; each may be None.

    Attributes:
        at: The coordinates of the setting; a context may follow.
        max_step: The largest steps, as for :func:`near`.
        cost: The cost of a move, as for :class:`~botorch_tv.strategies.feasible.MoveCost`.
    """

    at: Sequence[float]
    max_step: Setting | None = None
    cost: Cost | None = None

    def price(self, state: State) -> MoveCost | None:
        """The cost of moves from the setting, on the domain of a state; None without any."""
        at = state.basis.variance.new_tensor(self.at)
        return MoveCost(state.domain, at, self.cost) if self.cost else None


class Within(Feasible):
    """Points near a setting are allowed, and no others; for grids, whose points are listed.

    Args:
        domain: The domain.
        at: The setting.
        reach: The largest steps, as for :func:`near`.
    """

    def __init__(self, domain: Domain, at: Setting, reach: Setting) -> None:
        self.domain, self.at, self.reach = domain, at, reach

    def judge(self, X: Tensor) -> tuple[Tensor, Tensor]:
        inside = within(self.domain, X, self.at, self.reach)
        return torch.ones_like(X[..., 0]), torch.where(inside, 0.0, FAR).to(X)


def _row(values: Setting, dim: int, own: Tensor) -> Tensor:
    """Coordinates `d` in the dtype and on the device of ``own``; a context may follow."""
    row = None if isinstance(values, Mapping) else real_tensor(values, own)
    if row is None or row.dim() != 1 or len(row) < dim or bool(row.isnan().any()):
        raise InputDataError(f"{shown(values)} must be {dim} numbers, one per coordinate.")
    return row[:dim]


def _steps(
    space: Space, at: Setting, reach: Setting
) -> Iterator[tuple[str, BoxParameter, float, float]]:
    """Name, number, value and largest step of each restricted parameter."""
    numbers = {name: axis.number for name, axis in space.by_name.items() if axis.number}
    if not isinstance(reach, Mapping) or not set(reach) <= set(numbers):
        raise InputDataError(
            f"the largest steps are {shown(reach)}, but they must be given by name, for some of "
            f"the parameters {', '.join(sorted(numbers))}."
        )
    if not isinstance(at, Mapping):
        X = at if isinstance(at, Tensor) else torch.tensor(at, dtype=torch.float64, device="cpu")
        at = space.read(X.cpu(), outside=True)  # the ranges may have changed since
    for name, step in reach.items():
        most = require_number(f"step of {name}", step, "[0, inf]", "give a number.")
        yield name, numbers[name], space.by_name[name].position(at[name]), most
