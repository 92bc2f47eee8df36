"""Suggestions, answers, consultations and replies as readable data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botorch_tv.identity import Description
from botorch_tv.strategies.loop.consultations import Question, Reply
from botorch_tv.strategies.loop.log import Answer, Planned, Prediction
from botorch_tv.strategies.loop.sound import finite, rows, whole

Row = Mapping[str, Any]


def planned_data(plan: Planned) -> dict[str, Description]:
    """A suggestion as data."""
    predicted = None if plan.prediction is None else plan.prediction._asdict()
    return {
        "number": plan.number,
        "point": list(plan.point),
        "arm": plan.arm,
        "planned_for": plan.time,
        "known": plan.known,
        "predicted": predicted,
    }


def planned_from(data: Row) -> Planned:
    """The suggestion that :func:`planned_data` has described.

    Raises:
        KeyError, TypeError, ValueError: If the data are damaged.
    """
    predicted, arm = data["predicted"], data["arm"]
    return Planned(
        number=whole(data["number"], "number"),
        point=_point(data["point"]),
        arm=None if arm is None else whole(arm, "arm"),
        time=finite(data["planned_for"], "planned_for"),
        known=whole(data["known"], "known"),
        prediction=None if predicted is None else _prediction(predicted),
    )


def answer_data(answer: Answer) -> dict[str, Description]:
    """A measurement as data."""
    measured = {
        "y": answer.y,
        "time": answer.time,
        "noise": answer.noise,
        "arrival": answer.arrival,
    }
    return measured | planned_data(answer.planned)


def answer_from(data: Row) -> Answer:
    """The measurement that :func:`answer_data` has described."""
    noise = _number(data["noise"], "noise")
    if noise is not None and noise <= 0:
        raise ValueError(f"noise is {noise:g}, which is not positive")
    return Answer(
        planned=planned_from(data),
        y=_number(data["y"], "y"),
        time=finite(data["time"], "time"),
        noise=noise,
        arrival=whole(data["arrival"], "arrival"),
    )


def question_data(question: Question) -> dict[str, Description]:
    """A consultation as data."""
    return {
        "number": question.number,
        "time": question.time,
        "known": question.known,
        "points": [list(point) for point in question.points],
        "arms": None if question.arms is None else list(question.arms),
    }


def question_from(data: Row) -> Question:
    """The consultation that :func:`question_data` has described."""
    arms = data["arms"]
    return Question(
        number=whole(data["number"], "number", 1),
        points=tuple(_point(point) for point in rows(data["points"], "points")),
        arms=None if arms is None else tuple(whole(one, "arm") for one in rows(arms, "arms")),
        time=finite(data["time"], "time"),
        known=whole(data["known"], "known"),
    )


def reply_data(reply: Reply) -> dict[str, Description]:
    """An expert's answers as data."""
    return {"y": list(reply.y)} | question_data(reply.question)


def reply_from(data: Row) -> Reply:
    """The answers that :func:`reply_data` has described."""
    answers = tuple(_number(one, "y") for one in rows(data["y"], "y"))
    return Reply(question=question_from(data), y=answers)


def _point(value: Any) -> tuple[float, ...]:
    return tuple(finite(one, "a coordinate") for one in rows(value, "a point"))


def _prediction(data: Row) -> Prediction:
    return Prediction(**{name: finite(data[name], name) for name in Prediction._fields})


def _number(value: Any, name: str) -> float | None:
    return None if value is None else finite(value, name)
