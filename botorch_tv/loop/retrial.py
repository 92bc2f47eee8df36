"""Categories that have not been tried for long are tried again.

Where nothing is told but values, a category that became the best while others stayed as they were
shows in no measurement: a model learns from those others that nothing changes, and is sure of it
everywhere. Only a measurement there can tell [Liu, Lee, Shroff, AAAI 2018]. Where nothing changes
each such measurement is lost, so they grow rarer as long as nothing comes of them.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from botorch_tv.strategies.box import Box
from botorch_tv.strategies.parameters import Choice, MixedSearch, Space
from botorch_tv.strategies.state import State

EVERY = 10
"""One trial in so many may go to a category because of its age, however many there are."""
PATIENCE = 30
"""Trials without it after which it may; after each time in vain, twice as many."""
MOST_PATIENCE = 240
"""Upper limit, whatever happened before."""


def overdue(space: Space, tried: Tensor) -> tuple[int, int] | None:
    """The category not tried for the longest time, as axis and level, if it is to be tried again.

    Args:
        space: The parameters.
        tried: Points of all trials so far, the newest last, `n x D`.
    """
    trials = len(tried)
    if trials < PATIENCE or trials % EVERY:
        return None
    found: list[tuple[int, int]] = []
    oldest = 0
    for number, (axis, at) in enumerate(zip(space.axes, space.places)):
        if not isinstance(axis.of, Choice) or axis.levels is None or axis.of.single:
            continue
        level = torch.cdist(tried[:, at], axis.levels.to(tried)).argmin(-1)
        for each in range(len(axis.levels)):
            when = (level == each).nonzero().squeeze(-1)
            age = trials - 1 - int(when[-1]) if len(when) else trials
            if age < _patience(when):
                continue
            if age > oldest:
                found, oldest = [], age
            if age == oldest:
                found.append((number, each))
    return found[trials // EVERY % len(found)] if found else None


def _patience(when: Tensor) -> int:
    """Trials without a category after which it may be tried again.

    Args:
        when: The trials with it, in order.
    """
    lone = (when.diff() >= PATIENCE).flip(0).to(torch.int64).cumprod(0).sum()
    return min(PATIENCE << int(lone), MOST_PATIENCE)


def retried(state: State) -> State:
    """The state, in which only a category that is due may be chosen; as it is where none is.

    Args:
        state: Of one trial, on a box whose search knows of categories.
    """
    domain = state.domain
    if not isinstance(domain, Box) or not isinstance(domain.search, MixedSearch):
        return state
    if state.told < PATIENCE:
        return state
    space = domain.search.space
    tried = state.history.choice.tensor().reshape(state.told, -1)[:, : space.columns]
    due = overdue(space, tried)
    if due is None:
        return state
    axis, level = due
    levels = space.axes[axis].levels
    assert levels is not None
    search = replace(domain.search, fixed=(space.places[axis], levels[level]))
    return state._replace(domain=Box(domain.bounds, context_dim=domain.context_dim, search=search))
