"""A folder that keeps the finished chunks of a study, for a later call or another process.

It holds `study.json`, the description of the study, and a file per finished chunk. Files are
written atomically. A process holds the lock of a chunk while it computes that chunk.
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
"""Names of results that are too large for memory."""
ADDED = "added"
"""Prefix of the subfolders for strategies added later."""


class StudyFolder:
    """The folder of one study; see :meth:`open`.

    Attributes:
        path: The folder.
        cut: How its study is computed.
        files: The format of its chunks.
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
        """The folder of a study, created if missing.

        Args:
            path: The folder.
            study: The description of the study.
            cut: Makes the cut of a new study; an existing study keeps its own.
            layout: What is recorded.
            chunk: Trials that must run together; None accepts the folder's number.

        Raises:
            ValueError: If the folder holds another study, naming every difference, or its
                description is damaged or missing.
            OSError: If the folder cannot be made or written.
        """
        study = json.loads(json.dumps(study))
        cls.create(path, study, cut)
        with _folder_errors(path):
            found = StudyFile.read(path / STUDY_FILE)
        found.require_same(study, chunk, path)
        return cls(path, found.cut, found.chunk_format(layout))

    @staticmethod
    def create(path: Path, study: Mapping[str, Description], cut: Callable[[], Cut]) -> None:
        """Create the folder of a study, unless it exists; the arguments are those of :meth:`open`.

        Raises:
            ValueError: If there are chunks without a description.
            OSError: If the folder cannot be made or written.
        """
        file = path / STUDY_FILE
        with _folder_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                _refuse_orphans(path)
                write_study_file(file, study, cut())  # unless another process does so first

    def find(self, chunk: Chunk) -> Arrays | None:
        """Read a finished chunk.

        Args:
            chunk: Its trials, which may be fewer than the file holds.

        Returns:
            The variables of these trials. None if the file is missing, has too few trials, has
            averages over more trials, or is damaged, for which a warning is issued.

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
        """Check that the disk has room for more chunks.

        Args:
            chunks: The chunks still to be played.
            besides: Bytes that are written in addition.

        Raises:
            OSError: If the disk has less room than they take.
        """
        files = self.files
        each = [files.layout.bytes_of(chunk.trials, files.strategies) for chunk in chunks]
        require_disk(self.path, sum(each) + besides)

    def keep(self, chunk: Chunk, arrays: Arrays, made_with: str | None = None) -> None:
        """Write a finished chunk, unless its file has more trials; the caller holds its lock.

        Args:
            chunk: Its trials.
            arrays: Their variables.
            made_with: The versions that computed them, as :meth:`made_with` returns them; those of
                this process by default.

        Raises:
            OSError: If it cannot be written; the rest of the folder is unchanged.
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
                "before are intact: make room, and the same call resumes from them."
            ) from error

    @contextmanager
    def claim(self, chunk: Chunk) -> Iterator[bool]:
        """Try to hold the lock of a chunk.

        Yields:
            Whether this process holds it; False if another one does.

        Raises:
            OSError: If nothing can be written in the folder.
        """
        lock = self._lock(chunk)
        with _folder_errors(self.path):
            mine = lock.claim()
        try:
            yield mine
        finally:
            if mine:
                lock.release()
                del self._locks[chunk]

    def waited_for(self, chunk: Chunk) -> str:
        """A message that says which process is computing a chunk, and what happens next."""
        lock = self._lock(chunk)
        return (
            f"waiting for {chunk}, computed by {lock.holder() or 'another process'}. If that gives "
            f"no sign of life for {LIFELESS_SECONDS:g} s, they are computed here; if you know that "
            f"it has ended, delete {lock.path} to start them at once."
        )

    def _lock(self, chunk: Chunk) -> WorkLock:
        """The lock of a chunk; kept while waiting, because it tracks the holder's heartbeat."""
        if chunk not in self._locks:
            locks = self.path / LOCKS
            with _folder_errors(self.path):
                locks.mkdir(exist_ok=True)
            self._locks[chunk] = WorkLock(locks / f"{self._name(chunk)}.lock")
        return self._locks[chunk]

    def made_with(self, chunk: Chunk) -> str:
        """The versions, as JSON, that computed a chunk which was found or kept."""
        return next(text for text, chunks in self._made_with.items() if chunk in chunks)

    def versions(self) -> dict[str, str]:
        """The versions of the libraries that computed the chunks found and kept.

        Several versions of one library are joined, and a warning is issued.
        """
        made_with = {text: json.loads(text) for text in sorted(self._made_with)}
        if len(made_with) > 1:
            computed = "; ".join(
                f"{_trials(self._made_with[text])} with "
                + ", ".join(f"{name} {version}" for name, version in one.items())
                for text, one in made_with.items()
            )
            warnings.warn(
                f"save_to={self.path} holds trials computed with different versions: {computed}. "
                "They may differ by rounding, or by changes between the versions. For a study of "
                "one version, run it in another folder, or delete the chunks of the other.",
                stacklevel=3,
            )
        return together(made_with.values())

    def _name(self, chunk: Chunk) -> str:
        return f"chunk-{chunk.first // self.cut.chunk:05}"

    def _file(self, chunk: Chunk) -> Path:
        return self.path / f"{self._name(chunk)}.npz"


def result_file(path: Path, study: Mapping[str, Description], trials: int) -> Path:
    """The file of a folder for a result too large for memory; its name depends on the study."""
    whole = json.dumps([study, trials], sort_keys=True)
    return path / RESULTS.replace("*", hashlib.sha256(whole.encode()).hexdigest()[:12])


def discard_results(path: Path, but: Path) -> None:
    """Remove the results in a folder, except one."""
    for file in path.glob(RESULTS):
        if file != but:
            with suppress(OSError):
                file.unlink()


def require_disk(path: Path, needed: int) -> None:
    """Check that the disk has room for a study.

    Args:
        path: Its folder, which need not exist yet.
        needed: Bytes needed.

    Raises:
        OSError: If fewer bytes are free.
    """
    with _folder_errors(path):
        free = shutil.disk_usage(next(one for one in (path, *path.parents) if one.exists())).free
    if needed > free:
        raise OSError(
            errno.ENOSPC,
            f"save_to={path} has room for {free / 1e9:.3g} GB, but the trials still to be "
            f"played take {needed / 1e9:.3g} GB; make room, give another folder, or run fewer "
            "trials or rounds.",
        )


def discard(path: Path, trials: int) -> None:
    """Remove the folder of a finished study, but no file in it that a study has not written.

    Args:
        path: The folder; it need not exist.
        trials: Trials that are no longer needed; a folder with more trials is left unchanged.
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
        with suppress(OSError):  # it holds other files, or no longer exists
            folder.rmdir()


def _trials(chunks: list[Chunk]) -> str:
    """The trials of some chunks in words, with adjacent chunks joined to one range."""
    ranges: list[list[int]] = []
    for first, trials in sorted(set(chunks)):
        if ranges and first == ranges[-1][1] + 1:
            ranges[-1][1] = first + trials - 1
        else:
            ranges.append([first, first + trials - 1])
    return "trials " + ", ".join(f"{first} to {last}" for first, last in ranges)


@contextmanager
def _folder_errors(path: Path) -> Iterator[None]:
    """Name the folder in errors about reading or writing its files."""
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
