"""A chunk of a study as a task: what a worker anywhere is sent, does, and sends back."""

from __future__ import annotations

import json
import pickle
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from tqdm.auto import tqdm

from botorch_tv.files import this_host
from botorch_tv.identity.source import library
from botorch_tv.identity.versions import own_versions
from botorch_tv.simulation.chunk_files import ChunkFormat
from botorch_tv.simulation.chunks import PreparedStudy
from botorch_tv.simulation.cut import Chunk, Cut
from botorch_tv.simulation.devices import device_of_worker
from botorch_tv.simulation.folder import StudyFolder
from botorch_tv.simulation.parallel import torch_threads
from botorch_tv.simulation.progress import Progress
from botorch_tv.simulation.records import Arrays
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.study_file import STUDY_FILE
from botorch_tv.simulation.turns import take_turn

OWN_NOTE = "run_study: in "
"""How notes begin on errors that came up in a study, and not on the way to it."""
BEGINNING = threading.Lock()
"""Held while kernels are evaluated: settings of GPyTorch are those of all threads of a process."""


class SharedFolder(NamedTuple):
    """The folder of a study, as other machines may see it too.

    Attributes:
        path: Where it is for whoever asks.
        cut: How the study in it is computed.
        files: What its chunks look like.
        mark: Tells its description apart from a copy of it elsewhere.
    """

    path: Path
    cut: Cut
    files: ChunkFormat
    mark: tuple[int, int]

    @classmethod
    def of(cls, folder: StudyFolder) -> SharedFolder:
        """What other machines need to know of a folder."""
        path = folder.path.resolve()
        return cls(path, folder.cut, folder.files, _mark(path))

    def here(self) -> StudyFolder | None:
        """The folder, unless this machine has another one there, or none."""
        try:
            seen = _mark(self.path) == self.mark
        except OSError:
            return None
        return StudyFolder(self.path, self.cut, self.files) if seen else None


class Played(NamedTuple):
    """A chunk that a worker sends back.

    Attributes:
        arrays: Its variables.
        made_with: Versions of the libraries that computed it, as JSON.
    """

    arrays: Arrays
    made_with: str


@dataclass(frozen=True)
class Task:
    """All that a worker needs to play some trials; what is random depends on their numbers alone.

    Args:
        settings: The study.
        cut: How it is computed.
        chunk: The trials.
        folder: Where they are kept, if anywhere.
        bring: Whether they are sent back though they are kept.
        made_with: What :func:`libraries` says where the study was asked for.
    """

    settings: StudySettings
    cut: Cut
    chunk: Chunk
    folder: SharedFolder | None
    bring: bool
    made_with: Mapping[str, str]


def play_task(task: Task) -> Played | None:
    """Play the trials of a task, in whatever process and machine this is.

    Returns:
        The trials; None if they need not be sent, as the folder keeps them, or cannot, as another
        process is at work on them.

    Raises:
        RuntimeError: If libraries here are others than where the study was asked for, or in place
            of an error that cannot be sent.
        Exception: Any of a world, a strategy or a recorder, with a note on where it came up.
    """
    with _sendable_errors(task.chunk):
        _require_same_libraries(task.made_with)
        folder = None if task.folder is None else task.folder.here()
        arrays = None if folder is None else folder.find(task.chunk)
        if arrays is None:
            arrays = _played(task, folder)
        if arrays is None or (folder is not None and not task.bring):
            return None
        return Played(arrays, own_versions() if folder is None else folder.made_with(task.chunk))


def libraries() -> dict[str, str]:
    """What of this process must be the same in its workers, builds for a device apart."""
    found = json.loads(own_versions())
    return {name: one.partition("+")[0] for name, one in found.items()} | {"botorch_tv": library()}


def _played(task: Task, folder: StudyFolder | None) -> Arrays | None:
    device = device_of_worker(task.settings.device, task.chunk.first // task.cut.chunk)
    settings = replace(task.settings, device=device)
    with torch_threads(task.cut.threads), tqdm(disable=True) as silent:
        with BEGINNING:
            study = PreparedStudy(settings, settings.initial_states())
        progress = Progress(silent, settings.horizon)
        return take_turn(study, task.chunk, folder, progress, threading.Event())


def _mark(path: Path) -> tuple[int, int]:
    found = (path / STUDY_FILE).stat()
    return found.st_ino, found.st_mtime_ns


def _require_same_libraries(there: Mapping[str, str]) -> None:
    here = libraries()
    others = [name for name in there if here.get(name) != there[name]]
    if others:
        told = "; ".join(f"{name} {here.get(name)} instead of {there[name]}" for name in others)
        raise RuntimeError(
            f"run_study: a worker on {this_host()} has {told}; install the same versions on all "
            "machines, or their trials are not those of one study."
        )


@contextmanager
def _sendable_errors(chunk: Chunk) -> Iterator[None]:
    """Say where errors came up, and put those into words that do not survive being sent."""
    try:
        yield
    except Exception as error:
        notes = getattr(error, "__notes__", [])
        if not any(one.startswith(OWN_NOTE) for one in notes):
            error.add_note(f"{OWN_NOTE}{chunk}, on {this_host()}.")
            notes = error.__notes__
        if _survives(error, notes):
            raise
        told = RuntimeError(f"{type(error).__name__}: {error}")
        for note in notes:
            told.add_note(note)
        raise told from error


def _survives(error: Exception, notes: list[str]) -> bool:
    """Whether an error is the same, notes included, once it has been sent."""
    try:
        sent = pickle.loads(pickle.dumps(error))
        return type(sent) is type(error) and getattr(sent, "__notes__", None) == notes
    except Exception:  # whatever its own constructor makes of that
        return False
