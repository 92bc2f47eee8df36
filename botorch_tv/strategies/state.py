"""What a strategy remembers, what it suggests, and what it reports."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.recursion import Belief
from botorch_tv.inference.rows import Rows
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.surface import Surface

if TYPE_CHECKING:
    from botorch_tv.experts.refresh import ExpertData


class History(NamedTuple):
    """The log of choices, n rounds long."""

    choice: Rows
    """What was chosen: arms, `batch_shape x n`, int64; on a box points, `batch_shape x n x d`, the
    context included."""
    y: Rows
    """Observations, `batch_shape x n`; 0 where one failed."""
    noise: Rows
    """Their noise variances, `batch_shape x n`; infinite where one failed."""
    time: Rows
    """Times of the observations, `batch_shape x n`, float64."""


class State(NamedTuple):
    """All that must survive between rounds; save it with ``torch.save``."""

    domain: Domain
    """Where to choose, shared by all trials."""
    basis: Basis | Surface
    """The prior: the kernel factored over the arms of a grid, or what is held of it on a box."""
    told: int
    """Rounds told, the same for all trials."""
    dropped: int
    """Oldest observations that no trial keeps."""
    start: Tensor
    """Number of the first observation kept, `batch_shape`, int64; differs where triggers fire."""
    since: Tensor
    """Rounds t' since the last reset, the round being decided included, `batch_shape`, int64."""
    time: Tensor
    """Time of the newest observation, 0 before the first, `batch_shape`, float64."""
    first_time: Tensor
    """Time of the first observation ever, `batch_shape`, float64."""
    origin: Tensor
    """Time of the first observation since the last reset, infinite before it, `batch_shape`."""
    history: History
    belief: Belief | None
    """The posterior over the arms; None where it is computed from the log at every round."""
    least_noise: float
    """No observation told has a smaller noise variance; 0 where nobody has looked."""
    expert: ExpertData | None = None
    """Answers of an expert, beside the log; None before any."""


class Suggestion(NamedTuple):
    """A choice and the prediction it was based on."""

    X: Tensor
    """The point to measure, `batch_shape x d`; the context, where there is one, comes behind."""
    index: Tensor | None  # type: ignore[assignment]
    """Its number among the arms of a grid, `batch_shape`, int64; None on a box."""
    mean: Tensor
    """Posterior mean of f_now there, `batch_shape`."""
    sd: Tensor
    """Posterior standard deviation of f_now there, without observation noise, `batch_shape`."""
    multiplier: Tensor
    """Width of the confidence band in standard deviations, sqrt(beta), `batch_shape`."""
    time: Tensor
    """The time now for which it was chosen, `batch_shape`, float64."""
    made_by: str | None = None
    """Which strategy made it, in words; None where that is not known."""

    @property
    def choice(self) -> Tensor:
        """What the log keeps of it: the number on a grid, the point on a box."""
        return self.X if self.index is None else self.index


class Info(NamedTuple):
    """What happened while an observation was taken in."""

    reset: Tensor
    """Whether a reset forgot what earlier rounds had told, `batch_shape`, bool: the end of a period
    before this round was decided, or a trigger that its observation set off."""
    side_queries: Tensor
    """Measurements asked of an expert, `batch_shape`, int64."""
    information_gain: Tensor
    """What the observation told about f, ½ ln(1 + var / noise) in nats, `batch_shape`."""
