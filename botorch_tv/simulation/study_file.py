"""The file `study.json`: the description of the study in a folder, and its cut."""

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
"""Version of the format; increased whenever older folders can no longer be resumed."""
STUDY_FILE = "study.json"
MOST_THREADS = 4096
"""More than any machine has; a larger number is taken for damage."""


class StudyFile(NamedTuple):
    """The content of the file."""

    study: dict[str, Any]
    """Description of the study."""
    cut: Cut
    """How the study is computed."""
    python: str
    """Version of Python that wrote the file."""

    @classmethod
    def read(cls, file: Path) -> StudyFile:
        """Read the file.

        Raises:
            ValueError: If it is damaged, or has another format.
            OSError: If it cannot be read.
        """
        text = file.read_bytes()
        try:
            content = json.loads(text)
            version = content["format"]
            if version == FORMAT:
                study, made_with = content["study"], content["made_with"]
                require(isinstance(study["strategies"], dict), "strategies is not a mapping")
                chunk, threads = content["cut"]["chunk"], content["cut"]["threads"]
                require_integer("chunk", chunk, 1, "it is the number of trials in a chunk.")
                require_integer("threads", threads, 1, "it is the number per chunk.")
                require(threads <= MOST_THREADS, f"threads is {threads:g}")
                return cls(study, Cut(int(chunk), int(threads)), str(made_with["python"]))
        except (ValueError, LookupError, TypeError, ArithmeticError, RecursionError) as error:
            raise ValueError(
                f"{file} is damaged ({type(error).__name__}: {error}). Restore it from a copy to "
                "resume the study from the chunks beside it, or give another folder."
            ) from error
        raise ValueError(
            f"{file} has format {version}, but this version of botorch_tv reads {FORMAT}; give "
            "another folder."
        )

    def require_same(self, study: Mapping[str, Description], chunk: int | None, path: Path) -> None:
        """Check that a folder holds the requested study.

        Args:
            study: The description of the requested study.
            chunk: Trials that must run together; None accepts the folder's number.
            path: The folder.

        Raises:
            ValueError: If it holds another study, naming every difference.
        """
        try:
            unlike = differences(self.study, study)
        except RecursionError:
            unlike = ["study is nested deeper there than any description can be"]
        if chunk is not None:
            unlike += differences(self.cut.chunk, chunk, "chunk")
        if not unlike:
            return
        hint = ""
        if any(one.startswith("botorch_tv ") for one in unlike):
            hint += (
                " The code of botorch_tv has changed since the study was started: to resume it, "
                "install the version that started it."
            )
        if any("sha256" in one for one in unlike):
            hint += (
                " Fitted or computed numbers may differ between machines and numbers of threads by "
                "more than rounding: save them once, and load them in every run."
            )
        if self.python != _python() and any("(code)" in one for one in unlike):
            hint += (
                " Code without source text is identified by its bytecode, which depends on the "
                f"version of Python: {self.python} there, {_python()} here."
            )
        raise ValueError(
            f"save_to={path} holds another study: {'; '.join(unlike)}. Give another folder, or the "
            f"settings found there, or remove this one.{hint}"
        )

    def chunk_format(self, layout: ResultLayout) -> ChunkFormat:
        """The format of the chunks of this study."""
        whole = json.dumps([FORMAT, self.study, self.cut.chunk, self.cut.threads], sort_keys=True)
        return ChunkFormat(
            study=hashlib.sha256(whole.encode()).hexdigest(),
            strategies=len(self.study["strategies"]),
            layout=layout,
            trials=self.cut.chunk,
        )


def write_study_file(file: Path, study: Mapping[str, Description], cut: Cut) -> None:
    """Write a new file, atomically; an existing one is left unchanged.

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


def _python() -> str:
    return platform.python_version()
