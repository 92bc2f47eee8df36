"""A folder that keeps the finished chunks of a study, for a later call or another process.

It holds `study.json`, which says what the study is, and a file per finished chunk. Files appear
under their names only once they are complete. Whoever computes a chunk holds its lock meanwhile.
"""

from __future__ import annotations

import errno
import hashlib
import json
import shutil
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np

from botorch_tv.identity import Description
from botorch_tv.identity.versions import own_versions, together
from botorch_tv.simulation.chunk_files import MADE_WITH, ChunkFormat, Damaged, OfAnotherStudy
from botorch_tv.simulation.cut import Chunk, Cut
from botorch_tv.simulation.layout import ResultLayout
from botorch_tv.simulation.locks import LIFELESS_SECONDS, WorkLock
from botorch_tv.simulation.records import Arrays
from botorch_tv.simulation.study_file import STUDY_FILE, StudyFile, write_study_file

LOCKS = "locks"
RESULTS = "result-*.nc"
"""Names of results that memory does not hold."""
ADDED = "added"
"""How the names of folders begin that keep strategies added later."""


class StudyFolder:
    """The folder of one study; see :meth:`open`.

    Attributes:
        path: The folder.
        cut: How the study in it is computed.
        files: What its chunks look like.
    """

    def __init__(self, path: Path, cut: Cut, files: ChunkFormat) -> None:
        self.path, self.cut, self.files = path, cut, files
        self._reported: set[Path] = set()
        self._locks: dict[Chunk, WorkLock] = {}
        self._made_with: dict[str, list[Chunk]] = {}

    @classmethod
    def open(
        cls,
        path: Path,
        study: Mapping[str, Description],
        cut: Callable[[], Cut],
        *,
        layout: ResultLayout,
        chunk: int | None,
    ) -> StudyFolder:
        """The folder of a study, made if there is none yet.

        Args:
            path: The folder.
            study: The description of the study.
            cut: Says how to compute it if it is new; a study found keeps its own.
            layout: What is recorded.
            chunk: Trials that must run together; None if that is left to the folder.

        Raises:
            ValueError: If another study is in the folder, naming every difference, or its
                description is damaged or missing.
            OSError: If the folder cannot be made or written.
        """
        study = json.loads(json.dumps(study))
        cls.create(path, study, cut)
        with _told(path):
            found = StudyFile.read(path / STUDY_FILE)
        found.require_same(study, chunk, path)
        return cls(path, found.cut, found.chunk_format(layout))

    @staticmethod
    def create(path: Path, study: Mapping[str, Description], cut: Callable[[], Cut]) -> None:
        """Make the folder of a study, unless there is one; arguments are those of :meth:`open`.

        Raises:
            ValueError: If there are chunks without a description.
            OSError: If the folder cannot be made or written.
        """
        file = path / STUDY_FILE
        with _told(path):
            path.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                _refuse_orphans(path)
                write_study_file(file, study, cut())  # unless another process does so first

    def find(self, chunk: Chunk) -> Arrays | None:
        """A finished chunk.

        Args:
            chunk: Its trials, which may be fewer than the file holds.

        Returns:
            The variables of these trials; None if the chunk is missing, shorter or damaged, of
            which the last is told in a warning, or has averages over more trials.

        Raises:
            ValueError: If the file belongs to another study.
        """
        file = self._file(chunk)
        try:
            arrays = self.files.read(file, chunk.first)
        except Damaged as error:
            if file not in self._reported:
                self._reported.add(file)
                warnings.warn(
                    f"{file} is damaged ({error}); its trials are computed again.", stacklevel=2
                )
            return None
        except OfAnotherStudy:
            raise ValueError(
                f"{file} belongs to another study than {STUDY_FILE} beside it; give another "
                "folder, or restore that file."
            ) from None
        if arrays is None:
            return None
        made_with, held = str(arrays.pop(MADE_WITH)), arrays["regret"].shape[1]
        if held < chunk.trials or (held > chunk.trials and self.files.layout.averaged):
            return None
        self._made_with.setdefault(made_with, []).append(chunk)
        if held == chunk.trials:
            return arrays
        return {name: array[:, : chunk.trials] for name, array in arrays.items()}

    def require_room(self, chunks: Iterable[Chunk], besides: int = 0) -> None:
        """Refuse to begin chunks for which there is no room.

        Args:
            chunks: Those still to be played.
            besides: Bytes that are written besides.

        Raises:
            OSError: If the disk has less room than their files will take.
        """
        files = self.files
        each = [files.layout.bytes_of(chunk.trials, files.strategies) for chunk in chunks]
        require_disk(self.path, sum(each) + besides)

    def keep(self, chunk: Chunk, arrays: Arrays, made_with: str | None = None) -> None:
        """Write a finished chunk, unless more of its trials are there; its lock must be held.

        Args:
            chunk: Its trials.
            arrays: Their variables.
            made_with: Versions that computed them, as :meth:`made_with` tells; those of this
                process unless given.

        Raises:
            OSError: If it cannot be written; nothing else in the folder has changed.
        """
        file, made_with = self._file(chunk), made_with or own_versions()
        with suppress(Damaged):
            found = self.files.read(file, chunk.first)
            if found is not None and found["regret"].shape[1] > chunk.trials:
                return
        try:
            self.files.write(file, chunk.first, {**arrays, MADE_WITH: np.array(made_with)})
            self._made_with.setdefault(made_with, []).append(chunk)
        except OSError as error:
            raise OSError(
                f"{file} could not be written ({error.strerror or error}). The chunks finished "
                "before are intact: make room, and the same study goes on from them."
            ) from error

    @contextmanager
    def claim(self, chunk: Chunk) -> Iterator[bool]:
        """Hold the lock of a chunk, unless another process does.

        Yields:
            Whether it is held.

        Raises:
            OSError: If nothing can be written in the folder.
        """
        lock = self._lock(chunk)
        with _told(self.path):
            mine = lock.claim()
        try:
            yield mine
        finally:
            if mine:
                lock.release()
                del self._locks[chunk]

    def waited_for(self, chunk: Chunk) -> str:
        """Who computes a chunk that is waited for, and what will come of it, in words."""
        lock = self._lock(chunk)
        return (
            f"waiting for {chunk}, which {lock.holder() or 'another process'}, computes. They "
            f"are computed here once it has given no sign of life for {LIFELESS_SECONDS:g} s; if "
            f"you know that it is gone, delete {lock.path} to have them begun at once."
        )

    def _lock(self, chunk: Chunk) -> WorkLock:
        """The lock of a chunk; kept while it is waited for, since it counts signs of life."""
        if chunk not in self._locks:
            locks = self.path / LOCKS
            with _told(self.path):
                locks.mkdir(exist_ok=True)
            self._locks[chunk] = WorkLock(locks / f"{self._name(chunk)}.lock")
        return self._locks[chunk]

    def made_with(self, chunk: Chunk) -> str:
        """Versions, as JSON, that computed a chunk which was found or kept."""
        return next(text for text, chunks in self._made_with.items() if chunk in chunks)

    def versions(self) -> dict[str, str]:
        """Versions of the libraries that the chunks found and kept were computed with.

        Where there are several of one, they are told one after the other, and in a warning.
        """
        made_with = {text: json.loads(text) for text in sorted(self._made_with)}
        if len(made_with) > 1:
            told = "; ".join(
                f"{_trials(self._made_with[text])} with "
                + ", ".join(f"{name} {version}" for name, version in one.items())
                for text, one in made_with.items()
            )
            warnings.warn(
                f"save_to={self.path} holds trials computed with different versions: {told}. They "
                "may differ by rounding, or by what has changed between these. For a study made "
                "with one version, run it in another folder, or delete the chunks of the other.",
                stacklevel=3,
            )
        return together(made_with.values())

    def _name(self, chunk: Chunk) -> str:
        return f"chunk-{chunk.first // self.cut.chunk:05}"

    def _file(self, chunk: Chunk) -> Path:
        return self.path / f"{self._name(chunk)}.npz"


def result_file(path: Path, study: Mapping[str, Description], trials: int) -> Path:
    """Where a folder keeps a result that memory does not hold; another one has another name."""
    whole = json.dumps([study, trials], sort_keys=True)
    return path / RESULTS.replace("*", hashlib.sha256(whole.encode()).hexdigest()[:12])


def discard_results(path: Path, but: Path) -> None:
    """Remove results of a folder, but one, which are out of date."""
    for file in path.glob(RESULTS):
        if file != but:
            with suppress(OSError):
                file.unlink()


def require_disk(path: Path, needed: int) -> None:
    """Refuse a study for which there is no room.

    Args:
        path: Its folder, which may not be there yet.
        needed: Bytes that it takes.

    Raises:
        OSError: If the disk has less.
    """
    with _told(path):
        free = shutil.disk_usage(next(one for one in (path, *path.parents) if one.exists())).free
    if needed > free:
        raise OSError(
            errno.ENOSPC,
            f"save_to={path} has room for {free / 1e9:.3g} GB, but the trials still to be "
            f"played take {needed / 1e9:.3g} GB; make room, give another folder, or run fewer "
            "trials or rounds.",
        )


def discard(path: Path, trials: int) -> None:
    """Remove the folder of a study that is done, and nothing in it that no study has written.

    Args:
        path: The folder; it need not exist.
        trials: Trials that are no longer needed; a folder that holds more is left as it is.
    """
    for added in path.glob(f"{ADDED}-*"):
        discard(added, trials)
    file = path / STUDY_FILE
    if file.exists():
        needed = len(StudyFile.read(file).cut.chunks(trials))
        if len(list(path.glob("chunk-*.npz"))) > needed:
            return
    for pattern in (
        "chunk-*.npz",
        RESULTS,
        ".*.part",
        f"{LOCKS}/*.lock",
        f"{LOCKS}/.*.part",
        STUDY_FILE,
    ):
        for one in path.glob(pattern):
            one.unlink(missing_ok=True)
    for folder in (path / LOCKS, path):
        with suppress(OSError):  # something else is in it, or it is gone
            folder.rmdir()


def _trials(chunks: list[Chunk]) -> str:
    """Numbers of the trials of some chunks, those next to each other as one range."""
    ranges: list[list[int]] = []
    for first, trials in sorted(set(chunks)):
        if ranges and first == ranges[-1][1] + 1:
            ranges[-1][1] = first + trials - 1
        else:
            ranges.append([first, first + trials - 1])
    return "trials " + ", ".join(f"{first} to {last}" for first, last in ranges)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Say which folder is the matter when a file in it cannot be read or written."""
    try:
        yield
    except OSError as error:
        raise OSError(
            f"save_to={path} cannot be used as the folder of a study ({error.strerror or error}); "
            "give a folder that can be made and written."
        ) from error


def _refuse_orphans(path: Path) -> None:
    if any(path.glob("chunk-*.npz")):
        raise ValueError(
            f"save_to={path} holds chunks of a study, but not its {STUDY_FILE}; restore that file, "
            "or give another folder."
        )
