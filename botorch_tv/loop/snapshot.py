"""The state after the first answers of a file, beside it, so that these need not be told anew.

The file of a loop alone says what it knows. What lies beside it is a copy of what follows from it:
it bears a digest of all that it was computed from, and one of itself, and where either differs from
what is there it counts as not there. It is read without running anything that stands in it.
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
"""Answers after which a newer state is written."""
LATE = 8
"""Newest answers that it leaves out, since others may come in before them."""
ENDING = "told"


def write_snapshot(path: Path, content: Mapping[str, Any], log: MeasurementLog) -> None:
    """Write the state after the first answers of a file beside it.

    A folder that takes no more files is no error.

    Args:
        path: The file.
        content: Its content.
        log: With these answers.
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
    """A log with the first answers of a file; as it was unless the state is there and theirs.

    Args:
        path: The file.
        content: Its content.
        log: Before any answer.
    """
    try:
        sealed = beside(path, ENDING).read_bytes()
        seal, whole = sealed[:64], sealed[64:]
        require(hashlib.sha256(whole).hexdigest().encode() == seal, "it is damaged")
        device = log.start.time.device
        retained = torch.load(io.BytesIO(whole), weights_only=True, map_location=device)
        answers = tuple(content["answers"][: retained["count"]])
        require(retained["digest"] == _digest(content, answers), "it is of others")
        state = _restored(log.start, retained["state"])
        require(0 < state.rounds == len(answers) == len(retained["resets"]), "it lacks answers")
        return log._replace(states=(state,), answers=answers, resets=tuple(retained["resets"]))
    except (*DAMAGE, OSError, EOFError, UnpicklingError):
        return log


def _digest(content: Mapping[str, Any], answers: Sequence[Measurement]) -> str:
    """A digest of all that determines a state: strategy, domain, answers and library versions."""
    parts = {
        **{name: content[name] for name in ("strategy", "domain", "dtype", "device")},
        "answers": [asdict(one) for one in answers],
        "libraries": libraries(),
        "threads": torch.get_num_threads(),
        "processor": torch.backends.cpu.get_cpu_capability(),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def _stored(part: Any) -> Any:
    """The numbers of a state; None for what does not change with answers."""
    if isinstance(part, Rows):
        part = part.tensor()
    if isinstance(part, Tensor):
        return part.detach().clone()
    if isinstance(part, tuple):
        return [_stored(one) for one in part]
    return part if isinstance(part, (bool, int, float)) else None


def _restored(start: Any, stored: Any) -> Any:
    """A state of these numbers, of the same form as the one before any answer.

    A tensor may have become None since, as ``Data.empty`` does once every trial has data.
    """
    if isinstance(start, Rows):
        return start.replaced(stored)
    if isinstance(start, tuple):
        parts = [_restored(one, other) for one, other in zip(start, stored, strict=True)]
        return type(start)(*parts) if hasattr(start, "_fields") else tuple(parts)
    return stored if isinstance(start, (Tensor, bool, int, float)) else start
