"""What a round costs late in a run: time and memory at round 500 against round 10,000.

    python -m benchmarks.speed.scaling [--trials 16] [--rounds 500 10000] [--window 160]
        [--points 50] [--epsilon 0.03] [--strategies GP-UCB TV-GP-UCB ...]
        [--study] [--device cpu] [--threads 1] [--seed 0] [--out FILE]

With constant noise a round is a step of a recursion whose size the kernel sets, so its cost should
not depend on how many rounds went before. Each strategy runs in a process of its own through the
Markov world of [B16] up to the last of ``--rounds``. On the way resident memory is read and the
state saved at each of them. Then the saved runs go on side by side, one round of each in turn, so
that a busy moment of the machine falls on all of them, and `ask` and `tell` are timed: median and
mean over ``--window`` rounds. (The mean also holds what is done only every so many rounds.) They
are called as by somebody who checks observations and keeps old states, with ``--study`` as by a
study.

Memory may grow with the log of choices, a few numbers per trial and round. A log that grows in
place doubles its room when it is full, so up to twice that is reserved.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any, NamedTuple

import torch

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, resident_bytes, write
from benchmarks.speed.memory import state_bytes
from benchmarks.speed.runs import EPSILON, LENGTHSCALE, NOISE, STRATEGIES, now, rewards
from benchmarks.speed.world import MarkovRewards
from botorch_tv.gp.tensors import Rows
from botorch_tv.strategies import Grid, State, Strategy

WARM_UP = 16  # rounds after loading, of which the first makes room in the log


class Run(NamedTuple):
    """A strategy somewhere in its run."""

    state: State
    world: MarkovRewards


def step(strategy: Strategy, run: Run, *, study: bool = False) -> tuple[Run, float]:
    """Play one round; returns the run after it and the seconds of `ask` and `tell`.

    Args:
        strategy: Who plays.
        run: Where it stands.
        study: Whether to play as a study does: unchecked, and using up the state of ``run``.
    """
    device = run.world.values.device
    begin = now(device)
    suggestion = strategy.ask(run.state)
    decided = now(device)
    y = run.world.observe(suggestion.choice)
    observed = now(device)
    state, _ = strategy.tell(run.state, suggestion, y, check=not study, consume=study)
    seconds = now(device) - observed + decided - begin
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
                run, _ = step(strategy, run, study=options.study)
            found.append(
                {
                    "round": number,
                    "resident_bytes": resident_bytes(options.device),
                    "state_bytes": state_bytes(run.state),
                    "log_bytes": _log_bytes(run.state),
                }
            )
            torch.save(run, path)
        runs: list[Run] = [torch.load(path, weights_only=False) for path in saved]
    seconds: list[list[float]] = [[] for _ in runs]
    for _ in range(WARM_UP + options.window):
        for position, run in enumerate(runs):
            runs[position], taken = step(strategy, run, study=options.study)
            seconds[position].append(taken)
    scale = 1e6 / options.trials
    for entry, taken_by_round in zip(found, seconds, strict=True):
        timed = taken_by_round[WARM_UP:]
        entry |= {"median_us": scale * median(timed), "mean_us": scale * fmean(timed)}
    return found


def _log_bytes(state: State) -> int:
    """Bytes of the log as far as it is written."""
    logs = [rows.tensor() for rows in state.history if isinstance(rows, Rows)]
    return sum(log.numel() * log.element_size() for log in logs)


def _start(strategy: Strategy, options: argparse.Namespace) -> Run:
    world = rewards(
        points=options.points,
        epsilon=options.epsilon,
        trials=options.trials,
        seed=options.seed,
        device=options.device,
    )
    domain = Grid.regular(points=options.points, dim=2)
    state = strategy.init(domain, batch_shape=(options.trials,), device=options.device)
    return Run(state, world)


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
    parser = command_line(
        "speed.scaling", __doc__, trials=16, points=50, device="cpu", threads=1, seed=0
    )
    parser.add_argument("--rounds", type=int, nargs="+", default=[500, 10_000])
    parser.add_argument("--window", type=int, default=160, help="rounds timed at each")
    parser.add_argument(
        "--epsilon", type=float, default=EPSILON, help="rate of change of the world"
    )
    parser.add_argument(
        "--strategies", nargs="+", choices=list(STRATEGIES), default=list(STRATEGIES)
    )
    parser.add_argument("--study", action="store_true", help="unchecked, old states used up")
    options = parser.parse_args(arguments)
    options.rounds = sorted(set(options.rounds))
    if len(options.rounds) < 2 or min(options.rounds[0], options.window, options.trials) < 1:
        parser.error("--rounds are at least two numbers, and every number is at least 1")
    return options


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure every strategy in turn; returns the record that is written."""
    options = parse(arguments)
    facts = begin(options.threads, seed=options.seed, device=options.device)
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
            "study": options.study,
            "dtype": "float64",
        },
        "strategies": results,
    }
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
