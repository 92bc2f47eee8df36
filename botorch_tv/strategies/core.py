"""Strategy, the frozen configuration of a bandit, with its ask and tell interface.

A strategy serves one trial (``batch_shape=()``) or thousands that advance together. Its methods are
pure: they return new states and leave the old ones unchanged. Its parts are defined in
:mod:`botorch_tv.strategies.parts`, its predictions in :mod:`botorch_tv.strategies.predictor`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.forgetting import Observation
from botorch_tv.forgetting.parts import as_memory
from botorch_tv.inference.box_prior import BoxPrior
from botorch_tv.inference.covariance import warn_of_rounded_parameters
from botorch_tv.inference.data import Data, Prior
from botorch_tv.inference.tensors import repeated, without_gradients
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.checks import (
    as_context,
    require_begun_with,
    require_place,
    require_scales,
    require_state,
)
from botorch_tv.strategies.consultation import Consultation
from botorch_tv.strategies.deciding import (
    Choice,
    Decision,
    regresses_on_few,
)
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.draws import Draws, Generators, draws_from
from botorch_tv.strategies.keeping import retained_at, rule_answers, updated_memory
from botorch_tv.strategies.learned import relearned, require_learnable
from botorch_tv.strategies.located import located
from botorch_tv.strategies.measured import Measured, as_measured
from botorch_tv.strategies.misfit import warn_of_clock, warn_of_domain, warn_of_observation
from botorch_tv.strategies.predictor import Predictor
from botorch_tv.strategies.represented import represented
from botorch_tv.strategies.state import Info, Memory, State, Suggestion
from botorch_tv.validation import require, require_floating


@dataclass(frozen=True, kw_only=True, repr=False)
class Strategy(Predictor):
    """A bandit: decay x inflation x retention x exploration.

    Every posterior is a posterior on f_now, with

        mean(x) = k~ᵀ (K ∘ D + N)⁻¹ y,   var(x) = k(x, x) - k~ᵀ (K ∘ D + N)⁻¹ k~,

    where the decay determines D and k~, the inflation determines N, and the retention selects the
    rows. The choice usually maximises mean(x) + sqrt(beta) sd(x). Arms within 1e-7 standard
    deviations of the best tie, and the lowest index wins. Without data the choice is index 0, or
    the centre of a box.

    Args:
        kernel: Spatial covariance: a GPyTorch kernel, or a matrix over the arms, `M x M`. Like
            decay, inflation and width it is copied, so later changes to it do not affect the
            strategy. Retention and exploration are not copied; by contract they never change.
        noise: Noise variance σ² of a new observation (λ for exponential weights).
        decay: How covariance falls with the time between measurements.
        inflation: How the noise of a measurement grows with its age.
        retention: Which measurements are kept; of several rules, those that all of them keep.
        width: The confidence schedule sqrt(beta_t), used by explorations based on confidence
            bounds.
        exploration: How the posterior becomes a choice; upper confidence bounds by default.
        maximize: False to minimise. Predictions stay in the units of y.
        mean: Prior mean of the objective: a number, or ``"estimated"`` for the constant found by
            generalised least squares from the data in use, 1ᵀA⁻¹y / 1ᵀA⁻¹1 with A = K ∘ D + N. The
            uncertainty of the estimate is not added to the variance.
        inference: ``"features"`` (factor the kernel once; with constant noise each observation is a
            rank-one update), ``"exact"`` (regression on the log in every round), or ``"auto"``, the
            faster of the two that makes the same choices. On a box features are approximate: the
            error is bounded by :class:`~botorch_tv.strategies.Features`, a kernel that cannot meet
            the bound is refused, and the cost of a round does not grow. Only regression is
            available when the kernel is learned or when an expert's answers replace data.
        learning: Which hyperparameters are learned online, and when; boxes only. ``kernel``,
            ``noise`` and ``decay`` are then the initial values. The guarantees of widths and
            triggers are proved for known hyperparameters and do not hold in this case.

    Raises:
        ValueError: If ``noise`` is not positive, ``mean`` is not finite, or a part is of the wrong
            type.
    """

    consults: ClassVar[bool] = False
    """Whether :meth:`consult` may ask an expert."""
    knows_scale: ClassVar[bool] = True
    """Whether scale and clock are given, so that data far from what they imply merit a warning."""
    needs_member: ClassVar[bool] = False
    """Whether ``tell`` must know which of several strategies made a suggestion; files do not."""

    # ---------------------------------------------------------------- the contract

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
            domain: Where to choose, a :class:`Grid` or a :class:`Box`.
            batch_shape: Shape of the trials that advance together; empty for one.
            dtype: Of all computations, float64 or float32.
            device: Of all computations; the domain's by default.

        Returns:
            A state to pass to :meth:`ask`.

        Raises:
            InputDataError: If the kernel does not fit the domain or is indefinite.
            ValueError: If ``batch_shape`` is not a tuple.
        """
        require_floating(dtype)
        require_place(type(self).__name__, domain, batch_shape)
        place = domain.device if device is None else torch.device(device)
        return self._init(domain, Size(batch_shape), dtype, place)

    def _init(self, domain: Domain, shape: Size, dtype: torch.dtype, device: torch.device) -> State:
        """The state before the first round; raises where this strategy cannot serve a domain."""
        require(
            self.learning is None or isinstance(domain, Box),
            f"Strategy.init: hyperparameters are learned on a Box, not on {domain!r}; use "
            "Box(bounds, search=DiscreteSearch(X)), or learning=None.",
        )
        warn_of_rounded_parameters(self.kernel, dtype)
        method = self._method
        few = dtype == torch.float64 and regresses_on_few(self.inference_for(domain), domain)
        # A sample takes a root of the covariance.
        if method == "auto" and (self.exploration.samples or few):
            method = "features"
        prior = domain.prior(self.kernel, method, dtype=dtype, device=device)
        if self.learning is not None and isinstance(domain, Box):
            require_learnable(self.process, domain, self.learning)
        if isinstance(domain, Box) and isinstance(prior, BoxPrior):
            # In features where these were asked for, or pay and change no choice.
            prior = represented(
                self.process,
                domain,
                prior,
                self.inference,
                samples=self.exploration.samples,
                changes=self.learning is not None or self._replaces_data,
            )
        require_scales(type(self).__name__, self.process, self.width, prior.scale**2, dtype)
        warn_of_domain(self.process, self.learning, domain, prior)
        return self._initial(domain, prior, shape)

    @without_gradients
    def init_like(self, state: State, batch_shape: Size | tuple[int, ...]) -> State:
        """The initial state of other trials on the same domain, sharing its factored kernel.

        Args:
            state: Any state of this strategy.
            batch_shape: Shape of the new trials.
        """
        require_state(state)
        return self._initial(state.domain, state.basis.unlearned(), Size(batch_shape))

    def _initial(self, domain: Domain, prior: Prior, shape: Size) -> State:
        dtype, place = prior.variance.dtype, prior.variance.device
        choices = domain.no_choices(shape, dtype=dtype, device=place)
        data = Data.none(prior, choices, self.noise, shape)
        parts = (*self.process.retention, self.exploration)
        made = [as_memory(one, one.init(shape), None, prior.variance, shape) for one in parts]
        return State(
            domain=domain,
            data=data._replace(running=self.inference_for(domain, prior).start(prior, shape)),
            memory=Memory(retention=tuple(made[:-1]), exploration=made[-1]),
            begun_with=self._model_fingerprints,
        )

    @without_gradients
    def ask(
        self,
        state: State,
        *,
        now: float | Tensor | None = None,
        context: Tensor | None = None,
        generator: Generators | Draws | None = None,
    ) -> Suggestion:
        """Choose where to measure next.

        Args:
            state: The current state.
            now: Time of the measurement, a number or `batch_shape`; one :meth:`step` after the
                newest observation by default. If given, noise ages up to this time.
            context: Coordinates known before this round and not chosen, `batch_shape x c`, for a
                box with ``context_dim`` c.
            generator: Source of random numbers for randomised explorations: a ``torch.Generator``,
                a list with one per trial, or an object with ``normal`` and ``uniform`` such as
                :class:`~botorch_tv.simulation.streams.Stream`; PyTorch's global one by default.

        Returns:
            The choice of every trial.

        Raises:
            InputDataError: If ``now`` lies before an observation, the context does not fit the
                domain, or there is not one generator per trial.
        """
        require_state(state)
        return self._ask(state, now, as_context(state, context), draws_from(generator, state))

    def _ask(
        self, state: State, now: float | Tensor | None, context: Tensor | None, draws: Draws
    ) -> Suggestion:
        """The choice of every trial; arguments have been checked."""
        decision = self.decision(state, now, context)
        return self._suggestion(decision, self._chosen(decision, draws))

    def _chosen(self, decision: Decision, draws: Draws) -> Choice:
        """The choice of a round."""
        return decision.chosen(self.exploration, draws)

    @without_gradients
    def suggestion_at(
        self, state: State, X: Tensor, *, now: float | Tensor | None = None
    ) -> Suggestion:
        """A suggestion at given points, such as historical data or choices made elsewhere.

        Args:
            state: The current state.
            X: The points, `batch_shape x d`, followed by the context if there is one.
            now: As in :meth:`ask`.

        Returns:
            What :meth:`tell` needs to add an observation made at ``X``.

        Raises:
            InputDataError: If a point is outside the domain or the shape does not fit.
        """
        require_state(state)
        choice, decision = located(state, X, Size()).clone(), self.decision(state, now)
        return self._suggestion(decision, decision.at(choice))

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
            state: The state that made the suggestion, or a later one. When several suggestions are
                measured in parallel, pass each result with the newest state.
            suggestion: What was measured, with its prediction. An event trigger compares ``y`` with
                that prediction, which ignores observations added since; the posterior uses all of
                them. A suggestion passed twice counts as two measurements.
            y: The observations, `batch_shape`; a number if ``batch_shape=()``.
            time: When they were actually made, a number or `batch_shape`; the suggestion's time by
                default.
            ok: False where the measurement failed, bool, `batch_shape`: the round counts, but
                nothing is learned from it, and y may be anything.
            noise: Variance of this observation, positive, a number or `batch_shape`; the
                strategy's by default.
            check: Whether to validate the values, which synchronises with the device.
            consume: Whether the new state may reuse the memory of ``state``, which is faster for
                many trials; ``state`` must not be used afterwards.

        Returns:
            The state of the next round, and what happened.

        Raises:
            InputDataError: If an observation is NaN or infinite, shape, dtype or device differ from
                the state's, time runs backwards, or the suggestion is from another strategy or
                domain. The state is not changed.
        """
        require_state(state)
        measured = as_measured(
            state,
            suggestion,
            y,
            time=time,
            ok=ok,
            noise=noise,
            usual_noise=self._default_noise(noise),
            made_by=self._fingerprint,
            compared=self.compares,
            check=check,
        )
        if check:
            self._check(state, measured)
        return self._tell(state, measured, consume=consume)

    def _default_noise(self, noise: float | Tensor | None) -> float:
        """Default variance of an observation; raises if the strategy takes no ``noise``."""
        return self.noise

    def _check(self, state: State, measured: Measured) -> None:
        """Warn of an observation, or refuse it, given what this strategy assumes."""
        if not self.knows_scale:
            return
        y, variance, when = measured.y, measured.noise, measured.time
        warn_of_observation(self.process, self.learning, state, y, variance, when)
        if self.learning is None:
            warn_of_clock(self.process, state, when)

    def _tell(self, state: State, measured: Measured, *, consume: bool) -> tuple[State, Info]:
        """The state with one more observation, and what happened."""
        require_begun_with(state, self._model_fingerprints, self.process.retention)
        inference, rules = self.inference_for(state.domain, state.basis), self.process.retention
        suggestion = measured.suggestion
        believed = inference.believed_noise(state.data, measured.noise)
        newest = Observation(suggestion.X, measured.y, suggestion.mean, suggestion.sd, believed)
        before, expired = retained_at(inference, state, measured.time)
        all_good = measured.ok is None
        grown = before.observed(
            suggestion.choice,
            measured.y,
            measured.noise,
            measured.time,
            measured.least_noise,
            all_good=all_good,
        )
        heard = rule_answers(rules, state, grown, grown.time, before.since, newest)
        after, change = grown.keep(heard, all_good=all_good)
        data = inference.observe(
            before,
            after,
            change,
            consume=consume and before.running is state.data.running,
        )
        resets = [one for one in (expired, change.reset) if one is not None]
        if not resets:
            resets.append(torch.zeros_like(measured.time, dtype=torch.bool))
        reset = functools.reduce(torch.logical_or, resets)
        advanced = state._replace(data=data)
        if self._remembers:
            advanced = advanced._replace(
                memory=updated_memory(rules, self.exploration, advanced, newest, reset)
            )
        if self.learning is not None and self.learning.due(data.rounds):
            advanced = relearned(self.process, advanced, self.learning)
        asked = repeated(0, data.since.shape, data.since.dtype, data.since.device)
        if state.expert is not None:  # what was asked since the last round, told once
            none, asked = torch.zeros_like(asked), state.expert.asked
            advanced = advanced._replace(expert=state.expert._replace(asked=none))
        return advanced, Info(reset, asked, suggestion.sd, believed)

    def consult(
        self, state: State, *, generator: Generators | Draws | None = None
    ) -> Consultation | None:
        """Which points an expert should measure again, after :meth:`tell` and before :meth:`ask`.

        Args:
            state: The current state.
            generator: As in :meth:`ask`.

        Returns:
            The points, their number, and for which trials; None if nothing is asked, as always for
            strategies without an expert.
        """
        require_state(state)
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
        """Add an expert's answers, which replace earlier answers and older observations.

        Args:
            state: The newest state: that of the consultation, or a later one.
            consultation: What was asked.
            y: The answers, `batch_shape x Q`; arbitrary where ``consultation.mask`` is False.
            ok: Which points were answered, bool, `batch_shape x Q`; all by default.
            check: Whether to validate the values, which synchronises with the device.

        Returns:
            The new state. ``state.expert.unanswered`` counts the points without an answer.

        Raises:
            InputDataError: If this strategy consults no expert, the number of answers differs from
                the number of points, an answer is NaN or infinite, or the consultation is from
                another run or superseded.
        """
        require_state(state)
        return self._absorb(state, consultation, y, ok, check)

    def _absorb(
        self, state: State, consultation: Consultation, y: Tensor, ok: Tensor | None, check: bool
    ) -> State:
        """The state with an expert's answers; see :meth:`absorb`."""
        raise InputDataError(
            f"{self!r} consults no expert, so it has no use for answers; tell() takes observations."
        )

    def without_expert(self) -> Strategy:
        """The same strategy for use without an expert; it does not warn of its absence."""
        return self

    def warn_of_absence(self, state: State, stacklevel: int = 2) -> None:
        """Warn if an expert was due after the newest round, but has not answered.

        Args:
            state: The current state.
            stacklevel: As in ``warnings.warn``.
        """

    def _suggestion(self, decision: Decision, choice: Choice) -> Suggestion:
        domain, sqrt_beta = decision.state.domain, choice.sqrt_beta
        if not isinstance(sqrt_beta, Tensor):
            sqrt_beta = torch.full_like(choice.mean, sqrt_beta)
        return Suggestion(
            X=domain.points(choice.choice, decision.data.prior.variance),
            index=choice.choice if isinstance(domain, Grid) else None,
            mean=choice.mean,
            sd=choice.sd,
            sqrt_beta=sqrt_beta.to(choice.mean),
            time=decision.present.now,
            made_by=self._fingerprint,
        )
