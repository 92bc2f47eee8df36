"""How many trials run together, by free memory and by speed."""

from __future__ import annotations

from bisect import bisect_right

import torch

from botorch_tv.memory import bytes_in_words, free_bytes
from botorch_tv.simulation.rules import numbers_per_trial
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.validation import require

MEMORY_SHARE = 0.5
"""Share of free memory that a study may use; the rest is for results and temporaries."""
MOST_TRIALS = 512
"""Most trials together on a CPU; more take more memory and are no faster."""

BUSY_NUMBERS = 2**15
"""Fewest numbers, trials x arms, that keep a core busy. With fewer, starting an operation takes
longer than the operation, and Python starts the operations of all chunks one after the other."""

BOX_POINTS = 512
"""Points of a box that the default search scores at once."""


def chunk_size(settings: StudySettings, *, trials: int, workers: int) -> int:
    """Number of trials that run together.

    Args:
        settings: The study.
        trials: Trials of the whole study.
        workers: Chunks that run in parallel.

    Returns:
        As many trials as memory allows, but few enough to keep all workers busy.

    Raises:
        ValueError: If memory cannot hold a single trial.
    """
    states, horizon = settings.initial_states(), settings.horizon
    graphs = settings.captured
    variance = next(iter(states.values())).basis.variance

    def numbers(label: str, together: int) -> int:
        """Numbers per trial of one strategy, if this many trials run together."""
        if label in graphs:
            return numbers_per_trial(graphs[label], horizon)
        return settings.strategies[label].numbers_per_trial(states[label], horizon, together)

    def needed(together: int) -> int:
        """Bytes for this many trials together."""
        held = sum(numbers(label, together) for label in states)
        held += settings.layout.numbers_per_trial * len(states)
        return together * held * variance.element_size()

    free, single = free_bytes(variance.device), needed(1)
    require(
        single <= free,
        f"run_study: a single trial of {horizon:,} rounds takes {bytes_in_words(single)}, but only "
        f"{bytes_in_words(free)} of memory are free on {variance.device}; use fewer arms, rounds "
        "or strategies.",
    )
    share = max(-(-trials // workers), -(-BUSY_NUMBERS // breadth(settings.world.domain)))
    most = min(share, trials)
    if variance.device.type == "cpu":
        most = min(most, MOST_TRIALS)
    room = MEMORY_SHARE * free / workers
    return max(1, bisect_right(range(1, most + 1), room, key=needed))


def breadth(domain: Domain) -> int:
    """Numbers per trial in a typical operation: the arms, or the points of a box scored at once."""
    return len(domain) if isinstance(domain, Grid) else BOX_POINTS


def fits_memory(settings: StudySettings, trials: int, *, lasting: bool) -> bool:
    """Whether the result of a study fits into memory.

    Args:
        settings: The study.
        trials: Number of trials.
        lasting: Whether the result may stay in a folder instead.

    Raises:
        ValueError: If it does not fit, and there is no folder.
    """
    result, free = settings.layout.bytes_of(trials), free_bytes(torch.device("cpu"))
    fits = result <= MEMORY_SHARE * free
    require(
        fits or lasting,
        f"run_study: results of {len(settings.strategies)} strategies x {trials:,} trials x "
        f"{settings.horizon:,} rounds take {bytes_in_words(result)}, more than {MEMORY_SHARE:.0%} "
        f"of the {bytes_in_words(free)} of memory that are free; give save_to=FOLDER (--save-to on "
        "the command line) to keep them on disk, or at most "
        f"trials={max(1, int(MEMORY_SHARE * trials * free / result)):,}, fewer rounds, "
        "or fewer strategies at a time.",
    )
    return fits
