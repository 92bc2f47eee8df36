"""Write an answer into the file of a loop, without telling the strategy all others again."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from pathlib import Path

from botorch.exceptions import InputDataError

from botorch_tv.strategies.loop.clock import LoopClock, Time
from botorch_tv.strategies.loop.cures import Act, Cure
from botorch_tv.strategies.loop.file import LoopFile
from botorch_tv.strategies.loop.input import SAYS_FAILED, as_number
from botorch_tv.strategies.loop.log import Answer, extended
from botorch_tv.strategies.loop.units import Units, parameters_of
from botorch_tv.strategies.loop.waiting import OpenSuggestions
from botorch_tv.validation import largest, latest


def answer_in_file(
    path: Path,
    y: float | None,
    *,
    suggestion: int | None = None,
    time: Time | None = None,
) -> None:
    """Do what ``Loop.load``, ``tell`` and ``save`` do, in the time that reading the file takes.

    A loop that is loaded tells its strategy every answer again. Adding one does not need that under
    :func:`~botorch_tv.strategies.adaptive_gp_ucb`, the only strategy served here: it compares no
    answer with a prediction, and no rule of retention drops any.

    Args:
        path: The file.
        y: The value measured; None if the measurement failed.
        suggestion: Number of the suggestion answered; by default the only open one.
        time: When it was measured; by default the suggestion's time.

    Raises:
        InputDataError: If the suggestion is not open, or a number is out of range.
        ValueError: If the file is damaged, or of another strategy.
        OSError: If the file cannot be read or written. In all cases it stays as it was.
    """
    file = LoopFile.read(path)
    file.strategy_or(None, path)  # which refuses any other
    domain = file.domain_or(None, file.place("cpu", path), path)
    file.check(domain, path)
    units = Units(parameters_of(domain), LoopClock.of(file.clock), file.kind)
    waiting = OpenSuggestions(file.pending, units)
    for plan in file.open:
        waiting.add(plan)
    waiting.asked = file.asked
    plan = (
        waiting.only()
        if suggestion is None
        else waiting.find(suggestion, [*file.answers, *file.superseded])
    )
    if y is not None:
        y = as_number("y", y, SAYS_FAILED)
        _require_at_most("y", y, largest(file.kind), "choose another unit.")
    when = plan.planned_for
    if time is not None:
        when = units.clock.number(Cure(Act.TIME), time, "give the time of the measurement.")
        _require_at_most("time", when, latest(file.kind), "count from an origin of your own.")
    answers = list(file.answers)
    arrived = len(answers)
    answer = extended(Answer, plan, y=y, time=when, noise=None, arrival=arrived)
    answers.insert(bisect_right(answers, when, key=lambda one: one.time), answer)
    left = tuple(one for one in file.open if one.number != plan.number)
    replace(file, open=left, answers=tuple(answers)).write(path)


def _require_at_most(name: str, value: float, most: float, fix: str) -> None:
    if abs(value) > most:
        raise InputDataError(f"{name} is {value:g}, but in size at most {most:g}; {fix}")
