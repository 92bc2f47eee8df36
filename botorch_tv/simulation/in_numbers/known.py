"""Convert the strategies that compiled and captured rounds support to numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from botorch_tv.acquisition import UpperConfidence
from botorch_tv.acquisition.exploration import TIE_TOLERANCE
from botorch_tv.forgetting import (
    EventTrigger,
    PeriodicReset,
    Retention,
    SlidingWindow,
    prediction_error,
)
from botorch_tv.forgetting.retention import prediction_band
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.costs import LEAST_LOST, LEAST_NOISE, REFRESH_ROUNDS
from botorch_tv.inference.product_basis import ProductBasis
from botorch_tv.inference.recursion import ArmRecursion, amplifies
from botorch_tv.simulation.in_numbers.rules import Rules
from botorch_tv.simulation.in_numbers.widths import knows_width, width_tables
from botorch_tv.simulation.worlds import World
from botorch_tv.simulation.worlds.base import GridWorld
from botorch_tv.simulation.worlds.markov import MarkovWorld
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.state import State

MOST_SLOTS = 512
"""Largest number of played arms whose inverse, read in every round, stays in a cache."""
MOST_ARMS = 512
"""Largest number of arms for which rows of a covariance without product structure are cheaper
than a matrix product of all trials."""
PLAIN = (GridWorld.objectives, MarkovWorld.objectives)
"""The methods whose objectives are values on the arms."""


class Known(NamedTuple):
    """A strategy in numbers."""

    rules: Rules
    slots: int
    """Largest number of arms that a trial holds at a time."""


def plain(world: World) -> bool:
    """Whether a world is on a grid and overrides none of the methods that rounds depend on."""
    if not isinstance(world, GridWorld) or type(world).available is not World.available:
        return False
    kind = type(world)
    opens = kind.first_arm is not GridWorld.first_arm or kind.opening is not GridWorld.opening
    return kind.objectives in PLAIN and not opens


def known(strategy: Strategy, state: State, horizon: int) -> Known | None:
    """A strategy in numbers; None if compiled and captured rounds do not support it.

    They support upper confidence bounds, a known mean, noise that does not age, at most one rule of
    retention, and float64, if rounding stays small in the inverse over the arms played.
    """
    process, basis = strategy.process, state.basis
    if not (
        type(strategy) is Strategy
        and isinstance(basis, Basis)
        and isinstance(strategy.inference_for(state.domain, basis), ArmRecursion)
        and strategy.exploration == UpperConfidence()
        and knows_width(strategy.width, horizon)
        and process.known_mean is not None
        and _precise(strategy, basis, horizon)
    ):
        return None
    rules = process.retention
    if len(rules) > 1 or (process.slides and process.moves):
        return None
    if rules and not _knows(rules[0]):
        return None
    kept = process.most_kept(horizon)
    # Between two refreshes a window also holds the arms that it has dropped.
    slots = min(kept + REFRESH_ROUNDS + 1 if process.slides else kept, horizon, basis.arms)
    # Without product structure, a row of the covariance has one entry per arm.
    short = isinstance(basis, ProductBasis) or basis.arms <= MOST_ARMS
    if not short:
        return None
    return Known(_rules(strategy, state, horizon), slots)


def _precise(strategy: Strategy, basis: Basis, horizon: int) -> bool:
    """Whether rounding stays small in the inverse over the arms played."""
    noise, process = strategy.noise, strategy.process
    if process.moves:
        ages = torch.arange(horizon, dtype=torch.float64, device="cpu")
        lost = 1 - float(process.decay.transition(ages, ages + 1).max()) ** 2
        noise += lost / LEAST_LOST * LEAST_NOISE * basis.scale**2
    return not amplifies(noise, basis)


def _knows(rule: Retention) -> bool:
    """Whether compiled and captured rounds support a rule."""
    if isinstance(rule, EventTrigger):
        return type(rule) is EventTrigger and rule.rule is prediction_error
    return type(rule) in (PeriodicReset, SlidingWindow)


def _rules(strategy: Strategy, state: State, horizon: int) -> Rules:
    process, basis = strategy.process, state.basis
    assert isinstance(basis, Basis)
    assert process.known_mean is not None
    rule = process.retention[0] if process.retention else None
    ages = torch.arange(horizon + 1, dtype=torch.float64, device="cpu")
    sqrt_beta, gain_root, gain_slope = width_tables(strategy.width, state.domain.dim, horizon)
    band_sd = band_noise = np.empty(0)
    if isinstance(rule, EventTrigger):
        since = torch.arange(1, horizon + 2, device="cpu")
        one = torch.ones(horizon + 1, dtype=torch.float64, device="cpu")
        bands = (
            prediction_band(one, 0.0, since, rule.delta),
            prediction_band(torch.zeros_like(one), strategy.noise, since, rule.delta),
        )
        # Rounds count from 1.
        band_sd, band_noise = (np.concatenate([[0.0], one.numpy()]) for one in bands)
    return Rules(
        variance=basis.variance.cpu().numpy(),
        noise=strategy.noise,
        mean=process.known_mean,
        tie=TIE_TOLERANCE * basis.scale,
        sign=1.0 if strategy.maximize else -1.0,
        sqrt_beta=sqrt_beta,
        gain_root=gain_root,
        gain_slope=gain_slope,
        moves=process.moves,
        attenuation=process.decay.transition(ages, ages + 1).numpy(),
        prior=process.decay.prior_variance(ages).numpy(),
        period=int(rule.period) if isinstance(rule, PeriodicReset) else 0,
        window=int(rule.window) if isinstance(rule, SlidingWindow) else 0,
        band_sd=band_sd,
        band_noise=band_noise,
    )
