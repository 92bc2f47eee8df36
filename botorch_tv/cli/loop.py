"""`botorch-tv loop`: a loop in a file, used from a shell by any number of processes at once.

Nothing heavy is imported here, so `--help` answers at once.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from botorch_tv.files import alone, read_cells

if TYPE_CHECKING:
    from botorch_tv import Choice, Float, Integer, Loop
    from botorch_tv.loop.clock import Time
    from botorch_tv.loop.table import NumberedSuggestion

Value = TypeVar("Value")
ROUNDS = "rounds"
UNITS = ("seconds", "minutes", "hours", "days", "weeks", ROUNDS)
FORM = (
    "give NAME=LOW:HIGH, NAME=LOW:HIGH:log, NAME=LOW:HIGH:int, NAME=LOW:HIGH:int:log or NAME=A,B,C"
)

STATUS = "botorch-tv loop status {file} lists open suggestions by number"
OPEN = f"{STATUS}; botorch-tv loop ask {{file}} makes one."
FULL = (
    f"{STATUS}; botorch-tv loop tell {{file}} Y --number N answers one, botorch-tv loop discard "
    "{file} --number N drops it, botorch-tv loop ask {file} --pending N allows more."
)
MADE = (
    "botorch-tv loop table {file} lists measurements by number; botorch-tv loop amend {file} Y "
    "--number N corrects one."
)
"""Commands that help when a step is refused."""


def option(
    group: argparse._ActionsContainer,
    flag: str,
    help: str,
    default: object = argparse.SUPPRESS,
    **more: Any,
) -> None:
    """Add an option of the type of its default; without a default it may be absent."""
    if default is not argparse.SUPPRESS:
        more = {"type": type(default)} | more
    group.add_argument(flag, help=help, default=default, **more)


def add_loop_options(commands: Any) -> None:
    """Add the command with its steps and options."""
    loop = commands.add_parser(
        "loop",
        help="ask a loop in a file where to measure, and tell it what came out",
        description="A loop in a file; any number of processes may ask and tell at once. The "
        "strategy is adaptive_gp_ucb, which needs to be told nothing.",
    )
    steps = loop.add_subparsers(required=True, metavar="STEP")

    def step(name: str, run: Any, told: str, hint: str = "") -> Any:
        parser = steps.add_parser(name, help=told, description=told)
        parser.set_defaults(run=run, hint=hint)
        parser.add_argument("file", type=Path, metavar="FILE", help="the file of the loop")
        return parser

    new = step("new", _new, "create a loop in a new file")
    new.add_argument("parameters", nargs="+", metavar="NAME=LOW:HIGH", help=FORM)
    add = partial(option, new)
    add("--pending", "suggestions open at once (default: %(default)s)", 1)
    told = "unit of the clock; 'rounds' if times are numbers (default: %(default)s)"
    add("--unit", told, "hours", choices=UNITS)
    new.add_argument("--minimize", action="store_true", help="look for the smallest value")
    ask = step("ask", _ask, "print where to measure next, as a line of JSON", FULL)
    told = "suggestions open at once from now on (default: as before)"
    ask.add_argument("--pending", help=told, type=int)
    tell = step("tell", _tell, "report the value measured", OPEN)
    observe = step("observe", _observe, "report a measurement that was not suggested", MADE)
    tell.add_argument("y", nargs="?", type=_number, metavar="Y", help="the value measured")
    told = (
        "the value measured, and the point, such as temperature=60 metal=steel; give all parameters"
    )
    observe.add_argument("values", nargs="+", metavar="VALUE", help=told)
    table = step("import", _import, "add a table of past measurements")
    told = (
        "a .csv file with a column for each parameter; where a column ok, if there is one, says "
        "False, the measurement failed; other columns are ignored"
    )
    table.add_argument("table", type=Path, metavar="TABLE", help=told)
    option(table, "--y", "column of values measured (default: %(default)s)", "y", metavar="NAME")
    told = "column of times (default: the one called time, if there is one)"
    table.add_argument("--times", help=told, metavar="NAME")
    for parser in (tell, observe):
        told = "the measurement failed; there is no Y"
        parser.add_argument("--failed", action="store_true", help=told)
    discard = step("discard", _discard, "drop a suggestion that will not be measured", OPEN)
    for parser in (tell, discard):
        told = "of the suggestion (default: the only one open)"
        parser.add_argument("--number", help=told, type=int)
    amend = step("amend", _amend, "correct a measurement", MADE)
    amend.add_argument("y", nargs="?", type=_number, metavar="Y", help="the right value")
    amend.add_argument("--failed", action="store_true", help="the measurement failed; give no Y")
    remove = step("remove", _remove, "take out a measurement, as if it had never been made", MADE)
    for parser in (amend, remove):
        told = "of the measurement, as botorch-tv loop table prints it"
        parser.add_argument("--number", type=int, required=True, metavar="N", help=told)
    recommend = step("recommend", _recommend, "print the best point for now, as a line of JSON")
    for parser in (ask, tell, observe, recommend, amend):
        default = "as before" if parser is amend else "now"
        told = f"when, a number or a date such as 2026-03-01T08:30+01:00 (default: {default})"
        also = ("--now",) if parser in (ask, recommend) else ()  # as in Python
        parser.add_argument("--time", *also, metavar="TIME", help=told, type=_time)
        # Python's own takes -8e-06 for an option.
        parser._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    status = step("status", _status, "summarise the measurements, open suggestions and the model")
    status.add_argument("--plot", help="also draw it to this file", type=Path, metavar="PICTURE")
    status.add_argument("--json", action="store_true", help="print it as a line of JSON")
    step("table", _table, "print all measurements, as the text of a .csv file")


def _new(arguments: argparse.Namespace) -> int:
    from botorch_tv import Loop

    box = _by_name([_parameter(one) for one in arguments.parameters])
    with alone(arguments.file):
        if arguments.file.exists():
            raise ValueError(f"{arguments.file} is there already; give another name, or remove it.")
        unit = None if arguments.unit == ROUNDS else arguments.unit
        loop = Loop(box, pending=arguments.pending, unit=unit, maximize=not arguments.minimize)
        loop.save(arguments.file)
    print(f"Written: {arguments.file}")
    for name, one in box.items():
        print(f"  {name}: {one!r}")
    return 0


def _ask(arguments: argparse.Namespace) -> int:
    with _changed(arguments.file) as loop:
        if arguments.pending is not None:
            loop.pending = arguments.pending
        suggestion = loop.ask(now=arguments.time)
    print(json.dumps(_suggested(suggestion)))
    return 0


def _tell(arguments: argparse.Namespace) -> int:
    if (arguments.y is None) != arguments.failed:
        raise ValueError("give either Y, what came out, or --failed.")
    ok, number, when = not arguments.failed, arguments.number, arguments.time
    with _changed(arguments.file) as loop:
        loop.tell(arguments.y, suggestion=number, time=when, ok=ok)
    return 0


def _observe(arguments: argparse.Namespace) -> int:
    values, y = arguments.values, None
    if arguments.failed == ("=" not in values[0]):
        raise ValueError("give either Y, what came out, before NAME=VALUE ..., or --failed.")
    if not arguments.failed:
        first, *values = values
        y = _number(first)
    with _changed(arguments.file) as loop:
        point = _point(loop, values)
        loop.observe(point, y, ok=not arguments.failed, time=arguments.time)
    _warn_if_ahead(loop)
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from botorch_tv.validation import counted

    path, y, rows, new, gaps = arguments.table, arguments.y, [], 0, 0
    with _changed(arguments.file) as loop:
        cells = read_cells(path)
        table = cells[1:].set_axis(list(cells.iloc[0]), axis=1)
        if not len(table):
            raise ValueError(f"{path} has no rows below a line of names.")
        # As loop table prints parameters that are called as one of its own columns.
        columns = {
            name: own if (own := f"{name} (parameter)") in table else name for name in _kinds(loop)
        }
        times = arguments.times or (TIME if TIME in table else None)
        ok = OK if OK in table and OK not in (*columns.values(), y, times) else None
        used = [*columns.values(), y, *(one for one in (times, ok) if one is not None)]
        wrong = [one for one in used if list(table).count(one) != 1 or used.count(one) > 1]
        if times is None and loop._units.clock.unit is not None:  # which would date all to now
            wrong = [TIME]
        if wrong:
            raise ValueError(
                f"{path} has not one column {wrong[0]!r}, used once, but "
                f"{', '.join(map(str, table))}; name columns as parameters are, and those of "
                "values and dates by --y and --times, or "
                "begin a loop that counts in numbers, --unit rounds."
            )
        for line, row in zip(table.index, table[used].to_dict("records")):
            with _at_line(line, path):
                good = ok is None or _succeeded(row[ok])
                if good and row[y].lower() in GAPS:
                    gaps += 1
                    continue
                when = None if times is None else _time(row[times])
                point = _point(loop, [f"{name}={row[one]}" for name, one in columns.items()])
                rows.append((when, line, point, _number(row[y]) if good else None))
        there = _measured(loop)
        # Each that came before others would have these replayed, as in a table newest first.
        for when, line, point, value in sorted(rows, key=lambda one: _seconds(one[0])):
            near = 1e-3 if isinstance(when, datetime) else 0.0  # dates are rounded in files
            known = there.get(_place(point, value), [])
            same = [one for one in known if when is None or abs(_seconds(when) - one) <= near]
            if same:
                known.remove(same[0])  # another row like this is another measurement
            else:
                with _at_line(line, path):
                    loop.observe(point, value, ok=value is not None, time=when)
                new += 1
    gaps_note = f"; {gaps} without {y} are left out" if gaps else ""
    again = f"; {len(rows) - new} were there already" if new < len(rows) else ""
    print(f"Taken in: {counted(new, 'measurements')}{again}{gaps_note}")
    others = [str(name) for name in table if name not in used]
    if others:
        print(f"Not looked at: {', '.join(others)}")
    _warn_if_ahead(loop)
    return 0


TIME, OK = "time", "ok"
"""Usual names of the columns of times, and of whether measurements succeeded."""
GAPS = {"", "na", "n/a", "nan", "none", "null"}
"""Cells that stand for a missing value, in lower case."""


def _succeeded(cell: str) -> bool:
    """Whether a measurement succeeded, by its cell in the column ``ok``; a gap counts as True."""
    if cell.lower() not in ("true", "1", "false", "0", *GAPS):
        raise ValueError(f"column {OK!r} has {cell!r}; give True, or False where it failed.")
    return cell.lower() not in ("false", "0")


def _warn_if_ahead(loop: Loop) -> None:
    """Warn of a date in the future, which may be an error: all suggestions are for then."""
    newest = max(loop.history.times, key=_seconds, default=None)
    if isinstance(newest, datetime) and newest > datetime.now(newest.tzinfo):
        print(
            f"botorch-tv: the newest measurement is of {newest.isoformat(' ', 'seconds')}, later "
            "than the clock of this computer; until then the loop decides for that time.",
            file=sys.stderr,
        )


@contextmanager
def _at_line(line: int, path: Path) -> Iterator[None]:
    """Add the line of a table to errors."""
    try:
        yield
    except Exception as error:
        error.add_note(f"In line {line} of {path}; nothing is taken in.")
        raise


def _discard(arguments: argparse.Namespace) -> int:
    with _changed(arguments.file) as loop:
        loop.discard(arguments.number)
    return 0


def _amend(arguments: argparse.Namespace) -> int:
    if arguments.failed and arguments.y is not None:
        raise ValueError("give either Y, what came out, or --failed.")
    ok = False if arguments.failed else None
    with _changed(arguments.file) as loop:
        loop.amend(arguments.number, arguments.y, ok=ok, time=arguments.time)
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    with _changed(arguments.file) as loop:
        loop.remove(arguments.number)
    return 0


def _recommend(arguments: argparse.Namespace) -> int:
    print(json.dumps(_best(_loaded(arguments.file), arguments.time)))
    return 0


def _status(arguments: argparse.Namespace) -> int:
    from botorch.exceptions import InputDataError

    loop, picture = _loaded(arguments.file), arguments.plot
    if arguments.json:
        try:
            best = _best(loop, None)
        except InputDataError:  # every point is likelier to fail, as the words say
            best = None
        said = {
            "measurements": len(loop.history.y),
            "failed": int(loop.history.y.isnan().sum()),
            "open": [_suggested(one) for one in loop.open],
            "best": best,
            "words": loop.describe(),
        }
        print(json.dumps(said))
    else:
        print("\n".join([loop.describe(), *map(repr, loop.open)]))
    if picture is not None:
        loop.plot(picture)
        print(f"Written: {picture}", file=sys.stderr if arguments.json else sys.stdout)
    return 0


def _table(arguments: argparse.Namespace) -> int:
    print(_loaded(arguments.file).table().to_csv(index=False), end="")
    return 0


def _suggested(one: NumberedSuggestion) -> dict[str, Any]:
    """A suggestion for JSON; None if nothing is predicted."""
    return {
        "number": one.number,
        "point": one.point,
        "time": one.time.isoformat() if isinstance(one.time, datetime) else one.time,
        "mean": None if math.isnan(one.mean) else one.mean,
        "sd": None if math.isnan(one.sd) else one.sd,
    }


def _best(loop: Loop, now: Time | None) -> dict[str, Any]:
    """The best point for JSON; None if nothing is predicted."""
    with warnings.catch_warnings(record=True) as doubts:
        warnings.simplefilter("always")
        best: dict[str, Any] = {"point": loop.recommend(now=now), "mean": None, "sd": None}
    for one in doubts:
        print(f"botorch-tv: {one.message}", file=sys.stderr)
    if bool(loop.strategy.predicts(loop.state)):
        posterior = loop.posterior([best["point"]], now=now)
        sd = float(posterior.variance.clamp_min(0).sqrt())
        best |= {"mean": float(posterior.mean), "sd": sd}
    return best


@contextmanager
def _changed(path: Path) -> Iterator[Loop]:
    """Load the loop of a file, and save it after it was changed without an error.

    Other processes wait meanwhile. Says on stderr if a loop without a unit was given its first
    date, which sets its unit.
    """
    _require_there(path)
    with alone(path):
        loop = _loaded(path)
        before = loop._units.clock.unit
        yield loop
        loop.save(path)
    unit = loop._units.clock.unit
    if before is None and unit is not None:
        print(
            f"botorch-tv: {path} was begun without a unit of time, and its first time is a date. "
            f"Times are dates from now on, counted in {unit}. If you meant rounds, begin a new "
            "loop, and give times as numbers or none.",
            file=sys.stderr,
        )


def _require_there(path: Path) -> None:
    if not path.exists():
        raise ValueError(f"{path} is not there; begin: botorch-tv loop new {path} NAME=LOW:HIGH.")


def _loaded(path: Path) -> Loop:
    from botorch_tv import Loop

    _require_there(path)
    return Loop.load(path, snapshot=True)


def _parameter(text: str) -> tuple[str, Float | Integer | Choice]:
    from botorch_tv import Choice, Float, Integer

    name, _, rest = text.partition("=")
    choices, ends = rest.split(","), re.fullmatch("([^:]+):([^:]+)((?::int|:log)*)", rest)
    comma = "," in rest and re.fullmatch(r"[-+\d.,e]+:[-+\d.,e]+(:int|:log)*", rest)
    try:
        if name and len(choices) > 1 and all(choices) and not comma:
            return name, Choice(*choices)
        if not name or not ends or comma:
            raise ValueError("a range is missing, or a number has a decimal comma")
        low, high, log = float(ends[1]), float(ends[2]), ":log" in ends[3]
        if ":int" not in ends[3]:
            return name, Float(low, high, log=log)
        if not (low.is_integer() and high.is_integer()):
            raise ValueError("whole numbers lie between whole numbers")
        return name, Integer(int(low), int(high), log=log)
    except ValueError as error:
        raise ValueError(f"{text!r} is no parameter: {str(error).rstrip('.')}; {FORM}.") from error


def _by_name(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(f"{' '.join(one for one, _ in pairs)}: one is given twice; give it once.")
    return found


def _point(loop: Loop, values: list[str]) -> Any:
    """The point measured, in the format of the loop."""
    kinds = _kinds(loop)
    point = _by_name([_value(kinds, text) for text in values])
    named = loop.parameters is not None
    if not all(map(str.strip, point)) or not (named or set(point) == set(kinds)):
        form = " ".join(f"{name}=VALUE" for name in kinds)
        raise ValueError(f"{' '.join(values)} is no point here; give {form}.")
    return point if named else [point[name] for name in kinds]


def _kinds(loop: Loop) -> dict[str, Any]:
    """The parameters by name; coordinates without names are called x0, x1, ..."""
    from botorch_tv.loop.table import names_of

    return dict(loop.parameters or dict.fromkeys(names_of(loop.domain)))


def _value(kinds: Mapping[str, Any], text: str) -> tuple[str, Any]:
    """The name and the value of a parameter; of a ``Choice``, the value written like this."""
    from botorch_tv import Choice

    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is no value of a parameter; give NAME=VALUE.")
    kind = kinds.get(name)
    if isinstance(kind, Choice):
        alike = [one for one in kind.choices if value in (str(one), json.dumps(one, default=str))]
        if len(alike) > 1:
            told = " or ".join(map(repr, alike))
            raise ValueError(f"{text!r} may be {told}; take it in from Python, loop.observe.")
        return name, alike[0] if alike else value
    try:
        return name, float(value)
    except ValueError:
        return name, value  # which the loop refuses, and says what it takes


class _BadOption(argparse.ArgumentTypeError, ValueError):
    """A value of an option or of a table; argparse shows the words of this kind alone."""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise _BadOption(f"{text!r} is no number; give what came out, such as -3.7.") from error


def _time(text: str) -> Time:
    for read in (float, datetime.fromisoformat):
        with suppress(ValueError):
            when: Time = read(text)
            return when
    raise _BadOption(
        f"{text!r} is neither a number nor a date; give one such as 2026-03-01T08:30+01:00."
    )


def _measured(loop: Loop) -> dict[Any, list[float]]:
    """When each value was measured where, so that a table which has grown can be taken in again.

    Amended and removed measurements as well, which are not to come back with an old table.
    """
    found: dict[Any, list[float]] = {}
    history = loop.history
    rows = [*zip(history.points, history.y.tolist(), history.times)]
    for point, y, time in [*rows, *((one.point, one.y, one.time) for one in loop.superseded)]:
        found.setdefault(_place(point, y), []).append(_seconds(time))
    return found


def _place(point: Any, y: float | None) -> tuple[Any, ...]:
    """A point and its value, None or NaN where it failed, as far as files and tables agree."""
    values = point.values() if isinstance(point, dict) else point
    numbers = [math.nan if y is None else y, *values]
    return tuple(f"{one:.9g}" if isinstance(one, (int, float)) else one for one in numbers)


def _seconds(time: Time | None) -> float:
    """A number that sorts times of one kind; 0 without a time."""
    if isinstance(time, datetime):
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return time or 0.0
