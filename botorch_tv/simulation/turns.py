"""Play a chunk that several processes share: one of them computes it, the others read it."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from botorch_tv.simulation.chunks import PreparedStudy
from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.progress import Progress
from botorch_tv.simulation.records import Arrays

if TYPE_CHECKING:
    from botorch_tv.simulation.folder import StudyFolder

POLL_SECONDS = 0.2
"""Time between looks for a chunk that another process computes."""
PATIENCE_SECONDS = 3.0
"""Time after which a warning says what is being waited for."""


def take_turn(
    study: PreparedStudy,
    chunk: Chunk,
    folder: StudyFolder | None,
    progress: Progress,
    stop: threading.Event,
) -> Arrays | None:
    """Play a chunk and keep it; None if stopped, or if another process is computing it."""
    if folder is None:
        return study.play(chunk, progress, stop)
    with folder.claim(chunk) as mine:
        if not mine:
            return None
        arrays = folder.find(chunk)  # another process may have finished it since the last look
        if arrays is not None:
            progress.add(chunk.trials * study.settings.horizon)
            return arrays
        arrays = study.play(chunk, progress, stop)
        if arrays is not None:
            folder.keep(chunk, arrays)
        return arrays


def wait_until(
    done: Callable[[], bool], chunk: Chunk, folder: StudyFolder | None, stop: threading.Event
) -> bool:
    """Poll for a chunk that another process may be computing.

    Args:
        done: Whether the chunk is there.
        chunk: The chunk.
        folder: Where it is kept.
        stop: Ends the wait once it is set.

    Returns:
        Whether it is done; False if stopped.
    """
    began, warned = time.monotonic(), False
    while not done():
        if stop.wait(POLL_SECONDS):
            return False
        late = time.monotonic() - began > PATIENCE_SECONDS
        if late and folder is not None and not warned:
            warned = True
            warnings.warn(folder.waited_for(chunk), stacklevel=2)
    return True
