"""`botorch-tv loop`: a loop in a file, asked and told from a shell, by several processes at once.

Nothing heavy is imported here, so `--help` answers at once.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botorch_tv.commands.options import option
from botorch_tv.files import alone

if TYPE_CHECKING:
    from botorch_tv import Choice, Float, Integer, Loop

ROUNDS = "rounds"
UNITS = ("seconds", "minutes", "hours", "days", "weeks", ROUNDS)
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
    tell = step("tell", _tell, "take in what came out")
    observe = step("observe", _observe, "take in what was measured where nobody suggested it")
    for parser in (tell, observe):  # Python's own takes -8e-06 for an option.
        parser._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
    tell.add_argument("y", nargs="?", type=float, metavar="Y", help="what came out")
    observe.add_argument("y", type=float, metavar="Y", help="what came out")
    told = "where, as temperature=60; of all parameters"
    observe.add_argument("values", nargs="+", type=_value, metavar="NAME=VALUE", help=told)
    tell.add_argument("--failed", action="store_true", help="there is no Y")
    option(tell, "--number", "of the suggestion (default: the only one open)", type=int)
    for parser in (ask, tell, observe):
        told = "when, a number or a date such as 2026-03-01T08:30+01:00 (default: now)"
        option(parser, "--time", told, type=_time)
    status = step("status", _status, "say what was measured, what is open, and what is believed")
    option(status, "--plot", "also draw it there", type=Path, metavar="PICTURE")


def _new(arguments: argparse.Namespace) -> int:
    from botorch_tv import Loop

    box = dict(_parameter(one) for one in arguments.parameters)
    with alone(arguments.file):
        if arguments.file.exists():
            raise ValueError(f"{arguments.file} is there already; give another name, or remove it.")
        unit = None if arguments.unit == ROUNDS else arguments.unit
        loop = Loop(box, pending=arguments.pending, unit=unit, maximize=not arguments.minimize)
        loop.save(arguments.file)
    print(f"Written: {arguments.file}")
    return 0


def _ask(arguments: argparse.Namespace) -> int:
    with _alone(arguments.file):
        loop = _loaded(arguments.file)
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
        loop.observe(dict(arguments.values), arguments.y, time=vars(arguments).get("time"))
        loop.save(arguments.file)
    return 0


def _status(arguments: argparse.Namespace) -> int:
    loop, picture = _loaded(arguments.file), vars(arguments).get("plot")
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
    if not path.exists():
        raise ValueError(
            f"{path} is not there; begin with botorch-tv loop new {path} NAME=LOW:HIGH."
        )
    from botorch.exceptions import InputDataError

    from botorch_tv.commands.loop_words import in_shell_words

    with alone(path):
        try:
            yield
        except InputDataError as error:
            raise InputDataError(in_shell_words(str(error), path)) from error


def _loaded(path: Path) -> Loop:
    from botorch_tv import Loop

    return Loop.load(path, snapshot=True)


def _parameter(text: str) -> tuple[str, Float | Integer | Choice]:
    from botorch_tv import Choice, Float, Integer

    name, _, rest = text.partition("=")
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


def _value(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is no value of a parameter; give NAME=VALUE, such as temperature=60"
        ) from error


def _time(text: str) -> float | datetime:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor a date") from error
