"""Base classes of decays, inflations and retentions; classes for parameters and observations.

During learning, the unit of time is the median time between observations, so the same initial
values, bounds and priors suit times in seconds and times in days. Each parameter declares how its
value depends on the unit of time.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
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

    Bounds and priors refer to the unit of time in which the parameter is learned.

    Args:
        lower: Lower bound of the value.
        upper: Upper bound of the value.
        power: Exponent of time in the parameter's unit: -1 for a rate, 1 for a duration, 0 for a
            pure number. The exponent is a scalar, or a function of the values of all parameters.
        share: ``"lost"`` if the parameter is a fraction lost per unit of time, such as ε;
            ``"retained"`` if it is a fraction retained, such as γ; None otherwise. For a fraction,
            ``power`` is the exponent for -ln(1 - ε) or -ln γ, not for the fraction itself.
        prior: Prior of the value; for a retained fraction γ, prior of 1 - γ. None for no prior.
        beside_scale: Prior for models that standardise outcomes and also learn the kernel's
            variance; None to use ``prior`` in these models, too.
        fastest: The bound of fast change in searches by :class:`~botorch_tv.learning.Refit`. It
            takes the place of ``lower`` for a retained fraction, and of ``upper`` for any other
            parameter. None to search from ``lower`` to ``upper``.
        uncorrelated_beyond: Value beyond which successive observations are uncorrelated and the
            gradient vanishes; None if there is no such value.
        fast_start: Value of the parameter at the start of a strategy's second search, and at the
            start of any search that would otherwise start beyond ``uncorrelated_beyond``.

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
        """Whether :meth:`natural` is 0 for a static objective and positive otherwise."""
        return self.share is not None or self.lower == 0

    def natural(self, value: Tensor) -> Tensor:
        """The natural value: -ln(1 - ε) or -ln γ for a fraction, otherwise the value itself.

        A parameter's natural value is proportional to a power of the unit of time.

        Args:
            value: Value of the parameter, any shape.

        Returns:
            The natural value, in the shape of ``value``.
        """
        if self.share is None:
            return value
        return -torch.log1p(-value) if self.share == "lost" else -torch.log(value)

    def value(self, natural: Tensor) -> Tensor:
        """The inverse of :meth:`natural`.

        Args:
            natural: Natural value, any shape.

        Returns:
            The value of the parameter, in the shape of ``natural``.
        """
        if self.share is None:
            return natural
        return -torch.expm1(-natural) if self.share == "lost" else torch.exp(-natural)

    def number(self, value: float) -> float:
        """The natural value of a parameter, as a number.

        Args:
            value: Value of the parameter.
        """
        return float(self.natural(torch.tensor(value, dtype=torch.float64, device="cpu")))

    def natural_bounds(self) -> tuple[float, float]:
        """The lower and the upper bound of the natural value; ``fastest`` may replace a bound."""
        low, high = self.lower, self.upper
        if self.share == "retained":
            low = low if self.fastest is None else self.fastest
            return self.number(high), self.number(low)
        high = high if self.fastest is None else self.fastest
        return self.number(low), self.number(high)

    def prior_quantity(self, value: Tensor) -> Tensor:
        """The quantity that ``prior`` describes: 1 - γ for a retained fraction γ, else the value.

        This method is its own inverse.

        Args:
            value: Value of the parameter, any shape.

        Returns:
            The quantity to which the prior applies, in the shape of ``value``.
        """
        return 1 - value if self.share == "retained" else value

    def stretch(self, factor: Tensor, others: Values) -> Tensor:
        """The factor that converts the natural value to a new unit of time.

        Args:
            factor: New unit of time divided by the current unit of time, positive, any shape.
            others: Values of all parameters, in any unit of time; used only if ``power`` is a
                function.

        Returns:
            The factor that converts the natural value, in the shape of ``factor``.
        """
        power = self.power(others) if callable(self.power) else self.power
        return factor**-power

    def natural_counted(self, value: Tensor, factor: Tensor, others: Values) -> Tensor:
        """The natural value in a unit of time that is ``factor`` times as long as the current unit.

        Args:
            value: Value in the current unit of time, any shape.
            factor: New unit of time divided by the current unit of time, positive, any shape.
            others: Values of all parameters, in any unit of time; used only if ``power`` is a
                function.

        Returns:
            The natural value, with the shape to which the arguments broadcast.
        """
        return self.natural(value) * self.stretch(factor, others)

    def counted(self, value: Tensor, factor: Tensor, others: Values) -> Tensor:
        """The value in a unit of time that is ``factor`` times as long as the current unit.

        Args:
            value: Value in the current unit of time, any shape.
            factor: New unit of time divided by the current unit of time, positive, any shape.
            others: Values of all parameters, in any unit of time; used only if ``power`` is a
                function.

        Returns:
            The value, with the shape to which the arguments broadcast.
        """
        if not callable(self.power) and self.power == 0:
            return value
        return torch.where(
            factor == 1, value, self.value(self.natural_counted(value, factor, others))
        )


def with_values(part: Made, values: Mapping[str, Any]) -> Made:
    """A copy of a decay or an inflation with other parameter values (numbers or tensors)."""
    made = copy.copy(part)
    for name, value in values.items():
        object.__setattr__(made, name, value)  # a frozen dataclass refuses ordinary assignment
    return made


NEGLIGIBLE = 4.0
"""Times count as equal if they differ by at most this number of rounding errors of the largest.
A fraction of the span of the times would not do: after a long pause, all other gaps are small."""


def median_gap(times: Tensor, live: Tensor | None = None) -> Tensor:
    """The median time between successive observations, in the unit of ``times``.

    Learning uses this median time as the unit of time, so initial values, step sizes and priors
    scale with the data. Therefore learning finds the same rates for any unit of ``times``.

    Args:
        times: Times of observations, `... x n`, in any order; equal times count once.
        live: For each time, whether to use it, `... x n`, bool; True by default.

    Returns:
        The median time between successive observations, positive, `...`; 1 for each row of
            ``times`` with fewer than two different times.
    """
    if times.shape[-1] < 2:
        return times.new_ones(times.shape[:-1])
    counted = times if live is None else torch.where(live, times, torch.inf)
    ordered = counted.sort(dim=-1).values
    gaps = ordered.diff(dim=-1)
    largest = torch.where(ordered.isfinite(), ordered, 0.0).abs().amax(-1, keepdim=True)
    least = NEGLIGIBLE * torch.finfo(times.dtype).eps * largest
    # nanmedian ignores unused times
    gaps = torch.where(gaps.isfinite() & (gaps > least), gaps, torch.nan)
    # For an even number of gaps, PyTorch's median is the lower of the two middle gaps.
    lower, upper = gaps.nanmedian(dim=-1).values, -(-gaps).nanmedian(dim=-1).values
    return (0.5 * (lower + upper)).nan_to_num(nan=1.0)


class Observation(NamedTuple):
    """An observation with its prediction; the shape of every tensor starts with `batch_shape`.

    Attributes:
        X: The point, followed by its context if there is one, `batch_shape x d`.
        y: The observed value, `batch_shape`; 0 where a measurement failed.
        mean: The predicted mean of the objective at ``X``, `batch_shape`.
        sd: The predicted standard deviation at ``X``, without observation noise, `batch_shape`.
        noise: Noise variance, `batch_shape`; infinite where a measurement failed.
    """

    X: Tensor
    y: Tensor
    mean: Tensor
    sd: Tensor
    noise: Tensor


@dataclass(slots=True, eq=False, repr=False)
class Log:
    """The n retained observations, oldest first; retentions and explorations read them.

    The number n of rows is the same in all trials. Where a trial has dropped a row, this row looks
    like a failed measurement, so rules that compare observations should skip rows with infinite
    ``noise``.

    Args:
        rows: An object that stores the rows as tensors ``time``, ``y``, ``noise``, ``X`` and
            ``retained``.
        now: Present time, `batch_shape`, float64; directly after an observation, the time of this
            observation.
        rounds: Number of rounds so far, equal for all trials; the log contains the newest n of
            these rounds.
        since: Number t' of rounds since the last reset by any rule, including the current round,
            `batch_shape`, int64.
        first_time: Time of the very first observation, `batch_shape`, float64.
        newest: The observation just made, which is the last row; None if the log is read before a
            choice.
        reset: For each trial, whether it was reset in this round, `batch_shape`, bool; set only in
            :meth:`Part.update`, None in other methods.
        memory: The memory of the retention or exploration that reads the log; see
            :meth:`Part.init`.
    """

    rows: Any
    _: KW_ONLY
    now: Tensor
    rounds: int
    since: Tensor
    first_time: Tensor
    newest: Observation | None = None
    reset: Tensor | None = None
    memory: Any = None

    @property
    def time(self) -> Tensor:
        """Times of the observations, `batch_shape x n`, float64."""
        return self.rows.time

    @property
    def y(self) -> Tensor:
        """Observed values, `batch_shape x n`; 0 for failed measurements and dropped rows."""
        return self.rows.y

    @property
    def noise(self) -> Tensor:
        """Noise variances, `batch_shape x n`; infinite for failed measurements and dropped rows."""
        return self.rows.noise

    @property
    def X(self) -> Tensor:
        """Points of the observations, `batch_shape x n x d`."""
        return self.rows.X

    @property
    def retained(self) -> Tensor:
        """For each trial and row, whether the trial retains the row, `batch_shape x n`, bool."""
        return self.rows.retained

    def before_a_choice(self) -> Log:
        """A copy in which ``newest`` and ``reset`` are None, as they are before a choice."""
        made = copy.copy(self)
        made.newest = made.reset = None
        return made


class Declaring:
    """A base class of components that declare facts about their methods.

    The other modules read the facts instead of the component's class. The defaults are correct for
    any methods, but may be slow. A subclass that overrides a method has the default facts about
    the method, unless the subclass itself declares the facts.
    """

    DECLARED: ClassVar[tuple[tuple[str, ...], tuple[str, ...]]] = ((), ())
    """Names of facts, which are class attributes or properties, and of the methods that they are
    about; without methods, every subclass has the default facts unless it declares them."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in cls.__mro__[1:]:
            facts, methods = vars(base).get("DECLARED", ((), ()))
            if not methods or any(name in vars(cls) for name in methods):
                for name in facts:
                    if name not in vars(cls):
                        setattr(cls, name, vars(base)[name])


class Part(Declaring):
    """A component of a strategy, such as a retention or an exploration; it may have a memory.

    The memory consists of tensors whose shape starts with `batch_shape`. The state of the strategy
    stores the memory; the component itself never changes.
    """

    @property
    def remembers(self) -> bool:
        """Whether the component has a memory that changes from round to round."""
        return type(self).update is not Part.update

    def init(self, batch_shape: Size) -> Any:
        """The memory before the first round: a tensor, or tuples or dicts of tensors.

        Tensors are moved to the state's device, and floating-point tensors also to the state's
        dtype.

        Args:
            batch_shape: Shape of the trials.
        """
        return None

    def update(self, log: Log) -> Any:
        """The memory after a round, given ``log.memory`` and the observation ``log.newest``.

        A subclass that overrides this method must also override :meth:`init`.

        Args:
            log: The log, including the newest observation.
        """
        return log.memory


def as_memory(part: object, memory: Any, before: Any, like: Tensor, shape: Size) -> Any:
    """The memory of a component, moved to the device and the dtype of the strategy's state.

    Args:
        part: The component.
        memory: The result of the component's ``init`` or ``update``.
        before: The component's previous memory.
        like: A tensor with the device and the floating-point dtype of the strategy's state.
        shape: The `batch_shape`.

    Raises:
        InputDataError: If the memory cannot be saved, or has a wrong batch shape.
    """
    name = type(part).__name__

    def settled(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            if leaf is None or isinstance(leaf, (bool, int, float, str)):
                return leaf
            raise InputDataError(
                f"{name} has {shown(leaf)} in its memory, but a memory consists of tensors in "
                "tuples, lists or dicts; use torch.as_tensor()."
            )
        if leaf.shape[: len(shape)] != shape:
            raise InputDataError(
                f"{name} has a tensor of shape {tuple(leaf.shape)} in its memory, but the shape "
                f"must start with batch_shape {tuple(shape)}; create it as "
                "torch.zeros(batch_shape) in init(), and sum over rows with dim=-1."
            )
        return leaf.to(like.device, like.dtype if leaf.is_floating_point() else None)

    if memory is None and before is not None:
        raise InputDataError(
            f"{name}.update returned None, so the memory would be lost; return log.memory if "
            "nothing changes."
        )
    return tree_map(settled, memory)


class Decay(Declaring):
    """How the covariance between objective values at two times falls with the elapsed time.

    Attributes:
        markovian: Whether the objective's future is independent of its past, given its present.
        parameters: Learnable parameters, by attribute name; see :class:`Parameter`.
    """

    DECLARED = (
        ("is_static", "process_name"),
        ("attenuation", "prior_variance", "covariance", "transition"),
    )
    is_static: bool = False
    """Whether the covariance is 1 between all times."""
    process_name: str = ""
    """``"markov"`` or ``"wiener"``, for the formula and the parameter of ``Markov`` or ``Wiener``;
    empty for others."""
    markovian: bool = False
    """Whether the objective's future is independent of its past, given its present.

    If so, the covariance D satisfies D(r, t) D(s, s) = D(r, s) D(s, t) for all r < s < t. On a grid
    this equation permits a recursion of constant cost per round. Strategies check the equation at a
    few times.
    """
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """Learnable parameters, by attribute name."""

    @property
    def stationary(self) -> bool:
        """Whether the covariance depends only on the time difference."""
        kind = type(self)
        constant_variance = kind.prior_variance is Decay.prior_variance
        return constant_variance and kind.covariance is Decay.covariance

    def attenuation(self, elapsed: Tensor) -> Tensor:
        """Attenuation ``a``, by which the covariance between two times is multiplied.

        Args:
            elapsed: Differences between two times, at least 0, any shape.

        Returns:
            The attenuation, in the shape of ``elapsed``.
        """
        raise NotImplementedError(
            f"{type(self).__name__} defines no covariance in time; define attenuation(elapsed), "
            "with prior_variance(elapsed) if the variance changes, or covariance(first, second)."
        )

    def prior_variance(self, elapsed: Tensor) -> Tensor:
        """Factor ``v`` that multiplies the prior variance at a time after the origin.

        Time counts from the last reset. If there was no reset, time counts from the first
        observation. By default ``v`` is 1; if a subclass overrides ``covariance``, ``v`` is by
        default the covariance of each time with itself.

        Args:
            elapsed: Time since the origin, at least 0, any shape.

        Returns:
            The factor ``v``, in the shape of ``elapsed``.
        """
        if type(self).covariance is Decay.covariance:
            return torch.ones_like(elapsed)
        return self.covariance(elapsed, elapsed)

    def covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """The temporal factor of the covariance between two times, both counted from the origin.

        Args:
            first: The first time of each pair, counted from the origin, of any shape that
                broadcasts with ``second``.
            second: The second time of each pair, counted from the origin, any shape.

        Returns:
            The temporal factor, in the shape to which ``first`` and ``second`` broadcast; by
            default ``v(min) * a(|difference|)``.
        """
        retained = self.attenuation((first - second).abs())
        if type(self).prior_variance is Decay.prior_variance:
            return retained
        return self.prior_variance(torch.minimum(first, second)) * retained

    def transition(self, first: Tensor, second: Tensor) -> Tensor:
        """The factor by which a Markovian objective's posterior mean changes between two times.

        Args:
            first: Times since the origin, any shape.
            second: Later times, of any shape that broadcasts with ``first``.

        Returns:
            The factor that multiplies the posterior mean, in the shape to which ``first`` and
            ``second`` broadcast.
        """
        if type(self).attenuation is Decay.attenuation:
            return self.covariance(first, second) / self.prior_variance(first)
        return self.attenuation((second - first).clamp_min(0))


class Inflation(Declaring, ABC):
    """How the noise variance of an observation grows with the observation's lag (age).

    The lag is the reference time minus the time of the observation, at least 0. The newest
    observation has lag 0 and its original noise.

    Attributes:
        parameters: Learnable parameters, by attribute name; see :class:`Parameter`.
    """

    DECLARED = (("is_static",), ("log_factor",))
    is_static: bool = False
    """Whether the noise variance does not depend on the lag."""
    parameters: ClassVar[Mapping[str, Parameter]] = {}
    """Learnable parameters, by attribute name; see :class:`Parameter`."""

    @abstractmethod
    def log_factor(self, lag: Tensor) -> Tensor:
        """Logarithm of the factor by which the noise variance grows; the factor may overflow.

        Args:
            lag: Lags, at least 0, any shape.

        Returns:
            The logarithm of the factor, in the shape of ``lag``; 0 at lag 0.
        """


class Retained(NamedTuple):
    """Which rows of the log a rule retains, and whether it resets the trial.

    Dropped rows never return. A reset also restarts everything that counts from the last reset,
    such as the time of a Wiener decay and the rounds t' of a trigger. ``Info.reset`` reports
    resets.

    Attributes:
        newest: Number of newest rows to retain; None for all, 0 for none.
        where: For each trial, whether ``newest`` applies, `batch_shape`, bool; None for all trials.
        rows: For each row, whether to retain it, `batch_shape x n`, bool; a slower alternative to
            ``newest``.
        reset: For each trial, whether to reset it, `batch_shape`, bool; or a single bool for all
            trials.
        aside: For each row, whether to ignore it for now, `batch_shape x n`, bool; None to ignore
            no row. An ignored row is used again as soon as ``aside`` is False for it.
    """

    newest: int | None = None
    where: Tensor | None = None
    rows: Tensor | None = None
    reset: bool | Tensor = False
    aside: Tensor | None = None


class Lifetime(NamedTuple):
    """How long a rule retains observations if this depends only on their number or their age.

    At most one of the numbers is positive; if all are 0, the rule retains all observations.

    Attributes:
        window: Number of newest observations that are retained.
        period: Number of rounds after which all observations are dropped by a reset.
        span: Longest time for which an observation is retained.
    """

    window: int = 0
    period: int = 0
    span: float = 0.0


class Retention(Part, ABC):
    """A rule that decides which observations to retain.

    A rule implements :meth:`keep`, which uses the log and optionally the rule's own memory; see
    :class:`~botorch_tv.forgetting.base.Part`. Several rules can be combined, for example
    ``retention=(SlidingWindow(20), EventTrigger(0.1))``. If several rules are combined, a row is
    retained only if all rules retain it, and a reset by any rule resets all rules.

    Example:
        >>> class Sessions(Retention):
        ...     '''Forget everything before a pause longer than an hour.'''
        ...
        ...     def keep(self, log):
        ...         fresh = log.now - log.time[..., -1] > 3600
        ...         return Retained(newest=0, where=fresh, reset=fresh)
    """

    DECLARED = (
        ("on_observation", "retained_for", "reacts", "sets_aside", "resets_beyond_band"),
        ("keep", "band"),
    )
    on_observation: bool = False
    """Whether the rule drops rows only after an observation, not as time passes. If True,
    :meth:`keep` is called only after observations."""
    retained_for: Lifetime | None = None
    """How long observations are retained, if this depends only on their number or their age."""
    sets_aside: bool = False
    """Whether the rule sets rows aside and uses them again later."""
    resets_beyond_band: bool = False
    """Whether the rule resets where |y - mean| of the newest observation exceeds :meth:`band`, then
    retains only this observation, and does nothing else. The band is a sum of a multiple of ``sd``
    and a term that depends on ``noise``; both depend on ``since``."""

    @property
    def reacts(self) -> bool:
        """Whether the retained rows may depend on observed values."""
        return self.retained_for is None

    @abstractmethod
    def keep(self, log: Log) -> Retained | Tensor:
        """Which rows to retain.

        This method is called after each observation, with this observation in ``log.newest``, and
        before each choice, with None in ``log.newest``. The log always contains at least 1
        observation.

        Args:
            log: The n retained rows, oldest first.

        Returns:
            A :class:`Retained`, or a mask of the rows to retain, `batch_shape x n`, bool.
        """

    def band(self, sd: Tensor, noise: float | Tensor, since: Tensor) -> Tensor | None:
        """The threshold on |y - mean| above which the rule resets; used only for diagnosis.

        Args:
            sd: Predicted standard deviation, without observation noise, `batch_shape`.
            noise: Noise variance, scalar or `batch_shape`.
            since: Number t' of rounds since the last reset, `batch_shape`, int64.

        Returns:
            The threshold on |y - mean|, `batch_shape`. The default None means that the rule has no
            threshold on |y - mean|.
        """
        return None


@dataclass(frozen=True)
class Static(Decay, Inflation):  # type: ignore[misc]
    """No decay and no inflation, as in ordinary Gaussian-process regression."""

    is_static = True
    markovian = True

    def attenuation(self, elapsed: Tensor) -> Tensor:
        return torch.ones_like(elapsed)

    def log_factor(self, lag: Tensor) -> Tensor:
        return torch.zeros_like(lag)
