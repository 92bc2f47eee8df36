"""The records of a chunk of trials while it is played."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

import numpy as np
import torch
from torch import Tensor

from botorch_tv.identity.source import is_ours
from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.layout import ResultLayout, scatter_of
from botorch_tv.simulation.recorders.recorder import Recorder

Arrays = Mapping[str, np.ndarray]
"""Variables of a chunk by name, each `strategies x trials x horizon` followed by its own sizes.
Averages are `strategies` followed by their sizes, and come with their scatter over trials."""
Take = Callable[[Chunk, Arrays], None]
"""Receives a finished chunk."""
WRITTEN_TOGETHER = 16
"""Rounds written at once where possible, because every write costs a kernel launch."""


class Records:
    """The records of a chunk.

    Args:
        layout: What is recorded.
        trials: Number of trials.
        dtype: Type of real numbers.
        device: Device of the chunk.
        lasting: Names of variables whose tensors are not overwritten in later rounds.
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
        # Rounds come first, so that a round is contiguous.
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
        """Take the values that a recorder returns for one strategy in the current round.

        Raises:
            ValueError: If a variable, its shape or its type was not declared.
        """
        for name, value in values.items():
            if name not in self._kinds:
                raise ValueError(
                    f"run_study: {recorder!r} recorded {name}, which its variables() does not "
                    "declare; add it there."
                )
            shape, kind = self._kinds[name]
            if value.shape != shape or not torch.can_cast(value.dtype, kind):
                raise ValueError(
                    f"run_study: {recorder!r} recorded {name} as {value.dtype} of shape "
                    f"{tuple(value.shape)}, but its variables() declares {kind} of shape "
                    f"{tuple(shape)}, with {self._trials} trials first; make the two agree."
                )
            if name in self._row:
                # Others may use one buffer for all strategies of a round.
                own = is_ours(type(recorder).before) and is_ours(type(recorder).after)
                self._row[name].append(value if own else value.clone())
            else:
                self._sums[name][number] += value
                self._added[name] += 1

    def close_round(self, step: int) -> None:
        """Write the round for all strategies at once; single writes would dominate the run time.

        Args:
            step: The round, counted from 0.

        Raises:
            ValueError: If a variable was not recorded exactly once per strategy.
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
        """All records, on the host; call it after the last round."""
        arrays = {
            name: whole.permute(1, 2, 0, *range(3, whole.dim())).contiguous().cpu().numpy()
            for name, whole in self._rounds.items()
        }
        horizon = len(next(iter(self._rounds.values())))
        for name, sums in self._sums.items():
            means, scatters = [], []
            for of_strategy in sums:  # one at a time, to save memory
                of_trials = of_strategy.double() / horizon
                means.append(of_trials.mean(0))
                scatters.append(of_trials.sub_(means[-1]).square_().sum(0))
            arrays[name] = torch.stack(means).cpu().numpy()
            arrays[scatter_of(name)] = torch.stack(scatters).cpu().numpy()
        return arrays
