"""The file of a loop: JSON, a line per answer, numbers in full."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from botorch.exceptions import InputDataError

from botorch_tv.files import require_regular, write_whole
from botorch_tv.identity import Description, describe, differences
from botorch_tv.identity.versions import libraries
from botorch_tv.strategies.cube import Parameters
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.loop.clock import ClockData, LoopClock
from botorch_tv.strategies.loop.cures import Act, Cure, RefusedFile, Words
from botorch_tv.strategies.loop.domain import PARAMETERS, domain_data, domain_from
from botorch_tv.strategies.loop.log import (
    Answer,
    Planned,
    Question,
    Reply,
    Superseded,
    recounted,
)
from botorch_tv.strategies.loop.typed_json import LARGEST, as_json, typed
from botorch_tv.strategies.loop.units import Units
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.spans import counted
from botorch_tv.validation import require

FORMAT = "botorch_tv loop"
VERSION = 2
"""Version of the format; it changes when older files can no longer be read."""
CHECKSUM = b',\n  "sha256": '
"""Start of the last line, a digest of all lines before; without that line nothing is checked."""
STALE, DIGESTS = "stale", "digests"
DTYPES = {"float64": torch.float64, "float32": torch.float32}
NAMES = {
    "open": "open suggestion",
    "answers": "measurement",
    "consultations": "consultation",
    "replies": "reply",
}
"""What a row of these fields is called."""
SHORT = 3
"""Hexadecimal digits of the digest of a field, enough to name what was changed by hand."""
NAMED = 8
"""Changes that a warning names."""
ROWS = ("open", "answers", "consultations", "replies", "superseded")
"""Fields whose rows have names and the user's units."""
ANEW: Words = ("begin a new loop: ", Cure(Act.TABLE), " takes in old measurements.")
COPY: Words = ("give a copy of it, or ", ANEW)
DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    InputDataError,
    LookupError,
    MemoryError,
    RuntimeError,
    TypeError,
    ValueError,
)
"""Errors that content not written by a loop may raise when it is read."""


@dataclass(frozen=True)
class LoopFile:
    """The content of a file.

    Attributes:
        strategy: Description of the strategy, to compare with the one given when the file is read.
        domain: Description of the domain.
        dtype: Name of the dtype of all computations.
        device: Device of all computations.
        pending: Maximum number of open suggestions.
        asked: Number of suggestions made.
        consulted: Number of consultations made.
        generator: State of the random number generator, in base 64; None if none is used.
        open: Suggestions without an answer.
        answers: All answers, in order of time.
        consultations: Consultations without answers.
        replies: The expert's answers, oldest first.
        clock: The clock of datetimes; None if times are numbers.
        superseded: Answers that were amended or removed, in that order.
        stale: Numbers of answers and open suggestions whose prediction knew rows that were changed
            by hand since; not written.
    """

    strategy: Any
    domain: dict[str, Any]
    dtype: str
    device: str
    pending: int
    asked: int
    consulted: int
    generator: str | None
    open: tuple[Planned, ...]
    answers: tuple[Answer, ...]
    consultations: tuple[Question, ...]
    replies: tuple[Reply, ...]
    clock: ClockData | None = None
    superseded: tuple[Superseded, ...] = ()
    stale: tuple[int, ...] = ()

    @property
    def kind(self) -> torch.dtype:
        """The dtype of all computations."""
        return DTYPES[self.dtype]

    def write(self, path: Path) -> None:
        """Write the file, all of it or nothing.

        Raises:
            OSError: If that fails; an older file is then as it was.
        """
        content = {"format": FORMAT, "version": VERSION, "made_with": libraries()}
        content |= {one.name: getattr(self, one.name) for one in fields(self) if one.name != STALE}
        content["clock"] = None if self.clock is None else asdict(self.clock)
        units = _units(self.domain, self.clock, self.kind)
        for name in ROWS:
            content[name] = tuple(units.written(asdict(one)) for one in getattr(self, name))
        content[DIGESTS] = _digests(json.loads(json.dumps(content)))
        text = "{\n" + ",\n".join(f'  "{key}": {as_json(one)}' for key, one in content.items())
        text += f'{CHECKSUM.decode()}"{hashlib.sha256(text.encode()).hexdigest()}"\n}}\n'
        write_whole(path.resolve(), lambda file: file.write(text.encode()))

    @classmethod
    def read(cls, path: Path) -> LoopFile:
        """The content of a file.

        Raises:
            ValueError: If it is damaged, no loop, or of another version.
            OSError: If it cannot be read.
        """
        require_regular(path)
        text = path.read_bytes()
        fix: Words = ("give a file that ", Cure(Act.SAVE), " has written, or a copy of it.")
        with refused(f"{path} holds no loop, or is damaged", fix):
            content = json.loads(text)
            require(content["format"] == FORMAT, f"its format is {content['format']!r}")
            version = content["version"]
            if version == VERSION:
                content.pop(STALE, None)
                changes, touched = _changes(content, text)
                clock = content.get("clock")
                clock = None if clock is None else typed(ClockData, clock, "clock")
                units = _units(content["domain"], clock, DTYPES[content["dtype"]])
                content.setdefault("superseded", [])  # which files of earlier versions lack
                for name in ROWS:
                    require(isinstance(content[name], list), f"{name} is no list")
                    content[name] = [units.read(one) for one in content[name]]
                file = typed(cls, content, "the file")._numbered()
                file._warn_of_versions(content["made_with"], path)
                if changes:
                    there = content[DIGESTS]["answers"]
                    added = {one.number for one in file.answers if str(one.number) not in there}
                    file = file._recounted(touched | added)
                    _warn_of_changes(changes, path)
                return file
        raise RefusedFile(
            f"{path} has version {version!r}, but this version of botorch_tv reads {VERSION}; ",
            ("install the one that wrote it, or ", ANEW),
        )

    def _numbered(self) -> LoopFile:
        """With numbers -1, -2, ... for measurements that earlier versions saved without."""
        order = sorted(self.answers, key=lambda one: one.arrival)
        used = min((one.number for one in (*order, *self.superseded)), default=0)
        unnamed = (one.arrival for one in order if one.number == 0)
        numbers = {arrival: min(used, 0) - n for n, arrival in enumerate(unnamed, start=1)}
        answers = [
            replace(one, number=numbers.get(one.arrival, one.number)) for one in self.answers
        ]
        return replace(self, answers=tuple(answers))

    def _recounted(self, touched: Collection[int]) -> LoopFile:
        """The content after rows were changed, added or removed by hand.

        Answers are sorted by time, and what arrived and was known is counted anew.

        Args:
            touched: Numbers of the answers and open suggestions that were changed or added.
        """
        rows = (*self.answers, *self.open)
        arrivals = {one.arrival for one in self.answers}
        most = max((one.known for one in rows), default=0)
        gone = set(range(max(most, len(arrivals)))) - arrivals
        changed = gone | {one.arrival for one in self.answers if one.number in touched}
        first = min(changed, default=LARGEST)
        stale = {one.number for one in rows if one.known > first} | set(touched)
        names = ("answers", "open", "consultations", "replies")
        anew = recounted(*(getattr(self, name) for name in names))
        return replace(self, **dict(zip(names, map(tuple, anew))), stale=tuple(stale))  # type: ignore[arg-type]

    def _warn_of_versions(self, made_with: Mapping[str, str], path: Path) -> None:
        here = libraries()
        unlike = differences({name: made_with.get(name) for name in here}, here)
        if unlike:
            warnings.warn(
                f"{path} was saved with other libraries: {'; '.join(unlike)}. All answers are told "
                "anew, so that the loop is of one piece, but choices may differ from those that "
                "the others would have made; install these to go on exactly.",
                stacklevel=4,
            )

    def strategy_or(self, given: Strategy | None, path: Path) -> Strategy:
        """The strategy given, or that of a loop for which none was.

        Raises:
            ValueError: If it is not that of the loop saved, naming every difference.
        """
        if given is None:
            minimizes = isinstance(self.strategy, dict) and self.strategy.get("maximize") is False
            given = adaptive_gp_ucb(maximize=not minimizes)
        _require_same(self.strategy, describe(given, "strategy"), "strategy", path)
        return given

    def place(self, given: torch.device | str | None, path: Path) -> torch.device:
        """Where to go on.

        Raises:
            ValueError: If that is not here.
        """
        wanted = self.device if given is None else given
        fix = "load it with device='cpu', or another that is here."
        with refused(f"{path}: the device {wanted!r} cannot be used", fix):
            place = torch.device(wanted)
            torch.empty(0, device=place)
            require(place.type != "meta", "it holds no numbers")
        return place

    def domain_or(self, given: Domain | None, device: torch.device, path: Path) -> Domain:
        """The domain that was saved, made from the file unless given.

        Raises:
            ValueError: If the one given is another, or none is given and the file is not enough.
        """
        if given is not None:
            _require_same(self.domain, domain_data(given), "domain", path)
            return given
        with refused(f"{path}: its domain is damaged", "pass domain=."):
            domain = domain_from(self.domain, device)
        if domain is None:
            raise ValueError(f"{path}: its domain cannot be made from the file; pass domain=.")
        return domain

    def check(self, domain: Domain, path: Path) -> None:
        """Raise a ``ValueError`` unless what is written down fits the domain and each other."""
        with refused(f"{path} is damaged", COPY):
            self._check_rows(domain)
            self._check_suggestions()
            self._check_consultations()

    def _check_rows(self, domain: Domain) -> None:
        n = len(self.answers)
        for one in self.superseded:
            _check_points(one, domain, self.kind)
        rows: list[Planned | Question] = [*self.answers, *self.open]
        for row in [*rows, *self.replies, *self.consultations]:
            _check_points(row, domain, self.kind)
            require(
                row.known <= n,
                f"{row.name} was made when {row.known} answers were known, but there are {n}",
            )

    def _check_suggestions(self) -> None:
        require(self.pending >= 1, f"pending is {self.pending}, which is no whole number from 1 on")
        plans = (*self.answers, *self.open)
        for plan in plans:
            said = plan.predicted
            require(said is None or said.sd >= 0, f"{plan.name} has a negative deviation, sd")
        _check_numbers([one.number for one in plans if one.number > 0], self.asked, "suggestion")
        observed = [-one.number for one in self.answers if one.number < 0]
        _check_numbers(observed, LARGEST, "unsuggested measurement")
        for plan in self.open:
            require(plan.number > 0, f"{plan.name} is open, but without number")
        for one in self.answers:
            require(
                one.noise is None or one.noise > 0,
                f"{one.name}: noise is {one.noise or 0:g}, which is not positive",
            )
        n = len(self.answers)
        require(
            sorted(one.arrival for one in self.answers) == list(range(n)),
            f"the arrivals of {n} answers are not 0 to {n - 1}, each once",
        )
        times = [one.time for one in self.answers]
        require(times == sorted(times), "the answers are not in order of time")

    def _check_consultations(self) -> None:
        numbers = [one.number for one in (*self.replies, *self.consultations)]
        require(numbers == sorted(numbers), "the consultations are not in order")
        _check_numbers(numbers, self.consulted, "consultation")
        for reply in self.replies:
            require(
                len(reply.y) == len(reply.points),
                f"{reply.name} has {counted(len(reply.y), 'answers')} for "
                f"{counted(len(reply.points), 'points')}",
            )


@contextmanager
def refused(what: str, fix: Words) -> Iterator[None]:
    """Whatever comes of damage within becomes a ``ValueError`` that says what is to be done."""
    try:
        yield
    except DAMAGE as error:
        raise RefusedFile(f"{what} ({_told(error)}); ", fix) from error


def _units(domain: Mapping[str, Any], clock: ClockData | None, dtype: torch.dtype) -> Units:
    """The names and units of a file."""
    named = domain.get(PARAMETERS)
    parameters = None if named is None else Parameters.from_data(named)
    return Units(parameters, LoopClock.of(clock), dtype)


def _check_points(row: Planned | Question, domain: Domain, dtype: torch.dtype) -> None:
    points, arms = row.points, row.arms
    require(len(points) > 0, f"{row.name} asks about no point")
    for point in points:
        require(
            len(point) == domain.columns,
            f"{row.name} has a point of {counted(len(point), 'coordinates')}, but {domain!r} has "
            f"{domain.columns}",
        )
    X = torch.tensor(points, dtype=dtype, device=domain.device)
    domain.locate(X)
    if not isinstance(domain, Grid):
        require(arms is None, f"{row.name} names an arm, but {domain!r} has none")
        return
    require(
        arms is not None and len(arms) == len(points) and all(one < len(domain) for one in arms),
        f"{row.name} has arms {arms}, but {domain!r} needs one for each point",
    )
    there = domain.X.to(X)[torch.tensor(arms, dtype=torch.int64, device=X.device)]
    require(torch.equal(there, X), f"{row.name} is at {points[0]}, which is not arm {arms}")


def _check_numbers(numbers: Iterable[int], most: int, what: str) -> None:
    seen: set[int] = set()
    for number in numbers:
        require(number not in seen, f"{what} {number} is there twice")
        require(1 <= number <= most, f"{what} {number} is there, but {most} were made")
        seen.add(number)


def _require_same(there: Description, here: Description, name: str, path: Path) -> None:
    try:
        unlike = differences(there, json.loads(json.dumps(here)), name)
    except DAMAGE as error:
        unlike = [f"{name} is damaged there ({_told(error)})"]
    if unlike:
        same: Words = f"load it with the {name} it was made with"
        raise RefusedFile(
            f"{path} was saved with another {name}: {'; '.join(unlike)}; ",
            (Cure(Act.STRATEGY) if name == "strategy" else same, ", or ", ANEW),
        )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:SHORT]


def _digests(content: Mapping[str, Any]) -> dict[str, Any]:
    """Short digests of the content: of each field of the rows by number, and of all else."""
    rows = {name: {str(row["number"]): _digest_of(row) for row in content[name]} for name in NAMES}
    others = {one: _digest(value) for one, value in content.items() if one not in NAMES}
    return {**rows, "others": others}


def _digest_of(row: Mapping[str, Any]) -> str:
    return "".join(_digest(row[one]) for one in sorted(row))


def _changes(content: Mapping[str, Any], text: bytes) -> tuple[list[str], set[int]]:
    """What was changed by hand, in words, and the numbers of the plans that were changed or added.

    A file without a checksum counts as unchanged.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: If the content is damaged, or was changed
            and lacks the digests that tell where.
    """
    before = text[: max(text.rfind(CHECKSUM), 0)]
    if content.get("sha256") in (None, hashlib.sha256(before).hexdigest()):
        return [], set()
    require(
        DIGESTS in content,
        "its content is not what was written, by its checksum; if that was changed on purpose, "
        "remove the line of sha256 and the comma before",
    )
    words: list[str] = []
    touched: set[int] = set()
    former = content[DIGESTS]
    for name, called in NAMES.items():
        left = dict(former[name])
        for row in content[name]:
            number = row["number"]
            was, now = left.pop(str(number), None), _digest_of(row)
            if was == now:
                continue
            if name in ("answers", "open"):
                touched.add(number)
            found = [
                f"{field} is now {_brief(row[field])}"
                for place, field in enumerate(sorted(row))
                if was is not None and was[SHORT * place :][:SHORT] != now[SHORT * place :][:SHORT]
            ]
            told = " was added" if was is None else f": {', '.join(found)}"
            words.append(f"{called} {number}{told}")
        words += [f"{called} {number} is gone" for number in left]
    for one, was in former["others"].items():
        if one not in content:
            words.append(f"{one} is gone")
        elif _digest(content[one]) != was:
            words.append(f"{one} is now {_brief(content[one])}")
    return words or ["spaces or other signs, but no value"], touched


def _brief(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _warn_of_changes(changes: list[str], path: Path) -> None:
    more = f"; and {len(changes) - NAMED} more" if len(changes) > NAMED else ""
    warnings.warn(
        f"{path} was changed by hand since it was saved: {'; '.join(changes[:NAMED])}{more}. The "
        "loop goes on from that; once it is saved again, this is not mentioned any more.",
        stacklevel=4,
    )


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"
