"""How many trials run together: as many as memory holds and no more than pay."""

from __future__ import annotations

import os
from collections.abc import Iterable

import torch

from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.state import State

MEMORY_SHARE = 0.5
"""Share of free memory that a study fills; the rest is for results and temporaries."""
MOST_TRIALS = 512
"""Most trials together on a CPU: with more, rounds get no faster but take more memory."""

BUSY_NUMBERS = 2**15
"""Fewest numbers, trials x arms, that keep a core of its own busy: with fewer, operations take
longer to start than to do, and Python starts those of all chunks one after the other."""

BOX_POINTS = 512
"""Points of a box that the usual search scores at once."""


def chunk_size(
    strategies: Iterable[tuple[Strategy, State]],
    *,
    trials: int,
    horizon: int,
    recorded: int,
    workers: int,
    mapped: int = 0,
) -> int:
    """Number of trials that run together.

    Args:
        strategies: Every strategy with an initial state of any batch shape.
        trials: Trials of the whole study.
        horizon: Rounds per trial.
        recorded: Numbers written down per strategy, trial and round.
        workers: Chunks that run side by side.
        mapped: Numbers summed over rounds per strategy and trial.

    Returns:
        As many as memory allows; fewer where that would leave a worker idle that has enough to do.
    """
    pairs = list(strategies)
    numbers = sum(strategy.numbers_per_trial(state, horizon) for strategy, state in pairs)
    numbers += (recorded * horizon + mapped) * len(pairs)
    variance = pairs[0][1].basis.variance
    room = MEMORY_SHARE * free_bytes(variance.device) / workers
    fits = int(room / (numbers * variance.element_size()))
    if variance.device.type == "cpu":
        fits = min(fits, MOST_TRIALS)
    share = max(-(-trials // workers), -(-BUSY_NUMBERS // breadth(pairs[0][1].domain)))
    return max(1, min(fits, share, trials))


def breadth(domain: Domain) -> int:
    """Numbers per trial that most operations work on: arms, or points of a box scored at once."""
    return len(domain) if isinstance(domain, Grid) else BOX_POINTS


def free_bytes(device: torch.device) -> int:
    """Memory not in use on a device, in bytes."""
    if device.type == "cuda":
        # PyTorch keeps what it no longer uses; to others that memory looks taken.
        kept = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return int(torch.cuda.mem_get_info(device)[0]) + kept
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # not every system tells
        return 2 * 2**30
