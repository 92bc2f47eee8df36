"""All trials of a study put together, chunk by chunk, in memory or in a file."""

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


class Room(Protocol):
    """An array in memory or in a file."""

    def __setitem__(self, place: Any, values: np.ndarray, /) -> None: ...


class Assembly:
    """A study under way.

    Args:
        layout: What is recorded.
        rooms: Where every variable of the result goes.

    Attributes:
        data: The result, once it is whole.
    """

    data: xr.Dataset

    def __init__(self, layout: ResultLayout, rooms: Mapping[str, Room]) -> None:
        self._layout, self._rooms = layout, rooms
        self._labels = [str(label) for label in layout.empty["strategy"].values]
        self._averages: list[tuple[list[int], RunningAverages]] = []

    def taker(self, kept: Sequence[str]) -> Callable[[Chunk, Arrays], None]:
        """A function that takes in finished chunks of some strategies, from any thread.

        Args:
            kept: The labels of those in the chunks; more than the study has are left out.
        """
        own = [place for place, label in enumerate(kept) if label in self._labels]
        rows = [self._labels.index(kept[place]) for place in own]
        averages = RunningAverages(self._layout, own)
        self._averages.append((rows, averages))

        def take(chunk: Chunk, arrays: Arrays) -> None:
            until = chunk.first + chunk.trials
            for name in self._layout.every_round:
                for row, place in zip(rows, own):
                    self._rooms[name][row, chunk.first : until] = arrays[name][place]
            averages.add(chunk, arrays)

        return take

    def finish(self) -> None:
        """Write averages down, once all chunks are there."""
        for rows, averages in self._averages:
            for name, values in averages.finished().items():
                for row, value in zip(rows, values):
                    self._rooms[name][row] = value


class RunningAverages:
    """The averages of a study from those of its chunks, whatever the cut, up to rounding.

    Chunks are joined in the order of their trials, so that nothing but the cut decides the last
    bits; those that come early wait.

    Args:
        layout: What is recorded.
        places: Of the strategies wanted, among those of the chunks.
    """

    def __init__(self, layout: ResultLayout, places: Sequence[int]) -> None:
        self._layout, self._places = layout, list(places)
        self._joined: dict[str, BlockMoments] = {}
        self._until = 0
        self._early: dict[int, tuple[int, dict[str, BlockMoments]]] = {}
        self._lock = threading.Lock()

    def add(self, chunk: Chunk, arrays: Arrays) -> None:
        """Take in the averages of a chunk, from any thread."""
        own = {}
        for name in self._layout.averaged:
            mean, scatter = (arrays[one][self._places] for one in (name, scatter_of(name)))
            own[name] = BlockMoments(np.full(mean.shape, chunk.trials), mean, scatter)
        with self._lock:
            self._early[chunk.first] = chunk.trials, own
            while self._until in self._early:
                trials, following = self._early.pop(self._until)
                self._until += trials
                for name, one in following.items():
                    before = [self._joined[name]] if name in self._joined else []
                    self._joined[name] = BlockMoments.together([*before, one])

    def finished(self) -> dict[str, np.ndarray]:
        """Means over rounds and trials, and their standard errors over trials, NaN for one."""
        found: dict[str, np.ndarray] = {}
        for name, whole in self._joined.items():
            found |= {name: whole.mean, error_of(name): whole.error}
        return found


@contextmanager
def in_memory(layout: ResultLayout, trials: int) -> Iterator[Assembly]:
    """A study put together in memory; its data are whole at the end of the block."""
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
    """A study put together in a file, where its data stay.

    Raises:
        OSError: If it cannot be written.
    """
    with filling(path, layout.empty, trials) as rooms:
        rooms["trial"][:] = np.arange(trials)
        assembly = Assembly(layout, rooms)
        yield assembly
        assembly.finish()
    assembly.data = read_dataset(path, most=0)
