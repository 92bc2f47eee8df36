"""The files of a loop: JSON with a line per measurement, and a snapshot of the loop's state.

Users may edit the JSON by hand.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from botorch_tv.files import beside, require_regular, write_whole
from botorch_tv.gp.search import DiscreteSearch, MultiStart, Search
from botorch_tv.gp.tensors import Rows
from botorch_tv.identity import (
    TYPE,
    Description,
    describe,
    differences,
    libraries,
    require_format,
    warn_of_versions,
)
from botorch_tv.loop.clock import LoopClock, Units
from botorch_tv.loop.log import Measurement, MeasurementLog, OpenBox, Question, recounted
from botorch_tv.strategies.box import Bounds, Box
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.mixed_search import MixedSearch
from botorch_tv.strategies.named import Parameters
from botorch_tv.strategies.state import FORMAT as STATE_FORMAT
from botorch_tv.validation import require

FORMAT = "botorch_tv loop"
VERSION = 3
"""Number of the format; it increases if older files cannot be read."""
SHORT = 12
"""Number of hexadecimal digits of a digest in a file."""
DIGESTS = "digests"
NAMED = 8
"""Maximum number of changes that a warning lists."""
PLANNED = ("number", "point", "arm", "planned_for", "known", "predicted", "keeps")
ANSWERED = (*PLANNED, "y", "time", "noise", "arrival")
ASKED = ("number", "points", "arms", "time", "known")
ROWS: dict[str, tuple[str, tuple[str, ...]]] = {
    "open": ("open suggestion", PLANNED),
    "answers": ("measurement", ANSWERED),
    "superseded": ("superseded measurement", (*ANSWERED, "became")),
    "consultations": ("consultation", ASKED),
    "replies": ("reply", (*ASKED, "y")),
}
"""For each list of rows in a file: the name of its rows in messages, and the fields of its rows."""
REBUILT = ("answers", "open", "consultations", "replies")
"""The lists of rows that a change of an answer may change, in the order of :func:`recounted`."""
WHOLE = ("number", "arm", "arms", "known", "arrival")
MANY = ("point", "points", "arms", "predicted", "y", "noise")
LARGEST = 2**62
"""Integers in a file must be smaller than this bound."""
DTYPES = {"float64": torch.float64, "float32": torch.float32}
NEW_LOOP = "start a new loop with the table of old measurements."
COPY = f"load a copy of it, or {NEW_LOOP}"


@contextmanager
def refused(problem: str, fix: str) -> Iterator[None]:
    """Convert an error raised by damaged content to a ``ValueError`` that suggests a fix."""
    try:
        yield
    except Exception as error:
        reason = f"{type(error).__name__}: {str(error)[:300]}"
        raise ValueError(f"{problem} ({reason}); {fix}") from error


def version_of(path: Path) -> tuple[object, ...] | None:
    """The path, inode, time and size of a file, to detect any change; None without a file."""
    if not path.exists():
        return None
    stat = path.stat()
    return path.resolve(), stat.st_ino, stat.st_mtime_ns, stat.st_size


def write_loop(path: Path, content: dict[str, Any], units: Units) -> None:
    """Write the file of a loop atomically.

    Args:
        path: The file.
        content: The content; rows are instances of :class:`Measurement` or :class:`Question`.
        units: The names and units in which rows are written.

    Raises:
        OSError: If the file cannot be written; an existing file is then unchanged.
    """
    content = {"format": FORMAT, "version": VERSION, "made_with": libraries(), **content}
    for name, (_, fields) in ROWS.items():
        rows = [{field: getattr(row, field) for field in fields} for row in content[name]]
        for row in rows:
            if row.get("keeps", 0) is None:  # without limits on outcomes
                del row["keeps"]
        content[name] = [units.written(row) for row in rows]
    content[DIGESTS] = _digests(content)
    lines = []
    for name, value in content.items():
        text = _json(value)
        if name in ROWS and value:
            encoded = [f"    {json.dumps(row, allow_nan=False)}" for row in value]
            text = "[\n" + ",\n".join(encoded) + "\n  ]"
        lines.append(f'  "{name}": {text}')
    whole = "{\n" + ",\n".join(lines) + "\n}\n"
    write_whole(path.resolve(), lambda file: file.write(whole.encode()))


def read_loop(path: Path) -> tuple[dict[str, Any], set[int]]:
    """The content of the file of a loop.

    Returns:
        Two values: the content, with its rows as instances of :class:`Measurement` and
        :class:`Question`; and the ``number`` of each answer and open suggestion whose prediction
        must be recomputed, because the prediction used rows that were changed by hand.

    Raises:
        ValueError: If the file is damaged, if it has another format, or if it is not the file of a
            loop.
        OSError: If the file cannot be read.
    """
    require_regular(path)
    text = path.read_bytes()
    problem, fix = f"{path} is damaged, or is not the file of a loop", "load a copy of it."
    with refused(problem, fix):
        content = json.loads(text)
        require(content["format"] == FORMAT, f"its format is {content['format']!r}")
        number, made_with = content["version"], dict(content["made_with"])
    require_format(str(path), number, VERSION, made_with, NEW_LOOP)
    warn_of_versions(str(path), made_with)
    with refused(problem, fix):
        changes, touched = _changes(content)
        require(isinstance(content["strategy"], dict), '"strategy" does not describe a strategy')
        domain, outcomes = content["domain"], (content.get("problem") or {}).get("outcomes", ())
        named = Parameters.from_data(own) if (own := domain.get("parameters")) else None
        clock, dtype = LoopClock.of(content["clock"]), DTYPES[content["dtype"]]
        units = Units(named, clock, dtype, outcomes, bool(domain.get("open")))
        for name, (_, fields) in ROWS.items():
            require(isinstance(content[name], list), f"{name} is not a list")
            content[name] = [_row(name, units.read(row), fields) for row in content[name]]
        stale = _recount(content, touched) if changes else set()
    if changes:
        more = f"; and {len(changes) - NAMED} more" if len(changes) > NAMED else ""
        warnings.warn(
            f"{path} was changed by hand since it was saved: {'; '.join(changes[:NAMED])}{more}. "
            "The loop continues from the changed rows.",
            stacklevel=3,
        )
    return content, stale


def _json(value: Any, **settings: Any) -> str:
    """A value as JSON; numbers and arrays of NumPy and PyTorch are those of Python."""
    return json.dumps(value, default=lambda own: own.tolist(), **settings)


def _row(name: str, row: dict[str, Any], fields: Iterable[str]) -> Measurement | Question:
    """A row of the file, with every number checked."""
    row = {"keeps": None, **row}
    own = {field: _checked(field, row[field], name == "replies") for field in fields}
    if name in ("consultations", "replies"):
        return Question(**own)
    return Measurement(**{"time": own["planned_for"], **own})


def _checked(field: str, value: Any, of_reply: bool) -> Any:
    if isinstance(value, list):
        require(field in MANY, f"{field} is a list")
        lacks = field in ("y", "noise") and not of_reply  # NaN is a missing outcome
        return tuple(n if lacks and n != n else _checked(field, n, of_reply) for n in value)
    if value is None or field == "became":
        return value
    whole, least = field in WHOLE, -LARGEST if field == "number" else 0
    good = type(value) is int and least <= value < LARGEST if whole else type(value) in (int, float)
    require(
        good and math.isfinite(value),
        f"{field} is {json.dumps(value)[:60]}, not {'an integer' if whole else 'a finite number'}",
    )
    return value if whole else float(value)


def _digests(content: Mapping[str, Any]) -> dict[str, str]:
    """A dict with a short digest of each row and each other value; messages use its keys."""
    parts: dict[str, Any] = {}
    for name, value in content.items():
        if name in ROWS and name != "superseded":
            parts |= {f"{ROWS[name][0]} {row['number']}": row for row in value}
        elif name != DIGESTS:
            parts[name] = value
    texts = {name: _json(part, sort_keys=True) for name, part in parts.items()}
    return {name: hashlib.sha256(text.encode()).hexdigest()[:SHORT] for name, text in texts.items()}


def _changes(content: Mapping[str, Any]) -> tuple[list[str], set[int]]:
    """Texts that list changes by hand; the ``number`` of each affected answer and suggestion.

    An answer or suggestion is affected if it was changed or added by hand. A file without digests
    counts as unchanged.
    """
    now = _digests(content)
    former = dict(content.get(DIGESTS, now))
    changed = [name for name, digest in now.items() if former.get(name) != digest]
    texts = [f"{name} was {'changed' if name in former else 'added'}" for name in changed]
    texts += [f"{name} was deleted" for name in former if name not in now]
    rows = [(ROWS[name][0], row["number"]) for name in ("answers", "open") for row in content[name]]
    return texts, {number for kind, number in rows if f"{kind} {number}" in changed}


def _recount(content: dict[str, Any], touched: set[int]) -> set[int]:
    """After changes by hand, sort the answers by time and renumber their arrivals.

    Args:
        content: The content, changed in place.
        touched: The ``number`` of each answer and open suggestion that was changed or added.

    Returns:
        The ``number`` of each answer and open suggestion whose prediction must be recomputed.
    """
    answers = content["answers"]
    rows = (*answers, *content["open"])
    arrivals = {answer.arrival for answer in answers}
    changed = [answer.arrival for answer in answers if answer.number in touched]
    missing = next(arrival for arrival in range(len(arrivals) + 1) if arrival not in arrivals)
    if missing < max([len(arrivals), *(row.known for row in rows)]):
        changed.append(missing)
    first = min(changed, default=LARGEST)
    content.update(zip(REBUILT, recounted(*(content[name] for name in REBUILT))))
    return {row.number for row in rows if row.known > first} | touched


def check_rows(content: Mapping[str, Any], domain: Domain) -> None:
    """Raise an error unless the rows match the domain and agree with each other."""
    answers, waiting = content["answers"], content["open"]
    asked = [*content["replies"], *content["consultations"]]
    times = [answer.time for answer in answers]
    require(times == sorted(times), "the answers are not in order of time")
    arrivals, n = sorted(answer.arrival for answer in answers), len(answers)
    problem = f"the arrivals of {n} answers must be the numbers 0 to {n - 1}, each once"
    require(arrivals == list(range(n)), problem)
    require(all(row.number > 0 for row in waiting), "an open suggestion has a number below 1")
    consulted = [row.number for row in asked]
    require(consulted == sorted(consulted), "the consultations are not in order")
    for numbers, most in (
        ([row.number for row in (*answers, *waiting) if row.number > 0], content["asked"]),
        ([-row.number for row in answers if row.number <= 0], LARGEST),
        (consulted, content["consulted"]),
    ):
        valid = type(most) is int and all(1 <= number <= most for number in numbers)
        require(valid, f"the numbers {numbers} must lie between 1 and {most!r}")
        require(len(numbers) == len(set(numbers)), f"{numbers} has duplicates")
    for row in (*answers, *waiting, *content["superseded"]):
        _check_points(domain, [row.point], None if row.arm is None else [row.arm], content["dtype"])
    for row in asked:
        _check_points(domain, row.points, row.arms, content["dtype"])
        require(row.y is None or len(row.y) == len(row.points), f"reply {row.number} is incomplete")


def _check_points(domain: Domain, points: Any, arms: Any, dtype: str) -> None:
    X = torch.tensor(points, dtype=DTYPES[dtype], device=domain.device)
    require(X.dim() == 2 and len(X) > 0, f"{points} is not a list of points")
    domain.locate(X)
    if not isinstance(domain, Grid):
        require(arms is None, f"arms are {arms}, but {domain!r} has no arms")
        return
    own = domain.X.to(X)
    fits = arms is not None and max(arms) < len(own)
    fits = fits and torch.equal(own[torch.tensor(arms, device=X.device)], X)
    require(fits, f"points {points} are not the points of arms {arms}")


def require_same(old: Description, new: Description, name: str, path: Path) -> None:
    """If two descriptions differ, raise a ``ValueError`` that lists all differences."""
    with refused(f"{path}: its {name} is damaged", COPY):
        unlike = differences(old, json.loads(json.dumps(new)), name)
    if unlike:
        raise ValueError(
            f"{path} was saved with another {name}: {'; '.join(unlike)}; pass that {name}, or "
            f"{NEW_LOOP}"
        )


# ---------------------------------------------------------------- domains

MOST_ARMS = 10**8
"""Maximum number of arms; a file with more arms counts as damaged."""


def as_domain(bounds: Domain | Bounds) -> Domain:
    """A box made from bounds or named parameters; any other object is returned unchanged."""
    return Box(bounds) if isinstance(bounds, (Tensor, Mapping, list, tuple)) else bounds  # type: ignore[return-value]


def domain_data(domain: Domain) -> dict[str, Description]:
    """A domain as JSON data, from which :func:`domain_from` restores it bit for bit.

    A user-defined domain or search is described but not stored, so it cannot be restored.
    """
    if type(domain) in (Box, OpenBox):
        assert isinstance(domain, Box)
        ranges: dict[str, Description] = {"bounds": _numbers(domain.bounds)}
        if domain.parameters is not None:
            ranges = {"parameters": domain.parameters.data()}
            if domain.constraints:
                ranges["constraints"] = list(domain.constraints)
        own: Any = domain.search
        if type(own) is MixedSearch:
            search: Description = {TYPE: "Mixed"}
        elif type(own) is MultiStart:
            search = {TYPE: "MultiStart", **asdict(own)}
        elif type(own) is DiscreteSearch:
            search = {TYPE: "Candidates", "X": _numbers(own.X)}
        else:
            search = describe(own, "domain.search")
        ranges |= {"open": True} if type(domain) is OpenBox else {}
        return {TYPE: "Box", **ranges, "context_dim": domain.context_dim, "search": search}
    if type(domain) is Grid:
        axes = [torch.unique(domain.X[:, axis]) for axis in range(domain.dim)]
        shape = tuple(map(len, axes))
        if shape == domain.shape and torch.equal(_product(axes), domain.X):
            return {TYPE: "Grid", "axes": [_numbers(axis) for axis in axes]}
        return {TYPE: "Grid", "arms": _numbers(domain.X)}
    return describe(domain, "domain")


def domain_from(data: Mapping[str, Any], device: torch.device) -> Domain:
    """The domain that :func:`domain_data` stored.

    Raises:
        KeyError, TypeError, ValueError, InputDataError: If the data are damaged, or describe a
            user-defined domain or search.
    """
    if data[TYPE] == "Grid" and "axes" in data:
        axes = [_tensor(axis, device) for axis in data["axes"]]
        shape = tuple(map(len, axes))
        require(0 < math.prod(shape) <= MOST_ARMS, f"the grid has {math.prod(shape):,} arms")
        grid = Grid(_product(axes))
        grid.shape = shape
        return grid
    if data[TYPE] == "Grid":
        return Grid(_tensor(data["arms"], device))
    require(data[TYPE] == "Box", "the file only describes the domain; pass domain=")
    bounds: Bounds
    if (named := data.get("parameters")) is None:
        bounds, context_dim = _tensor(data["bounds"], device), data["context_dim"]
    else:
        space = Parameters.from_data(named)
        bounds = {**space.by_name, **space.contexts}
        context_dim = 0 if space.contexts else data["context_dim"]
    settings = dict(data["search"])
    kind = settings.pop(TYPE)
    search: Search | None = None
    if kind == "MultiStart":
        search = MultiStart(**settings)
    elif kind == "Candidates":
        search = DiscreteSearch(_tensor(settings["X"], device))
    else:
        require(kind == "Mixed", "the file only describes the domain; pass domain=")
    limits = data.get("constraints", ())
    made = OpenBox if data.get("open") else Box
    return made(bounds, constraints=limits, context_dim=context_dim, search=search)


def _product(axes: list[Tensor]) -> Tensor:
    """All points of a grid, `M x d`; the last coordinate changes fastest."""
    return torch.cartesian_prod(*axes).view(-1, len(axes))


def _numbers(tensor: Tensor) -> dict[str, Description]:
    """A tensor as JSON data."""
    return {"dtype": str(tensor.dtype), "rows": tensor.tolist()}


def _tensor(data: Mapping[str, Any], device: torch.device) -> Tensor:
    dtype = DTYPES[data["dtype"].removeprefix("torch.")]
    return torch.tensor(data["rows"], dtype=dtype, device=device)


# ---------------------------------------------------------------- snapshots
# A snapshot stores the state after a loop's first answers, so loading need not replay them. It
# contains no data that the loop's own file lacks. It contains two digests: a digest of all data
# that determine the state, and a digest of the snapshot itself. The snapshot is ignored unless both
# digests are as expected. Reading a snapshot executes no code from it.

EVERY = 32
"""Number of answers between two snapshots."""
LATE = 8
"""Number of newest answers that a snapshot excludes, because late answers may precede them."""
ENDING = "snapshot"
"""Ending of the name of a snapshot."""


def restored_log(
    path: Path, content: Mapping[str, Any], log: MeasurementLog, oldest: int
) -> MeasurementLog:
    """A log with the first answers of a file, from a snapshot, if there is a valid snapshot.

    If a new snapshot would cover at least ``EVERY`` more answers, it is written, and its log is
    returned.

    Args:
        path: The file of the loop.
        content: The content of the file.
        log: A log without answers.
        oldest: As in :meth:`MeasurementLog.added`.
    """
    log, following = _read_snapshot(path, content, log), len(content["answers"]) - LATE
    if following >= len(log.answers) + EVERY:
        log = log.changed(content["answers"][:following], oldest)
        _write_snapshot(path, content, log)
    return log


def _write_snapshot(path: Path, content: Mapping[str, Any], log: MeasurementLog) -> None:
    """Write a snapshot beside the file of a loop; do nothing if the folder is not writable.

    Args:
        path: The file of the loop.
        content: The content of the file.
        log: The log of some answers, from the first; the snapshot stores its state.
    """
    buffer, state, resets = io.BytesIO(), _stored(log.state), list(log.resets)
    digest = _state_digest(content, log.answers)
    retained = {"digest": digest, "count": len(resets), "state": state, "resets": resets}
    torch.save(retained, buffer)
    whole = buffer.getvalue()
    seal = hashlib.sha256(whole).hexdigest().encode()
    with suppress(OSError):
        write_whole(beside(path, ENDING), lambda out: out.writelines((seal, whole)))


def _read_snapshot(path: Path, content: Mapping[str, Any], log: MeasurementLog) -> MeasurementLog:
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
        resets, state = tuple(retained["resets"]), _restored(log.start, retained["state"])
        answers = tuple(content["answers"][: retained["count"]])
        require(retained["digest"] == _state_digest(content, answers), "its answers are others")
        require(0 < state.rounds == len(answers) == len(resets), "it lacks answers")
        return log._replace(states=(state,), answers=answers, resets=resets)
    except Exception:
        return log


def _state_digest(content: Mapping[str, Any], answers: Sequence[Measurement]) -> str:
    """A digest of all that determines a state and its format: strategy, answers, versions, ...."""
    parts = {
        **{name: content[name] for name in ("strategy", "domain", "dtype", "device")},
        "answers": [asdict(answer) for answer in answers],
        "format": STATE_FORMAT,
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
