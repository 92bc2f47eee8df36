"""Cost of rounds captured as CUDA graphs, and of rounds that consult an expert.

    python -m benchmarks.gpu.captured_rounds --out FILE [--device cuda] [--points 50]
        [--trials 8192] [--horizon 200] [--expert-points 20] [--expert-trials 64]
        [--expert-horizon 30] [--seed 0] [--sizes N ...] [--passes 3]

Studies of the Markov world of [B16] (ε = 0.03, noise 0.02). Of captured rounds the record says
whether they choose as eager rounds do on the same device, how much faster they are, and how many
operations a round launches. The file is written after every strategy. `--sizes 64 512 4096` times
captured and eager studies of these numbers of trials alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.gpu import graphs
from benchmarks.gpu.markov_study import parser, record_of, resized, study, write
from benchmarks.speed.engine_runs import NOISE, kernel
from botorch_tv.experts import SparQ, sparq_gp_ucb, w_sparq_gp_ucb


def experts() -> dict[str, SparQ]:
    """SparQ by both samplers: `steps="exact"` draws by eigenvalues, the default by a chain."""
    given: dict[str, Any] = {"kernel": kernel(), "noise": NOISE}
    return {
        "SparQ": sparq_gp_ucb(**given),
        "SparQ exact": sparq_gp_ucb(**given, steps="exact"),
        "W-SparQ": w_sparq_gp_ucb(**given, alpha=1.0),
    }


def timed(strategy: SparQ, options: argparse.Namespace) -> dict[str, float]:
    """The time of a strategy, after a short study that loads what the device needs."""
    study(resized(options, trials=2, horizon=3), strategy, options.device)
    result = study(options, strategy, options.device)
    seconds = float(result.data.attrs["seconds"])
    return {
        "seconds": seconds,
        "ms_per_round": 1e3 * seconds / options.horizon,
        "us_per_trial_and_round": 1e6 * seconds / options.horizon / options.trials,
        "side_queries_per_trial": float(result.side_queries.sum("round").mean()),
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    made = parser("rounds", trials=8192, horizon=200, points=50)
    for name, usual in {"points": 20, "trials": 64, "horizon": 30}.items():
        made.add_argument(f"--expert-{name}", type=int, default=usual)
    made.add_argument("--sizes", type=int, nargs="+", help="numbers of trials, nothing else")
    made.add_argument("--passes", type=int, default=3, help="of every study at --sizes")
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    options = parse(arguments)
    smaller = {name: getattr(options, f"expert_{name}") for name in ("points", "trials", "horizon")}
    record = record_of("rounds", options)
    record["parameters"] |= {f"expert_{name}": size for name, size in smaller.items()}
    if options.sizes:
        record["sizes"] = graphs.seconds_by_size(options)
        write(record, options)
        return record
    record |= {"captured": {}, "experts": {}}
    for name in graphs.PLAYED:
        try:
            found = graphs.compared(name, options)
        except Exception as error:  # still measure the other strategies
            found = {"equal": False, "error": f"{type(error).__name__}: {error}"[:2000]}
        record["captured"][name] = found
        record["all_equal"] = all(each["equal"] for each in record["captured"].values())
        print(name, found.get("error") or found["captured"], flush=True)
        write(record, options)
    for name, strategy in experts().items():
        found = timed(strategy, resized(options, **smaller))
        record["experts"][name] = found
        print(f"{name}: {found['ms_per_round']:.1f} ms a round", flush=True)
        write(record, options)
    return record


if __name__ == "__main__":
    main()
