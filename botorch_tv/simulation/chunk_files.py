"""A chunk of a study as a file: written whole or not at all, and checked when it is read."""

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
"""Name of what says which versions of libraries computed a chunk."""


HEADER_BYTES = 4096
"""More than the headers of a variable take."""


class Damaged(Exception):
    """A file that does not hold what was written to it."""


class OfAnotherStudy(Exception):
    """A sound chunk, made with other settings."""


class ChunkFormat(NamedTuple):
    """What the chunks of a study look like.

    Attributes:
        study: Digest of the settings of the study they belong to.
        strategies: Number of strategies.
        layout: What is recorded.
        trials: Most trials of a chunk.
    """

    study: str
    strategies: int
    layout: ResultLayout
    trials: int

    @property
    def most_bytes(self) -> int:
        """A file has fewer, its variables and some for their headers."""
        headers = HEADER_BYTES * (len(self.layout.variables) + len(self.layout.averaged) + 4)
        return self.layout.bytes_of(self.trials, self.strategies) + headers

    def write(self, path: Path, first: int, arrays: Arrays) -> None:
        """Write a chunk; a file of that name is replaced once the new one is complete.

        Args:
            path: The file.
            first: Number of its first trial.
            arrays: Its variables, and what it was made with.

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
        layout = self.layout
        named = {name: name for name in layout.variables}
        named |= {scatter_of(name): name for name in layout.averaged}
        if set(found) != {*named, MADE_WITH}:
            raise Damaged(f"it holds {', '.join(found)} instead of {', '.join(named)}")
        if start != first:
            raise Damaged(f"it holds the trials from {start} on instead of {first}")
        trials = (*found["regret"].shape, 0, 0)[1]
        for member, name in named.items():
            array = found[member]
            shape = layout.shape_of(name, trials, self.strategies)
            if array.shape != shape or array.dtype != layout.empty[name].dtype:
                raise Damaged(f"{member} is {array.dtype} of shape {array.shape}")
