"""Xopt's two notebooks on drift, with Xopt's own generators and with ours.

    python -m benchmarks.peers.xopt_notebooks [--seeds 10] [--first 100]

plays ``time_dependent_bo.ipynb`` and ``contextual_bo.ipynb`` of Xopt 3.2.2 as their cells do,
through ``Xopt.step``, and writes ``benchmarks/results/xopt_notebooks.json``. Xopt and gest-api must
be installed. The clock of the first notebook counts processor seconds and pauses, so other work on
the machine has no part in it; both generators play the same ``SPAN`` seconds, in which the faster
generator makes more steps. Seeds set the first points, and the phase of the second notebook.
"""

from __future__ import annotations

import argparse
import math
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
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

from benchmarks.records import RESULTS, environment, write
from benchmarks.statistics.paired import standard_error
from botorch_tv.gest import AdaptiveGenerator

RECORD = RESULTS / "xopt_notebooks.json"
SPAN, PAUSE = 100.0, 0.1
"""Seconds of the first notebook, and its pause after each step."""
STEPS, FIRST, PERIOD = 50, 8, 25
"""Steps of the second notebook, its first points, and its period in steps."""
LIMITED = {"x": 0.1 * 2}
"""``max_travel_distances`` of the first notebook, a tenth of the range."""


class Clock:
    """Processor seconds and pauses since the start, beyond any time that Xopt takes for unset."""

    def __init__(self) -> None:
        self.paused, self.began = 0.0, time.process_time()

    def time(self) -> float:
        return 1e6 + time.process_time() - self.began + self.paused

    def sleep(self, seconds: float) -> None:
        self.paused += seconds


def optimum(t: float) -> float:
    """The place of the minimum in the first notebook."""
    return 0.25 * math.sin(0.6 * t) + 1e-3 * t if t < 50 else -1.5e-2 * (t - 50)


def stepped(played: Xopt) -> float:
    """One step; its processor seconds."""
    began = time.process_time()
    played.step()
    return time.process_time() - began


def drifting(make: Callable[[VOCS], Any], seed: int) -> dict[str, float]:
    """The first notebook: a quadratic whose minimum moves with the clock."""
    clock = Clock()
    time_dependent.time = SimpleNamespace(time=clock.time, sleep=clock.sleep)
    errors: list[tuple[float, float]] = []

    def measure(inputs: dict[str, Any]) -> dict[str, float]:
        now = clock.time()
        error = abs(inputs["x"] - optimum(now - start))
        errors.append((now - start, error))
        return {"y": error**2, "time": now}

    vocs = VOCS(variables={"x": [-1, 1]}, objectives={"y": "MINIMIZE"})
    played = Xopt(evaluator=Evaluator(function=measure), generator=make(vocs))
    start = clock.time()
    played.random_evaluate(2, seed=seed)
    seconds = []
    while clock.time() - start < SPAN:
        seconds.append(stepped(played))
        clock.sleep(PAUSE)
    when, error = np.array(errors[2:]).T
    held = float(np.average(error, weights=np.diff(when, append=SPAN).clip(0)))
    later = error[when > 10]
    return {
        "tracking error": float(error.mean()),
        "tracking error after 10 s": float(later.mean()),
        "tracking error over time": held,
        "seconds per step": float(np.mean(seconds)),
        "steps": len(seconds),
    }


def contextual(make: Callable[[VOCS], Any], seed: int, *, context: bool) -> dict[str, float]:
    """The second notebook: the optimum equals a condition, which is measured with each point."""
    count, phase = [0], PERIOD * np.random.default_rng(seed).random()
    errors = []

    def measure(inputs: dict[str, Any]) -> dict[str, float]:
        at = 0.5 * (1 + math.sin(2 * math.pi * (count[0] + phase) / PERIOD))
        count[0] += 1
        errors.append(abs(inputs["x1"] - at))
        return {"y": -(errors[-1] ** 2), "context": at}

    given = {"context": ContextualVariable()} if context else {}
    vocs = VOCS(variables={"x1": [0.0, 1.0], **given}, objectives={"y": "MAXIMIZE"})
    played = Xopt(evaluator=Evaluator(function=measure), generator=make(vocs))
    played.evaluate_data(pd.DataFrame({"x1": np.linspace(0.05, 0.95, FIRST)}))
    seconds = [stepped(played) for _ in range(STEPS)]
    return {
        "tracking error": float(np.mean(errors[FIRST:])),
        "seconds per step": float(np.mean(seconds)),
    }


def td_ucb(vocs: VOCS, **changed: Any) -> Any:
    """Xopt's generator as the first notebook sets it."""
    made = TDUpperConfidenceBoundGenerator(vocs=vocs, beta=0.01, added_time=0.1, forgetting_time=10)
    made.n_monte_carlo_samples = 128
    made.numerical_optimizer.n_restarts = 20
    made.max_travel_distances = [0.1]
    made.gp_constructor.use_low_noise_prior = True
    return made


def ucb(vocs: VOCS) -> Any:
    """Xopt's generator as the second notebook sets it."""
    made = UpperConfidenceBoundGenerator(vocs=vocs)
    made.gp_constructor.use_low_noise_prior = True
    return made


if __name__ == "__main__":
    import sys
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    for seed in map(int, sys.argv[2:]):
        torch.manual_seed(seed); np.random.seed(seed)
        for name in sys.argv[1].split(","):
            b=time.perf_counter()
            r = {
             "td": lambda: drifting(td_ucb, seed),
             "ours": lambda: drifting(lambda v: AdaptiveGenerator(v, time="time"), seed),
             "ours-step": lambda: drifting(lambda v: AdaptiveGenerator(v, time="time", max_step=LIMITED), seed),
             "cx": lambda: contextual(ucb, seed, context=True),
             "cp": lambda: contextual(ucb, seed, context=False),
             "ox": lambda: contextual(lambda v: AdaptiveGenerator(v, time="rounds"), seed, context=True),
             "op": lambda: contextual(lambda v: AdaptiveGenerator(v, time="rounds"), seed, context=False),
            }[name]()
            print(seed, name, {k: round(v,4) for k,v in r.items()}, round(time.perf_counter()-b,1), flush=True)
