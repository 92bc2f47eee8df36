"""Studies of the GPU benchmarks: the Markov world of [B16], ε = 0.03 and noise 0.02."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import torch

from benchmarks.records import environment
from benchmarks.speed.engine_runs import EPSILON, NOISE, kernel
from botorch_tv.simulation import MarkovWorld, StudyResult, run_study
from botorch_tv.strategies import Grid, Strategy


def parser(name: str, *, trials: int, horizon: int, points: int = 20) -> argparse.ArgumentParser:
    """The command line of a benchmark."""
    made = argparse.ArgumentParser(prog=f"python -m benchmarks.gpu.{name}")
    made.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    made.add_argument("--points", type=int, default=points, help="grid points per axis")
    made.add_argument("--trials", type=int, default=trials)
    made.add_argument("--horizon", type=int, default=horizon, help="rounds T")
    made.add_argument("--seed", type=int, default=0)
    made.add_argument("--out", type=Path, required=True)
    return made


def record_of(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """The head of a result file."""
    parameters = {name: getattr(options, name) for name in ("points", "trials", "horizon")}
    facts = environment(seed=options.seed, device=options.device)
    return {"benchmark": name, **facts, "parameters": parameters}


def study(
    options: argparse.Namespace,
    strategy: Strategy,
    device: torch.device,
    *,
    compiled: bool | None = None,
) -> StudyResult:
    """A study of a strategy on a device; equal labels give equal random numbers."""
    grid = Grid.regular(points=options.points, dim=2)
    return run_study(
        MarkovWorld(grid, kernel=kernel(), epsilon=EPSILON, noise=NOISE),
        {"strategy": strategy},
        trials=options.trials,
        horizon=options.horizon,
        seed=options.seed,
        device=device,
        compiled=compiled,
        progress=False,
    )


def resized(
    options: argparse.Namespace, *, trials: int, horizon: int, points: int | None = None
) -> argparse.Namespace:
    """The command line with another size, and another grid if given."""
    sizes = {"trials": trials, "horizon": horizon, "points": points or options.points}
    return argparse.Namespace(**vars(options) | sizes)


def write(record: dict[str, Any], options: argparse.Namespace) -> None:
    """Write the file."""
    options.out.write_text(json.dumps(record, indent=1) + "\n")
