"""Shared by the statistics: standard errors, stored records, paired differences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

ADAPTIVE = "adaptive"
"""Label of the strategy without prior knowledge, to which differences are taken."""
REGRET = "total regret of every seed"
"""Key under which a run stores its regret."""


def standard_error(values: np.ndarray | Tensor | Sequence[float]) -> float | None:
    """Standard error of the mean of independent values, `n`; None of a single value."""
    each = np.asarray(values, dtype=float)
    return float(each.std(ddof=1) / len(each) ** 0.5) if len(each) > 1 else None


def mean_and_error(values: np.ndarray | Tensor | Sequence[float]) -> dict[str, float | None]:
    """The mean of independent values, `n`, and its standard error."""
    return {"mean": float(np.mean(np.asarray(values))), "standard error": standard_error(values)}


def summary(runs: Mapping[str, Any], horizon: int) -> dict[str, Any]:
    """Regret per round, and paired differences of the adaptive strategy to each other run.

    Args:
        runs: Runs by label, each with its total regret per seed.
        horizon: Rounds of a run.
    """
    regret = {
        label: torch.tensor(run[REGRET], dtype=torch.float64) / horizon
        for label, run in runs.items()
    }
    found: dict[str, Any] = {}
    for label, each in regret.items():
        found[label] = mean_and_error(each)
        if label != ADAPTIVE and ADAPTIVE in regret:
            both = min(len(each), len(regret[ADAPTIVE]))  # some play fewer seeds
            adaptive, other = regret[ADAPTIVE][:both], each[:both]
            found[label]["adaptive minus this"] = float((adaptive - other).mean())
            found[label]["its standard error"] = standard_error(adaptive - other)
            found[label]["adaptive as a fraction"] = float(adaptive.mean() / other.mean())
    return found


def read(out: Path) -> dict[str, Any]:
    """The record of a file, or an empty record where the file does not exist."""
    if out.is_file():
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found
    return {"environment": {}, "worlds": {}}
