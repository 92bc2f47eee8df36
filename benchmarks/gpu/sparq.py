"""What a round costs that consults an expert: SparQ by both of its samplers.

    python -m benchmarks.gpu.sparq --out FILE [--device cuda] [--points 20] [--trials 64]
        [--horizon 30] [--seed 0]

Studies of the Markov world of [B16] (ε = 0.03, noise 0.02), after a short one that loads what the
device needs. The file is written anew after every strategy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.gpu.world import parser, record_of, study, write
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


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    return parser("sparq", trials=64, horizon=30).parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Time every strategy; returns the record that is written."""
    options = parse(arguments)
    record = record_of("sparq", options)
    record["strategies"] = {}
    short = argparse.Namespace(**{**vars(options), "trials": 2, "horizon": 3})
    for name, strategy in strategies().items():
        study(short, strategy, options.device)
        result = study(options, strategy, options.device)
        seconds = float(result.data.attrs["seconds"])
        record["strategies"][name] = {
            "seconds": seconds,
            "ms_per_round": 1e3 * seconds / options.horizon,
            "us_per_trial_and_round": 1e6 * seconds / options.horizon / options.trials,
            "side_queries_per_trial": float(result.side_queries.sum("round").mean()),
        }
        print(f"{name}: {record['strategies'][name]['ms_per_round']:.1f} ms a round", flush=True)
        write(record, options)
    return record


if __name__ == "__main__":
    main()
