"""How far a study has come, in whole trials."""

from __future__ import annotations

import sys
import threading
from typing import Any

from tqdm.auto import tqdm

OFTEN, SELDOM = 0.1, 60.0
"""Seconds between pictures of a bar on a screen, and in a log, in which every one stays."""


def progress_bar(trials: int, known: int, *, shown: bool) -> tqdm[Any]:
    """A bar that counts trials: at once on a screen, seldom where a file is written.

    Args:
        trials: All of them.
        known: Those that it counts from the start.
        shown: Whether there is a bar.
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
    """A progress bar in whole trials, moved by rounds of many chunks at once.

    Args:
        bar: Counts trials.
        horizon: Rounds per trial.
        known: Trials that the bar counts from the start.
    """

    def __init__(self, bar: tqdm[Any], horizon: int, known: int = 0) -> None:
        self._bar, self._horizon = bar, horizon
        self._rounds = known * horizon
        self._lock = threading.Lock()

    def add(self, rounds: int) -> None:
        """Count some more rounds, each of one trial."""
        with self._lock:
            self._rounds += rounds
            self._bar.update(self._rounds // self._horizon - self._bar.n)
