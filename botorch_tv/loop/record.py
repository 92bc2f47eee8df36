"""What a loop stores: its measurements, open suggestions, consultations and corrections."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import Generator, Tensor

from botorch_tv.loop.clock import Units
from botorch_tv.loop.file import REBUILT, restored_log
from botorch_tv.loop.input import with_context
from botorch_tv.loop.log import (
    OPEN,
    Fixed,
    Measurement,
    MeasurementLog,
    Point,
    Present,
    Question,
    Values,
    like,
    oldest_for,
    recounted,
    replayed,
)
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.near import Moves
from botorch_tv.strategies.outcomes import Outcomes
from botorch_tv.strategies.state import Consultation, Suggestion
from botorch_tv.validation import noted, plain

RECENT = 50
"""Number of newest measurements that determine when an open suggestion is lost."""
SETTINGS = ("pending", "lost_after", "max_step", "move_cost")
"""The fields of a record that are arguments of :class:`Loop`."""
MOST_OPEN = 16
"""Maximum number of open consultations; older consultations are dropped to limit memory."""
Row = TypeVar("Row", Measurement, Question)


class Record(NamedTuple):
    """All that a loop stores, except its settings; immutable, so an error changes nothing.

    Attributes:
        log: The measurements, the expert's replies, and the states after some measurements.
        pending: Maximum number of open suggestions.
        lost_after: Number of later answers after which an open suggestion is lost; None for the
            default of :class:`Loop`.
        open: Suggestions without an answer, by number, oldest first.
        consultations: Consultations without an answer, by number, oldest first.
        superseded: Wrong readings, in the order in which they were amended or removed.
        max_step: The largest step of a suggestion from the newest setting; None for no limit.
        move_cost: The cost of a move from the newest setting; None for none.
        queue: Points that the loop suggests next, with their context.
        asked: Number of suggestions so far, which is the number of the newest suggestion.
        consulted: Number of consultations so far.
    """

    log: MeasurementLog
    pending: int
    lost_after: int | None
    max_step: Any = None
    move_cost: Any = None
    open: Mapping[int, Measurement] = {}
    consultations: Mapping[int, Question] = {}
    superseded: Sequence[Measurement] = ()
    queue: tuple[Point, ...] = ()
    asked: int = 0
    consulted: int = 0

    @property
    def begun(self) -> bool:
        """Whether there has been a row, even if it was removed or dropped."""
        return bool(self.log.answers or self.superseded or self.asked or self.consulted)

    @property
    def waiting(self) -> dict[int, Measurement]:
        """The open suggestions that are not lost."""
        count, most = len(self.log.answers), self.lost_after
        if most is None:
            recent = self.log.answers[-RECENT:]
            most = 2 * max([self.pending, *(row.arrival - row.known for row in recent)])
        return {number: row for number, row in self.open.items() if count - row.known <= most}

    @property
    def _oldest(self) -> int:
        """Maximum age, in answers, of the earlier states that the log retains."""
        return oldest_for(2 * self.pending - 1)

    def choice(
        self, now: Present, context: Tensor | None, fixed: Fixed, source: Generator
    ) -> Suggestion:
        """The strategy's next choice, as if all suggestions that are not lost had been answered.

        Args:
            now: The present time; one step after the newest measurement by default.
            context: The context, `c`.
            fixed: Values of held parameters.
            source: Source of random numbers.
        """
        log, strategy = self.log, self.log.strategy
        model = strategy.model if isinstance(strategy, Outcomes) else strategy
        retry = isinstance(model, Adaptive)
        waiting = [(row.planned_for, row.point) for row in self.waiting.values()]
        return log.choice(
            now, waiting, fixed, retry=retry, context=context, moves=self.moves, generator=source
        )

    @property
    def moves(self) -> Moves | None:
        """The limits and costs of moves from the newest suggestion or measurement, if any."""
        rows = [*self.log.answers, *self.open.values()]
        if not rows or self.max_step is self.move_cost is None:
            return None
        newest = max(rows, key=lambda row: (row.time, row.known, row.arrival == OPEN, row.number))
        return Moves(newest.point, self.max_step, self.move_cost)

    def asking(
        self, now: Present, context: Tensor | None, fixed: Fixed, units: Units, source: Generator
    ) -> Record:
        """The record with one more open suggestion: the next of the queue, or a choice.

        Args:
            now: As in :meth:`choice`.
            context: As in :meth:`choice`.
            fixed: As in :meth:`choice`; points of the queue that differ stay in the queue.
            units: The units to which the point is rounded.
            source: As in :meth:`choice`.
        """
        log, strategy, state = self.log, self.log.strategy, self.log.state
        fits = (p for p in self.queue if not fixed or units.moved(p, fixed, state)[0] == p)
        queue, queued = list(self.queue), next(fits, None)
        with noted(f"Loop: while choosing suggestion {self.asked + 1}."):
            if queued is None:
                made = self.choice(now, context, fixed, source)
            else:
                queue.remove(queued)
                X = with_context(like(state).new_tensor(queued), context)
                now = log.later(state) if now is None else now
                made = strategy.suggestion_at(state, X, now=now)
        if self.waiting:
            predicted = log.quiet.suggestion_at(state, made.X, now=made.time)
            made = made._replace(mean=predicted.mean, sd=predicted.sd, keeps=predicted.keeps)
        kept = () if made.keeps is None else [p for p in made.keeps.tolist() if p == p]
        predicts = bool(strategy.predicts(state))
        moments = (float(made.mean), float(made.sd), float(made.sqrt_beta)) if predicts else None
        number, time, known = self.asked + 1, float(made.time), len(log.answers)
        point, keeps = tuple(units.rounded(made.X).tolist()), math.prod(kept) if kept else None
        arm = None if made.index is None else int(made.index)
        row = Measurement(number, point, arm, time, time, known, moments, keeps=keeps)
        opened = {**self.open, number: row}
        return self._replace(open=opened, asked=number, queue=tuple(queue))

    def unsuggested(self, point: Point, arm: int | None, time: float) -> Measurement:
        """The row of a measurement that was not suggested, with the next of -1, -2, ..."""
        number = min([0, *(row.number for row in (*self.log.answers, *self.superseded))]) - 1
        return Measurement(number, point, arm, time, time, len(self.log.answers), None)

    def answered(self, row: Measurement, y: Values, time: float, noise: Values) -> Record:
        """The record with the answer to a suggestion, or a measurement that was not suggested.

        Raises:
            InputDataError: If the strategy refuses the answer.
        """
        arrival = len(self.log.answers)
        answer = replace(row, y=y, time=time, noise=noise, arrival=arrival)
        log = self.log.added(answer, self._oldest)
        return self.discarded(row.number)._replace(log=log)

    def discarded(self, number: int) -> Record:
        """The record without the open suggestion of this number, if there is one."""
        return self._replace(open={key: row for key, row in self.open.items() if key != number})

    def corrected(self, wrong: Measurement, right: Measurement | None) -> Record:
        """The record with an answer replaced or, if ``right`` is None, removed.

        Raises:
            InputDataError: If the strategy refuses an answer.
        """
        rows = (*self.log.answers, *self.open.values())
        stale = {row.number for row in rows if row.known > wrong.arrival}
        answers = [right if row is wrong else row for row in self.log.answers]
        others = self.open.values(), self.consultations.values(), self.log.replies
        changed = recounted(filter(None, answers), *others)
        became = replace(wrong, became="removed" if right is None else "amended")
        return self._replace(superseded=(*self.superseded, became))._rebuilt(changed, stale)

    def consulting(self, made: Consultation) -> Record:
        """The record with one more open consultation, which has at least one point."""
        choice, number = made.choice[made.mask], self.consulted + 1
        points = tuple(map(tuple, made.X[made.mask].tolist()))
        arms = None if choice.is_floating_point() else tuple(choice.tolist())
        row = Question(number, points, arms, float(made.time), known=len(self.log.answers))
        rows = [*self.consultations.items(), (number, row)][-MOST_OPEN:]
        return self._replace(consultations=dict(rows), consulted=number)

    def absorbed(self, reply: Question) -> Record:
        """The record with an expert's reply, which closes its consultation and all older ones."""
        rows = {number: row for number, row in self.consultations.items() if number > reply.number}
        return self._replace(log=self.log.absorbed(reply), consultations=rows)

    def with_points(self, log: MeasurementLog, moved: Mapping[Point, Point]) -> Record:
        """The record with another log, whose points are moved; without open suggestions.

        Args:
            log: The new log, without answers.
            moved: The new place of each point `d + c`.
        """
        answers, superseded = (
            [replace(row, point=moved[row.point]) for row in rows]
            for rows in (self.log.answers, self.superseded)
        )
        empty = self._replace(log=log, open={}, queue=(), superseded=superseded)
        return empty._rebuilt((answers, (), (), ()), ())

    def restored(self, content: Mapping[str, Any], stale: set[int], path: Path | None) -> Record:
        """The record that a file describes, except its queue.

        Args:
            content: The content of the file.
            stale: As for :func:`~botorch_tv.loop.log.replayed`.
            path: The file, to use and store a snapshot beside it; None for no snapshot.
        """
        rows, log = [content[name] for name in REBUILT], self.log
        if path is not None and log.strategy.restorable and not content["replies"]:
            log = restored_log(path, content, log, self._oldest)
        settled = {name: content[name] for name in ("superseded", "asked", "consulted")}
        return self._replace(log=log, **settled)._rebuilt(rows, stale)

    def _rebuilt(self, rows: Sequence[Any], stale: Collection[int]) -> Record:
        """The record with other answers, open suggestions, consultations and replies.

        Args:
            rows: These four, each in a list.
            stale: As for :func:`~botorch_tv.loop.log.replayed`.
        """
        log, (answers, waiting, consultations, replies) = self.log, rows
        if stale and (replies or log.strategy.compares):
            log, waiting = replayed(log, (answers, waiting, replies), stale, self._oldest)
        else:
            log = log.changed(answers, self._oldest, replies)
        others, opened = ({row.number: row for row in own} for own in (consultations, waiting))
        return self._replace(log=log, open=opened, consultations=others)


def identified(rows: Mapping[int, Row], given: object, place: str) -> Row | None:
    """The row that a number, or an object with a number and a row, identifies; None if no row does.

    Args:
        rows: The open suggestions or consultations, by number.
        given: The number, or the suggestion or consultation. Its place must be that of the row,
            because a suggestion of another loop may have the same number.
        place: The attribute of a row that contains its place.
    """
    number = plain(getattr(given, "number", given))
    row = rows.get(number) if type(number) is int else None
    same = row is None or getattr(getattr(given, "row", row), place) == getattr(row, place)
    return row if same else None
