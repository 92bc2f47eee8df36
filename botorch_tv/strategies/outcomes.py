"""A strategy for several outcomes: objectives, and limits that a setting must keep."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import add
from typing import TYPE_CHECKING, Any, cast

import torch
from botorch.exceptions import InputDataError
from botorch.utils.multi_objective.box_decompositions.non_dominated import (
    FastNondominatedPartitioning,
)
from torch import Tensor

from botorch_tv.acquisition.exploration import Candidates, Exploration
from botorch_tv.acquisition.widths import Logarithmic
from botorch_tv.even_points import even_points
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.gp.points import PointPosterior, Pull, with_context
from botorch_tv.gp.process import Joint
from botorch_tv.gp.random import Draws
from botorch_tv.gp.tensors import OfTrials, without_gradients
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.arguments import Measured, require_suggestion, require_tensors
from botorch_tv.strategies.candidates import (
    OnArms,
    Predictions,
    RoundCandidates,
    measured_points,
    scattered,
)
from botorch_tv.strategies.expressions import Expression, Limit, Objective
from botorch_tv.strategies.feasible import Asked, Feasible, Success, all_of, corners_of
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.strategies.process_strategy import Composed, ProcessStrategy
from botorch_tv.strategies.state import Info, Now, State, Suggestion, draws_from
from botorch_tv.validation import real_tensor, require, settle_number, shown

if TYPE_CHECKING:
    from botorch.models.model import ModelList

CONFIDENCE = 0.5
"""Default probability of keeping all limits above which a point may be chosen. The probability at
most choices is far higher, because it is also a weight of scores. At 0.9, what had not been
measured lately was never measured again."""
RECOMMENDED = 0.9
"""Probability of keeping all limits above which a point may be recommended."""
SELECTED = 2.0
"""Factor on the variances of limited outcomes in safe strategies. The best of the allowed points is
often a point whose predicted outcome is by chance too far from the bound."""
RATES = (0.0, 0.001, 0.01, 0.05)
"""Rates of change of the candidate models of a limited outcome, instead of the default rates. An
outcome that moves by less than its noise in ten measurements was otherwise held for constant, with
too small standard deviations, or for as fast as 0.01."""
NARROW = Logarithmic(c1=0.4)
"""Confidence schedule of an objective with limits, instead of the default width."""
LEARNING = 1.0
"""Gain of the score's weight in safe strategies where a measurement removes all uncertainty of the
limits. At 0, choices stayed at the first peak in a small part of the allowed points."""
SURE = 40.0
"""Number of standard deviations within a limit at which its probability is 1."""
HAZARD = math.sqrt(2 / math.pi)


@dataclass(frozen=True, eq=False)
class Bound(OfTrials):
    """The predictions of an outcome in the unit of its posterior, and a bound on it."""

    shared = ("upper", "factor")

    posterior: OnArms | PointPosterior
    ready: Tensor
    """Whether there are predictions, `trials x 1`, bool."""
    edge: Tensor
    """The bound, `trials x 1`."""
    upper: bool
    factor: float
    """Factor on standard deviations, at least 1."""
    noise: Tensor | None
    """The noise variance of a measurement, `trials x 1`, if limits are to be learned; else None."""

    def distance(self, mean: Tensor, sd: Tensor) -> tuple[Tensor, Tensor]:
        """The distance from the bound in wider sds, positive within the limit, and these sds."""
        wide = self.factor * sd
        away = self.edge - mean if self.upper else mean - self.edge
        return torch.where(self.ready, away / wide, SURE), wide

    def remainder(self, sd: Tensor) -> Tensor | float:
        """The share of the variance that a measurement leaves; 1 if limits are not learned."""
        return 1.0 if self.noise is None else self.noise / (self.noise + sd.square())


@dataclass(frozen=True, eq=False)
class Kept(OfTrials, Feasible):
    """The probability p that limits are kept now, the product of Φ(±(bound - mean) / sd).

    The weight of scores is √p. With weight p, choices stay too far from the limits: scores count
    from the lowest in the domain, so the gain from a point nearer to a limit is a small share.

    If limits are to be learned, the weight is √p (1 + c (1 - Π σ² / (σ² + v))), with the noise
    variance σ² and the variance v of each outcome, and c = :data:`LEARNING`. The inner bracket is
    the share of the variances that a measurement removes.

    Args:
        bounds: The limits, at least one.
        least: Probability of keeping all limits above which a choice is allowed.
    """

    shared = ("least",)

    bounds: Sequence[Bound]
    least: float

    def each(self, X: Tensor) -> list[Tensor]:
        """The probability of keeping each limit, `trials x q` each; 1 without predictions.

        Args:
            X: Points with their context, `trials x q x (d + c)`.
        """
        z = [own.distance(*own.posterior.at(X))[0] for own in self.bounds]
        return [torch.special.ndtr(each) for each in z]

    def probability(self, X: Tensor) -> Tensor:
        """The probability of keeping all limits, `trials x q`.

        Args:
            X: As in :meth:`each`.
        """
        return torch.stack(self.each(X)).prod(0)

    def judge(self, X: Tensor) -> tuple[Tensor, Tensor]:
        p, left = X.new_ones(2, *X.shape[:-1])
        for own in self.bounds:
            mean, sd = own.posterior.at(X)
            p = p * torch.special.ndtr(own.distance(mean, sd)[0])
            left = left * own.remainder(sd)
        # The derivative of the root is infinite at 0.
        root = p.clamp_min(torch.finfo(p.dtype).tiny).sqrt()
        return root * (1 + LEARNING * (1 - left)), (1 - p) / (1 - self.least)

    def slopes(self, X: Tensor) -> tuple[Tensor, Tensor, Pull]:
        (p, left), parts = X.new_ones(2, *X.shape[:-1]), []
        for own in self.bounds:
            assert isinstance(own.posterior, PointPosterior)
            mean, sd, pull = own.posterior.slopes(X)
            (z, wide), rest = own.distance(mean, sd), own.remainder(sd)
            hazard = HAZARD / torch.special.erfcx(-math.sqrt(0.5) * z)  # φ(z) / Φ(z)
            slope = (-hazard if own.upper else hazard) / wide
            parts.append((pull, slope, -hazard * z / sd, 2 * LEARNING * (1 - rest) / sd))
            p, left = p * torch.special.ndtr(z), left * rest

        root = p.sqrt()
        weight = root * (1 + LEARNING * (1 - left))

        def back(by_weight: Tensor | float, by_risk: Tensor | float) -> Tensor:
            by = 0.5 * weight * by_weight - p * by_risk / (1 - self.least)
            by_left = root * left * by_weight
            each = [pull(by * mean, by * sd + by_left * gain) for pull, mean, sd, gain in parts]
            return functools.reduce(add, each)

        return weight, (1 - p) / (1 - self.least), back

    def strict(self) -> Kept:
        bounds = [replace(own, noise=None) for own in self.bounds]
        return replace(self, bounds=bounds, least=max(self.least, RECOMMENDED))


AROUND = 0.05
"""A point is near a setting if no coordinate differs by more than this share of its range."""


@dataclass(frozen=True, eq=False)
class Around(OfTrials, Feasible):
    """Points near given settings are allowed, and no others.

    Args:
        X: The settings, `trials x n x d`.
        use: Which of the settings count, `trials x n`, bool.
        ranges: The lengths of the ranges, `d`.
    """

    shared = ("ranges",)

    X: Tensor
    use: Tensor
    ranges: Tensor

    def judge(self, X: Tensor) -> tuple[Tensor, Tensor]:
        X = X[..., : len(self.ranges)]
        away = ((X.unsqueeze(-2) - self.X.unsqueeze(-3)) / self.ranges).abs().amax(-1)
        away = torch.where(self.use.unsqueeze(-2), away, math.inf).amin(-1)
        return 1 + 0 * X.sum(-1), away / (AROUND * (1 + 1e-9))  # differentiable


@dataclass(frozen=True, kw_only=True)
class Outcomes(Composed):
    """A strategy for named outcomes, some of which are to be optimised, and some are limited.

    Every objective and every left-hand side of a limit is a number that each measurement has; a
    member, an ordinary strategy, predicts it. A measurement may lack some outcomes; a failed
    measurement has none. The choice maximises the product of the objective's score and of the
    root of the probability that all limits are kept now, among points where this probability is at
    least ``confidence``; if there are none, it is the point that most probably keeps the limits.
    What :meth:`recommend` returns keeps them with a probability of at least 0.9, if any point does;
    for the points of :meth:`pareto`, ``confidence`` is enough.

    With several objectives, each choice maximises a random hypervolume scalarisation of the
    objectives' confidence bounds, min_k (u_k - r_k) / λ_k with λ uniform on the positive part of
    the sphere (Zhang and Golovin, ICML 2020). The reference point r is the worst mean of each
    objective among the measured points that no other measured point dominates, less a tenth of the
    range of these means.

    A ``safe`` strategy leaves the neighbourhood of measured settings only where the predictions
    show that the limits are kept. What time makes uncertain is no longer safe (as in TVSafeOpt,
    arXiv 2409.18000). The first measurement must be at a setting that is known to be safe. Until
    there are predictions, only points near measured settings that kept the limits are allowed.
    The variances of limited outcomes are doubled. The weight of the score is larger by up to a
    factor of two where a measurement makes the limits more certain, see :class:`Kept`, so that
    more settings become safe. These posteriors assume that nothing has jumped since the newest
    measurement. No method keeps limits which jump.

    ``tell`` takes the outcomes as `batch_shape x m` in the order of ``names``, NaN where an outcome
    is missing. The suggestion's mean and sd, :meth:`posterior` and :meth:`recommend` refer to the
    first objective; :meth:`predictions` to every expression.

    Args:
        names: The names of the m outcomes.
        objectives: What to maximise or minimise; at least one.
        limits: Limits on outcomes.
        model: The strategy that predicts an expression; its ``maximize`` is replaced. With limits,
            unless ``safe``, the default width of the adaptive strategy is replaced by
            ``Logarithmic(c1=0.4)``, and the default rates of limited outcomes by ``RATES``.
        confidence: Probability of keeping all limits above which a point may be chosen: the
            probability that the outcomes without noise keep all limits at the time of the choice,
            according to the models.
        safe: Whether every measurement must be safe, the first ones too.
        avoids_failures: Whether the strategy learns where measurements fail, and avoids these
            points. If False, or if ``ask(feasible=)`` is given, the caller says where to choose.

    Raises:
        ValueError: If there is no objective, or if a formula has a name that is no outcome.
    """

    names: tuple[str, ...]
    objectives: tuple[Objective, ...]
    limits: tuple[Limit, ...] = ()
    model: ProcessStrategy = field(default_factory=adaptive_gp_ucb)
    confidence: float = CONFIDENCE
    safe: bool = False
    avoids_failures: bool = True

    def __post_init__(self) -> None:
        require(
            isinstance(self.model, ProcessStrategy) and not self.model.consults,
            f"Outcomes: model is {shown(self.model)}, but it must be a strategy with a single "
            "model and without an expert, such as adaptive_gp_ucb().",
        )
        require(bool(self.objectives), "Outcomes: objectives is empty; give at least one.")
        settle_number(self, "confidence", "(0, 1)", f"{CONFIDENCE} is usual.")
        for expression in self.expressions:
            unknown = [name for name in expression.names or () if name not in self.names]
            require(
                not unknown,
                f"Outcomes: {expression.text!r} has {', '.join(unknown)}, but the outcomes are "
                f"{', '.join(self.names)}; correct the name, or measure it.",
            )

    # ---------------------------------------------------------------- members

    @functools.cached_property
    def expressions(self) -> tuple[Expression, ...]:
        """The distinct formulas that members predict, objectives first."""
        parts: Sequence[Objective | Limit] = [*self.objectives, *self.limits]
        every = [part.expression for part in parts]
        return tuple({own.text: own for own in every}.values())

    @functools.cached_property
    def members(self) -> tuple[ProcessStrategy, ...]:  # type: ignore[override]
        """The strategy of each expression."""
        directions = {own.expression.text: own.maximize for own in reversed(self.objectives)}
        usual: Any = self.model
        limited = usual
        if self.limits and not self.safe and isinstance(usual, Adaptive):
            if usual.width == Logarithmic():
                usual = replace(usual, width=NARROW)
            limited = usual
            if usual.bank.rates == Bank().rates:
                limited = replace(usual, bank=replace(usual.bank, rates=RATES))
        texts = {own.expression.text for own in self.limits}
        return tuple(
            replace(
                limited if own.text in texts else usual, maximize=directions.get(own.text, True)
            )
            for own in self.expressions
        )

    @property
    def recommended(self) -> float:
        """Probability of keeping all limits above which a point may be recommended."""
        return max(self.confidence, RECOMMENDED)

    @property
    def compares(self) -> bool:
        """Whether a member compares predictions with observations."""
        return self.model.compares

    @property
    def draws(self) -> bool:
        """Whether choices may use random numbers: also to weight several objectives."""
        return self.model.draws or len(self.objectives) > 1

    @property
    def restorable(self) -> bool:
        """Whether a loop may store snapshots of the state."""
        return self.model.restorable

    def undisturbed(self) -> Outcomes:
        return replace(self, model=cast(ProcessStrategy, self.model.undisturbed()))

    def step(self, state: State) -> float | Tensor:
        return self.members[0].step(state.members[0])

    def predicts(self, state: State) -> Tensor:
        return self.members[0].predicts(state.members[0])

    def prior_variance(self, state: State) -> float:
        return self.members[0].prior_variance(state.members[0])

    def band_factor(self, state: State, variance: Tensor) -> Tensor | float:
        return self.members[0].band_factor(state.members[0], variance)

    def model_noise(self, state: State) -> Tensor:
        return self.members[0].model_noise(state.members[0])

    def arm_means(self, state: State) -> Tensor:
        return self.members[0].arm_means(state.members[0])

    def describe(
        self, state: State, *, format_time: Callable[[float], str] = "{:g}".format, unit: str = ""
    ) -> str:
        texts = []
        for expression, (member, own) in zip(self.expressions, self.pairs(state)):
            text = member.describe(own, format_time=format_time, unit=unit)
            texts.append(f"{expression.text}: {text}")
        return "\n".join(texts)

    def _joint(self, state: State, choice: Tensor, now: Now) -> Joint:
        return self.members[0]._joint(state.members[0], choice, now)

    def _suggestion_at(self, state: State, choice: Tensor, now: Now) -> Suggestion:
        made = self.members[0]._suggestion_at(state.members[0], choice, now)
        return self._signed(made, self.kept(state, now))

    def _signed(self, made: Suggestion, kept: Kept | None) -> Suggestion:
        """A member's suggestion as that of this strategy."""
        if kept is not None:
            each = kept.each(made.X.reshape(made.sd.numel(), 1, -1))
            p = [torch.where(own.ready, q, math.nan) for own, q in zip(kept.bounds, each)]
            made = made._replace(keeps=torch.stack(p, -1).view(*made.sd.shape, -1))
        return made._replace(made_by=self._fingerprint)

    def with_bound(self, name: str, bound: float) -> Outcomes:
        """The strategy with another bound in a limit; its states stay valid.

        Args:
            name: The outcome or the formula that is limited.
            bound: The new bound.

        Raises:
            ValueError: If not exactly one limit has this name.
        """
        text = Expression(name, self.names).text
        found = [limit for limit in self.limits if limit.expression.text == text]
        require(
            len(found) == 1,
            f"{name!r} is in {len(found)} limits of {[limit.text for limit in self.limits]}; name "
            "the formula of one limit.",
        )
        moved = (limit.with_bound(bound) if limit in found else limit for limit in self.limits)
        return replace(self, limits=tuple(moved))

    def member(self, state: State, name: str) -> tuple[ProcessStrategy, State]:
        """The member that predicts a formula, and its state.

        Args:
            state: The current state.
            name: An objective, or the left-hand side of a limit.

        Raises:
            ValueError: If no member predicts it.
        """
        by_text, text = self._by_text(state), Expression(name, self.names).text
        require(text in by_text, f"{name!r} is not predicted; choose from {', '.join(by_text)}.")
        return by_text[text]

    def _by_text(self, state: State) -> dict[str, tuple[ProcessStrategy, State]]:
        """The member and its state for the text of each expression."""
        return dict(zip([own.text for own in self.expressions], self.pairs(state)))

    def as_models(self, state: State, *, now: float | Tensor | None = None) -> ModelList:
        """The posteriors of all ``expressions``, in their order, as a BoTorch model.

        Args:
            state: The current state.
            now: Time, a scalar or `batch_shape`, as in :meth:`ask`.

        Example:
            >>> model = strategy.as_models(state)  # "yield", "-cost"; "pressure <= 5"
            >>> best = IdentityMCMultiOutputObjective(outcomes=[0, 1])
            >>> limits = {"objective": best, "constraints": [lambda Y: Y[..., 2] - 5]}
            >>> acqf = qLogNoisyExpectedHypervolumeImprovement(model, worst, X, **limits)
        """
        from botorch.models.model import ModelList

        return ModelList(*(member.as_model(own, now=now) for member, own in self.pairs(state)))

    # ---------------------------------------------------------------- where to choose

    def success(self, state: State, now: Now) -> Success | None:
        """The probability that a measurement succeeds; None if no measurement has failed.

        Args:
            state: The current state.
            now: Time, a scalar or `batch_shape`, as in :meth:`ask`.
        """
        noise = torch.stack([own.history.noise.tensor() for own in state.members])
        ok = noise.isfinite().any(0)
        if not self.avoids_failures or bool(ok.all()):
            return None
        trials, n, domain = state.time.numel(), state.rounds, state.domain
        X = measured_points(state)[..., : domain.dim]
        time = state.history.time.tensor().reshape(trials, n)
        present = self.members[0].decision(state.members[0], now).present.now
        return Success(X, ok.reshape(trials, n), time, corners_of(domain), present.reshape(trials))

    def kept(self, state: State, now: Now) -> Kept | None:
        """The probability that all limits are kept at ``now``; None without limits.

        Args:
            state: The current state.
            now: Time, a scalar or `batch_shape`, as in :meth:`ask`.
        """
        if not self.limits:
            return None
        by_text, found, bounds = self._by_text(state), dict[str, Predictions](), []
        for limit in self.limits:
            text, factor, noise = limit.expression.text, 1.0, None
            member, own = by_text[text]
            if text not in found:
                decision = member.decision(own, now)
                if isinstance(member, Adaptive):
                    choosing = member.inference_for(own.domain, choosing=True)
                    decision = replace(decision, inference=choosing)
                found[text] = decision.predictions()
            posterior, unit, center = found[text]
            ready = member.predicts(own).reshape(-1, 1)
            edge = ((limit.bound - center) / unit).expand_as(ready)
            if self.safe:
                factor, noise = math.sqrt(SELECTED), member.model_noise(own).reshape(-1, 1)
                noise = (noise / unit.square()).clamp_min(torch.finfo(unit.dtype).tiny)
            bounds.append(Bound(posterior, ready, edge, limit.upper, factor, noise))
        return Kept(bounds, self.confidence)

    def _around(self, state: State, strict: bool) -> Around | None:
        """Where a safe strategy may choose before it has predictions; None once it has.

        Any strategy may then recommend (``strict``) only near settings that violated no limit.
        """
        if not self.limits or not (self.safe or (strict and state.rounds)):
            return None
        by_text = self._by_text(state)
        every = [by_text[limit.expression.text] for limit in self.limits]
        ready = torch.stack([member.predicts(own) for member, own in every]).all(0)
        if bool(ready.all()):
            return None
        if not state.rounds:
            raise InputDataError(
                "a safe strategy needs a first measurement at a setting that is known to be safe; "
                "give start= to a Loop, attach a trial in Ax, enqueue a trial in Optuna, or "
                "tell the strategy's suggestion_at() of this setting."
            )
        trials, domain = state.time.numel(), state.domain
        use = torch.ones(trials, state.rounds, dtype=torch.bool, device=state.time.device)
        for limit, (_, own) in zip(self.limits, every):
            y, noise = (part.tensor().reshape(trials, -1) for part in own.history[1:3])
            use &= torch.where(noise.isfinite(), limit.keeps(y), not self.safe)
        use[:, 0] |= ~use.any(-1)  # the setting that is said to be safe
        X = measured_points(state)[..., : domain.dim]
        lower, upper = corners_of(domain).to(X)
        return Around(X, use | ready.reshape(-1, 1), upper - lower)

    def predictions(self, state: State, now: Now = None) -> dict[str, Predictions]:
        """The predictions for the text of each expression.

        Args:
            state: The current state.
            now: Time, a scalar or `batch_shape`, as in :meth:`ask`.
        """
        pairs = self._by_text(state).items()
        return {text: member.decision(own, now).predictions() for text, (member, own) in pairs}

    def _within(
        self, state: State, asked: Asked, kept: Kept | None, *, strict: bool = False
    ) -> Asked:
        """What is asked, among points that succeed, keep all limits and are near safe settings."""
        success = asked.feasible or self.success(state, asked.now)
        feasible = all_of(success, kept, self._around(state, strict))
        if strict and feasible is not None:
            feasible = feasible.strict()
        return asked._replace(feasible=feasible)

    # ---------------------------------------------------------------- the rounds

    def _ask(self, state: State, asked: Asked, draws: Draws) -> Suggestion:
        first = self.members[0]
        if len(self.objectives) > 1:
            weights = draws.normal(len(self.objectives)).abs()
            first = self._scalarised(state, asked.now, weights, 1.0)
        kept = self.kept(state, asked.now)
        made = first._ask(state.members[0], self._within(state, asked, kept), draws)
        return self._signed(made, kept)

    def _best(self, state: State, asked: Asked, caution: float) -> Tensor:
        asked = self._within(state, asked, self.kept(state, asked.now), strict=True)
        if len(self.objectives) == 1:
            return self.members[0]._best(state.members[0], asked, caution)
        weights = state.basis.variance.new_ones(*state.time.shape, len(self.objectives))
        return self._best_for(state, asked, caution, weights)

    def _best_for(self, state: State, asked: Asked, caution: float, weights: Tensor) -> Tensor:
        """The choice with the best scalarisation of cautious bounds, for given weights."""
        first = self._scalarised(state, asked.now, weights, -caution)
        decision = first.decision(state.members[0], *asked)
        return decision.chosen(first.exploration, draws_from(None, state)).choice

    def _scalarised(self, state: State, now: Now, weights: Tensor, width: float) -> ProcessStrategy:
        """The first member with an exploration by a scalarisation of all objectives.

        Args:
            state: The current state.
            now: Time, as in :meth:`ask`.
            weights: Weights λ, `batch_shape x k`, positive.
            width: Width of the bounds: a factor on √beta if positive, else a number of sds.
        """
        found = self.predictions(state, now)
        X = measured_points(state)
        others, means = [], []
        for objective in self.objectives:
            predictions, sign = found[objective.expression.text], 1 if objective.maximize else -1
            others.append((predictions, sign))
            means.append(sign * predictions.at(X)[0] if state.rounds else X.new_zeros(len(X), 1))
        worst, extent = reference(torch.stack(means, -1))
        weights = weights.reshape(-1, len(self.objectives)).clamp_min(SMALLEST_WEIGHT)
        rule = Scalarisation(tuple(others), worst, extent * weights, width)
        made: ProcessStrategy = replace(cast(Any, self.members[0]), exploration=rule)
        return made

    @without_gradients
    def tell(  # type: ignore[override]
        self,
        state: State,
        suggestion: Suggestion,
        y: Tensor | Sequence[float] | Mapping[str, float],
        *,
        time: float | Tensor | None = None,
        ok: Tensor | None = None,
        noise: Tensor | Sequence[float] | Mapping[str, float] | None = None,
        check: bool = True,
        consume: bool = False,
    ) -> tuple[State, Info]:
        """Add an observation of the outcomes.

        Args:
            state: As for :meth:`Strategy.tell`.
            suggestion: As for :meth:`Strategy.tell`.
            y: The outcomes, `batch_shape x m`, NaN where an outcome is missing; for a single trial
                also a list of m numbers, or a dict of numbers by name.
            time: Time of the measurements, a scalar or `batch_shape`; the suggestion's by default.
            ok: Whether the measurement succeeded, bool, `batch_shape`; a failed measurement has no
                outcome.
            noise: Noise variances of the outcomes, `batch_shape x m`, NaN where none is given; or a
                list or a dict, as for ``y``. The variance of a linear formula follows if all of its
                outcomes have one.
            check: As for :meth:`Strategy.tell`.
            consume: As for :meth:`Strategy.tell`.

        Raises:
            InputDataError: As for :meth:`Strategy.tell`.
            ValueError: If the outcomes of a formula have variances, but it is not linear.
        """
        own, shape = state.basis.variance, state.time.shape

        def row(given: Any) -> Tensor | None:
            if isinstance(given, Mapping):
                given = [given.get(name, math.nan) for name in self.names]
            return given if isinstance(given, Tensor) else real_tensor(given, own)

        values, given = row(y), row(noise)
        if check:
            require_suggestion(state, suggestion, self._fingerprint, compared=self.compares)
            require_tensors(own, ("y", values, (*shape, len(self.names)), None))
            if noise is not None:
                require_tensors(own, ("noise", given, (*shape, len(self.names)), None))
        assert isinstance(values, Tensor)
        by_name = dict(zip(self.names, values.unbind(-1)))
        states, infos = list[State](), list[Info]()
        for expression, (member, before) in zip(self.expressions, self.pairs(state)):
            value = expression.value(by_name)
            good = value.isfinite() if ok is None else value.isfinite() & ok
            known = self.noise_of(expression, None if given is None else given.unbind(-1))
            all_good = good.device.type == "cpu" and bool(good.all())
            made = suggestion._replace(made_by=None)
            if member.compares and states:
                made = member.suggestion_at(before, suggestion.X, now=suggestion.time)
            after, info = member.tell(
                before,
                made,
                torch.where(good, value, 0.0),
                time=time,
                ok=None if all_good else good,
                noise=None if known is None else torch.where(good, known, 1.0),
                check=check,
                consume=consume,
            )
            states.append(after)
            infos.append(info)
        reset = torch.stack([info.reset for info in infos]).any(0)
        return self.together(states), infos[0]._replace(reset=reset)

    def noise_of(self, expression: Expression, noise: Any) -> Any:
        """The noise variance of a formula; None unless all of its outcomes have one.

        Args:
            expression: The formula.
            noise: Noise variances of the outcomes, a number or a tensor for each, NaN where none is
                given; None if none is given for any.

        Raises:
            ValueError: If all of its outcomes have a variance, but the formula is not linear.
        """
        pairs = () if noise is None else zip(self.names, noise)
        own = {name: part for name, part in pairs if name in (expression.names or ())}
        missing = any(
            bool(torch.as_tensor(part, device="cpu").isnan().all()) for part in own.values()
        )
        return None if missing or not own else expression.variance(own)

    def _tell(self, state: State, measured: Measured, *, consume: bool) -> tuple[State, Info]:
        raise NotImplementedError  # tell() calls the members

    # ---------------------------------------------------------------- several objectives

    @without_gradients
    def pareto(
        self,
        state: State,
        *,
        now: Now = None,
        context: Tensor | None = None,
        points: int = 10,
        feasible: Feasible | None = None,
    ) -> Tensor:
        """Points whose predicted objectives no other of the points dominates, `p x (d + c)`.

        The first objective falls from point to point. The candidates are the arms of a grid, or the
        maximisers of scalarisations of the objectives' means, points near these, and points that
        fill the box. Only those count that keep all limits with a probability of at least
        ``confidence``, if any does. The points are taken in turn. Each is the candidate with the
        largest product of this probability and of the hypervolume that its means add to those of
        the points before it. Points that add next to nothing are dropped. The reference point
        follows from the means of the candidates, as in choices from those at measured points.

        Args:
            state: The current state, of a single trial.
            now: Time, as in :meth:`ask`.
            context: The context, shape `c`.
            points: Number of scalarisations, and largest number of points.
            feasible: Where a choice is allowed, as in :meth:`recommend`.
        """
        k, own, d = len(self.objectives), state.basis.variance, state.domain.dim
        normals = torch.special.ndtri(0.5 + 0.5 * even_points(points, k, seed=0).to(own))
        normals = normals.clamp(0, 6)
        context = None if context is None else context.to(own).unsqueeze(0)
        kept, feasible = self.kept(state, now), feasible or self.success(state, now)
        feasible = None if feasible is None else feasible.strict()
        asked = Asked(now, None if context is None else context[0], feasible)
        asked = self._within(state, asked, kept)
        found = [self._best_for(state, asked, 0.0, weights) for weights in normals]
        X = state.domain.points(torch.stack(found), own).unsqueeze(0)
        X = torch.cat([X, with_context(scattered(state, X[..., :d]), context)], 1)
        if asked.feasible is not None:
            allowed = asked.feasible.allowed(X)
            X = X[:, allowed[0]] if bool(allowed.any()) else X[:, :points]
        p = X.new_ones(X.shape[1]) if kept is None else kept.probability(X)[0]
        values = self.objective_means(state, X[0], now)
        rows = most_added(values, reference(values.unsqueeze(0))[0][0], p, points)
        rows = rows[undominated(values[None, rows])[0]]
        return X[0, rows[values[rows, 0].argsort(descending=True)]]

    def objective_means(self, state: State, X: Tensor, now: Now = None) -> Tensor:
        """The means of the objectives, to be maximised, at points `q x (d + c)`, `q x k`.

        Args:
            state: The current state, of a single trial.
            X: The points, `q x (d + c)`.
            now: Time, as in :meth:`ask`.
        """
        found = self.predictions(state, now)
        means = [
            (1 if own.maximize else -1) * found[own.expression.text].at(X.unsqueeze(0))[0][0]
            for own in self.objectives
        ]
        return torch.stack(means, -1)


ADDED = 1e-3
"""A trade-off adds more than this share of the hypervolume of the first."""
SMALLEST_WEIGHT = 1e-3
"""Smallest weight of an objective in a scalarisation."""


@dataclass(frozen=True, eq=False)
class Scalarisation(Exploration):
    """Play the point with the largest min_k (u_k - r_k) / λ_k, for bounds u_k on the objectives.

    Args:
        objectives: For each objective, its predictions and 1 to maximise it, -1 to minimise it.
        reference: The reference point r, `trials x k`, of objectives to be maximised.
        weights: The weights λ, in the units of the objectives, `trials x k`.
        width: Width of the bounds: a factor on √beta if positive, else a number of sds.
    """

    objectives: tuple[tuple[Predictions, int], ...]
    reference: Tensor
    weights: Tensor
    width: float

    draws_numbers = False

    def score(self, candidates: Candidates) -> Tensor:
        assert isinstance(candidates, RoundCandidates)
        X = candidates.points
        width: float | Tensor = self.width
        if self.width > 0:
            beta = candidates.sqrt_beta
            beta = beta.reshape(-1, 1) if isinstance(beta, Tensor) else beta
            width = self.width * beta
        gains = []
        for number, (predictions, sign) in enumerate(self.objectives):
            mean, sd = predictions.at(X)
            low, weight = self.reference[:, number, None], self.weights[:, number, None]
            gains.append((sign * mean + width * sd - low) / weight)
        worst = torch.stack(gains).amin(0)
        return worst.view(*candidates.data.time.shape, -1) if worst.dim() > 1 else worst


def undominated(values: Tensor) -> Tensor:
    """Whether no other row is at least as good in all columns and better in one.

    Args:
        values: Objectives to be maximised, `trials x n x k`.

    Returns:
        `trials x n`, bool.
    """
    other, own = values.unsqueeze(1), values.unsqueeze(2)
    dominates = (other >= own).all(-1) & (other > own).any(-1)
    return ~dominates.any(-1)


def most_added(values: Tensor, worst: Tensor, p: Tensor, points: int) -> Tensor:
    """Indices of rows, each with the largest product of p and of the hypervolume that it adds.

    Args:
        values: Objectives to be maximised, `n x k`.
        worst: The reference point, `k`.
        p: The probability of each row, `n`.
        points: Largest number of rows.
    """
    rows, most = list[int](), 0.0
    for _ in range(points):
        front = values[rows] if rows else worst.unsqueeze(0)
        lower, upper = FastNondominatedPartitioning(worst, front).get_hypercell_bounds()
        added = p * (values.unsqueeze(1).minimum(upper) - lower).clamp_min(0).prod(-1).sum(-1)
        most = max(most, float(added.max()))
        if rows and added.max() <= ADDED * most:
            break
        rows.append(int(added.argmax()))
    return torch.tensor(rows, device=values.device)


def reference(means: Tensor) -> tuple[Tensor, Tensor]:
    """The reference point and the ranges of the objectives, from the means at measured points.

    Args:
        means: Means of the objectives, to be maximised, `trials x n x k`.

    Returns:
        Two tensors `trials x k`: the worst value among undominated points, less a tenth of the
        range; and the range, positive.
    """
    best = undominated(means).unsqueeze(-1)
    low = torch.where(best, means, math.inf).amin(1)
    high = torch.where(best, means, -math.inf).amax(1)
    every = means.amax(1) - means.amin(1)
    extent = torch.where(high > low, high - low, torch.where(every > 0, every, 1.0))
    return low - 0.1 * extent, extent
