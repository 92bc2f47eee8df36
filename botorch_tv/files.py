"""Write files atomically, lock files, and read tables without ambiguity."""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import secrets
import socket
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from filelock import FileLock

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

ENDING = ".part"
"""Ending of the names of unfinished hidden files, which are renamed once complete."""
POSIX = os.name == "posix"
GAPS = {"", "na", "n/a", "nan", "none", "null"}
"""Cells that mean a missing value, in lower case."""
SEPARATED = "may have a thousands separator; write all numbers with a decimal point alone."


def require_regular(path: Path) -> None:
    """Raise a ``ValueError`` if a path is a folder, a device or a pipe."""
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a device or a pipe"
        raise ValueError(f"{path} is {kind}, but it must be a regular file; give another path.")


def read_cells(path: Path) -> pd.DataFrame:
    """The cells of a text table, indexed by line number; decimal commas become points.

    Commas, semicolons or tabs separate cells; a file may be compressed by gzip. Empty lines are
    dropped, and missing cells at the end of a line are empty.

    Raises:
        ValueError: If the file is not a table, or if a comma or point in a number may be a
            thousands separator.
    """
    import pandas as pd

    require_regular(path)
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as opened:
            text = opened.read()
        header = text.partition("\n")[0]
        separator = next((mark for mark in ";\t" if mark in header), ",")
        cells = pd.read_csv(
            io.StringIO(text),
            sep=separator,
            header=None,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
        )
    except (EOFError, OSError, ValueError) as error:
        raise ValueError(
            f"{path.name} is not a table ({error}); give a CSV file in UTF-8."
        ) from error
    cells = cells.fillna("").map(str.strip)
    cells.index += 1
    cells = cells[(cells != "").any(axis=1)]
    if not len(cells):
        raise ValueError(f"{path.name} is empty; give a header and rows.")
    if separator == ",":
        return cells
    comma, point = (rf"[+-]?\d*{mark}\d+(?:[eE][+-]?\d+)?" for mark in (",", r"\."))
    thousands = r"[+-]?\d{1,3}(?:\.\d{3})+,\d*"
    every = pd.Series(cells.stack().droplevel(1))
    commas = every.str.fullmatch(comma).any()
    refused = every[every.str.fullmatch(f"{thousands}|{point}" if commas else thousands)]
    refuse_cells(path.name, refused, SEPARATED)
    for column in (cells[place][1:] for place in cells):
        marked = column[column.str.contains("[.,]")]
        alike = marked.str.fullmatch(r"[+-]?[1-9]\d{0,2}[.,]\d{3}").all()
        if alike and (commas or column.str.fullmatch(r"[+-]?\d+").any()):
            refuse_cells(path.name, marked, SEPARATED)
    return cells.map(lambda cell: cell.replace(",", ".") if re.fullmatch(comma, cell) else cell)


def dates_in(cells: list[str]) -> list[np.ndarray]:
    """What dates may mean: ISO dates if valid, otherwise dates with month first or day first."""
    import pandas as pd

    found: list[np.ndarray] = []
    options: tuple[dict[str, Any], ...] = ({"format": "ISO8601"}, {}, {"dayfirst": True})
    for option in options:
        with warnings.catch_warnings(), suppress(ValueError, OverflowError):
            warnings.simplefilter("ignore", UserWarning)  # pandas warns when it guesses a format
            times = pd.to_datetime(cells, utc=True, **option).tz_convert(None).to_numpy()
            if "format" in option:
                return [times]
            if not found or (found[0] != times).any():
                found.append(times)
    return found


def refuse_cells(file: str, wrong: pd.Series, why: str) -> None:
    """Raise a ``ValueError`` for the first wrong cell, if any is wrong; cells are indexed by line.

    Raises:
        ValueError: If ``wrong`` has a cell.
    """
    for line, cell in wrong.items():
        raise ValueError(f"{file} line {line}: {cell!r} {why}")


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file atomically: it appears under its name only after it is complete and on the disk.

    If several processes write the same file at once, the file then contains the data of exactly one
    process.

    Args:
        path: The file; an existing file retains its permissions.
        write: Writes the content to the open file.

    Raises:
        OSError: If the file cannot be written; an existing file is then unchanged.
    """
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        write(file)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Replace a file atomically at the end of the ``with`` block, like :func:`write_whole`.

    Use this function with libraries that accept only the name of a file.

    Args:
        path: The file.

    Yields:
        The path of a new, empty file in the folder of ``path``; this new file is removed after an
        error.

    Raises:
        OSError: If the file cannot be written; an existing file is then unchanged.
    """
    _require_folder(path)
    try:
        old = path.stat()
    except OSError:
        old = None
    with _unfinished(path, old) as unfinished:
        yield unfinished
        _synchronise(unfinished, None if old is None else stat.S_IMODE(old.st_mode))
        os.replace(unfinished, path)


def write_new(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file atomically unless it exists; only the first of several processes succeeds.

    Args:
        path: The file.
        write: Writes the content to the open file.

    Raises:
        OSError: If the file cannot be written.
    """
    if path.exists():
        return
    with _unfinished(path, None) as unfinished:
        with unfinished.open("wb") as file:
            write(file)
        _synchronise(unfinished, None)
        try:
            os.link(unfinished, path)
        except FileExistsError:
            return
        except (OSError, AttributeError):  # not every file system has hard links
            if not path.exists():
                os.replace(unfinished, path)


def alone(path: Path) -> FileLock:
    """A lock of a file, for a ``with`` block; only one process at a time can hold the lock.

    The lock is a hidden file in the folder of ``path``. If the process that holds the lock is
    killed, the system releases the lock.

    Args:
        path: The file, which need not exist.

    Raises:
        FileNotFoundError: If the folder does not exist; the lock alone would create it.
    """
    _require_folder(path)
    return FileLock(beside(path, "lock"))


def _require_folder(path: Path) -> None:
    if not path.parent.exists():
        reason = "there is no such folder; create it, or give another path"
        raise FileNotFoundError(errno.ENOENT, reason, str(path.parent))


def beside(path: Path, ending: str) -> Path:
    """The path of a hidden file in the folder of another file; symbolic links are resolved.

    Args:
        path: The other file.
        ending: The end of the hidden file's name.
    """
    path = path.resolve()
    return path.with_name(f"{_beginning(path)}{ending}")


def this_host() -> str:
    """The name of this machine or container, valid in file names."""
    name = "".join(letter if letter.isalnum() else "-" for letter in socket.gethostname())[:40]
    try:
        return f"{name}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return name


@contextmanager
def _unfinished(path: Path, old: os.stat_result | None) -> Iterator[Path]:
    """An empty file with the folder and permissions of another file; removed after the block.

    Args:
        path: The other file.
        old: The status of the other file; None if it does not exist.
    """
    _remove_abandoned(path)
    # The system removes the permissions in the umask from ``mode``. The file must be writable until
    # it is renamed.
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o666 | 0o600
    # The name is shortened, because systems bound the length of file names.
    own = f"{_beginning(path)}{this_host()}.{os.getpid()}.{secrets.token_hex(4)}{ENDING}"
    unfinished = path.with_name(own)
    handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        if old is not None and POSIX:
            with suppress(OSError):  # ignore errors, because only root may change owners
                os.fchown(handle, old.st_uid, old.st_gid)
        os.close(handle)
        yield unfinished
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _beginning(path: Path) -> str:
    return f".{path.name[:40]}."


def _remove_abandoned(path: Path) -> None:
    """Remove the unfinished files of this machine's killed processes."""
    beginning = f"{_beginning(path)}{this_host()}."
    with suppress(OSError):
        for entry in os.scandir(path.parent) if POSIX else ():
            process = entry.name.removeprefix(beginning).partition(".")[0]
            if process.isdigit() and entry.name.endswith(ENDING):
                try:
                    os.kill(int(process), 0)
                except ProcessLookupError:
                    Path(entry.path).unlink(missing_ok=True)
                except (OSError, OverflowError):  # the process runs and belongs to another user
                    continue


def _synchronise(file: Path, mode: int | None, flags: int = os.O_RDWR) -> None:
    """Write the content of a file or folder to the disk, and set its mode if a mode is given."""
    handle = os.open(file, flags)
    try:
        os.fsync(handle)
        if mode is not None and POSIX:
            os.fchmod(handle, mode)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power failure, if the system supports it."""
    if POSIX:
        with suppress(OSError):  # some network file systems refuse to synchronise a folder
            _synchronise(folder, None, os.O_RDONLY)
