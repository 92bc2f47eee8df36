"""How far a study has come, in whole trials."""

from __future__ import annotations

import threading
from typing import Any

from tqdm.auto import tqdm


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
