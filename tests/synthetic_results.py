"""Study results made by hand, for tests that need no strategy."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import xarray as xr

from botorch_tv.simulation.result import StudyResult


def make_result(
    regret: Mapping[str, np.ndarray],
    resets: Mapping[str, np.ndarray] | None = None,
    **attributes: str | int | float,
) -> StudyResult:
    """A result from one `trials x rounds` array of regret (and of resets) per strategy."""
    stacked = np.stack([np.asarray(values, dtype=float) for values in regret.values()])
    fired = np.zeros(stacked.shape, dtype=bool)
    for position, label in enumerate(regret):
        if resets and label in resets:
            fired[position] = resets[label]
    dimensions = ("strategy", "trial", "round")
    data = xr.Dataset(
        {
            "regret": (dimensions, stacked),
            "resets": (dimensions, fired),
            "side_queries": (dimensions, np.zeros(stacked.shape, dtype=np.int32)),
            "index": (dimensions, np.zeros(stacked.shape, dtype=np.int32)),
        },
        coords={
            "strategy": list(regret),
            "trial": np.arange(stacked.shape[1]),
            "round": np.arange(1, stacked.shape[2] + 1),
        },
        attrs={"seed": 0, "noise": 0.02, "seconds": 1.5, "world": "MarkovWorld()"} | attributes,
    )
    return StudyResult(data)


def random_result(
    levels: Mapping[str, float], trials: int, rounds: int, seed: int = 0, resets_of: str = ""
) -> StudyResult:
    """Regret around a level per strategy with noise shared by the strategies of a trial."""
    generator = np.random.default_rng(seed)
    shared = generator.gamma(2.0, 0.25, size=(trials, rounds))
    regret = {
        label: level * shared * generator.uniform(0.8, 1.2, size=(trials, rounds))
        for label, level in levels.items()
    }
    fired = {resets_of: generator.random((trials, rounds)) < 0.02} if resets_of else None
    return make_result(regret, fired)
