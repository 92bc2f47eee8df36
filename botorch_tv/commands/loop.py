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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from botorch_tv.commands.options import option
from botorch_tv.files import alone

if TYPE_CHECKING:
    from botorch_tv import Choice, Float, Integer, Loop
    from botorch_tv.strategies.loop.clock import Time
    from botorch_tv.strategies.loop.shown import NumberedSuggestion

Value = TypeVar("Value")
ROUNDS = "rounds"
UNITS = ("seconds", "minutes", "hours", "days", "weeks", ROUNDS)
_MARKED = r"[-+]?[\d.,]+([eE][-+]?\d+)?"
FORM = (
    "give NAME=LOW:HIGH, NAME=LOW:HIGH:log, NAME=LOW:HIGH:int, NAME=LOW:HIGH:int:log or NAME=A,B,C"
)


def add_loop_options(commands: Any) -> None:
    """Add the command with its steps and options."""
    loop = commands.add_parser(
        "loop",
        help="ask a loop in a file where to measure, and tell it what came out",
        description="A loop in a file; any number of processes may ask and tell at once. The "
        "strategy is adaptive_gp_ucb, which needs to be told nothing.",
    )
    steps = loop.add_subparsers(required=True, metavar="STEP")

    def step(name: str, run: Any, told: str) -> Any:
        parser = steps.add_parser(name, help=told, description=told)
        parser.set_defaults(run=run)
        parser.add_argument("file", type=Path, metavar="FILE", help="the file of the loop")
        return parser

    new = step("new", _new, "create a loop in a new file")
    new.add_argument("parameters", nargs="+", metavar="NAME=LOW:HIGH", help=FORM)
    add = partial(option, new)
    add("--pending", "suggestions open at once (default: %(default)s)", 1)
    told = "unit of the clock; 'rounds' if times are numbers (default: %(default)s)"
    add("--unit", told, "hours", choices=UNITS)
    new.add_argument("--minimize", action="store_true", help="look for the smallest value")
    ask = step("ask", _ask, "print where to measure next, as a line of JSON")
    option(ask, "--pending", "suggestions open at once from now on (default: as before)", type=int)
    tell = step("tell", _tell, "report the value measured")
    observe = step("observe", _observe, "report a measurement that was not suggested")
    tell.add_argument("y", nargs="?", type=_number, metavar="Y", help="the value measured")
    told = (
        "the value measured, and the point, such as temperature=60 metal=steel; give all parameters"
    )
    observe.add_argument("values", nargs="+", metavar=("Y", "NAME=VALUE"), help=told)
    table = step("import", _import, "add a table of past measurements")
    told = (
        "a .csv file with a column for each parameter; where a column ok, if there is one, says "
        "False, the measurement failed; other columns are ignored"
    )
    table.add_argument("table", type=Path, metavar="TABLE", help=told)
    option(table, "--y", "column of values measured (default: %(default)s)", "y", metavar="NAME")
    told = "column of times (default: the one called time, if there is one)"
    option(table, "--times", told, metavar="NAME")
    for parser in (tell, observe):
        told = "the measurement failed; there is no Y"
        parser.add_argument("--failed", action="store_true", help=told)
    discard = step("discard", _discard, "drop a suggestion that will not be measured")
    for parser in (tell, discard):
        option(parser, "--number", "of the suggestion (default: the only one open)", type=int)
    amend = step("amend", _amend, "correct a measurement")
    amend.add_argument("y", nargs="?", type=_number, metavar="Y", help="the right value")
    amend.add_argument("--failed", action="store_true", help="the measurement failed; give no Y")
    remove = step("remove", _remove, "take out a measurement, as if it had never been made")
    for parser in (amend, remove):
        told = "of the measurement, as botorch-tv loop table prints it"
        parser.add_argument("--number", type=int, required=True, metavar="N", help=told)
    recommend = step("recommend", _recommend, "print the best point for now, as a line of JSON")
    for parser in (ask, tell, observe, recommend, amend):
        default = "as before" if parser is amend else "now"
        told = f"when, a number or a date such as 2026-03-01T08:30+01:00 (default: {default})"
        also = ("--now",) if parser in (ask, recommend) else ()  # as in Python
        parser.add_argument(
            "--time", *also, metavar="TIME", help=told, type=_time, default=argparse.SUPPRESS
        )
        # Python's own takes -8e-06 for an option.
        parser._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    status = step("status", _status, "summarise the measurements, open suggestions and the model")
    option(status, "--plot", "also draw it to this file", type=Path, metavar="PICTURE")
    status.add_argument("--json", action="store_true", help="print it as a line of JSON")
    step("table", _table, "print all measurements, as the text of a .csv file")


def _new(arguments: argparse.Namespace) -> int:
    from botorch_tv import Loop

    box = _by_name(_parameter(one) for one in arguments.parameters)
    if not arguments.file.parent.is_dir():
        raise ValueError(f"the folder {arguments.file.parent} is not there; make it first.")
    with alone(arguments.file):
        if arguments.file.exists():
            raise ValueError(f"{arguments.file} is there already; give another name, or remove it.")
        unit = None if arguments.unit == ROUNDS else arguments.unit
        loop = Loop(box, pending=arguments.pending, unit=unit, maximize=not arguments.minimize)
        loop.save(arguments.file)
    print(f"Written: {arguments.file}")
    for name, one in box.items():
        print(f"  {name}: {_said(one)}")
    return 0


def _ask(arguments: argparse.Namespace) -> int:
    with _changed(arguments.file) as loop:
        if "pending" in vars(arguments):
            loop.pending = arguments.pending
        suggestion = loop.ask(now=vars(arguments).get("time"))
    print(json.dumps(_suggested(suggestion)))
    return 0


def _tell(arguments: argparse.Namespace) -> int:
    given = vars(arguments)
    if (arguments.y is None) != arguments.failed:
        raise ValueError("give either Y, what came out, or --failed.")
    from botorch_tv.strategies.loop.answering import answer_in_file

    path, number, when = arguments.file, given.get("number"), given.get("time")
    with _alone(path):
        answer_in_file(path, arguments.y, suggestion=number, time=when)
    return 0


def _observe(arguments: argparse.Namespace) -> int:
    values, y = arguments.values, None
    if arguments.failed == ("=" not in values[0]):
        raise ValueError("give either Y, what came out, before NAME=VALUE ..., or --failed.")
    if not arguments.failed:
        first, *values = values
        try:
            y = _number(first)
        except argparse.ArgumentTypeError as error:
            raise ValueError(f"{error}.") from error
    with _changed(arguments.file) as loop:
        point, when = _point(loop, values), vars(arguments).get("time")
        loop.observe(point, y, ok=not arguments.failed, time=when)
    _warn_if_ahead(loop)
    return 0


def _import(arguments: argparse.Namespace) -> int:
    from botorch_tv.commands.loop_table import TIME, Known, moment, readings
    from botorch_tv.strategies.spans import counted

    with _changed(arguments.file) as loop:
        path, times = arguments.table, vars(arguments).get("times")
        dated = loop._units.clock.unit is not None
        table = readings(path, _kinds(loop), arguments.y, times, dated=dated)
        known, new, column = Known(loop.history, loop.superseded), 0, f"column {times or TIME}"
        when: dict[int, Time | None] = {}
        for row in table.rows:
            with _at_line(row.line, path):
                when[row.line] = None if row.time is None else _time(row.time, f"{column}: ")
        # Each that came before others would have these replayed, as in a table newest first.
        for row in sorted(table.rows, key=lambda one: moment(when[one.line])):
            with _at_line(row.line, path), _time_called(column):
                point, y = _point(loop, row.values), None if row.y is None else _number(row.y)
                if not known.has(point, y, when[row.line]):
                    loop.observe(point, y, ok=y is not None, time=when[row.line])
                    new += 1
    old = len(table.rows) - new
    gaps = f"; {table.gaps} without {arguments.y} are left out" if table.gaps else ""
    again = f"; {old} were there already" if old else ""
    print(f"Taken in: {counted(new, 'measurements')}{again}{gaps}")
    if table.others:
        print(f"Not looked at: {', '.join(table.others)}")
    _warn_if_ahead(loop)
    return 0


def _warn_if_ahead(loop: Loop) -> None:
    """Warn of a date in the future, which may be an error: all suggestions are for then."""
    from botorch_tv.commands.loop_table import moment

    newest = max(loop.history.times, key=moment, default=None)
    if isinstance(newest, datetime) and newest > datetime.now(newest.tzinfo):
        print(
            f"botorch-tv: the newest measurement is of {newest.isoformat(' ', 'seconds')}, later "
            "than the clock of this computer; until then the loop decides for that time.",
            file=sys.stderr,
        )


@contextmanager
def _at_line(line: int, path: Path) -> Iterator[None]:
    """Add the line of a table to errors."""
    where = f"In line {line} of {path}; nothing is taken in."
    try:
        yield
    except argparse.ArgumentTypeError as error:
        raise ValueError(f"{error}. {where}") from error
    except Exception as error:
        error.add_note(where)
        raise


@contextmanager
def _time_called(name: str) -> Iterator[None]:
    """Call the time by this name in errors, instead of --time."""
    from botorch_tv.strategies.loop.cures import Act, Cure, Refusal

    try:
        yield
    except Refusal as error:
        error.parts = tuple(name if one == Cure(Act.TIME) else one for one in error.parts)
        raise


def _discard(arguments: argparse.Namespace) -> int:
    with _changed(arguments.file) as loop:
        loop.discard(vars(arguments).get("number"))
    return 0


def _amend(arguments: argparse.Namespace) -> int:
    if arguments.failed and arguments.y is not None:
        raise ValueError("give either Y, what came out, or --failed.")
    ok, when = False if arguments.failed else None, vars(arguments).get("time")
    with _changed(arguments.file) as loop:
        loop.amend(arguments.number, arguments.y, ok=ok, time=when)
    return 0


def _remove(arguments: argparse.Namespace) -> int:
    with _changed(arguments.file) as loop:
        loop.remove(arguments.number)
    return 0


def _recommend(arguments: argparse.Namespace) -> int:
    with _in_shell_words(arguments.file):
        print(json.dumps(_best(_loaded(arguments.file), vars(arguments).get("time"))))
    return 0


def _status(arguments: argparse.Namespace) -> int:
    path, picture = arguments.file, vars(arguments).get("plot")
    with _in_shell_words(path):
        from botorch.exceptions import InputDataError

        loop = _loaded(path)
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
            print(loop.describe())
            for one in loop.open:
                print(one)
        if picture is not None:
            loop.plot(picture)
            print(f"Written: {picture}", file=sys.stderr if arguments.json else sys.stdout)
    return 0


def _table(arguments: argparse.Namespace) -> int:
    with _in_shell_words(arguments.file):
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

    Says on stderr if a loop without a unit was given its first date, which sets its unit.
    """
    with _alone(path):
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


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Keep other processes from changing a file, which must exist."""
    with _in_shell_words(path), alone(path):
        yield


@contextmanager
def _in_shell_words(path: Path) -> Iterator[None]:
    """Have errors about a file, which must exist, advise shell commands."""
    if not path.exists():
        raise ValueError(
            f"{path} is not there; begin with botorch-tv loop new {path} NAME=LOW:HIGH."
        )
    from botorch_tv.commands.loop_words import in_shell_words
    from botorch_tv.strategies.loop.cures import Refusal

    try:
        yield
    except Refusal as error:
        notes = getattr(error, "__notes__", [])
        raise ValueError(" ".join([in_shell_words(error, path), *notes])) from error


def _loaded(path: Path) -> Loop:
    from botorch_tv import Loop

    return Loop.load(path, snapshot=True)


def _parameter(text: str) -> tuple[str, Float | Integer | Choice]:
    from botorch_tv import Choice, Float, Integer

    name, _, rest = text.partition("=")
    if "," in rest and re.fullmatch(rf"{_MARKED}:{_MARKED}(:int|:log)*", rest):
        raise ValueError(
            f"{text!r} is no parameter; commas stand between choices, and the decimal sign is a "
            f"point; {FORM}."
        )
    if name and "," in rest and all(rest.split(",")):
        return name, Choice(*rest.split(","))
    low, *more = rest.split(":")
    high, kinds = (more[0], more[1:]) if more else ("", [])
    if not (name and _is_number(low) and _is_number(high) and set(kinds) <= {"int", "log"}):
        span = re.fullmatch(rf"({_MARKED})(-|\.\.+|to)({_MARKED})", rest)
        meant = f"the range is {name}={span[1]}:{span[4]}; " if name and span else ""
        raise ValueError(f"{text!r} is no parameter; {meant}{FORM}.")
    log = "log" in kinds
    try:
        if "int" not in kinds:
            return name, Float(float(low), float(high), log=log)
        if not (float(low).is_integer() and float(high).is_integer()):
            raise ValueError("whole numbers lie between whole numbers.")
        return name, Integer(int(float(low)), int(float(high)), log=log)
    except ValueError as error:
        words = re.sub("^(Float|Integer): ", "", str(error)).replace("log=False", "no :log")
        raise ValueError(
            f"{text!r} is no parameter: {words} {FORM[0].upper()}{FORM[1:]}."
        ) from error


def _by_name(pairs: Iterable[tuple[str, Value]]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, one in pairs:
        if name in found:
            raise ValueError(f"{name} is given twice; give each parameter once.")
        found[name] = one
    return found


def _point(loop: Loop, values: list[str]) -> Any:
    """The point measured, in the format of the loop."""
    kinds = _kinds(loop)
    form = f"give {' '.join(f'{name}=VALUE' for name in kinds)}"
    for text in values:
        if not all(text.partition("=")[:2]):
            raise ValueError(f"{text!r} is no value of a parameter; {form}.")
    point = _by_name(_value(kinds, text) for text in values)
    if loop.parameters is not None:
        return point
    if set(point) != set(kinds):
        raise ValueError(f"{', '.join(point)} came, but coordinates here have no names; {form}.")
    return [point[name] for name in kinds]


def _kinds(loop: Loop) -> dict[str, Any]:
    """The parameters by name; coordinates without names are called x0, x1, ..."""
    if loop.parameters is not None:
        return dict(loop.parameters)
    return {f"x{number}": None for number in range(loop.domain.dim)}


def _value(kinds: Mapping[str, Any], text: str) -> tuple[str, Any]:
    """The name and the value of a parameter; of a ``Choice``, the value written like this."""
    from botorch_tv import Choice

    name, _, value = text.partition("=")
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


def _said(one: Float | Integer | Choice) -> str:
    """A parameter in words, so that a typing error is seen at once."""
    from botorch_tv import Choice, Integer

    if isinstance(one, Choice):
        told = f"{', '.join(map(str, one.choices[:-1]))} or {one.choices[-1]}"
        range_meant = len(one.choices) == 2 and all(map(_is_number, one.choices))
        return told + (f"; a range would be {':'.join(one.choices)}" if range_meant else "")
    kind = "whole numbers " if isinstance(one, Integer) else ""
    log = " on a logarithmic scale" if one.log else ""
    return f"{kind}from {one.low:.12g} to {one.high:.12g}{log}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no number; give what came out, such as -3.7"
        ) from error


def _time(text: str, where: str = "") -> Time:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{where}{text!r} is neither a number nor a date; give one such as "
            "2026-03-01T08:30+01:00"
        ) from error
