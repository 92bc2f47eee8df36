"""Time of the 30,000 trials of [ET] figure 4, and the least time they could take.

    python -m benchmarks.speed.figure4 [--device cuda] [--trials 30000] [--dtype float64]
        [--chunk N] [--threads N] [--seed 0] [--out FILE]

Runs both studies of the experiment with world and results, each after a short study that loads what
the device needs. The least time follows from memory bandwidth and matmul rate of the device and
from the count of `benchmarks.speed.count`, for the live observations that occur, with the world but
without its random numbers. A study should take at most 5 minutes on two cores in float64, and 2
seconds on a GPU.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.arguments import command_line
from benchmarks.speed.common import RESULTS, begin, cores, write
from benchmarks.speed.count import Count, world_count
from benchmarks.speed.limits import DTYPES, LARGE
from benchmarks.speed.rates import matmul_rates, memory_bandwidth
from benchmarks.speed.shares import LOOKED_AT, Rates, distinct, mean_count
from botorch_tv.gp.basis import Basis
from botorch_tv.gp.process import basis_of
from botorch_tv.papers.event_triggered import FIGURE_4
from botorch_tv.simulation import StudyResult, run_study

MOST_SECONDS = {"cpu": 300.0, "cuda": 2.0}
WARM_UP_TRIALS = 64


def live_observations(resets: np.ndarray) -> np.ndarray:
    """Observations in use at the choice of every round, from its resets; both `trials x rounds`."""
    rounds = np.arange(resets.shape[1])
    start = np.maximum.accumulate(np.where(resets, rounds, 0), axis=1)
    live = np.zeros_like(start)
    live[:, 1:] = rounds[1:] - start[:, :-1]
    return live


def count_of(result: StudyResult, basis: Basis) -> Count:
    """The least work of a trial and round of the study, its world included."""
    only = result.data.isel(strategy=0)
    live = live_observations(only["resets"].transpose("trial", "round").values)
    index = only["index"].transpose("trial", "round").values[:LOOKED_AT]
    different = distinct(torch.from_numpy(index.T), torch.from_numpy(live[:LOOKED_AT].T))
    engine, world = mean_count(basis, live.mean(0).tolist(), different), world_count(basis)
    return Count(engine.numbers + world.numbers, engine.flops + world.flops)


def time_case(name: str, options: argparse.Namespace, rates: Rates) -> dict[str, float]:
    """Time the study of a case of the experiment; ``rates`` are those of the device."""
    device, dtype = options.device, DTYPES[options.dtype]
    world, strategies, *_ = FIGURE_4.cases[name].stage()

    def run(trials: int, progress: bool) -> StudyResult:
        return run_study(
            world,
            strategies,
            trials=trials,
            horizon=FIGURE_4.horizon,
            seed=options.seed,
            device=device,
            dtype=dtype,
            chunk=options.chunk,
            progress=progress,
        )

    run(min(WARM_UP_TRIALS, options.trials), progress=False)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    result = run(options.trials, progress=True)
    seconds = float(result.data.attrs["seconds"])
    (strategy,) = strategies.values()
    basis = basis_of(strategy.init(world.domain, dtype=dtype, device=device).data)
    count = count_of(result, basis)
    steps = options.trials * FIGURE_4.horizon
    least = steps * count.seconds(rates.bandwidth, rates.matmul, dtype.itemsize)
    first = result.first_reset().values
    found = {
        "seconds": seconds,
        "most_seconds": MOST_SECONDS[device.type],
        "us_per_trial_and_round": 1e6 * seconds / steps,
        "count_bytes": count.numbers * dtype.itemsize,
        "count_flops": count.flops,
        "least_seconds": least,
        "share_of_limit": least / seconds,
        "mean_first_reset": float(np.nanmean(first)) if np.isfinite(first).any() else float("nan"),
    }
    if device.type == "cuda":
        found["peak_device_bytes"] = torch.cuda.max_memory_allocated(device)
    return found


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    available = "cuda" if torch.cuda.is_available() else "cpu"
    parser = command_line(
        "speed.figure4", __doc__, device=available, trials=FIGURE_4.trials, threads=cores(), seed=0
    )
    parser.set_defaults(out=None)  # its name includes device and precision
    parser.add_argument("--dtype", choices=list(DTYPES), default="float64")
    parser.add_argument("--chunk", type=int, help="trials together (default: as memory allows)")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    options = parse(arguments)
    facts = begin(options.threads, seed=options.seed, device=options.device)
    square = [(LARGE, LARGE, LARGE)]
    rates = Rates(
        memory_bandwidth(options.device),
        matmul_rates(options.device, DTYPES[options.dtype], square)[0].per_second,
    )
    cases = {}
    for name in FIGURE_4.cases:
        cases[name] = time_case(name, options, rates)
        print(name, cases[name], flush=True)
    record = {
        "benchmark": "figure4",
        **facts,
        "parameters": {
            "trials": options.trials,
            "horizon": FIGURE_4.horizon,
            "dtype": options.dtype,
            "chunk": options.chunk,
        },
        "rates": rates._asdict(),
        "cases": cases,
    }
    suffix = "" if options.dtype == "float64" else f"_{options.dtype}"
    name = f"speed_figure4_{options.device.type}{suffix}.json"
    write(record, options.out or RESULTS / name)
    return record


if __name__ == "__main__":
    main()
