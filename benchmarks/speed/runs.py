"""The setting that timings share, and the engine's run through it.

Squared exponential kernel of lengthscale 0.2 on a regular grid of the unit square, noise variance
0.02, multiplier ``√(0.4 ln 4t)``, in the Markov world of [B16] at ε = 0.03 unless told otherwise.
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

from benchmarks.speed.world import MarkovRewards
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
from botorch_tv.strategies.rounds import ProcessStrategy

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
    """What happened in a run of the engine, and what it cost."""

    indices: Tensor
    """Choices, `horizon x trials`."""
    observations: Tensor
    """Observations, `horizon x trials`."""
    live: Tensor
    """Observations in use when the choice was made, `horizon x trials`, int64."""
    init_seconds: float
    """Time to factor the kernel and make the first state."""
    seconds: list[float]
    """Time of `ask` and `tell` in each round, all trials together."""


def rewards(
    *, points: int, epsilon: float, trials: int, seed: int, device: torch.device | str = "cpu"
) -> MarkovRewards:
    """The world that all contenders play."""
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
        contender: Who plays.
        domain: Where.
        world: What is played, at its first round; its device is the engine's.
        horizon: Rounds T.
        dtype: Of the engine.
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
    """Seconds that the engine takes for all trials and rounds of a run, told what it was told.

    It works as a study does: the trials in as many chunks as there are workers, side by side.

    Args:
        contender: Who plays.
        domain: Where.
        played: A run of all trials; its device and dtype are the engine's.
        workers: Chunks side by side.

    Raises:
        AssertionError: If it chooses otherwise this time.
    """
    told = played.observations
    template = contender.init(domain, dtype=told.dtype, device=told.device)

    def run(trials: Tensor, stop: Event) -> list[Tensor]:
        state = contender.init_like(template, (len(trials),))
        chosen = []
        for y in told[:, trials]:
            suggestion = contender.ask(state)
            state, _ = contender.tell(state, suggestion, y, check=False, consume=True)
            chosen.append(suggestion.choice)
        return chosen

    chunks = torch.arange(told.shape[1], device=told.device).chunk(workers)
    begin = now(told.device)
    with torch_threads(max(1, torch.get_num_threads() // workers)):
        chosen = side_by_side(run, chunks, workers)
    seconds = now(told.device) - begin
    again = torch.cat([torch.stack(one) for one in chosen], dim=1)
    # Rounding depends on how a matrix product is split, in float32 enough to decide a near tie.
    if told.dtype == torch.float64 and told.device.type == "cpu":
        assert torch.equal(again, played.indices)
    return seconds


def now(device: torch.device) -> float:
    """Seconds on a clock, read once the device has done all it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
