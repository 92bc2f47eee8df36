"""What a loop writes down: suggestions, answers to them, and a table of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.state import State, Suggestion

SHOWN = 20
"""Rows of a table that are printed."""


class Prediction(NamedTuple):
    """What was predicted of a measurement before it was made."""

    mean: float
    """Posterior mean of the objective there and then."""
    sd: float
    """Its standard deviation, without observation noise."""
    multiplier: float
    """Width of the confidence band in standard deviations, sqrt(beta), when it was chosen."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A point to measure.

    Attributes:
        number: Of the suggestion; 0 where nobody suggested it.
        point: Its coordinates, the context behind.
        arm: Its number among the arms of a grid; None on a box.
        time: For which it was chosen.
        known: Answers that had arrived by then.
        prediction: Made from these; None where nobody needs one.
    """

    number: int
    point: tuple[float, ...]
    arm: int | None
    time: float
    known: int
    prediction: Prediction | None

    def suggestion(self, state: State) -> Suggestion:
        """As the strategy made it."""
        own = state.basis.variance
        numbers = (math.nan,) * 3 if self.prediction is None else self.prediction
        mean, sd, multiplier = own.new_tensor(numbers).unbind()
        arm = None if self.arm is None else torch.tensor(self.arm, device=own.device)
        return Suggestion(
            X=own.new_tensor(self.point),
            index=arm,
            mean=mean,
            sd=sd,
            multiplier=multiplier,
            time=state.time.new_tensor(self.time),
        )


def planned(suggestion: Suggestion, number: int, known: int) -> Planned:
    """A strategy's suggestion, as a loop writes it down."""
    numbers = (suggestion.mean, suggestion.sd, suggestion.multiplier)
    return Planned(
        number=number,
        point=tuple(suggestion.X.tolist()),
        arm=None if suggestion.index is None else int(suggestion.index),
        time=float(suggestion.time),
        known=known,
        prediction=Prediction(*(float(one) for one in numbers)),
    )


def unpredicted(state: State, X: Tensor, time: float, known: int) -> Planned:
    """A point `d + c` that nobody suggested and of which nobody needs a prediction.

    Raises:
        InputDataError: If it lies outside the domain.
    """
    choice = state.domain.locate(X)
    arm = int(choice) if isinstance(state.domain, Grid) else None
    point = state.domain.points(choice, state.basis.variance)
    return Planned(0, tuple(point.tolist()), arm, time, known, None)


@dataclass(frozen=True, slots=True)
class Answer:
    """What was measured.

    Attributes:
        planned: Where, and what was predicted before.
        y: The value; None where the measurement failed.
        time: When it was really made.
        noise: Its noise variance; None for the strategy's.
        arrival: How many answers had arrived before.
    """

    planned: Planned
    y: float | None
    time: float
    noise: float | None
    arrival: int


@dataclass(frozen=True, eq=False, repr=False)
class NumberedSuggestion:
    """What a loop asks to be measured.

    Attributes:
        number: By which ``tell`` and ``discard`` know it, counted from 1.
        X: The point, `d`.
        context: What was known before it was chosen, `c`; None where nothing was.
        time: For which it was chosen.
        mean: Mean predicted there, from answers alone.
        sd: Standard deviation of that prediction, without observation noise.
    """

    number: int
    X: Tensor
    context: Tensor | None
    time: float
    mean: float
    sd: float

    @property
    def point(self) -> list[float]:
        """The point as plain numbers."""
        return [float(one) for one in self.X]

    def describes(self, plan: Planned) -> bool:
        """Whether it is what is written down there."""
        known = [] if self.context is None else self.context.tolist()
        own = (self.number, (*self.point, *known), self.time)
        return own == (plan.number, plan.point, plan.time)

    def __repr__(self) -> str:
        at = f"at {short(self.point)} for time {self.time:g}"
        given = "" if self.context is None else f", context {short(self.context.tolist())}"
        return f"Suggestion {self.number}: {at}{given}; expects {self.mean:.4g} ± {self.sd:.2g}"


def numbered(planned: Planned, state: State) -> NumberedSuggestion:
    """A suggestion that is written down, for those who are to measure."""
    assert planned.prediction is not None
    X, d = state.basis.variance.new_tensor(planned.point), state.domain.dim
    return NumberedSuggestion(
        number=planned.number,
        X=X[:d],
        context=X[d:] if len(X) > d else None,
        time=planned.time,
        mean=planned.prediction.mean,
        sd=planned.prediction.sd,
    )


class Table(NamedTuple):
    """Everything measured, n rows in order of time; printed, it shows the newest."""

    number: Tensor
    """Of the suggestion that was answered, 0 where there was none, `n`, int64."""
    X: Tensor
    """Where, `n x d`."""
    context: Tensor
    """What was known beforehand, `n x c`."""
    y: Tensor
    """What came out, NaN where the measurement failed, `n`."""
    time: Tensor
    """When, `n`, float64."""
    noise: Tensor
    """Noise variance, infinite where the measurement failed, `n`."""
    reset: Tensor
    """Whether everything before was forgotten with it, `n`, bool."""

    def __repr__(self) -> str:
        names = ["number", "time", *(f"x{one}" for one in range(self.X.shape[1]))]
        names += [*(f"context{one}" for one in range(self.context.shape[1])), "y", "noise", "reset"]
        first = max(0, len(self.y) - SHOWN)
        lines = [names, *(self._line(row) for row in range(first, len(self.y)))]
        widths = [max(len(line[column]) for line in lines) for column in range(len(names))]
        text = ["  ".join(cell.rjust(width) for cell, width in zip(line, widths)) for line in lines]
        if first:
            text.insert(1, f"... {first} earlier rows")
        return "\n".join(text)

    def _line(self, row: int) -> list[str]:
        number = int(self.number[row])
        values = [self.time[row], *self.X[row], *self.context[row], self.y[row], self.noise[row]]
        shown = [f"{float(value):.6g}" for value in values]
        return [str(number) if number else "-", *shown, "yes" if self.reset[row] else ""]


def table(answers: list[Answer], resets: list[bool], state: State, noise: float) -> Table:
    """A loop's answers side by side; ``noise`` is the strategy's."""
    own, d = state.basis.variance, state.domain.dim
    points = own.new_tensor([one.planned.point for one in answers])
    points = points.view(len(answers), state.domain.columns)
    y = [math.nan if one.y is None else one.y for one in answers]
    told = [noise if one.noise is None else one.noise for one in answers]
    return Table(
        number=torch.tensor([one.planned.number for one in answers], dtype=torch.int64),
        X=points[:, :d],
        context=points[:, d:],
        y=own.new_tensor(y),
        time=state.time.new_tensor([one.time for one in answers]),
        noise=own.new_tensor([math.inf if one.y is None else v for one, v in zip(answers, told)]),
        reset=torch.tensor(resets, dtype=torch.bool),
    )


def short(point: Sequence[float]) -> str:
    """A point, to four digits."""
    return f"[{', '.join(f'{one:.4g}' for one in point)}]"
