"""A unit of time found from the data, in which rates of change are numbers of ordinary size."""

from __future__ import annotations

import torch
from torch import Tensor

NEGLIGIBLE = 1e-9
"""Gaps below this share of the whole span are rounding of one and the same time."""


def median_gap(times: Tensor, live: Tensor | None = None) -> Tensor:
    """The median time between one observation and the next, in the unit of ``times``.

    Learning in this unit finds the same rates whether times are told in milliseconds or in years:
    where a search starts, how far it steps and what a prior presumes then scale with the data.

    Args:
        times: `... x n`, in any order; what was observed at one and the same time counts once.
        live: Which of them count, `... x n`; all unless given.

    Returns:
        Positive, `...`; 1 where there are not two different times.
    """
    if times.shape[-1] < 2:
        return times.new_ones(times.shape[:-1])
    counted = times if live is None else torch.where(live, times, torch.inf)
    ordered = counted.sort(dim=-1).values
    gaps = ordered.diff(dim=-1)
    gaps = torch.where(gaps.isfinite(), gaps, torch.nan)  # between two that do not count
    span = torch.where(gaps.isnan(), 0.0, gaps).sum(-1, keepdim=True)
    gaps = torch.where(gaps > NEGLIGIBLE * span, gaps, torch.nan)
    # Of an even number PyTorch gives the lower of the two in the middle.
    lower, upper = gaps.nanmedian(dim=-1).values, -(-gaps).nanmedian(dim=-1).values
    return (0.5 * (lower + upper)).nan_to_num(nan=1.0)
