"""The file `study.json`: what the study in a folder is, and how it is cut."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import torch

from botorch_tv.files import write_new
from botorch_tv.identity import Description, differences
from botorch_tv.identity.versions import versions
from botorch_tv.simulation.chunk_files import ChunkFormat
from botorch_tv.simulation.cut import Cut
from botorch_tv.simulation.layout import ResultLayout
from botorch_tv.validation import require, require_integer

FORMAT = 3
"""Changes whenever files of an older version could not be gone on with."""
STUDY_FILE = "study.json"
MOST_THREADS = 4096
"""More than any machine has; a number beyond is damage."""


class StudyFile(NamedTuple):
    """The content of the file."""

    study: dict[str, Any]
    """Description of the study."""
    cut: Cut
    """How it is computed."""
    python: str
    """Version of Python with which it was made."""

    @classmethod
    def read(cls, file: Path) -> StudyFile:
        """The content of a file.

        Raises:
            ValueError: If it is damaged, or of another version.
            OSError: If it cannot be read.
        """
        text = file.read_bytes()
        try:
            content = json.loads(text)
            version = content["format"]
            if version == FORMAT:
                study, made_with = content["study"], content["made_with"]
                _check(study)
                chunk, threads = content["cut"]["chunk"], content["cut"]["threads"]
                require_integer("chunk", chunk, 1, "it is the number of trials together.")
                require_integer("threads", threads, 1, "it is the number for each chunk.")
                require(threads <= MOST_THREADS, f"threads is {threads:g}")
                return cls(study, Cut(int(chunk), int(threads)), str(made_with["python"]))
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
            raise ValueError(
                f"{file} is damaged ({type(error).__name__}: {error}). Restore it from a copy and "
                "the study goes on from the chunks beside it, or give another folder."
            ) from error
        raise ValueError(
            f"{file} has format {version}, but this version of botorch_tv reads {FORMAT}; give "
            "another folder."
        )

    def require_same(self, study: Mapping[str, Description], chunk: int | None, path: Path) -> None:
        """Refuse to go on with another study.

        Args:
            study: The description of what is wanted.
            chunk: Trials that must run together; None for as many as before.
            path: The folder.

        Raises:
            ValueError: If it is another, naming every difference.
        """
        try:
            unlike = differences(self.study, study)
        except RecursionError:
            unlike = ["study is nested deeper there than any description"]
        if chunk is not None:
            unlike += differences(self.cut.chunk, chunk, "chunk")
        if not unlike:
            return
        hint = ""
        if any(one.startswith("botorch_tv ") for one in unlike):
            hint += (
                " botorch_tv computes otherwise than when the study was begun: install the version "
                "it was begun with to go on with it."
            )
        if any("sha256" in one for one in unlike):
            hint += (
                " What is fitted or computed may differ between machines and numbers of threads by "
                "more than rounding: save it once, and load it in every run."
            )
        if self.python != _python() and any("(code)" in one for one in unlike):
            hint += (
                f" Code without source text is known by how Python compiles it, which was "
                f"{self.python} there and is {_python()} here."
            )
        raise ValueError(
            f"save_to={path} holds another study: {'; '.join(unlike)}. Give another folder, or the "
            f"settings found there, or remove this one.{hint}"
        )

    def chunk_format(self, layout: ResultLayout) -> ChunkFormat:
        """What the chunks of this study look like.

        Args:
            layout: What is recorded.
        """
        whole = json.dumps([FORMAT, self.study, self.cut.chunk, self.cut.threads], sort_keys=True)
        return ChunkFormat(
            study=hashlib.sha256(whole.encode()).hexdigest(),
            strategies=len(self.study["strategies"]),
            layout=layout,
            trials=self.cut.chunk,
        )


def write_study_file(file: Path, study: Mapping[str, Description], cut: Cut) -> None:
    """Write a new file, all of it or nothing; one that is there is left as it is.

    Args:
        file: Its path.
        study: Description of the study.
        cut: How it is computed.
    """
    content = {
        "format": FORMAT,
        "study": study,
        "cut": {"chunk": cut.chunk, "threads": cut.threads},
        "made_with": {
            **versions(),
            "python": _python(),
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
        },
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    text = json.dumps(content, indent=2).encode()
    write_new(file, lambda opened: opened.write(text))


def _check(study: Any) -> None:
    """Raise unless this may be the description of a study."""
    require(isinstance(study["strategies"], dict), "strategies are no mapping")


def _python() -> str:
    return platform.python_version()
