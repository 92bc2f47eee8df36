"""The file of a loop: JSON, a line per answer, numbers in full."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from botorch.exceptions import InputDataError

from botorch_tv.files import write_whole
from botorch_tv.identity import Description, describe, differences
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.loop.consultations import Question, Reply
from botorch_tv.strategies.loop.domain import domain_data, domain_from
from botorch_tv.strategies.loop.log import Answer, Planned
from botorch_tv.strategies.loop.rows import (
    answer_data,
    answer_from,
    planned_data,
    planned_from,
    question_data,
    question_from,
    reply_data,
    reply_from,
)
from botorch_tv.validation import require

FORMAT = "botorch_tv loop"
VERSION = 1
"""Changes whenever files of an older version could not be gone on with."""
DTYPES = {"float64": torch.float64, "float32": torch.float32}


@dataclass(frozen=True)
class LoopFile:
    """What a file holds.

    Attributes:
        strategy: Description of the strategy, which is given again when the file is read.
        domain: Description of the domain.
        dtype: Of all that is computed.
        device: Where it was computed.
        pending: Most suggestions open at once.
        asked: Suggestions made.
        generator: State of the random numbers; None where none are drawn.
        waiting: Suggestions without an answer.
        answers: In order of time.
        consulted: Consultations made.
        questions: Consultations without answers.
        replies: What the expert answered, oldest first.
    """

    strategy: Description
    domain: Description
    dtype: torch.dtype
    device: str
    pending: int
    asked: int
    generator: bytes | None
    waiting: list[Planned]
    answers: list[Answer]
    consulted: int
    questions: list[Question]
    replies: list[Reply]

    def write(self, path: Path) -> None:
        """Write the file, all of it or nothing.

        Raises:
            OSError: If that fails; an older file is then as it was.
        """
        head = {
            "format": FORMAT,
            "version": VERSION,
            "strategy": self.strategy,
            "domain": self.domain,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": self.device,
            "pending": self.pending,
            "asked": self.asked,
            "consulted": self.consulted,
            "generator": None
            if self.generator is None
            else base64.b64encode(self.generator).decode(),
        }
        lines = [f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in head.items()]
        lines.append(f'  "open": {_rows(planned_data(one) for one in self.waiting)}')
        lines.append(f'  "answers": {_rows(answer_data(one) for one in self.answers)}')
        lines.append(f'  "consultations": {_rows(question_data(one) for one in self.questions)}')
        lines.append(f'  "replies": {_rows(reply_data(one) for one in self.replies)}')
        text = "{\n" + ",\n".join(lines) + "\n}\n"
        write_whole(path.resolve(), lambda file: file.write(text.encode()))

    @classmethod
    def read(cls, path: Path) -> LoopFile:
        """The content of a file.

        Raises:
            ValueError: If it is damaged, no loop, or of another version.
            OSError: If it cannot be read.
        """
        text = path.read_bytes()
        try:
            content = json.loads(text)
            if content["format"] != FORMAT:
                raise ValueError(f"its format is {content['format']!r}")
            if content["version"] == VERSION:
                return cls._of(content)
            version = content["version"]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(
                f"{path} holds no loop, or is damaged ({type(error).__name__}: {error}); give a "
                "file that Loop.save has written, or a copy of it."
            ) from error
        raise ValueError(
            f"{path} has version {version}, but this version of botorch_tv reads {VERSION}; "
            "install the one that wrote it."
        )

    def require_strategy(self, strategy: Strategy, path: Path) -> None:
        """Raise a ``ValueError`` naming every difference if the strategy was another."""
        _require_same(self.strategy, describe(strategy, "strategy"), "strategy", path)

    def domain_or(self, given: Domain | None, device: torch.device, path: Path) -> Domain:
        """The domain that was saved, made from the file unless given.

        Raises:
            ValueError: If the one given is another, or none is given and the file is not enough.
        """
        if given is not None:
            _require_same(self.domain, domain_data(given), "domain", path)
            return given
        try:
            domain = domain_from(self.domain, device)
        except (KeyError, TypeError, ValueError, AttributeError, InputDataError) as error:
            raise ValueError(
                f"{path}: its domain is damaged ({type(error).__name__}: {error}); pass domain=."
            ) from error
        if domain is None:
            raise ValueError(f"{path}: its domain cannot be made from the file; pass domain=.")
        return domain

    @classmethod
    def _of(cls, content: Mapping[str, Any]) -> LoopFile:
        drawn = content["generator"]
        return cls(
            strategy=content["strategy"],
            domain=content["domain"],
            dtype=DTYPES[content["dtype"]],
            device=content["device"],
            pending=content["pending"],
            asked=content["asked"],
            generator=None if drawn is None else base64.b64decode(drawn, validate=True),
            waiting=[planned_from(one) for one in content["open"]],
            answers=[answer_from(one) for one in content["answers"]],
            # Loops were saved before they could carry experts.
            consulted=content.get("consulted", 0),
            questions=[question_from(one) for one in content.get("consultations", ())],
            replies=[reply_from(one) for one in content.get("replies", ())],
        )


def _require_same(there: Description, here: Description, name: str, path: Path) -> None:
    unlike = differences(there, json.loads(json.dumps(here)), name)
    require(
        not unlike,
        f"{path} was saved with another {name}: {'; '.join(unlike)}. Load it with the {name} it "
        "was made with, or begin a new loop: Loop.from_table takes in old measurements.",
    )


def _rows(rows: Iterable[Description]) -> str:
    """A list with a line per entry."""
    encode = json.JSONEncoder(allow_nan=False).encode  # json.dumps would make one per line
    lines = [f"    {encode(one)}" for one in rows]
    return "[\n" + ",\n".join(lines) + "\n  ]" if lines else "[]"
