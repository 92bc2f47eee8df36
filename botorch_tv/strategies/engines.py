"""What a strategy asks of an inference, whatever the domain."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, NamedTuple

from torch import Size, Tensor

from botorch_tv.acquisition import DoublyWeighted, WidthContext
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.recursion import Belief
from botorch_tv.inference.regression import Evidence
from botorch_tv.strategies.draws import Draws
from botorch_tv.strategies.evidence import gather_evidence
from botorch_tv.strategies.state import State
from botorch_tv.strategies.surface import Surface

if TYPE_CHECKING:
    from botorch_tv.strategies.core import Strategy


class Choice(NamedTuple):
    """A point and what is predicted there, for every trial."""

    choice: Tensor
    """The arm, `batch_shape`, or the point with its context, `batch_shape x (d + c)`."""
    mean: Tensor
    """`batch_shape`."""
    sd: Tensor
    """`batch_shape`."""
    multiplier: float | Tensor
    """√beta, a number or `batch_shape`."""


class Marginal(NamedTuple):
    """The joint posterior of f_now within each of e groups of q arms or points."""

    mean: Tensor
    """`batch_shape x e x q`."""
    covariance: Tensor
    """`batch_shape x e x q x q`."""
    information_gain: Tensor
    """½ ln det(I + N^(-½) K N^(-½)) of the data in use, `batch_shape`."""


class Engine(ABC):
    """How a strategy's posterior is computed.

    Args:
        strategy: The parts: noise, mean, decay, inflation and retention.
    """

    def __init__(self, strategy: Strategy) -> None:
        self.strategy = strategy

    @property
    def known_mean(self) -> float | None:
        """The prior mean; None where it is to be estimated."""
        mean = self.strategy.mean
        return None if isinstance(mean, str) else mean

    def prior_mean(self, estimate: Tensor | None) -> Tensor | float:
        """The prior mean: what is known, or else the estimate, `batch_shape`."""
        known = self.known_mean
        if known is not None:
            return known
        assert estimate is not None
        return estimate

    @abstractmethod
    def prior(self, basis: Basis | Surface, batch_shape: Size) -> Belief | None:
        """What a state holds besides its log before any observation."""

    @abstractmethod
    def advance(
        self,
        before: State,
        after: State,
        fired: Tensor | None,
        ok: Tensor | None,
        *,
        consume: bool,
    ) -> State:
        """The state after a round, whose log is complete, with its belief brought up to date.

        Args:
            before: The state of the round.
            after: The state of the next round, its belief still that of ``before``.
            fired: Which trials forgot all but the newest observation, `batch_shape`; None if the
                retention never looks at data.
            ok: Whether the newest observation is good, `batch_shape`; None where all are.
            consume: Whether the memory of ``before`` may be reused.
        """

    @abstractmethod
    def choose(
        self,
        state: State,
        now: Tensor,
        reference: Tensor,
        draws: Draws | None,
        context: Tensor | None,
    ) -> Choice:
        """What the strategy's exploration picks at time ``now``, lags counted from ``reference``.

        Args:
            state: All that has been told.
            now: The present, `batch_shape`.
            reference: Time from which lags are counted, `batch_shape`.
            draws: Random numbers; None where none are needed.
            context: What is known before the choice, `batch_shape x c`; None where nothing is.
        """

    @abstractmethod
    def best(self, state: State, now: Tensor, reference: Tensor, context: Tensor | None) -> Tensor:
        """Where the posterior mean is best, as in :class:`Choice`."""

    @abstractmethod
    def marginal(self, state: State, choice: Tensor, now: Tensor, reference: Tensor) -> Marginal:
        """The joint posterior within each of e groups of q arms or points; differentiable in these.

        Args:
            state: All that has been told.
            choice: Arms, `batch_shape x e x q`, or points, `batch_shape x e x q x (d + c)`.
            now: The present, `batch_shape`.
            reference: Time from which lags are counted, `batch_shape`.
        """

    @abstractmethod
    def doubly_weighted_gain(
        self, state: State, gain: Tensor, now: Tensor, reference: Tensor
    ) -> Tensor:
        """The gain ``gain`` with the factor on the noise squared, `batch_shape`."""

    @abstractmethod
    def numbers_per_trial(self, state: State, horizon: int, trials: int) -> int:
        """Numbers held and worked on by round ``horizon`` per trial, where ``trials`` do together.

        The most there can be: every round tells of another arm.
        """

    def most_kept(self, horizon: int) -> int:
        """Most observations that a trial keeps within ``horizon`` rounds."""
        first = self.strategy.retention.first_kept
        return max(told - first(told) for told in range(horizon + 1))

    def believed_noise(self, state: State, noise: Tensor) -> Tensor:
        """What noise variances told, `batch_shape`, are taken for now."""
        return noise

    def multiplier(
        self, state: State, gain: Tensor, now: Tensor, reference: Tensor
    ) -> float | Tensor:
        """√beta of the strategy's width, a number or `batch_shape`."""
        doubly, width = None, self.strategy.width
        if isinstance(width.gain, DoublyWeighted):
            doubly = self.doubly_weighted_gain(state, gain, now, reference)
        return width.multiplier(
            WidthContext(
                t=state.told + 1,
                dim=state.domain.dim,
                information_gain=gain,
                weighted_information_gain=doubly,
            )
        )

    def evidence(
        self, state: State, now: Tensor, reference: Tensor, inflation_power: int = 1
    ) -> Evidence:
        """The observations kept at time ``now``; see :func:`gather_evidence`."""
        return gather_evidence(
            state,
            mean=self.known_mean,
            decay=self.strategy.decay,
            inflation=self.strategy.inflation,
            retention=self.strategy.retention,
            now=now,
            reference=reference,
            inflation_power=inflation_power,
        )
