"""`botorch-tv loop`: a loop stored in a file; any number of processes may share the file.

Heavy imports are inside functions, so that `--help` is fast.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from botorch_tv.files import GAPS, alone, dates_in, read_cells

if TYPE_CHECKING:
    import pandas as pd

    from botorch_tv import Choice, Float, Integer, Loop
    from botorch_tv.loop.clock import Time
    from botorch_tv.loop.table import NumberedSuggestion

Value = TypeVar("Value")
ROUNDS = "rounds"
UNITS = ("seconds", "minutes", "hours", "days", "weeks", ROUNDS)
FORM = "give NAME=LOW:HIGH, with :STEP, :log, :int or :int:log, as NAME=LOW:HIGH:int, or NAME=A,B,C"
RANGE = r"({0}):({0})(?::([-+\d.,e]+))?((?::int|:log)*)"
"""Pattern of a range, given the pattern of a bound."""
STATUS = "botorch-tv loop status {file} lists open suggestions by number"
OPEN = f"{STATUS}; botorch-tv loop ask {{file}} makes a new suggestion."
FULL = (
    f"{STATUS}; botorch-tv loop tell {{file}} Y --number N answers suggestion N, botorch-tv "
    "loop discard {file} --number N drops suggestion N, and botorch-tv loop ask {file} --pending M "
    "allows M open suggestions."
)
MEASURED = (
    "botorch-tv loop table {file} lists measurements by number; botorch-tv loop amend {file} Y "
    "--number N corrects a measurement."
)
"""Hints that follow the error message of a step."""


def option(
    group: Any, flag: str, help: str, default: object = argparse.SUPPRESS, **more: Any
) -> None:
    """Add an option; its type is that of ``default``, unless ``more`` has a type or an action."""
    if default is not argparse.SUPPRESS and "action" not in more:
        more = {"type": type(default)} | more
    group.add_argument(flag, help=help, default=default, **more)


PAIRS: dict[str, Any] = {"nargs": "+", "metavar": "NAME=VALUE"}
SEVERAL: dict[str, Any] = PAIRS | {"action": "extend", "default": []}
"""Settings of an argument, and of an option, that takes several texts."""
OF_LOOP = ("pending", "maximize", "objective", "constraints", "safe")
"""Options of `new` that have the name of an argument of :class:`Loop`, and its value."""


def add_loop_options(commands: Any) -> None:
    """Add the command `loop` with its steps and options."""
    loop = commands.add_parser(
        "loop",
        help="optimise with a loop in a file: ask where to measure, tell the observations",
        description="A loop in a file; any number of processes may ask and tell at once. The "
        "strategy is adaptive_gp_ucb, which needs no prior knowledge. ask, recommend, pareto and "
        "status --json print JSON; tell, observe and amend print what was understood.",
    )
    steps = loop.add_subparsers(required=True, metavar="STEP")

    def step(name: str, run: Any, text: str, hint: str = "", aliases: Sequence[str] = ()) -> Any:
        parser = steps.add_parser(name, help=text, description=text, aliases=aliases)
        parser.set_defaults(run=run, hint=hint)
        parser.add_argument("file", type=Path, metavar="FILE", help="the file of the loop")
        # The default pattern of argparse takes the number -8e-06 for an option.
        parser._negative_number_matcher = re.compile(r"^-(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$")
        return parser

    new = step("new", _new, "create a loop in a new file", aliases=["begin"])
    new.add_argument("parameters", nargs="+", metavar="NAME=LOW:HIGH", help=FORM)
    option(new, "--pending", "suggestions open at once (default: %(default)s)", 1)
    text = "unit of the clock; 'rounds' if times are numbers (default: %(default)s)"
    option(new, "--unit", text, "hours", choices=UNITS)
    option(new, "--minimize", "minimise the values", dest="maximize", action="store_false")
    text = "outcomes to maximise, such as yield; --objective=-cost minimises, 'yield, -cost' both"
    option(new, "--objective", text, metavar="TEXT")
    text = "limits on outcomes or parameters: 'pressure <= 5'"
    option(new, "--constraint", text, dest="constraints", **SEVERAL | {"metavar": "TEXT"})
    text = "probability with which every measurement must keep the limits, such as 0.99"
    option(new, "--safe", text, type=float, metavar="P")
    option(new, "--start", "the first setting, which is known to be safe", **SEVERAL)
    option(new, "--max-step", "the largest step of a parameter from the newest setting", **SEVERAL)
    option(new, "--move-cost", "cost of a move, in units of Y per range moved", **SEVERAL)
    text = "conditions that are given, not chosen, such as outside=-10:40"
    option(new, "--context", text, **SEVERAL | {"metavar": "NAME=LOW:HIGH"})

    ask = step("ask", _ask, "print where to measure next, as a line of JSON", FULL)
    option(ask, "--pending", "suggestions open at once from now on (default: unchanged)", type=int)
    option(ask, "--n", "number of suggestions, one per line (default: %(default)s)", 1)
    option(ask, "--fixed", "parameters to hold, such as rate=0.2", **SEVERAL)
    queue = step("enqueue", _enqueue, "make ask suggest a point of your own next")
    queue.add_argument("values", help="all parameters", **PAIRS)
    tell = step("tell", _tell, "add the observation of a suggestion", OPEN)
    text = "the observation; NAME=VALUE each if outcomes have names, without missing outcomes"
    tell.add_argument("values", nargs="*", metavar="Y", help=text)
    text = "parameters that were set to other values than suggested, such as temperature=61.3"
    option(tell, "--at", text, **SEVERAL)
    observe = step("observe", _observe, "add a measurement that was not suggested")
    text = "the observation, and all parameters and contexts, such as temperature=60 metal=steel"
    observe.add_argument("values", nargs="+", metavar="VALUE", help=text)
    discard = step("discard", _discard, "drop a suggestion that will not be measured", OPEN)
    for parser in (tell, discard):
        text = "number of the suggestion; optional if only one is open"
        option(parser, "--number", text, None, type=int)

    amend = step("amend", _amend, "correct a measurement", MEASURED)
    amend.add_argument("values", nargs="*", metavar="Y", help="the right value, as for tell")
    for parser in (tell, observe):
        option(parser, "--noise", "noise variance V of Y, or NAME=V of outcomes", **SEVERAL)
    for parser in (tell, observe, amend):
        option(parser, "--failed", "the measurement failed; give no Y", False, action="store_true")
    remove = step("remove", _remove, "remove a measurement, as if it had never been made", MEASURED)
    for parser in (amend, remove):
        text = "number of the measurement, as botorch-tv loop table prints it"
        option(parser, "--number", text, type=int, required=True, metavar="N")

    text = "print the best setting now, as a line of JSON"
    recommend = step("recommend", _recommend, text, aliases=["best"])
    text = "print trade-offs of several objectives now, a line of JSON each"
    pareto = step("pareto", _pareto, text)
    for parser in (ask, tell, recommend, pareto):
        text = "conditions, such as outside=12.5 (default: the newest measured)"
        option(parser, "--context", text, **SEVERAL)
    default = "now; after the newest if times are numbers"
    others = {tell: "that of the suggestion, which may be past", amend: "unchanged"}
    for parser in (ask, tell, observe, recommend, pareto, amend):
        text = "time, a number, a date such as 2026-03-01T08:30+01:00, or 'now' (default: "
        more: Any = {"help": f"{text}{others.get(parser, default)})", "type": _time}
        also = ["--now"] if parser in (ask, recommend, pareto) else []  # as Python calls it
        parser.add_argument("--time", *also, metavar="TIME", **more)

    status = step("status", _status, "summarise the measurements, open suggestions and the model")
    option(status, "--plot", "also plot the loop to this file", None, type=Path, metavar="PICTURE")
    option(status, "--json", "print a line of JSON", False, action="store_true")
    step("table", _table, "print all measurements as .csv")
    table = step("import", _import, "add a table of past measurements")
    text = "a .csv file with a column for each parameter; False in an optional column ok marks a "
    text += "failed measurement; other columns are ignored"
    table.add_argument("table", type=Path, metavar="TABLE", help=text)
    text = "column of times (default: the column time, if there is one)"
    table.add_argument("--times", help=text, metavar="NAME")
    text = "format of the times, as Python's strptime has it, such as '%%d.%%m.%%Y %%H:%%M' "
    text += "(default: numbers, ISO dates, or dates with a day above 12 anywhere in the column)"
    table.add_argument("--date-format", help=text, metavar="FORMAT")
    text = "rows with an empty or n/a observation are skipped, or failed (default: %(default)s)"
    option(table, "--missing", text, "skipped", choices=("skipped", "failed"))
    text = "compare strategies by their predictions of each measurement from the earlier ones"
    past = step("backtest", _backtest, text)
    for parser in (table, past):
        text = "column of the observations in a .csv (default: %(default)s)"
        option(parser, "--y", text, "y", metavar="NAME")


def _new(arguments: argparse.Namespace) -> None:
    from botorch_tv import Choice, Loop
    from botorch_tv.strategies.parameters import Context

    box: dict[str, Any] = _by_name([_parameter(text) for text in arguments.parameters])
    for name, axis in _by_name([_parameter(text) for text in arguments.context]).items():
        ends = axis.choices if isinstance(axis, Choice) else (axis.low, axis.high)
        box[name] = Context(*ends, log=not isinstance(axis, Choice) and axis.log)
    given = {name: value for name, value in vars(arguments).items() if name in OF_LOOP}
    given["unit"] = None if arguments.unit == ROUNDS else arguments.unit
    given["start"] = _by_name([_value(box, text) for text in arguments.start]) or None
    for name in ("max_step", "move_cost"):
        given[name] = _by_name([_value({}, text) for text in vars(arguments)[name]]) or None
    with alone(arguments.file):
        if arguments.file.exists():
            raise ValueError(f"{arguments.file} exists; give another name, or remove the file.")
        Loop(box, **given).save(arguments.file)
    print(f"Written: {arguments.file}")
    for name, parameter in box.items():
        print(f"  {name}: {parameter!r}")


def _ask(arguments: argparse.Namespace) -> None:
    with _changed(arguments.file) as loop:
        loop.pending = vars(arguments).get("pending", loop.pending)
        present, held = _present(loop, arguments), _named(loop, arguments.fixed)
        made = loop.ask(n=arguments.n, fixed=_point(loop, held) if held else None, **present)
    for suggestion in made:
        _print_json(_suggested(suggestion))


def _enqueue(arguments: argparse.Namespace) -> None:
    with _changed(arguments.file) as loop:
        loop.enqueue(_point(loop, _named(loop, arguments.values)))


def _tell(arguments: argparse.Namespace) -> None:
    with _changed(arguments.file) as loop:
        given, others, number = _observed(loop, arguments)
        at = others | _named(loop, arguments.at)
        number = number if arguments.number is None else arguments.number
        loop.tell(**given, suggestion=number, at=_point(loop, at) if at else None)
    _report(loop)


def _observe(arguments: argparse.Namespace) -> None:
    with _changed(arguments.file) as loop:
        given, others, _ = _observed(loop, arguments)
        loop.observe(_point(loop, others), **given)
    _report(loop)


def _observed(
    loop: Loop, arguments: argparse.Namespace
) -> tuple[dict[str, Any], dict[str, Any], int | None]:
    """The arguments of :meth:`Loop.observe` but the point, the parameters, and a suggestion.

    A number before named outcomes is the number of the suggestion.

    Raises:
        ValueError: Unless either an observation or ``--failed`` is given.
    """
    texts, units, number = arguments.values, loop._units, None
    first = texts[0] if texts and "=" not in texts[0] else None
    values = _named(loop, texts[first is not None :])
    outcomes = {name: values.pop(name) for name in units.outcomes if name in values}
    context = {name: values.pop(name) for name in units.contexts if name in values}
    context |= _named(loop, vars(arguments).get("context", []))
    y: Any = None if first is None else _number(first)
    if (y is None and not outcomes) != arguments.failed:
        raise ValueError("give either the observation Y or --failed, before NAME=VALUE ...")
    if outcomes:
        y, number = outcomes, int(y) if y is not None and y % 1 == 0 else y
    time, texts = _when(loop, arguments.time), vars(arguments).get("noise", [])
    noise = _number(texts[0]) if texts and "=" not in texts[0] else _named(loop, texts) or None
    given = {"y": y, "ok": not arguments.failed, "time": time, "context": context or None}
    return given | {"noise": noise}, values, number


def _report(loop: Loop) -> None:
    """Print what was understood of the newest measurement, and warnings."""
    last = loop.last
    assert last is not None
    _print_measurement(loop, last.number)
    _warn(loop)


def _import(arguments: argparse.Namespace) -> None:
    from botorch_tv.validation import counted

    path, y, rows, gaps = arguments.table, arguments.y, [], 0
    with _changed(arguments.file) as loop:
        if loop._units.outcomes or loop.domain.columns > loop.domain.dim:
            raise ValueError(
                "import takes one observation without a name, and no context; use Loop.from_table "
                "in Python."
            )
        cells = read_cells(path)
        table = cells[1:].set_axis(list(cells.iloc[0]), axis=1)
        columns, times, ok, used = _columns(loop, table, arguments)
        read_time = _time_reader(table[times], arguments.date_format) if times else None
        for line, row in zip(table.index, table[used].to_dict("records")):
            with _at_line(line, path):
                good, gap = ok is None or _succeeded(row[ok]), row[y].lower() in GAPS
                if good and gap and arguments.missing == "skipped":
                    gaps += 1
                    continue
                when = None if read_time is None else _when(loop, read_time(row[times]))
                texts = [f"{name}={row[column]}" for name, column in columns.items()]
                point = _point(loop, _named(loop, texts))
                rows.append((when, line, point, _number(row[y]) if good and not gap else None))
        new = _add_new(loop, rows, path)
    gaps_note = f"; {counted(gaps, 'rows')} without {y} skipped" if gaps else ""
    again = f"; {len(rows) - new} already present" if new < len(rows) else ""
    print(f"Imported: {counted(new, 'measurements')}{again}{gaps_note}")
    others = [str(name) for name in table if name not in used]
    if others:
        print(f"Ignored columns: {', '.join(others)}")
    _warn(loop)


TIME, OK = "time", "ok"
"""Default names of the columns of times and of successes."""


def _columns(
    loop: Loop, table: pd.DataFrame, arguments: argparse.Namespace
) -> tuple[dict[str, str], str | None, str | None, list[str]]:
    """The columns of a table: of each parameter by name, of times, of successes, and all in use.

    Raises:
        ValueError: If the table has no rows, or if a column is missing, given twice or used twice.
    """
    path, names = arguments.table, list(table)
    if not len(table):
        raise ValueError(f"{path} has no rows below its header; give a row per measurement.")
    # `loop table` renames parameters that have the name of another column.
    titles = {name: f"{name} (parameter)" for name in _kinds(loop)}
    columns = {name: own if own in names else name for name, own in titles.items()}
    # Without times, all rows of a loop with dates would get the present time.
    dated = loop._units.clock.unit is not None
    times = arguments.times or (TIME if dated or TIME in names else None)
    used = [*columns.values(), arguments.y, *filter(None, [times])]
    ok = OK if OK in names and OK not in used else None
    used += filter(None, [ok])
    for name in used:
        if names.count(name) != 1 or used.count(name) > 1:
            count = "uses it twice" if names.count(name) == 1 else f"has {names.count(name)}"
            raise ValueError(
                f"{path} needs exactly one column {name!r}, but {count}; its columns are "
                f"{', '.join(map(str, names))}. Name columns like the parameters, once each, give "
                "the columns of observations and times by --y and --times, or create the loop with "
                "--unit rounds if times are numbers."
            )
    return columns, times, ok, used


def _time_reader(cells: pd.Series[str], form: str | None) -> Callable[[str], Time | str]:
    """A function that reads a cell of a column of times, in the user's format if one is given.

    Raises:
        ValueError: If the dates of the column may begin with the day or the month.
    """
    if form is not None:
        return lambda cell: datetime.strptime(cell, form)
    given = cells[cells != ""]
    found = dates_in(list(given)) if given.str.fullmatch(DATE).all() else []
    if len(found) > 1:
        cell = given[found[0] != found[1]].iloc[0]
        raise ValueError(
            f"{cell!r} may begin with the day or the month, and so may all dates of the column; "
            "give the format, such as --date-format '%d.%m.%Y %H:%M' or '%m/%d/%Y %I:%M %p'."
        )
    dates = dict(zip(given, found[0].astype("datetime64[us]").tolist())) if found else {}
    return lambda cell: dates.get(cell) or _time(cell)


DATE = r"(\d+[-./]){2}\d+([T ]+\d[\d:.]*( *[APap][Mm])?)?"
"""Dates without a time zone, which are read by column."""


def _add_new(loop: Loop, rows: list[tuple[Any, int, Any, float | None]], path: Path) -> int:
    """Add rows of a table, unless they are present; returns the number of new rows.

    Args:
        loop: The loop.
        rows: Time, line, point and observation of each row.
        path: The table, for errors.
    """
    new, there = 0, _measured(loop)
    # Rows are added in order of time, because an earlier row would replay all later rows.
    for when, line, point, value in sorted(rows, key=lambda row: _seconds(row[0])):
        near = 1e-3 if isinstance(when, datetime) else 0.0  # files round dates
        times_there = there.get(_place(point, value), [])
        same = [t for t in times_there if when is None or abs(_seconds(when) - t) <= near]
        if same:
            times_there.remove(same[0])  # a second equal row is a new measurement
        else:
            with _at_line(line, path):
                loop.observe(point, value, ok=value is not None, time=when)
            new += 1
    return new


def _succeeded(cell: str) -> bool:
    """Whether a cell of the column ``ok`` means success; an empty cell also means success."""
    if cell.lower() not in ("true", "1", "false", "0", *GAPS):
        raise ValueError(f"column {OK!r} has {cell!r}; give True, or False for a failure.")
    return cell.lower() not in ("false", "0")


def _warn(loop: Loop) -> None:
    """Warn if the newest reading may be wrong, and if the newest date lies in the future.

    After a date in the future, suggestions are for that date.
    """
    if text := loop._suspect_text(None, None):
        _note(text)
    newest = max(loop.history.times, key=_seconds, default=None)
    if isinstance(newest, datetime) and newest > datetime.now(newest.tzinfo):
        _note(
            f"the newest measurement is at {newest.isoformat(' ', 'seconds')}, later than this "
            "computer's clock; until the clock reaches that time, suggestions are for that time."
        )


def _at_line(line: int, path: Path) -> AbstractContextManager[None]:
    """Add the line number in the table to the message of an error."""
    from botorch_tv.validation import noted

    return noted(f"The error is in line {line} of {path}; nothing was imported.")


def _discard(arguments: argparse.Namespace) -> None:
    with _changed(arguments.file) as loop:
        loop.discard(arguments.number)


def _amend(arguments: argparse.Namespace) -> None:
    number, y = arguments.number, None
    with _changed(arguments.file) as loop:
        if arguments.values or arguments.failed:
            given, *others = _observed(loop, arguments)
            y = given["y"]
            if given["context"] or any(others):
                raise ValueError("amend corrects the observation; remove and observe a setting.")
        ok = False if arguments.failed else None
        loop.amend(number, y, ok=ok, time=_when(loop, arguments.time))
    _print_measurement(loop, number)


def _remove(arguments: argparse.Namespace) -> None:
    with _changed(arguments.file) as loop:
        loop.remove(arguments.number)


def _recommend(arguments: argparse.Namespace) -> None:
    loop = _loaded(arguments.file)
    _print_json(_best(loop, **_present(loop, arguments)))


def _pareto(arguments: argparse.Namespace) -> None:
    loop = _loaded(arguments.file)
    for setting in loop.pareto(**_present(loop, arguments)):
        _print_json(setting._asdict())


def _present(loop: Loop, arguments: argparse.Namespace) -> dict[str, Any]:
    """The time and the context of a choice, as arguments of the loop's methods."""
    context = _named(loop, arguments.context) or None
    return {"now": _when(loop, arguments.time), "context": context}


def _status(arguments: argparse.Namespace) -> None:
    from botorch.exceptions import InputDataError

    loop, picture = _loaded(arguments.file), arguments.plot
    if arguments.json:
        good = [row.y is not None for row in loop._record.log.answers]
        summary: dict[str, Any] = {"measurements": len(good), "failed": good.count(False)}
        summary |= {
            "best": None,
            "open": list(map(_suggested, loop.open)),
            "words": loop.describe(),
        }
        with suppress(InputDataError):  # failure is likelier than success everywhere
            summary["best"] = _best(loop)
        _print_json(summary)
    else:
        print("\n".join([loop.describe(), *map(repr, loop.open)]))
    if picture is not None:
        loop.plot(picture)
        print(f"Written: {picture}", file=sys.stderr if arguments.json else sys.stdout)


def _table(arguments: argparse.Namespace) -> None:
    print(_loaded(arguments.file).table().to_csv(index=False), end="")


def _backtest(arguments: argparse.Namespace) -> None:
    path, y = arguments.file, arguments.y
    loop = _of_table(path, y) if path.suffix == ".csv" else _loaded(path)
    print(loop.backtest().to_string(float_format="%.4g"))


def _of_table(path: Path, y: str) -> Loop:
    """A loop with the measurements of a .csv file, whose other columns are parameters and time.

    Raises:
        ValueError: If the column of the observations is missing.
    """
    import pandas as pd

    from botorch_tv import Choice, Loop
    from botorch_tv.loop.table import COLUMNS

    frame = pd.read_csv(path).rename(columns={y: "y"})
    if "y" not in frame:
        raise ValueError(f"{path} has no column {y!r}; give the column of observations by --y.")
    frame = frame.dropna(subset=["y"])
    domain: dict[str, Any] = {}
    for name in frame.columns.difference([*COLUMNS], sort=False):
        column = frame[name]
        numbers = pd.api.types.is_numeric_dtype(column)
        domain[name] = (column.min(), column.max()) if numbers else Choice(*column.unique())
    given: dict[str, Any] = {name: list(frame[name]) for name in (TIME, OK) if name in frame}
    return Loop.from_table(domain, frame[[*domain]], list(frame["y"]), **given)


def _print_json(value: dict[str, Any]) -> None:
    """Print a line of JSON; datetimes are texts, and tensors are lists."""

    def default(own: Any) -> Any:
        return own.isoformat() if isinstance(own, datetime) else own.tolist()

    print(json.dumps(value, default=default))


def _suggested(suggestion: NumberedSuggestion) -> dict[str, Any]:
    """A suggestion for JSON; mean and sd are None if there is no prediction."""
    made = {name: getattr(suggestion, name) for name in ("number", "point", "time", "mean", "sd")}
    if suggestion.row.predicted is None:
        made |= {"mean": None, "sd": None}
    if suggestion.context is not None:
        made["context"] = suggestion.context
    if suggestion.keeps is not None:
        made |= {"keeps": suggestion.keeps, "safe": suggestion.safe}
    return made


def _best(loop: Loop, **present: Any) -> dict[str, Any]:
    """The best point for JSON; mean and sd are None if there is no prediction."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        best = {"point": loop.recommend(**present), "mean": None, "sd": None}
    for warning in caught:
        _note(warning.message)
    if bool(loop.strategy.predicts(loop.state)):
        posterior = loop.posterior([best["point"]], **present)
        best["mean"] = float(posterior.mean)
        best["sd"] = float(posterior.variance.clamp_min(0).sqrt())
    return best


def _note(text: object) -> None:
    print(f"botorch-tv: {text}", file=sys.stderr)


@contextmanager
def _changed(path: Path) -> Iterator[Loop]:
    """Load a loop for a ``with`` block, and save it unless the block raises; other processes wait.

    If the loop had no unit of time and its first time is a date, its times are dates from then on,
    and a line on stderr states the unit.
    """
    _require_there(path)
    with alone(path):
        loop = _loaded(path)
        before = loop._units.clock.unit
        yield loop
        loop.save(path)
    unit = loop._units.clock.unit
    if before is None and unit is not None:
        _note(
            f"{path} had no unit of time, and its first time is a date. From now on, times are "
            f"dates, counted in {unit}. To count rounds instead, create a new loop, and give times "
            "as numbers or give no times."
        )


def _require_there(path: Path) -> None:
    if not path.exists():
        raise ValueError(f"{path} does not exist; run botorch-tv loop new {path} NAME=LOW:HIGH.")


def _loaded(path: Path) -> Loop:
    from botorch_tv import Loop

    _require_there(path)
    return Loop.load(path, snapshot=True)


def _parameter(text: str) -> tuple[str, Float | Integer | Choice]:
    from botorch_tv import Choice, Float, Integer

    name, _, rest = text.partition("=")
    choices, ends = rest.split(","), re.fullmatch(RANGE.format(r"[^:]+"), rest)
    comma = "," in rest and re.fullmatch(RANGE.format(r"[-+\d.,e]+"), rest)
    try:
        if name and len(choices) > 1 and all(choices) and not comma:
            return name, Choice(*choices)
        if not name or not ends or comma:
            raise ValueError("a range is missing, or a number has a decimal comma")
        low, high, step, log = float(ends[1]), float(ends[2]), ends[3], ":log" in ends[4]
        if ":int" not in ends[4]:
            return name, Float(low, high, log=log, step=None if step is None else float(step))
        if not (low.is_integer() and high.is_integer() and step is None):
            raise ValueError("the bounds of an integer must be integers, and its step is 1")
        return name, Integer(int(low), int(high), log=log)
    except ValueError as error:
        reason = str(error).rstrip(".")
        raise ValueError(f"{text!r} is not a parameter: {reason}; {FORM}.") from error


def _by_name(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = " ".join(name for name, _ in pairs)
        raise ValueError(f"{names}: a parameter is given twice; give each parameter once.")
    return found


def _named(loop: Loop, texts: list[str]) -> dict[str, Any]:
    """The values that texts NAME=VALUE give, by name."""
    kinds = {**_kinds(loop), **loop._units.contexts}
    return _by_name([_value(kinds, text) for text in texts])


def _point(loop: Loop, point: dict[str, Any]) -> Any:
    """A point as the loop takes it: a dictionary if its parameters have names, otherwise a list."""
    kinds, named = _kinds(loop), loop.parameters is not None
    if not all(map(str.strip, point)) or not (named or set(point) == set(kinds)):
        form = " ".join(f"{name}=VALUE" for name in kinds)
        given = " ".join(point) or "nothing"
        raise ValueError(f"{given} is not a point of this loop; give {form}.")
    return point if named else [point[name] for name in kinds]


def _kinds(loop: Loop) -> dict[str, Any]:
    """The parameters by name; parameters without names are called ``x0, x1, ...``."""
    from botorch_tv.loop.table import names_of

    return dict(loop.parameters or dict.fromkeys(names_of(loop.domain)))


def _value(kinds: Mapping[str, Any], text: str) -> tuple[str, Any]:
    """Name and value from a text NAME=VALUE; for a ``Choice``, the choice that VALUE denotes."""
    from botorch_tv import Choice

    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not a parameter with a value; give NAME=VALUE.")
    kind = kinds.get(name)
    if isinstance(kind, Choice):
        alike = [c for c in kind.choices if value in (str(c), json.dumps(c, default=str))]
        if len(alike) > 1:
            texts = " or ".join(map(repr, alike))
            raise ValueError(f"{text!r} may mean {texts}; use loop.observe in Python.")
        return name, alike[0] if alike else value
    try:
        return name, float(value)
    except ValueError:
        return name, value  # the loop refuses the value with a message


class _BadOption(argparse.ArgumentTypeError, ValueError):
    """An invalid value in an option or a table, as a type whose message argparse prints."""


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        meant = text.replace(",", ".") if re.fullmatch(r"-?\d+,\d+", text) else "-3.7"
        fix = f"write it with a decimal point, such as {meant}."
        raise _BadOption(f"{text!r} is not a number; {fix}") from error


def _time(text: str) -> Time | str:
    """A number, a date, or the text "now"."""
    if text == "now":
        return text
    for read in (float, datetime.fromisoformat):
        with suppress(ValueError):
            return read(text)
    raise _BadOption(
        f"{text!r} is neither a number nor a date; give a date such as 2026-03-01T08:30+01:00, or "
        "for a table --date-format."
    )


def _when(loop: Loop, time: Time | str | None) -> Time | None:
    """A time of the command line as a number or a date.

    Raises:
        ValueError: If the time is "now", but the times of the loop are numbers.
    """
    if not isinstance(time, str):
        return time
    now = loop._units.clock.now()
    if now is None:
        raise ValueError("the times of this loop are numbers, which have no 'now'; give a number.")
    return now


def _print_measurement(loop: Loop, number: int) -> None:
    """Print what was understood of a measurement."""
    from botorch_tv.loop.clock import point_text

    row, units = loop._answered(number), loop._units
    point = units.point_text(row.point if units.contexts else row.point[: loop.domain.dim])
    value = "failed" if row.y is None else f"y {row.y:.9g}" if isinstance(row.y, float) else ""
    if isinstance(row.y, tuple):
        value = point_text(units.measured(row.y))
    print(f"Measurement {number}: {point}; {value}; time {units.time_text(row.time)}")


def _measured(loop: Loop) -> dict[Any, list[float]]:
    """The times of all measurements, by point and value; they show which rows were imported before.

    The result includes amended and removed measurements, because otherwise the import of an old
    table would restore them.
    """
    found, units = defaultdict[Any, list[float]](list), loop._units
    for row in (*loop._record.log.answers, *loop._record.superseded):
        found[_place(units.point(row.point), row.y)].append(_seconds(units.clock.shown(row.time)))
    return found


def _place(point: Any, y: Any) -> tuple[Any, ...]:
    """Key of a measurement: y, which is None if it failed, and the point, rounded as in tables."""
    values = point.values() if isinstance(point, dict) else point
    return tuple(f"{n:.9g}" if isinstance(n, (int, float)) else n for n in (y, *values))


def _seconds(time: Time | None) -> float:
    """A number by which times are sorted, whether dates or numbers; 0 for None."""
    if isinstance(time, datetime):
        return (time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp()
    return time or 0.0
