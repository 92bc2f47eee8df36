"""Xopt's notebooks on drift, played with Xopt's generators and with ours.

    python -m benchmarks.peers.xopt_notebooks --out FOLDER [--seeds 5] [--first 100]
        [--played drift/xopt drift/ours ...]

plays ``time_dependent_bo.ipynb`` (*drift*) and ``contextual_bo.ipynb`` (*context*) of Xopt 3.2.2 as
their cells do, by ``Xopt.step``. Each run writes a file in FOLDER; the same call resumes. All runs
in FOLDER are summarised in ``benchmarks/results/peers_xopt_notebooks.json``. It needs Xopt.

In *drift* the minimum moves with the clock, which counts processor seconds and pauses, so other
work on the machine has no part in it. All generators play the same 100 s, the time that Xopt's
generator takes for about the 250 steps of the notebook; a faster generator makes more steps. In
*context* the optimum is a condition, which is measured with each point. Seeds set the first two
points of *drift*, and the phase of *context*.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import torch
from gest_api.vocs import VOCS, ContextualVariable
from xopt import Evaluator, Xopt
from xopt.generators.bayesian import time_dependent
from xopt.generators.bayesian.upper_confidence_bound import (
    TDUpperConfidenceBoundGenerator,
    UpperConfidenceBoundGenerator,
)

from benchmarks.records import RESULTS, begin, write
from benchmarks.statistics.paired import mean_and_error
from botorch_tv import adaptive_gp_ucb
from botorch_tv.gest import AdaptiveGenerator
from botorch_tv.gp.mixture.bank import Bank

RECORD = RESULTS / "peers_xopt_notebooks.json"
ERROR, SECONDS = "tracking error", "seconds per step"
SPAN, PAUSE = 100.0, 0.1
"""Seconds of *drift*, and the notebook's pause after each step."""
FIRST, STEPS, PERIOD = 8, 50, 25
"""First points of *context*, its steps, and its period in steps."""
LEARNED = 10
"""Steps of *context* after which the error is also given alone."""
Made = Callable[[VOCS], Any]


class Clock:
    """Processor seconds and pauses; Xopt's generator looks at it and waits by it."""

    def __init__(self) -> None:
        self.paused = 1e6  # as a time of day is far from 0

    def time(self) -> float:
        return time.process_time() + self.paused

    def sleep(self, seconds: float) -> None:
        self.paused += seconds


def optimum(t: float) -> float:
    """Where the minimum of *drift* lies after t seconds."""
    return 0.25 * math.sin(0.6 * t) + 1e-3 * t if t < 50 else -1.5e-2 * (t - 50)


def drift(make: Made, seed: int) -> dict[str, float]:
    """Play ``time_dependent_bo.ipynb``."""
    clock = Clock()
    time_dependent.time = SimpleNamespace(time=clock.time, sleep=clock.sleep)
    start, when, errors, seconds = clock.time(), [], [], []

    def measure(inputs: dict[str, Any]) -> dict[str, float]:
        when.append(clock.time() - start)
        errors.append(abs(inputs["x"] - optimum(when[-1])))
        return {"y": errors[-1] ** 2, "time": clock.time()}

    vocs = VOCS(variables={"x": [-1, 1]}, objectives={"y": "MINIMIZE"})
    played = Xopt(evaluator=Evaluator(function=measure), generator=make(vocs))
    played.random_evaluate(2, seed=seed)
    while clock.time() < start + SPAN:
        seconds.append(step(played))
        clock.sleep(PAUSE)
    return {ERROR: float(np.mean(errors[2:])), SECONDS: float(np.mean(seconds))}


def context(make: Made, seed: int, *, given: bool = True) -> dict[str, float]:
    """Play ``contextual_bo.ipynb``; the generator is given the condition or, as there, is not."""
    phase, errors = PERIOD * np.random.default_rng(seed).random(), list[float]()

    def measure(inputs: dict[str, Any]) -> dict[str, float]:
        at = 0.5 * (1 + math.sin(2 * math.pi * (len(errors) + phase) / PERIOD))
        errors.append(abs(inputs["x1"] - at))
        return {"y": -(errors[-1] ** 2), "context": at}

    condition = {"context": ContextualVariable()} if given else {}
    vocs = VOCS(variables={"x1": [0.0, 1.0], **condition}, objectives={"y": "MAXIMIZE"})
    played = Xopt(evaluator=Evaluator(function=measure), generator=make(vocs))
    played.evaluate_data(pd.DataFrame({"x1": np.linspace(0.05, 0.95, FIRST)}))
    seconds = [step(played) for _ in range(STEPS)]
    found = {ERROR: errors[FIRST:], f"{ERROR} after {LEARNED} steps": errors[FIRST + LEARNED :]}
    return {key: float(np.mean(each)) for key, each in found.items()} | {
        SECONDS: float(np.mean(seconds))
    }


def step(played: Xopt) -> float:
    """One step; its processor seconds."""
    began = time.process_time()
    played.step()
    return time.process_time() - began


def td_ucb(vocs: VOCS) -> Any:
    """Xopt's generator as ``time_dependent_bo.ipynb`` sets it."""
    made = TDUpperConfidenceBoundGenerator(vocs=vocs, beta=0.01, added_time=0.1, forgetting_time=10)
    made.n_monte_carlo_samples = 128
    made.numerical_optimizer.n_restarts = 20
    made.max_travel_distances = [0.1]
    made.gp_constructor.use_low_noise_prior = True
    return made


def ucb(vocs: VOCS) -> Any:
    """Xopt's generator as ``contextual_bo.ipynb`` sets it."""
    made = UpperConfidenceBoundGenerator(vocs=vocs)
    made.gp_constructor.use_low_noise_prior = True
    return made


def ours(vocs: VOCS, *, time: str, outliers: float = Bank.outliers) -> AdaptiveGenerator:
    """Our generator by default, or told that no reading is an outlier."""
    return AdaptiveGenerator(
        vocs, time=time, strategy=adaptive_gp_ucb(bank=Bank(outliers=outliers))
    )


PLAYED: dict[str, Callable[[int], dict[str, float]]] = {
    "drift/xopt": partial(drift, td_ucb),
    "drift/ours": partial(drift, partial(ours, time="time")),
    "drift/ours without outliers": partial(drift, partial(ours, time="time", outliers=0.0)),
    "context/xopt": partial(context, ucb),
    "context/ours": partial(context, partial(ours, time="rounds")),
    "context/ours without outliers": partial(context, partial(ours, time="rounds", outliers=0.0)),
    "no context/xopt": partial(context, ucb, given=False),
    "no context/ours": partial(context, partial(ours, time="rounds"), given=False),
}
"""Runs by name: the notebook, and whose generator."""


def summary(folder: Path) -> dict[str, Any]:
    """Means over the seeds that both generators played, and ours as a share of Xopt's."""
    runs: dict[str, dict[int, dict[str, float]]] = defaultdict(dict)
    for path in sorted(folder.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        runs[found["played"]][found["seed"]] = found
    worlds: dict[str, Any] = {}
    for name in PLAYED:
        theirs, own = runs[f"{name.partition('/')[0]}/xopt"], runs[name]
        seeds = sorted(theirs.keys() & own.keys())
        if not seeds or name.endswith("xopt"):
            continue
        worlds[name] = {"seeds": seeds}
        for key in (key for key in own[seeds[0]] if key.startswith((ERROR, SECONDS))):
            pair = [np.array([found[seed][key] for seed in seeds]) for found in (theirs, own)]
            worlds[name][key] = {
                "xopt": mean_and_error(pair[0]),
                "ours": mean_and_error(pair[1]),
                "share": float(pair[1].mean() / pair[0].mean()),
                "shares of the seeds": (pair[1] / pair[0]).round(3).tolist(),
            }
    return worlds


def main(arguments: Sequence[str] | None = None) -> None:
    """Play what is missing, and write the record."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.xopt_notebooks")
    parser.add_argument("--out", type=Path, required=True, help="folder of runs")
    parser.add_argument("--seeds", type=int, default=5, help="number of seeds")
    parser.add_argument("--first", type=int, default=100, help="first seed")
    parser.add_argument("--played", nargs="*", default=list(PLAYED), choices=list(PLAYED))
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    warnings.filterwarnings("ignore")
    facts = begin(1, seed=options.first, packages=("xopt", "gest-api"))
    for seed in range(options.first, options.first + options.seeds):
        for name in options.played:
            path = options.out / f"{name.replace('/', '-').replace(' ', '-')}-{seed}.json"
            if path.exists():
                continue
            torch.manual_seed(seed)
            np.random.seed(seed)  # noqa: NPY002 # Xopt draws from it
            found = {"played": name, "seed": seed, **PLAYED[name](seed)}
            path.write_text(json.dumps(found) + "\n", encoding="utf-8")
            print(found, flush=True)
    write({**facts, "worlds": summary(options.out)}, RECORD)


if __name__ == "__main__":
    main()
