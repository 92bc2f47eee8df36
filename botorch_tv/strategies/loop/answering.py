"""An answer written into the file of a loop, without telling all others anew."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from pathlib import Path

from botorch.exceptions import InputDataError

from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.loop.clock import LoopClock, Time
from botorch_tv.strategies.loop.cures import Act, Cure
from botorch_tv.strategies.loop.file import LoopFile
from botorch_tv.strategies.loop.input import SAYS_FAILED, as_number
from botorch_tv.strategies.loop.log import Answer, extended
from botorch_tv.strategies.loop.units import Units, parameters_of
from botorch_tv.strategies.loop.waiting import OpenSuggestions
from botorch_tv.validation import largest, latest, require


def answer_in_file(
    path: Path,
    y: float | None,
    *,
    strategy: Strategy | None = None,
    suggestion: int | None = None,
    time: Time | None = None,
) -> None:
    """What ``Loop.load``, ``tell`` and ``save`` make of a file, in the time that reading it takes.

    A loop that is loaded tells every answer anew, which whoever only adds one can do without, if
    nothing is compared with predictions and nothing forgotten by rules.

    Args:
        path: The file.
        y: What came out; None where the measurement failed.
        strategy: Of the loop; :func:`~botorch_tv.strategies.adaptive_gp_ucb` unless given.
        suggestion: The number of what it answers; the only open one unless given.
        time: When it was really measured; the suggestion's time unless given.

    Raises:
        InputDataError: If the suggestion is not open, or a number out of range.
        ValueError: If the file is damaged or another strategy's, or this one compares.
        OSError: If the file cannot be read or written. In all cases it is as it was.
    """
    require(
        strategy is None or (not strategy.compares and not strategy.process.retention),
        f"{strategy!r} forgets by rules, for which all answers are needed; use Loop.load.",
    )
    file = LoopFile.read(path)
    file.strategy_or(strategy, path)
    domain = file.domain_or(None, file.place("cpu", path), path)
    file.check(domain, path)
    units = Units(parameters_of(domain), LoopClock.of(file.clock), file.kind)
    waiting = OpenSuggestions(file.pending, units)
    for plan in file.open:
        waiting.add(plan)
    waiting.asked = file.asked
    plan = waiting.only() if suggestion is None else waiting.find(suggestion, file.answers)
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
