"""What is recorded of a chunk of trials while they are played."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import torch
from torch import Tensor

from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.layout import ResultLayout, scatter_of
from botorch_tv.simulation.recorders.recorder import Recorder

Arrays = Mapping[str, np.ndarray]
"""Variables of a chunk by name, each `strategies x trials x horizon` and its own sizes; averages,
`strategies` and their sizes, come with their scatter over trials."""
Take = Callable[[Chunk, Arrays], None]
"""What becomes of a finished chunk."""
WRITTEN_TOGETHER = 16
"""Rounds that are written at once where that can wait, since a device starts every write alone."""


class Records:
    """Room for what is recorded of a chunk.

    Args:
        layout: What is recorded.
        trials: How many.
        dtype: Of real numbers.
        device: Where the chunk runs.
        lasting: Names of variables whose tensors nobody writes to again once they were told of.
    """

    def __init__(
        self,
        layout: ResultLayout,
        trials: int,
        *,
        dtype: torch.dtype,
        device: torch.device,
        lasting: Collection[str] = (),
    ) -> None:
        strategies = self._strategies = layout.empty.sizes["strategy"]
        self._trials = trials
        # In this order a round is written in one piece.
        self._rounds = {
            name: torch.empty(
                (layout.horizon, strategies, trials, *one.shape),
                dtype=dtype if one.dtype is None else getattr(torch, one.dtype),
                device=device,
            )
            for name, one in layout.every_round.items()
        }
        self._sums = {
            name: torch.zeros(strategies, trials, *one.shape, dtype=dtype, device=device)
            for name, one in layout.averaged.items()
        }
        self._kinds = {name: (one.shape[2:], one.dtype) for name, one in self._rounds.items()}
        self._kinds |= {name: (one.shape[1:], one.dtype) for name, one in self._sums.items()}
        self._row: dict[str, list[Tensor]] = {name: [] for name in self._rounds}
        self._together = {name: WRITTEN_TOGETHER if name in lasting else 1 for name in self._rounds}
        self._added = dict.fromkeys(self._sums, 0)

    def note(self, number: int, recorder: Recorder, values: Mapping[str, Tensor]) -> None:
        """Take in what a recorder tells of one strategy in the round under way.

        Raises:
            ValueError: If it has not declared that, or not in this shape or type.
        """
        for name, value in values.items():
            if name not in self._kinds:
                raise ValueError(
                    f"run_study: {recorder!r} recorded {name}, which its variables do not name."
                )
            shape, kind = self._kinds[name]
            if value.shape != shape or not torch.can_cast(value.dtype, kind):
                raise ValueError(
                    f"run_study: {recorder!r} recorded {name} as {value.dtype} of shape "
                    f"{tuple(value.shape)}, but its variables say {kind} of shape {tuple(shape)}, "
                    f"{self._trials} trials first."
                )
            if name in self._row:
                self._row[name].append(value)
            else:
                self._sums[name][number] += value
                self._added[name] += 1

    def close_round(self, step: int) -> None:
        """Write the round down for all strategies: small writes take longer than the bandits.

        Args:
            step: Its number from 0.

        Raises:
            ValueError: If a variable is missing, or told twice.
        """
        waiting = {name: step % some for name, some in self._together.items()}
        counts = {
            name: len(row) - waiting[name] * self._strategies for name, row in self._row.items()
        }
        for name, count in (counts | self._added).items():
            if count != self._strategies:
                raise ValueError(
                    f"run_study: {name} was recorded {count} times in a round of "
                    f"{self._strategies} strategies; record every variable once for each."
                )
        for name, row in self._row.items():
            rounds, first = self._rounds[name], step - waiting[name]
            if step + 1 in (first + self._together[name], len(rounds)):
                torch.stack(row, out=rounds[first : step + 1].flatten(0, 1))
                row.clear()
        self._added = dict.fromkeys(self._sums, 0)

    def finished(self) -> Arrays:
        """All of it, once every round is written, on the host."""
        arrays = {
            name: whole.permute(1, 2, 0, *range(3, whole.dim())).contiguous().cpu().numpy()
            for name, whole in self._rounds.items()
        }
        horizon = len(next(iter(self._rounds.values())))
        for name, sums in self._sums.items():
            means, scatters = [], []
            for of_strategy in sums:  # one by one, as copies of all would not always fit
                of_trials = of_strategy.double() / horizon
                means.append(of_trials.mean(0))
                scatters.append(of_trials.sub_(means[-1]).square_().sum(0))
            arrays[name] = torch.stack(means).cpu().numpy()
            arrays[scatter_of(name)] = torch.stack(scatters).cpu().numpy()
        return arrays
