"""The progress bar of a study, in whole trials."""

from __future__ import annotations

import sys
import threading
from typing import Any

from tqdm.auto import tqdm

OFTEN, SELDOM = 0.1, 60.0
"""Seconds between updates of the bar on a screen, and in a log, which keeps every update."""


def progress_bar(trials: int, known: int, *, shown: bool) -> tqdm[Any]:
    """A bar that counts trials; it is updated often on a screen, and seldom in a log file.

    Args:
        trials: Number of all trials.
        known: Number of trials already finished.
        shown: Whether to show the bar.
    """
    watched = sys.stderr.isatty() or "ipykernel" in sys.modules
    return tqdm(
        total=trials,
        initial=known,
        unit="trial",
        disable=not shown,
        mininterval=OFTEN if watched else SELDOM,
        maxinterval=SELDOM,
    )


class Progress:
    """Advances a bar of whole trials by the rounds of chunks that run in parallel.

    Args:
        bar: The bar, which counts trials.
        horizon: Rounds per trial.
        known: Number of trials already finished.
    """

    def __init__(self, bar: tqdm[Any], horizon: int, known: int = 0) -> None:
        self._bar, self._horizon = bar, horizon
        self._rounds = known * horizon
        self._lock = threading.Lock()

    def add(self, rounds: int) -> None:
        """Count more rounds, each of one trial."""
        with self._lock:
            self._rounds += rounds
            self._bar.update(self._rounds // self._horizon - self._bar.n)
