"""What a loop shows: suggestions, consultations for experts, tables, and a summary in words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from botorch_tv.forgetting import Decay, Inflation
from botorch_tv.forgetting.base import is_static
from botorch_tv.loop.clock import LoopClock, Time, Units, Values, point_text, time_text
from botorch_tv.loop.input import parameters_of
from botorch_tv.loop.log import Measurement, MeasurementLog, Question, like
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.state import State
from botorch_tv.validation import counted, require, span_text

if TYPE_CHECKING:
    import pandas as pd

SHOWN = 20
"""Rows of a table that are printed."""


@dataclass(frozen=True, eq=False, repr=False)
class NumberedSuggestion:
    """A loop's suggestion of what to measure.

    Attributes:
        number: By which ``tell`` and ``discard`` know it, counted from 1.
        X: The point, `d`; its place in the unit cube where parameters have names.
        context: What was known before it was chosen, `c`; None where nothing was.
        time: For which it was chosen; a datetime where times are such.
        mean: Mean predicted there, from answers alone; NaN where there is no prediction yet.
        sd: Standard deviation of that prediction, without observation noise; NaN likewise.
        point: The point as plain numbers, or as a dict of named parameters in their own units.
        row: What the loop has written down of it.
    """

    number: int
    X: Tensor
    context: Tensor | None
    time: Time
    mean: float
    sd: float
    point: Any = field(kw_only=True)
    row: Measurement = field(kw_only=True)

    def __getitem__(self, name: str | int) -> Any:
        """One parameter of ``point``: ``suggestion["temperature"]``."""
        return self.point[name]

    def __repr__(self) -> str:
        at = f"{point_text(self.point)} at time {time_text(self.time)}"
        if self.context is not None:
            at += f", context {point_text(self.context.tolist())}"
        prediction = f"posterior mean {self.mean:.4g} ± {2 * self.sd:.2g} (2 sd)"
        if self.row.predicted is None:
            prediction = "no prediction yet"
        return f"Suggestion {self.number}: {at}; {prediction}"


def numbered(row: Measurement, state: State, units: Units) -> NumberedSuggestion:
    """A suggestion that is written down, for those who are to measure."""
    mean, sd, _ = row.predicted or (math.nan,) * 3
    X, d = like(state).new_tensor(row.point), state.domain.dim
    return NumberedSuggestion(
        row.number,
        X[:d],
        X[d:] if len(X) > d else None,
        units.clock.shown(row.time),
        mean,
        sd,
        point=units.point(row.point[:d]),
        row=row,
    )


@dataclass(frozen=True, eq=False, repr=False)
class NumberedConsultation:
    """A loop's question to an expert: the current values at points measured before.

    Attributes:
        number: By which ``absorb`` knows it, counted from 1.
        X: The points, `Q x d`.
        time: The time that is asked about, that of the newest measurement.
        points: The points as plain numbers, or as dicts of named parameters in their own units.
        row: What the loop has written down of it.
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


class Table(NamedTuple):
    """All measurements, n rows in order of time; its repr shows the newest.

    Attributes:
        number: Of the suggestion that was answered; for measurements that were not suggested -1,
            -2, ... in order of arrival; `n`, int64.
        X: Where, `n x d`; places in the unit cube where parameters have names, see ``points``.
        context: What was known beforehand, `n x c`.
        y: What came out, NaN where the measurement failed, `n`.
        time: When, `n`, float64, in units of the clock where ``times`` are datetimes.
        noise: Noise variance, infinite where the measurement failed, `n`.
        reset: Whether everything before was forgotten with it, `n`, bool.
        points: The points as plain numbers, or as dicts of named parameters in their own units, n.
        times: When, as it was told: numbers, or datetimes, n.
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
    """A measurement that no longer counts, since it was amended or removed.

    Attributes:
        number: As in :class:`Table`.
        point: Where, as plain numbers, or as a dict of named parameters in their own units.
        y: The observation, NaN if the measurement failed.
        time: When it was made.
        became: ``"amended"`` or ``"removed"``.
    """

    number: int
    point: Any
    y: float
    time: Time
    became: str


class LastAnswer(NamedTuple):
    """The answer that a loop took in last.

    Attributes:
        number: As in :class:`Table`.
        reset: Whether it made the strategy forget everything before it.
    """

    number: int
    reset: bool


def table(
    rows: Sequence[Measurement], resets: Sequence[bool], state: State, noise: float, units: Units
) -> Table:
    """Measurements side by side; ``noise`` is the strategy's."""
    own, d = like(state), state.domain.dim
    points = own.new_tensor([one.point for one in rows]).view(len(rows), state.domain.columns)
    variances = [noise if one.noise is None else one.noise for one in rows]
    variances = [math.inf if one.y is None else v for one, v in zip(rows, variances)]
    return Table(
        number=torch.tensor([one.number for one in rows], dtype=torch.int64, device="cpu"),
        X=points[:, :d],
        context=points[:, d:],
        y=own.new_tensor([math.nan if one.y is None else one.y for one in rows]),
        time=state.time.new_tensor([one.time for one in rows]),
        noise=own.new_tensor(variances),
        reset=torch.tensor(resets, dtype=torch.bool, device="cpu"),
        points=[units.point(one.point[:d]) for one in rows],
        times=[units.clock.shown(one.time) for one in rows],
    )


COLUMNS = ("number", "time", "y", "ok", "noise", "mean", "sd", "reset")
"""Columns of a data frame; those of the chosen point are inserted after the first."""


def names_of(domain: Domain) -> list[str]:
    """The names of the chosen coordinates."""
    return list(parameters_of(domain) or [f"x{n}" for n in range(domain.dim)])


def _columns_of_points(domain: Domain) -> tuple[list[str], list[str]]:
    """The columns of points and of contexts."""
    context = [f"context{n}" for n in range(domain.columns - domain.dim)]
    others = {*COLUMNS, *context}
    return [f"{one} (parameter)" if one in others else one for one in names_of(domain)], context


def data_frame(
    rows: Sequence[Measurement], resets: Sequence[bool], domain: Domain, noise: float, units: Units
) -> pd.DataFrame:
    """Measurements side by side, as :meth:`Loop.table` returns them; ``noise`` is the strategy's.

    Raises:
        ImportError: If pandas is not installed.
    """
    try:
        import pandas as pd
    except ImportError as error:
        raise ImportError(
            "Loop.table needs pandas: pip install 'botorch-tv[study]'; loop.history is the same as "
            "tensors."
        ) from error
    number, *rest = COLUMNS
    points, context = _columns_of_points(domain)
    cells = []
    for one, reset in zip(rows, resets):
        values = units.point(one.point[: domain.dim])
        mean, sd, _ = (one.predicted if one.number > 0 else None) or (math.nan,) * 3
        row = (
            one.number,
            *(values.values() if isinstance(values, dict) else values),
            *one.point[domain.dim :],
            units.clock.shown(one.time),
            math.nan if one.y is None else one.y,
            one.y is not None,
            noise if one.noise is None else one.noise,
            mean,
            sd,
            reset,
        )
        cells.append(row)
    return pd.DataFrame(cells, columns=[number, *points, *context, *rest])


def columns_from(given: dict[str, Any], domain: Domain) -> dict[str, Any]:
    """The columns of a table that is given as X alone, as :meth:`Loop.table` returns it.

    Raises:
        ValueError: If a column is missing, or came besides.
    """
    frame, others = given["X"], [name for name, one in given.items() if one is not None]
    names, known = _columns_of_points(domain)
    have = getattr(frame, "columns", ())
    missing = [one for one in (*names, *known, "y") if one not in have]
    odd = [one for one in have if str(one).lower() in COLUMNS and one not in (*COLUMNS, *names)]
    require(not odd, f"Loop.from_table: X has a column {', '.join(odd)}; write it in lower case.")
    require(
        others == ["X"] and not missing,
        f"Loop.from_table: without y, X is a table as loop.table() returns it, alone, but "
        f"{', '.join(others) or 'nothing'} came, and X has no column "
        f"{', '.join(missing) or 'too few'}; give y.",
    )
    points = frame[names]
    named = parameters_of(domain)
    points = points.to_numpy() if named is None else points.set_axis(list(named), axis=1)
    there = {name: frame[name] for name in ("time", "noise", "ok") if name in have}
    if "noise" in there:
        there["noise"] = [None if one != one else one for one in there["noise"]]
    context = frame[known].to_numpy() if known else None
    return given | {"X": points, "y": frame["y"], "context": context} | there


def measured_text(log: MeasurementLog, became: list[str | None], clock: LoopClock) -> str:
    """The number of measurements, their times, and how many failed, were changed or reset.

    Args:
        log: The measurements.
        became: ``"amended"`` or ``"removed"`` for each superseded measurement.
        clock: The clock of their times.
    """
    changed = "".join(f"; {became.count(change)} {change}" for change in dict.fromkeys(became))
    answers = log.answers
    if not answers:
        return f"No measurements yet{changed}"

    def when(answer: Measurement) -> str:
        return time_text(clock.shown(answer.time))

    many, failed = counted(len(answers), "measurements"), sum(one.y is None for one in answers)
    text = f"{many} at time {when(answers[0])}"
    if len(answers) > 1:
        text = f"{many} from time {when(answers[0])} to {when(answers[-1])}"
    text += (f", {failed} failed" if failed else "") + changed
    if log.strategy.process.retention:
        resets = [answer for answer, reset in zip(answers, log.resets) if reset]
        last = f", the last at time {when(resets[-1])}" if resets else ""
        text += f"; {counted(len(resets), 'resets')}{last}"
    return text


def forgetting_text(decay: Decay, inflation: Inflation, unit: str) -> str:
    """The half-life of the correlation and the doubling time of the noise; empty if static.

    Args:
        decay: The decay of the covariance.
        inflation: The growth of the noise variance.
        unit: Unit of time in the plural, such as "hours"; empty if times are numbers.
    """
    ages = 2 ** torch.linspace(-30, 40, 2**17, dtype=torch.float64, device="cpu")
    start = torch.zeros_like(ages)

    def half_life(share: Tensor) -> str:
        below = (share.reshape(-1, len(ages)) <= 0.5).all(0).nonzero()
        if not len(below):
            return f"more than {span_text(float(ages[-1]), unit)}"
        return span_text(float(ages[below[0]]), unit)

    texts = []
    if not is_static(decay):
        variances = decay.covariance(start, start) * decay.covariance(ages, ages)
        share = decay.covariance(start, ages) / variances.sqrt()
        texts.append(f"correlation half-life {half_life(share)}")
    if not is_static(inflation):
        share = torch.exp(-inflation.log_factor(ages))
        texts.append(f"noise doubling time {half_life(share)}")
    return f"Forgetting: {', '.join(texts)}." if texts else ""
