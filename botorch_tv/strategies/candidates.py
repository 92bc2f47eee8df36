"""Candidates of a round, as an exploration sees them on grids and boxes alike."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.acquisition.exploration import (
    Candidates,
    Exploration,
    Ties,
    bound_width,
)
from botorch_tv.inference.arms import ArmPosterior
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.data import Data
from botorch_tv.inference.linalg import TIE_TOLERANCE, at_index, first_maximum, random_maximum
from botorch_tv.inference.mixture.bank import BankPrior
from botorch_tv.inference.points import PointPosterior, with_context
from botorch_tv.inference.search import SEARCH_NUMBERS, Sought
from botorch_tv.inference.tensors import OfTrials, Scratch
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.draws import Draws, leading_normals
from botorch_tv.validation import shown

Score = Callable[[Candidates], Tensor]
WATCHED = 2
"""Rounds in which it is looked whether parts write into tensors that others read."""


@dataclass(frozen=True, kw_only=True)
class Round:
    """What is the same for all candidates of a round.

    Attributes:
        data: The observations in use.
        number: The round t to decide, from 1.
        sign: 1 when maximising, -1 when minimising.
        noise: Returns the noise variance of an observation, `batch_shape`.
        sqrt_beta: √beta, a number or `batch_shape`.
        offset: The prior mean, a number or `batch_shape`.
        unit: Unit of predictions, `batch_shape`; None for 1.
        memory: Memory of the exploration.
        draws: Random numbers.
    """

    data: Data
    number: int
    sign: int
    noise: Callable[[], Tensor]
    sqrt_beta: float | Tensor
    offset: float | Tensor
    unit: Tensor | None
    memory: Any
    draws: Draws

    @property
    def scale(self) -> float:
        """Largest prior standard deviation."""
        return self.data.prior.scale


class RoundCandidates(Candidates, ABC):
    """Candidates of a round."""

    def __init__(self, of: Round, scratch: Scratch) -> None:
        self.of, self.scratch = of, scratch
        self.sign, self.scale, self.memory = of.sign, of.scale, of.memory
        self.round = of.number

    @property
    def noise(self) -> Tensor:
        return self.of.noise().unsqueeze(-1)

    @property
    def sqrt_beta(self) -> float | Tensor:
        value = self.of.sqrt_beta
        return value.unsqueeze(-1) if isinstance(value, Tensor) else value

    @abstractmethod
    def predicted(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation at a choice, each `batch_shape`."""

    @cached_property
    def incumbent(self) -> Tensor:
        return self._incumbent().unsqueeze(-1)

    @abstractmethod
    def _incumbent(self) -> Tensor:
        """As :attr:`incumbent`, `batch_shape`."""

    @cached_property
    def best_observation(self) -> Tensor:
        data, of = self.of.data, self.of
        y, use = data.history.y.tensor(data.dropped), data.good
        best = best_of(self.sign * y, use, self.sign) - of.offset
        if of.unit is not None:
            best = best / of.unit
        return torch.where(use.any(-1), best, 0.0).unsqueeze(-1)

    def uniform(self) -> Tensor:
        return self.of.draws.uniform()


def best_of(values: Tensor, use: Tensor, sign: int) -> Tensor:
    """The largest of the values in use, times the sign; 0 if none is in use."""
    values = torch.nn.functional.pad(values.masked_fill(~use, -math.inf), (0, 1), value=-math.inf)
    return sign * torch.where(use.any(-1), values.amax(-1), 0.0)


def checked_scores(values: Tensor, wanted: tuple[int, ...]) -> Tensor:
    """Scores, after checking their shape and dtype; on a CPU also that none is NaN."""
    if not isinstance(values, Tensor) or values.shape != wanted or not values.is_floating_point():
        given = shown(values)
        if isinstance(values, Tensor):
            given = f"{values.dtype} of shape {tuple(values.shape)}"
        raise InputDataError(
            f"a score is {given}, but there must be one for each candidate, {tuple(wanted)}, all "
            "floating-point numbers; what is known per trial is batch_shape x 1 beside at.mean and "
            "at.sd."
        )
    # A sum is NaN where a number is, or infinities of both signs meet.
    on_cpu = values.device.type == "cpu"
    if on_cpu and math.isnan(values.detach().sum()) and bool(values.isnan().any()):
        raise InputDataError(
            "a score is NaN for some candidates, which can then be no maximum; clamp what is "
            "divided by, or what a root or logarithm is taken of."
        )
    return values


# ---------------- All arms of a grid, as an exploration sees them


class ArmCandidates(RoundCandidates):
    """All arms of a grid.

    Args:
        of: The round.
        posterior: On all arms.
        drawn: Numbers for the first function drawn, where it is sure to be asked for,
            `batch_shape x p`.
    """

    def __init__(self, of: Round, posterior: ArmPosterior, drawn: Tensor | None) -> None:
        super().__init__(of, of.data.prior.scratch)
        self._mean, self._sd = posterior.mean, posterior.sd
        self._posterior, self._normals = posterior, [] if drawn is None else [drawn]
        self._functions: list[Tensor] = []

    @property
    def mean(self) -> Tensor:
        return self._mean

    @property
    def sd(self) -> Tensor:
        return self._sd

    def _incumbent(self) -> Tensor:
        data = self.of.data
        values = self.sign * self.mean.gather(-1, data.history.choice.tensor(data.dropped))
        return best_of(values, data.good, self.sign)

    @cached_property
    def has_data(self) -> Tensor:
        data = self.of.data
        return torch.ones_like(data.time, dtype=torch.bool) if data.empty is None else ~data.empty

    def sample(self, n: int = 1) -> Tensor:
        while len(self._functions) < n:
            if len(self._normals) == len(self._functions):
                prior = self.of.data.prior
                assert isinstance(prior, (Basis, BankPrior))
                room = max(prior.arms, prior.normals)
                self._normals.append(leading_normals(self.of.draws, prior.normals, room))
            self._functions.append(self._posterior.draw(self._normals[len(self._functions)]))
        return torch.stack(self._functions[:n]) if n != 1 else self._functions[0].unsqueeze(0)

    def argmax(
        self,
        score: Score,
        *,
        unit: float | None = None,
        first_without_data: bool = False,
        ties: Ties = "first",
    ) -> Tensor:
        tolerance = TIE_TOLERANCE * (self.scale if unit is None else unit)
        mean, sd = self._mean, self._sd
        watched = self.round <= WATCHED and mean.device.type == "cpu"
        before = (mean.clone(), sd.clone()) if watched else (mean, sd)
        values = checked_scores(score(self), mean.shape)
        if watched and not (torch.equal(mean, before[0]) and torch.equal(sd, before[1])):
            raise InputDataError(
                "a score writes into the mean or sd of its candidates, which are what is predicted "
                "of a choice; compute without in-place operations, or on candidates.mean.clone()."
            )
        empty = self.of.data.empty if first_without_data else None
        if ties == "random":
            if empty is not None:
                values = values.masked_fill(empty.unsqueeze(-1), 0.0)
            return random_maximum(values, tolerance, self.uniform())
        winner = first_maximum(values, tolerance, self.scratch)
        return winner if empty is None else winner.masked_fill(empty, 0)

    def at(self, choice: Tensor) -> Candidates:
        return _Arm(self, choice)

    def predicted(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        return at_index(self.mean, choice), at_index(self.sd, choice)

    def anywhere(self) -> Tensor:
        arms = self.mean.shape[-1]
        # In single precision a number just below 1 may have been rounded to 1.
        return (self.uniform() * arms).long().clamp_max(arms - 1)

    def where(self, condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return torch.where(condition, first, second)


class _Arm(ArmCandidates):
    """One arm of every trial."""

    def __init__(self, arms: ArmCandidates, choice: Tensor) -> None:
        RoundCandidates.__init__(self, arms.of, arms.scratch)
        self._mean = at_index(arms.mean, choice).unsqueeze(-1)
        self._sd = at_index(arms.sd, choice).unsqueeze(-1)
        self._arms, self._choice = arms, choice

    def _incumbent(self) -> Tensor:
        return self._arms._incumbent()

    @cached_property
    def has_data(self) -> Tensor:
        return self._arms.has_data

    def sample(self, n: int = 1) -> Tensor:
        drawn = self._arms.sample(n)
        return drawn.gather(-1, self._choice.expand(drawn.shape[:-1]).unsqueeze(-1))


# ---------------- Points of a box as an exploration asks for them, since they cannot be listed


@dataclass(frozen=True)
class Functions(OfTrials):
    """The posterior of every trial on a box, and the functions drawn from it; trials are flat.

    Attributes:
        posterior: With the first function drawn, where it is sure to be asked for.
        draw: Draws another.
        context: What is known before the choice, `trials x c`; None where nothing is.
        more: Functions drawn, the first aside.
    """

    shared = ("draw",)

    posterior: PointPosterior
    draw: Callable[[], PointPosterior]
    context: Tensor | None
    more: list[PointPosterior]

    def drawn(self, n: int) -> list[PointPosterior]:
        """Posteriors with a function each, the first n of this round."""
        first = [self.posterior] if self.posterior.has_function else []
        while len(first) + len(self.more) < n:
            self.more.append(self.draw())
        return [*first, *self.more][:n]


class BoxCandidates(RoundCandidates):
    """All points of a box; their posterior is known where it is looked at.

    Args:
        of: The round.
        functions: The posterior of every trial.
        box: Where to choose.
    """

    def __init__(self, of: Round, functions: Functions, box: Box) -> None:
        super().__init__(of, Scratch())
        self._functions, self._box = functions, box
        self._shape = of.data.time.shape

    @property
    def mean(self) -> Tensor:
        raise _unlisted("mean")

    @property
    def sd(self) -> Tensor:
        raise _unlisted("sd")

    def _incumbent(self) -> Tensor:
        functions = self._functions
        best = best_observed(functions.posterior, self.sign, functions.context)
        return best.view(self._shape)

    @cached_property
    def has_data(self) -> Tensor:
        return self._functions.posterior.live.any(-1).view(self._shape)

    def sample(self, n: int = 1) -> Tensor:
        raise _unlisted("sample")

    def argmax(
        self,
        score: Score,
        *,
        unit: float | None = None,
        first_without_data: bool = False,
        ties: Ties = "first",
    ) -> Tensor:
        if ties == "random":
            raise InputDataError(
                'ties are to be broken by chance, which takes the arms of a Grid; use ties="first" '
                "on a Box."
            )
        box, posterior = self._box, self._functions.posterior
        # A method sees nothing but candidates, whose trials may then be looked at one by one.
        alone = isinstance(getattr(score, "__self__", None), Exploration) and self.memory is None
        some: BoxCandidates = self
        chosen: Tensor | None = None

        def of(trials: Tensor | None) -> BoxCandidates:
            nonlocal some, chosen
            if trials is not chosen:
                chosen, some = trials, self if trials is None else self._selected(trials)
            return some

        def climbed(X: Tensor, trials: Tensor | None, factor: float) -> tuple[Tensor, Tensor]:
            some = of(trials)
            width = bound_width(score, some.of.sqrt_beta)
            assert width is not None
            return some._bound(X, factor, width)

        def value(X: Tensor, trials: Tensor | None) -> Tensor:
            some = of(trials)
            if torch.is_grad_enabled():
                return some._scored(score, X)
            most = SEARCH_NUMBERS // max(1, len(X) * max(posterior.compared, X.shape[-1]))
            parts = torch.split(X, max(1, most), dim=1)
            return torch.cat([some._scored(score, part) for part in parts], 1)

        measured, live = posterior.familiar(self.sign, self._functions.context)
        sought = Sought(
            value,
            measured[..., : box.dim],
            live,
            self.of.number - 1,
            self.scale if unit is None else unit,
            whole=not alone,
            climbed=None if bound_width(score, 0.0) is None else climbed,
        )
        X = box.search.best(box, sought)
        if first_without_data:
            X = torch.where(posterior.live.any(-1, keepdim=True), X, box.search.first(box, X))
        return X.view(*self._shape, box.dim)

    def at(self, choice: Tensor) -> Candidates:
        return self._looked_at(choice.reshape(-1, 1, self._box.dim))

    def predicted(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        X = with_context(choice.reshape(-1, 1, self._box.dim), self._functions.context)
        mean, sd = self._functions.posterior.expected_at(X)
        return mean.view(self._shape), sd.view(self._shape)

    def anywhere(self) -> Tensor:
        drawn = self._box.search.anywhere(self._box, self.of.draws)
        return drawn.to(self._functions.posterior.X)

    def where(self, condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return torch.where(condition.unsqueeze(-1), first, second)

    def _scored(self, score: Score, X: Tensor) -> Tensor:
        """Scores of points `trials x q x d`, `trials x q`."""
        view = (*self._shape, X.shape[-2])
        values = checked_scores(score(self._looked_at(X)), view)
        if X.requires_grad and not values.requires_grad:
            raise InputDataError(
                "a score says nothing of how it changes with the point, so that a box cannot be "
                "climbed by it; compute it of at.mean, at.sd and at.sample() without detach(), "
                "comparisons or rounding, or give the box search=DiscreteSearch(X)."
            )
        return values.reshape(X.shape[:-1])

    def _bound(self, X: Tensor, factor: float, width: float | Tensor) -> tuple[Tensor, Tensor]:
        """A factor times ±mean + width sd, `trials x q`, and the gradient, `trials x q x d`."""
        functions, by_mean, by_sd = self._functions, factor * self.sign, width
        mean, sd, pull = functions.posterior.slopes(with_context(X, functions.context))
        if isinstance(by_sd, Tensor):
            by_sd = by_sd.reshape(-1, 1).to(sd)
        by_sd = factor * by_sd
        return by_mean * mean + by_sd * sd, pull(by_mean, by_sd)[..., : X.shape[-1]]

    def _looked_at(self, X: Tensor) -> _Points:
        return _Points(self, with_context(X, self._functions.context))

    def _selected(self, trials: Tensor) -> BoxCandidates:
        """The candidates of some trials, their batch shape flattened."""

        def noise() -> Tensor:
            return self.of.noise().reshape(-1)[trials]

        sqrt_beta = self.of.sqrt_beta
        if isinstance(sqrt_beta, Tensor):
            sqrt_beta = sqrt_beta.reshape(-1)[trials]
        of = replace(self.of, noise=noise, sqrt_beta=sqrt_beta)
        return _SomeTrials(of, self, trials)


class _SomeTrials(BoxCandidates):
    """All points of a box, for some of the trials.

    Args:
        of: The round, with what it tells of these trials.
        every: For all trials.
        trials: Which, in one dimension.
    """

    def __init__(self, of: Round, every: BoxCandidates, trials: Tensor) -> None:
        super().__init__(of, every._functions.select(trials), every._box)
        self._shape, self._every, self._trials = trials.shape, every, trials

    @cached_property
    def incumbent(self) -> Tensor:
        return self._every.incumbent.reshape(-1, 1)[self._trials]

    @cached_property
    def best_observation(self) -> Tensor:
        return self._every.best_observation.reshape(-1, 1)[self._trials]


def _unlisted(name: str) -> InputDataError:
    return InputDataError(
        f"the points of a box cannot be listed, so there is no {name} of all of them; write a "
        f"score of candidates, candidates.argmax(lambda at: at.mean), or look at a choice, "
        "candidates.at(choice)."
    )


class _Points(BoxCandidates):
    """Some points of a box.

    Args:
        of: All of them.
        X: Points, context included, `trials x q x (d + c)`.
    """

    def __init__(self, of: BoxCandidates, X: Tensor) -> None:
        super().__init__(of.of, of._functions, of._box)
        self._shape, self._X, self._whole = of._shape, X, of
        self._view = (*of._shape, X.shape[-2])

    @property
    def mean(self) -> Tensor:
        return self._both[0] if "_both" in self.__dict__ else self._mean_alone

    @property
    def sd(self) -> Tensor:
        return self._both[1]

    @cached_property
    def _mean_alone(self) -> Tensor:
        return self._functions.posterior.mean_at(self._X).view(self._view)

    @cached_property
    def _both(self) -> tuple[Tensor, Tensor]:
        mean, sd = self._functions.posterior.at(self._X)
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
        drawn = self._functions.drawn(n)
        return torch.stack([one.sample_at(self._X).view(self._view) for one in drawn])

    def uniform(self) -> Tensor:
        raise NotImplementedError(
            "a score on a box is evaluated many times, so that numbers drawn within would change "
            "under the search; draw them before, in choose()."
        )


def best_observed(posterior: PointPosterior, sign: int, context: Tensor | None = None) -> Tensor:
    """Best posterior mean, in the sense of ``sign``, among points in use, `trials`.

    Where there is a context, `trials x c`, the points are put into this one: what was reached in
    another is no measure of what can be gained now. 0 without any: a finite number will do, since
    the choice does not depend on it then.
    """
    if posterior.X.shape[-2] == 0:
        return posterior.X.new_zeros(len(posterior.X))
    return best_of(sign * posterior.mean_at(posterior.here(context)), posterior.live, sign)
