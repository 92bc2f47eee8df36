"""Single precision changes trajectories, not statistics: regret in float32 less that in float64.

    python -m benchmarks.statistics.float32 [--trials 2000] [--horizon 200] [--device cpu]
        [--chunk N] [--threads N] [--seed 0] [--out FILE]

GP-, TV- and ET-UCB play the Markov world of [B16] (squared exponential of lengthscale 0.2 on
50 x 50 arms, ε = 0.03, noise 0.02) in either precision, trial by trial with the same random
numbers. Rounding decides near ties, after which the two runs of a trial see other data; so what is
compared is total regret, paired over trials. The mean difference is to lie within two standard
errors of 0.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, cores, write
from benchmarks.speed.runs import EPSILON, LENGTHSCALE, NOISE, STRATEGIES, kernel
from botorch_tv.simulation import MarkovWorld, StudyResult, run_study
from botorch_tv.simulation.study_record import Paired
from botorch_tv.strategies import Grid

LABELS = ("GP-UCB", "TV-GP-UCB", "ET-GP-UCB")
POINTS = 50
CLEAR = 2.0  # standard errors from which on a difference counts


def study(dtype: torch.dtype, options: argparse.Namespace) -> StudyResult:
    """The study in one precision.

    Args:
        dtype: float32 or float64.
        options: The command line.
    """
    grid = Grid.regular(points=POINTS, dim=2)
    return run_study(
        MarkovWorld(grid, kernel=kernel(), epsilon=EPSILON, noise=NOISE),
        {label: STRATEGIES[label]() for label in LABELS},
        trials=options.trials,
        horizon=options.horizon,
        seed=options.seed,
        device=options.device,
        dtype=dtype,
        chunk=options.chunk,
    )


def compare(single: StudyResult, double: StudyResult, label: str) -> dict[str, float | bool]:
    """How the two precisions differ for one strategy.

    Args:
        single: The study in float32.
        double: The same in float64.
        label: Of the strategy.
    """
    totals, chosen = [], []
    for result in (single, double):
        one = result.data.sel(strategy=label).transpose("trial", "round", ...)
        totals.append(one["regret"].values.astype(np.float64).sum(-1))
        chosen.append(one["index"].values)
    difference = Paired.of(totals[0] - totals[1])
    other = chosen[0] != chosen[1]  # trials x rounds
    parted = other.any(-1)
    return {
        "float64_regret": float(totals[1].mean()),
        "float32_regret": float(totals[0].mean()),
        "difference": difference.mean,
        "standard_error": difference.standard_error,
        # Without any difference there is no standard error to count it in.
        "within": bool(abs(difference.mean) <= CLEAR * difference.standard_error),
        "trials_that_part": float(parted.mean()),
        "median_round_of_parting": float(np.median(other.argmax(-1)[parted]) + 1)
        if parted.any()
        else float("nan"),
        "float64_resets": float(double.resets.sel(strategy=label).sum("round").mean()),
        "float32_resets": float(single.resets.sel(strategy=label).sum("round").mean()),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line(
        "statistics.float32",
        __doc__,
        trials=2000,
        horizon=200,
        device="cpu",
        threads=cores(),
        seed=0,
    )
    parser.add_argument("--chunk", type=int, help="trials together (default: as memory allows)")
    options = parser.parse_args(arguments)
    if options.trials < 2:
        parser.error(f"--trials is {options.trials}, but a standard error takes at least 2")
    return options


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run both studies and compare them; returns the record that is written."""
    options = parse(arguments)
    facts = begin(options.threads, seed=options.seed, device=options.device)
    double, single = study(torch.float64, options), study(torch.float32, options)
    found = {label: compare(single, double, label) for label in LABELS}
    print(f"\n{'float32 - float64':18}{'regret':>9}{'differs':>9}{'± s.e.':>8}{'parted':>8}")
    for label, one in found.items():
        print(
            f"{label:18}{one['float64_regret']:9.1f}{one['difference']:+9.2f}"
            f"{one['standard_error']:8.2f}{one['trials_that_part']:8.1%}"
            + ("" if one["within"] else f"   more than {CLEAR:g} standard errors")
        )
    record = {
        "benchmark": "float32",
        **facts,
        "parameters": {
            "trials": options.trials,
            "horizon": options.horizon,
            "arms": POINTS**2,
            "lengthscale": LENGTHSCALE,
            "noise": NOISE,
            "epsilon": EPSILON,
        },
        "seconds": {
            name: float(result.data.attrs["seconds"])
            for name, result in (("float64", double), ("float32", single))
        },
        "strategies": found,
    }
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
