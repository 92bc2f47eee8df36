"""What the recorders of a study record together: names, shapes and types, known before any work."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import xarray as xr

from botorch_tv.simulation.recorders.play import Play
from botorch_tv.simulation.recorders.recorder import Recorder, Variable
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain
from botorch_tv.validation import require

DIMENSIONS = ("strategy", "trial", "round")


@dataclass(frozen=True)
class Layout:
    """Variables of a study.

    Args:
        variables: By name.
        empty: The result before any trial is played.
        dtype: Name of the type in which the study computes.
    """

    variables: Mapping[str, Variable]
    empty: xr.Dataset
    dtype: str

    @classmethod
    def of(
        cls,
        record: Sequence[Recorder],
        domain: Domain,
        strategies: Mapping[str, Strategy],
        *,
        horizon: int,
        dtype: str,
    ) -> Layout:
        """The variables of all recorders, those of every study first.

        Raises:
            ValueError: If two recorders record the same, or do not fit together or this domain.
        """
        labels = {
            "strategy": list(strategies),
            "trial": np.arange(0),
            "round": np.arange(1, horizon + 1),
        }
        layout = cls({}, xr.Dataset(coords=labels), dtype)
        for one in (Play(), *record):
            own, given = dict(one.variables(domain)), one.labels(domain, strategies)
            known = cls({**layout.variables, **own}, layout.empty, dtype)
            blank = {
                each: (dimensions, np.empty(known.shape_of(name, 0), known.dtype_of(name)))
                for name in own
                for each, dimensions in known.members(name).items()
            }
            taken = {*map(str, layout.empty.variables), *map(str, given.variables)} & {*blank}
            taken |= {*map(str, given.variables)} & {*map(str, layout.empty.data_vars)}
            taken |= {*DIMENSIONS} & {name for variable in own.values() for name in variable.sizes}
            try:
                require(not taken, f"{', '.join(sorted(taken))} is there already")
                # What else does not fit is told by xarray, such as sizes.
                empty = layout.empty.merge(given, compat="no_conflicts").merge(blank)
            except ValueError as error:
                raise ValueError(
                    f"run_study: {one!r} does not go with the other recorders: {error}"
                ) from error
            layout = cls(known.variables, empty, dtype)
        return layout

    @cached_property
    def every_round(self) -> dict[str, Variable]:
        """Those kept of every round of every trial."""
        return {name: one for name, one in self.variables.items() if not one.averaged}

    @cached_property
    def averaged(self) -> dict[str, Variable]:
        """Those averaged over rounds and trials."""
        return {name: one for name, one in self.variables.items() if one.averaged}

    def dtype_of(self, name: str) -> np.dtype[np.generic]:
        """The type of a variable; averages are float64."""
        variable = self.variables[name]
        return np.dtype("float64" if variable.averaged else variable.dtype or self.dtype)

    @property
    def horizon(self) -> int:
        """Rounds per trial."""
        return self.empty.sizes["round"]

    def shape_of(self, name: str, trials: int, strategies: int | None = None) -> tuple[int, ...]:
        """The shape of a variable over some trials, and all strategies unless told."""
        variable = self.variables[name]
        over = () if variable.averaged else (trials, self.horizon)
        count = self.empty.sizes["strategy"] if strategies is None else strategies
        return (count, *over, *variable.shape)

    def members(self, name: str) -> dict[str, tuple[str, ...]]:
        """The variables of a result that hold one recorded, with their dimensions."""
        variable = self.variables[name]
        if variable.averaged:
            return dict.fromkeys((name, error_of(name)), ("strategy", *variable.sizes))
        return {name: (*DIMENSIONS, *variable.sizes)}

    @property
    def numbers_per_trial(self) -> int:
        """Numbers that a strategy's records of a trial are, while it is played."""
        rounds = sum(math.prod(one.shape) for one in self.every_round.values())
        return self.horizon * rounds + sum(math.prod(one.shape) for one in self.averaged.values())

    def bytes_of(self, trials: int, strategies: int | None = None) -> int:
        """What the records of some trials take in memory or a file."""
        each = {
            name: math.prod(self.shape_of(name, trials, strategies)) * self.dtype_of(name).itemsize
            for name in self.variables
        }
        return sum(each.values()) + sum(each[name] for name in self.averaged)  # and their scatter


def scatter_of(name: str) -> str:
    """Name of the sum of squared deviations that goes with an average, until chunks are joined."""
    return f"{name}_scatter"


def error_of(name: str) -> str:
    """Name of the standard error that goes with an average."""
    return f"{name}_standard_error"
