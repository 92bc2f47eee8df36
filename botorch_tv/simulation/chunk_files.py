"""Files of finished chunks: written atomically, and verified when they are read."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from botorch_tv.files import write_whole
from botorch_tv.simulation.layout import ResultLayout, scatter_of
from botorch_tv.simulation.records import Arrays

MADE_WITH = "made_with"
"""Name of the entry with the versions of the libraries that computed a chunk."""
HEADER_BYTES = 4096
"""Upper bound on the header size of one variable."""


class Damaged(Exception):
    """A file that does not hold what was written to it."""


class OfAnotherStudy(Exception):
    """An intact chunk of a study with other settings."""


class ChunkFormat(NamedTuple):
    """The content that chunk files of a study must have.

    Attributes:
        study: Digest of the study's settings.
        strategies: Number of strategies.
        layout: What is recorded.
        trials: Largest number of trials in a chunk.
    """

    study: str
    strategies: int
    layout: ResultLayout
    trials: int

    @property
    def most_bytes(self) -> int:
        """Upper bound on the size of a file: its variables and their headers."""
        headers = HEADER_BYTES * (len(self.layout.variables) + len(self.layout.averaged) + 4)
        return self.layout.bytes_of(self.trials, self.strategies) + headers

    def write(self, path: Path, first: int, arrays: Arrays) -> None:
        """Write a chunk; an older file is replaced once the new one is complete.

        Args:
            path: The file.
            first: Number of its first trial.
            arrays: Its variables and the versions that computed it.

        Raises:
            OSError: If there is no room or no permission; an older file is then unchanged.
        """
        # Serialised in memory, because a zip file on a full disk raises a second time on closing.
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
            raise Damaged(f"it has {size:,} bytes, but such files have at most {self.most_bytes:,}")
        packed = path.read_bytes()
        try:
            # numpy trusts the size in a header, so the checksums are verified first.
            with zipfile.ZipFile(io.BytesIO(packed)) as archive:
                for member in archive.infolist():  # before any of them is unpacked
                    if member.compress_type != zipfile.ZIP_STORED or member.file_size > size:
                        raise Damaged(f"{member.filename} is compressed, but chunks never are")
                broken = archive.testzip()
            if broken is not None:
                raise Damaged(f"the checksum of {broken} is wrong")
            with np.load(io.BytesIO(packed), allow_pickle=False) as archive:
                found = {name: archive[name] for name in archive.files}
            study, start = str(found.pop("study")), int(found.pop("first"))
        except Damaged:
            raise
        except Exception as error:  # zipfile and numpy raise many types on damaged bytes
            raise Damaged(f"{type(error).__name__}: {error}") from error
        if study != self.study:
            raise OfAnotherStudy
        self._check(found, start, first)
        return found

    def _check(self, found: Arrays, start: int, first: int) -> None:
        layout = self.layout
        named = {name: name for name in layout.variables}
        named |= {scatter_of(name): name for name in layout.averaged}
        if set(found) != {*named, MADE_WITH}:
            raise Damaged(f"it holds {', '.join(found)} instead of {', '.join(named)}")
        if start != first:
            raise Damaged(f"its first trial is {start} instead of {first}")
        trials = (*found["regret"].shape, 0, 0)[1]
        for member, name in named.items():
            array = found[member]
            shape = layout.shape_of(name, trials, self.strategies)
            if array.shape != shape or array.dtype != layout.empty[name].dtype:
                raise Damaged(f"{member} is {array.dtype} of shape {array.shape}")
