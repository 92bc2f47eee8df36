"""JSON of dataclasses: written with a line per row, read with every field checked by its type."""

from __future__ import annotations

import hashlib
import json
import math
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.files import require_regular, write_whole
from botorch_tv.gp.search import DiscreteSearch, MultiStart, Search
from botorch_tv.identity import Description, describe, differences, libraries
from botorch_tv.loop.clock import ClockData, LoopClock, Units
from botorch_tv.loop.log import Answer, Planned, Question, Reply, Superseded, recounted
from botorch_tv.strategies.box import Bounds, Box, Parameters
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.parameters import MixedSearch
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.validation import counted, require

LARGEST = 2**62
"""Counters beyond are damage."""
Kind = TypeVar("Kind")


def as_json(value: Any) -> str:
    """As JSON: rows with a line for each, all else on one."""
    if not isinstance(value, tuple):
        return json.dumps(value)
    encode = json.JSONEncoder(allow_nan=False).encode  # json.dumps would make one per line
    lines = [f"    {encode(one)}" for one in value]
    return "[\n" + ",\n".join(lines) + "\n  ]" if lines else "[]"


def typed(kind: type[Kind], data: Mapping[str, Any], name: str) -> Kind:
    """A dataclass of the fields that its types ask for.

    Raises:
        KeyError, TypeError, ValueError: If the data are damaged.
    """
    require(isinstance(data, dict), f"{name} is {_brief(data)}, which has no fields")
    later = {one.name for one in fields(kind) if one.default is not MISSING}  # type: ignore[arg-type]
    hints = {
        one: hint for one, hint in get_type_hints(kind).items() if one in data or one not in later
    }
    return kind(**{one: _value(hint, data[one], one) for one, hint in hints.items()})


def _value(hint: Any, value: Any, name: str) -> Any:
    """A value of JSON, checked against the type of a field."""
    kinds = get_args(hint)
    if NoneType in kinds:
        return None if value is None else _value(kinds[0], value, name)
    if get_origin(hint) is tuple:
        require(isinstance(value, list), f"{name} is {_brief(value)}, which is no list")
        return tuple(_value(kinds[0], one, name) for one in value)
    if hint is int:
        least = -LARGEST if name == "number" else 0  # negative for what nobody suggested
        whole = type(value) is int and least <= value < LARGEST
        require(whole, f"{name} is {_brief(value)}, which is no whole number from 0 on")
        return value
    if hint is float:
        plain = type(value) is float or (type(value) is int and abs(value) < LARGEST)
        finite = plain and math.isfinite(value)
        require(finite, f"{name} is {_brief(value)}, which is no finite number")
        return float(value)
    if hint is str or get_origin(hint) is dict:
        require(isinstance(value, get_origin(hint) or hint), f"{name} is {_brief(value)}")
        return value
    return value if hint is Any else typed(hint, value, name)


def _brief(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


TYPE = "type"
PARAMETERS = "parameters"
MIXED = {TYPE: "Mixed"}
"""The saved kind of a box with choices, whose search follows from its parameters."""
MOST_ARMS = 10**8
"""No loop has more; a file that says so is damaged."""


def as_domain(bounds: Domain | Bounds) -> Domain:
    """The box of some bounds, sides or named parameters; anything else is handed on."""
    return Box(bounds) if isinstance(bounds, (Tensor, Mapping, list, tuple)) else bounds  # type: ignore[return-value]


def domain_data(domain: Domain) -> dict[str, Description]:
    """A domain as data of which :func:`domain_from` makes one that is equal bit for bit.

    Domains and searches of one's own are described, but not in full.
    """
    if type(domain) is Box:
        sides: dict[str, Description] = {"bounds": _numbers(domain.bounds)}
        if domain.parameters is not None:
            sides = {PARAMETERS: domain.parameters.data()}
        search = _search_data(domain.search)
        return {TYPE: "Box", **sides, "context_dim": domain.context_dim, "search": search}
    if type(domain) is Grid:
        axes = _axes(domain)
        if axes is None:
            return {TYPE: "Grid", "arms": _numbers(domain.X)}
        return {TYPE: "Grid", "axes": [_numbers(one) for one in axes]}
    described: dict[str, Description] = describe(domain, "domain")
    return described


def domain_from(data: Mapping[str, Any], device: torch.device) -> Domain | None:
    """The domain that was described; None where the description is not enough.

    Raises:
        KeyError, TypeError, ValueError, InputDataError: If the data are damaged.
    """
    if data[TYPE] == "Box":
        named = PARAMETERS in data
        if named and data["search"] == MIXED:
            return Box(Parameters.from_data(data[PARAMETERS]), context_dim=data["context_dim"])
        search = _search_from(data["search"], device)
        if search is None:
            return None
        bounds = (
            Parameters.from_data(data[PARAMETERS]) if named else _tensor(data["bounds"], device)
        )
        return Box(bounds, context_dim=data["context_dim"], search=search)
    if data[TYPE] == "Grid" and "axes" in data:
        axes = [_tensor(axis, device) for axis in data["axes"]]
        arms = math.prod(map(len, axes))
        require(0 < arms <= MOST_ARMS, f"the axes make {arms:,} arms")
        grid = Grid(_product(axes))
        grid.shape = tuple(len(axis) for axis in axes)
        return grid
    return Grid(_tensor(data["arms"], device)) if data[TYPE] == "Grid" else None


def _search_data(search: Search) -> Description:
    if type(search) is MixedSearch:
        return MIXED
    if type(search) is MultiStart:
        return {TYPE: "MultiStart", **asdict(search)}
    if type(search) is DiscreteSearch:
        return {TYPE: "Candidates", "X": _numbers(search.X)}
    return describe(search, "domain.search")


def _search_from(data: Mapping[str, Any], device: torch.device) -> Search | None:
    settings = {name: one for name, one in data.items() if name != TYPE}
    if data[TYPE] == "MultiStart":
        return MultiStart(**settings)
    return DiscreteSearch(_tensor(data["X"], device)) if data[TYPE] == "Candidates" else None


def _axes(grid: Grid) -> list[Tensor] | None:
    """The axes of a regular grid; None where the arms have to be listed."""
    if len(grid.shape) != grid.dim:
        return None
    cube = grid.X.view(*grid.shape, grid.dim)
    axes = []
    for side in range(grid.dim):
        first = cube[..., side].movedim(side, -1)
        axes.append(first.reshape(-1, grid.shape[side])[0])
    return axes if torch.equal(_product(axes), grid.X) else None


def _product(axes: list[Tensor]) -> Tensor:
    """All points of a grid, the last axis running fastest, `M x d`."""
    return torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).view(-1, len(axes))


def _numbers(tensor: Tensor) -> dict[str, Description]:
    """A tensor, each row or number of it in full."""
    return {"dtype": str(tensor.dtype), "rows": tensor.tolist()}


def _tensor(data: Mapping[str, Any], device: torch.device) -> Tensor:
    dtypes = {str(one): one for one in (torch.float64, torch.float32)}
    return torch.tensor(data["rows"], dtype=dtypes[data["dtype"]], device=device)


FORMAT = "botorch_tv loop"
VERSION = 2
"""Version of the format; it changes when older files can no longer be read."""
CHECKSUM = b',\n  "sha256": '
"""Start of the last line, a digest of all lines before; without that line nothing is checked."""
SHORT = 4
"""Digits of the digest of a field; the checksum is whole."""
STALE, DIGESTS = "stale", "digests"
DTYPES = {"float64": torch.float64, "float32": torch.float32}
NAMES = {
    "open": "open suggestion",
    "answers": "measurement",
    "consultations": "consultation",
    "replies": "reply",
}
"""What a row of these fields is called."""
NAMED = 8
"""Changes that a warning names."""
ROWS = ("open", "answers", "consultations", "replies", "superseded")
"""Fields whose rows have names and the user's units."""
ANEW = "begin a new loop: Loop.from_table takes in old measurements."
COPY = f"give a copy of it, or {ANEW}"
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
        fix = "give a file that Loop.save has written, or a copy of it."
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
                for name in ROWS:
                    require(isinstance(content[name], list), f"{name} is no list")
                    content[name] = [units.read(one) for one in content[name]]
                file = typed(cls, content, "the file")
                here = libraries()
                unlike = differences({one: content["made_with"].get(one) for one in here}, here)
                if unlike:
                    warnings.warn(
                        f"{path} was saved with other libraries: {'; '.join(unlike)}. All answers "
                        "are told anew, so that the loop is of one piece, but choices may differ "
                        "from those that the others would have made; install these to go on "
                        "exactly.",
                        stacklevel=3,
                    )
                if changes:
                    there = content[DIGESTS]["answers"]
                    added = {one.number for one in file.answers if str(one.number) not in there}
                    file = file._recounted(touched | added)
                    more = f"; and {len(changes) - NAMED} more" if len(changes) > NAMED else ""
                    warnings.warn(
                        f"{path} was changed by hand since it was saved: "
                        f"{'; '.join(changes[:NAMED])}{more}. The loop goes on from that; once it "
                        "is saved again, this is not mentioned any more.",
                        stacklevel=3,
                    )
                return file
        raise ValueError(
            f"{path} has version {version!r}, but this version of botorch_tv reads {VERSION}; "
            f"install the one that wrote it, or {ANEW}"
        )

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

    def check(self, domain: Domain) -> None:
        """Raise an error unless the rows fit the domain and each other."""
        n = len(self.answers)
        plans: list[Planned] = [*self.answers, *self.open]
        rows: list[Planned | Question] = [*plans, *self.replies, *self.consultations]
        for row in (*rows, *self.superseded):
            _check_points(row, domain, self.kind)
        for row in rows:
            require(
                row.known <= n,
                f"{row.name} was made when {row.known} answers were known, but there are {n}",
            )
        require(self.pending >= 1, f"pending is {self.pending}, which is no whole number from 1 on")
        for plan in plans:
            before = plan.predicted
            require(before is None or before.sd >= 0, f"{plan.name} has a negative deviation, sd")
        _check_numbers([one.number for one in plans if one.number > 0], self.asked, "suggestion")
        observed = [-one.number for one in self.answers if one.number <= 0]
        _check_numbers(observed, LARGEST, "unsuggested measurement")
        for plan in self.open:
            require(plan.number > 0, f"{plan.name} is open, but without number")
        require(
            sorted(one.arrival for one in self.answers) == list(range(n)),
            f"the arrivals of {n} answers are not 0 to {n - 1}, each once",
        )
        times = [one.time for one in self.answers]
        require(times == sorted(times), "the answers are not in order of time")
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
def refused(what: str, fix: str) -> Iterator[None]:
    """Whatever comes of damage within becomes a ``ValueError`` that says what is to be done."""
    try:
        yield
    except DAMAGE as error:
        raise ValueError(f"{what} ({_told(error)}); {fix}") from error


def _units(domain: Mapping[str, Any], clock: ClockData | None, dtype: torch.dtype) -> Units:
    """The names and units of a file."""
    named = domain.get(PARAMETERS)
    parameters = None if named is None else Parameters.from_data(named)
    return Units(parameters, LoopClock.of(clock), dtype)


def _check_points(row: Planned | Question, domain: Domain, dtype: torch.dtype) -> None:
    points, arms = row.points, row.arms
    require(len(points) > 0, f"{row.name} asks about no point")
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
        raise ValueError(
            f"{path} was saved with another {name}: {'; '.join(unlike)}; load it with the {name} "
            f"it was made with, or {ANEW}"
        )


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:SHORT]


def _of_row(row: Mapping[str, Any]) -> str:
    return "".join(_digest(row[field]) for field in sorted(row))


def _digests(content: Mapping[str, Any]) -> dict[str, Any]:
    """Short digests of the content: of each field of the rows by number, and of all else."""
    rows = {name: {str(row["number"]): _of_row(row) for row in content[name]} for name in NAMES}
    others = {one: _digest(value) for one, value in content.items() if one not in NAMES}
    return {**rows, "others": others}


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
            was, now = left.pop(str(number), None), _of_row(row)
            if was == now:
                continue
            if name in ("answers", "open"):
                touched.add(number)
            found = [
                f"{field} is now {_brief(row[field])}"
                for at, field in zip(range(0, len(now), SHORT), sorted(row))
                if was is not None and was[at : at + SHORT] != now[at : at + SHORT]
            ]
            changed = " was added" if was is None else f": {', '.join(found)}"
            words.append(f"{called} {number}{changed}")
        words += [f"{called} {number} is gone" for number in left]
    for one, was in former["others"].items():
        if one not in content:
            words.append(f"{one} is gone")
        elif _digest(content[one]) != was:
            words.append(f"{one} is now {_brief(content[one])}")
    return words or ["spaces or other signs, but no value"], touched


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error)[:300]}"
