"""The base class of strategies: public calls, checks, and the methods that subclasses define."""

from __future__ import annotations

import functools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch
from botorch.exceptions import InputDataError
from botorch.posteriors import GPyTorchPosterior
from gpytorch.distributions import MultivariateNormal
from linear_operator.operators import DenseLinearOperator
from torch import Size, Tensor

from botorch_tv.forgetting.base import Declaring
from botorch_tv.gp.covariance import part_text
from botorch_tv.gp.process import Joint
from botorch_tv.gp.random import Draws, Generators, draws_for
from botorch_tv.gp.tensors import outside_inference_mode, without_gradients
from botorch_tv.notebook import listing
from botorch_tv.strategies.arguments import (
    Measured,
    as_context,
    as_noise,
    as_time,
    fingerprinted,
    least_noise,
    located,
    require_forward,
    require_suggestion,
    require_tensors,
)
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.feasible import Asked, Feasible, MoveCost
from botorch_tv.strategies.state import Consultation, Info, Now, State, Suggestion
from botorch_tv.validation import (
    largest,
    real_tensor,
    require_floating,
    require_number,
    require_trials,
    shown,
)

if TYPE_CHECKING:  # BoTorch's models import SciPy, which most strategies do not need
    from botorch_tv.strategies.model import StrategyModel


class Strategy(Declaring, ABC):
    """A bandit: it chooses where to measure next, and predicts the objective's current values.

    A strategy is a configuration, and never changes. It serves one trial (``batch_shape=()``)
    or thousands of trials that advance together. Its methods are pure: they return new states and
    do not change the old states. Most presets return a :class:`~botorch_tv.strategies.GPStrategy`,
    which is composed of parts.
    """

    DECLARED = (("by_parts",), ())
    by_parts: bool = False
    """Whether the strategy plays its parts like a ``GPStrategy``, so that studies can be compiled;
    every subclass must declare this anew."""

    def _repr_markdown_(self) -> str:
        """For notebooks: a table of the arguments."""
        names = getattr(self, "__dataclass_fields__", ())
        rows = {name: part_text(getattr(self, name)) for name in names}
        return listing(type(self).__name__, rows)

    # ---------------------------------------------------------------- defined by subclasses

    @property
    @abstractmethod
    def maximize(self) -> bool:
        """True to maximise, False to minimise; predictions are in the units of y in both cases."""

    @property
    @abstractmethod
    def draws(self) -> bool:
        """Whether choices may use random numbers."""

    @property
    @abstractmethod
    def compares(self) -> bool:
        """Whether the prediction of a suggestion is ever compared with its observation."""

    @property
    @abstractmethod
    def _begun(self) -> tuple[str, ...]:
        """Texts that identify the parts that compute a state; empty if a part has no text."""

    @abstractmethod
    def _init(self, domain: Domain, shape: Size, dtype: torch.dtype, device: torch.device) -> State:
        """The state before the first round; raises if the strategy does not support the domain."""

    @abstractmethod
    def init_like(self, state: State, batch_shape: Size | tuple[int, ...]) -> State:
        """An initial state for new trials on the domain of ``state``; both states share the kernel.

        Args:
            state: Any state of this strategy.
            batch_shape: Shape of the new trials.
        """

    @abstractmethod
    def _ask(self, state: State, asked: Asked, draws: Draws) -> Suggestion:
        """The choice of every trial; arguments have been checked."""

    @abstractmethod
    def _suggestion_at(self, state: State, choice: Tensor, now: Now) -> Suggestion:
        """As :meth:`suggestion_at`, for choices in the form that the log stores."""

    @abstractmethod
    def _tell(self, state: State, measured: Measured, *, consume: bool) -> tuple[State, Info]:
        """The state after a checked observation, and a report."""

    @abstractmethod
    def _best(self, state: State, asked: Asked, caution: float) -> Tensor:
        """The choice with the best mean after a penalty of ``caution`` standard deviations."""

    @abstractmethod
    def _joint(self, state: State, choice: Tensor, now: Now) -> Joint:
        """The model's joint posterior of f_now within groups of arms or points."""

    def band_factor(self, state: State, variance: Tensor) -> Tensor | float:
        """Factor on the model's standard deviations with which bands of predictions hold.

        Args:
            state: The current state.
            variance: Variances of f in the units of y, `batch_shape` and any further dimensions.
        """
        return 1.0

    @abstractmethod
    def arm_means(self, state: State) -> Tensor:
        """The posterior mean of f on all arms of a grid, one :meth:`step` after the newest data.

        Args:
            state: The current state.

        Returns:
            Means, `batch_shape x M`, including the prior mean.
        """

    @abstractmethod
    def model_noise(self, state: State) -> Tensor:
        """Noise variance of a new observation, learned or given, `batch_shape`.

        Args:
            state: The current state.
        """

    @abstractmethod
    def numbers_per_trial(self, state: State, horizon: int, trials: int = 1) -> int:
        """Upper bound on how many numbers a trial has stored after ``horizon`` rounds.

        From this upper bound, a study derives the number of trials that run together. On a grid, a
        trial stores fewer numbers if arms are played repeatedly.

        Args:
            state: Any state of this strategy.
            horizon: Number of rounds.
            trials: Number of trials that run together; they share part of the memory that they
                use.
        """

    # ---------------------------------------------------------------- defaults

    @property
    def consults(self) -> bool:
        """Whether :meth:`consult` may ask an expert."""
        return False

    @property
    def remakes_suggestions(self) -> bool:
        """Whether points, times and observations suffice to compute the state again.

        If so, a log need not store suggestions, because :meth:`suggestion_at` makes them again.
        """
        return True

    @property
    def restorable(self) -> bool:
        """Whether a loop may store snapshots of its state, because a replay takes long.

        If True, a state differs from the state before any round only in its tensors and numbers.
        """
        return False

    @property
    def reacts(self) -> bool:
        """Whether an observation may reset the model."""
        return False

    @property
    def usual_noise(self) -> float:
        """Default noise variance of an observation; NaN if the strategy estimates it."""
        return math.nan

    def step(self, state: State) -> float | Tensor:
        """Default time from the newest measurement to the next, a scalar or `batch_shape`.

        By default, the time to the next measurement is 1; subclasses may override this method.

        Args:
            state: The current state.
        """
        return 1.0

    def predicts(self, state: State) -> Tensor:
        """Whether predictions are available, `batch_shape`, bool.

        With a given prior, predictions are always available. If there are no predictions, ``mean``
        and ``sd`` of a suggestion are meaningless.

        Args:
            state: The current state.
        """
        return torch.ones_like(state.time, dtype=torch.bool)

    def prior_variance(self, state: State) -> float:
        """Largest prior variance of the objective over the domain.

        Args:
            state: A state of one trial.
        """
        return float(state.basis.scale**2)

    def describe(
        self, state: State, *, format_time: Callable[[float], str] = "{:g}".format, unit: str = ""
    ) -> str:
        """A summary of the model as text; for a strategy that learns nothing, its arguments.

        Args:
            state: The current state.
            format_time: Function that formats a time as text.
            unit: Unit of time in the plural, such as "hours".
        """
        return f"Given: {self!r}."

    def band(self, state: State, suggestion: Suggestion) -> Tensor | None:
        """The threshold on |y - mean| above which a trigger causes a reset, `batch_shape`.

        Args:
            state: The state that made the suggestion.
            suggestion: The point to measure, with its prediction.

        Returns:
            The threshold (the smallest of several), `batch_shape`; None if no rule of retention
            compares y with a threshold.
        """
        return None

    def undisturbed(self) -> Strategy:
        """The strategy to use with fantasy observations; triggers, learning and the expert are off.

        Given the same data, this strategy and the returned strategy choose the same points.
        """
        return self

    def warn_of_absence(self, state: State, stacklevel: int = 2) -> None:
        """Warn if an expert was due after the newest round but has not answered.

        Args:
            state: The current state.
            stacklevel: As in ``warnings.warn``.
        """
        return None

    def _least_noise(self, state: State) -> float:
        """The smallest noise variance that may be given."""
        return least_noise(state.basis.scale**2, state.basis.variance.dtype)

    def _default_noise(self, noise: float | Tensor | None) -> float:
        """Default noise variance of an observation; raises if the strategy takes no ``noise``."""
        return self.usual_noise

    def _check(self, state: State, measured: Measured) -> None:
        """Warn of, or refuse, an observation that contradicts the strategy's assumptions."""
        return None

    def _absorb(
        self, state: State, consultation: Consultation, y: Tensor, ok: Tensor | None, check: bool
    ) -> State:
        """The state with an expert's answers; see :meth:`absorb`."""
        raise InputDataError(
            f"{self!r} consults no expert, so it takes no answers; pass observations to tell()."
        )

    @functools.cached_property
    def _fingerprint(self) -> str | None:
        """A text that identifies the strategy; it is the same in all processes."""
        try:
            return fingerprinted(repr(self), self._begun)
        except Exception:  # a part may lack a working repr
            return None

    # ---------------------------------------------------------------- public calls

    @without_gradients
    def init(
        self,
        domain: Domain,
        *,
        batch_shape: Size | tuple[int, ...] = (),
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> State:
        """The state before the first round.

        Args:
            domain: A :class:`Grid` or a :class:`Box`.
            batch_shape: Shape of the trials that advance together; empty for one trial.
            dtype: Dtype of all computations, float64 or float32.
            device: Device of all computations; by default the domain's device.

        Returns:
            A state to pass to :meth:`ask`.

        Raises:
            InputDataError: If the kernel does not fit the domain, or is not positive semi-definite.
            ValueError: If ``dtype`` is neither float64 nor float32, or if a parameter is out of its
                range.
        """
        require_floating(dtype)
        if not isinstance(domain, Domain):
            raise InputDataError(
                f"the domain is {shown(domain)}, but it must be a Box or a Grid, such as "
                "Box([(low, high), ...])."
            )
        place = domain.device if device is None else torch.device(device)
        return self._init(domain, Size(batch_shape), dtype, place)

    @without_gradients
    def ask(
        self,
        state: State,
        *,
        now: float | Tensor | None = None,
        context: Tensor | None = None,
        feasible: Feasible | None = None,
        cost: MoveCost | None = None,
        generator: Generators | Draws | None = None,
    ) -> Suggestion:
        """Choose where to measure next.

        Args:
            state: The current state.
            now: Time of the measurement, a scalar or `batch_shape`; one :meth:`step` after the
                newest observation by default. If ``now`` is given, the ages of observations count
                up to ``now``; otherwise they count up to the newest observation.
            context: Coordinates that are given and not chosen, `batch_shape x c`, for a box with
                ``context_dim`` c.
            feasible: Where a choice is allowed, such as the probability of success of
                :class:`~botorch_tv.strategies.feasible.Success`; by default everywhere.
            cost: What each choice costs, in the units of y, such as
                :class:`~botorch_tv.strategies.feasible.MoveCost`; it is subtracted from scores.
            generator: Source of random numbers for randomised explorations: a ``torch.Generator``,
                a list with a generator per trial, or an object with ``normal`` and ``uniform`` such
                as :class:`~botorch_tv.simulation.streams.Stream`; PyTorch's global generator by
                default.

        Returns:
            The choice of every trial.

        Raises:
            InputDataError: If ``now`` lies before an observation, if the context does not fit the
                domain, or if a list of generators does not have a generator per trial.
        """
        draws = draws_for(generator, state.data.time.shape, state.data.prior.variance)
        return self._ask(state, Asked(now, as_context(state, context), feasible, cost), draws)

    @without_gradients
    def suggestion_at(self, state: State, X: Tensor, *, now: Now = None) -> Suggestion:
        """A suggestion at given points, such as historical data or choices made elsewhere.

        Args:
            state: The current state.
            X: The points, `batch_shape x d`, followed by the context if the box has any.
            now: Time, a scalar or `batch_shape`, as in :meth:`ask`.

        Returns:
            The points with their prediction, for :meth:`tell`.

        Raises:
            InputDataError: If a point is outside the domain, or if the shape does not fit.
        """
        return self._suggestion_at(state, located(state, X, Size()).clone(), now)

    @without_gradients
    def tell(
        self,
        state: State,
        suggestion: Suggestion,
        y: Tensor | float,
        *,
        time: float | Tensor | None = None,
        ok: Tensor | None = None,
        noise: float | Tensor | None = None,
        check: bool = True,
        consume: bool = False,
    ) -> tuple[State, Info]:
        """Add an observation.

        Args:
            state: The state that made the suggestion, or a later state. If several suggestions are
                measured in parallel, pass each result with the newest state.
            suggestion: The measured point, with its prediction. An event trigger compares ``y``
                with the suggestion's prediction. Observations added after the suggestion do not
                change its prediction, but the posterior uses these observations. A suggestion
                passed twice counts as two measurements.
            y: The observations, `batch_shape`; a number if ``batch_shape=()``.
            time: Actual time of the measurements, a scalar or `batch_shape`; the suggestion's time
                by default.
            ok: Whether the measurement succeeded, bool, `batch_shape`; True by default. If a
                measurement failed, the round is counted, but ``y`` is ignored and may have any
                value.
            noise: Noise variance of this observation, positive, a scalar or `batch_shape`; by
                default the strategy's noise variance.
            check: Whether to validate the values; the validation synchronises with the device.
            consume: Whether the new state may reuse the memory of ``state``. If True, the
                computation for many trials is faster, but ``state`` must not be used afterwards.

        Returns:
            The state of the next round, and a report of this round.

        Raises:
            InputDataError: If an observation is NaN or infinite; if shape, dtype or device differ
                from the state's; if ``time`` lies before the newest observation; or if the
                suggestion belongs to another strategy or domain.
        """
        own, shape = state.data.prior.variance, state.data.time.shape
        default = self._default_noise(noise)
        if check:
            require_suggestion(state, suggestion, self._fingerprint, compared=self.compares)
        when = suggestion.time if time is None else as_time(state, time, "time")
        made = real_tensor(y, own) if isinstance(y, (int, float)) and not shape else None
        y = y if made is None else made
        variance, least = as_noise(state, noise, default, self._least_noise(state), check)
        if check:
            require_forward(state, when, "time")
            flags = (y, shape, None) if ok is None else (ok, shape, torch.bool)
            require_tensors(own, ("y", y, shape, None), ("ok", *flags))
        assert isinstance(y, Tensor)
        if ok is not None:
            variance = torch.where(ok, variance, torch.inf)
        if check:
            # Some computations divide y by the noise standard deviation; a limit on |y| prevents
            # overflow.
            limit = largest(own.dtype) * variance.sqrt().clamp_max(1)
            good = (y.abs() <= limit) | variance.isinf()
            text = f"as observation y is not finite, or too large for {y.dtype}, whose limit"
            fix = "pass ok=False for a measurement that failed, or choose another unit."
            require_trials(good, y, f"{text} under this noise is", fix, limit=limit)
        if ok is not None:
            y = torch.where(ok, y, 0.0)
        measured = Measured(suggestion, y, variance, when, least, ok, noise)
        if check:
            self._check(state, measured)
        return self._tell(state, measured, consume=consume)

    def consult(
        self, state: State, *, generator: Generators | Draws | None = None
    ) -> Consultation | None:
        """Points for an expert to measure again; call after :meth:`tell`, before :meth:`ask`.

        Args:
            state: The current state.
            generator: Source of random numbers, as in :meth:`ask`.

        Returns:
            The points of each trial; None if no consultation is due.
        """
        return None

    @without_gradients
    def absorb(
        self,
        state: State,
        consultation: Consultation,
        y: Tensor,
        *,
        ok: Tensor | None = None,
        check: bool = True,
    ) -> State:
        """Add an expert's answers; they replace old answers and observations before the question.

        Args:
            state: The newest state: the state of the consultation, or a later state.
            consultation: The question to the expert.
            y: The answers, `batch_shape x Q`; arbitrary where ``consultation.mask`` is False.
            ok: Which points were answered, bool, `batch_shape x Q`; all by default.
            check: Whether to validate the values; the validation synchronises with the device.

        Returns:
            The new state. ``state.expert.unanswered`` counts the points without an answer.

        Raises:
            InputDataError: If this strategy consults no expert; if the number of answers differs
                from the number of points; if an answer is NaN or infinite; or if the consultation
                belongs to another run or is superseded.
        """
        return self._absorb(state, consultation, y, ok, check)

    @without_gradients
    def recommend(
        self,
        state: State,
        *,
        now: float | Tensor | None = None,
        context: Tensor | None = None,
        caution: float = 0.0,
        feasible: Feasible | None = None,
        cost: MoveCost | None = None,
    ) -> Tensor:
        """The point with the best posterior mean now, without exploration, `batch_shape x d`.

        If the box has a context, the context follows the d coordinates of the point.

        Args:
            state: The current state.
            now: Time, a scalar or `batch_shape`, as in :meth:`ask`.
            context: The context, `batch_shape x c`, as in :meth:`ask`.
            caution: Weight of the posterior standard deviation: the point maximises
                mean - caution sd, or minimises mean + caution sd.
            feasible: Where a recommendation is allowed, as in :meth:`ask`.
            cost: What each choice costs, as in :meth:`ask`.

        Raises:
            InputDataError: If ``now`` lies before an observation, or if the context does not fit
                the domain.
            ValueError: If ``caution`` is negative or not finite.
        """
        caution = require_number("recommend: caution", caution, "[0, inf)", "0.5 is usual.")
        asked = Asked(now, as_context(state, context), feasible, cost)
        best = self._best(state, asked, caution)
        return state.domain.points(best, state.basis.variance)

    @without_gradients
    def recommended_arm(self, state: State, *, now: float | Tensor | None = None) -> Tensor:
        """The index of the arm that :meth:`recommend` returns on a grid, `batch_shape`, int64.

        Args:
            state: The current state.
            now: Time, a scalar or `batch_shape`, as in :meth:`ask`.
        """
        return self._best(state, Asked(now, as_context(state, None)), 0.0)

    @outside_inference_mode
    def posterior(
        self,
        state: State,
        X: Tensor,
        *,
        now: float | Tensor | None = None,
        observation_noise: bool = False,
    ) -> GPyTorchPosterior:
        """The posterior of f_now at given points.

        Args:
            state: The current state.
            X: Points of the domain, `e x batch_shape x q x d` with any leading dimensions e; a
                tensor that broadcasts to this shape is expanded. If the box has a context, the
                context follows the d coordinates of each point.
            now: Time, a scalar or `batch_shape`, as in :meth:`ask`.
            observation_noise: Whether the posterior includes the noise of a new observation.

        Returns:
            A joint posterior over q points, batched over `e x batch_shape`. On a box, the posterior
            is differentiable in ``X``.

        Raises:
            InputDataError: If a point is outside the domain, or if the shape does not fit.
        """
        shape, dims = state.time.shape, state.time.dim()
        lead = X.shape[: max(0, X.dim() - 2 - dims)]
        try:
            q, d = X.shape[-2:]
            X = X.expand(*lead, *shape, q, d)
        except (RuntimeError, ValueError) as error:
            raise InputDataError(
                f"X has shape {tuple(X.shape)}, but this state has batch_shape {tuple(shape)}; "
                "pass points of shape q x d, or batch_shape x q x d."
            ) from error
        # The first size is explicit, because -1 is ambiguous if there are no trials.
        groups = X.reshape(lead.numel(), *shape, q, d).movedim(0, dims)
        choice = located(state, groups, groups.shape[dims:-1])
        mean, covariance, _ = self._joint(state, choice, now)
        wider = self.band_factor(state, covariance.diagonal(dim1=-2, dim2=-1))
        if isinstance(wider, Tensor):
            covariance = covariance * wider.unsqueeze(-1) * wider.unsqueeze(-2)
        if observation_noise:
            noise = self.model_noise(state).to(mean)[..., None, None, None]
            identity = torch.eye(mean.shape[-1], dtype=mean.dtype, device=mean.device)
            covariance = covariance + noise * identity
        mean = mean.movedim(dims, 0).reshape(*lead, *shape, mean.shape[-1])
        covariance = covariance.movedim(dims, 0).reshape(*mean.shape, mean.shape[-1])
        # A lazy operator is not factored here. The covariance of many points may be numerically
        # singular.
        return GPyTorchPosterior(Gaussian(mean, DenseLinearOperator(covariance)))

    def as_model(self, state: State, *, now: float | Tensor | None = None) -> StrategyModel:
        """The posterior as a BoTorch model over the columns of the domain, at a fixed time.

        Args:
            state: The current state.
            now: Time, a scalar or `batch_shape`, as in :meth:`ask`.
        """
        from botorch_tv.strategies.model import StrategyModel

        now = now.clone() if isinstance(now, Tensor) else now  # the caller may modify the tensor
        return StrategyModel(functools.partial(self.posterior, state, now=now), state)


class Gaussian(MultivariateNormal):  # type: ignore[misc]
    """A multivariate normal without GPyTorch's lower limit of 1e-10 on variances.

    If values of y differ only by about 1e-6, their variance of about 1e-12 lies below GPyTorch's
    lower limit on variances.
    """

    @property
    def variance(self) -> Tensor:
        """Variances, `... x q`, positive despite rounding."""
        diagonal: Tensor = self.lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2)
        variance = diagonal.expand(self.batch_shape + self.event_shape)
        return variance.clamp_min(torch.finfo(variance.dtype).tiny)
