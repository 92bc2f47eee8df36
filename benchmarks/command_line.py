"""Options that the command lines of the benchmarks share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path

import torch

from benchmarks.records import RESULTS


def command_line(
    name: str,
    about: str | None,
    *,
    worlds: Iterable[str] = (),
    seeds: int | None = None,
    trials: int | None = None,
    horizon: int | None = None,
    points: int | None = None,
    repeats: int | None = None,
    device: str | None = None,
    threads: int | None = None,
    seed: int | None = None,
) -> argparse.ArgumentParser:
    """The command line of ``python -m benchmarks.NAME``, with the options that have a default here.

    Args:
        name: Name of the module. The record goes to ``results/NAME.json``, dots as underscores.
        about: The docstring of the module.
        worlds: Names to choose from; by default all are played.
        seeds: Number of seeds.
        trials: Number of trials.
        horizon: Rounds T.
        points: Grid points per axis.
        repeats: Passes; the fastest counts.
        device: Device.
        threads: Threads of torch.
        seed: Seed of the random numbers.
    """
    made = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=about,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = list(worlds)
    if names:
        made.add_argument("--worlds", nargs="+", choices=names, default=names)
    counts = {
        "seeds": (seeds, "number of seeds"),
        "trials": (trials, "number of trials"),
        "horizon": (horizon, "rounds T"),
        "points": (points, "grid points per axis"),
        "repeats": (repeats, "passes; the fastest counts"),
        "threads": (threads, "threads of torch"),
        "seed": (seed, "seed of the random numbers"),
    }
    for option, (usual, meaning) in counts.items():
        if usual is not None:
            made.add_argument(
                f"--{option}", type=int, default=usual, help=f"{meaning} (%(default)s)"
            )
    if device is not None:
        made.add_argument("--device", type=torch.device, default=torch.device(device))
    result = RESULTS / f"{name.replace('.', '_')}.json"
    made.add_argument("--out", type=Path, default=result, help="file of the record")
    return made
