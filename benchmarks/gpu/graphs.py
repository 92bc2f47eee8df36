"""Equality and speed of rounds captured as CUDA graphs against eager rounds."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.gpu.choices import compare, presets
from benchmarks.gpu.markov_study import resized, study
from botorch_tv.simulation import StudyResult
from botorch_tv.strategies import Strategy

PLAYED = (
    "GP-UCB", "ET-GP-UCB", "TV-GP-UCB", "R-GP-UCB", "UI-TVBO", "IGP-UCB", "BR-GP-UCB", "SW-GP-UCB",
)  # fmt: skip
STARTS = ("Launch", "Memcpy", "Memset")
"""Parts of the names of calls that give work to a GPU."""


def launches(work: Callable[[], object]) -> int:
    """Number of calls that give work to a GPU."""
    cuda = torch.profiler.ProfilerActivity.CUDA
    with torch.profiler.profile(activities=[cuda]) as profile:
        work()
    return sum(
        event.count
        for event in profile.key_averages()
        if event.key.startswith("cu") and any(word in event.key for word in STARTS)
    )


def compared(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """A preset, eager and captured, on the same trials and device; on a CPU compiled by Numba."""
    strategy = presets()[name]
    on_gpu = options.device.type == "cuda"
    captured = on_gpu or find_spec("numba") is not None
    short = resized(options, trials=64, horizon=20)
    ways = {"eager": False, "captured": captured}
    found: dict[str, Any] = {}
    results: dict[str, StudyResult] = {}
    for way, compiled in ways.items():
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always")
            study(short, strategy, options.device, compiled=compiled)
            results[way] = study(options, strategy, options.device, compiled=compiled)
            launched = _per_round(strategy, options, compiled) if on_gpu else None
        seconds = float(results[way].data.attrs["seconds"])
        found[way] = {
            "seconds": seconds,
            "us_per_trial_and_round": 1e6 * seconds / options.horizon / options.trials,
            "launches_per_round": launched,
            "times_as_fast": float(results["eager"].data.attrs["seconds"]) / seconds,
            "warnings": sorted({str(warning.message) for warning in raised}),
        }
    same = compare(results["eager"], results["captured"])
    del same["seconds"]
    found["captured"] |= same
    return found | {"equal": same["equal"]}


def seconds_by_size(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Seconds of eager and captured studies by strategy and number of trials, passes in turn."""
    found = []
    for trials in options.sizes:
        own = resized(options, trials=trials, horizon=options.horizon)
        for name in PLAYED[:3]:
            row: dict[str, Any] = {"strategy": name, "trials": trials, "eager": [], "captured": []}
            for way in ("eager", "captured") * options.passes:
                result = study(own, presets()[name], options.device, compiled=way == "captured")
                row[way].append(float(result.data.attrs["seconds"]))
            row["times_as_fast"] = min(row["eager"]) / min(row["captured"])
            print(row, flush=True)
            found.append(row)
    return found


def _per_round(strategy: Strategy, options: argparse.Namespace, compiled: bool) -> float:
    """Launches of a round late in a study, after all captures."""

    def count(horizon: int) -> int:
        own = resized(options, trials=64, horizon=horizon)
        return launches(lambda: study(own, strategy, options.device, compiled=compiled))

    early, late = 160, 176
    return (count(late) - count(early)) / (late - early)
