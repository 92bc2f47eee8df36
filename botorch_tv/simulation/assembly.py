"""All trials of a study put together, chunk by chunk, in memory or in a file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import xarray as xr

from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.layout import Layout, scatter_of
from botorch_tv.simulation.netcdf import filling
from botorch_tv.simulation.records import Arrays, averages


class Room(Protocol):
    """An array in memory or in a file."""

    def __setitem__(self, place: Any, values: np.ndarray, /) -> None: ...


class Assembly:
    """A study under way.

    Args:
        layout: What is recorded.
        rooms: Where every variable of the result goes.
    """

    def __init__(self, layout: Layout, rooms: Mapping[str, Room]) -> None:
        self._layout, self._rooms = layout, rooms
        self._labels = [str(label) for label in layout.empty["strategy"].values]
        self._averages: list[tuple[list[int], dict[Chunk, Arrays]]] = []

    def taker(self, kept: Sequence[str]) -> Callable[[Chunk, Arrays], None]:
        """A function that takes in finished chunks of some strategies, from any thread.

        Args:
            kept: The labels of those in the chunks; more than the study has are left out.
        """
        own = [place for place, label in enumerate(kept) if label in self._labels]
        rows = [self._labels.index(kept[place]) for place in own]
        parts: dict[Chunk, Arrays] = {}
        self._averages.append((rows, parts))

        def take(chunk: Chunk, arrays: Arrays) -> None:
            until = chunk.first + chunk.trials
            for name in self._layout.every_round:
                for row, place in zip(rows, own):
                    self._rooms[name][row, chunk.first : until] = arrays[name][place]
            # These are small, and joined in order, so that the cut alone decides their last bits.
            names = [each for name in self._layout.averaged for each in (name, scatter_of(name))]
            parts[chunk] = {name: arrays[name][own] for name in names}

        return take

    def finish(self) -> None:
        """Work out averages, once all chunks are there."""
        for rows, parts in self._averages:
            found = averages(self._layout, [(one.trials, parts[one]) for one in sorted(parts)])
            for name, values in found.items():
                for row, value in zip(rows, values):
                    self._rooms[name][row] = value


@contextmanager
def in_memory(layout: Layout, trials: int) -> Iterator[tuple[Assembly, xr.Dataset]]:
    """A study put together in memory, and the dataset that it becomes."""
    rooms: dict[str, np.ndarray] = {}
    variables = {}
    for name in layout.variables:
        for each, dimensions in layout.members(name).items():
            rooms[each] = np.empty(layout.shape_of(name, trials), layout.dtype_of(name))
            variables[each] = (dimensions, rooms[each])
    blank = layout.empty.drop_vars([*rooms, "trial"]).assign_coords(trial=np.arange(trials))
    assembly = Assembly(layout, rooms)
    yield assembly, blank.assign(variables)
    assembly.finish()


@contextmanager
def in_file(layout: Layout, trials: int, path: Path) -> Iterator[Assembly]:
    """A study put together in a file, which is there once all is done.

    Raises:
        OSError: If it cannot be written.
    """
    with filling(path, layout.empty, trials) as rooms:
        rooms["trial"][:] = np.arange(trials)
        assembly = Assembly(layout, rooms)
        yield assembly
        assembly.finish()
