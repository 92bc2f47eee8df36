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
from botorch_tv.strategies.loop_domain import domain_data, domain_from
from botorch_tv.strategies.loop_log import Answer, Planned, Prediction
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
            "generator": None
            if self.generator is None
            else base64.b64encode(self.generator).decode(),
        }
        lines = [f"  {json.dumps(key)}: {json.dumps(one)}" for key, one in head.items()]
        lines.append(f'  "open": {_rows(_planned_data(one) for one in self.waiting)}')
        lines.append(f'  "answers": {_rows(_answer_data(one) for one in self.answers)}')
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
            waiting=[_planned(one) for one in content["open"]],
            answers=[_answer(one) for one in content["answers"]],
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


def _planned_data(plan: Planned) -> dict[str, Description]:
    predicted = None if plan.prediction is None else plan.prediction._asdict()
    return {
        "number": plan.number,
        "point": list(plan.point),
        "arm": plan.arm,
        "planned_for": plan.time,
        "known": plan.known,
        "predicted": predicted,
    }


def _planned(data: Mapping[str, Any]) -> Planned:
    predicted, arm = data["predicted"], data["arm"]
    return Planned(
        number=int(data["number"]),
        point=tuple(float(one) for one in data["point"]),
        arm=None if arm is None else int(arm),
        time=float(data["planned_for"]),
        known=int(data["known"]),
        prediction=None if predicted is None else Prediction(**predicted),
    )


def _answer_data(answer: Answer) -> dict[str, Description]:
    measured = {
        "y": answer.y,
        "time": answer.time,
        "noise": answer.noise,
        "arrival": answer.arrival,
    }
    return measured | _planned_data(answer.planned)


def _answer(data: Mapping[str, Any]) -> Answer:
    y, noise = data["y"], data["noise"]
    return Answer(
        planned=_planned(data),
        y=None if y is None else float(y),
        time=float(data["time"]),
        noise=None if noise is None else float(noise),
        arrival=int(data["arrival"]),
    )
