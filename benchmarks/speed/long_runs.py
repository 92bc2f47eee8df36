"""A thousand trials of a hundred thousand rounds: time, memory and drift of compiled rounds.

    python -m benchmarks.speed.long_runs [--trials 1000] [--horizon 100000] [--together 250]
        [--window 1000] [--points 10] [--checked 1500] [--strategies ET-GP-UCB TV-GP-UCB]
        [--seed 0] [--out FILE]

The rounds are those that `run_study` plays, in the Markov world of [B16], world and normal variates
included. Trials run in blocks of ``--together``, each strategy and block in a process of its own,
in one thread.

- *Time*: processor time of the last ``--window`` rounds over that of as many after the first
  ``--window``. Those are played a second time for it, in turn with the last ones, so that a busy
  moment of the machine falls on both.
- *Memory*: resident at several rounds, before that second run begins. It may grow by what a study
  returns, 13 bytes per trial and round, whose memory the system hands out as it is written.
- *Drift*: in every trial, mean, variance and covariance of all arms after the last round against
  a regression in NumPy on the newest ``--checked`` observations since the last reset. At ε = 0.03
  one made 1,500 rounds ago is worth 1e-10 of what it was.

Single precision is never compiled, and refused where rounding would outweigh what is learned: the
record says which.
"""

from __future__ import annotations

import argparse
import dataclasses
import math
import multiprocessing
import time
from collections.abc import Sequence
from threading import Event
from typing import Any, NamedTuple

import numpy as np
import torch

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, resident_bytes, write
from benchmarks.speed.runs import EPSILON, LENGTHSCALE, NOISE, STRATEGIES, kernel
from botorch_tv.gp.covariance import covariance_matrix
from botorch_tv.simulation import MarkovWorld
from botorch_tv.simulation.compiled import SLOTS, CompiledTable, Trials
from botorch_tv.simulation.settings import Arrays, StudySettings
from botorch_tv.simulation.worlds.base import Objective
from botorch_tv.strategies import Grid

PLAYED = ("ET-GP-UCB", "TV-GP-UCB")
LOG_BYTES = 4 + 8 + 1
"""An arm, a regret and a reset per trial and round."""


class Block(NamedTuple):
    """A strategy and the trials that it plays side by side."""

    label: str
    chunk: range
    options: argparse.Namespace


class Newest(NamedTuple):
    """What observations of the newest rounds were made of, each `trials x rounds`."""

    best: np.ndarray
    """The largest value of the objective."""
    errors: np.ndarray
    """Of the measurements."""


def study_of(
    label: str, options: argparse.Namespace, dtype: torch.dtype = torch.float64
) -> StudySettings:
    """What one strategy plays.

    Raises:
        ValueError: If the precision is too coarse for so many rounds.
    """
    domain = Grid.regular(points=options.points, dim=2)
    world = MarkovWorld(domain, kernel=kernel(), epsilon=EPSILON, noise=NOISE)
    cpu, strategies = torch.device("cpu"), {label: STRATEGIES[label]()}
    settings = StudySettings(
        world, strategies, options.horizon, options.seed, dtype, cpu, compiled=True
    )
    settings.states(strategies)
    return settings


class Run:
    """A strategy on its way through the trials of a block, its rounds timed.

    Args:
        settings: What is played, in one strategy.
        chunk: The trials.
    """

    def __init__(self, settings: StudySettings, chunk: range) -> None:
        known = settings.compilable(settings.strategies)
        self.table = CompiledTable(settings, known, chunk, Event())
        self._objectives = settings.world.objectives(settings.stream("world", chunk))
        self._step = 0

    def play_round(self) -> tuple[Objective, float]:
        """One round; returns its objective, and seconds of processor time."""
        began = time.process_time()
        objective = next(self._objectives)
        self.table.play_round(self._step, objective)
        self._step += 1
        return objective, time.process_time() - began


def measure(block: Block) -> dict[str, Any]:
    """Play one block to its end.

    Returns:
        Seconds of processor time by windows of rounds, and of early rounds at the same time as the
        last ones; resident memory by round; resets; and what :func:`drift` finds.
    """
    label, chunk, options = block
    torch.set_num_threads(1)
    settings, horizon, window = study_of(label, options), options.horizon, options.window
    Run(dataclasses.replace(settings, horizon=1), chunk).play_round()  # loads what is compiled
    run, again, errors = Run(settings, chunk), Run(settings, chunk), settings.errors(chunk)
    newest = Newest(*np.empty((2, len(chunk), min(options.checked, horizon))))
    marks = {*range(window, horizon - 2 * window, horizon // 5), horizon - 2 * window}
    seconds, resident, taken, early = [], {}, 0.0, 0.0
    for step in range(horizon):
        objective, passed = run.play_round()
        taken += passed
        error, place = errors.normal(), step - horizon + newest.best.shape[1]
        if place >= 0:
            newest.best[:, place], newest.errors[:, place] = objective.best(True), error
        if step + 1 in marks:
            resident[step + 1] = resident_bytes()
        if step >= horizon - 2 * window:
            _, passed = again.play_round()
            early += passed if step >= horizon - window else 0.0
        if (step + 1) % window == 0:
            seconds.append(taken)
            taken = 0.0
    played = run.table.finished()[label]
    return {
        "trials": len(chunk),
        "seconds": seconds,
        "early_seconds": early,
        "resident_bytes": resident,
        "resets": int(played["resets"].sum()),
        "drift": drift(settings, run.table.trials[label], played, newest),
    }


def drift(
    settings: StudySettings, known: Trials, played: Arrays, newest: Newest
) -> dict[str, list[float]]:
    """How far what is known is from what is computed anew, and of how many observations, by trial.

    Args:
        settings: Of one strategy.
        known: After the last round.
        played: By the strategy.
        newest: What observations were made of.
    """
    (strategy,) = settings.strategies.values()
    world = settings.world
    assert isinstance(world, MarkovWorld)
    domain = world.domain
    K = covariance_matrix(world.kernel, domain.X).numpy()
    correlation = math.sqrt(1 - world.epsilon) if strategy.process.moves else 1.0
    index, regret, resets = (played[name] for name in ("index", "regret", "resets"))
    points = math.isqrt(len(domain))
    found: dict[str, list[float]] = {"mean": [], "variance": [], "covariance": [], "rows": []}
    for i in range(len(index)):
        since_reset = settings.horizon - int(np.flatnonzero(resets[i]).max(initial=0))
        n = min(since_reset, newest.best.shape[1])
        y = newest.best[i, -n:] - regret[i, -n:] + newest.errors[i, -n:]
        mean, covariance = regression(K, index[i, -n:], y, correlation, strategy.process.noise)
        used = int(known.counts[i, SLOTS])
        first, second = known.places[i, :, :used]
        rows = K[points * first + second]
        retained = K - rows.T @ known.inverse[i, :used, :used] @ rows
        found["mean"].append(_apart(known.mean[i], mean))
        found["variance"].append(_apart(known.variance[i], covariance.diagonal()))
        found["covariance"].append(_apart(retained, covariance))
        found["rows"].append(n)
    return found


def regression(
    K: np.ndarray, index: np.ndarray, y: np.ndarray, correlation: float, noise: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and covariance of all arms after the last of some rounds, [B16] equations (7) and (8).

    Args:
        K: Covariance of the arms, `M x M`.
        index: Arms played in neighbouring rounds, `n`.
        y: Observations, `n`.
        correlation: Of an objective with that of the round before.
        noise: Variance of an observation.
    """
    n = len(index)
    ages = np.arange(n - 1, -1, -1)
    prior = K[np.ix_(index, index)] * correlation ** np.abs(ages[:, None] - ages)
    rows = K[index] * (correlation**ages)[:, None]
    weights = np.linalg.solve(prior + noise * np.eye(n), np.column_stack([rows, y]))
    return rows.T @ weights[:, -1], K - rows.T @ weights[:, :-1]


def _apart(one: np.ndarray, other: np.ndarray) -> float:
    return float(np.abs(one - other).max())


def summarise(blocks: Sequence[dict[str, Any]], arguments: argparse.Namespace) -> dict[str, Any]:
    """All blocks of a strategy together."""
    first, *_ = blocks
    trials = sum(one["trials"] for one in blocks)
    seconds = np.array([one["seconds"] for one in blocks])  # blocks x windows
    by_window = 1e6 * seconds.sum(0) / trials / arguments.window
    early, late = np.array([one["early_seconds"] for one in blocks]), seconds[:, -1]
    memory = [
        {
            "round": number,
            "resident_bytes": max(one["resident_bytes"][number] for one in blocks),
            "log_bytes": LOG_BYTES * first["trials"] * number,
        }
        for number in first["resident_bytes"]
    ]
    drifts = {
        name: max(max(one["drift"][name]) for one in blocks)
        for name in ("mean", "variance", "covariance")
    }
    return {
        "trials": trials,
        "us_per_trial_and_round": {
            "early": float(1e6 * early.sum() / trials / arguments.window),
            "late": float(by_window[-1]),
            "by_window": by_window.tolist(),
        },
        "ratio": float(late.sum() / early.sum()),
        "ratio_by_block": (late / early).tolist(),
        "memory": memory,
        "largest_drift": drifts,
        "trials_checked": sum(len(one["drift"]["mean"]) for one in blocks),
        "mean_rows": float(np.mean([one for block in blocks for one in block["drift"]["rows"]])),
        "resets_per_trial": sum(one["resets"] for one in blocks) / trials,
        "processor_seconds": float(seconds.sum()),
    }


def single_precision(label: str, arguments: argparse.Namespace) -> str:
    """What a study says to so many rounds in float32."""
    try:
        settings = study_of(label, arguments, torch.float32)
    except ValueError as error:
        return str(error)
    return "compiled" if settings.compilable([label]) else "played, but not compiled"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line(
        "speed.long_runs", __doc__, trials=1000, horizon=100_000, points=10, seed=0
    )
    parser.add_argument("--together", type=int, default=250, help="trials side by side")
    parser.add_argument("--window", type=int, default=1000, help="rounds timed")
    parser.add_argument("--checked", type=int, default=1500, help="rows of the regression")
    parser.add_argument("--strategies", nargs="+", choices=list(PLAYED), default=list(PLAYED))
    options = parser.parse_args(arguments)
    if options.horizon < 3 * options.window:
        parser.error("--horizon is at least three windows")
    return options


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Play every strategy; returns the record that is written."""
    options = parse(arguments)
    facts = begin(1, seed=options.seed, packages=("numba",))
    context = multiprocessing.get_context("spawn")
    starts = range(0, options.trials, options.together)
    chunks = [range(one, min(one + options.together, options.trials)) for one in starts]
    found = {}
    for label in options.strategies:
        blocks = []
        for chunk in chunks:
            with context.Pool(1) as fresh:  # so that one block's memory is not another's
                blocks.append(fresh.apply(measure, (Block(label, chunk, options),)))
            one = summarise(blocks, options)
            cost, drifts = one["us_per_trial_and_round"], one["largest_drift"]
            print(
                f"{label}, {one['trials']} trials: {cost['early']:.2f} µs per trial and round, "
                f"then {cost['late']:.2f}, ratio {one['ratio']:.3f}; drift "
                + ", ".join(f"{name} {value:.1e}" for name, value in drifts.items()),
                flush=True,
            )
        found[label] = {**one, "float32": single_precision(label, options)}
    record = {
        "benchmark": "long_runs",
        **facts,
        "parameters": {
            "horizon": options.horizon,
            "together": options.together,
            "arms": options.points**2,
            "window": options.window,
            "checked": options.checked,
            "lengthscale": LENGTHSCALE,
            "noise": NOISE,
            "epsilon": EPSILON,
            "dtype": "float64",
        },
        "strategies": found,
    }
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
