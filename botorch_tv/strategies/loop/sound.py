"""What the rows of a loop's file must be to be gone on with."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch

from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.loop.consultations import Question, Reply
from botorch_tv.strategies.loop.log import Answer, Planned
from botorch_tv.validation import require

LARGEST = 2**62
"""Counters beyond are damage."""


def whole(value: object, name: str, least: int = 0) -> int:
    """A whole number, of JSON.

    Raises:
        ValueError: If it is none, below ``least`` or absurdly large.
    """
    if type(value) is not int or not least <= value < LARGEST:
        raise ValueError(f"{name} is {_short(value)}, which is no whole number from {least} on")
    return value


def finite(value: object, name: str) -> float:
    """A finite number, of JSON.

    Raises:
        ValueError: If it is none.
    """
    plain = type(value) is float or (type(value) is int and abs(value) < LARGEST)
    if not plain or not math.isfinite(value):  # type: ignore[arg-type]
        raise ValueError(f"{name} is {_short(value)}, which is no finite number")
    return float(value)  # type: ignore[arg-type]


def rows(value: object, name: str) -> list[Any]:
    """A list, of JSON.

    Raises:
        ValueError: If it is none.
    """
    if not isinstance(value, list):
        raise ValueError(f"{name} is {_short(value)}, which is no list")
    return value


def check_rows(
    answers: Sequence[Answer],
    waiting: Sequence[Planned],
    asked: int,
    *,
    domain: Domain,
    dtype: torch.dtype,
) -> None:
    """Raise unless these are the answers and open suggestions of one loop.

    Raises:
        ValueError: If a point is none of the domain, or numbers contradict each other.
        InputDataError: If a point lies outside the domain.
    """
    n = len(answers)
    plans = [one.planned for one in answers] + list(waiting)
    for plan in plans:
        _check_points(
            [plan.point], None if plan.arm is None else [plan.arm], domain, dtype, _named(plan)
        )
        require(
            plan.known <= n,
            f"{_named(plan)} was made when {plan.known} answers were known, but there are {n}",
        )
        predicted = plan.prediction
        require(
            predicted is None or predicted.sd >= 0, f"{_named(plan)} has a negative deviation, sd"
        )
    _check_numbers([one.number for one in plans if one.number], asked, "suggestion")
    for plan in waiting:
        require(
            plan.number > 0 and plan.prediction is not None,
            f"{_named(plan)} is open, but without number or prediction",
        )
    require(
        sorted(one.arrival for one in answers) == list(range(n)),
        f"the arrivals of {n} answers are not 0 to {n - 1}, each once",
    )
    times = [one.time for one in answers]
    require(times == sorted(times), "the answers are not in order of time")


def check_consultations(
    replies: Sequence[Reply],
    questions: Sequence[Question],
    consulted: int,
    *,
    answers: int,
    domain: Domain,
    dtype: torch.dtype,
) -> None:
    """Raise unless these are the consultations of one loop.

    Raises:
        ValueError: If a point is none of the domain, or numbers contradict each other.
        InputDataError: If a point lies outside the domain.
    """
    made = [*(one.question for one in replies), *questions]
    for one in made:
        name = f"consultation {one.number}"
        require(len(one.points) > 0, f"{name} asks about no point")
        _check_points(one.points, one.arms, domain, dtype, name)
        require(one.known <= answers, f"{name} rests on {one.known} answers of {answers}")
    numbers = [one.number for one in made]
    require(numbers == sorted(numbers), "the consultations are not in order")
    _check_numbers(numbers, consulted, "consultation")
    for reply in replies:
        require(
            len(reply.y) == len(reply.question.points),
            f"consultation {reply.question.number} has {len(reply.y)} answers for "
            f"{len(reply.question.points)} points",
        )


def _check_points(
    points: Sequence[Sequence[float]],
    arms: Sequence[int] | None,
    domain: Domain,
    dtype: torch.dtype,
    name: str,
) -> None:
    for point in points:
        require(
            len(point) == domain.columns,
            f"{name} has a point of {len(point)} coordinates, but {domain!r} has {domain.columns}",
        )
    X = torch.tensor(points, dtype=dtype, device=domain.device)
    domain.locate(X)
    if not isinstance(domain, Grid):
        require(arms is None, f"{name} names an arm, but {domain!r} has none")
        return
    require(
        arms is not None and len(arms) == len(points) and all(one < len(domain) for one in arms),
        f"{name} has arms {arms}, but {domain!r} needs one for each point",
    )
    there = domain.X.to(X)[torch.tensor(arms, dtype=torch.int64, device=X.device)]
    require(torch.equal(there, X), f"{name} is at {points[0]}, which is not arm {arms}")


def _check_numbers(numbers: Iterable[int], most: int, what: str) -> None:
    seen: set[int] = set()
    for number in numbers:
        require(number not in seen, f"{what} {number} is there twice")
        require(1 <= number <= most, f"{what} {number} is there, but {most} were made")
        seen.add(number)


def _named(plan: Planned) -> str:
    return f"suggestion {plan.number}" if plan.number else f"the measurement at {plan.time:g}"


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, (list, dict)) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
