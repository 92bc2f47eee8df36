"""Pending points, which count as measured, and categories that must be tried again."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

import torch
from torch import Size, Tensor

from botorch_tv.strategies.arguments import located
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.feasible import Feasible, MoveCost
from botorch_tv.strategies.mixed_search import FILLS, MixedSearch
from botorch_tv.strategies.outcomes import Outcomes
from botorch_tv.strategies.parameters import Choice, Space
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State, Suggestion


def of_model(
    strategy: Strategy, state: State, now: float | None, X: Tensor
) -> tuple[Tensor, Tensor]:
    """The model's own mean and sd at points with their context `M x (d + c)`, `M` each."""
    choice = located(state, X.unsqueeze(-2), Size((len(X), 1)))
    mean, covariance, _ = strategy._joint(state, choice, now)
    return mean.flatten(), covariance.flatten().clamp_min(0).sqrt()


def apart(
    strategy: Strategy,
    state: State,
    now: float | None,
    choice: Suggestion,
    pending: Tensor,
    feasible: Feasible | None,
    cost: MoveCost | None = None,
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
        feasible: Where a choice is allowed; None for everywhere.
        cost: What each choice costs, which is subtracted from its mean and bound.
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
    every = torch.cat([X, choice.X[d:].expand(len(X), -1)], -1)
    means, sd = of_model(strategy, state, now, every)
    bound = (means if strategy.maximize else -means) + float(choice.sqrt_beta) * sd
    bound = bound if cost is None else bound + cost(choice.X) - cost(every)
    rival = (count < most) & (bound >= (mean if strategy.maximize else -mean))
    if feasible is not None:
        rival &= feasible.allowed(every.unsqueeze(0))[0]
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
        limit: Upper bound on the observation (lower bound when minimising); None for no bound. If
            outcomes have names, it bounds the first objective, and the others are missing.
    """
    if isinstance(strategy, Outcomes) and limit is None:
        return strategy.together([as_if_measured(*own, X, time) for own in strategy.pairs(state)])
    suggestion = strategy.suggestion_at(state, X, now=time)
    if isinstance(strategy, Outcomes):
        missing = X.new_full((len(strategy.names),), math.nan)
        others = strategy.tell(state, suggestion, missing)[0].members[1:]
        first = as_if_measured(strategy.members[0], state.members[0], X, time, limit)
        return strategy.together([first, *others])
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
    for name, axis, at in space.parts:
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


def due_again(state: State) -> dict[str, Any]:
    """The category that must be tried now, to hold it; empty if none is due.

    Args:
        state: The state of one trial.
    """
    domain = state.domain
    if not isinstance(domain, Box) or not isinstance(domain.search, MixedSearch):
        return {}
    if not 0 < domain.search.fills <= state.rounds:
        return {}
    space = domain.search.space
    tried = state.history.choice.tensor().reshape(state.rounds, -1)[:, : space.columns]
    due = overdue(space, tried)
    return {} if due is None or due[0] in domain.search.fixed else dict([due])
