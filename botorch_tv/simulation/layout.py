"""Names, shapes and types of everything that a study records."""

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
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.validation import require

DIMENSIONS = ("strategy", "trial", "round")


@dataclass(frozen=True)
class ResultLayout:
    """The recorded variables of a study.

    Args:
        variables: The variables by name.
        empty: The result with no trials.
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
        """The layout of all recorders, :class:`Play` first.

        Raises:
            ValueError: If two recorders record the same variable, their dimensions conflict, or one
                does not fit the domain.
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
                require(not taken, f"{', '.join(sorted(map(str, taken)))} is already recorded")
                # xarray reports other conflicts, such as sizes.
                empty = empty.merge(given, compat="no_conflicts", join="exact").merge(blank)
            except (ValueError, TypeError) as error:
                raise ValueError(
                    f"run_study: {one!r} cannot be combined with the other recorders: {error}; "
                    "change its variables or labels, or leave it out."
                ) from error
            variables |= own
        return cls(variables, empty)

    @cached_property
    def every_round(self) -> dict[str, Variable]:
        """The variables kept for every round of every trial."""
        return {name: one for name, one in self.variables.items() if not one.averaged}

    @cached_property
    def averaged(self) -> dict[str, Variable]:
        """The variables averaged over rounds and trials."""
        return {name: one for name, one in self.variables.items() if one.averaged}

    @property
    def horizon(self) -> int:
        """Rounds per trial."""
        return self.empty.sizes["round"]

    def shape_of(self, name: str, trials: int, strategies: int | None = None) -> tuple[int, ...]:
        """The shape of a variable, for all strategies by default."""
        sizes = {**self.empty.sizes, "trial": trials}
        if strategies is not None:
            sizes["strategy"] = strategies
        return tuple(sizes[one] for one in self.empty[name].dims)

    @property
    def numbers_per_trial(self) -> int:
        """How many numbers are recorded per strategy and trial while it is played."""
        rounds = sum(math.prod(one.shape) for one in self.every_round.values())
        return self.horizon * rounds + sum(math.prod(one.shape) for one in self.averaged.values())

    def bytes_of(self, trials: int, strategies: int | None = None) -> int:
        """Size of the records of some trials, in memory or in a file."""
        each = {
            name: math.prod(self.shape_of(name, trials, strategies))
            * self.empty[name].dtype.itemsize
            for name in self.variables
        }
        return sum(each.values()) + sum(each[name] for name in self.averaged)  # their scatter


def scatter_of(name: str) -> str:
    """Name of the sum of squared deviations of an average; chunks hold it, results do not."""
    return f"{name}_scatter"


def error_of(name: str) -> str:
    """Name of the standard error of an average."""
    return f"{name}_standard_error"


def _blank(
    name: str, variable: Variable, known: Mapping[Hashable, int], dtype: str
) -> dict[str, tuple[tuple[str, ...], np.ndarray]]:
    """The variables of an empty result for one recorded variable."""
    taken = [one for one in variable.sizes if one in DIMENSIONS]
    require(not taken, f"{name} declares {', '.join(taken)}, which every variable has anyway")
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
