"""A chunk of a study as a file: written whole or not at all, and checked when it is read."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from botorch_tv.files import write_whole
from botorch_tv.simulation.records import MAPS, Arrays, dtype_of, variable_names

MADE_WITH = "made_with"
"""Name of what says which versions of libraries computed a chunk."""


HEADER_BYTES = 4096
"""More than the headers of a variable take."""
MOST_MAP_BYTES = 2**34
"""More than the maps of prediction errors take."""


class Damaged(Exception):
    """A file that does not hold what was written to it."""


class OfAnotherStudy(Exception):
    """A sound chunk, made with other settings."""


class ChunkFormat(NamedTuple):
    """What the chunks of a study look like.

    Attributes:
        study: Digest of the settings of the study they belong to.
        strategies: Number of strategies.
        horizon: Rounds per trial.
        dtype: Name of the floating-point type, such as ``float64``.
        trials: Most trials of a chunk.
        diagnose: Whether predictions, bands and observations are there.
        columns: Coordinates of a choice on a box; 0 on a grid.
        prediction_error: Whether squared prediction errors and their maps are there.
    """

    study: str
    strategies: int
    horizon: int
    dtype: str
    trials: int
    diagnose: bool
    columns: int = 0
    prediction_error: bool = False

    def bytes_of(self, trials: int) -> int:
        """What the variables of some trials take in a file, without headers and maps."""
        names = variable_names(self.diagnose, self.columns, self.prediction_error)
        numbers = self.strategies * trials * self.horizon
        return numbers * sum(dtype_of(name, self.dtype).itemsize for name in names)

    @property
    def most_bytes(self) -> int:
        """A file has fewer bytes, 8 for a number and some for its headers, but for maps."""
        names = variable_names(self.diagnose, self.columns, self.prediction_error)
        numbers = len(names) * self.strategies * self.trials * self.horizon
        maps = MOST_MAP_BYTES if self.prediction_error else 0
        return 8 * numbers + HEADER_BYTES * (len(names) + 4) + maps

    def write(self, path: Path, first: int, arrays: Arrays) -> None:
        """Write a chunk; a file of that name is replaced once the new one is complete.

        Args:
            path: The file.
            first: Number of its first trial.
            arrays: Its variables, each `strategies x trials x horizon`, its maps, and what it was
                made with.

        Raises:
            OSError: If there is no room or no permission; an older file is then as it was.
        """
        # Serialised in memory: a zip file that meets a full disk raises again as it is closed.
        packed = io.BytesIO()
        members: dict[str, Any] = {
            **arrays,
            "first": np.int64(first),
            "study": np.str_(self.study),
        }
        np.savez(packed, **members)
        write_whole(path, lambda file: file.write(packed.getbuffer()))

    def read(self, path: Path, first: int) -> dict[str, np.ndarray] | None:
        """Read a chunk and check every byte of its data.

        Args:
            path: The file.
            first: Number of its first trial.

        Returns:
            Its variables; None if there is no such file.

        Raises:
            Damaged: If it is truncated or changed.
            OfAnotherStudy: If it was made with other settings.
            OSError: If it cannot be read.
        """
        try:
            size = path.stat().st_size
        except FileNotFoundError:
            return None
        if size > self.most_bytes:
            raise Damaged(
                f"it has {size:,} bytes, but no more than {self.most_bytes:,} are written"
            )
        packed = path.read_bytes()
        try:
            # numpy reads what a header announces; the checksums tell whether that is all.
            with zipfile.ZipFile(io.BytesIO(packed)) as archive:
                for member in archive.infolist():  # before any of them is unpacked
                    if member.compress_type != zipfile.ZIP_STORED or member.file_size > size:
                        raise Damaged(f"{member.filename} is compressed, as none is written")
                broken = archive.testzip()
            if broken is not None:
                raise Damaged(f"the checksum of {broken} is wrong")
            with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
            study, start = str(found.pop("study")), int(found.pop("first"))
        except Damaged:
            raise
        except Exception as error:  # whatever zipfile and numpy make of damaged bytes
            raise Damaged(f"{type(error).__name__}: {error}") from error
        if study != self.study:
            raise OfAnotherStudy
        self._check(found, start, first)
        return found

    def _check(self, found: Arrays, start: int, first: int) -> None:
        names = variable_names(self.diagnose, self.columns, self.prediction_error)
        maps = MAPS if self.prediction_error else ()
        if set(found) != {*names, *maps, MADE_WITH}:
            raise Damaged(f"it holds {', '.join(found)} instead of {', '.join((*names, *maps))}")
        if start != first:
            raise Damaged(f"it holds the trials from {start} on instead of {first}")
        trials = found[names[0]].shape[1:2]
        for name in names:
            array, dtype = found[name], dtype_of(name, self.dtype)
            if array.shape != (self.strategies, *trials, self.horizon) or array.dtype != dtype:
                raise Damaged(f"{name} is {array.dtype} of shape {array.shape}")
        for name in maps:
            array = found[name]
            if array.ndim != 2 or len(array) != self.strategies or array.dtype != np.float64:
                raise Damaged(f"{name} is {array.dtype} of shape {array.shape}")
