"""A study with many pruned trials, continued by Optuna's default sampler and by ours.

    python -m benchmarks.statistics.cost_after_pruning [--seeds 10] [--out FILE]

100 trials of ``TPESampler`` with ``MedianPruner`` are followed by 16 trials of each sampler. The
cost has two parameters, and its minimum moves; a trial reports its cost once, with an offset and
noise, before it ends. The time is the number of the trial. Seeds are 100, 101, ...
"""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import optuna
from optuna.pruners import MedianPruner
from optuna.samplers import TPESampler
from optuna.trial import TrialState

from benchmarks.command_line import command_line
from benchmarks.statistics.paired import mean_and_error
from botorch_tv.files import write_whole
from botorch_tv.optuna import DriftSampler

BEFORE, AFTER = 100, 16
WALL = 0.02
"""Distance from the end of a range, up to which a trial counts as being at the wall."""


def play(sampler: str, seed: int) -> dict[str, float]:
    """Continue a study, and return figures of the last 16 trials."""
    noise, cost, at_wall = np.random.default_rng(seed), [], []

    def objective(trial: optuna.Trial) -> float:
        trial.set_user_attr("time", trial.number)
        speed, angle = (trial.suggest_float(name, 0, 10) for name in ("speed", "angle"))
        value = (speed - 3 - 0.02 * trial.number) ** 2
        value += 0.5 * (angle - 4 - 2 * math.sin(trial.number / 60)) ** 2
        cost.append(value)
        at_wall.append(min(speed, angle, 10 - speed, 10 - angle) < WALL)
        trial.report(6 + 1.3 * value + 0.5 * noise.normal(), 0)
        if trial.should_prune():
            raise optuna.TrialPruned
        return value + 0.3 * float(noise.normal())

    study = optuna.create_study(sampler=TPESampler(seed=seed), pruner=MedianPruner())
    study.optimize(objective, n_trials=BEFORE)
    pruned = len(study.get_trials(states=(TrialState.PRUNED,)))
    if sampler == "drift":
        study.sampler = DriftSampler(time_key="time", seed=seed)
    study.optimize(objective, n_trials=AFTER)
    complete = sum(trial.state == TrialState.COMPLETE for trial in study.trials[-AFTER:])
    mean, walls = float(np.mean(cost[-AFTER:])), sum(at_wall[-AFTER:])
    return {"pruned before": pruned, "complete": complete, "mean cost": mean, "at a wall": walls}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    options = command_line("statistics.cost_after_pruning", __doc__, seeds=10).parse_args(arguments)
    warnings.simplefilter("ignore")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    record: dict[str, Any] = {"before": BEFORE, "after": AFTER}
    for sampler in ("tpe", "drift"):
        runs = [play(sampler, 100 + seed) for seed in range(options.seeds)]
        record[sampler] = {key: mean_and_error([run[key] for run in runs]) for key in runs[0]}
    text = json.dumps(record, indent=1) + "\n"
    write_whole(options.out, lambda file: file.write(text.encode()))
    print(text)
    return record


if __name__ == "__main__":
    main()
