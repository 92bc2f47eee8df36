"""The setting that timings share, and runs of the engine.

Squared exponential kernel of lengthscale 0.2 on a regular grid of the unit square, noise variance
0.02, multiplier ``√(0.4 ln 4t)``, in the Markov world of [B16] at ε = 0.03 by default.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from threading import Event
from typing import NamedTuple

import torch
from gpytorch.kernels import RBFKernel
from torch import Tensor

from benchmarks.speed.markov_rewards import MarkovRewards
from botorch_tv.acquisition import Logarithmic
from botorch_tv.memory import torch_threads
from botorch_tv.simulation.executors import side_by_side
from botorch_tv.strategies import (
    Grid,
    Strategy,
    et_gp_ucb,
    gp_ucb,
    r_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_tvbo,
)
from botorch_tv.strategies.process_strategy import ProcessStrategy

LENGTHSCALE, NOISE, EPSILON = 0.2, 0.02, 0.03
WIDTH = Logarithmic(c1=0.4, c2=4.0)


def kernel() -> RBFKernel:
    """The kernel of all strategies, in float64."""
    spatial = RBFKernel().to(torch.float64)
    spatial.lengthscale = torch.tensor(LENGTHSCALE, dtype=torch.float64)
    return spatial


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "GP-UCB": lambda: gp_ucb(kernel=kernel(), noise=NOISE, width=WIDTH),
    "R-GP-UCB": lambda: r_gp_ucb(kernel=kernel(), noise=NOISE, period=29, width=WIDTH),
    "SW-GP-UCB": lambda: sw_gp_ucb(kernel=kernel(), noise=NOISE, window=29, width=WIDTH),
    "TV-GP-UCB": lambda: tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=EPSILON, width=WIDTH),
    "UI-TVBO": lambda: ui_tvbo(kernel=kernel(), noise=NOISE, sigma_w2=0.03, width=WIDTH),
    "ET-GP-UCB": lambda: et_gp_ucb(kernel=kernel(), noise=NOISE, delta=0.1, width=WIDTH),
}


class Play(NamedTuple):
    """A run of the engine and its cost."""

    indices: Tensor
    """Choices, `horizon x trials`."""
    observations: Tensor
    """Observations, `horizon x trials`."""
    live: Tensor
    """Observations in use at the choice, `horizon x trials`, int64."""
    init_seconds: float
    """Time to factor the kernel and make the first state."""
    seconds: list[float]
    """Time of `ask` and `tell` in each round, all trials together."""


def rewards(
    *, points: int, epsilon: float, trials: int, seed: int, device: torch.device | str = "cpu"
) -> MarkovRewards:
    """The world of all contenders."""
    return MarkovRewards(
        points=points,
        lengthscale=LENGTHSCALE,
        epsilon=epsilon,
        noise=NOISE,
        trials=trials,
        seed=seed,
        device=device,
    )


def play(
    contender: Strategy,
    domain: Grid,
    world: MarkovRewards,
    horizon: int,
    *,
    dtype: torch.dtype = torch.float64,
    watch: AbstractContextManager[object] | None = None,
) -> Play:
    """Run the engine on all trials of a world, timing `ask` and `tell` alone.

    Args:
        contender: The strategy.
        domain: The arms.
        world: The world at its first round; its device is the engine's.
        horizon: Rounds T.
        dtype: Dtype of the engine.
        watch: Entered around every `ask` and `tell`.
    """
    assert isinstance(contender, ProcessStrategy)
    watch = nullcontext() if watch is None else watch
    trials, device = world.values.shape[0], world.values.device
    indices, observations, live, seconds = [], [], [], []
    begin = now(device)
    state = contender.init(domain, batch_shape=(trials,), dtype=dtype, device=device)
    init_seconds = now(device) - begin
    for _ in range(horizon):
        live.append(contender.decision(state).data.retained.sum(-1))
        begin = now(device)
        with watch:
            suggestion = contender.ask(state)
        decided = now(device)
        y = world.observe(suggestion.choice).to(dtype)
        observed = now(device)
        with watch:
            state, _ = contender.tell(state, suggestion, y, check=False, consume=True)
        seconds.append(now(device) - observed + decided - begin)
        indices.append(suggestion.choice)
        observations.append(y)
        world.advance()
    return Play(
        torch.stack(indices), torch.stack(observations), torch.stack(live), init_seconds, seconds
    )


def replay(contender: Strategy, domain: Grid, played: Play, workers: int) -> float:
    """Seconds of the engine for all trials and rounds of a run, given the same observations.

    As in a study, each worker has a chunk of the trials. Raises AssertionError if choices differ.
    """
    observations = played.observations
    template = contender.init(domain, dtype=observations.dtype, device=observations.device)

    def run(trials: Tensor, stop: Event) -> list[Tensor]:
        state = contender.init_like(template, (len(trials),))
        chosen = []
        for y in observations[:, trials]:
            suggestion = contender.ask(state)
            state, _ = contender.tell(state, suggestion, y, check=False, consume=True)
            chosen.append(suggestion.choice)
        return chosen

    chunks = torch.arange(observations.shape[1], device=observations.device).chunk(workers)
    begin = now(observations.device)
    with torch_threads(max(1, torch.get_num_threads() // workers)):
        chosen = side_by_side(run, chunks, workers)
    seconds = now(observations.device) - begin
    again = torch.cat([torch.stack(chunk) for chunk in chosen], dim=1)
    # Rounding depends on the split of a matrix product; in float32 it may decide a near tie.
    if observations.dtype == torch.float64 and observations.device.type == "cpu":
        assert torch.equal(again, played.indices)
    return seconds


def now(device: torch.device) -> float:
    """Seconds on a clock, read when the device has finished its work."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
