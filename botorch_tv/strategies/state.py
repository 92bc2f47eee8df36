"""States, suggestions and reports of a strategy; questions to an expert, and the answers."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from botorch.exceptions.warnings import BotorchWarning
from torch import Tensor

from botorch_tv.gp.data import Data, History, Prior
from botorch_tv.gp.random import Draws, Generators, draws_for
from botorch_tv.identity import libraries, require_format, warn_of_versions
from botorch_tv.strategies.domains import Domain

Now = float | Tensor | None
"""Present time: one number, or a number per trial; None for a step after the newest observation."""


class ExpertWarning(BotorchWarning):  # type: ignore[misc]
    """An expert was due but did not answer; the strategy continues with the data available."""


class Consultation(NamedTuple):
    """A question to an expert: the current values of f at points measured before.

    Attributes:
        X: The points, `batch_shape x Q x d`.
        choice: The points as the log stores them: arms, `batch_shape x Q`, or points,
            `batch_shape x Q x d`.
        mask: Which entries of ``X`` and ``choice`` are valid, `batch_shape x Q`, bool. Trials may
            have different numbers of points.
        time: The time for which the expert should measure f: the time of the newest observation,
            `batch_shape`, float64.
        round: The round t of the newest observation.
        limit: Largest number of points that a trial can have in this round.
    """

    X: Tensor
    choice: Tensor
    mask: Tensor
    time: Tensor
    round: int
    limit: int

    @property
    def side_queries(self) -> Tensor:
        """Number of points to be measured by the expert in each trial, `batch_shape`, int64."""
        return self.mask.sum(-1)


class ExpertData(NamedTuple):
    """An expert's answers in a state, separate from the log of observations.

    Attributes:
        choice: The points in use: arms, `batch_shape x Q`, or points, `batch_shape x Q x d`.
        y: Answers, `batch_shape x Q`; 0 where there is no answer.
        noise: Noise variances of the answers, `batch_shape x Q`; infinite where there is no answer.
        time: The time to which the answers refer, `batch_shape`, float64: they are values of f at
            this time.
        round: The round of the newest consultation that was answered.
        asked: Number of measurements requested from the expert since the newest observation,
            `batch_shape`, int64.
        unanswered: Number of points of the newest consultation that have no answer, `batch_shape`,
            int64.
    """

    choice: Tensor
    y: Tensor
    noise: Tensor
    time: Tensor
    round: int
    asked: Tensor
    unanswered: Tensor


FORMAT = 1
"""Number of the format of saved states; it increases when the parts of a state change."""


class SavedBy:
    """Format and versions of a saved state, which are checked before its parts are loaded."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _checked, (FORMAT, libraries())


def _checked(number: int, made_with: dict[str, str]) -> SavedBy:
    fix = "begin with strategy.init(domain) and add the observations again."
    require_format("this state", number, FORMAT, made_with, fix)
    warn_of_versions("this state", made_with)
    return SavedBy()


class State(NamedTuple):
    """Everything that a strategy carries from round to round; save it with ``torch.save``.

    Attributes:
        domain: The domain, shared by all trials.
        data: The log of observations, the retained rows, and intermediate results.
        memory: The memory of each retention rule, followed by the memory of the exploration; see
            :class:`~botorch_tv.forgetting.base.Part`.
        expert: Answers of an expert, separate from the log; None before the first answer.
        members: For a committee, the states of its members; ``data`` is then the data of the first
            member.
        begun_with: Texts and fingerprints that identify the parts of the strategy that computed the
            state.
    """

    domain: Domain
    data: Data
    memory: tuple[Any, ...]
    expert: ExpertData | None = None
    members: tuple[State, ...] = ()
    begun_with: tuple[str, ...] = ()

    @property
    def basis(self) -> Prior:
        """The prior: the factored covariance of the arms of a grid, or the kernel on a box."""
        return self.data.prior

    @property
    def rounds(self) -> int:
        """Number of rounds so far, the same for all trials."""
        return self.data.rounds

    @property
    def time(self) -> Tensor:
        """Time of the newest observation, `batch_shape`, float64; 0 if there is no observation."""
        return self.data.time

    @property
    def history(self) -> History:
        """The log of choices and observations."""
        return self.data.history

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return _restored, (SavedBy(), *self)


def _restored(saved_by: SavedBy, *parts: Any) -> State:
    return State(*parts)


class Suggestion(NamedTuple):
    """A choice, and the prediction at the chosen point.

    Attributes:
        X: The point to measure, `batch_shape x d`, followed by the context if the box has any.
        index: Index of the arm on a grid, `batch_shape`, int64; None on a box.
        mean: Posterior mean of f_now at ``X``, `batch_shape`.
        sd: Posterior standard deviation of f_now at ``X``, without observation noise,
            `batch_shape`.
        sqrt_beta: Width of the confidence band in standard deviations, sqrt(beta), `batch_shape`.
        time: The time of the choice, `batch_shape`, float64.
        made_by: Text and fingerprint of the strategy that made the suggestion; None if unknown.
        member: For a committee, the index of the member that made the suggestion, `batch_shape`,
            int64; else None.
        keeps: With :class:`Outcomes`, the probability that each limit is kept at ``X``,
            `batch_shape x limits`, NaN without predictions; else None.
    """

    X: Tensor
    index: Tensor | None  # type: ignore[assignment]
    mean: Tensor
    sd: Tensor
    sqrt_beta: Tensor
    time: Tensor
    made_by: str | None = None
    member: Tensor | None = None
    keeps: Tensor | None = None

    @property
    def choice(self) -> Tensor:
        """The choice as stored in the log: the arm's index on a grid, the point on a box."""
        return self.X if self.index is None else self.index


class Info(NamedTuple):
    """What a strategy reports after it adds an observation.

    Attributes:
        reset: Whether earlier observations were forgotten, `batch_shape`, bool: because a period
            ended before the choice of this round, or because the observation of this round
            triggered a reset.
        side_queries: Number of measurements requested from an expert since the previous
            observation, `batch_shape`, int64.
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


def draws_from(generator: Generators | Draws | None, state: State) -> Draws:
    """Random numbers for the trials of a state; see :func:`draws_for`."""
    return draws_for(generator, state.data.time.shape, state.data.prior.variance)
