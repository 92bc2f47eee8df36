"""The probability that a measurement succeeds, learned from successes and failures alone.

A failed measurement gives no value of the objective. The cause of a failure may be the point, or
the machine, which may fail from time to time at any point. There are several hypotheses about
failures; the weight of a hypothesis depends on how well it predicts each outcome, given the earlier
outcomes. A hypothesis states either that failures do not depend on the point, or that success is a
Gaussian process over the domain with a given lengthscale. The hypotheses about failures also differ
in the rate at which old outcomes are forgotten.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from operator import itemgetter
from typing import Any

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.base import median_gap
from botorch_tv.gp.process import SearchSizes
from botorch_tv.gp.search import Region, Search, SearchProblem, Uniform, raw_points
from botorch_tv.strategies.arguments import located
from botorch_tv.strategies.box import Box, holding, searched
from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.mixed_search import FILLS, MixedSearch
from botorch_tv.strategies.parameters import Choice, Space
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State, Suggestion

LIKELY = 0.5
"""A point is suggested only if its probability of success exceeds this fraction of the highest
probability in the domain. The limit is relative, because a machine may fail most of the time at all
points. A point is recommended only if its probability itself exceeds this value."""
PRIOR = 0.8
"""Probability of success before any outcome."""
LEVEL, LOCAL, NOISE = 0.3, 1.0, 0.2
"""Prior variances of the three parts of an outcome's label: the part common to all points, the
local part, and the noise of a single outcome."""
LENGTHSCALES = (0.15, 0.45)
"""Lengthscales of the local part, as fractions of the ranges, in up to two dimensions."""
RATES = (0.0, 0.05)
"""Rates at which outcomes are forgotten, per median time between outcomes."""
GLITCH = 0.9
"""Prior probability that failures do not depend on the point."""
LEAST = 0.02
"""Smallest probability that a hypothesis assigns to an outcome."""
NEWEST = 200
"""Number of newest outcomes that are used."""
CAUTION = 0.5
"""Number of standard deviations between the mean and the lower bound that recommendations use."""
DRAWS = 8
"""Largest number of choices drawn from a randomised strategy to find an allowed point."""
STARTS, POINTS = 64, 1024


class Success:
    """The probability that a measurement succeeds now.

    Outcomes are labels ±1. Under each hypothesis the labels are a noisy Gaussian process with mean
    2 · PRIOR - 1 and covariance (LEVEL + LOCAL exp(-|u - u'|² / 2ℓ²)) (1 - ε)^(|t - t'| / 2) on
    points u of the unit cube, with lengthscale ℓ and rate of forgetting ε. In some hypotheses LOCAL
    is replaced by 0, so failures do not depend on the point. A measurement at a point succeeds with
    probability (1 + mean) / 2.

    Args:
        X: At least one measured point, without context, in order of time, `n x d`.
        ok: Whether the measurements succeeded, `n`, bool.
        time: Times of the measurements, `n`, float64.
        corners: Corners of the domain, `2 x d`.
        now: The current time, no earlier than the times of the measurements.
    """

    def __init__(self, X: Tensor, ok: Tensor, time: Tensor, corners: Tensor, now: float) -> None:
        X, ok, time = (part[-NEWEST:] for part in (X, ok, time))
        self._lower, self._upper = corners.to(X)
        self._U, label = self._unit(X), 2.0 * ok.to(X) - 1
        # If all outcomes have the same time, the unit of time is the time from the outcomes to now.
        gap = median_gap(torch.cat([time, time.new_tensor([now])]) if time[0] == time[-1] else time)
        age = (now - time) / float(gap)
        apart = torch.cdist(self._U, self._U).square()
        reach = math.sqrt(max(X.shape[-1], 2) / 2)
        self._terms: list[tuple[float, Tensor]] = []
        evidence = []
        for length, rate in product((*LENGTHSCALES, 0.0), RATES):
            stays = 0.5 * math.log1p(-rate)
            K = torch.full_like(apart, LEVEL)
            if length:
                K += LOCAL * torch.exp(-0.5 * apart / (reach * length) ** 2)
            K *= torch.exp(stays * (age[:, None] - age).abs()).to(X)
            K.diagonal().add_(NOISE)
            L = torch.linalg.cholesky(K)
            residual = (label - (2 * PRIOR - 1)).unsqueeze(-1)
            white = torch.linalg.solve_triangular(L, residual, upper=False)
            alpha = torch.linalg.solve_triangular(L.T, white, upper=True).squeeze(-1)
            self._terms.append((reach * length, alpha * torch.exp(stays * age).to(X)))
            # The prediction of each outcome from the earlier outcomes.
            before = label - L.diagonal() * white.squeeze(-1)
            chance = ((1 + label * before) / 2).clamp(LEAST, 1 - LEAST)
            prior = 1 - GLITCH if length else len(LENGTHSCALES) * GLITCH
            evidence.append(chance.log().sum() + math.log(prior))
        self._shares = torch.stack(evidence).softmax(0).tolist()
        ranges = self._upper - self._lower
        points = self._lower + ranges * raw_points(STARTS, X.shape[-1], 0, X)
        self._highest = max(float(self.at(torch.cat([X, points])).max()), LEAST)

    def at(self, X: Tensor) -> Tensor:
        """The probability of success, `*`, at points `* x d`; differentiable in the points."""
        U = self._unit(X).reshape(-1, X.shape[-1])
        apart, total = torch.cdist(U, self._U).square(), X.new_zeros(len(U))
        for share, (length, weight) in zip(self._shares, self._terms):
            mean = 2 * PRIOR - 1 + LEVEL * weight.sum()
            if length:
                mean = mean + LOCAL * torch.exp(-0.5 * apart / length**2) @ weight
            total = total + share * (1 + mean.clamp(-1, 1)) / 2
        found: Tensor = total.view(X.shape[:-1])
        return found

    def allows(self, X: Tensor) -> Tensor:
        """Whether success at each point `* x d` is likely enough to choose the point; `*`, bool."""
        likely: Tensor = self.relative(X) > LIKELY
        return likely

    @property
    def fails(self) -> bool:
        """Whether failure is likelier than success at every point."""
        return self._highest <= LIKELY

    def strict(self) -> Success:
        """A copy that allows only points where success is likelier than failure.

        If there is no such point, the copy allows what this object allows.
        """
        other = copy.copy(self)
        if not self.fails:
            other._highest = 1.0
        return other

    def relative(self, X: Tensor) -> Tensor:
        """The probability of success at points `* x d`, divided by the highest probability; `*`.

        The result is differentiable in the points.
        """
        return self.at(X) / self._highest

    def _unit(self, X: Tensor) -> Tensor:
        U: Tensor = (X - self._lower) / (self._upper - self._lower)
        return U


def success(state: State, X: Tensor, ok: Tensor, time: Tensor, now: float) -> Success | None:
    """The probability of success on the domain of a state; None if nothing has failed.

    Args:
        state: A state of one trial.
        X: At least one measured point, without context, in order of time, `n x d`.
        ok: Whether the measurements succeeded, `n`, bool.
        time: Times of the measurements, `n`, float64.
        now: The current time, no earlier than the times of the measurements.
    """
    if bool(ok.all()):
        return None
    domain = state.domain
    if isinstance(domain, Box):
        corners = domain.bounds
    else:
        assert isinstance(domain, Grid)
        corners = torch.stack([domain.X.amin(0), domain.X.amax(0)])
        corners[1] += corners[0] == corners[1]
    return Success(X, ok, time, corners, now)


def avoiding(state: State, chance: Success | None) -> State:
    """A state whose search on a box multiplies scores by the probability of success."""
    if chance is None or not isinstance(state.domain, Box):
        return state
    return searched(state, Weighted(state.domain.search, chance))


@dataclass(frozen=True, eq=False)
class Weighted(Search):
    """A search that uses another search to maximise the product of score and success probability.

    The lowest score among possible starting points is subtracted from every score, so all scores
    are at least 0. Therefore a higher score and a higher probability of success both increase the
    product. Points that are too unlikely to succeed rank behind all other points.

    Args:
        search: The other search.
        chance: The probability of success.
    """

    search: Search
    chance: Success

    @property
    def fills(self) -> int:
        return self.search.fills

    def check(self, box: Region) -> None:
        self.search.check(box)

    def best(self, box: Region, problem: SearchProblem) -> Tensor:
        points = self.search.filling(box, STARTS, problem.rounds, problem.observed)
        points = points.expand(len(problem.observed), *points.shape)
        with torch.no_grad():
            lowest = problem.score(torch.cat([points, problem.observed], 1), None).amin(-1, True)

        def score(X: Tensor, trials: Tensor | None) -> Tensor:
            return _promise(problem.score(X, trials), lowest, self.chance.relative(X), problem.unit)

        def climbed(X: Tensor, trials: Tensor | None, factor: float) -> tuple[Tensor, Tensor]:
            assert problem.climbed is not None
            value, by = problem.climbed(X, trials, 1.0)
            with torch.enable_grad():
                value, X = value.requires_grad_(), X.detach().requires_grad_()
                total = _promise(value, lowest, self.chance.relative(X), problem.unit)
                by_value, by_chance = torch.autograd.grad(factor * total.sum(), (value, X))
            return factor * total.detach(), by_value.unsqueeze(-1) * by + by_chance

        return self.search.best(
            box, problem._replace(score=score, climbed=climbed if problem.climbed else None)
        )

    def numbers(self, dim: int, sizes: SearchSizes, trials: int) -> int:
        return self.search.numbers(dim, sizes, trials)

    def held(self, X: Tensor) -> Tensor:
        return self.search.held(X)

    def first(self, box: Region, like: Tensor) -> Tensor:
        return self.search.first(box, like)

    def anywhere(self, box: Region, draws: Uniform) -> Tensor:
        return self.search.anywhere(box, draws)


def elsewhere(
    strategy: Strategy,
    state: State,
    now: float | None,
    ask: Callable[[], Suggestion],
    chance: Success | None,
) -> Suggestion:
    """A strategy's choice, or another point if success is too unlikely at the choice.

    A strategy that draws random numbers chooses again, up to 8 times, until success is likely at
    its choice. If success is unlikely at the last choice, the result is the point with the highest
    product of upper confidence bound and probability of success, among the arms or among points
    that fill the box.

    Args:
        strategy: The strategy that chooses.
        state: The current state, for a single trial.
        now: The current time, as in ``ask``.
        ask: Function that returns the strategy's choice.
        chance: The probability of success; None if nothing has failed.
    """
    choice = ask()
    if chance is None:
        return choice
    for _ in range(DRAWS if strategy.draws else 0):
        if bool(chance.allows(choice.X[: state.domain.dim])):
            return choice
        choice = ask()
    X = _allowed(strategy, state, now, choice.X, chance, float(choice.sqrt_beta))
    return choice if X is choice.X else strategy.suggestion_at(state, X, now=now)


def recommended(
    strategy: Strategy,
    state: State,
    now: float | None,
    context: Tensor | None,
    chance: Success | None,
) -> Tensor:
    """The point with the best lower bound, `d + c`, among points where success is likely.

    Args:
        strategy: The strategy that predicts.
        state: A state of one trial.
        now: The current time, as in ``ask``.
        context: The context, `c`.
        chance: The probability of success; None if nothing has failed.
    """
    chance = None if chance is None else chance.strict()
    X = strategy.recommend(avoiding(state, chance), now=now, context=context, caution=CAUTION)
    return _allowed(strategy, state, now, X, chance, -CAUTION)


def _allowed(
    strategy: Strategy,
    state: State,
    now: float | None,
    X: Tensor,
    chance: Success | None,
    width: float,
) -> Tensor:
    """The point ``X``, `d + c`, or a point where success is likelier.

    If success is too unlikely at ``X``, the result is the point with the best bound among points
    that are likely enough to succeed.
    """
    domain, d = state.domain, state.domain.dim
    if chance is None or bool(chance.allows(X[:d])):
        return X
    if isinstance(domain, Grid):
        points = domain.X.to(X)
    else:
        assert isinstance(domain, Box)
        points = domain.search.filling(domain, POINTS, state.rounds, X)
    every, bound = _bounds(strategy, state, now, points, X[d:], width)
    return every[_promise(bound, bound.amin(), chance.relative(points), 1.0).argmax()]


def _bounds(
    strategy: Strategy, state: State, now: float | None, X: Tensor, context: Tensor, width: float
) -> tuple[Tensor, Tensor]:
    """Points `M x d` with the context, `M x (d + c)`, and their confidence bounds, `M`."""
    every = torch.cat([X, context.expand(len(X), -1)], -1)
    mean, sd = of_model(strategy, state, now, every)
    return every, (mean if strategy.maximize else -mean) + width * sd


def of_model(
    strategy: Strategy, state: State, now: float | None, X: Tensor
) -> tuple[Tensor, Tensor]:
    """The model's own mean and sd at points with their context `M x (d + c)`, `M` each."""
    choice = located(state, X.unsqueeze(-2), Size((len(X), 1)))
    mean, covariance, _ = strategy._joint(state, choice, now)
    return mean.flatten(), covariance.flatten().clamp_min(0).sqrt()


def _promise(score: Tensor, lowest: Tensor, p: Tensor, unit: float) -> Tensor:
    """Products of score and probability of success; points too unlikely to succeed rank last."""
    return torch.where(p > LIKELY, p * (score - lowest).clamp_min(0), (p - 1) * unit)


# Pending points count as measured, so the next choice is another point if one may be as good.


def apart(
    strategy: Strategy,
    state: State,
    now: float | None,
    choice: Suggestion,
    pending: Tensor,
    chance: Success | None,
) -> Suggestion:
    """A strategy's choice or, if it is pending, another point that may be as good.

    If all points of a domain are listed, a pending point is chosen again only if its predicted mean
    exceeds the confidence bounds of all points that are pending fewer times. Otherwise the result
    is a point that is pending the fewest times among those whose bound reaches this mean.

    Args:
        strategy: The strategy that chooses.
        state: The current state, for a single trial, in which the points are pending.
        now: The current time, as in ``ask``.
        choice: The strategy's choice.
        pending: The pending points, `n x d`.
        chance: The probability of success; None if nothing has failed.
    """

    def times(X: Tensor) -> Tensor:
        same = torch.isclose(X.unsqueeze(-2), pending, rtol=1e-9, atol=1e-12).all(-1)
        return same.sum(-1)

    X, d = state.domain.listed, state.domain.dim
    if X is None:
        return choice
    X = X.to(choice.X)
    count, most = times(X), times(choice.X[:d])
    mean = strategy.suggestion_at(state, choice.X, now=now).mean
    every, bound = _bounds(strategy, state, now, X, choice.X[d:], float(choice.sqrt_beta))
    rival = (count < most) & (bound >= (mean if strategy.maximize else -mean))
    if chance is not None:
        rival &= chance.allows(X)
    if not bool(rival.any()):
        return choice
    rival &= count == count[rival].amin()
    best = every[torch.where(rival, bound, -math.inf).argmax()]
    return strategy.suggestion_at(state, best, now=now)


SETTLED = 1.2
"""A bound is not used if the predicted mean is worse by more than this number of standard
deviations. Assumed values near their predictions would reduce the estimated noise and rate of
change."""


def as_if_measured(
    strategy: Strategy, state: State, X: Tensor, time: float, limit: float | None = None
) -> State:
    """The state after an assumed observation at a point.

    The assumed observation is the predicted mean m or, if a limit is given, the mean of the
    predicted normal distribution beyond the limit: m - s φ(z) / Φ(z) with z = (limit - m) / s, or
    m + s φ(z) / Φ(z) with z = (m - limit) / s when minimising. If z is at least ``SETTLED``, the
    prediction agrees with the limit, and the measurement counts as failed.

    If the strategy has no predictions yet, the assumed observation is ``limit``. If ``limit`` is
    None, the measurement then counts as failed, because an assumed observation must not determine
    the unit of y.

    Args:
        strategy: The strategy of the state; see :meth:`Strategy.undisturbed`.
        state: A state of one trial.
        X: The point with its context, `d + c`.
        time: Time of the measurement.
        limit: Upper bound on the observation (lower bound when minimising); None for no bound.
    """
    suggestion = strategy.suggestion_at(state, X, now=time)
    value, predicts, ok = suggestion.mean, bool(strategy.predicts(state)), None
    if limit is not None and predicts:
        sd = of_model(strategy, state, time, X.unsqueeze(0))[1][0]
        worse = sd if strategy.maximize else -sd
        z = (limit - value) / worse
        ratio = math.sqrt(2 / math.pi) / torch.special.erfcx(-z / math.sqrt(2))  # φ(z) / Φ(z)
        value, ok = value - worse * ratio, z < SETTLED
    elif limit is not None:
        value = torch.full_like(value, limit)
    elif not predicts:
        ok = torch.zeros_like(value, dtype=torch.bool)
    return strategy.tell(state, suggestion, value, ok=ok)[0]


# ---------------- trials of categories with few trials, or untried for long

FEW = 3
"""A category with fewer trials is new, unless one of the first ``FILLS`` trials has it."""
SOON = 4
"""A new category with n trials is due after n times this number of trials without it. While it is
due, it is tried once in this number of trials."""
EVERY = 10
"""While another category is due to be tried again, it is tried once in this number of trials."""
PATIENCE = 30
"""Number of trials without a category after which the category is due to be tried again. The number
doubles with every trial of the category after such a gap."""
MOST_PATIENCE = 240
"""Largest number of trials to which ``PATIENCE`` doubles."""


def overdue(space: Space, tried: Tensor) -> tuple[str, Any] | None:
    """The name and the value of a category that must be tried; None if no category is due.

    A category that was not among the first trials, such as an added category, is tried soon, and
    several times, because its predictions are a guess. A category that is not tried may improve
    unnoticed, so every category must be tried again (Liu, Lee, Shroff, AAAI 2018). If the objective
    is static, trying a bad category again is a waste. Therefore the interval to the next trial of
    the category doubles after every trial that brings no improvement. Of several categories that
    are due, the category with the fewest trials is tried; ties take turns.

    Args:
        space: The parameters.
        tried: Points of all trials, the newest last, `n x D`.
    """
    trials, found = len(tried), []
    for (name, axis), at in zip(space.by_name.items(), space.places):
        if not isinstance(axis, Choice) or axis.ordered or axis.columns == 0:
            continue
        assert axis.levels is not None
        level = torch.cdist(tried[:, at], axis.levels.to(tried)).argmin(-1)
        for number, category in enumerate(axis.choices):
            when = (level == number).nonzero().squeeze(-1)
            age = trials - 1 - int(when[-1]) if len(when) else trials
            new = len(when) < FEW and not bool((when < FILLS).any())
            due = age >= (SOON * len(when) if new else _patience(when))
            if due and not trials % (SOON if new else EVERY):
                found.append((len(when), name, category))
    rarest = [due[1:] for due in found if due[0] == min(found, key=itemgetter(0))[0]]
    return rarest[trials // SOON % len(rarest)] if rarest else None


def _patience(when: Tensor) -> int:
    """Number of trials without a category after which the category is due.

    Args:
        when: The indices of the trials with the category, `n`, in order.
    """
    lone = (when.diff() >= PATIENCE).flip(0).to(torch.int64).cumprod(0).sum()
    return min(PATIENCE << int(lone), MOST_PATIENCE)


def retried(state: State) -> State:
    """If a category is due, a state whose search is restricted to it; else the unchanged state.

    Args:
        state: The state of one trial.
    """
    domain = state.domain
    if not isinstance(domain, Box) or not isinstance(domain.search, MixedSearch):
        return state
    if not 0 < domain.search.fills <= state.rounds:
        return state
    space = domain.search.space
    tried = state.history.choice.tensor().reshape(state.rounds, -1)[:, : space.columns]
    due = overdue(space, tried)
    return state if due is None or due[0] in domain.search.fixed else holding(state, dict([due]))
