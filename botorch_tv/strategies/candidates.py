"""The decision in a round, and the candidates from which an exploration chooses."""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.acquisition.exploration import (
    Candidates,
    Exploration,
    Ties,
    UpperConfidence,
    bound_width,
)
from botorch_tv.acquisition.widths import Width, WidthContext
from botorch_tv.gp.arms import ArmInference, ArmPosterior, per_trial
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.data import Data, Present
from botorch_tv.gp.linalg import TIE_TOLERANCE, first_maximum, random_maximum
from botorch_tv.gp.mixture.bank import BankPrior
from botorch_tv.gp.mixture.posterior import PointMixture
from botorch_tv.gp.points import PointInference, PointPosterior, with_context
from botorch_tv.gp.process import Inference, Joint
from botorch_tv.gp.random import Draws, leading_normals
from botorch_tv.gp.search import (
    SEARCH_NUMBERS,
    DiscreteSearch,
    SearchProblem,
    raw_points,
)
from botorch_tv.gp.tensors import OfTrials, Scratch
from botorch_tv.strategies.arguments import require_tensors
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.feasible import (
    STARTS,
    Feasible,
    MoveCost,
    corners_of,
    promise,
    promise_slope,
)
from botorch_tv.strategies.state import State, Suggestion
from botorch_tv.validation import require_number, require_trials

Score = Callable[[Candidates], Tensor]
POINTS = 1024
"""Number of points among which an allowed point is found for the initial design."""
NEAR, REACH = 8, 0.1
"""Number of newest measured points near which an allowed point may lie, and the length of the box
around each, as a share of the ranges."""
BACK = 16
"""Number of steps on the way back from a choice to the newest setting, if moves have a price."""
WATCHED = 2
"""Number of first rounds in which parts are checked for writing into shared tensors."""


@dataclass(eq=False)
class Decision:
    """The data and settings with which an exploration chooses the point of a round.

    Attributes:
        inference: The inference, which computes the posterior.
        width: The confidence schedule.
        sign: 1 to maximise, -1 to minimise.
        made_by: Fingerprint that identifies the strategy.
        state: The current state.
        data: The data that the posterior uses now.
        present: The time of the decision.
        context: Coordinates that are given, not chosen, `batch_shape x c`; None without a context.
        feasible: Where a choice is allowed; None for everywhere.
        cost: The cost of each choice, in the units of y; None for none.
    """

    inference: Inference
    width: Width
    sign: int
    made_by: str | None
    state: State
    data: Data
    present: Present
    context: Tensor | None = None
    feasible: Feasible | None = None
    cost: MoveCost | None = None

    def chosen(self, exploration: Exploration, draws: Draws) -> Suggestion:
        """The point or arm that an exploration chooses, with its prediction.

        Raises:
            InputDataError: If the exploration returns something other than a choice of this domain.
        """
        domain, own, shape = self.state.domain, self.data.prior.variance, self.present.now.shape
        on_grid = isinstance(domain, Grid)
        candidates = (self._arms if on_grid else self._points)(exploration, draws)
        choice, name = exploration.choose(candidates), f"the choice of {type(exploration).__name__}"
        wanted = (shape, torch.int64) if on_grid else ((*shape, domain.dim), None)
        require_tensors(own, (name, choice, *wanted))
        if isinstance(domain, Box) and own.device.type == "cpu":
            domain.require_inside(choice, f"{name} ")
        choice = candidates.allowed(choice.clone())
        mean, sd = candidates.predicted(choice)
        unit, offset = candidates.unit, candidates.offset
        if unit is not None:
            mean, sd = mean * unit, sd * unit
        if isinstance(offset, Tensor) or offset != 0:
            mean = mean + offset
        if self.context is not None:
            choice = torch.cat([choice, self.context], -1)
        return self._suggestion(choice, mean, sd, candidates.width)

    def allowed(self, choice: Tensor) -> Tensor:
        """A choice of the initial design or, where it is not allowed, an allowed point instead.

        The point is far from the measured points; if no point is allowed, it is the likeliest to be
        feasible.
        """
        if self.feasible is None:
            return choice
        domain, own, shape = self.state.domain, self.data.prior.variance, self.present.now.shape
        trials, d = self.present.now.numel(), domain.dim
        context = None if self.context is None else self.context.reshape(trials, -1)
        seen = measured_points(self.state)[..., :d]
        first = domain.points(choice, own).reshape(trials, 1, -1)[..., :d]
        every = torch.cat([first, scattered(self.state, seen[:, -NEAR:])], 1)
        _, risk = self.feasible.judge(with_context(every, context))
        lower, upper = corners_of(domain).to(own)
        away = torch.ones_like(risk)
        if seen.shape[1]:
            away = torch.cdist(every / (upper - lower), seen / (upper - lower)).amin(-1)
        away[:, 0] = math.inf  # the design itself, where it is allowed
        best = torch.where(risk <= 1, away, -risk).argmax(-1)
        if isinstance(domain, Grid):
            return torch.where(best == 0, choice.reshape(-1), best - 1).view(shape)
        X = every.take_along_dim(best.view(-1, 1, 1), 1).squeeze(1).view(*shape, d)
        return X if self.context is None else torch.cat([X, self.context], -1)

    def joint(self, choice: Tensor) -> Joint:
        """The joint posterior within groups of arms or points; see :meth:`Inference.joint`."""
        return self.inference.joint(self.data, choice, self.present)

    def predictions(self) -> Predictions:
        """The predictions that choices use, as a function of points."""
        inference, data, domain = self.inference, self.data, self.state.domain
        unit = inference.unit(data)
        unit = data.prior.variance.new_ones(1, 1) if unit is None else unit.reshape(-1, 1)
        if isinstance(domain, Grid):
            assert isinstance(inference, ArmInference)
            arms = inference.predict(data, self.present)
            center = arms.offset
            # Copies, because the next posterior may reuse the memory of this one.
            mean, sd = (part.reshape(-1, len(domain)).clone() for part in (arms.mean, arms.sd))
            posterior: Any = OnArms(domain, mean, sd)
        else:
            assert isinstance(inference, (PointInference, PointMixture))
            posterior = inference.predict(data, self.present)
            center = inference.prior_mean(posterior.offset)
        center = (
            center.reshape(-1, 1) if isinstance(center, Tensor) else torch.full_like(unit, center)
        )
        return Predictions(posterior, unit, center)

    def at(self, choice: Tensor) -> Suggestion:
        """The suggestion to measure at ``choice`` (arms or points), with the prediction there."""
        dims = self.present.now.dim()
        mean, covariance, gain = self.joint(choice.unsqueeze(dims).unsqueeze(dims))
        sd = covariance[..., 0, 0, 0].clamp_min(0).sqrt()
        return self._suggestion(choice, mean[..., 0, 0], sd, self.sqrt_beta(gain))

    def _suggestion(
        self, choice: Tensor, mean: Tensor, sd: Tensor, sqrt_beta: float | Tensor
    ) -> Suggestion:
        domain = self.state.domain
        if not isinstance(sqrt_beta, Tensor):
            sqrt_beta = torch.full_like(mean, sqrt_beta)
        X = domain.points(choice, self.data.prior.variance)
        index = choice if isinstance(domain, Grid) else None
        time, made_by = self.present.now, self.made_by
        return Suggestion(X, index, mean, sd, sqrt_beta.to(mean), time, made_by)

    def arm_means(self) -> Tensor:
        """The posterior mean on all arms of a grid, `batch_shape x M`."""
        inference = self.inference
        assert isinstance(inference, ArmInference)
        posterior = inference.predict(self.data, self.present)
        unit = inference.unit(self.data)
        mean = posterior.mean if unit is None else posterior.mean * unit.unsqueeze(-1)
        return mean + per_trial(posterior.offset)

    def sqrt_beta(self, gain: Tensor) -> float | Tensor:
        """√beta of the confidence schedule, given the information gain of the data in use.

        The result is a number or `batch_shape`.
        """
        doubly, width = None, self.width
        if width.gain is not None and width.gain.source == "weighted_information_gain":
            doubly = gain
            if self.inference.process.ages:
                doubly = self.inference.doubly_weighted_gain(self.data, self.present)
        context = WidthContext(
            t=self.state.data.rounds + 1,
            dim=self.state.domain.dim,
            information_gain=gain,
            weighted_information_gain=doubly,
        )
        return as_width(width, width.sqrt_beta(context), gain)

    def _arms(self, exploration: Exploration, draws: Draws) -> ArmCandidates:
        inference, normal = self.inference, self.normals(draws) if exploration.samples else None
        assert isinstance(inference, ArmInference)
        posterior = inference.predict(self.data, self.present, normal)
        return ArmCandidates(self, draws, posterior, normal)

    def normals(self, draws: Draws) -> Tensor:
        """Random numbers for a sample of the objective on a grid, `batch_shape x p`."""
        prior = self.data.prior
        assert isinstance(prior, (Basis, BankPrior))
        return leading_normals(draws, prior.normals, max(prior.arms, prior.normals))

    def _points(self, exploration: Exploration, draws: Draws) -> BoxCandidates:
        inference, box, shape = self.inference, self.state.domain, self.present.now.shape
        assert isinstance(inference, (PointInference, PointMixture))
        assert isinstance(box, Box)
        expert = self.state.expert
        most = self.state.rounds + (0 if expert is None else expert.y.shape[-1])
        plain = (self.data, self.present)

        def with_function() -> PointPosterior:
            return inference.predict(*plain, draws.normal, most)

        posterior = with_function() if exploration.samples else inference.predict(*plain)
        offset = inference.prior_mean(posterior.offset)
        offset = offset.view(shape) if isinstance(offset, Tensor) else offset
        width = self.sqrt_beta(posterior.information_gain.view(shape))
        candidates = BoxCandidates(self, draws, width, offset, posterior, with_function)
        if self.context is not None:
            candidates.context = self.context.reshape(-1, box.columns - box.dim)
        return candidates


def measured_points(state: State) -> Tensor:
    """The measured points with their context, `trials x n x columns`, with flattened trials."""
    X = state.domain.points(state.history.choice.tensor(), state.basis.variance)
    return X.reshape(state.time.numel(), state.rounds, state.domain.columns)


def scattered(state: State, near: Tensor) -> Tensor:
    """All arms of a grid; or points that fill a box, and points near given points.

    Args:
        state: The current state.
        near: The given points without context, `trials x n x d`.

    Returns:
        Points without context, `trials x M x d`.
    """
    domain, own = state.domain, state.basis.variance
    if isinstance(domain, Grid):
        return domain.points(torch.arange(len(domain), device=own.device), own).expand(
            len(near), -1, -1
        )
    assert isinstance(domain, Box)
    points = domain.search.filling(domain, POINTS, state.rounds, own).expand(len(near), -1, -1)
    if not near.shape[1]:
        return points
    shift = raw_points(POINTS // NEAR, domain.dim, state.rounds, own) - 0.5
    U = (domain.to_unit(near).unsqueeze(-2) + REACH * shift).clamp(0, 1)
    return torch.cat([points, domain.held(domain.from_unit(U).flatten(1, 2))], 1)


@dataclass(frozen=True, eq=False)
class OnArms(OfTrials):
    """Means and standard deviations on the arms of a grid, `trials x M` each."""

    shared = ("domain",)

    domain: Grid
    mean: Tensor
    sd: Tensor

    def at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations at arms `trials x q x d`, `trials x q` each."""
        arms = self.domain.locate(X)
        return self.mean.gather(-1, arms), self.sd.gather(-1, arms)


class Predictions(NamedTuple):
    """Predictions of f as a function of points; trials are flattened to one dimension."""

    posterior: OnArms | PointPosterior
    unit: Tensor
    """The unit of the posterior, `trials x 1` or `1 x 1`."""
    center: Tensor
    """The mean that is added, `trials x 1` or `1 x 1`."""

    def at(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Means and standard deviations of f in the units of y, `trials x q` each.

        Args:
            X: Points with their context, `trials x q x columns`; on a box the result is
                differentiable in the points.
        """
        mean, sd = self.posterior.at(X)
        return mean * self.unit + self.center, sd * self.unit


def model_noise(inference: Inference, data: Data) -> Tensor:
    """Noise variance of a new observation, learned or given, `batch_shape`."""
    given = torch.full_like(data.time, inference.process.noise).to(data.prior.variance)
    return inference.model_noise(data, given)


def as_width(width: Width, value: object, like: Tensor) -> float | Tensor:
    """√beta of a confidence schedule, a scalar or `batch_shape`, after a check of its value.

    Args:
        width: The confidence schedule.
        value: The value that the schedule returned.
        like: A tensor `batch_shape` with the dtype and the device of the result.

    Raises:
        InputDataError: If a value in a tensor is negative, NaN or infinite. Values on a GPU are not
            checked, because the check would wait for the device.
        ValueError: If a number is negative, NaN or infinite.
    """
    fix = "it may depend on the fields of WidthContext."
    if isinstance(value, float) and 0 <= value < math.inf:
        return value
    if not isinstance(value, Tensor):
        return require_number(f"the √beta of {width!r}", value, "[0, inf)", fix)
    if value.shape not in (Size(), like.shape):
        require_tensors(like, (f"the √beta of {width!r}", value, like.shape, None))
    found = value.to(like).expand_as(like)
    if like.device.type == "cpu":
        good = (found >= 0) & (found < math.inf)
        require_trials(
            good, found, f"is the √beta of {width!r}", "it must be finite and at least 0."
        )
    return found


# ---------------- Candidates of any domain


class RoundCandidates(Candidates):
    """The candidates in a round, on any domain.

    Args:
        decision: The data and settings of the choice in this round.
        draws: Random numbers.
        width: √beta, a number or `batch_shape`.
        offset: The prior mean, a number or `batch_shape`.
        scratch: Reusable memory for intermediate results.
    """

    def __init__(
        self,
        decision: Decision,
        draws: Draws,
        width: float | Tensor,
        offset: float | Tensor,
        scratch: Scratch,
    ) -> None:
        state, self.data = decision.state, decision.data
        self.decision, self.draws, self.width, self.offset = decision, draws, width, offset
        self.sign, self.scale, self.scratch = decision.sign, self.data.prior.scale, scratch
        self.round, self.memory = state.data.rounds + 1, state.memory[-1]
        self.feasible, self.cost = decision.feasible, decision.cost
        self.sqrt_beta = width.unsqueeze(-1) if isinstance(width, Tensor) else width

    @cached_property
    def unit(self) -> Tensor | None:
        """The unit of the candidates' predictions, `batch_shape`; None for the unit 1."""
        return self.decision.inference.unit(self.data)

    @property
    def noise(self) -> Tensor:
        noise = model_noise(self.decision.inference, self.data)
        return (noise if self.unit is None else noise / self.unit.square()).unsqueeze(-1)

    def price(self, X: Tensor, unit: float) -> Tensor:
        """The costs of points, `trials x q`, in the unit of scores.

        A score whose unit is not that of predictions changes by 1 per prior standard deviation.
        """
        assert self.cost is not None
        price = unit / self.scale * self.cost(X)
        return price if self.unit is None else price / self.unit.reshape(-1, 1)

    @abstractmethod
    def predicted(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation at a choice, each `batch_shape`."""

    @property
    def points(self) -> Tensor:
        """The candidates with their context, `trials x M x columns`, if they are listed."""
        raise _unlisted("points")

    @abstractmethod
    def judge(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        """The results of :meth:`Feasible.judge` at a choice, `batch_shape` each."""

    def allowed(self, choice: Tensor) -> Tensor:
        """The choice or, in trials where it is not allowed, the best bound among allowed points.

        A choice that maximises a score is allowed if any is; a random choice may not be.
        """
        if self.feasible is None:
            return choice
        allowed = self.judge(choice)[1] <= 1
        if bool(allowed.all()):
            return choice
        return self.where(allowed, choice, UpperConfidence().choose(self))

    @cached_property
    def best_observation(self) -> Tensor:
        data, use = self.data, self.data.good
        best = best_of(self.sign * data.history.y.tensor(data.dropped), use, self.sign)
        best = best - self.offset
        if self.unit is not None:
            best = best / self.unit
        return torch.where(use.any(-1), best, 0.0).unsqueeze(-1)

    def uniform(self) -> Tensor:
        return self.draws.uniform()


def best_of(values: Tensor, use: Tensor, sign: int) -> Tensor:
    """``sign`` times the largest entry of ``values`` where ``use`` is True; 0 if all are False."""
    values = torch.nn.functional.pad(values.masked_fill(~use, -math.inf), (0, 1), value=-math.inf)
    return sign * torch.where(use.any(-1), values.amax(-1), 0.0)


def checked_scores(values: Tensor, wanted: tuple[int, ...]) -> Tensor:
    """Check the shape and the dtype of scores and, on a CPU, that no score is NaN."""
    if values.shape != wanted or not values.is_floating_point():
        raise InputDataError(
            f"a score is {values.dtype} of shape {tuple(values.shape)}, but scores must be "
            f"floating-point numbers of the shape of the candidates, {tuple(wanted)}; reshape a "
            "tensor with a value per trial to batch_shape x 1, to broadcast with at.mean and at.sd."
        )
    # The sum is NaN if a score is NaN, or if one score is infinity and another minus infinity.
    on_cpu = values.device.type == "cpu"
    if on_cpu and math.isnan(values.detach().sum()) and bool(values.isnan().any()):
        raise InputDataError(
            "a score is NaN for some candidates, so no candidate has the highest score; clamp "
            "divisors and the arguments of roots and logarithms."
        )
    return values


class ArmCandidates(RoundCandidates):
    """All arms of a grid, as candidates.

    Args:
        decision: The data and settings of the choice in this round.
        draws: Random numbers.
        posterior: The posterior on all arms.
        drawn: Random numbers for the first sample, `batch_shape x p`; None to draw them on demand.
    """

    def __init__(
        self, decision: Decision, draws: Draws, posterior: ArmPosterior, drawn: Tensor | None
    ) -> None:
        width, scratch = decision.sqrt_beta(posterior.information_gain), decision.data.prior.scratch
        super().__init__(decision, draws, width, posterior.offset, scratch)
        self.mean, self.sd, self._posterior = posterior.mean, posterior.sd, posterior
        self._normals, self._functions = [] if drawn is None else [drawn], list[Tensor]()
        self._choice: Tensor | None = None  # a single arm for each trial; None for all arms

    @property
    def tight_sd(self) -> Tensor:  # type: ignore[override]
        inference = self.decision.inference
        assert isinstance(inference, ArmInference)
        if inference.process.moves:
            raise InputDataError(
                "TightConfidence assumes a static covariance, but the covariance of this strategy "
                "decays with time; use UpperConfidence()."
            )
        variance = inference.tight_variance(self.data, self.decision.present)
        every = variance.clamp_min(0).sqrt()
        return every if self._choice is None else every.gather(-1, self._choice.unsqueeze(-1))

    @cached_property
    def incumbent(self) -> Tensor:
        data = self.data
        mean = self._posterior.mean  # the mean at every arm, even if only one arm is a candidate
        values = self.sign * mean.gather(-1, data.history.choice.tensor(data.dropped))
        return best_of(values, data.good, self.sign).unsqueeze(-1)

    @cached_property
    def has_data(self) -> Tensor:
        data = self.data
        return torch.ones_like(data.time, dtype=torch.bool) if data.empty is None else ~data.empty

    def sample(self, n: int = 1) -> Tensor:
        while len(self._functions) < n:
            if len(self._normals) == len(self._functions):
                self._normals.append(self.decision.normals(self.draws))
            self._functions.append(self._posterior.draw(self._normals[len(self._functions)]))
        drawn = torch.stack(self._functions[:n]) if n != 1 else self._functions[0].unsqueeze(0)
        if self._choice is None:
            return drawn
        return drawn.gather(-1, self._choice.expand(drawn.shape[:-1]).unsqueeze(-1))

    def argmax(
        self,
        score: Score,
        *,
        unit: float | None = None,
        ties: Ties = "first",
        among: Tensor | None = None,
    ) -> Tensor:
        mean, sd = self.mean, self.sd
        watched = self.round <= WATCHED and mean.device.type == "cpu"
        before = (mean.clone(), sd.clone()) if watched else (mean, sd)
        values = checked_scores(score(self), mean.shape)
        if watched and not (torch.equal(mean, before[0]) and torch.equal(sd, before[1])):
            raise InputDataError(
                "a score writes into the mean or sd of its candidates, which are the prediction of "
                "a choice; compute without in-place operations, or on candidates.mean.clone()."
            )
        unit = self.scale if unit is None else unit
        if self.cost is not None:
            values = values - self.price(self.points, unit).view_as(values)
        if self.feasible is not None:
            p, risk = (part.view_as(values) for part in self._judged)
            values = promise(values, values.amin(-1, True), p, risk, unit)
        if among is not None:
            if among.dtype != torch.int64 or among.dim() != 1 or not len(among):
                raise InputDataError(
                    f"a decision set on a grid is {among.dtype} of shape {tuple(among.shape)}, but "
                    "it must be indices of arms, int64 of shape q, at least one."
                )
            outside = torch.ones(values.shape[-1], dtype=torch.bool, device=values.device)
            outside[among.to(values.device)] = False
            values = values.masked_fill(outside, -math.inf)
        if ties == "random":
            return random_maximum(values, TIE_TOLERANCE * unit, self.uniform())
        return first_maximum(values, TIE_TOLERANCE * unit, self.scratch)

    def at(self, choice: Tensor) -> Candidates:
        other = copy.copy(self)
        other.mean, other.sd = (part.unsqueeze(-1) for part in self.predicted(choice))
        other._choice = choice
        return other

    @cached_property
    def _judged(self) -> tuple[Tensor, Tensor]:
        """Feasibility of all arms, `trials x M`."""
        assert self.feasible is not None
        return self.feasible.judge(self.points)

    @property
    def points(self) -> Tensor:
        domain, own = self.decision.state.domain, self.data.prior.variance
        assert isinstance(domain, Grid)
        every = domain.points(torch.arange(len(domain), device=own.device), own)
        return every.expand(self.data.time.numel(), -1, -1)

    def judge(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        index = choice.reshape(-1, 1)
        p, risk = (part.gather(-1, index).view(choice.shape) for part in self._judged)
        return p, risk

    def predicted(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        index = choice.unsqueeze(-1)
        return self.mean.gather(-1, index).squeeze(-1), self.sd.gather(-1, index).squeeze(-1)

    def anywhere(self) -> Tensor:
        arms = self.mean.shape[-1]
        # In single precision a number just below 1 may round to 1.
        return (self.uniform() * arms).long().clamp_max(arms - 1)

    def where(self, condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return torch.where(condition, first, second)


# ---------------- Points of a box, which cannot be listed


class BoxCandidates(RoundCandidates):
    """All points of a box; the posterior is computed only at points that are scored.

    Args:
        decision: The data and settings of the choice in this round.
        draws: Random numbers.
        width: √beta, a number or `batch_shape`.
        offset: The prior mean, a number or `batch_shape`.
        posterior: The posterior of every trial; a single dimension runs over the trials. If the
            exploration draws samples, the posterior contains a sample.
        draw: Function that draws another sample of the objective, and returns the posterior with
            this sample.

    Attributes:
        context: Coordinates that are given, not chosen, `trials x c`; None without a context.
        functions: The posteriors used so far in this round, each with its own sample of the
            objective.
    """

    def __init__(
        self,
        decision: Decision,
        draws: Draws,
        width: float | Tensor,
        offset: float | Tensor,
        posterior: PointPosterior,
        draw: Callable[[], PointPosterior],
    ) -> None:
        super().__init__(decision, draws, width, offset, Scratch())
        assert isinstance(decision.state.domain, Box)
        self._box, self._shape = decision.state.domain, decision.data.time.shape
        self.posterior, self._draw = posterior, draw
        self.context: Tensor | None = None
        self.functions = [] if posterior.path is None else [posterior]

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        raise _unlisted("mean")

    @property
    def sd(self) -> Tensor:  # type: ignore[override]
        raise _unlisted("sd")

    @property
    def tight_sd(self) -> Tensor:  # type: ignore[override]
        raise InputDataError("TightConfidence needs a Grid; use UpperConfidence() on a Box.")

    @cached_property
    def incumbent(self) -> Tensor:
        posterior = self.posterior
        if posterior.X.shape[-2] == 0:
            return posterior.X.new_zeros(*self._shape, 1)
        # The means at measured points are for the current context, not for the contexts of the
        # past.
        reached = self.sign * posterior.mean_at(posterior.in_present_context(self.context))
        return best_of(reached, posterior.live, self.sign).view(*self._shape, 1)

    @cached_property
    def has_data(self) -> Tensor:
        return self.posterior.live.any(-1).view(self._shape)

    def sample(self, n: int = 1) -> Tensor:
        raise _unlisted("sample")

    def argmax(
        self,
        score: Score,
        *,
        unit: float | None = None,
        ties: Ties = "first",
        among: Tensor | None = None,
    ) -> Tensor:
        if ties == "random":
            raise InputDataError(
                'ties="random" needs the arms of a Grid; use ties="first" on a Box.'
            )
        box, posterior = self._box, self.posterior
        search, unit = box.search, self.scale if unit is None else unit
        if among is not None:
            search = DiscreteSearch(among)
            search.check(box)
        # The scores of a trial do not depend on other trials if the score function is a method of
        # an exploration without a memory.
        alone = isinstance(getattr(score, "__self__", None), Exploration) and self.memory is None
        some: BoxCandidates = self
        chosen: Tensor | None = None

        def of(trials: Tensor | None) -> BoxCandidates:
            nonlocal some, chosen
            if trials is not chosen:
                chosen, some = trials, self if trials is None else _SomeTrials(self, trials)
            return some

        def climbed(X: Tensor, trials: Tensor | None, factor: float) -> tuple[Tensor, Tensor]:
            some = of(trials)
            width = bound_width(score, some.width)
            assert width is not None
            return some._bound(X, factor, width)

        def value(X: Tensor, trials: Tensor | None) -> Tensor:
            some = of(trials)
            if torch.is_grad_enabled():
                return some._scored(score, X, unit)
            most = SEARCH_NUMBERS // max(1, len(X) * max(posterior.compared, X.shape[-1]))
            parts = torch.split(X, max(1, most), dim=1)
            return torch.cat([some._scored(score, part, unit) for part in parts], 1)

        measured, live = posterior.starting_points(self.sign, self.context)
        problem = SearchProblem(
            value,
            measured[..., : box.dim],
            live,
            self.round - 1,
            unit,
            whole=not alone,
            climbed=None if self.cost or bound_width(score, 0.0) is None else climbed,
            coarse=posterior.coarse,
        )
        if self.feasible is not None:
            problem = self._promising(problem)
        X = search.best(box, problem)
        if self.cost is not None and not isinstance(search, DiscreteSearch):
            X = self._settled(X, problem, self.cost)
        without = ~posterior.live.any(-1, keepdim=True)
        if X.device.type != "cpu" or bool(without.any()):
            # Without data most priors score all points alike, and rounding would choose.
            first = search.first(box, X).expand_as(X)
            with torch.no_grad():
                least, most = problem.score(torch.stack([first, X], -2), None).unbind(-1)
            tied = most - least <= TIE_TOLERANCE * unit
            X = torch.where(without & tied.unsqueeze(-1), first, X)
        return X.view(*self._shape, box.dim)

    def _settled(self, X: Tensor, problem: SearchProblem, cost: MoveCost) -> Tensor:
        """The best of points on the way back from `trials x d`, of all parameters, then of each."""
        shares = torch.linspace(1, 0, BACK + 1, device="cpu").to(X).unsqueeze(-1)
        for place in (slice(None), *(part for part, _ in cost.rates)):
            some = X.unsqueeze(1).repeat(1, BACK + 1, 1)
            some[..., place] = torch.lerp(some, cost.at, shares)[..., place]
            some = self._box.held(some.clamp(*self._box.bounds.to(X)))
            best = problem.score(some, None).argmax(-1).view(-1, 1, 1)
            X = some.take_along_dim(best, 1).squeeze(1)
        return X

    def _promising(self, problem: SearchProblem) -> SearchProblem:
        """A search problem whose score is :func:`promise`, with the same way of derivatives."""
        feasible, context = self.feasible, self.context
        assert feasible is not None
        points = self._box.filling(STARTS, problem.rounds, problem.observed)
        points = points.expand(len(problem.observed), *points.shape)
        with torch.no_grad():
            every = problem.score(torch.cat([points, problem.observed], 1), None)
        lowest = every.amin(-1, keepdim=True)

        def of(X: Tensor, trials: Tensor | None) -> tuple[Feasible, Tensor, Tensor]:
            if trials is None:
                return feasible, lowest, with_context(X, context)
            own = None if context is None else context[trials]
            return feasible.select(trials), lowest[trials], with_context(X, own)

        def score(X: Tensor, trials: Tensor | None) -> Tensor:
            some, least, points = of(X, trials)
            return promise(problem.score(X, trials), least, *some.judge(points), problem.unit)

        def climbed(X: Tensor, trials: Tensor | None, factor: float) -> tuple[Tensor, Tensor]:
            assert problem.climbed is not None
            some, least, points = of(X, trials)
            value, by = problem.climbed(X, trials, 1.0)
            p, risk, pull = some.slopes(points)
            by_value, *others = promise_slope((value - least).clamp_min(0), p, risk, problem.unit)
            slope = by_value.unsqueeze(-1) * by + pull(*others)[..., : X.shape[-1]]
            return factor * promise(value, least, p, risk, problem.unit), factor * slope

        slopes = climbed if problem.climbed else None
        return problem._replace(score=score, climbed=slopes, brief=problem.coarse)

    def judge(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        assert self.feasible is not None
        X = with_context(choice.reshape(-1, 1, self._box.dim), self.context)
        p, risk = (part.view(self._shape) for part in self.feasible.judge(X))
        return p, risk

    def at(self, choice: Tensor) -> Candidates:
        return _Points(self, choice.reshape(-1, 1, self._box.dim))

    def predicted(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        X = with_context(choice.reshape(-1, 1, self._box.dim), self.context)
        mean, sd = self.posterior.expected_at(X)
        return mean.view(self._shape), sd.view(self._shape)

    def anywhere(self) -> Tensor:
        drawn = self._box.search.anywhere(self._box, self.draws)
        return drawn.to(self.posterior.X)

    def where(self, condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return torch.where(condition.unsqueeze(-1), first, second)

    def _scored(self, score: Score, X: Tensor, unit: float) -> Tensor:
        """Scores, `trials x q`, of points `trials x q x d`, less their costs."""
        view = (*self._shape, X.shape[-2])
        values = checked_scores(score(_Points(self, X)), view)
        if X.requires_grad and not values.requires_grad:
            raise InputDataError(
                "a score has no gradient, which the search of a box needs; compute it without "
                "detach(), comparisons or rounding, or give the box search=DiscreteSearch(X)."
            )
        values = values.reshape(X.shape[:-1])
        return values if self.cost is None else values - self.price(X, unit)

    def _bound(self, X: Tensor, factor: float, width: float | Tensor) -> tuple[Tensor, Tensor]:
        """Two values: factor * (±mean + width * sd), `trials x q`, and its gradient in ``X``."""
        by_mean, by_sd = factor * self.sign, width
        mean, sd, pull = self.posterior.slopes(with_context(X, self.context))
        if isinstance(by_sd, Tensor):
            by_sd = by_sd.reshape(-1, 1).to(sd)
        by_sd = factor * by_sd
        return by_mean * mean + by_sd * sd, pull(by_mean, by_sd)[..., : X.shape[-1]]


class _SomeTrials(BoxCandidates):
    """All points of a box as candidates, for some of the trials.

    Args:
        every: The candidates of all trials.
        trials: Indices of the trials, in one dimension.
    """

    def __init__(self, every: BoxCandidates, trials: Tensor) -> None:
        width, context = every.width, every.context
        width = width.reshape(-1)[trials] if isinstance(width, Tensor) else width
        posterior = every.posterior.select(trials)
        super().__init__(every.decision, every.draws, width, every.offset, posterior, every._draw)
        drawn = every.functions[len(self.functions) :]
        self.functions += [sampled.select(trials) for sampled in drawn]
        self.context = None if context is None else context[trials]
        self._shape, self._every, self._trials = trials.shape, every, trials
        if self.cost and every.unit is not None:
            self.unit = every.unit.reshape(-1)[trials]

    @property
    def noise(self) -> Tensor:
        return self._every.noise.reshape(-1, 1)[self._trials]

    @cached_property
    def incumbent(self) -> Tensor:
        return self._every.incumbent.reshape(-1, 1)[self._trials]

    @cached_property
    def best_observation(self) -> Tensor:
        return self._every.best_observation.reshape(-1, 1)[self._trials]


def _unlisted(name: str) -> InputDataError:
    return InputDataError(
        f"the points of a box cannot be listed, so there is no {name} of all points; maximise a "
        "score with candidates.argmax(lambda at: at.mean), or get the posterior at a choice with "
        "candidates.at(choice)."
    )


class _Points(BoxCandidates):
    """Some points of a box, as candidates.

    Args:
        whole: The candidates of the whole box.
        X: The points without context, `trials x q x d`.
    """

    def __init__(self, whole: BoxCandidates, X: Tensor) -> None:
        super().__init__(
            whole.decision, whole.draws, whole.width, whole.offset, whole.posterior, whole._draw
        )
        self.functions, self.context = whole.functions, whole.context
        self._shape, self._whole = whole._shape, whole
        self._X = with_context(X, whole.context)
        self._view = (*whole._shape, X.shape[-2])

    @property
    def points(self) -> Tensor:
        return self._X

    @property
    def noise(self) -> Tensor:
        return self._whole.noise

    @property
    def mean(self) -> Tensor:  # type: ignore[override]
        return self._both[0] if "_both" in self.__dict__ else self._mean_alone

    @property
    def sd(self) -> Tensor:  # type: ignore[override]
        return self._both[1]

    @cached_property
    def _mean_alone(self) -> Tensor:
        return self.posterior.mean_at(self._X).view(self._view)

    @cached_property
    def _both(self) -> tuple[Tensor, Tensor]:
        mean, sd = self.posterior.at(self._X)
        return mean.view(self._view), sd.view(self._view)

    @cached_property
    def incumbent(self) -> Tensor:
        return self._whole.incumbent

    @cached_property
    def best_observation(self) -> Tensor:
        return self._whole.best_observation

    @cached_property
    def has_data(self) -> Tensor:
        return self._whole.has_data

    def sample(self, n: int = 1) -> Tensor:
        while len(self.functions) < n:
            self.functions.append(self._draw())
        drawn = self.functions[:n]
        return torch.stack([sampled.sample_at(self._X).view(self._view) for sampled in drawn])

    def uniform(self) -> Tensor:
        raise NotImplementedError(
            "a score on a box is evaluated many times, and random numbers drawn in a score would "
            "differ each time; draw them before, in choose()."
        )
