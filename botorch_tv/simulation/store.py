"""A folder that stores a study: a file for every block of trials of every strategy.

    study.json                     common settings, and the number of trials in a block
    ET-GP-UCB/strategy.json        settings of the strategy ET-GP-UCB
    ET-GP-UCB/0000050-50.npz       trials 50 to 99 of this strategy

A block that has a file is not computed again. Files are written atomically and checked when they
are read. If several processes compute the same block, each of their results is valid. Locks only
avoid duplicate work.
"""

from __future__ import annotations

import errno
import hashlib
import io
import json
import shutil
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any
from urllib.parse import quote

import numpy as np
import xarray as xr
from filelock import FileLock, Timeout
from xarray.backends import BackendArray
from xarray.core import indexing

from botorch_tv.files import write_new, write_whole
from botorch_tv.identity import differences, libraries, require_format
from botorch_tv.simulation.datasets import BlockMoments
from botorch_tv.simulation.settings import Arrays, StudySettings, error_of, scatter_of
from botorch_tv.validation import noted, require

FORMAT = 5
"""Number of the format of folders; it increases if studies in older folders cannot be resumed."""
STUDY, STRATEGY, LOCKS = "study.json", "strategy.json", ".locks"
POLL_SECONDS = 0.2
"""Time in seconds between two attempts to acquire a lock."""
NO_LOCKS = (errno.ENOSYS, errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EINVAL)
"""Error numbers (errno) of the errors that file systems without locks raise."""


class Store:
    """The folder of a study; it is created if it does not exist.

    A block of a strategy consists of arrays. The array ``made_with`` states, as JSON, which
    versions of libraries computed the block.

    Args:
        path: The folder.
        settings: The settings of the study.
        chunk: Number of trials that run together; None for the number stored in the folder.
        choose: A function that returns the number of trials that run together; it is called for a
            new folder.

    Raises:
        ValueError: If the folder has another study (the message names every difference), or a
            damaged description.
        OSError: If the folder cannot be made or written.
    """

    def __init__(
        self, path: Path, settings: StudySettings, chunk: int | None, choose: Callable[[], int]
    ) -> None:
        study = json.loads(json.dumps(settings.description()))
        strategies = study.pop("strategies")
        path.mkdir(parents=True, exist_ok=True)
        if not (path / STUDY).exists():
            _write(path / STUDY, {"study": study, "chunk": chunk or choose()})
        there = _read(path / STUDY)
        unlike = differences(there["study"], study)
        if chunk is not None:
            unlike += differences(there["chunk"], chunk, "chunk")
        found = {file.parent: _read(file) for file in sorted(path.glob(f"*/{STRATEGY}"))}
        folders = {label: path / _escaped(label) for label in strategies}
        for label, folder in folders.items():
            if folder in found:
                there_too = found[folder]["strategy"]
                unlike += differences(there_too, strategies[label], f"strategies.{label}")
        if unlike:
            raise ValueError(
                f"save_to={path} holds another study: {'; '.join(unlike)}. Give another "
                "folder or the settings and versions found there, or remove this folder."
            )
        labels = [description["label"] for description in found.values()]
        others = [label for label in labels if label not in strategies]
        if others:
            warnings.warn(
                f"save_to={path} also holds {', '.join(others)}, which this call omits; "
                "their trials stay there. Labels identify strategies: under a new label a "
                "strategy is computed again, with other random numbers.",
                stacklevel=4,
            )
        for label, folder in folders.items():
            if folder not in found:
                folder.mkdir(exist_ok=True)
                _write(folder / STRATEGY, {"label": label, "strategy": strategies[label]})
                found[folder] = _read(folder / STRATEGY)  # perhaps written by another process
                if differences(found[folder]["strategy"], strategies[label]):
                    raise ValueError(f"{folder} has just been made by another study.")
        self.path, self.settings, self.chunk = path.resolve(), settings, there["chunk"]
        # ``_digests`` identify the settings of the study and of each strategy. ``_mark``
        # distinguishes the folder from other folders.
        self._digests = {
            label: _sha256([FORMAT, there["study"], found[folder]])
            for label, folder in folders.items()
        }
        self._mark = hashlib.sha256((path / STUDY).read_bytes()).hexdigest()

    def is_here(self) -> bool:
        """Whether this machine has access to the folder."""
        with suppress(OSError):
            return hashlib.sha256((self.path / STUDY).read_bytes()).hexdigest() == self._mark
        return False

    def find(self, labels: Iterable[str], chunk: range, *, warn: bool = False) -> dict[str, Arrays]:
        """The finished blocks of some strategies, by label, without damaged blocks.

        Args:
            labels: The labels of the strategies.
            chunk: The trial numbers of the block, such as ``range(50, 100)``.
            warn: Whether to warn that a damaged block is computed again.

        Raises:
            ValueError: If a file belongs to another study.
        """
        found = {}
        for label in labels:
            for file in self._files(label, chunk):
                try:
                    found[label] = self._checked(file, label, chunk)
                    break
                except FileNotFoundError:
                    continue
                except _Damaged as error:
                    message = f"{file} is damaged ({error}); its trials are computed again."
                    if warn:
                        warnings.warn(message, stacklevel=4)
        return found

    def save(self, label: str, chunk: range, block: Arrays) -> None:
        """Write a finished block; an older file is replaced only after the new file is complete.

        Raises:
            OSError: If the file cannot be written; the other files in the folder are then
                unchanged.
        """
        packed = io.BytesIO()
        # The block is serialised in memory, because a zip file on a full disk raises a second error
        # when it is closed.
        members: dict[str, Any] = {**block, "study": self._digests[label], "first": chunk.start}
        np.savez(packed, **members)
        file = next(self._files(label, chunk))
        with noted(
            f"run_study: {file} could not be written. Blocks finished earlier are intact: free "
            "some space, and repeat the call, which resumes from these blocks."
        ):
            write_whole(file, lambda opened: opened.write(packed.getbuffer()))

    @contextmanager
    def claim(self, chunk: range, patience: float, stop: Event) -> Iterator[bool]:
        """Hold the lock of a block, if the file system has locks.

        Args:
            chunk: The trial numbers of the block, such as ``range(50, 100)``.
            patience: Number of seconds to wait if another process holds the lock.
            stop: An event; if it is set, the wait ends.

        Yields:
            Whether this process is to compute the block; False if another process is computing the
            block.

        Raises:
            OSError: If the folder cannot be written.
        """
        folder, deadline = self.path / LOCKS, time.monotonic() + patience
        folder.mkdir(exist_ok=True)
        lock, free = FileLock(folder / f"{chunk.start:07}.lock"), True
        while not lock.is_locked and free:
            try:
                lock.acquire(blocking=False)
            except Timeout:
                free = time.monotonic() < deadline and not stop.wait(POLL_SECONDS)
            except NotImplementedError:
                break
            except OSError as error:
                if error.errno not in NO_LOCKS:
                    raise
                break
        try:
            yield free
        finally:
            if lock.is_locked:
                with suppress(OSError):
                    Path(lock.lock_file).unlink()
                lock.release()

    def require_space(self, needed: int) -> None:
        """Check that the disk has enough space for the blocks that are still to be written.

        Args:
            needed: Size in bytes of all blocks that are still to be written.

        Raises:
            OSError: If the disk has less free space than ``needed``.
        """
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise OSError(
                f"save_to={self.path} has {free / 1e9:.3g} GB of free space, but the remaining "
                f"trials take {needed / 1e9:.3g} GB; free some space, give another folder, or run "
                "fewer trials or rounds."
            )

    def read(self, name: str, label: str, chunk: range) -> np.ndarray:
        """The values of a variable in a finished block.

        Raises:
            FileNotFoundError: If the block has no file any more.
            ValueError: If the file of the block is damaged.
        """
        for file in filter(Path.exists, self._files(label, chunk)):
            try:
                with np.load(file, allow_pickle=False) as archive:
                    whole: np.ndarray = archive[name]  # zipfile checks the checksum
            except Exception as error:
                raise ValueError(f"{file} is damaged; run the study again.") from error
            return whole[: len(chunk)]
        raise FileNotFoundError(f"{next(self._files(label, chunk))} is gone; run the study again.")

    def _files(self, label: str, chunk: range) -> Iterator[Path]:
        """The file of a block, and the files of larger blocks that contain it."""
        folder = self.path / _escaped(label)
        yield folder / f"{chunk.start:07}-{len(chunk)}.npz"
        if len(chunk) < self.chunk and not self.settings.averaged:
            sizes = [_numbers(file)[1] for file in folder.glob(f"{chunk.start:07}-*.npz")]
            larger = sorted(size for size in sizes if size > len(chunk))
            yield from (folder / f"{chunk.start:07}-{size}.npz" for size in larger)

    def _checked(self, file: Path, label: str, chunk: range) -> Arrays:
        """Read a file and check every byte of its data.

        Raises:
            _Damaged: If the file is truncated or changed.
            ValueError: If the settings of the file differ from the settings of this study.
            OSError: If the file cannot be read.
        """
        packed = io.BytesIO(file.read_bytes())
        try:
            with np.load(packed, allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}  # compares checksums
            study, made_with = str(found.pop("study")), found.pop("made_with")
            first, trials = int(found.pop("first")), len(found["regret"])
        except Exception as error:  # damaged files cause errors of many types
            raise _Damaged(f"{type(error).__name__}: {error}") from error
        if study != self._digests[label]:
            raise ValueError(
                f"{file} belongs to another study than the {STUDY} and {STRATEGY} of its folder; "
                "give another folder, or restore these files."
            )
        shapes = {name: (array.shape, array.dtype) for name, array in found.items()}
        if first != chunk.start or trials < len(chunk) or shapes != self.settings.shapes(trials):
            raise _Damaged(f"the file has {trials} trials from number {first} on")
        cut = {name: found[name][: len(chunk)] for name in self.settings.every_round}
        return found | cut | {"made_with": made_with}


class _Damaged(Exception):
    """A truncated or changed file."""


def discard(path: Path, trials: int) -> None:
    """Remove the files of a finished study, and its folder if it has no other files.

    Args:
        path: The folder; it need not exist.
        trials: Number of trials of the finished study; a folder with more trials stays unchanged.
    """
    folders = [file.parent for file in path.glob(f"*/{STRATEGY}")]
    written = [file for folder in folders for file in folder.glob("[0-9]*-[0-9]*.npz")]
    if any(sum(_numbers(file)) > trials for file in written):
        return
    for folder in (*folders, path / LOCKS, path):
        unfinished = [*folder.glob(".*.part"), *folder.glob("*.lock")]
        for file in (*written, *unfinished, folder / STRATEGY, folder / STUDY):
            file.unlink(missing_ok=True)
        with suppress(OSError):  # the folder is not empty, or does not exist
            folder.rmdir()


# ---------------------------------------------------------------- the result


class Gathered:
    """Collects the result of a study, block by block.

    Args:
        settings: The settings of the study.
        trials: Number of trials.
        store: The folder in which the blocks stay if they do not fit into memory; None if they fit.
    """

    def __init__(self, settings: StudySettings, trials: int, store: Store | None) -> None:
        self._settings, self._trials, self._store = settings, trials, store
        self._labels = list(settings.strategies)
        self._arrays = {
            name: np.empty((len(self._labels), *shape), kind)
            for name, (shape, kind) in settings.shapes(trials).items()
            if store is None and name in settings.every_round
        }
        self._averages: dict[tuple[str, str], dict[int, BlockMoments]] = {}
        self._taken: dict[range, set[str]] = {}
        self._finished: list[int] = []
        self.made_with: set[str] = set()

    def take(self, label: str, chunk: range, block: Arrays) -> None:
        """Add a block; the order of blocks does not matter, and any thread may call this method."""
        row = self._labels.index(label)
        for name, array in self._arrays.items():
            array[row, chunk.start : chunk.stop] = block[name]
        for name in self._settings.averaged:
            mean, scatter = block[name], block[scatter_of(name)]
            moments = BlockMoments(np.full(mean.shape, len(chunk)), mean, scatter)
            self._averages.setdefault((name, label), {})[chunk.start] = moments
        self.made_with.add(str(block["made_with"]))
        taken = self._taken.setdefault(chunk, set())
        taken.add(label)
        if len(taken) == len(self._labels):
            self._finished.append(len(chunk))

    def finished(self) -> int:
        """Number of trials that all strategies have finished."""
        return sum(self._finished)

    def dataset(self) -> xr.Dataset:
        """The dataset of all trials; call this method after the last block."""
        empty = self._settings.empty
        data = empty.drop_dims("trial").copy(deep=True)
        data = data.assign_coords(trial=np.arange(self._trials))
        for name in self._settings.every_round:
            array: Any = self._arrays.get(name)
            if self._store is not None:
                stored = _Stored(self._store, name, self._labels, self._trials)
                array = indexing.LazilyIndexedArray(stored)
            data[name] = xr.Variable(empty[name].dims, array)
        for (name, label), blocks in self._averages.items():
            # Blocks are completed in any order. They are combined in the order of trials, because
            # rounding depends on the order.
            whole = BlockMoments.together(blocks[first] for first in sorted(blocks))
            row = self._labels.index(label)
            data[name].values[row], data[error_of(name)].values[row] = whole.mean, whole.error
        return data


class _Stored(BackendArray):
    """A variable of all strategies and trials, read from the files of blocks on demand."""

    def __init__(self, store: Store, name: str, labels: list[str], trials: int) -> None:
        (_, *rest), self.dtype = store.settings.shapes(trials)[name]
        self.shape = (len(labels), trials, *rest)
        self._store, self._name, self._labels = store, name, labels

    def __getitem__(self, key: indexing.ExplicitIndexer) -> Any:
        basic = indexing.IndexingSupport.BASIC
        return indexing.explicit_indexing_adapter(key, self.shape, basic, self._read)

    def _read(self, key: tuple[Any, ...]) -> np.ndarray:
        strategy, trial, *inner = key
        rows = np.atleast_1d(np.arange(self.shape[0])[strategy])
        numbers = np.atleast_1d(np.arange(self.shape[1])[trial])
        found = np.empty((len(rows), len(numbers), *self.shape[2:]), self.dtype)
        size = self._store.chunk
        for first in np.unique(numbers // size * size).tolist():
            chunk = range(first, min(first + size, self.shape[1]))
            inside = (numbers >= first) & (numbers < first + size)
            for place, row in enumerate(rows):
                block = self._store.read(self._name, self._labels[row], chunk)
                found[place, inside] = block[numbers[inside] - first]
        # If an index is an integer and not a slice, its dimension is removed.
        outer = [slice(None) if isinstance(index, slice) else 0 for index in (strategy, trial)]
        return found[(*outer, *inner)]


# ---------------------------------------------------------------- files


def _escaped(label: str) -> str:
    """The name of the folder for a label."""
    name = quote(label, safe=" ()+,=")
    name = f"%2E{name[1:]}" if name.startswith(".") else name
    return name if len(name) <= 100 else f"{name[:80]}-{_sha256(label)[:16]}"


def _numbers(file: Path) -> tuple[int, int]:
    """The first trial and the number of trials in the name of a block."""
    first, trials = file.stem.split("-")
    return int(first), int(trials)


def _sha256(content: object) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _write(file: Path, content: Mapping[str, Any]) -> None:
    """Write the description of a study or strategy, atomically, unless the file exists."""
    made = {"made_with": libraries(), "created": datetime.now(UTC).isoformat(timespec="seconds")}
    whole = {"format": FORMAT, "sha256": _sha256(content), "content": content, **made}
    write_new(file, lambda opened: opened.write(json.dumps(whole, indent=2).encode()))


def _read(file: Path) -> dict[str, Any]:
    """Read the description of a study or strategy.

    Raises:
        ValueError: If the file is damaged, or has another format.
        OSError: If the file cannot be read.
    """
    try:
        whole = json.loads(file.read_bytes())
        number, made_with, content = whole["format"], dict(whole["made_with"]), whole["content"]
        intact = whole["sha256"] == _sha256(content)
    except (ValueError, LookupError, TypeError, RecursionError):
        intact = False
    require(
        intact,
        f"{file} is damaged. Restore this file from a copy to resume the study from the blocks in "
        "its folder, or give another folder.",
    )
    require_format(str(file), number, FORMAT, made_with, "give another folder.")
    return dict(content)
