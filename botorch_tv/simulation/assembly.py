"""Collect the trials of a study, chunk by chunk, in memory or in a file."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xarray as xr

from botorch_tv.simulation.blocks import BlockMoments
from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.layout import ResultLayout, error_of, scatter_of
from botorch_tv.simulation.netcdf import filling, read_dataset
from botorch_tv.simulation.records import Arrays


class Writable(Protocol):
    """An array in memory or in a file."""

    def __setitem__(self, index: Any, values: np.ndarray, /) -> None: ...


class Assembly:
    """The result of a study that is still running.

    Args:
        layout: What is recorded.
        variables: The array that receives each variable of the result.

    Attributes:
        data: The complete result; set when the study is finished.
    """

    data: xr.Dataset

    def __init__(self, layout: ResultLayout, variables: Mapping[str, Writable]) -> None:
        self._layout, self._variables = layout, variables
        self._labels = [str(label) for label in layout.empty["strategy"].values]
        self._averages: list[tuple[list[int], RunningAverages]] = []

    def taker(self, kept: Sequence[str]) -> Callable[[Chunk, Arrays], None]:
        """A function that stores finished chunks of some strategies; it is thread-safe.

        Args:
            kept: Labels of the strategies in the chunks. Those not in the study are skipped.
        """
        wanted = [column for column, label in enumerate(kept) if label in self._labels]
        rows = [self._labels.index(kept[column]) for column in wanted]
        averages = RunningAverages(self._layout, wanted)
        self._averages.append((rows, averages))

        def take(chunk: Chunk, arrays: Arrays) -> None:
            trials = slice(chunk.first, chunk.first + chunk.trials)
            for name in self._layout.every_round:
                for row, column in zip(rows, wanted):
                    self._variables[name][row, trials] = arrays[name][column]
            averages.add(chunk, arrays)

        return take

    def finish(self) -> None:
        """Store the averages; call it after the last chunk."""
        for rows, averages in self._averages:
            for name, values in averages.finished().items():
                for row, value in zip(rows, values):
                    self._variables[name][row] = value


class RunningAverages:
    """Averages over all trials, computed from the averages of chunks.

    Chunks are combined in the order of their trials, whatever the order in which they arrive, so
    that rounding depends only on the cut. A chunk that arrives early waits for those before it.

    Args:
        layout: What is recorded.
        wanted: Indices of the wanted strategies in the chunks.
    """

    def __init__(self, layout: ResultLayout, wanted: Sequence[int]) -> None:
        self._layout, self._wanted = layout, list(wanted)
        self._moments: dict[str, BlockMoments] = {}
        self._next_trial = 0
        self._waiting: dict[int, tuple[int, dict[str, BlockMoments]]] = {}
        self._lock = threading.Lock()

    def add(self, chunk: Chunk, arrays: Arrays) -> None:
        """Add the averages of a chunk; thread-safe."""
        moments = {}
        for name in self._layout.averaged:
            mean, scatter = (arrays[one][self._wanted] for one in (name, scatter_of(name)))
            moments[name] = BlockMoments(np.full(mean.shape, chunk.trials), mean, scatter)
        with self._lock:
            self._waiting[chunk.first] = chunk.trials, moments
            while self._next_trial in self._waiting:
                trials, following = self._waiting.pop(self._next_trial)
                self._next_trial += trials
                for name, one in following.items():
                    before = [self._moments[name]] if name in self._moments else []
                    self._moments[name] = BlockMoments.together([*before, one])

    def finished(self) -> dict[str, np.ndarray]:
        """Means over rounds and trials, and standard errors over trials (NaN for one trial)."""
        found: dict[str, np.ndarray] = {}
        for name, moments in self._moments.items():
            found |= {name: moments.mean, error_of(name): moments.error}
        return found


@contextmanager
def in_memory(layout: ResultLayout, trials: int) -> Iterator[Assembly]:
    """Collect a study in memory; its ``data`` are complete after the ``with`` block."""
    data = layout.empty.drop_dims("trial").copy(deep=True).assign_coords(trial=np.arange(trials))
    for name in layout.every_round:
        one = layout.empty[name]
        data[name] = one.dims, np.empty(layout.shape_of(name, trials), one.dtype)
    assembly = Assembly(layout, {str(name): one.values for name, one in data.data_vars.items()})
    yield assembly
    assembly.finish()
    assembly.data = data


@contextmanager
def in_file(layout: ResultLayout, trials: int, path: Path) -> Iterator[Assembly]:
    """Collect a study in a file, where its ``data`` stay.

    Raises:
        OSError: If it cannot be written.
    """
    with filling(path, layout.empty, trials) as variables:
        variables["trial"][:] = np.arange(trials)
        assembly = Assembly(layout, variables)
        yield assembly
        assembly.finish()
    assembly.data = read_dataset(path, most=0)
