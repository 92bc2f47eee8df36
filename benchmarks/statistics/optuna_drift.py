"""What Optuna's samplers lose on objectives that drift, and what ours loses on one that does not.

    python -m benchmarks.statistics.optuna_drift [--seeds 20] [--trials 200] [--workers 2]
        [--worlds wander jumps static] [--samplers drift learning tpe gp] [--out FILE]

The objective has a rate on a logarithmic scale, a whole number and a category, and values between 0
and 1 with noise of standard deviation 0.05. Each category is a hollow of its own depth around a
place of its own. Of three worlds one *wanders* (places go round in 150 trials, depths in 200), one
*jumps* to new places and depths after every third of the run, and one is *static*. Time is
pretended: one unit per trial, told as a user attribute.

Regret is that of what was played, without noise, summed over the run; samplers face the same worlds
and the same noise, so differences are paired over seeds. Every trial counts, as for a machine that
is at work: the rivals look for the best value ever seen, and go on exploring when they have it, so
that they lose on the static world, too, where all soon have met its best.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import torch
from optuna.samplers import BaseSampler, GPSampler, TPESampler

from benchmarks.speed.common import RESULTS, environment, headline, write
from botorch_tv.optuna import DriftSampler
from botorch_tv.optuna.default import learning_strategy

WORLDS = ("wander", "jumps", "static")
NOISE = 0.05
WHOLE = 20
CATEGORIES = ("sand", "salt", "soap")
WIDTH = 0.25
SAMPLERS: dict[str, Callable[[int], BaseSampler]] = {
    "drift": lambda seed: DriftSampler(time_key="time", seed=seed),
    "drift4": lambda seed: DriftSampler(time_key="time", seed=seed, n_startup_trials=4),
    "learning": lambda seed: DriftSampler(learning_strategy(), time_key="time", seed=seed),
    "tpe": lambda seed: TPESampler(seed=seed),
    "gp": lambda seed: GPSampler(seed=seed),
}
LAST = 20
"""Trials over which the time of a suggestion is averaged."""


class World:
    """An objective of the unit square, a category and time.

    Args:
        name: One of ``WORLDS``.
        seed: Of its random numbers.
        trials: The run's length.
    """

    def __init__(self, name: str, seed: int, trials: int) -> None:
        self.name, self.trials = name, trials
        generator = np.random.default_rng([WORLDS.index(name), seed])
        self.phase = generator.uniform(0, 2 * math.pi, 3)
        self.places = generator.uniform(0.1, 0.9, (3, len(CATEGORIES), 2))
        self.depths = np.stack([generator.permutation([1.0, 0.8, 0.6]) for _ in range(3)])
        self.noise = NOISE * generator.normal(size=trials)

    def hollows(self, trial: int) -> tuple[np.ndarray, np.ndarray]:
        """Places, `categories x 2`, and depths, `categories`."""
        if self.name == "wander":
            turn, number = 2 * math.pi * trial, np.arange(len(CATEGORIES))
            angle = turn / 150 + self.phase[0] + 0.4 * number
            place = np.stack([np.sin(angle), np.cos(angle + self.phase[1])], -1)
            depths = 0.8 + 0.2 * np.cos(turn / 200 + 2 * math.pi * number / 3 + self.phase[2])
            return 0.5 + 0.35 * place, depths
        part = 3 * trial // self.trials if self.name == "jumps" else 0
        return self.places[part], self.depths[part]

    def value(self, point: Sequence[float], category: int, trial: int) -> float:
        """Without noise."""
        places, depths = self.hollows(trial)
        apart = float(((np.asarray(point) - places[category]) ** 2).sum())
        return 1 - float(depths[category]) * math.exp(-apart / (2 * WIDTH**2))

    def best(self, trial: int) -> float:
        """The smallest value; in the first coordinate the middle of a hollow is best."""
        places, _ = self.hollows(trial)
        whole = range(len(CATEGORIES)), range(WHOLE)
        return min(
            self.value((places[c][0], n / (WHOLE - 1)), c, trial)
            for c, n in itertools.product(*whole)
        )


def play(task: tuple[str, str, int, int]) -> dict[str, Any]:
    """One run: regret per trial, and milliseconds per suggestion in the end.

    Args:
        task: World, sampler, seed and trials.
    """
    name, sampler, seed, trials = task
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    world = World(name, seed, trials)
    regret, seconds = [], []

    def objective(trial: optuna.Trial) -> float:
        number = trial.number
        trial.set_user_attr("time", number)
        wall, start = time.perf_counter(), time.process_time()
        rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
        whole = trial.suggest_int("whole", 1, WHOLE)
        category = trial.suggest_categorical("category", CATEGORIES)
        seconds.append((time.perf_counter() - wall, time.process_time() - start))
        point = (math.log10(rate) / 4 + 1, (whole - 1) / (WHOLE - 1))
        value = world.value(point, CATEGORIES.index(category), number)
        regret.append(value - world.best(number))
        return value + float(world.noise[number])

    study = optuna.create_study(sampler=SAMPLERS[sampler](seed))
    study.optimize(objective, n_trials=trials)
    wall, processor = np.mean(seconds[-LAST:], axis=0)
    return {
        "regret": float(np.sum(regret)),
        "milliseconds": 1e3 * float(wall),
        "milliseconds of processor": 1e3 * float(processor),
    }


def measure(name: str, options: argparse.Namespace, pool: ProcessPoolExecutor) -> dict[str, Any]:
    """All samplers on one world.

    Args:
        name: One of ``WORLDS``.
        options: The command line.
        pool: Who runs them.
    """
    tasks = [
        (name, sampler, seed, options.trials)
        for seed in range(options.seeds)
        for sampler in options.samplers
    ]
    runs = list(pool.map(play, tasks))
    record: dict[str, Any] = {"world": name}
    totals = {}
    for number, sampler in enumerate(options.samplers):
        own = runs[number :: len(options.samplers)]
        totals[sampler] = np.array([run["regret"] for run in own])
        figures = {key: float(np.mean([run[key] for run in own])) for key in own[0]}
        record[sampler] = figures | {"standard error": error(totals[sampler])}
    first = options.samplers[0]
    for sampler in options.samplers[1:]:
        difference = totals[sampler] - totals[first]
        record[f"{sampler} less {first}"] = {
            "mean": float(difference.mean()),
            "standard error": error(difference),
        }
    record["regret of every seed"] = {
        sampler: [round(float(one), 3) for one in total] for sampler, total in totals.items()
    }
    return record


def error(values: np.ndarray) -> float:
    """Standard error of a mean."""
    return float(values.std(ddof=1) / len(values) ** 0.5)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    parser.add_argument(
        "--samplers", nargs="+", choices=list(SAMPLERS), default=["drift", "tpe", "gp"]
    )
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--out", type=Path, default=RESULTS / "statistics_optuna_drift.json")
    options = parser.parse_args(arguments)
    facts = environment(seed=0)
    facts["versions"]["optuna"] = optuna.__version__
    print(headline(facts))
    worlds = []
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn")) as pool:
        for name in options.worlds:
            found = measure(name, options, pool)
            worlds.append(found)
            for key, value in found.items():
                print(f"{key}: {value}", flush=True)
    record = {"environment": facts, "worlds": worlds}
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
