"""What a strategy remembers, what it suggests, and what it reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.data import Data, History
from botorch_tv.inference.prior import Prior
from botorch_tv.strategies.consultation import ExpertData
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.saved import Layout


class State(NamedTuple):
    """Everything carried from round to round; save it with ``torch.save``.

    Attributes:
        domain: Where to choose, shared by all trials.
        data: The log of observations, what is kept of it, and what has been computed from it.
        memory: What parts of the strategy remember.
        expert: Answers of an expert, beside the log; None before any.
        members: Of a strategy over strategies, those of its members; its own log is that of the
            first.
        begun_with: In words, each with a fingerprint, the parts of a strategy that what is here was
            computed with.
    """

    domain: Domain
    data: Data
    memory: Memory
    expert: ExpertData | None = None
    members: tuple[State, ...] = ()
    begun_with: tuple[str, ...] = ()

    @property
    def basis(self) -> Prior:
        """The prior: the kernel factored over the arms of a grid, or held for points of a box."""
        return self.data.prior

    @property
    def told(self) -> int:
        """Rounds told, the same for all trials."""
        return self.data.rounds

    @property
    def time(self) -> Tensor:
        """Time of the newest observation, 0 before the first, `batch_shape`, float64."""
        return self.data.time

    @property
    def history(self) -> History:
        """The log of choices and observations."""
        return self.data.history

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _restored, (Layout.of(tuple(self)), *self)


def _restored(layout: Layout, *parts: Any) -> State:
    return State(*parts)


class Memory(NamedTuple):
    """What parts of a strategy remember; see :class:`~botorch_tv.forgetting.parts.Part`."""

    retention: tuple[Any, ...]
    """Of each rule."""
    exploration: Any


class Suggestion(NamedTuple):
    """A choice with the prediction it was based on.

    Attributes:
        X: The point to measure, `batch_shape x d`; the context, where there is one, comes behind.
        index: Its number among the arms of a grid, `batch_shape`, int64; None on a box.
        mean: Posterior mean of f_now there, `batch_shape`.
        sd: Posterior standard deviation of f_now there, without observation noise, `batch_shape`.
        sqrt_beta: Width of the confidence band in standard deviations, sqrt(beta), `batch_shape`.
        time: The time now for which it was chosen, `batch_shape`, float64.
        made_by: Which strategy made it, in words with a fingerprint; None where that is not known.
        member: The member of a strategy over strategies that made it, its number, `batch_shape`,
            int64.
    """

    X: Tensor
    index: Tensor | None  # type: ignore[assignment]
    mean: Tensor
    sd: Tensor
    sqrt_beta: Tensor
    time: Tensor
    made_by: str | None = None
    member: Tensor | None = None

    @property
    def choice(self) -> Tensor:
        """What the log keeps of it: the number on a grid, the point on a box."""
        return self.X if self.index is None else self.index


class Info(NamedTuple):
    """What happened when an observation was added.

    Attributes:
        reset: Whether a reset forgot what earlier rounds had told, `batch_shape`, bool: the end of
            a period before this round was decided, or a trigger that its observation set off.
        side_queries: Measurements asked of an expert since the observation before, that is, to
            decide this round, `batch_shape`, int64.
        sd: Standard deviation of f where it was measured, as the suggestion had it, `batch_shape`.
        noise: Variance that the observation is believed to have, infinite where the measurement
            failed, `batch_shape`.
    """

    reset: Tensor
    side_queries: Tensor
    sd: Tensor
    noise: Tensor

    @property
    def information_gain(self) -> Tensor:
        """What the observation told about f, ½ ln(1 + sd² / noise) in nats, `batch_shape`."""
        return 0.5 * torch.log1p(self.sd.square() / self.noise)
