"""A folder that keeps the finished chunks of a study, for a later call or another process.

It holds `study.json`, which says what the study is, and a file per finished chunk. Files appear
under their names only once they are complete. Whoever computes a chunk holds its lock meanwhile;
the operating system releases the locks of a process that dies.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    from filelock import FileLock, Timeout
except ImportError as error:
    raise ImportError(
        f"save_to needs {error.name}, which is not installed: pip install 'botorch-tv[study]'"
    ) from error

from botorch_tv.simulation.chunk_files import ChunkFormat, Damaged, OfAnotherStudy
from botorch_tv.simulation.cut import Chunk, Cut
from botorch_tv.simulation.identity import Description
from botorch_tv.simulation.records import MAPS, Arrays
from botorch_tv.simulation.study_file import STUDY_FILE, StudyFile, write_study_file

LOCKS = "locks"


class StudyFolder:
    """The folder of one study; see :meth:`open`.

    Attributes:
        path: The folder.
        cut: How the study in it is computed.
    """

    def __init__(self, path: Path, cut: Cut, layout: ChunkFormat) -> None:
        self.path, self.cut = path, cut
        self._layout = layout
        self._reported: set[Path] = set()

    @classmethod
    def open(
        cls,
        path: Path,
        study: Mapping[str, Description],
        cut: Callable[[], Cut],
        *,
        chunk: int | None,
    ) -> StudyFolder:
        """The folder of a study, made if there is none yet.

        Args:
            path: The folder.
            study: The description of the study.
            cut: Says how to compute it if it is new; a study found keeps its own.
            chunk: Trials that must run together; None if that is left to the folder.

        Raises:
            ValueError: If another study is in the folder, naming every difference, or its
                description is damaged or missing.
            OSError: If the folder cannot be made or written.
        """
        study = json.loads(json.dumps(study))
        file = path / STUDY_FILE
        with _told(path):
            path.mkdir(parents=True, exist_ok=True)
            if not file.exists():
                with _lock(path, "study"):
                    if not file.exists():
                        _refuse_orphans(path)
                        write_study_file(file, study, cut())
            found = StudyFile.read(file)
        found.require_same(study, chunk, path)
        return cls(path, found.cut, found.chunk_format())

    def find(self, chunk: Chunk) -> Arrays | None:
        """A finished chunk.

        Args:
            chunk: Its trials, which may be fewer than the file holds.

        Returns:
            The variables of these trials; None if the chunk is missing, shorter or damaged, of
            which the last is told in a warning, or has maps, which are sums, over more trials.

        Raises:
            ValueError: If the file belongs to another study.
        """
        file = self._file(chunk)
        try:
            arrays = self._layout.read(file, chunk.first)
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
        held = 0 if arrays is None else arrays["regret"].shape[1]
        if arrays is None or held < chunk.trials:
            return None
        if held == chunk.trials:
            return arrays
        if any(name in arrays for name in MAPS):
            return None
        return {name: array[:, : chunk.trials] for name, array in arrays.items()}

    def keep(self, chunk: Chunk, arrays: Arrays) -> None:
        """Write a finished chunk, unless more of its trials are there; its lock must be held.

        Raises:
            OSError: If it cannot be written; nothing else in the folder has changed.
        """
        file = self._file(chunk)
        with suppress(Damaged):
            found = self._layout.read(file, chunk.first)
            if found is not None and found["regret"].shape[1] > chunk.trials:
                return
        try:
            self._layout.write(file, chunk.first, arrays)
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
        with _told(self.path):
            lock = _lock(self.path, self._name(chunk))
            with suppress(Timeout):
                lock.acquire(blocking=False)
        try:
            yield lock.is_locked
        finally:
            lock.release()

    def _name(self, chunk: Chunk) -> str:
        return f"chunk-{chunk.first // self.cut.chunk:05}"

    def _file(self, chunk: Chunk) -> Path:
        return self.path / f"{self._name(chunk)}.npz"


def discard(path: Path, trials: int) -> None:
    """Remove the folder of a study that is done, and nothing in it that no study has written.

    Args:
        path: The folder; it need not exist.
        trials: Trials that are no longer needed; a folder that holds more is left as it is.
    """
    file = path / STUDY_FILE
    if file.exists():
        needed = len(StudyFile.read(file).cut.chunks(trials))
        if len(list(path.glob("chunk-*.npz"))) > needed:
            return
    for pattern in ("chunk-*.npz", ".*.part", f"{LOCKS}/*.lock", STUDY_FILE):
        for one in path.glob(pattern):
            one.unlink(missing_ok=True)
    for folder in (path / LOCKS, path):
        with suppress(OSError):  # something else is in it, or it is gone
            folder.rmdir()


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


def _lock(folder: Path, name: str) -> FileLock:
    locks = folder / LOCKS
    locks.mkdir(exist_ok=True)
    return FileLock(locks / f"{name}.lock")


def _refuse_orphans(path: Path) -> None:
    if any(path.glob("chunk-*.npz")):
        raise ValueError(
            f"save_to={path} holds chunks of a study, but not its {STUDY_FILE}; restore that file, "
            "or give another folder."
        )
