"""All chunks of a study, side by side and, where a folder keeps them, shared with others."""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING

from tqdm.auto import tqdm

from botorch_tv.simulation.chunks import Game
from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.parallel import side_by_side
from botorch_tv.simulation.progress import Progress
from botorch_tv.simulation.records import Arrays
from botorch_tv.validation import require

if TYPE_CHECKING:
    from botorch_tv.simulation.folder import StudyFolder

POLL_SECONDS = 0.2
"""How often a chunk that another process computes is looked for."""
PATIENCE_SECONDS = 3.0
"""Whoever waits for longer is told what for."""


def play_all(
    game: Game, chunks: list[Chunk], workers: int, *, folder: StudyFolder | None, progress: bool
) -> tuple[list[Arrays], int]:
    """Play every chunk that is not there yet.

    Chunks that other processes hold are left to them at first; at the end they are waited for, and
    computed here if those processes die.

    Args:
        game: The study.
        chunks: All its trials.
        workers: Chunks at once.
        folder: Where finished chunks are kept, if anywhere.
        progress: Whether to show a progress bar.

    Returns:
        The variables of every chunk, and how many trials were found finished.
    """
    trials = sum(chunk.trials for chunk in chunks)
    parts = {} if folder is None else _found(folder, chunks)
    known = sum(chunk.trials for chunk in parts)
    if folder is not None:
        folder.require_room(chunk for chunk in chunks if chunk not in parts)
    with tqdm(total=trials, initial=known, unit="trial", disable=not progress) as bar:
        progressed = Progress(bar, game.settings.horizon, known)

        def turn(chunk: Chunk, stop: threading.Event) -> Arrays | None:
            return _turn(game, chunk, folder, progressed, stop)

        def patient_turns(chunk: Chunk, stop: threading.Event) -> Arrays | None:
            arrays, began, told = turn(chunk, stop), time.monotonic(), False
            while arrays is None and not stop.wait(POLL_SECONDS):
                arrays = turn(chunk, stop)
                late = time.monotonic() - began > PATIENCE_SECONDS
                if arrays is None and folder is not None and late and not told:
                    told = True
                    warnings.warn(folder.waited_for(chunk), stacklevel=2)
            return arrays

        for work in (turn, patient_turns):
            missing = [chunk for chunk in chunks if chunk not in parts]
            played = zip(missing, side_by_side(work, missing, workers))
            parts |= {chunk: arrays for chunk, arrays in played if arrays is not None}
    return [parts[chunk] for chunk in chunks], known


def find_all(folder: StudyFolder, chunks: list[Chunk], kept: str, left_out: str) -> list[Arrays]:
    """Every chunk of a study of which some strategies are left out, so that none can be played.

    Args:
        folder: Where it is kept.
        chunks: All its trials.
        kept: The strategies wanted, for the error.
        left_out: The others.

    Raises:
        ValueError: If a chunk is missing.
    """
    parts = _found(folder, chunks)
    for chunk in chunks:
        require(
            chunk in parts,
            f"{folder.path} keeps {kept} together with {left_out}, and the trials from "
            f"{chunk.first} on are not there; give {left_out} as well"
            + (f", or trials={chunk.first}." if chunk.first else "."),
        )
    return [parts[chunk] for chunk in chunks]


def _found(folder: StudyFolder, chunks: list[Chunk]) -> dict[Chunk, Arrays]:
    found = {chunk: folder.find(chunk) for chunk in chunks}
    return {chunk: arrays for chunk, arrays in found.items() if arrays is not None}


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
