"""SparQ with a built-in expert, which the laws play like any other strategy."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor

from botorch_tv.experts import Consultation, SparQ
from botorch_tv.strategies.state import Info, State


class Attended(SparQ):
    """Consults and absorbs in :meth:`tell`, so that studies need not.

    The expert is that of ``oracles.expert``: its answer depends on the first observation of the
    point in the log. Each trial has a generator of its own, seeded with the round.
    """

    consults: ClassVar[bool] = False

    def tell(self, state: State, *arguments: Any, **named: Any) -> tuple[State, Info]:
        after, info = super().tell(state, *arguments, **named)
        generators = [
            torch.Generator(after.time.device).manual_seed(after.rounds)
            for _ in range(after.time.numel())
        ]
        asked = self.consult(after, generator=generators)
        if asked is None:
            return after, info
        first = first_chosen(after, asked)
        seen = after.history.y.tensor().gather(-1, first - 1)  # 0 where it failed
        y = 0.5 * seen + torch.cos(first.to(seen) + 0.3 * after.rounds)
        ok = (first + after.rounds) % 4 != 3
        return self.absorb(after, asked, y, ok=ok, check=False), info


def first_chosen(state: State, asked: Consultation) -> Tensor:
    """The round in which each point was chosen for the first time, `batch_shape x Q`, int64."""
    log, dims = state.history.choice.tensor(), state.time.dim()
    same = asked.choice.unsqueeze(dims + 1) == log.unsqueeze(dims)
    same = same if same.dim() == dims + 2 else same.all(-1)
    return same.to(torch.uint8).argmax(-1) + 1
