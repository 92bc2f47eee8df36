"""What the recorders of a study record together: names, shapes and types, known before any work."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import xarray as xr

from botorch_tv.simulation.recorders.play import Play
from botorch_tv.simulation.recorders.recorder import Recorder, Variable
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain
from botorch_tv.validation import require

DIMENSIONS = ("strategy", "trial", "round")


@dataclass(frozen=True)
class ResultLayout:
    """Variables of a study.

    Args:
        variables: By name.
        empty: The result before any trial is played.
    """

    variables: Mapping[str, Variable]
    empty: xr.Dataset

    @classmethod
    def of(
        cls,
        record: Sequence[Recorder],
        domain: Domain,
        strategies: Mapping[str, Strategy],
        *,
        horizon: int,
        dtype: str,
    ) -> ResultLayout:
        """The variables of all recorders, those of every study first.

        Raises:
            ValueError: If two recorders record the same, or do not fit together or this domain.
        """
        labels = {
            "strategy": list(strategies),
            "trial": np.arange(0),
            "round": np.arange(1, horizon + 1),
        }
        variables: dict[str, Variable] = {}
        empty = xr.Dataset(coords=labels)
        for one in (Play(), *record):
            own, given = one.variables(domain), one.labels(domain, strategies)
            try:
                blank = xr.Dataset()
                for name, variable in own.items():
                    blank = blank.assign(_blank(name, variable, empty.sizes, dtype))
                recorded = {*variables, *map(error_of, variables)}
                taken = {*blank.variables} & {*empty.variables, *given.variables}
                taken |= recorded & {*map(str, given.variables)}
                require(not taken, f"{', '.join(sorted(map(str, taken)))} is there already")
                # What else does not fit is told by xarray, such as sizes.
                empty = empty.merge(given, compat="no_conflicts", join="exact").merge(blank)
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"run_study: {one!r} does not go with the other recorders: {error}"
                ) from error
            variables |= own
        return cls(variables, empty)

    @cached_property
    def every_round(self) -> dict[str, Variable]:
        """Those kept of every round of every trial."""
        return {name: one for name, one in self.variables.items() if not one.averaged}

    @cached_property
    def averaged(self) -> dict[str, Variable]:
        """Those averaged over rounds and trials."""
        return {name: one for name, one in self.variables.items() if one.averaged}

    @property
    def horizon(self) -> int:
        """Rounds per trial."""
        return self.empty.sizes["round"]

    def shape_of(self, name: str, trials: int, strategies: int | None = None) -> tuple[int, ...]:
        """The shape of a variable over some trials, and all strategies unless told."""
        sizes = {**self.empty.sizes, "trial": trials}
        if strategies is not None:
            sizes["strategy"] = strategies
        return tuple(sizes[one] for one in self.empty[name].dims)

    @property
    def numbers_per_trial(self) -> int:
        """Numbers that a strategy's records of a trial are, while it is played."""
        rounds = sum(math.prod(one.shape) for one in self.every_round.values())
        return self.horizon * rounds + sum(math.prod(one.shape) for one in self.averaged.values())

    def bytes_of(self, trials: int, strategies: int | None = None) -> int:
        """What the records of some trials take in memory or a file."""
        each = {
            name: math.prod(self.shape_of(name, trials, strategies))
            * self.empty[name].dtype.itemsize
            for name in self.variables
        }
        return sum(each.values()) + sum(each[name] for name in self.averaged)  # and their scatter


def scatter_of(name: str) -> str:
    """Name of the sum of squared deviations that goes with an average, until chunks are joined."""
    return f"{name}_scatter"


def error_of(name: str) -> str:
    """Name of the standard error that goes with an average."""
    return f"{name}_standard_error"


def _blank(
    name: str, variable: Variable, known: Mapping[Hashable, int], dtype: str
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The variables of a result that hold one recorded, without any trial."""
    taken = [one for one in variable.sizes if one in DIMENSIONS]
    require(not taken, f"{name} has {', '.join(taken)} already")
    if variable.averaged:
        shape, dimensions = (known["strategy"], *variable.shape), ("strategy", *variable.sizes)
        return {one: (dimensions, np.full(shape, np.nan)) for one in (name, error_of(name))}
    kind = variable.dtype or dtype
    require(
        isinstance(getattr(torch, kind, None), torch.dtype),
        f"{name} has dtype {kind!r}; give one that PyTorch and NumPy know, such as 'int32'",
    )
    shape = (known["strategy"], 0, known["round"], *variable.shape)
    return {name: ((*DIMENSIONS, *variable.sizes), np.empty(shape, kind))}
