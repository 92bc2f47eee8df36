"""Time and memory of a round late in a run.

Each strategy runs in a process of its own through the Markov world of [B16] up to the last of some
rounds; its state is saved at each of them. Then the saved runs continue side by side, a round of
each in turn, so that a busy moment of the machine falls on all, and `ask` and `tell` are timed as a
study calls them.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import fmean, median
from typing import NamedTuple

import torch

from benchmarks.speed.engine_runs import STRATEGIES, now, rewards
from benchmarks.speed.markov_rewards import MarkovRewards
from benchmarks.speed.state_bytes import state_bytes
from botorch_tv.gp.tensors import Rows
from botorch_tv.strategies import Grid, State, Strategy

WARM_UP = 16  # rounds after loading; the first of them makes room in the log


class Late(NamedTuple):
    """Which rounds are measured, and the world."""

    rounds: list[int]
    window: int
    """Rounds timed at each of them."""
    trials: int
    points: int
    epsilon: float
    seed: int
    device: torch.device


class Run(NamedTuple):
    """A run between two rounds."""

    state: State
    world: MarkovRewards


def step(strategy: Strategy, run: Run) -> tuple[Run, float]:
    """Play a round; returns the run after it and the seconds of `ask` and `tell`."""
    device = run.world.values.device
    begin = now(device)
    suggestion = strategy.ask(run.state)
    decided = now(device)
    y = run.world.observe(suggestion.choice)
    observed = now(device)
    state, _ = strategy.tell(run.state, suggestion, y, check=False, consume=True)
    seconds = now(device) - observed + decided - begin
    run.world.advance()
    return Run(state, run.world), seconds


def measure(label: str, late: Late) -> list[dict[str, float]]:
    """Time and memory per trial of the strategy ``label`` at each of the rounds."""
    torch.set_num_threads(1)
    strategy, found = STRATEGIES[label](), []
    domain = Grid.regular(points=late.points, dim=2)
    state = strategy.init(domain, batch_shape=(late.trials,), device=late.device)
    sizes = {"points": late.points, "trials": late.trials}
    world = rewards(**sizes, epsilon=late.epsilon, seed=late.seed, device=late.device)
    run = Run(state, world)
    with tempfile.TemporaryDirectory() as folder:
        saved = [Path(folder) / f"{number}.pt" for number in late.rounds]
        for number, path in zip(late.rounds, saved, strict=True):
            while run.state.rounds < number:
                run, _ = step(strategy, run)
            torch.save(run, path)
            found.append(
                {
                    "round": number,
                    "state_bytes_per_trial": state_bytes(run.state) / late.trials,
                    "log_bytes_per_trial": _log_bytes(run.state) / late.trials,
                }
            )
        runs: list[Run] = [torch.load(path, weights_only=False) for path in saved]
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(WARM_UP + late.window):
        for position, run in enumerate(runs):
            runs[position], taken = step(strategy, run)
            seconds[position].append(taken)
    scale = 1e6 / late.trials
    for entry, every in zip(found, seconds, strict=True):
        timed = every[WARM_UP:]
        entry |= {"median_us": scale * median(timed), "mean_us": scale * fmean(timed)}
    return found


def _log_bytes(state: State) -> int:
    """Bytes of the log as far as it is written."""
    logs = [rows.tensor() for rows in state.history if isinstance(rows, Rows)]
    return sum(log.numel() * log.element_size() for log in logs)
