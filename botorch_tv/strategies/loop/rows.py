"""Suggestions, answers, consultations and replies as readable data, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from botorch_tv.identity import Description
from botorch_tv.strategies.loop.consultations import Question, Reply
from botorch_tv.strategies.loop.log import Answer, Planned, Prediction

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
    """The suggestion that :func:`planned_data` has described."""
    predicted, arm = data["predicted"], data["arm"]
    return Planned(
        number=int(data["number"]),
        point=tuple(float(one) for one in data["point"]),
        arm=None if arm is None else int(arm),
        time=float(data["planned_for"]),
        known=int(data["known"]),
        prediction=None if predicted is None else Prediction(**predicted),
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
    noise = data["noise"]
    return Answer(
        planned=planned_from(data),
        y=_number(data["y"]),
        time=float(data["time"]),
        noise=_number(noise),
        arrival=int(data["arrival"]),
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
        number=int(data["number"]),
        points=tuple(tuple(float(one) for one in point) for point in data["points"]),
        arms=None if arms is None else tuple(int(one) for one in arms),
        time=float(data["time"]),
        known=int(data["known"]),
    )


def reply_data(reply: Reply) -> dict[str, Description]:
    """An expert's answers as data."""
    return {"y": list(reply.y)} | question_data(reply.question)


def reply_from(data: Row) -> Reply:
    """The answers that :func:`reply_data` has described."""
    return Reply(question=question_from(data), y=tuple(_number(one) for one in data["y"]))


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
