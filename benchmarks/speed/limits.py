"""How close a round comes to what the device can do, and what it costs late in a run.

    python -m benchmarks.speed.limits [--devices cpu cuda] [--trials 512] [--horizon 200]
        [--rounds 500 2000 10000] [--late-trials 16] [--strategies GP-UCB TV-GP-UCB ET-GP-UCB]
        [--window 160] [--points 50] [--epsilon 0.03] [--dtype float64] [--repeats 5]
        [--threads N] [--seed 0] [--out FILE]

On the CPU, and on a CUDA device where there is one, each in turn:

1. *Rates*: bytes per second from memory (the best of copy and triad beyond the cache, with all
   threads) and from tensors as large as the engine's vectors, and flops per second of matrix
   products in the engine's shapes and in a large one.
2. *Count*: the least a round needs (`benchmarks.speed.count`), at the numbers of live observations
   and of different arms that really occur, next to the bytes and flops of the operations that the
   engine makes (`benchmarks.speed.traffic`).
3. *Time* of `ask` and `tell` as a study calls them, the fastest of ``--repeats`` passes, and

   - the share of the limit: the least time by 1. and the count, over the time taken;
   - bandwidth and matmul rate reached: the engine's own bytes and flops per second over the rates.
     More than 1 means that the passes find in a cache what the previous one wrote.
4. *Late rounds*: time per trial and round, and bytes per trial of the state, at ``--rounds``.

Writes one JSON file and, beside it, a picture.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.arguments import command_line
from benchmarks.speed import scaling
from benchmarks.speed.common import begin, cores, device_title, write
from benchmarks.speed.limits_report import draw, print_device
from benchmarks.speed.rates import BEYOND_CACHE, Timed, bandwidths, matmul_rates
from benchmarks.speed.runs import EPSILON, LENGTHSCALE, NOISE, STRATEGIES
from benchmarks.speed.shares import Rates, Size, measure
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
    parser.add_argument("--trials", type=int, help=f"unless given {TRIALS}")
    parser.add_argument("--rounds", type=int, nargs="+", default=[500, 2000, 10_000])
    parser.add_argument("--late-trials", type=int, help=f"at --rounds, unless given {LATE_TRIALS}")
    parser.add_argument("--window", type=int, default=160, help="rounds timed at each of --rounds")
    parser.add_argument("--strategies", nargs="+", choices=list(STRATEGIES), default=list(LABELS))
    parser.add_argument(
        "--epsilon", type=float, default=EPSILON, help="rate of change of the world"
    )
    parser.add_argument("--dtype", choices=list(DTYPES), default="float64", help="but for --rounds")
    parser.add_argument("--largest", type=int, help="bytes of the tensors beyond the cache")
    options = parser.parse_args(arguments)
    if "cuda" in options.devices and not torch.cuda.is_available():
        parser.error("--devices cuda: torch finds no CUDA device here; use --devices cpu")
    return options


def find_rates(device: torch.device, basis: Basis, options: argparse.Namespace) -> dict[str, Any]:
    """Bandwidth by size and matmul rate by shape and dtype, with the best of either."""
    trials, element = _trials(device, options), DTYPES[options.dtype].itemsize
    beyond = options.largest or BEYOND_CACHE[device.type]
    own = trials // _workers(device, options) * basis.arms * element
    moved = bandwidths(device, [own, beyond, 2 * beyond], repeats=options.repeats)
    multiplied = {
        name: matmul_rates(device, dtype, _shapes(basis, trials), repeats=options.repeats)
        for name, dtype in DTYPES.items()
    }
    return {
        "bandwidth": max(one.per_second for one in moved if one.size[0] >= beyond),
        "bandwidth_of_vectors": max(one.per_second for one in moved if one.size[0] == own),
        "matmul": {name: _best(found) for name, found in multiplied.items()},
        "bandwidth_found": [one._asdict() for one in moved],
        "matmul_found": {
            name: [one._asdict() for one in found] for name, found in multiplied.items()
        },
    }


def find_late(
    label: str, device: torch.device, options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Time and memory per trial of one strategy at ``--rounds``, in a process of its own."""
    trials = options.late_trials or LATE_TRIALS[device.type]
    late = scaling.parse(
        [
            *("--rounds", *map(str, options.rounds), "--trials", str(trials), "--study"),
            *("--points", str(options.points), "--epsilon", str(options.epsilon)),
            *("--window", str(options.window), "--device", str(device)),
            *("--seed", str(options.seed)),
        ]
    )
    with multiprocessing.get_context("spawn").Pool(1) as fresh:
        found = fresh.apply(scaling.measure, (label, late))
    return [
        {
            "round": one["round"],
            "median_us": one["median_us"],
            "mean_us": one["mean_us"],
            "state_bytes_per_trial": one["state_bytes"] / trials,
            "log_bytes_per_trial": one["log_bytes"] / trials,
        }
        for one in found
    ]


def examine(device: torch.device, options: argparse.Namespace) -> dict[str, Any]:
    """All that is measured on one device."""
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
    """Measure every device in turn; returns the record that is written."""
    options = parse(arguments)
    facts = begin(options.threads, seed=options.seed)
    devices = {}
    for name in options.devices:
        devices[name] = examine(torch.device(name), options)
        print_device(devices[name])
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
    draw(devices, options.out.with_suffix(".png"))
    return record


def _trials(device: torch.device, options: argparse.Namespace) -> int:
    return int(options.trials or TRIALS[device.type])


def _workers(device: torch.device, options: argparse.Namespace) -> int:
    return int(options.threads) if device.type == "cpu" else 1


def _best(found: Sequence[Timed]) -> float:
    return max(one.per_second for one in found)


def _shapes(basis: Basis, trials: int) -> list[tuple[int, int, int]]:
    """(m, k, n) of the products that bring coordinates to the arms, and of a large square."""
    shapes = [(trials, basis.size, basis.arms), (LARGE, LARGE, LARGE)]
    if isinstance(basis, ProductBasis):
        points, rank = basis.factors[-1].shape
        shapes.append((trials * basis.arms // points, rank, points))
    return shapes


if __name__ == "__main__":
    main()
