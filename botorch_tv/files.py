"""Files that are written whole or not at all, and tables whose numbers can be read in one way."""

from __future__ import annotations

import errno
import gzip
import io
import os
import re
import secrets
import socket
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    import pandas as pd

ENDING = ".part"
"""Ending of the hidden files that are written first and renamed once complete."""
POSIX = os.name == "posix"


def require_regular(path: Path) -> None:
    """Raise a ``ValueError`` if there is something at a path that is no regular file.

    Such as a folder, or a device, which may never end.
    """
    if path.exists() and not path.is_file():
        kind = "a folder" if path.is_dir() else "a device or a pipe"
        raise ValueError(f"{path} is {kind}, but it must be a regular file; give the name of one.")


def read_cells(path: Path) -> pd.DataFrame:
    """The cells of a text table by line of the file, with decimal points.

    Commas, semicolons or tabs separate cells; a file may be compressed by gzip. Lines without a
    cell are left out, and where a line ends early the missing cells are empty.

    Raises:
        ValueError: If it is no table, or a comma or point may separate decimals or thousands.
    """
    import pandas as pd

    require_regular(path)
    opener = gzip.open if path.name.lower().endswith(".gz") else open
    try:
        with opener(path, "rt", encoding="utf-8-sig", newline="") as opened:
            text = opened.read()
        separator = next((one for one in ";\t" if one in text.partition("\n")[0]), ",")
        cells = pd.read_csv(
            io.StringIO(text),
            sep=separator,
            header=None,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=False,
        )
    except (EOFError, OSError, ValueError) as error:
        raise ValueError(f"{path.name} is no table ({error}); give a CSV file in UTF-8.") from error
    cells = cells.fillna("").map(str.strip)
    cells.index += 1
    cells = cells[(cells != "").any(axis=1)]
    if not len(cells):
        raise ValueError(f"{path.name} is empty; give a line of names and rows below it.")
    if separator == ",":
        return cells
    comma, point = (rf"[+-]?\d*{mark}\d+(?:[eE][+-]?\d+)?" for mark in (",", r"\."))
    thousands = r"[+-]?\d{1,3}(?:\.\d{3})+,\d*"
    every = pd.Series(cells.stack().droplevel(1))
    commas = every.str.fullmatch(comma).any()
    _refuse_cells(path, every[every.str.fullmatch(f"{thousands}|{point}" if commas else thousands)])
    for column in (cells[place][1:] for place in cells):
        marked = column[column.str.contains("[.,]")]
        alike = marked.str.fullmatch(r"[+-]?[1-9]\d{0,2}[.,]\d{3}").all()
        if alike and (commas or column.str.fullmatch(r"[+-]?\d+").any()):
            _refuse_cells(path, marked)
    return cells.map(lambda one: one.replace(",", ".") if re.fullmatch(comma, one) else one)


def _refuse_cells(path: Path, wrong: pd.Series) -> None:
    """Refuse a table for the first of these cells, which have the numbers of their lines."""
    for line, cell in wrong.items():
        raise ValueError(
            f"{path.name} line {line}: {cell!r} may have a thousands separator; write all numbers "
            "of the table with decimal points and without separators."
        )


def write_whole(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a file that appears under its name only once it is complete and on the disk.

    Several processes may write the same file: it is always one of theirs, whole.

    Args:
        path: The file. One that is there keeps its mode; a new one has that of any new file.
        write: Given the open file, writes its content.

    Raises:
        OSError: If that fails; an older file is then as it was.
    """
    with replacing(path) as unfinished, unfinished.open("wb") as file:
        write(file)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A name to write to in place of a file, which is replaced at the end of the block.

    For libraries that want a name rather than an open file; else as :func:`write_whole`.

    Args:
        path: The file.

    Yields:
        The name of an empty file in the same folder; it is gone after an error.

    Raises:
        OSError: If the file cannot be written; an older one is then as it was.
    """
    if not path.parent.exists():
        told = "there is no such folder; make it first, or give another"
        raise FileNotFoundError(errno.ENOENT, told, str(path.parent))
    try:
        old = path.stat()
    except OSError:
        old = None
    with _unfinished(path, old) as unfinished:
        yield unfinished
        _synchronise(unfinished, None if old is None else stat.S_IMODE(old.st_mode))
        os.replace(unfinished, path)


def write_new(path: Path, write: Callable[[BinaryIO], object]) -> None:
    """Write a whole file unless there is one of that name, which is then left as it is.

    Args:
        path: The file.
        write: Given the open file, writes its content; of several processes at once, that of one.

    Raises:
        OSError: If that fails.
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
        except (OSError, AttributeError):  # no links here: not every file system has them
            if not path.exists():
                os.replace(unfinished, path)


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Wait until no other process is within such a block for the same file, then keep others out.

    For reading a file, changing it and writing it again. The system ends the turn of a process that
    is killed. A hidden file of its own, which stays, is what processes wait for: the file itself is
    replaced when it is written.

    Args:
        path: The file, which need not be there.

    Raises:
        OSError: If the system, or the file system, has no locks, or the folder is not there.
    """
    try:
        import fcntl
    except ImportError as error:
        raise OSError(
            f"{path} cannot be guarded against other processes on this system; use Loop in Python, "
            "in one process."
        ) from error
    handle = os.open(beside(path, "lock"), os.O_CREAT | os.O_RDWR, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def beside(path: Path, ending: str) -> Path:
    """A hidden file that belongs to another, and lies next to where that really is.

    Args:
        path: The other.
        ending: The end of its name.
    """
    path = path.resolve()
    return path.with_name(f"{_beginning(path)}{ending}")


def this_host() -> str:
    """A name for this machine or container, fit for a file name."""
    name = "".join(one if one.isalnum() else "-" for one in socket.gethostname())[:40]
    try:
        return f"{name}-{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return name


@contextmanager
def _unfinished(path: Path, old: os.stat_result | None) -> Iterator[Path]:
    """An empty file of a unique name beside another, with its permissions; gone afterwards.

    Args:
        path: The other.
        old: The status of the file under its name; None if there is none.
    """
    _remove_left_over(path)
    # The umask takes its part of the mode; what is written has to be writable meanwhile.
    mode = 0o666 if old is None else stat.S_IMODE(old.st_mode) & 0o666 | 0o600
    # Short, since names of files are bounded.
    own = f"{_beginning(path)}{this_host()}.{os.getpid()}.{secrets.token_hex(4)}{ENDING}"
    unfinished = path.with_name(own)
    handle = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode)
    try:
        if old is not None and POSIX:
            with suppress(OSError):  # only root may give files away
                os.fchown(handle, old.st_uid, old.st_gid)
        os.close(handle)
        yield unfinished
    finally:
        with suppress(OSError):
            unfinished.unlink(missing_ok=True)
    _sync_folder(path.parent)


def _beginning(path: Path) -> str:
    return f".{path.name[:40]}."


def _remove_left_over(path: Path) -> None:
    """Remove unfinished files of killed processes of this machine."""
    beginning = f"{_beginning(path)}{this_host()}."
    with suppress(OSError):
        for entry in os.scandir(path.parent) if POSIX else ():
            process = entry.name.removeprefix(beginning).partition(".")[0]
            if process.isdigit() and entry.name.endswith(ENDING):
                try:
                    os.kill(int(process), 0)
                except ProcessLookupError:
                    Path(entry.path).unlink(missing_ok=True)
                except (OSError, OverflowError):  # it runs, and is somebody else's
                    continue


def _synchronise(file: Path, mode: int | None) -> None:
    """Write the content of a file to the disk, and set its mode unless None."""
    handle = os.open(file, os.O_RDWR)
    try:
        os.fsync(handle)
        if mode is not None and POSIX:
            os.fchmod(handle, mode)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    """Make a rename survive a power failure, where the system offers that."""
    if not POSIX:
        return
    with suppress(OSError):  # some network file systems refuse; the rename itself is done
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
