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

from botorch_tv.files import write_whole
from botorch_tv.simulation.chunk_files import ChunkFormat
from botorch_tv.simulation.cut import Cut
from botorch_tv.simulation.identity import Description, differences
from botorch_tv.simulation.settings import versions

FORMAT = 1
"""Changes whenever files of an older version could not be gone on with."""
STUDY_FILE = "study.json"


class StudyFile(NamedTuple):
    """The content of the file."""

    study: dict[str, Any]
    """Description of the study."""
    cut: Cut
    """How it is computed."""
    threads: int
    """Threads of PyTorch where it was made."""

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
            version, study, cut = content["format"], content["study"], content["cut"]
            if version == FORMAT:
                missing = {"strategies", "horizon", "dtype", "diagnose"} - set(study)
                if missing:
                    raise KeyError(*missing)
                return cls(study, Cut(**cut), int(content["made_with"]["threads"]))
        except (ValueError, KeyError, TypeError) as error:
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
        unlike = differences(self.study, study)
        if chunk is not None:
            unlike += differences(self.cut.chunk, chunk, "chunk")
        if not unlike:
            return
        hint = ""
        threads = torch.get_num_threads()
        if self.threads != threads and any("sha256" in one for one in unlike):
            hint = (
                " The number of threads decides the last bits of a matrix: it was "
                f"{self.threads} there and is {threads} here; OMP_NUM_THREADS sets it."
            )
        raise ValueError(
            f"save_to={path} holds another study: {'; '.join(unlike)}. Give another folder, or the "
            f"settings found there, or remove this one.{hint}"
        )

    def chunk_format(self) -> ChunkFormat:
        """What the chunks of this study look like."""
        whole = json.dumps([FORMAT, self.study, self.cut.chunk, self.cut.threads], sort_keys=True)
        return ChunkFormat(
            study=hashlib.sha256(whole.encode()).hexdigest(),
            strategies=len(self.study["strategies"]),
            horizon=self.study["horizon"],
            dtype=self.study["dtype"],
            diagnose=self.study["diagnose"],
            columns=self.study.get("columns", 0),
            prediction_error=self.study.get("prediction_error", False),
        )


def write_study_file(file: Path, study: Mapping[str, Description], cut: Cut) -> None:
    """Write a new file, all of it or nothing.

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
            "machine": platform.machine(),
            "threads": torch.get_num_threads(),
        },
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    text = json.dumps(content, indent=2).encode()
    write_whole(file, lambda opened: opened.write(text))
