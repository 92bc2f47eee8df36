"""Whether rounds captured as CUDA graphs choose as the others do, and how much faster they are."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import torch

from benchmarks.gpu.choices import compare, presets
from benchmarks.gpu.world import resized, study
from botorch_tv.simulation import StudyResult
from botorch_tv.strategies import Strategy

PLAYED = (
    "GP-UCB", "ET-GP-UCB", "TV-GP-UCB", "R-GP-UCB", "UI-TVBO", "IGP-UCB", "BR-GP-UCB", "SW-GP-UCB",
)  # fmt: skip
STARTS = ("Launch", "Memcpy", "Memset")
"""What the names of calls have in common that give a GPU something to do."""


def launches(work: Callable[[], object]) -> int:
    """How often some work gives a GPU something to do."""
    cuda = torch.profiler.ProfilerActivity.CUDA
    with torch.profiler.profile(activities=[cuda]) as profile:
        work()
    return sum(
        event.count
        for event in profile.key_averages()
        if event.key.startswith("cu") and any(word in event.key for word in STARTS)
    )


def compared(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """One strategy as it is and captured, on the same trials and device.

    Args:
        name: Of the preset.
        options: The command line of a study; on a CPU rounds are compiled where they can be.
    """
    strategy = presets()[name]
    on_gpu = options.device.type == "cuda"
    captured = on_gpu or find_spec("numba") is not None
    short = resized(options, trials=64, horizon=20)
    ways = {"eager": False, "captured": captured}
    found: dict[str, Any] = {}
    results: dict[str, StudyResult] = {}
    for way, compiled in ways.items():
        with warnings.catch_warnings(record=True) as told:
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
            "warnings": sorted({str(one.message) for one in told}),
        }
    same = compare(results["eager"], results["captured"])
    del same["seconds"]
    found["captured"] |= same
    return found | {"equal": same["equal"]}


def in_words(found: dict[str, Any]) -> str:
    """What :func:`compared` found, in a line."""
    one = found["captured"]
    return (
        f"{'equal' if one['equal'] else 'DIFFERENT'}, "
        f"{one['us_per_trial_and_round']:.3f} µs per trial and round, "
        f"{one['times_as_fast']:.2f} times as fast; launches a round "
        f"{one['launches_per_round']}, eager {found['eager']['launches_per_round']}"
        + "".join(f"; {each}" for each in one["warnings"])
    )


def _per_round(strategy: Strategy, options: argparse.Namespace, compiled: bool) -> float:
    """Launches of one round late in a study, where everything has been captured."""

    def count(horizon: int) -> int:
        own = resized(options, trials=64, horizon=horizon)
        return launches(lambda: study(own, strategy, options.device, compiled=compiled))

    early, late = 160, 176
    return (count(late) - count(early)) / (late - early)
