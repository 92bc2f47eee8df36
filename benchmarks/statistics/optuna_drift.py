"""What Optuna's samplers lose on objectives that drift, and what ours loses on one that does not.

    python -m benchmarks.statistics.optuna_drift [--seeds 20] [--trials 200] [--workers 2]
        [--worlds wander jumps static] [--samplers drift learning tpe gp] [--processes 1]
        [--out FILE]

The objective has a rate on a logarithmic scale, a whole number and a category, and values between 0
and 1 with noise of standard deviation 0.05. Each category is a hollow of its own depth around a
place of its own. Of three worlds one *wanders* (places go round in 150 trials, depths in 200), one
*jumps* to new places and depths after every third of the run, and one is *static*. Time is
pretended: one unit per trial, told as a user attribute.

Workers share a study on SQLite, each with a sampler of its own; they ask in turn, so that while one
asks the trials of the others are running, and a run is the same whenever it is made.

Regret is that of what was played, without noise, summed over the run; samplers face the same worlds
and the same noise, so differences are paired over seeds. Every trial counts, as for a machine that
is at work: the rivals look for the best value ever seen, and go on exploring when they have it, so
that they lose on the static world, too, where all soon have met its best.

The file is written after every run, and one that is there is gone on with.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import optuna
import torch
from optuna.samplers import BaseSampler, GPSampler, TPESampler

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin
from benchmarks.statistics.errors import standard_error
from botorch_tv.files import write_whole
from botorch_tv.optuna import DriftSampler
from botorch_tv.optuna.sampler import learning_strategy

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
MEANS = ("regret", "milliseconds", "milliseconds of processor")
"""What is averaged over seeds."""


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


class Run(NamedTuple):
    """One run of one sampler."""

    world: str
    sampler: str
    seed: int
    trials: int
    workers: int


def play(run: Run) -> dict[str, Any]:
    """Regret, and milliseconds per suggestion in the end.

    Args:
        run: Which.
    """
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    world = World(run.world, run.seed, run.trials)
    regret, seconds = [], []
    running: deque[tuple[optuna.Study, optuna.Trial, float]] = deque()
    with TemporaryDirectory() as folder:
        storage = optuna.storages.RDBStorage(f"sqlite:///{folder}/study.db")
        studies = [
            optuna.create_study(
                study_name="drift",
                storage=storage,
                sampler=SAMPLERS[run.sampler](run.workers * run.seed + worker),
                load_if_exists=worker > 0,
            )
            for worker in range(run.workers)
        ]
        for number in range(run.trials):
            study = studies[number % run.workers]
            if len(running) == run.workers:
                _end(*running.popleft())
            trial = study.ask()
            trial.set_user_attr("time", number)
            wall, start = time.perf_counter(), time.process_time()
            rate = trial.suggest_float("rate", 1e-4, 1.0, log=True)
            whole = trial.suggest_int("whole", 1, WHOLE)
            category = trial.suggest_categorical("category", CATEGORIES)
            seconds.append((time.perf_counter() - wall, time.process_time() - start))
            point = (math.log10(rate) / 4 + 1, (whole - 1) / (WHOLE - 1))
            value = world.value(point, CATEGORIES.index(category), number)
            regret.append(value - world.best(number))
            running.append((study, trial, value + float(world.noise[number])))
        while running:
            _end(*running.popleft())
        storage.engine.dispose()
    wall, processor = np.mean(seconds[-LAST:], axis=0)
    return {
        "world": run.world,
        "sampler": run.sampler,
        "seed": run.seed,
        "regret": float(np.sum(regret)),
        "milliseconds": 1e3 * float(wall),
        "milliseconds of processor": 1e3 * float(processor),
    }


def _end(study: optuna.Study, trial: optuna.Trial, value: float) -> None:
    study.tell(trial, value)


def compared(runs: Sequence[dict[str, Any]], samplers: Sequence[str]) -> dict[str, Any]:
    """What each sampler lost in a world, and how much more than the first, paired over seeds.

    Args:
        runs: Of one world.
        samplers: Those compared, on the seeds that all of them have.
    """
    own = {
        sampler: {one["seed"]: one for one in runs if one["sampler"] == sampler}
        for sampler in samplers
    }
    seeds = sorted(set.intersection(*(set(one) for one in own.values())))
    if not seeds:
        return {"seeds": 0}
    figures: dict[str, Any] = {"seeds": len(seeds)}
    totals = {}
    for sampler in samplers:
        rows = [own[sampler][seed] for seed in seeds]
        totals[sampler] = np.array([row["regret"] for row in rows])
        means = {key: float(np.mean([row[key] for row in rows])) for key in MEANS}
        figures[sampler] = means | {"standard error": standard_error(totals[sampler])}
    first, *others = samplers
    for sampler in others:
        more = totals[sampler] - totals[first]
        mean, uncertain = float(more.mean()), standard_error(more)
        figures[f"{sampler} less {first}"] = {
            "mean": mean,
            "standard error": uncertain,
            "standard errors above 0": mean / uncertain if uncertain else None,
        }
    return figures


def begun(path: Path, parameters: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """The record of a file, or an empty one.

    Raises:
        SystemExit: If the file has runs of another kind.
    """
    record: dict[str, Any] = {"benchmark": "optuna_drift", "parameters": parameters}
    record |= {"environments": [], "worlds": {}, "runs": []}
    if path.exists():
        record = json.loads(path.read_text())
        if record.get("parameters") != parameters:
            raise SystemExit(
                f"{path} has runs with {record.get('parameters')}, but these have {parameters}; "
                "give another --out."
            )
    record["environments"].append(facts)
    return record


def played(runs: Sequence[Run], processes: int) -> Iterator[dict[str, Any]]:
    """What comes of runs, as they end.

    Args:
        runs: Which.
        processes: By how many; one makes them here.
    """
    if processes == 1:
        yield from map(play, runs)
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        for done in as_completed([pool.submit(play, run) for run in runs]):
            yield done.result()


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    parser = command_line("statistics.optuna_drift", __doc__, seeds=20, trials=200, worlds=WORLDS)
    parser.add_argument("--workers", type=int, default=2, help="of every study")
    parser.add_argument(
        "--samplers", nargs="+", choices=list(SAMPLERS), default=["drift", "tpe", "gp"]
    )
    parser.add_argument("--processes", type=int, default=1, help="runs made side by side")
    options = parser.parse_args(arguments)
    facts = begin(None, seed=0, packages=("optuna",))
    parameters = {"trials": options.trials, "workers": options.workers, "noise": NOISE}
    record = begun(options.out, parameters, facts)
    there = {(one["world"], one["sampler"], one["seed"]) for one in record["runs"]}
    runs = [
        Run(world, sampler, seed, options.trials, options.workers)
        for seed in range(options.seeds)
        for world in options.worlds
        for sampler in options.samplers
        if (world, sampler, seed) not in there
    ]
    for one in played(runs, options.processes):
        record["runs"].append(one)
        keep(record, options)
        print(one, flush=True)
    keep(record, options)
    for world, figures in record["worlds"].items():
        print(f"{world}: {json.dumps(figures, indent=1)}")
    return record


def keep(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Write all that is known, the whole file or nothing.

    Args:
        record: Its comparisons are made anew.
        options: The command line.
    """
    for world in options.worlds:
        own = [one for one in record["runs"] if one["world"] == world]
        record["worlds"][world] = compared(own, options.samplers)
    text = json.dumps(record, indent=1) + "\n"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.out, lambda file: file.write(text.encode()))


if __name__ == "__main__":
    main()
