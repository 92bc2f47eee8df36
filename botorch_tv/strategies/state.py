"""State, suggestion and report of a strategy."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.data import Data, History, Prior
from botorch_tv.strategies.consultation import ExpertData
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.saved import Layout


class State(NamedTuple):
    """Everything carried from round to round; save it with ``torch.save``.

    Attributes:
        domain: The domain, shared by all trials.
        data: The log of observations, which rows are kept, and what has been computed from them.
        memory: The memory of the strategy's parts.
        expert: Answers of an expert, beside the log; None before any.
        members: For a strategy over strategies, the states of its members; its own log is that of
            the first.
        begun_with: The parts of the strategy that the state was computed with, in words, each with
            a fingerprint.
    """

    domain: Domain
    data: Data
    memory: Memory
    expert: ExpertData | None = None
    members: tuple[State, ...] = ()
    begun_with: tuple[str, ...] = ()

    @property
    def basis(self) -> Prior:
        """The prior: the kernel factored over the arms of a grid, or for points of a box."""
        return self.data.prior

    @property
    def told(self) -> int:
        """Number of rounds so far, the same for all trials."""
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
    """Memory of a strategy's parts; see :class:`~botorch_tv.forgetting.parts.Part`."""

    retention: tuple[Any, ...]
    """The memory of each retention rule."""
    exploration: Any


class Suggestion(NamedTuple):
    """A choice with the prediction it was based on.

    Attributes:
        X: The point to measure, `batch_shape x d`, followed by the context if there is one.
        index: Index of the arm on a grid, `batch_shape`, int64; None on a box.
        mean: Posterior mean of f_now there, `batch_shape`.
        sd: Posterior standard deviation of f_now there, without observation noise, `batch_shape`.
        sqrt_beta: Width of the confidence band in standard deviations, sqrt(beta), `batch_shape`.
        time: The time for which it was chosen, `batch_shape`, float64.
        made_by: The strategy that made it, in words with a fingerprint; None if unknown.
        member: Index of the member of a strategy over strategies that made it, `batch_shape`,
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
        """The choice as stored in the log: the arm's index on a grid, the point on a box."""
        return self.X if self.index is None else self.index


class Info(NamedTuple):
    """What happened when an observation was added.

    Attributes:
        reset: Whether earlier observations were forgotten, `batch_shape`, bool: by a period that
            ended before this round was decided, or by a trigger fired by its observation.
        side_queries: Measurements requested from an expert since the previous observation, that is,
            to decide this round, `batch_shape`, int64.
        sd: Predicted standard deviation of f at the suggestion, `batch_shape`.
        noise: Noise variance of the observation, given or estimated; infinite where the measurement
            failed, `batch_shape`.
    """

    reset: Tensor
    side_queries: Tensor
    sd: Tensor
    noise: Tensor

    @property
    def information_gain(self) -> Tensor:
        """Information gained about f, ½ ln(1 + sd² / noise) in nats, `batch_shape`."""
        return 0.5 * torch.log1p(self.sd.square() / self.noise)
