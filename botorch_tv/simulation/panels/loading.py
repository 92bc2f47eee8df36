"""Load a panel from an `.npz` or `.csv` file."""

from __future__ import annotations

import itertools
import os
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from botorch_tv.simulation.panels.record import Panel
from botorch_tv.simulation.panels.table import read_table, require_room
from botorch_tv.validation import as_path, require, require_integer

ENDINGS = (".npz", ".csv", ".csv.gz")


def load_panel(
    path: str | os.PathLike[str],
    key: str | None = None,
    *,
    axes: Sequence[str] = (),
    times: str | None = None,
    every: int = 1,
) -> Panel:
    """Load a panel: a row per time, a column per arm.

    In an ``.npz`` file the axes after the first are flattened, the last running fastest; other
    arrays of the file may hold positions along each axis and the times of rows. In a ``.csv`` or
    ``.csv.gz`` file a column of dates is recognised, empty cells are missing readings and the first
    line may name the arms; see :func:`botorch_tv.simulation.panels.table.read_table`.

    Args:
        path: The file.
        key: Which array of an ``.npz`` file; by default the largest numeric one of at least two
            dimensions.
        axes: The arrays of an ``.npz`` file that hold positions along the axes after the first,
            such as ``("lat", "lon")``. They become the coordinates of the arms, in this order.
        times: The array of an ``.npz`` file that holds the time of each row, or the column of a
            table; ``""`` if no column of a table does.
        every: Stride along each axis after the first of an ``.npz`` file, for a coarser grid.

    Raises:
        ValueError: If the extension is unknown, a named array is missing or does not fit, or the
            file holds no such table.
        FileNotFoundError: If there is no such file.
    """
    path = as_path("load_panel: path", path, "give the name of a file.")
    ending = next((one for one in sorted(ENDINGS, key=len) if path.name.lower().endswith(one)), "")
    require(
        ending != "",
        f"{path.name} cannot be read as a panel: its name must end in {', '.join(ENDINGS)}.",
    )
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}: check the path.")
    if ending == ".npz":
        every = require_integer("load_panel: every", every, 1, "1 takes all.")
        return _read_arrays(path, key, axes, times, every)
    for name, given, usual in (
        ("key", key, None),
        ("axes", tuple(axes), ()),
        ("every", every, 1),
    ):
        require(
            given == usual,
            f"{name} is {given!r}, but {path.name} is a single table; leave {name} out, which is "
            "for the arrays of .npz files.",
        )
    return read_table(path, times)


def _read_arrays(
    path: Path, key: str | None, axes: Sequence[str], times: str | None, every: int
) -> Panel:
    # numpy would take any other file for a pickle, and its error would mislead.
    require(
        zipfile.is_zipfile(path), f"{path.name} is damaged or not an .npz file; write it again."
    )
    try:
        with zipfile.ZipFile(path) as packed:  # file_size is the unpacked size
            require_room(path.name, 3 * sum(one.file_size for one in packed.infolist()))
        with np.load(path, allow_pickle=False) as archive:
            shapes = _numeric_shapes(archive)
            name = _chosen(path.name, list(archive.files), shapes, key)
            values = np.asarray(archive[name], dtype=np.float64)
            lengths = values.shape[1:]
            require(
                len(axes) in (0, len(lengths)),
                f"axes are {', '.join(axes)}, but {name!r} has {len(lengths)} axes after the "
                "first; name an array for each, or none.",
            )
            along = [_vector(path.name, archive, axis, n) for axis, n in zip(axes, lengths)]
            rows = None if times is None else _vector(path.name, archive, times, len(values), "mM")
    except (zipfile.BadZipFile, zlib.error, EOFError, MemoryError) as error:
        raise ValueError(f"{path.name} is damaged: {error}; write it again.") from error
    kept = [np.arange(0, length, every) for length in lengths]
    for number, entries in enumerate(kept, start=1):
        values = values.take(entries, axis=number)
    names = [",".join(map(str, place)) for place in itertools.product(*kept)]
    coordinates = None
    if along:
        places = [positions[entries] for positions, entries in zip(along, kept)]
        coordinates = np.array(list(itertools.product(*places)), dtype=np.float64)
    return Panel(values.reshape(len(values), -1), tuple(names), rows, coordinates)


def _vector(
    file: str, archive: np.lib.npyio.NpzFile, name: str, length: int, dates: str = ""
) -> np.ndarray:
    """An array of ``length`` numbers, or of the ``dates`` kinds."""
    require(
        name in archive.files,
        f"{file} has no array {name!r}; give one of {', '.join(archive.files)}.",
    )
    try:
        array = np.asarray(archive[name])
    except ValueError as error:
        raise ValueError(
            f"array {name!r} of {file} holds Python objects; save numbers instead."
        ) from error
    require(
        array.shape == (length,) and array.dtype.kind in "iuf" + dates,
        f"array {name!r} of {file} is {array.dtype} of shape {array.shape}; it must hold {length} "
        f"numbers{' or dates' if dates else ''}.",
    )
    return array


def _numeric_shapes(archive: np.lib.npyio.NpzFile) -> dict[str, tuple[int, ...]]:
    """Shapes of the arrays that could be panels; arrays of Python objects are skipped."""
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
            f"{file} has no numeric array of two or more dimensions, rounds x arms; it holds only "
            f"{', '.join(names) or 'nothing'}. Save the readings as such an array.",
        )
        return max(shapes, key=lambda name: int(np.prod(shapes[name])))
    require(key in names, f"{file} has no key {key!r}; give one of {', '.join(names)}.")
    require(
        key in shapes,
        f"key {key!r} of {file} is not a numeric array of two or more dimensions, rounds x arms"
        + (f"; choose one of {', '.join(shapes)}." if shapes else "."),
    )
    return key
