"""The state after the first answers of a file, beside it, so that these need not be told anew.

The file of a loop alone says what it knows. What lies beside it is a copy of what follows from it:
it bears a digest of all that it was computed from, and one of itself, and where either differs from
what is there it counts as not there. It is read without running anything that stands in it.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Sequence
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
from botorch_tv.loop.file import DAMAGE, LoopFile
from botorch_tv.loop.log import Answer, Moment
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import require

EVERY = 32
"""Answers after which a newer state is written."""
LATE = 8
"""Newest answers that it leaves out, since others may come in before them."""
ENDING = "told"


def write_snapshot(path: Path, file: LoopFile, moment: Moment, resets: Sequence[bool]) -> None:
    """Write the state after the first answers of a file beside it.

    A folder that takes no more files is no error.

    Args:
        path: The file.
        file: Its content.
        moment: The state.
        resets: Whether each of its answers was a reset.
    """
    count, buffer = moment.size, io.BytesIO()
    content = {
        "digest": _digest(file, file.answers[:count]),
        "count": count,
        "trigger": moment.trigger,
        "state": _stored(moment.state),
        "resets": list(resets),
    }
    torch.save(content, buffer)
    whole = buffer.getvalue()
    seal = hashlib.sha256(whole).hexdigest().encode()
    with suppress(OSError):
        write_whole(beside(path, ENDING), lambda out: out.writelines((seal, whole)))


def read_snapshot(path: Path, file: LoopFile, start: State) -> tuple[Moment, list[bool]] | None:
    """The state after the first answers of a file; None unless it is there and theirs.

    Args:
        path: The file.
        file: Its content.
        start: The state before any answer.
    """
    try:
        sealed = beside(path, ENDING).read_bytes()
        seal, whole = sealed[:64], sealed[64:]
        require(hashlib.sha256(whole).hexdigest().encode() == seal, "it is damaged")
        content = torch.load(io.BytesIO(whole), weights_only=True, map_location=start.time.device)
        count, resets = content["count"], content["resets"]
        require(type(count) is int and 0 < count <= len(file.answers), "there are fewer answers")
        require(content["digest"] == _digest(file, file.answers[:count]), "it is of others")
        state = _restored(start, content["state"])
        require(state.told == count == len(resets), "it lacks answers")
        return Moment(count, state, content["trigger"]), resets
    except (*DAMAGE, OSError, EOFError, UnpicklingError):
        return None


def served(file: LoopFile, strategy: Strategy) -> bool:
    """Whether a snapshot serves: other strategies need all answers, or little time for them."""
    return type(strategy) is Adaptive and not file.replies


def _digest(file: LoopFile, answers: Sequence[Answer]) -> str:
    """A digest of all that determines a state: strategy, domain, answers and library versions."""
    parts = {
        "strategy": file.strategy,
        "domain": file.domain,
        "dtype": file.dtype,
        "device": file.device,
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
