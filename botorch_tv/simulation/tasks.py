"""A chunk of a study as a task for a worker: what it is sent, computes, and sends back."""

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
from botorch_tv.identity.library import library
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
"""Prefix of the notes on errors within a study, as opposed to errors of the executor."""
BEGINNING = threading.Lock()
"""Held while kernels are evaluated, because GPyTorch's settings are shared by all threads."""


class SharedFolder(NamedTuple):
    """The folder of a study, which other machines may see.

    Attributes:
        path: Its absolute path on the calling machine.
        cut: How its study is computed.
        files: The format of its chunks.
        mark: Inode and time of its `study.json`, which distinguish it from a copy.
    """

    path: Path
    cut: Cut
    files: ChunkFormat
    mark: tuple[int, int]

    @classmethod
    def of(cls, folder: StudyFolder) -> SharedFolder:
        """The folder, for other machines."""
        path = folder.path.resolve()
        return cls(path, folder.cut, folder.files, _mark(path))

    def here(self) -> StudyFolder | None:
        """The folder on this machine; None if this path holds another folder, or none."""
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
    """All that a worker needs to play some trials; random numbers depend on their numbers alone.

    Args:
        settings: The study.
        cut: How it is computed.
        chunk: The trials.
        folder: Where they are kept; None if nowhere.
        bring: Whether to send trials back even if the folder keeps them.
        made_with: :func:`libraries` of the calling process.
    """

    settings: StudySettings
    cut: Cut
    chunk: Chunk
    folder: SharedFolder | None
    bring: bool
    made_with: Mapping[str, str]


def play_task(task: Task) -> Played | None:
    """Play the trials of a task, in a worker.

    Returns:
        The trials; None if the folder keeps them, or another process is computing them.

    Raises:
        RuntimeError: If the libraries differ from those of the calling process, or in place of an
            error that cannot be pickled.
        Exception: Any error of a world, a strategy or a recorder, with a note on where it occurred.
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
    """The versions that this process and its workers must share, without local build tags."""
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
        found = "; ".join(f"{name} {here.get(name)} instead of {there[name]}" for name in others)
        raise RuntimeError(
            f"run_study: a worker on {this_host()} has {found}; a study needs the same versions on "
            "all machines; install them."
        )


@contextmanager
def _sendable_errors(chunk: Chunk) -> Iterator[None]:
    """Note where errors occurred, and replace those that cannot be pickled by their text."""
    try:
        yield
    except Exception as error:
        notes = getattr(error, "__notes__", [])
        if not any(one.startswith(OWN_NOTE) for one in notes):
            error.add_note(f"{OWN_NOTE}{chunk}, on {this_host()}.")
            notes = error.__notes__
        if _survives(error, notes):
            raise
        text = RuntimeError(f"{type(error).__name__}: {error}")
        for note in notes:
            text.add_note(note)
        raise text from error


def _survives(error: Exception, notes: list[str]) -> bool:
    """Whether pickling preserves an error and its notes."""
    try:
        sent = pickle.loads(pickle.dumps(error))
        return type(sent) is type(error) and getattr(sent, "__notes__", None) == notes
    except Exception:  # its constructor may raise anything
        return False
