"""What rounds cost that are captured as CUDA graphs, and those that consult an expert.

    python -m benchmarks.gpu.rounds --out FILE [--device cuda] [--points 50] [--trials 8192]
        [--horizon 200] [--expert-points 20] [--expert-trials 64] [--expert-horizon 30] [--seed 0]

Studies of the Markov world of [B16] (ε = 0.03, noise 0.02). Of captured rounds it tells whether
they choose as the others do on the same device, how much faster they are, and how often Python has
to start something in a round. The file is written anew after every strategy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from benchmarks.gpu import graphs, sparq
from benchmarks.gpu.world import parser, record_of, resized, write


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    made = parser("rounds", trials=8192, horizon=200, points=50)
    for name, usual in {"points": 20, "trials": 64, "horizon": 30}.items():
        made.add_argument(f"--expert-{name}", type=int, default=usual)
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Time every strategy; returns the record that is written."""
    options = parse(arguments)
    smaller = {name: getattr(options, f"expert_{name}") for name in ("points", "trials", "horizon")}
    record = record_of("rounds", options)
    record["parameters"] |= {f"expert_{name}": one for name, one in smaller.items()}
    record |= {"captured": {}, "experts": {}}
    for name in graphs.PLAYED:
        try:
            found = graphs.compared(name, options)
        except Exception as error:  # the others are still worth knowing
            found = {"equal": False, "error": f"{type(error).__name__}: {error}"[:2000]}
        record["captured"][name] = found
        record["all_equal"] = all(one["equal"] for one in record["captured"].values())
        print(f"{name}: {found.get('error') or graphs.in_words(found)}", flush=True)
        write(record, options)
    for name in sparq.strategies():
        found = sparq.timed(name, resized(options, **smaller))
        record["experts"][name] = found
        print(f"{name}: {found['ms_per_round']:.1f} ms a round", flush=True)
        write(record, options)
    return record


if __name__ == "__main__":
    main()
