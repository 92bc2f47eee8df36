"""Convert strategies to numbers and tables, for rounds that are compiled or run as CUDA graphs."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple

import numpy as np
import torch

from botorch_tv.forgetting import Lifetime
from botorch_tv.gp.arm_engine import FIRST_SLOTS
from botorch_tv.gp.arms import AT_ONCE, LEAST_NOISE, REFRESH_ROUNDS, ArmRecursion, amplifies
from botorch_tv.gp.basis import Basis, ProductBasis
from botorch_tv.gp.linalg import TIE_TOLERANCE
from botorch_tv.gp.tensors import room_for
from botorch_tv.simulation.worlds import World
from botorch_tv.simulation.worlds.base import GridWorld
from botorch_tv.strategies.gp_strategy import GPStrategy
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State

LEAST_LOST = 1 / 512
"""Smallest loss of variance per round for which rounding errors in the inverse over the played arms
stay small for every noise variance. The loss is 1 - a², where a is the factor on covariances in a
round; in a Markov model the loss is ε. Rounding errors decay at the same rate as covariances. For a
smaller loss, noise / LEAST_NOISE + loss / LEAST_LOST must be at least 1."""

MOST_SLOTS = 512
"""Largest number of played arms for which the inverse over these arms fits into a cache."""
MOST_ARMS = 512
"""Largest number of arms of a compiled study whose covariance has no product structure. With more
arms, a matrix product over all trials is faster than loops over rows of the covariance."""
WORTH_COMPILING = 2**30
"""Smallest product of trials, rounds, arms and strategies for which a study is compiled by default.
Such a study takes about half a minute without compilation, and compilation takes ten seconds unless
it is cached."""
WORTH_RECORDING = 2**21
"""Largest product of trials and arms for which a study on a GPU is recorded by default. Beyond, a
launch takes less time than the memory traffic of an operation
(`benchmarks/results/gpu_rounds_by_size.json`).
"""


class Rules(NamedTuple):
    """A strategy, converted to numbers and to tables indexed by round or by elapsed time."""

    variance: np.ndarray
    """Prior variance of the arms, `M`."""
    noise: float
    mean: float
    tie: float
    """Largest difference between two scores that counts as a tie."""
    sign: float
    """1 to maximise, -1 to minimise."""
    sqrt_beta: np.ndarray
    """Width √beta of the upper confidence bound by round, or the part of √beta that does not depend
    on the information gain."""
    gain_root: np.ndarray
    """The first number, by round, in the term √(gain_root + gain_slope g) of √beta, where g is the
    information gain; empty if √beta does not depend on g."""
    gain_slope: np.ndarray
    moves: bool
    attenuation: np.ndarray
    """Factor by which covariances decay in the next unit of time, indexed by the time since the
    origin."""
    prior: np.ndarray
    """Factor by which ``variance`` is multiplied, indexed by the time since the origin."""
    period: int
    """Number of rounds between resets; 0 for no resets."""
    window: int
    """Number of rounds whose observations are retained; 0 for all rounds."""
    band_sd: np.ndarray
    """Factor on the posterior standard deviation in the trigger's band, indexed by the rounds since
    the reset; empty for a strategy without a trigger."""
    band_noise: np.ndarray
    """The part of the trigger's band due to noise, indexed by the rounds since the reset."""


Compilable = tuple[Rules, int, Basis]
"""Three items: a strategy as numbers and tables, the largest number of played arms that a trial
stores at a time, and the features of the kernel of the strategy."""


class TooManyArms(Exception):
    """If a trial has more than :data:`MOST_SLOTS` played arms, uncompiled rounds are faster."""


def require_compiled(
    wanted: bool | None, world: World, trials: int, rounds: int, device: torch.device
) -> bool:
    """Whether a study compiles its rounds or, on a GPU, records its rounds as CUDA graphs.

    Args:
        wanted: The argument ``compiled`` of ``run_study``. If ``wanted`` is None, large studies on
            a CPU are compiled, and small studies on a GPU are recorded.
        world: The distribution of objectives.
        trials: Number of trials.
        rounds: Number of rounds, counted over all strategies and trials.
        device: The device of the study.

    Raises:
        ImportError: If ``wanted`` is True on a CPU and Numba is not installed.
    """
    arms = len(world.domain) if isinstance(world, GridWorld) else 0
    if device.type != "cpu":
        return trials * arms <= WORTH_RECORDING if wanted is None else wanted
    available = find_spec("numba") is not None
    if wanted and not available:
        raise ImportError(
            "run_study: compiled is True, but Numba is not installed; "
            "pip install 'botorch-tv[fast]', or compiled=False."
        )
    if wanted is None:
        return available and rounds * arms >= WORTH_COMPILING
    return wanted


def numbers_per_trial(compilable: Compilable, horizon: int) -> int:
    """How many numbers a trial stores in the last round, including temporary numbers."""
    _, most, basis = compilable
    slots = min(room_for(most + 1, FIRST_SLOTS), most + 1)
    older = slots**2 // 4 if slots > FIRST_SLOTS else 0  # previous slots, while copied
    stored = (AT_ONCE + 2) * basis.arms + slots**2 + older
    return stored + basis.numbers_of_mixture(slots) + 3 * horizon


def played(**arrays: np.ndarray) -> dict[str, np.ndarray]:
    """The given variables, `trials x rounds` each, and ``side_queries``, which is 0."""
    return {**arrays, "side_queries": np.zeros_like(arrays["index"])}


def compilable(world: World, strategy: Strategy, state: State, horizon: int) -> Compilable | None:
    """Convert a strategy to numbers and tables; None if it supports neither Numba nor CUDA graphs.

    The strategy must use float64, upper confidence bounds, a prior mean that is given and not
    estimated, and at most one rule of retention (periodic reset, event trigger or window). The
    noise variance must not grow with the age of observations. Rounding errors must stay small in
    the inverse covariance of the played arms. The world (the distribution of objectives) must be on
    a grid, and its class must not override ``first_arm``, ``opening``, ``available`` or another
    method that a round calls.

    Args:
        world: The distribution of objectives.
        strategy: The strategy.
        state: A state of the strategy.
        horizon: Number of rounds T.
    """
    basis = state.basis
    if not (
        world.only_values
        and strategy.by_parts
        and isinstance(strategy, GPStrategy)
        and isinstance(basis, Basis)
        and isinstance(strategy.inference_for(state.domain, basis), ArmRecursion)
        and strategy.exploration.plays_bound
        and strategy.width.round_terms(horizon, state.domain.dim) is not None
        and strategy.process.given_mean is not None
        and _precise(strategy, basis, horizon)
    ):
        return None
    process, retention = strategy.process, strategy.process.retention
    if len(retention) > 1 or (process.slides and process.moves):
        return None
    if any(rule.retained_for is None and not rule.resets_beyond_band for rule in retention):
        return None
    retained = process.most_retained(horizon)
    # Between two recomputations of the posterior, the slots also hold arms whose observations have
    # left the window.
    slots = min(retained + REFRESH_ROUNDS + 1 if process.slides else retained, horizon, basis.arms)
    # Without product structure, a row of the covariance has one entry per arm, so loops over rows
    # are slow for many arms.
    if basis.arms > MOST_ARMS and not isinstance(basis, ProductBasis):
        return None
    # With a static objective or with resets, a strategy plays few different arms, so on a CPU the
    # number of played arms is not bounded here. If a trial plays too many arms, TooManyArms is
    # raised, and the block is played again without compiled rounds. Captured rounds on a GPU have
    # no such fallback, and CUDA graphs do not support windows.
    gpu = basis.variance.device.type != "cpu"
    if (gpu and process.slides) or ((gpu or process.moves) and slots > MOST_SLOTS):
        return None
    return _rules(strategy, state, basis, horizon), slots, basis


def _precise(strategy: GPStrategy, basis: Basis, horizon: int) -> bool:
    """Whether rounding errors stay small in the inverse covariance of the played arms."""
    noise, process = strategy.noise, strategy.process
    if process.moves:
        ages = torch.arange(horizon, dtype=torch.float64, device="cpu")
        lost = 1 - float(process.decay.transition(ages, ages + 1).max()) ** 2
        noise += lost / LEAST_LOST * LEAST_NOISE * basis.scale**2
    return not amplifies(noise, basis)


def _rules(strategy: GPStrategy, state: State, basis: Basis, horizon: int) -> Rules:
    process = strategy.process
    assert process.given_mean is not None
    lifetime = next(iter(process.lifetimes), Lifetime())
    ages = torch.arange(horizon + 1, dtype=torch.float64, device="cpu")
    band_sd = band_noise = gain_root = gain_slope = np.empty(0)
    for rule in (rule for rule in process.retention if rule.resets_beyond_band):
        since = torch.arange(1, horizon + 2, device="cpu")
        ones = torch.ones(horizon + 1, dtype=torch.float64, device="cpu")
        bands = rule.band(ones, 0.0, since), rule.band(0 * ones, strategy.noise, since)
        # Rounds count from 1, so entry 0 is not used.
        band_sd, band_noise = (
            np.concatenate([[0.0], band.numpy()]) for band in bands if band is not None
        )
    terms = [strategy.width.round_terms(t + 1, state.domain.dim) for t in range(horizon)]
    offset, scale, constant, slope = np.array(terms, dtype=float).T
    by_width, more = strategy.exploration.bound_factors or (1.0, 0.0)
    if slope.any():
        scale = by_width * scale
        gain_root, gain_slope = scale**2 * constant, scale**2 * slope
    return Rules(
        variance=basis.variance.cpu().numpy(),
        noise=strategy.noise,
        mean=process.given_mean,
        tie=TIE_TOLERANCE * basis.scale,
        sign=1.0 if strategy.maximize else -1.0,
        sqrt_beta=by_width * offset + more,
        gain_root=gain_root,
        gain_slope=gain_slope,
        moves=process.moves,
        attenuation=process.decay.transition(ages, ages + 1).numpy(),
        prior=process.decay.prior_variance(ages).numpy(),
        period=lifetime.period,
        window=lifetime.window,
        band_sd=band_sd,
        band_noise=band_noise,
    )
