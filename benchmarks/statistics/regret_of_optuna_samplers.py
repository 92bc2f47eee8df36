"""Regret of Optuna's samplers on objectives that drift, jump or stay.

    python -m benchmarks.statistics.regret_of_optuna_samplers [--seeds 20] [--trials 200]
        [--workers 2] [--worlds wander jumps static] [--samplers drift learning tpe gp]
        [--out FILE]

The objective has a rate on a logarithmic scale, an integer and a category, and values between 0 and
1 with noise of standard deviation 0.05. Each category has a minimum of its own depth and place. In
*wander* places have a period of 150 trials and depths of 200; *jumps* draws new places and depths
after every third of the run; *static* does not change. Time is one unit per trial, given as a user
attribute.

Workers share a study on SQLite, each with a sampler of its own. They ask in turn, while the trials
of the others are running, so a run is reproducible. Regret is without noise, summed over all
trials. Samplers face the same worlds and noise; differences are paired over seeds. Other samplers
seek the best value ever observed and continue to explore, so they also have regret on the static
world.

The file is written after every run; another call resumes it.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import optuna
import torch
from optuna.samplers import BaseSampler, GPSampler, TPESampler

from benchmarks.command_line import command_line
from benchmarks.records import begin
from benchmarks.statistics.paired import standard_error
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
    "learning": lambda seed: DriftSampler(learning_strategy(), time_key="time", seed=seed),
    "tpe": lambda seed: TPESampler(seed=seed),
    "gp": lambda seed: GPSampler(seed=seed),
}
LAST = 20
"""Number of last trials over which the time of a suggestion is averaged."""
MEANS = ("regret", "milliseconds", "milliseconds of processor")
"""Figures that are averaged over seeds."""


class World:
    """An objective of the unit square, a category and time, for a run of some trials."""

    def __init__(self, name: str, seed: int, trials: int) -> None:
        self.name, self.trials = name, trials
        generator = np.random.default_rng([WORLDS.index(name), seed])
        self.phase = generator.uniform(0, 2 * math.pi, 3)
        self.places = generator.uniform(0.1, 0.9, (3, len(CATEGORIES), 2))
        self.depths = np.stack([generator.permutation([1.0, 0.8, 0.6]) for _ in range(3)])
        self.noise = NOISE * generator.normal(size=trials)

    def minima(self, trial: int) -> tuple[np.ndarray, np.ndarray]:
        """Places, `categories x 2`, and depths, `categories`, of the minima."""
        if self.name == "wander":
            turn, number = 2 * math.pi * trial, np.arange(len(CATEGORIES))
            angle = turn / 150 + self.phase[0] + 0.4 * number
            place = np.stack([np.sin(angle), np.cos(angle + self.phase[1])], -1)
            depths = 0.8 + 0.2 * np.cos(turn / 200 + 2 * math.pi * number / 3 + self.phase[2])
            return 0.5 + 0.35 * place, depths
        part = 3 * trial // self.trials if self.name == "jumps" else 0
        return self.places[part], self.depths[part]

    def value(self, point: Sequence[float], category: int, trial: int) -> float:
        """The objective without noise."""
        places, depths = self.minima(trial)
        apart = float(((np.asarray(point) - places[category]) ** 2).sum())
        return 1 - float(depths[category]) * math.exp(-apart / (2 * WIDTH**2))

    def best(self, trial: int) -> float:
        """The smallest value; in the first coordinate it is at the centre of a minimum."""
        places, _ = self.minima(trial)
        return min(
            self.value((places[c][0], n / (WHOLE - 1)), c, trial)
            for c in range(len(CATEGORIES))
            for n in range(WHOLE)
        )


class Run(NamedTuple):
    """A run of a sampler on a world."""

    world: str
    sampler: str
    seed: int
    trials: int
    workers: int


def play(run: Run) -> dict[str, Any]:
    """Regret of a run, and milliseconds per suggestion at its end."""
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
                optuna.Study.tell(*running.popleft())
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
            optuna.Study.tell(*running.popleft())
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


def compared(runs: Sequence[dict[str, Any]], samplers: Sequence[str]) -> dict[str, Any]:
    """Means of each sampler in a world, and paired differences to the first sampler.

    Args:
        runs: Runs of the world.
        samplers: The samplers; the seeds are those that all of them have.
    """
    own = {
        sampler: {run["seed"]: run for run in runs if run["sampler"] == sampler}
        for sampler in samplers
    }
    seeds = sorted(set.intersection(*(set(rows) for rows in own.values())))
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
        figures[f"{sampler} minus {first}"] = {
            "mean": mean,
            "standard error": uncertain,
            "standard errors above 0": mean / uncertain if uncertain else None,
        }
    return figures


def begun(path: Path, parameters: dict[str, Any], facts: dict[str, Any]) -> dict[str, Any]:
    """The record of a file, or an empty record; exits if the file has runs of another kind."""
    record: dict[str, Any] = {"benchmark": "regret_of_optuna_samplers", "parameters": parameters}
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


def save(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Compare the runs anew and write the whole file."""
    for world in options.worlds:
        own = [run for run in record["runs"] if run["world"] == world]
        record["worlds"][world] = compared(own, options.samplers)
    text = json.dumps(record, indent=1) + "\n"
    options.out.parent.mkdir(parents=True, exist_ok=True)
    write_whole(options.out, lambda file: file.write(text.encode()))


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    parser = command_line(
        "statistics.regret_of_optuna_samplers", __doc__, seeds=20, trials=200, worlds=WORLDS
    )
    parser.add_argument("--workers", type=int, default=2, help="of every study")
    parser.add_argument(
        "--samplers", nargs="+", choices=list(SAMPLERS), default=["drift", "tpe", "gp"]
    )
    options = parser.parse_args(arguments)
    facts = begin(None, seed=0, packages=("optuna",))
    parameters = {"trials": options.trials, "workers": options.workers, "noise": NOISE}
    record = begun(options.out, parameters, facts)
    there = {(run["world"], run["sampler"], run["seed"]) for run in record["runs"]}
    for seed in range(options.seeds):
        for world in options.worlds:
            for sampler in options.samplers:
                if (world, sampler, seed) not in there:
                    run = Run(world, sampler, seed, options.trials, options.workers)
                    record["runs"].append(play(run))
                    save(record, options)
                    print(record["runs"][-1], flush=True)
    save(record, options)
    return record


if __name__ == "__main__":
    main()
