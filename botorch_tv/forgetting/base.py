"""What every forgetting is made of: decays, inflations and retentions, their parameters, the log.

Parameters are learned in a unit of time taken from the data, the median time between observations.
Initial values, bounds and priors then mean the same whether times are in milliseconds or in years.
For this each parameter declares how its value depends on the unit.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import torch
from botorch.exceptions import InputDataError
from gpytorch.priors import Prior
from torch import Size, Tensor
from torch.utils._pytree import tree_map

from botorch_tv.validation import shown

Values = Mapping[str, Tensor]
Made = TypeVar("Made")


@dataclass(frozen=True, eq=False)
class Parameter:
    """A learnable parameter of a decay or an inflation.

    Bounds and priors are in the unit of time in which it is learned.

    Args:
        lower: Lower bound.
        upper: Upper bound.
        power: The power of time in its unit: -1 for a rate, 1 for a duration, 0 for a pure number;
            or a function of the values of the other parameters.
        share: ``"lost"`` for the fraction lost per unit of time, such as ε, or ``"retained"`` for
            the fraction retained, such as γ; ``power`` is then that of -ln(1 - ε) or -ln γ.
        prior: Its prior, or that of 1 - γ for a fraction retained; None for no prior.
        beside_scale: Its prior in models of standardised outcomes that also learn the variance;
            ``prior`` if None.
        fastest: The bound of the search by :class:`~botorch_tv.learning.Refit` towards fast change,
            lower for a fraction retained, else upper; the parameter's own bound if None.
        uncorrelated_beyond: Value beyond which an observation is uncorrelated with the next, so
            that the gradient vanishes and a search cannot leave; None if there is none.
        fast_start: Initial value of a search that would start beyond that, and of the second search
            of a strategy.

    Example:
        >>> class Seasonal(Decay):
        ...     parameters = {"rate": Parameter(power=-1), "period": Parameter(power=1)}
    """

    lower: float = 0.0
    upper: float = math.inf
    power: float | Callable[[Values], float | Tensor] = 0.0
    share: Literal["lost", "retained"] | None = None
    prior: Prior | None = None
    beside_scale: Prior | None = None
    fastest: float | None = None
    uncorrelated_beyond: float | None = None
    fast_start: float | None = None

    @property
    def grows_from_zero(self) -> bool:
        """Whether its natural value is 0 without change and positive otherwise."""
        return self.share is not None or self.lower == 0

    def natural(self, value: Tensor) -> Tensor:
        """The quantity that scales with a power of the unit: -ln(1 - ε), -ln γ, or the value."""
        if self.share is None:
            return value
        return -torch.log1p(-value) if self.share == "lost" else -torch.log(value)

    def value(self, natural: Tensor) -> Tensor:
        """The inverse of :meth:`natural`."""
        if self.share is None:
            return natural
        return -torch.expm1(-natural) if self.share == "lost" else torch.exp(-natural)

    def number(self, value: float) -> float:
        """The natural value of a number."""
        return float(self.natural(torch.tensor(value, dtype=torch.float64, device="cpu")))

    def natural_bounds(self) -> tuple[float, float]:
        """Bounds of the natural value, taking ``fastest`` into account."""
        low, high = self.lower, self.upper
        if self.share == "retained":
            low = low if self.fastest is None else self.fastest
            return self.number(high), self.number(low)
        high = high if self.fastest is None else self.fastest
        return self.number(low), self.number(high)

    def presumed(self, value: Tensor) -> Tensor:
        """The quantity that priors refer to, the value or the fraction lost; its own inverse."""
        return 1 - value if self.share == "retained" else value

    def stretch(self, factor: Tensor, others: Values) -> Tensor:
        """Factor on the natural value when the unit of time grows by a factor.

        Args:
            factor: Positive, any shape.
            others: Values of all parameters, in any unit, for a power that depends on them.
        """
        power = self.power(others) if callable(self.power) else self.power
        return factor**-power

    def natural_counted(self, value: Tensor, factor: Tensor, others: Values) -> Tensor:
        """The natural value in a unit of time ``factor`` times as long."""
        return self.natural(value) * self.stretch(factor, others)

    def counted(self, value: Tensor, factor: Tensor, others: Values) -> Tensor:
        """The value in a unit of time ``factor`` times as long."""
        if not callable(self.power) and self.power == 0:
            return value
        return torch.where(
            factor == 1, value, self.value(self.natural_counted(value, factor, others))
        )


def with_values(part: Made, values: Mapping[str, Any]) -> Made:
    """A copy of a decay or an inflation with other parameter values, numbers or tensors."""
    made = copy.copy(part)
    for name, value in values.items():
        object.__setattr__(made, name, value)  # frozen, and checked where it was made
    return made


NEGLIGIBLE = 1e-9
"""Gaps below this share of the whole span are rounding of one and the same time."""


def median_gap(times: Tensor, live: Tensor | None = None) -> Tensor:
    """The median time between one observation and the next, in the unit of ``times``.

    Learning in this unit finds the same rates whether times are told in milliseconds or in years:
    where a search starts, how far it steps and what a prior presumes then scale with the data.

    Args:
        times: `... x n`, in any order; what was observed at one and the same time counts once.
        live: Which of them count, `... x n`; all unless given.

    Returns:
        Positive, `...`; 1 where there are not two different times.
    """
    if times.shape[-1] < 2:
        return times.new_ones(times.shape[:-1])
    counted = times if live is None else torch.where(live, times, torch.inf)
    ordered = counted.sort(dim=-1).values
    gaps = ordered.diff(dim=-1)
    gaps = torch.where(gaps.isfinite(), gaps, torch.nan)  # between two that do not count
    span = torch.where(gaps.isnan(), 0.0, gaps).sum(-1, keepdim=True)
    gaps = torch.where(gaps > NEGLIGIBLE * span, gaps, torch.nan)
    # Of an even number PyTorch gives the lower of the two in the middle.
    lower, upper = gaps.nanmedian(dim=-1).values, -(-gaps).nanmedian(dim=-1).values
    return (0.5 * (lower + upper)).nan_to_num(nan=1.0)


class Observation(NamedTuple):
    """An observation with its prediction; every tensor leads with `batch_shape`.

    Attributes:
        X: The point, `batch_shape x d`, followed by the context if there is one.
        y: The observed value, `batch_shape`; 0 where a measurement failed.
        mean: The predicted mean, `batch_shape`.
        sd: The predicted standard deviation, without observation noise, `batch_shape`.
        noise: Noise variance, `batch_shape`; infinite where a measurement failed.
    """

    X: Tensor
    y: Tensor
    mean: Tensor
    sd: Tensor
    noise: Tensor


class Log:
    """The n remaining observations, oldest first, as a part of a strategy sees them.

    Trials share the rows. A row that one trial has dropped while another still keeps it looks like
    a failed one, so rules that compare observations should skip those of infinite ``noise``.

    Attributes:
        now: The present, `batch_shape`, float64; after an observation, its time.
        rounds: Rounds so far, the same for all trials; n of them remain.
        since: Rounds t' since the last reset of any rule, including the current one,
            `batch_shape`, int64.
        first_time: Time of the very first observation, `batch_shape`, float64.
        newest: The observation just made, which is the last row; None before a choice.
        reset: Which trials were reset in this round, `batch_shape`, bool, for :meth:`Part.update`;
            None before that is decided.
        memory: The part's memory; see :meth:`Part.init`.
    """

    __slots__ = ("_rows", "first_time", "memory", "newest", "now", "reset", "rounds", "since")

    def __init__(
        self,
        rows: Any,
        *,
        now: Tensor,
        rounds: int,
        since: Tensor,
        first_time: Tensor,
        newest: Observation | None = None,
        reset: Tensor | None = None,
        memory: Any = None,
    ) -> None:
        self._rows, self.now, self.rounds, self.since = rows, now, rounds, since
        self.first_time, self.newest, self.reset = first_time, newest, reset
        self.memory = memory

    @property
    def time(self) -> Tensor:
        """When they were made, `batch_shape x n`, float64."""
        return self._rows.time  # type: ignore[no-any-return]

    @property
    def y(self) -> Tensor:
        """The observed values, `batch_shape x n`; 0 where one failed or was dropped."""
        return self._rows.y  # type: ignore[no-any-return]

    @property
    def noise(self) -> Tensor:
        """Noise variances, `batch_shape x n`; infinite where one failed or was dropped."""
        return self._rows.noise  # type: ignore[no-any-return]

    @property
    def X(self) -> Tensor:
        """Where they were made, `batch_shape x n x d`."""
        return self._rows.X  # type: ignore[no-any-return]

    @property
    def retained(self) -> Tensor:
        """Which rows a trial retains, `batch_shape x n`, bool; other trials retain the rest."""
        return self._rows.retained  # type: ignore[no-any-return]

    def before_a_choice(self) -> Log:
        """The same log without the newest observation, as before a choice."""
        made = copy.copy(self)
        made.newest = made.reset = None
        return made


class Part:
    """A part of a strategy that may have memory: tensors that lead with `batch_shape`.

    The memory is a value, carried in the state and saved with it; the part itself never changes.
    """

    def init(self, batch_shape: Size) -> Any:
        """The memory before the first round: a tensor, or tuples or dicts of tensors.

        Tensors are moved to the device of the state, floating-point ones also to its dtype.
        """
        return None

    def update(self, log: Log) -> Any:
        """The memory after a round, given ``log.memory`` and the observation ``log.newest``.

        Override it together with :meth:`init`.
        """
        return log.memory


def as_memory(part: object, memory: Any, before: Any, like: Tensor, shape: Size) -> Any:
    """A part's memory as carried by the state, on its device and in its dtype.

    Args:
        part: The part.
        memory: What its ``init`` or ``update`` returned.
        before: Its previous memory.
        like: Gives the device, and the dtype of floating-point tensors.
        shape: The `batch_shape`.

    Raises:
        InputDataError: If the memory cannot be saved, or is not per trial.
    """
    name = type(part).__name__

    def settled(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            if leaf is None or isinstance(leaf, (bool, int, float, str)):
                return leaf
            raise InputDataError(
                f"{name} remembers {shown(leaf)}, but a memory is a tensor, or tuples, lists or "
                "dicts of such; use torch.as_tensor()."
            )
        if leaf.shape[: len(shape)] != shape:
            raise InputDataError(
                f"{name} remembers a tensor of shape {tuple(leaf.shape)}, but it leads with the "
                f"batch_shape {tuple(shape)}; make it by torch.zeros(batch_shape) in init(), and "
                "sum over rows by dim=-1."
            )
        return leaf.to(like.device, like.dtype if leaf.is_floating_point() else None)

    if memory is None and before is not None:
        raise InputDataError(
            f"{name}.update returned None, a memory lost; return log.memory where nothing changes."
        )
    return tree_map(settled, memory)


class Decay:
    """How the covariance between two times falls with the time between them."""

    markovian: bool = False
    """Whether the future is independent of the past given the present.

    D(r, t) D(s, s) = D(r, s) D(s, t) for all r < s < t. On a grid a recursion of constant cost per
    round can then be used. Strategies check this claim.
    """
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """Learnable parameters, by name of the attribute."""

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends only on the time difference."""
        kind = type(self)
        constant_variance = kind.prior_variance is Decay.prior_variance
        return constant_variance and kind.covariance is Decay.covariance

    def attenuation(self, elapsed: Tensor) -> Tensor:
        """Factor ``a`` on the covariance between now and ``elapsed`` time units ago, any shape."""
        raise NotImplementedError(
            f"{type(self).__name__} defines no covariance in time; define attenuation(elapsed), "
            "and prior_variance(elapsed) where the variance changes, or covariance(first, second)."
        )

    def prior_variance(self, elapsed: Tensor) -> Tensor:
        """Factor ``v`` on the prior variance ``elapsed`` time units after the origin, any shape.

        The origin of time is the first observation, or the last reset. The default is the diagonal
        of ``covariance`` if that is overridden, else 1.
        """
        if type(self).covariance is Decay.covariance:
            return torch.ones_like(elapsed)
        return self.covariance(elapsed, elapsed)

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """Temporal factor of the covariance between two times, counted from the origin.

        Args:
            first: Times, broadcastable with ``second``.
            second: Times.

        Returns:
            ``v(min) * a(|difference|)``, of the broadcast shape.
        """
        retained = self.attenuation((first - second).abs())
        if type(self).prior_variance is Decay.prior_variance:
            return retained
        return self.prior_variance(torch.minimum(first, second)) * retained

    def transition(self, first: Tensor, second: Tensor) -> Tensor:
        """Factor on the posterior mean of a Markovian objective between two times.

        Args:
            first: Times, counted from the origin.
            second: Later times, broadcastable with ``first``.

        Returns:
            Of the broadcast shape.
        """
        if type(self).attenuation is Decay.attenuation:
            return self.covariance(first, second) / self.prior_variance(first)
        return self.attenuation((second - first).clamp_min(0))


class Inflation(ABC):
    """How the noise variance of an observation grows with its lag.

    The lag is the reference time minus the time of the observation, at least 0. The newest
    observation has lag 0 and its original noise.
    """

    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """Learnable parameters, by name of the attribute; see :class:`Parameter`."""

    @abstractmethod
    def log_factor(self, lag: Tensor) -> Tensor:
        """Logarithm of the factor on the noise variance, any shape; 0 at lag 0.

        A logarithm, because factors such as γ^(-lag) overflow.
        """


class Retained(NamedTuple):
    """Which rows of the log are kept, and whether dropping the others is a reset.

    Dropped rows never return. A reset also restarts the clocks, such as the origin of a Wiener
    decay and the rounds t' of a trigger, and is reported by ``Info.reset``.

    Attributes:
        newest: How many of the newest rows to keep; None for all, 0 for none.
        where: The trials to which ``newest`` applies, `batch_shape`, bool; None for all trials.
        rows: Alternatively, any selection of rows, `batch_shape x n`, bool; ``newest`` is cheaper.
        reset: Whether this is a reset, of all trials or `batch_shape`, bool.
        aside: Rows that are left out for now, `batch_shape x n`, bool; None for none. They return
            as soon as an answer no longer names them.
    """

    newest: int | None = None
    where: Tensor | None = None
    rows: Tensor | None = None
    reset: bool | Tensor = False
    aside: Tensor | None = None


class Retention(Part, ABC):
    """A rule that forgets observations.

    It answers one question, :meth:`keep`, from the log and, if needed, from its own memory; see
    :class:`~botorch_tv.forgetting.base.Part`. Rules combine,
    ``retention=(SlidingWindow(20), EventTrigger(0.1))``: a row is kept if all rules keep it, and a
    reset by one is a reset of all.

    Example:
        >>> class Sessions(Retention):
        ...     '''Forget everything before a pause longer than an hour.'''
        ...
        ...     def keep(self, log):
        ...         fresh = log.now - log.time[..., -1] > 3600
        ...         return Retained(newest=0, where=fresh, reset=fresh)
    """

    @property
    def on_observation(self) -> bool:
        """Whether rows leave only when an observation is made, never as time passes.

        Where it is True, :meth:`keep` is called after observations alone.
        """
        return False

    @abstractmethod
    def keep(self, log: Log) -> Retained | Tensor:
        """Which rows to keep.

        Called after each observation, which is ``log.newest``, and before each choice, when
        ``log.now`` is the present and ``log.newest`` is None. Never called with an empty log.

        Args:
            log: The n remaining rows, oldest first.

        Returns:
            A :class:`Retained`, or a mask of the rows to keep, `batch_shape x n`, bool.
        """

    def band(self, sd: Tensor, noise: float | Tensor, since: Tensor) -> Tensor | None:
        """The threshold on |y - mean| above which the rule resets, for diagnosis.

        Args:
            sd: Predicted standard deviation, without observation noise, `batch_shape`.
            noise: Noise variance, a number or `batch_shape`.
            since: Rounds t' since the last reset, `batch_shape`, int64.

        Returns:
            `batch_shape`; None, as here, for rules of another form.
        """
        return None


@dataclass(frozen=True)
class Static(Decay, Inflation):
    """The decay and the inflation of ordinary Gaussian-process regression: none."""

    markovian = True

    def attenuation(self, elapsed: Tensor) -> Tensor:
        return torch.ones_like(elapsed)

    def log_factor(self, lag: Tensor) -> Tensor:
        return torch.zeros_like(lag)


def is_static(part: Decay | Inflation) -> bool:
    """Whether a part is exactly ``Static``; a subclass may define another formula."""
    return type(part) is Static
