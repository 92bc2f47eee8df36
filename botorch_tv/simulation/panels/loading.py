"""Read a panel from a file."""

from __future__ import annotations

import os
import zipfile
import zlib
from pathlib import Path

import numpy as np

from botorch_tv.simulation.panels.record import Panel
from botorch_tv.simulation.panels.table import read_table
from botorch_tv.validation import require

ENDINGS = (".npz", ".csv", ".csv.gz")


def load_panel(path: str | os.PathLike[str], key: str | None = None) -> Panel:
    """Read a panel: a row per time, a column per arm.

    In an ``.npz`` file the axes after the first are flattened, the last running fastest. In a
    ``.csv`` or ``.csv.gz`` file a column of dates is recognised, empty cells are missing readings
    and the first line may name the arms; see :func:`botorch_tv.simulation.panels.table.read_table`.

    Args:
        path: The file.
        key: Which array of an ``.npz`` file; the largest numeric one of at least two dimensions
            unless given.

    Raises:
        ValueError: If the ending is unknown, the key is, or the file holds no such table.
        FileNotFoundError: If there is no such file.
    """
    path = Path(path)
    ending = next((one for one in sorted(ENDINGS, key=len) if path.name.lower().endswith(one)), "")
    require(
        ending != "",
        f"{path.name} is no panel that can be read: its name must end in {', '.join(ENDINGS)}.",
    )
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    if ending == ".npz":
        return _read_arrays(path, key)
    require(
        key is None,
        f"key is {key!r}, but {path.name} is one table; a key chooses among the arrays of a .npz "
        "file.",
    )
    return read_table(path)


def _read_arrays(path: Path, key: str | None) -> Panel:
    # Anything but an archive would be taken for a pickle, and refused in words about pickles.
    require(zipfile.is_zipfile(path), f"{path.name} is damaged or no .npz file; write it again.")
    try:
        with np.load(path, allow_pickle=False) as archive:
            shapes = _numeric_shapes(archive)
            name = _chosen(path.name, list(archive.files), shapes, key)
            values = np.asarray(archive[name], dtype=np.float64)
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise ValueError(f"{path.name} is damaged: {error}; write it again.") from error
    names = [",".join(map(str, place)) for place in np.ndindex(values.shape[1:])]
    return Panel(values.reshape(len(values), -1), tuple(names))


def _numeric_shapes(archive: np.lib.npyio.NpzFile) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays that could be panels; those that are Python objects cannot be read."""
    shapes = {}
    for name in archive.files:
        try:
            array = archive[name]
        except ValueError:
            continue
        if array.dtype.kind in "iuf" and array.ndim >= 2 and array.size > 0:
            shapes[name] = array.shape
    return shapes


def _chosen(
    file: str, names: list[str], shapes: dict[str, tuple[int, ...]], key: str | None
) -> str:
    if key is None:
        require(
            len(shapes) > 0,
            f"{file} has no numeric array of two or more dimensions, rounds x arms; it holds "
            f"{', '.join(names) or 'nothing'}.",
        )
        return max(shapes, key=lambda name: int(np.prod(shapes[name])))
    require(key in names, f"{file} has no key {key!r}; it holds {', '.join(names)}.")
    require(
        key in shapes,
        f"key {key!r} of {file} is no numeric array of two or more dimensions, rounds x arms"
        + (f"; choose one of {', '.join(shapes)}." if shapes else "."),
    )
    return key
