"""`botorch-tv loop`: a loop in a file, asked and told from a shell, by several processes at once.

Nothing heavy is imported here, so `--help` answers at once.
"""

from __future__ import annotations

import argparse
import json
import math
import re
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

Value = TypeVar("Value")
ROUNDS = "rounds"
UNITS = ("seconds", "minutes", "hours", "days", "weeks", ROUNDS)
_MARKED = r"[-+]?[\d.,]+([eE][-+]?\d+)?"
FORM = (
    "give NAME=LOW:HIGH, NAME=LOW:HIGH:log, NAME=LOW:HIGH:int, NAME=LOW:HIGH:int:log or NAME=A,B,C"
)


def add_loop_options(commands: Any) -> None:
    """The command and what it takes."""
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
        parser.add_argument("file", type=Path, metavar="FILE", help="that holds the loop")
        return parser

    new = step("new", _new, "begin a loop in a new file")
    new.add_argument("parameters", nargs="+", metavar="NAME=LOW:HIGH", help=FORM)
    add = partial(option, new)
    add("--pending", "suggestions open at once (default: %(default)s)", 1)
    told = "of the clock; 'rounds' where times are numbers (default: %(default)s)"
    add("--unit", told, "hours", choices=UNITS)
    new.add_argument("--minimize", action="store_true", help="the smallest value is wanted")
    ask = step("ask", _ask, "print where to measure next, as a line of JSON")
    option(ask, "--pending", "suggestions open at once from now on (default: as before)", type=int)
    tell = step("tell", _tell, "take in what came out")
    observe = step("observe", _observe, "take in what was measured where nobody suggested it")
    for parser in (ask, tell, observe):  # Python's own takes -8e-06 for an option.
        parser._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    tell.add_argument("y", nargs="?", type=_number, metavar="Y", help="what came out")
    observe.add_argument("y", type=_number, metavar="Y", help="what came out")
    told = "where, as temperature=60 or metal=steel; of all parameters"
    observe.add_argument("values", nargs="+", metavar="NAME=VALUE", help=told)
    tell.add_argument("--failed", action="store_true", help="there is no Y")
    option(tell, "--number", "of the suggestion (default: the only one open)", type=int)
    for parser in (ask, tell, observe):
        told = "when, a number or a date such as 2026-03-01T08:30+01:00 (default: now)"
        option(parser, "--time", told, type=_time)
    status = step("status", _status, "say what was measured, what is open, and what is believed")
    option(status, "--plot", "also draw it there", type=Path, metavar="PICTURE")


def _new(arguments: argparse.Namespace) -> int:
    from botorch_tv import Loop

    box = _by_name(_parameter(one) for one in arguments.parameters)
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
    with _alone(arguments.file):
        loop = _loaded(arguments.file)
        if "pending" in vars(arguments):
            loop.pending = arguments.pending
        suggestion = loop.ask(now=vars(arguments).get("time"))
        loop.save(arguments.file)
    when = suggestion.time
    line = {
        "number": suggestion.number,
        "point": suggestion.point,
        "time": when.isoformat() if isinstance(when, datetime) else when,
        "mean": None if math.isnan(suggestion.mean) else suggestion.mean,
        "sd": None if math.isnan(suggestion.sd) else suggestion.sd,
    }
    print(json.dumps(line))
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
    with _alone(arguments.file):
        loop = _loaded(arguments.file)
        point = _point(loop, arguments.values)
        loop.observe(point, arguments.y, time=vars(arguments).get("time"))
        loop.save(arguments.file)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    path, picture = arguments.file, vars(arguments).get("plot")
    with _in_shell_words(path):
        loop = _loaded(path)
        print(loop.describe())
        for one in loop.open:
            print(one)
        if picture is not None:
            loop.plot(picture)
            print(f"Written: {picture}")
    return 0


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """While this lasts no other process changes a file that is there."""
    with _in_shell_words(path), alone(path):
        yield


@contextmanager
def _in_shell_words(path: Path) -> Iterator[None]:
    """Errors about a file that is there advise commands."""
    if not path.exists():
        raise ValueError(
            f"{path} is not there; begin with botorch-tv loop new {path} NAME=LOW:HIGH."
        )
    from botorch_tv.commands.loop_words import in_shell_words
    from botorch_tv.strategies.loop.cures import Refusal

    try:
        yield
    except Refusal as error:
        raise ValueError(in_shell_words(error, path)) from error


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
    if not name or not set(kinds) <= {"int", "log"}:
        raise ValueError(f"{text!r} is no parameter; {FORM}.")
    try:
        if "int" in kinds:
            return name, Integer(int(low), int(high), log="log" in kinds)
        return name, Float(float(low), float(high), log="log" in kinds)
    except ValueError as error:
        raise ValueError(f"{text!r} is no parameter ({error}); {FORM}.") from error


def _by_name(pairs: Iterable[tuple[str, Value]]) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for name, one in pairs:
        if name in found:
            raise ValueError(f"{name} is given twice; give each parameter once.")
        found[name] = one
    return found


def _point(loop: Loop, values: list[str]) -> Any:
    """Where was measured, as the loop has it; coordinates without names are x0, x1, ..."""
    kinds: dict[str, Any] = {f"x{number}": None for number in range(loop.domain.dim)}
    if loop.parameters is not None:
        kinds = dict(loop.parameters)
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


def _value(kinds: Mapping[str, Any], text: str) -> tuple[str, Any]:
    """A parameter and its value, of a choice what is written like it."""
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
    """A parameter in words, so that a slip shows at once."""
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


def _time(text: str) -> float | datetime:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither a number nor a date; give one such as 2026-03-01T08:30+01:00"
        ) from error
