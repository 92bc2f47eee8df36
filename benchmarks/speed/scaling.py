"""What a round costs late in a run: time and memory at round 500 against round 10,000.

    python -m benchmarks.speed.scaling [--trials 16] [--rounds 500 10000] [--window 160]
        [--points 50] [--epsilon 0.03] [--strategies GP-UCB TV-GP-UCB ...]
        [--threads 1] [--seed 0] [--out FILE]

With constant noise a round is a step of a recursion whose size the kernel sets, so its cost should
not depend on how many rounds went before. Each strategy runs in a process of its own through the
Markov world of [B16] up to the last of ``--rounds``. On the way resident memory is read and the
state saved at each of them. Then the saved runs go on side by side, one round of each in turn, so
that a busy moment of the machine falls on all of them, and `ask` and `tell` are timed: median and
mean over ``--window`` rounds. (The mean also holds what is done only every so many rounds.)

Memory may grow with the log of choices: an arm, an observation and a time, 24 bytes per trial and
round. A log that grows in place doubles its room when it is full, so up to twice that is reserved.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import torch
from gpytorch.kernels import RBFKernel

from benchmarks.speed.common import RESULTS, environment, headline, resident_bytes, write
from benchmarks.speed.world import MarkovRewards
from botorch_tv.acquisition import Logarithmic
from botorch_tv.strategies import (
    Grid,
    State,
    Strategy,
    et_gp_ucb,
    gp_ucb,
    r_gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_tvbo,
)

LENGTHSCALE, NOISE = 0.2, 0.02
LOG_BYTES = 24
WARM_UP = 16  # rounds after loading, of which the first makes room in the log
WIDTH = Logarithmic(c1=0.4, c2=4.0)


def _kernel() -> RBFKernel:
    kernel = RBFKernel().to(torch.float64)
    kernel.lengthscale = torch.tensor(LENGTHSCALE, dtype=torch.float64)
    return kernel


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "GP-UCB": lambda: gp_ucb(kernel=_kernel(), noise=NOISE, width=WIDTH),
    "R-GP-UCB": lambda: r_gp_ucb(kernel=_kernel(), noise=NOISE, period=29, width=WIDTH),
    "SW-GP-UCB": lambda: sw_gp_ucb(kernel=_kernel(), noise=NOISE, window=29, width=WIDTH),
    "TV-GP-UCB": lambda: tv_gp_ucb(kernel=_kernel(), noise=NOISE, epsilon=0.03, width=WIDTH),
    "UI-TVBO": lambda: ui_tvbo(kernel=_kernel(), noise=NOISE, sigma_w2=0.03, width=WIDTH),
    "ET-GP-UCB": lambda: et_gp_ucb(kernel=_kernel(), noise=NOISE, delta=0.1, width=WIDTH),
}


class Run(NamedTuple):
    """A strategy somewhere in its run."""

    state: State
    world: MarkovRewards


def step(strategy: Strategy, run: Run) -> tuple[Run, float]:
    """Play one round; returns the run after it and the seconds of `ask` and `tell`."""
    begin = time.perf_counter()
    suggestion = strategy.ask(run.state)
    decided = time.perf_counter()
    y = run.world.observe(suggestion.index)
    observed = time.perf_counter()
    state, _ = strategy.tell(run.state, suggestion, y)
    seconds = time.perf_counter() - observed + decided - begin
    run.world.advance()
    return Run(state, run.world), seconds


def measure(label: str, options: argparse.Namespace) -> list[dict[str, float]]:
    """Time and memory of one strategy at each of the rounds asked for.

    Args:
        label: A key of `STRATEGIES`.
        options: The command line.

    Returns:
        One entry per round of ``options.rounds``, in ascending order.
    """
    torch.set_num_threads(options.threads)
    strategy = STRATEGIES[label]()
    with tempfile.TemporaryDirectory() as folder:
        saved = [Path(folder) / f"{number}.pt" for number in options.rounds]
        found = []
        run = _start(strategy, options)
        for number, path in zip(options.rounds, saved, strict=True):
            while run.state.told < number:
                run, _ = step(strategy, run)
            found.append(
                {
                    "round": number,
                    "resident_bytes": resident_bytes(),
                    "log_bytes": LOG_BYTES * options.trials * number,
                }
            )
            torch.save(run, path)
        runs: list[Run] = [torch.load(path, weights_only=False) for path in saved]
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(WARM_UP + options.window):
        for position, run in enumerate(runs):
            runs[position], taken = step(strategy, run)
            seconds[position].append(taken)
    scale = 1e6 / options.trials
    for entry, taken_by_round in zip(found, seconds, strict=True):
        timed = taken_by_round[WARM_UP:]
        entry |= {"median_us": scale * median(timed), "mean_us": scale * fmean(timed)}
    return found


def _start(strategy: Strategy, options: argparse.Namespace) -> Run:
    world = MarkovRewards(
        points=options.points,
        lengthscale=LENGTHSCALE,
        epsilon=options.epsilon,
        noise=NOISE,
        trials=options.trials,
        seed=options.seed,
    )
    domain = Grid.regular(points=options.points, dim=2)
    return Run(strategy.init(domain, batch_shape=(options.trials,)), world)


def compare(found: list[dict[str, float]]) -> dict[str, float]:
    """The last measurement against the first: ratios of time, and bytes gained."""
    first, last = found[0], found[-1]
    grown = last["resident_bytes"] - first["resident_bytes"]
    logged = last["log_bytes"] - first["log_bytes"]
    return {
        "median_ratio": last["median_us"] / first["median_us"],
        "mean_ratio": last["mean_us"] / first["mean_us"],
        "resident_growth_bytes": grown,
        "log_growth_bytes": logged,
        "growth_beyond_log_bytes": grown - logged,
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.speed.scaling",
        description="Time and memory of a round late in a run against early in it.",
    )
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--rounds", type=int, nargs="+", default=[500, 10_000])
    parser.add_argument("--window", type=int, default=160, help="rounds timed at each")
    parser.add_argument("--points", type=int, default=50, help="grid points per axis")
    parser.add_argument("--epsilon", type=float, default=0.03, help="rate of change of the world")
    parser.add_argument(
        "--strategies", nargs="+", choices=list(STRATEGIES), default=list(STRATEGIES)
    )
    parser.add_argument("--threads", type=int, default=1, help="threads of torch")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=RESULTS / "speed_scaling.json")
    options = parser.parse_args(arguments)
    options.rounds = sorted(set(options.rounds))
    if len(options.rounds) < 2 or min(options.rounds[0], options.window, options.trials) < 1:
        parser.error("--rounds are at least two numbers, and every number is at least 1")
    return options


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure every strategy in turn; returns the record that is written."""
    options = parse(arguments)
    torch.set_num_threads(options.threads)
    facts = environment(seed=options.seed)
    print(headline(facts))
    print(f"{options.trials} trials, {options.points**2} arms, µs per trial and round\n")
    columns = "".join(f"{f'round {number}':>14}" for number in options.rounds)
    print(f"{'median':12}{columns}{'ratio':>8}{'of means':>10}{'MB grown':>10}{'log MB':>8}")
    context = multiprocessing.get_context("spawn")
    results = {}
    for label in options.strategies:
        with context.Pool(1) as fresh:  # so that one strategy's memory is not another's
            found = fresh.apply(measure, (label, options))
        change = compare(found)
        results[label] = {"at": found, **change}
        figures = "".join(f"{entry['median_us']:14.1f}" for entry in found)
        grown, logged = change["resident_growth_bytes"], change["log_growth_bytes"]
        print(
            f"{label:12}{figures}{change['median_ratio']:8.2f}{change['mean_ratio']:10.2f}"
            f"{grown / 1e6:10.1f}{logged / 1e6:8.1f}",
            flush=True,
        )
    print()
    record = {
        "benchmark": "scaling",
        **facts,
        "parameters": {
            "trials": options.trials,
            "arms": options.points**2,
            "window": options.window,
            "lengthscale": LENGTHSCALE,
            "noise": NOISE,
            "epsilon": options.epsilon,
            "dtype": "float64",
        },
        "strategies": results,
    }
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
