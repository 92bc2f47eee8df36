"""How close a round comes to the limits of the device, and what it costs late in a run.

    python -m benchmarks.speed.limits [--devices cpu cuda] [--trials 512] [--horizon 200]
        [--rounds 500 2000 10000] [--late-trials 16] [--strategies GP-UCB TV-GP-UCB ET-GP-UCB]
        [--window 160] [--points 50] [--epsilon 0.03] [--dtype float64] [--repeats 5]
        [--threads N] [--seed 0] [--out FILE]

On the CPU, and on a CUDA device if there is one:

1. *Rates*: bytes per second from memory (the best of copy and triad beyond the cache, with all
   threads) and from tensors as large as the engine's vectors; flops per second of matrix products
   in the engine's shapes and in a large one.
2. *Count*: the least work of a round (`benchmarks.speed.least_work`) for the live observations and
   distinct arms that occur, and the bytes and flops of the engine (`benchmarks.speed.traffic`).
3. *Time* of `ask` and `tell` as a study calls them, the fastest of ``--repeats`` passes:

   - the share of the limit is the least time by 1. and 2. over the time taken;
   - bandwidth and matmul rate reached are the engine's bytes and flops per second over the rates.
     More than 1 means that a pass reads from a cache what the previous pass wrote.
4. *Late rounds*: time per trial and round, and bytes per trial of the state, at ``--rounds``.

Writes a JSON file.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.command_line import command_line
from benchmarks.records import begin, cores, device_title, write
from benchmarks.speed.engine_runs import EPSILON, LENGTHSCALE, NOISE, STRATEGIES
from benchmarks.speed.late_rounds import Late
from benchmarks.speed.late_rounds import measure as measure_late
from benchmarks.speed.rates import BEYOND_CACHE, bandwidths, matmul_rates
from benchmarks.speed.shares_of_limits import Rates, Size, measure
from botorch_tv.gp.basis import Basis, ProductBasis
from botorch_tv.gp.process import basis_of
from botorch_tv.strategies import Grid

LABELS = ("GP-UCB", "TV-GP-UCB", "ET-GP-UCB")
TRIALS = {"cpu": 512, "cuda": 8192}
LATE_TRIALS = {"cpu": 16, "cuda": 1024}
LARGE = 2048  # rows and columns of the large matrix product
DTYPES = {"float64": torch.float64, "float32": torch.float32}


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line(
        "speed.limits", __doc__, horizon=200, points=50, repeats=5, threads=cores(), seed=0
    )
    available = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]
    parser.add_argument("--devices", nargs="+", choices=list(TRIALS), default=available)
    parser.add_argument("--trials", type=int, help=f"default {TRIALS}")
    parser.add_argument("--rounds", type=int, nargs="+", default=[500, 2000, 10_000])
    parser.add_argument("--late-trials", type=int, help=f"at --rounds, default {LATE_TRIALS}")
    parser.add_argument("--window", type=int, default=160, help="rounds timed at each of --rounds")
    parser.add_argument("--strategies", nargs="+", choices=list(STRATEGIES), default=list(LABELS))
    parser.add_argument(
        "--epsilon", type=float, default=EPSILON, help="rate of change of the world"
    )
    parser.add_argument(
        "--dtype", choices=list(DTYPES), default="float64", help="except at --rounds"
    )
    parser.add_argument("--largest", type=int, help="bytes of the tensors beyond the cache")
    options = parser.parse_args(arguments)
    if "cuda" in options.devices and not torch.cuda.is_available():
        parser.error("--devices cuda: torch finds no CUDA device here; use --devices cpu")
    return options


def find_rates(device: torch.device, basis: Basis, options: argparse.Namespace) -> dict[str, Any]:
    """Bandwidth by size and matmul rate by shape and dtype, with the best of each."""
    trials, element = _trials(device, options), DTYPES[options.dtype].itemsize
    beyond = options.largest or BEYOND_CACHE[device.type]
    own = trials // _workers(device, options) * basis.arms * element
    moved = bandwidths(device, [own, beyond, 2 * beyond], repeats=options.repeats)
    multiplied = {
        name: matmul_rates(device, dtype, _shapes(basis, trials), repeats=options.repeats)
        for name, dtype in DTYPES.items()
    }
    return {
        "bandwidth": max(rate.per_second for rate in moved if rate.size[0] >= beyond),
        "bandwidth_of_vectors": max(rate.per_second for rate in moved if rate.size[0] == own),
        "matmul": {
            name: max(rate.per_second for rate in found) for name, found in multiplied.items()
        },
        "bandwidth_found": [rate._asdict() for rate in moved],
        "matmul_found": {
            name: [rate._asdict() for rate in found] for name, found in multiplied.items()
        },
    }


def find_late(
    label: str, device: torch.device, options: argparse.Namespace
) -> list[dict[str, float]]:
    """Time and memory per trial of a strategy at ``--rounds``, in a process of its own."""
    trials = options.late_trials or LATE_TRIALS[device.type]
    late = Late(
        sorted(set(options.rounds)),
        options.window,
        trials,
        options.points,
        options.epsilon,
        options.seed,
        device,
    )
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        found: list[dict[str, float]] = fresh.apply(measure_late, (label, late))
    return found


def examine(device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    """All measurements on a device."""
    domain = Grid.regular(points=options.points, dim=2)
    dtype = DTYPES[options.dtype]
    basis = basis_of(STRATEGIES["GP-UCB"]().init(domain, dtype=dtype, device=device).data)
    rates = find_rates(device, basis, options)
    size = Size(
        trials=_trials(device, options),
        horizon=options.horizon,
        epsilon=options.epsilon,
        dtype=dtype,
        device=device,
        workers=_workers(device, options),
        repeats=options.repeats,
        seed=options.seed,
    )
    reached = Rates(rates["bandwidth"], rates["matmul"][options.dtype])
    return {
        "name": device_title(device),
        "threads": options.threads if device.type == "cpu" else None,
        "trials": size.trials,
        "late_trials": options.late_trials or LATE_TRIALS[device.type],
        "features": basis.size,
        "rates": rates,
        "strategies": {
            label: measure(STRATEGIES[label](), domain, size, reached)
            for label in options.strategies
        },
        "late": {label: find_late(label, device, options) for label in options.strategies},
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    options = parse(arguments)
    facts = begin(options.threads, seed=options.seed)
    devices = {}
    for name in options.devices:
        devices[name] = examine(torch.device(name), options)
        print(name, devices[name]["strategies"], devices[name]["late"], flush=True)
    record = {
        "benchmark": "limits",
        **facts,
        "parameters": {
            "horizon": options.horizon,
            "arms": options.points**2,
            "lengthscale": LENGTHSCALE,
            "noise": NOISE,
            "epsilon": options.epsilon,
            "dtype": options.dtype,
        },
        "devices": devices,
    }
    write(record, options.out)
    return record


def _trials(device: torch.device, options: argparse.Namespace) -> int:
    return int(options.trials or TRIALS[device.type])


def _workers(device: torch.device, options: argparse.Namespace) -> int:
    return int(options.threads) if device.type == "cpu" else 1


def _shapes(basis: Basis, trials: int) -> list[tuple[int, int, int]]:
    """(m, k, n) of the products from coordinates to arms, and of a large square."""
    shapes = [(trials, basis.size, basis.arms), (LARGE, LARGE, LARGE)]
    if isinstance(basis, ProductBasis):
        points, rank = basis.factors[-1].shape
        shapes.append((trials * basis.arms // points, rank, points))
    return shapes


if __name__ == "__main__":
    main()
