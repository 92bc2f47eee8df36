"""What a round costs that consults an expert: SparQ by both of its samplers."""

from __future__ import annotations

import argparse
from typing import Any

from benchmarks.gpu.world import resized, study
from benchmarks.speed.runs import NOISE, kernel
from botorch_tv.experts import SparQ, sparq_gp_ucb, w_sparq_gp_ucb


def strategies() -> dict[str, SparQ]:
    """Who plays; `steps="exact"` draws by eigenvalues, the default by a chain of swaps."""
    known: dict[str, Any] = {"kernel": kernel(), "noise": NOISE}
    return {
        "SparQ": sparq_gp_ucb(**known),
        "SparQ exact": sparq_gp_ucb(**known, steps="exact"),
        "W-SparQ": w_sparq_gp_ucb(**known, alpha=1.0),
    }


def timed(name: str, options: argparse.Namespace) -> dict[str, float]:
    """The time of one strategy, after a short study that loads what the device needs.

    Args:
        name: Of the strategy.
        options: The command line of a study.
    """
    strategy = strategies()[name]
    study(resized(options, trials=2, horizon=3), strategy, options.device)
    result = study(options, strategy, options.device)
    seconds = float(result.data.attrs["seconds"])
    return {
        "seconds": seconds,
        "ms_per_round": 1e3 * seconds / options.horizon,
        "us_per_trial_and_round": 1e6 * seconds / options.horizon / options.trials,
        "side_queries_per_trial": float(result.side_queries.sum("round").mean()),
    }
