"""Strategies added to a study that is kept in a folder, each computed once.

The strategies of the first call are kept in the folder itself, those that a later call adds in a
folder of their own within it, which is the folder of a study like any other. Draws belong to trials
and labels, so all of them meet the same worlds and the same noise.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from botorch_tv.identity import Description
from botorch_tv.simulation.cut import Cut
from botorch_tv.simulation.folder import ADDED, StudyFolder
from botorch_tv.simulation.layout import ResultLayout
from botorch_tv.simulation.study_file import STUDY_FILE, StudyFile


class LineUp(NamedTuple):
    """Strategies that are kept together."""

    folder: StudyFolder
    """Where."""
    kept: list[str]
    """The labels of all of them."""
    wanted: list[str]
    """The labels of those asked for, in the same order."""

    @property
    def left_out(self) -> list[str]:
        """The labels of the others."""
        return [label for label in self.kept if label not in self.wanted]


def open_line_ups(
    path: Path,
    study: Mapping[str, Description],
    cut: Callable[[], Cut],
    *,
    layout: ResultLayout,
    chunk: int | None,
) -> list[LineUp]:
    """Where the strategies of a study are kept, or are going to be.

    Args:
        path: The folder of the study, made if there is none yet.
        study: The description of what is wanted.
        cut: Says how to compute it if it is new; a study found keeps its own.
        layout: What is recorded.
        chunk: Trials that must run together; None if that is left to the folder.

    Returns:
        One or more, which hold every strategy wanted once.

    Raises:
        ValueError: If another study is in the folder, or another strategy of the same label, naming
            every difference, or a description is damaged or missing.
        OSError: If the folder cannot be made or written.
    """
    study = json.loads(json.dumps(study))
    if not (path / STUDY_FILE).exists():
        StudyFolder.create(path, study, cut)
    missing = list(study["labels"])
    found: list[LineUp] = []
    for place in [path, *sorted(one.parent for one in path.glob(f"{ADDED}-*/{STUDY_FILE}"))]:
        kept = StudyFile.read(place / STUDY_FILE).study
        here = _with(study, {**kept["strategies"], **_of(study, kept["strategies"])})
        folder = StudyFolder.open(
            place, {**here, "labels": kept["labels"]}, cut, layout=layout, chunk=chunk
        )
        wanted = [label for label in kept["labels"] if label in missing]
        missing = [label for label in missing if label not in wanted]
        found.append(LineUp(folder, list(kept["labels"]), wanted))
    if missing:
        added = _with(study, _of(study, missing))
        # Of the same name for all who add the same.
        name = hashlib.sha256(json.dumps(added["strategies"], sort_keys=True).encode()).hexdigest()
        place = path / f"{ADDED}-{name[:8]}"
        folder = StudyFolder.open(
            place, added, lambda: found[0].folder.cut, layout=layout, chunk=chunk
        )
        found.append(LineUp(folder, missing, missing))
    _tell_left_out(path, found)
    return [one for one in found if one.wanted]


def _with(study: Mapping[str, Any], strategies: Mapping[str, Description]) -> dict[str, Any]:
    """The same study with other strategies."""
    return {**study, "strategies": dict(strategies), "labels": list(strategies)}


def _of(study: Mapping[str, Any], labels: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """Those of some strategies that a study has."""
    return {label: one for label, one in study["strategies"].items() if label in labels}


def _tell_left_out(path: Path, found: Sequence[LineUp]) -> None:
    seen = {label for one in found for label in one.wanted}
    others = [label for one in found for label in one.kept if label not in seen]
    if others:
        warnings.warn(
            f"save_to={path} also holds {', '.join(others)}, which this call leaves out; their "
            "trials stay there. A strategy is known by its label: under a new one it is computed "
            "anew, with draws of its own.",
            stacklevel=4,
        )
