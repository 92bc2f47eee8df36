"""All chunks of a study, side by side and, where a folder keeps them, shared with others."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from tqdm.auto import tqdm

from botorch_tv.simulation.chunks import Game
from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.parallel import side_by_side
from botorch_tv.simulation.progress import Progress
from botorch_tv.simulation.records import Arrays

if TYPE_CHECKING:
    from botorch_tv.simulation.folder import StudyFolder

Take = Callable[[Chunk, Arrays], None]
"""What becomes of a finished chunk."""

POLL_SECONDS = 0.2
"""How often a chunk that another process computes is looked for."""
PATIENCE_SECONDS = 3.0
"""Whoever waits for longer is told what for."""


def play_all(
    game: Game,
    chunks: list[Chunk],
    workers: int,
    take: Take,
    *,
    folder: StudyFolder | None,
    besides: int,
    progress: bool,
) -> int:
    """Play every chunk that is not there yet.

    Chunks that other processes hold are left to them at first; at the end they are waited for, and
    computed here if those processes die.

    Args:
        game: The study.
        chunks: All its trials.
        workers: Chunks at once.
        take: Is given every chunk once, with what was recorded of it, in any order and thread.
        folder: Where finished chunks are kept, if anywhere.
        besides: Bytes that will be written to the disk of that folder besides them.
        progress: Whether to show a progress bar.

    Returns:
        How many trials were found finished.
    """
    trials = sum(chunk.trials for chunk in chunks)
    missing = chunks if folder is None else _missing(folder, chunks, take)
    known = trials - sum(chunk.trials for chunk in missing)
    if folder is not None:
        folder.require_room(missing, besides)
    with tqdm(total=trials, initial=known, unit="trial", disable=not progress) as bar:
        progressed = Progress(bar, game.settings.horizon, known)

        def turn(chunk: Chunk, stop: threading.Event) -> bool:
            arrays = _turn(game, chunk, folder, progressed, stop)
            if arrays is not None:
                take(chunk, arrays)
            return arrays is not None

        def patient_turns(chunk: Chunk, stop: threading.Event) -> bool:
            done, began, told = turn(chunk, stop), time.monotonic(), False
            while not done and not stop.wait(POLL_SECONDS):
                done = turn(chunk, stop)
                late = time.monotonic() - began > PATIENCE_SECONDS
                if not done and folder is not None and late and not told:
                    told = True
                    warnings.warn(folder.waited_for(chunk), stacklevel=2)
            return done

        for work in (turn, patient_turns):
            done = side_by_side(work, missing, workers)
            missing = [chunk for chunk, finished in zip(missing, done) if not finished]
    return known


def find_all(
    folder: StudyFolder, chunks: list[Chunk], take: Take, *, kept: str, left_out: str
) -> None:
    """Find every chunk of a study of which some strategies are left out, as none can be played.

    Args:
        folder: Where it is kept.
        chunks: All its trials.
        take: As for :func:`play_all`.
        kept: The strategies wanted, for the error.
        left_out: The others.

    Raises:
        ValueError: If a chunk is missing.
    """
    for chunk in _missing(folder, chunks, take):
        raise ValueError(
            f"{folder.path} keeps {kept} together with {left_out}, and the trials from "
            f"{chunk.first} on are not there; give {left_out} as well"
            + (f", or trials={chunk.first}." if chunk.first else "."),
        )


def _missing(folder: StudyFolder, chunks: list[Chunk], take: Take) -> list[Chunk]:
    """The chunks that are not there; the others are taken."""
    missing = []
    for chunk in chunks:
        arrays = folder.find(chunk)
        if arrays is None:
            missing.append(chunk)
        else:
            take(chunk, arrays)
    return missing


def _turn(
    game: Game,
    chunk: Chunk,
    folder: StudyFolder | None,
    progress: Progress,
    stop: threading.Event,
) -> Arrays | None:
    """Play a chunk and keep it; None if stopped, or while another process plays it."""
    if folder is None:
        return game.play(chunk, progress, stop)
    with folder.claim(chunk) as mine:
        if not mine:
            return None
        arrays = folder.find(chunk)  # perhaps finished elsewhere since the last look
        if arrays is not None:
            progress.add(chunk.trials * game.settings.horizon)
            return arrays
        arrays = game.play(chunk, progress, stop)
        if arrays is not None:
            folder.keep(chunk, arrays)
        return arrays
