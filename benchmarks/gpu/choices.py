"""Equality of the choices on a device and on the CPU: a study of every preset.

    python -m benchmarks.gpu.choices --out FILE [--device cuda] [--points 20] [--trials 16]
        [--horizon 100] [--seed 0]

The Markov world of [B16] (ε = 0.03, noise 0.02) in float64, trial by trial with the same random
numbers. Among arms within 1e-7 standard deviations of the best the first is chosen, so rounding
matters only at that edge, and the choices should agree to the last. The file is written after every
preset.
"""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from benchmarks.gpu.markov_study import parser, record_of, study, write
from benchmarks.speed.engine_runs import EPSILON, NOISE, kernel
from botorch_tv.experts import SparQ
from botorch_tv.simulation import StudyResult
from botorch_tv.simulation.rivals import Settings, line_up, rivals
from botorch_tv.strategies import Strategy

CPU = torch.device("cpu")
SETTINGS = Settings(
    kernel=kernel(),
    noise=NOISE,
    epsilon=EPSILON,
    sigma_w2=0.03,
    period=29,
    window=29,
    gamma=0.95,
    alpha=1.0,
    delta=0.1,
    width=None,
)


@functools.cache
def presets() -> dict[str, Strategy]:
    """Every preset by its usual name; experts draw by the chain, which takes random numbers."""
    found = line_up(list(rivals()), SETTINGS)
    for name, strategy in found.items():
        if isinstance(strategy, SparQ):
            found[name] = replace(strategy, refresh=replace(strategy.refresh, steps=20))
    return found


def compare(here: StudyResult, there: StudyResult) -> dict[str, Any]:
    """Differences between the runs of a strategy on the CPU and on the device."""
    chosen = [run.data["index"].isel(strategy=0).values for run in (here, there)]
    other = chosen[0] != chosen[1]  # trials x rounds
    parted = other.any(-1)
    regret = [run.regret.isel(strategy=0).values for run in (here, there)]
    same = np.where(other, 0.0, np.abs(regret[0] - regret[1]))
    return {
        "equal": not bool(other.any()),
        "trials_that_part": int(parted.sum()),
        "first_round_of_parting": int(other.argmax(-1)[parted].min()) + 1 if parted.any() else None,
        "resets_equal": bool((here.resets.values == there.resets.values).all()),
        "largest_difference_of_regret_before": float(same[~parted].max(initial=0.0)),
        "seconds": {
            "cpu": float(here.data.attrs["seconds"]),
            "device": float(there.data.attrs["seconds"]),
        },
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    made, names = parser("choices", trials=16, horizon=100), list(presets())
    made.add_argument("--presets", nargs="+", choices=names, default=names)
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    options = parse(arguments)
    record, players = record_of("choices", options), presets()
    found = record["presets"] = {}
    for name in options.presets:
        try:
            both = (study(options, players[name], device) for device in (CPU, options.device))
            found[name] = compare(*both)
        except Exception as error:  # still compare the other presets
            found[name] = {"equal": False, "error": f"{type(error).__name__}: {error}"[:2000]}
        print(name, "equal" if found[name]["equal"] else found[name], flush=True)
        record["all_equal"] = all(each["equal"] for each in found.values())
        write(record, options)
    return record


if __name__ == "__main__":
    main()
