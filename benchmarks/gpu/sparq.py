"""What a round costs that consults an expert: SparQ by both of its samplers.

    python -m benchmarks.gpu.sparq --out FILE [--device cuda] [--points 20] [--trials 64]
        [--horizon 30] [--seed 0]

Studies of the Markov world of [B16] (ε = 0.03, noise 0.02), after a short one that loads what the
device needs. The file is written anew after every strategy.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from benchmarks.speed.common import environment
from benchmarks.speed.runs import EPSILON, NOISE, kernel
from botorch_tv.experts import SparQ, sparq_gp_ucb, w_sparq_gp_ucb
from botorch_tv.simulation import MarkovWorld, StudyResult, run_study
from botorch_tv.strategies import Grid


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
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.sparq")
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--points", type=int, default=20, help="grid points per axis")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--horizon", type=int, default=30, help="rounds T")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Time every strategy; returns the record that is written."""
    options = parse(arguments)
    grid = Grid.regular(points=options.points, dim=2)
    world = MarkovWorld(grid, kernel=kernel(), epsilon=EPSILON, noise=NOISE)
    record: dict[str, Any] = {"benchmark": "sparq"}
    record |= environment(seed=options.seed, device=options.device)
    record["parameters"] = {
        name: getattr(options, name) for name in ("points", "trials", "horizon")
    }
    record["strategies"] = {}
    for name, strategy in strategies().items():

        def study(trials: int, horizon: int, player: SparQ = strategy) -> StudyResult:
            return run_study(
                world,
                {"SparQ": player},
                trials=trials,
                horizon=horizon,
                seed=options.seed,
                device=options.device,
                progress=False,
            )

        study(2, 3)
        result = study(options.trials, options.horizon)
        seconds = float(result.data.attrs["seconds"])
        record["strategies"][name] = {
            "seconds": seconds,
            "ms_per_round": 1e3 * seconds / options.horizon,
            "us_per_trial_and_round": 1e6 * seconds / options.horizon / options.trials,
            "side_queries_per_trial": float(result.side_queries.sum("round").mean()),
        }
        print(f"{name}: {record['strategies'][name]['ms_per_round']:.1f} ms a round", flush=True)
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    return record


if __name__ == "__main__":
    main()
