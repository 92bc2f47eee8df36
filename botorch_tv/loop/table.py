"""The output of a loop: suggestions, consultations, tables and summaries."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from botorch_tv.forgetting import Decay, Inflation
from botorch_tv.gp.box import BoxPrior
from botorch_tv.loop.clock import LoopClock, Time, Units, Values, earliest, point_text, time_text
from botorch_tv.loop.input import as_rows, as_table, check_labels, parameters_of
from botorch_tv.loop.log import Best, Measurement, MeasurementLog, Question, like
from botorch_tv.loop.record import Record
from botorch_tv.loop.words import objective_of
from botorch_tv.notebook import listing
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.outcomes import Outcomes
from botorch_tv.strategies.process_strategy import ProcessStrategy
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import counted, require, span_text

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 20
"""Maximum number of rows of a table that are printed."""
UNSUPPORTED = (
    "No measurement supports this setting: its posterior variance exceeds half the prior variance. "
    "Measure it before you rely on it."
)
FAILS_EVERYWHERE = "Every setting is more likely to fail than to succeed."


@dataclass(frozen=True, eq=False, repr=False)
class NumberedSuggestion:
    """A point that a loop suggests to measure.

    Attributes:
        number: The number to pass to ``tell`` and ``discard``, counted from 1.
        X: The point, `d`; a point of the unit cube if parameters are named.
        context: The context: values by name, or a tensor of shape `c`; None without a context.
        time: The time for which the point was chosen, a number or a datetime.
        mean: Posterior mean of the objective given all answers; NaN without a prediction.
        sd: Posterior standard deviation of the objective; NaN without a prediction.
        keeps: The probability of keeping all limits on outcomes; None without predictions.
        safe: Whether this probability reaches what the loop requires; None if it is not predicted,
            or if a limit has moved since; True without limits.
        point: The point as a list of numbers, or as a dict of named parameters in the parameters'
            units.
        row: The row of the suggestion in the log.
    """

    number: int
    X: Tensor
    context: Any
    time: Time
    mean: float
    sd: float
    keeps: float | None = field(kw_only=True)
    safe: bool | None = field(kw_only=True)
    point: Any = field(kw_only=True)
    row: Measurement = field(kw_only=True)

    def __getitem__(self, name: str | int) -> Any:
        """The value of a parameter of ``point``, as in ``suggestion["temperature"]``."""
        return self.point[name]

    def __repr__(self) -> str:
        at = f"{point_text(self.point)} at time {time_text(self.time)}"
        if self.context is not None:
            own = self.context if isinstance(self.context, dict) else self.context.tolist()
            at += f", context {point_text(own)}"
        prediction = f"posterior mean {self.mean:.4g} ± {2 * self.sd:.2g} (2 sd)"
        if self.row.predicted is None:
            prediction = "no prediction yet"
        kept = "" if self.keeps is None else f"; keeps the limits with probability {self.keeps:.3g}"
        return f"Suggestion {self.number}: {at}; {prediction}{kept}"

    def _repr_markdown_(self) -> str:
        point, kept = self.point, {}
        rows = point if isinstance(point, dict) else {f"x{k}": v for k, v in enumerate(point)}
        if self.row.predicted is not None:
            kept["posterior mean ± 2 sd"] = f"{self.mean:.4g} ± {2 * self.sd:.2g}"
        if self.keeps is not None:
            kept["probability of keeping the limits"] = f"{self.keeps:.3g}"
        return listing(f"Suggestion {self.number}, time {time_text(self.time)}", rows | kept)


def numbered(
    row: Measurement, state: State, units: Units, strategy: Strategy
) -> NumberedSuggestion:
    """The suggestion that a row of the log describes."""
    X, d = like(state).new_tensor(row.point), state.domain.dim
    values, (mean, sd, _) = units.point(row.point), row.prediction
    context: Any = X[d:] if len(X) > d else None
    if isinstance(values, dict) and units.contexts:
        context = {name: values[name] for name in units.contexts}
    safe: bool | None = True
    if isinstance(strategy, Outcomes) and strategy.limits:
        safe = None if row.keeps is None else row.keeps >= strategy.confidence
    shown: Any = row.number, X[:d], context, units.clock.shown(row.time), mean, sd
    point = units.point(row.point[:d])
    return NumberedSuggestion(*shown, keeps=row.keeps, safe=safe, point=point, row=row)


@dataclass(frozen=True, eq=False, repr=False)
class NumberedConsultation:
    """The points that a loop asks an expert to measure again.

    Attributes:
        number: The number to pass to ``absorb``, counted from 1.
        X: The points, `Q x d`; points of the unit cube if parameters are named.
        time: Time for which values are asked: the time of the newest measurement.
        points: The points as lists of numbers, or as dicts of named parameters in the parameters'
            units.
        row: The row of the consultation in the log.
    """

    number: int
    X: Tensor
    time: Time
    points: Any = field(kw_only=True)
    row: Question = field(kw_only=True)

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        some = "; ".join(map(point_text, self.points[:3])) + ", ..." * (len(self) > 3)
        at = f"{counted(len(self), 'points')} at time {time_text(self.time)}"
        return f"Consultation {self.number}: {at}: {some}"


def numbered_consultation(row: Question, state: State, units: Units) -> NumberedConsultation:
    """The consultation that a row of the log describes."""
    X, time = like(state).new_tensor(row.points), units.clock.shown(row.time)
    points = [units.point(point) for point in row.points]
    return NumberedConsultation(row.number, X, time, points=points, row=row)


class Table(NamedTuple):
    """All n measurements in order of time.

    Attributes:
        number: Number of the answered suggestion, or -1, -2, ... in order of arrival for
            measurements that were not suggested; `n`, int64.
        X: The points, `n x d`; points of the unit cube if parameters are named.
        context: The contexts, `n x c`.
        y: The observations, `n`; NaN if the measurement failed.
        time: The times, `n`, float64; datetimes are in the unit of the loop.
        noise: The noise variances, `n`; infinite if the measurement failed, and the default of the
            strategy if outcomes have names.
        reset: Whether the measurement triggered a reset, `n`, bool.
        points: The n points as lists of numbers, or as dicts of named parameters and contexts in
            their units.
        times: The n times as they were given, numbers or datetimes.
    """

    number: Tensor
    X: Tensor
    context: Tensor
    y: Tensor
    time: Tensor
    noise: Tensor
    reset: Tensor
    points: Sequence[Values]
    times: Sequence[Time]

    def __repr__(self) -> str:
        rows = range(len(self.y))[-SHOWN:]
        lines = [
            f"{int(self.number[row])}: at {point_text(self.points[row])}, time "
            f"{self.times[row]}, y {float(self.y[row]):.6g}, noise {float(self.noise[row]):.6g}"
            f"{', reset' if self.reset[row] else ''}"
            for row in rows
        ]
        return "\n".join([f"{len(self.y)} measurements, the newest {len(rows)}:", *lines])


class SupersededMeasurement(NamedTuple):
    """A wrong reading that was amended or removed.

    Attributes:
        number: As in :class:`Table`.
        point: The point as a list of numbers, or as a dict of named parameters in the parameters'
            units.
        y: The observation, NaN if the measurement failed.
        time: The time of the measurement.
        became: ``"amended"`` or ``"removed"``.
    """

    number: int
    point: Any
    y: float
    time: Time
    became: str


class ParetoSetting(NamedTuple):
    """A setting among several that no other is predicted to dominate.

    Attributes:
        point: The point as a list of numbers, or as a dict of named parameters in the parameters'
            units.
        mean: The posterior mean of each objective, by its formula without a leading minus.
        sd: The posterior standard deviation of each objective.
        keeps: The probability of keeping all limits on outcomes; None without limits. Limits
            without predictions do not count.
    """

    point: Any
    mean: dict[str, float]
    sd: dict[str, float]
    keeps: float | None

    def __repr__(self) -> str:
        values = (
            f"{name} {mean:.4g} ± {2 * self.sd[name]:.2g}" for name, mean in self.mean.items()
        )
        kept = "" if self.keeps is None else f"; keeps the limits with probability {self.keeps:.2f}"
        return f"Trade-off: {point_text(self.point)}; {', '.join(values)} (2 sd){kept}"


class LastAnswer(NamedTuple):
    """The answer that arrived last.

    Attributes:
        number: As in :class:`Table`.
        reset: Whether this answer triggered a reset of the strategy.
    """

    number: int
    reset: bool


def table(log: MeasurementLog, units: Units) -> Table:
    """The table of all measurements."""
    rows, own, domain = log.answers, like(log.state), log.state.domain
    points = own.new_tensor([row.point for row in rows]).view(len(rows), domain.columns)
    usual = log.strategy.usual_noise
    given = [usual if isinstance(row.noise, tuple | None) else row.noise for row in rows]
    noise = [math.inf if row.y is None else variance for row, variance in zip(rows, given)]
    return Table(
        number=torch.tensor([row.number for row in rows], dtype=torch.int64, device="cpu"),
        X=points[:, : domain.dim],
        context=points[:, domain.dim :],
        y=own.new_tensor([objective_of(log.strategy, row.y) for row in rows]),
        time=log.state.time.new_tensor([row.time for row in rows]),
        noise=own.new_tensor(noise),
        reset=torch.tensor(log.resets, dtype=torch.bool, device="cpu"),
        points=[
            units.point(row.point if units.contexts else row.point[: domain.dim]) for row in rows
        ],
        times=[units.clock.shown(row.time) for row in rows],
    )


OBJECTIVE = "objective"
"""Column of the first objective, in place of y, if outcomes have names."""
COLUMNS = ("number", "time", "y", "ok", "noise", "mean", "sd", "reset")
"""Columns of :meth:`Loop.table`; the columns of the point are inserted after the first column."""


def names_of(domain: Domain) -> list[str]:
    """The names of the parameters; ``x0, x1, ...`` if they have no names."""
    return list(parameters_of(domain) or [f"x{n}" for n in range(domain.dim)])


def contexts_of(domain: Domain) -> list[str]:
    """The names of the contexts; ``context0, context1, ...`` if they have no names."""
    named = parameters_of(domain)
    numbered = [f"context{n}" for n in range(domain.columns - domain.dim)]
    return numbered if named is None else list(named.contexts) or numbered


def titles(domain: Domain, outcomes: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """The columns of a point, of its context and of its outcomes; no two have the same name."""
    contexts, others = contexts_of(domain), {*COLUMNS}

    def settled(names: Sequence[str], kind: str) -> list[str]:
        return [f"{name} ({kind})" if name in others else name for name in names]

    context = settled(contexts, "context")
    others |= {*context}
    points = settled(names_of(domain), "parameter")
    others |= {*points, OBJECTIVE}
    others.discard("y")  # the objective takes its place
    return points, context, settled(outcomes, "outcome")


def data_frame(
    log: MeasurementLog, units: Units, waiting: Sequence[Measurement] | None = None
) -> pd.DataFrame:
    """The data frame of :meth:`Loop.table`.

    Args:
        log: The measurements.
        units: The names and units of the cells.
        waiting: Open suggestions that are the rows instead of the measurements.

    Raises:
        ImportError: If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "Loop.table needs pandas: pip install 'botorch-tv[study]'; or use loop.history, which "
            "has tensors."
        ) from error
    number, *rest = COLUMNS
    domain, usual = log.state.domain, log.strategy.usual_noise
    points, context, measured = titles(domain, units.outcomes)
    pairs = zip(log.answers, log.resets) if waiting is None else zip(waiting, repeat(False))
    cells = []
    for row, reset in pairs:
        values = units.point(row.point if units.contexts else row.point[: domain.dim])
        own = values.values() if isinstance(values, dict) else values
        given = () if units.contexts else row.point[domain.dim :]
        begun = [row.number, *own, *given, units.clock.shown(row.time)]
        y, noise = objective_of(log.strategy, row.y), usual if row.noise is None else row.noise
        shown = units.measured(noise) if isinstance(noise, tuple) else noise
        mean, sd, _ = row.prediction if row.number > 0 else (math.nan,) * 3
        outcomes = row.y if isinstance(row.y, tuple) else (math.nan,) * len(units.outcomes)
        cells.append([*begun, y, row.y is not None, shown, mean, sd, reset, *outcomes])
    if units.outcomes:
        rest[rest.index("y")] = OBJECTIVE
    return pd.DataFrame(cells, columns=[number, *points, *context, *rest, *measured])


def rows_from(
    columns: dict[str, Any],
    state: State,
    begun: Callable[[Any], LoopClock],
    outcomes: Sequence[str],
) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of :meth:`Loop.from_table` in order of time: the number of each, and its arguments.

    Args:
        columns: The arguments of the user, by name, with None for missing columns.
        state: The state of the loop.
        begun: Function that returns the clock of the loop, given its first time.
        outcomes: The names of the outcomes.

    Raises:
        ValueError: As in :func:`columns_from`.
        InputDataError: If the columns do not match each other or the domain.
    """
    if columns["y"] is None:
        columns = columns_from(columns, state.domain, outcomes)
    check_labels(columns)
    X = as_table(columns["X"], columns["y"], state)
    present = {name: column for name, column in columns.items() if column is not None}
    rows = {name: as_rows(name, column, len(X)) for name, column in (present | {"X": X}).items()}
    times = rows.setdefault("time", [float(row + 1) for row in range(len(X))])
    number, fix = begun(earliest(times)).number, "drop rows without a time."
    when = [number(f"time in row {row}", time, fix) for row, time in enumerate(times)]
    for row in sorted(range(len(X)), key=when.__getitem__):
        yield row, {name: column[row] for name, column in rows.items()}


def columns_from(given: dict[str, Any], domain: Domain, outcomes: Sequence[str]) -> dict[str, Any]:
    """Take the arguments of :meth:`Loop.from_table` from the columns of the table X.

    Args:
        given: The arguments of the user: X must be a table in the format of :meth:`Loop.table`, and
            all other arguments must be None.
        domain: The domain.
        outcomes: The names of the outcomes.

    Raises:
        ValueError: If a column is missing, or another argument is given.
    """
    frame, passed = given["X"], [name for name, value in given.items() if value is not None]
    names, contexts, measured = titles(domain, outcomes)
    needed = [*names, *contexts, *(measured or ["y"])]
    have = getattr(frame, "columns", ())
    missing = [name for name in needed if name not in have]
    allowed = {*COLUMNS, *needed}
    odd = [name for name in have if str(name).lower() in COLUMNS and name not in allowed]
    require(not odd, f"Loop.from_table: X has a column {', '.join(odd)}; write it in lower case.")
    require(
        passed == ["X"] and not missing,
        "Loop.from_table: give y, or give X alone, in the format of loop.table(); "
        f"given: {', '.join(passed) or 'none'}; missing columns: {', '.join(missing) or 'none'}.",
    )
    twice = [name for name in dict.fromkeys([*needed, *COLUMNS]) if list(have).count(name) > 1]
    require(not twice, f"Loop.from_table: X has several columns {', '.join(twice)}; give one each.")
    points = frame[names]
    named = parameters_of(domain)
    points = points.to_numpy() if named is None else points.set_axis(list(named), axis=1)
    columns = {name: frame[name] for name in ("time", "noise", "ok") if name in have}
    if "noise" in columns:
        columns["noise"] = [None if noise != noise else noise for noise in columns["noise"]]
    y = frame[measured].set_axis(list(outcomes), axis=1) if outcomes else frame["y"]
    context = frame[contexts].set_axis(contexts_of(domain), axis=1) if contexts else None
    if named is None or not named.contexts:
        context = None if context is None else context.to_numpy()
    return given | {"X": points, "y": y, "context": context} | columns


def summary(record: Record, units: Units, suspect: str, best: Best | None) -> str:
    """The text of :meth:`Loop.describe`.

    Args:
        record: The measurements and open suggestions.
        units: The names and units of the text.
        suspect: A sentence on the newest reading; may be empty.
        best: The setting to recommend; None to omit it.
    """
    log, unit, forgetting = record.log, units.clock.unit or "", ""
    if isinstance(log.strategy, ProcessStrategy):
        learned = log.state.basis.decay if isinstance(log.state.basis, BoxPrior) else None
        process = log.strategy.process
        forgetting = forgetting_text(learned or process.decay, process.inflation, unit)
    lost = ", ".join(map(str, sorted(record.open.keys() - record.waiting.keys())))
    lines = [
        log.strategy.describe(log.state, format_time=units.time_text, unit=unit),
        suspect,
        forgetting,
        _measured_text(record, units)
        + (f"; open: {units.listed(record.open)}" if record.open else "")
        + (f"; lost: {lost}." if lost else "."),
    ]
    if best is not None:
        mean, low, high = (f"{best.mean + n * best.sd:#.4g}".removesuffix(".") for n in (0, -2, 2))
        X = best.X if units.contexts else best.X[: log.state.domain.dim]
        lines.append(
            f"Best setting now: {units.point_text(X.tolist())}; "
            f"posterior mean {mean}, ± 2 sd: {low} to {high}."
        )
        lines.append(limits_text(best, log.strategy))
        lines += [FAILS_EVERYWHERE * best.fails, UNSUPPORTED * (not best.supported)]
    return "\n".join(filter(None, lines))


def limits_text(best: Best, strategy: Strategy) -> str:
    """Sentences on the limits on outcomes: how probably the best setting keeps each.

    Args:
        best: The setting to recommend.
        strategy: The strategy, with limits if ``best`` has such probabilities.
    """
    if not best.keeps:
        return ""
    assert isinstance(strategy, Outcomes)
    each = (f"{limit.text} ({p:.2f})" for limit, p in zip(strategy.limits, best.keeps))
    none = f"No setting keeps all limits now with probability {strategy.recommended:g}; "
    none += "this is the likeliest to keep them. "
    text = f"Probability that this setting keeps the limits: {', '.join(each)}."
    return none * best.breaks + text.replace("(nan)", "(no prediction yet)")


def _measured_text(record: Record, units: Units) -> str:
    """A text on the measurements: their number and times, failures, corrections and resets."""
    became = [row.became for row in record.superseded]
    changed = "".join(f"; {became.count(change)} {change}" for change in dict.fromkeys(became))
    log, answers = record.log, record.log.answers
    if not answers:
        return f"No measurements yet{changed}"
    first, last = (units.time_text(answers[place].time) for place in (0, -1))
    times = f"at time {first}" if len(answers) == 1 else f"from time {first} to {last}"
    text = f"{counted(len(answers), 'measurements')} {times}"
    failed = sum(answer.y is None for answer in answers)
    text += (f", {failed} failed" if failed else "") + changed
    if isinstance(log.strategy, ProcessStrategy) and log.strategy.process.retention:
        resets = [answer.time for answer, reset in zip(answers, log.resets) if reset]
        newest = f", the last at time {units.time_text(resets[-1])}" if resets else ""
        text += f"; {counted(len(resets), 'resets')}{newest}"
    return text


def forgetting_text(decay: Decay, inflation: Inflation, unit: str) -> str:
    """A text with the half-life of the correlation and the doubling time of the noise, if any.

    Args:
        decay: The decay of the covariance with time.
        inflation: The growth of the noise variance with the age of an observation.
        unit: Unit of time in the plural, such as "hours"; empty if times are numbers.
    """
    ages = 2 ** torch.linspace(-30, 40, 2**17, dtype=torch.float64, device="cpu")
    start = torch.zeros_like(ages)

    def half_life(share: Tensor) -> str:
        below = (share.reshape(-1, len(ages)) <= 0.5).all(0).nonzero()
        more, at = ("", below[0]) if len(below) else ("more than ", -1)
        return f"{more}{span_text(float(ages[at]), unit)}"

    texts = []
    if not decay.is_static:
        variances = decay.covariance(start, start) * decay.covariance(ages, ages)
        share = decay.covariance(start, ages) / variances.sqrt()
        texts.append(f"correlation half-life {half_life(share)}")
    if not inflation.is_static:
        share = torch.exp(-inflation.log_factor(ages))
        texts.append(f"noise doubling time {half_life(share)}")
    return f"Forgetting: {', '.join(texts)}." if texts else ""
