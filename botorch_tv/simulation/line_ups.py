"""Strategies added later to a study that is kept in a folder, each computed once.

The folder itself holds the strategies of the first call. Strategies added by a later call go into a
subfolder, which is an ordinary study folder. Random numbers depend on trial and label alone, so all
strategies face the same worlds and the same noise.
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
    """The strategies in one study folder."""

    folder: StudyFolder
    """The folder."""
    kept: list[str]
    """The labels of all its strategies."""
    wanted: list[str]
    """The requested labels, in the same order."""

    @property
    def left_out(self) -> list[str]:
        """The labels that were not requested."""
        return [label for label in self.kept if label not in self.wanted]


def open_line_ups(
    path: Path,
    study: Mapping[str, Description],
    cut: Callable[[], Cut],
    *,
    layout: ResultLayout,
    chunk: int | None,
) -> list[LineUp]:
    """The folders for the requested strategies, found or newly made.

    Args:
        path: The folder of the study; created if missing.
        study: The description of the requested study.
        cut: Makes the cut of a new study; an existing study keeps its own.
        layout: What is recorded.
        chunk: Trials that must run together; None accepts the folder's number.

    Returns:
        One or more line-ups, which together hold every requested strategy once.

    Raises:
        ValueError: If the folder holds another study, or another strategy with the same label, with
            every difference; or if a description is damaged or missing.
        OSError: If the folder cannot be made or written.
    """
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
        # Every process that adds the same strategies finds the same name.
        name = hashlib.sha256(json.dumps(added["strategies"], sort_keys=True).encode()).hexdigest()
        place = path / f"{ADDED}-{name[:8]}"
        folder = StudyFolder.open(
            place, added, lambda: found[0].folder.cut, layout=layout, chunk=chunk
        )
        found.append(LineUp(folder, missing, missing))
    _warn_left_out(path, found)
    return [one for one in found if one.wanted]


def _with(study: Mapping[str, Any], strategies: Mapping[str, Description]) -> dict[str, Any]:
    """A study description with other strategies."""
    return {**study, "strategies": dict(strategies), "labels": list(strategies)}


def _of(study: Mapping[str, Any], labels: Sequence[str] | Mapping[str, Any]) -> dict[str, Any]:
    """The descriptions of the strategies with these labels."""
    return {label: one for label, one in study["strategies"].items() if label in labels}


def _warn_left_out(path: Path, found: Sequence[LineUp]) -> None:
    seen = {label for one in found for label in one.wanted}
    others = [label for one in found for label in one.kept if label not in seen]
    if others:
        warnings.warn(
            f"save_to={path} also holds {', '.join(others)}, which this call leaves out; their "
            "trials stay there. Strategies are identified by their labels: under a new label a "
            "strategy is computed again, with other random numbers.",
            stacklevel=4,
        )
