"""The file of a loop: JSON, a line per answer, numbers in full."""

from __future__ import annotations

import base64
import hashlib
import json
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from botorch.exceptions import InputDataError

from botorch_tv.files import write_whole
from botorch_tv.identity import Description, describe, differences
from botorch_tv.identity.source import library
from botorch_tv.identity.versions import versions
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
from botorch_tv.strategies.loop.sound import check_consultations, check_rows, rows, whole
from botorch_tv.validation import require

FORMAT = "botorch_tv loop"
VERSION = 2
"""Changes whenever files of an older version could not be gone on with."""
CHECKSUM = b',\n  "sha256": '
"""Begins the last line, a digest of all before; a file from which it is removed is not checked."""
DTYPES = {"float64": torch.float64, "float32": torch.float32}


DAMAGE = (
    ArithmeticError,
    AttributeError,
    InputDataError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""What comes of reading content that no loop has written."""


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
            "made_with": _libraries(),
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
        text = "{\n" + ",\n".join(lines)
        text += f'{CHECKSUM.decode()}"{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n'
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
            version = content["version"]
            if version == VERSION:
                _require_checksum(content, text)
                file = cls._of(content)
                file._warn_of_versions(content["made_with"], path)
                return file
        except DAMAGE as error:
            raise ValueError(
                f"{path} holds no loop, or is damaged ({_told(error)}); give a file that Loop.save "
                "has written, or a copy of it."
            ) from error
        raise ValueError(
            f"{path} has version {version!r}, but this version of botorch_tv reads {VERSION}; "
            "install the one that wrote it, or begin a new loop: Loop.from_table takes in the "
            "answers that stand in the file."
        )

    def check(self, domain: Domain, path: Path) -> None:
        """Raise a ``ValueError`` unless what is written down fits the domain and each other."""
        try:
            check_rows(self.answers, self.waiting, self.asked, domain=domain, dtype=self.dtype)
            check_consultations(
                self.replies,
                self.questions,
                self.consulted,
                answers=len(self.answers),
                domain=domain,
                dtype=self.dtype,
            )
        except DAMAGE as error:
            raise ValueError(
                f"{path} is damaged ({_told(error)}); give a copy of it, or begin a new loop: "
                "Loop.from_table takes in old measurements."
            ) from error

    def place(self, given: torch.device | str | None, path: Path) -> torch.device:
        """Where to go on.

        Raises:
            ValueError: If that is not here.
        """
        try:
            place = torch.device(self.device if given is None else given)
            torch.empty(0, device=place)
            require(place.type != "meta", "it holds no numbers")
        except (TypeError, ValueError, RuntimeError, AssertionError, NotImplementedError) as error:
            raise ValueError(
                f"{path}: the device {self.device if given is None else given!r} cannot be used "
                f"({_told(error)}); load it with device='cpu', or another that is here."
            ) from error
        return place

    def _warn_of_versions(self, made_with: Mapping[str, str], path: Path) -> None:
        here = _libraries()
        unlike = differences({name: made_with.get(name) for name in here}, here)
        if unlike:
            warnings.warn(
                f"{path} was saved with other libraries: {'; '.join(unlike)}. All answers are told "
                "anew, so that the loop is of one piece, but choices may differ from those that "
                "the others would have made; install these to go on exactly.",
                stacklevel=4,
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
        except DAMAGE as error:
            raise ValueError(
                f"{path}: its domain is damaged ({_told(error)}); pass domain=."
            ) from error
        if domain is None:
            raise ValueError(f"{path}: its domain cannot be made from the file; pass domain=.")
        return domain

    @classmethod
    def _of(cls, content: Mapping[str, Any]) -> LoopFile:
        drawn, device = content["generator"], content["device"]
        require(isinstance(device, str), f"device is {device!r}")
        require(isinstance(content["domain"], dict), "its domain is no mapping")
        return cls(
            strategy=content["strategy"],
            domain=content["domain"],
            dtype=DTYPES[content["dtype"]],
            device=device,
            pending=whole(content["pending"], "pending", 1),
            asked=whole(content["asked"], "asked"),
            generator=None if drawn is None else base64.b64decode(drawn, validate=True),
            waiting=[planned_from(one) for one in rows(content["open"], "open")],
            answers=[answer_from(one) for one in rows(content["answers"], "answers")],
            consulted=whole(content["consulted"], "consulted"),
            questions=[
                question_from(one) for one in rows(content["consultations"], "consultations")
            ],
            replies=[reply_from(one) for one in rows(content["replies"], "replies")],
        )


def _require_same(there: Description, here: Description, name: str, path: Path) -> None:
    try:
        unlike = differences(there, json.loads(json.dumps(here)), name)
    except DAMAGE as error:
        unlike = [f"{name} is damaged there ({_told(error)})"]
    require(
        not unlike,
        f"{path} was saved with another {name}: {'; '.join(unlike)}. Load it with the {name} it "
        "was made with, or begin a new loop: Loop.from_table takes in old measurements.",
    )


def _require_checksum(content: Mapping[str, Any], text: bytes) -> None:
    """Raise a ``ValueError`` if the file has a checksum that is not that of its content."""
    if "sha256" not in content:
        return
    before = text[: max(text.rfind(CHECKSUM), 0)]
    require(
        hashlib.sha256(before).hexdigest() == content["sha256"],
        "its content is not what was written, by its checksum; if that was changed on purpose, "
        "remove the line of sha256 and the comma before",
    )


def _libraries() -> dict[str, str]:
    return versions() | {"botorch_tv": library()}


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"


def _rows(entries: Iterable[Description]) -> str:
    """A list with a line per entry."""
    encode = json.JSONEncoder(allow_nan=False).encode  # json.dumps would make one per line
    lines = [f"    {encode(one)}" for one in entries]
    return "[\n" + ",\n".join(lines) + "\n  ]" if lines else "[]"
