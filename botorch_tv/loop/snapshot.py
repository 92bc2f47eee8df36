"""A snapshot file stores the state after a loop's first answers, so loading need not replay them.

The snapshot contains no data that the loop's own file lacks. The snapshot contains two digests: a
digest of all data that determine the state, and a digest of the snapshot itself. The snapshot is
ignored unless both digests are as expected. Reading a snapshot executes no code from it.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import Tensor

from botorch_tv.files import beside, write_whole
from botorch_tv.gp.tensors import Rows
from botorch_tv.identity import libraries
from botorch_tv.loop.file import DAMAGE
from botorch_tv.loop.log import Measurement, MeasurementLog
from botorch_tv.validation import require

EVERY = 32
"""Number of answers between two snapshots."""
LATE = 8
"""Number of newest answers that a snapshot excludes, because late answers may precede them."""
ENDING = "snapshot"


def write_snapshot(path: Path, content: Mapping[str, Any], log: MeasurementLog) -> None:
    """Write a snapshot beside the file of a loop; do nothing if the folder is not writable.

    Args:
        path: The file of the loop.
        content: The content of the file.
        log: The log of some answers, from the first; the snapshot stores its state.
    """
    buffer = io.BytesIO()
    retained = {
        "digest": _digest(content, log.answers),
        "count": len(log.answers),
        "state": _stored(log.state),
        "resets": list(log.resets),
    }
    torch.save(retained, buffer)
    whole = buffer.getvalue()
    seal = hashlib.sha256(whole).hexdigest().encode()
    with suppress(OSError):
        write_whole(beside(path, ENDING), lambda out: out.writelines((seal, whole)))


def read_snapshot(path: Path, content: Mapping[str, Any], log: MeasurementLog) -> MeasurementLog:
    """A log with the first answers, from a snapshot; ``log`` if there is no valid snapshot.

    Args:
        path: The file of the loop.
        content: The content of the file.
        log: A log without answers.
    """
    try:
        sealed = beside(path, ENDING).read_bytes()
        seal, whole = sealed[:64], sealed[64:]
        require(hashlib.sha256(whole).hexdigest().encode() == seal, "it is damaged")
        device = log.start.time.device
        retained = torch.load(io.BytesIO(whole), weights_only=True, map_location=device)
        answers = tuple(content["answers"][: retained["count"]])
        require(retained["digest"] == _digest(content, answers), "it belongs to other answers")
        state = _restored(log.start, retained["state"])
        require(0 < state.rounds == len(answers) == len(retained["resets"]), "it lacks answers")
        return log._replace(states=(state,), answers=answers, resets=tuple(retained["resets"]))
    except (*DAMAGE, OSError, EOFError, UnpicklingError):
        return log


def _digest(content: Mapping[str, Any], answers: Sequence[Measurement]) -> str:
    """A digest of all that determines a state: strategy, domain, answers and library versions."""
    parts = {
        **{name: content[name] for name in ("strategy", "domain", "dtype", "device")},
        "answers": [asdict(answer) for answer in answers],
        "libraries": libraries(),
        "threads": torch.get_num_threads(),
        "processor": torch.backends.cpu.get_cpu_capability(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _stored(part: Any) -> Any:
    """The tensors and numbers of a state; None for parts that do not change with answers."""
    if isinstance(part, Rows):
        part = part.tensor()
    if isinstance(part, Tensor):
        return part.detach().clone()
    if isinstance(part, tuple):
        return [_stored(entry) for entry in part]
    return part if isinstance(part, (bool, int, float)) else None


def _restored(start: Any, stored: Any) -> Any:
    """A state with stored values and the structure of the start state.

    A tensor may be None in the stored state, such as ``Data.empty`` once every trial has data.
    """
    if isinstance(start, Rows):
        return start.replaced(stored)
    if isinstance(start, tuple):
        parts = [_restored(part, value) for part, value in zip(start, stored, strict=True)]
        return type(start)(*parts) if hasattr(start, "_fields") else tuple(parts)
    return stored if isinstance(start, (Tensor, bool, int, float)) else start
