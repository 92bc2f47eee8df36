"""What an expert is asked, and what is kept of the answers."""

from __future__ import annotations

from typing import NamedTuple

from botorch.exceptions.warnings import BotorchWarning
from torch import Tensor


class ExpertWarning(BotorchWarning):  # type: ignore[misc]
    """An expert was due but did not answer; the strategy continues with the data it has."""


class Consultation(NamedTuple):
    """A question to an expert: the current values of f at points measured before.

    Attributes:
        X: The points, `batch_shape x Q x d`.
        choice: As a log keeps them: arms, `batch_shape x Q`, or points, `batch_shape x Q x d`.
        mask: Which entries are asked, `batch_shape x Q`, bool; trials may differ in number.
        time: The time of f that is asked about, that of the newest observation, `batch_shape`,
            float64.
        told: The round t whose observation has just been told.
        limit: Most points that any trial can be asked about in this round, the same for every
            batch.
    """

    X: Tensor
    choice: Tensor
    mask: Tensor
    time: Tensor
    told: int
    limit: int

    @property
    def side_queries(self) -> Tensor:
        """How many points every trial asks about, `batch_shape`, int64."""
        return self.mask.sum(-1)


class ExpertData(NamedTuple):
    """An expert's answers in a state: a dataset beside the log of observations.

    Attributes:
        choice: The points in use, as :attr:`Consultation.choice`.
        y: Answers, `batch_shape x Q`; 0 where there is none.
        noise: Their noise variances, `batch_shape x Q`; infinite where there is no answer.
        time: The time they are about, `batch_shape`, float64.
        told: The round of the newest consultation that was answered.
        asked: Side queries since the newest observation was told, `batch_shape`, int64.
        unanswered: Points of the newest consultation without answer, `batch_shape`, int64.
    """

    choice: Tensor
    y: Tensor
    noise: Tensor
    time: Tensor
    told: int
    asked: Tensor
    unanswered: Tensor
