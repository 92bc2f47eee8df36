"""The record of a loop: what it knows, and how it is saved and loaded."""

from __future__ import annotations

import base64
import functools
import math
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Never, Self

import torch
from torch import Tensor

from botorch_tv.identity import Description, describe
from botorch_tv.strategies.box import Bounds
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.loop.clock import LoopClock, Time
from botorch_tv.strategies.loop.cures import Act, Cure, RefusedInput, Words
from botorch_tv.strategies.loop.domain import as_domain, domain_data
from botorch_tv.strategies.loop.file import LoopFile, refused
from botorch_tv.strategies.loop.input import check_names, in_order
from botorch_tv.strategies.loop.locking import LoopLock, locked
from botorch_tv.strategies.loop.log import Answer, Planned, Reply, Superseded, like
from botorch_tv.strategies.loop.replay import Replay, told_anew
from botorch_tv.strategies.loop.shown import (
    LastAnswer,
    NumberedSuggestion,
    SupersededMeasurement,
    Table,
    numbered,
    table,
)
from botorch_tv.strategies.loop.snapshot import (
    Snapshot,
    place_of_next,
    read_snapshot,
    write_snapshot,
)
from botorch_tv.strategies.loop.units import Units, parameters_of
from botorch_tv.strategies.loop.waiting import OpenConsultations, OpenSuggestions
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.spans import counted
from botorch_tv.strategies.state import State
from botorch_tv.validation import as_path, require, require_integer, shown


class Record:
    """A strategy with its data, open suggestions and random number generator."""

    def __init__(
        self,
        first: Strategy | Domain | Bounds | None = None,
        second: Domain | Bounds | None = None,
        /,
        *,
        strategy: Strategy | None = None,
        domain: Domain | Bounds | None = None,
        pending: int = 1,
        seed: int = 0,
        unit: str | None = None,
        maximize: bool | None = None,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
        **unknown: Never,
    ) -> None:
        check_names("Loop", unknown, Record)
        seed = _checked_seed(seed)
        given = in_order("Loop", (first, second), strategy=strategy, domain=domain)
        strategy, domain = _strategy_and_domain(given[0], given[1], maximize)
        self._lock = LoopLock()
        start = strategy.init(as_domain(domain), dtype=dtype, device=device)
        self._units = Units(parameters_of(start.domain), LoopClock(unit), dtype)
        self._strategy, self._for_fantasies = strategy, strategy.undisturbed()
        self._replay = Replay(strategy, start)
        self._open = OpenSuggestions(pending, self._units)
        self._consultations = OpenConsultations(self._units)
        self._superseded: list[Superseded] = []
        self._unsuggested = 0
        # On the CPU, so that a file can be resumed on any device.
        self._generator = torch.Generator().manual_seed(seed)

    @property
    @locked
    def history(self) -> Table:
        """All measurements, in order of time; ``points`` has named parameters in their units."""
        replay, usual = self._replay, self._strategy.usual_noise
        return table(replay.answers, replay.resets, self.state, usual, self._units)

    @property
    @locked
    def superseded(self) -> list[SupersededMeasurement]:
        """Measurements that no longer count, in the order in which they were amended or removed."""
        return [
            SupersededMeasurement(
                one.number,
                self._units.point(one.point[: self.domain.dim]),
                math.nan if one.y is None else one.y,
                self._units.clock.shown(one.time),
                one.became,
            )
            for one in self._superseded
        ]

    @property
    @locked
    def last(self) -> LastAnswer | None:
        """The answer taken in last, and whether it reset the strategy; None before the first."""
        pairs = zip(self._replay.answers, self._replay.resets)
        newest = max(pairs, key=lambda pair: pair[0].arrival, default=None)
        return None if newest is None else LastAnswer(newest[0].number, newest[1])

    @property
    @locked
    def open(self) -> list[NumberedSuggestion]:
        """Suggestions without an answer, oldest first."""
        return [numbered(one, self.state, self._units) for one in self._open.rows.values()]

    @property
    def pending(self) -> int:
        """Maximum number of open suggestions."""
        return self._open.most

    @pending.setter
    def pending(self, most: int) -> None:
        self._open.most = most

    @property
    def state(self) -> State:
        """The strategy's state after all answers, for use with the strategy's methods."""
        return self._replay.state

    @property
    def strategy(self) -> Strategy:
        """The strategy."""
        return self._strategy

    @property
    def domain(self) -> Domain:
        """The domain."""
        return self.state.domain

    def __repr__(self) -> str:
        count = len(self._replay.answers)
        newest = f", the newest at time {self._said(self.state.time)}" if count else ""
        waiting = f"; open: {self._open}" if len(self._open) else ""
        if len(self._consultations):
            waiting += f"; open consultations: {self._consultations}"
        many = counted(count, "measurements")
        return f"Loop on {self.domain!r} with {many}{newest}{waiting}"

    @locked
    def save(self, path: str | PathLike[str]) -> None:
        """Write the loop to a file, as readable JSON with a line per measurement.

        The file is replaced atomically, so that it stays intact if the power fails. It only
        describes the strategy, which must be passed again to :meth:`load`.

        Args:
            path: The file; an existing one is overwritten.

        Raises:
            OSError: If it cannot be written; an older file is then left as it was.
            ValueError: If the strategy or domain has parts that cannot be described.
        """
        path = as_path("Loop.save: path", path, "give the name of a file, 'loop.json'.")
        state, drawn = self._generator.get_state(), None
        if self._draws:
            drawn = base64.b64encode(bytes(state.tolist())).decode()
        LoopFile(
            strategy=self._description,
            domain=domain_data(self.domain),
            dtype=str(like(self.state).dtype).removeprefix("torch."),
            device=str(self.state.time.device),
            clock=self._units.clock.data,
            pending=self.pending,
            asked=self._open.asked,
            consulted=self._consultations.asked,
            generator=drawn,
            open=tuple(self._open.rows.values()),
            answers=tuple(self._replay.answers),
            consultations=tuple(self._consultations.rows.values()),
            replies=tuple(self._replay.replies),
            superseded=tuple(self._superseded),
        ).write(path)

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        strategy: Strategy | None = None,
        domain: Domain | Bounds | None = None,
        *,
        device: torch.device | str | None = None,
        snapshot: bool = False,
    ) -> Self:
        """Load a loop from a file; it continues as if it had never stopped.

        All answers are replayed, which takes as long as telling them did. The next choices and
        consultations are the same up to rounding, which depends on processor and threads. If rows
        of the file were changed, added or deleted by hand, a warning names them, and the loop
        continues from them.

        With ``snapshot`` the time does not grow with the number of answers: from time to time the
        state after most of them is written beside the file, some 10 to 100 MB, and loading resumes
        from it. A snapshot of other answers, another strategy or other versions is ignored, as is a
        damaged one.

        Args:
            path: The file.
            strategy: The strategy of the saved loop;
                :func:`~botorch_tv.strategies.adaptive_gp_ucb` by default.
            domain: Its domain. By default it is restored from the file, which works for a
                :class:`Grid`, and for a :class:`Box` with one of this package's searches.
            device: Where to compute; as before by default.
            snapshot: Whether to keep a snapshot beside the file; only for :func:`adaptive_gp_ucb`,
                whose answers take long to replay.

        Raises:
            ValueError: If the file is damaged or of another version, or was saved with another
                strategy or domain; every difference is named.
            OSError: If it cannot be read.
        """
        path = as_path("Loop.load: path", path, "give Loop.load(path, strategy).")
        require(
            strategy is None or isinstance(strategy, Strategy),
            f"Loop.load: strategy is {shown(strategy)}, but it must be a Strategy; give "
            "Loop.load(path, strategy), and domain= if need be.",
        )
        file = LoopFile.read(path)
        strategy = file.strategy_or(strategy, path)
        domain = None if domain is None else as_domain(domain)
        place = file.place(device, path)
        domain = file.domain_or(domain, place, path)
        file.check(domain, path)
        fix = "pass domain=, or give a copy of the file."
        with refused(f"{path}: the strategy cannot begin on its domain", fix):
            loop = cls(strategy, domain, pending=file.pending, dtype=file.kind, device=place)
        loop._restore(file, path, snapshot=snapshot)
        return loop

    def _restore(self, file: LoopFile, path: Path, *, snapshot: bool) -> None:
        """Restore everything from a file."""
        self._units.clock = LoopClock.of(file.clock)
        row: Answer | Reply
        fix = "Correct it in a copy of the file."
        replay, begun = self._replay, 0
        there = read_snapshot(path, file, self._strategy, replay.start) if snapshot else None
        if there is not None:
            begun = there.moment.told
            replay.begin(there.moment, file.answers[:begun], there.resets, there.notes)
        following = place_of_next(file, self._strategy, begun) if snapshot else None
        waiting: Sequence[Planned] = file.open
        anew = bool(file.stale) and self._strategy.compares
        if anew:
            with refused(f"{path} cannot be told anew", fix):
                self._replay, waiting = told_anew(
                    self._strategy,
                    replay.start,
                    file.answers,
                    file.open,
                    file.replies,
                    file.stale,
                    late=2 * self.pending - 1,
                )
        for row in file.answers[begun:] if not anew else ():
            with refused(f"{path} cannot be told anew: {row!r} is refused", fix):
                replay.add(row, late=2 * self.pending - 1)
            if len(replay.answers) == following:
                now = Snapshot(replay.newest, replay.resets, replay.notes)
                write_snapshot(path, file, now)
        for row in file.replies if not anew else ():
            with refused(f"{path} cannot be told anew: {row!r} is refused", fix):
                self._replay.absorb(row)
        always = bool(self._strategy.predicts(self._replay.start))
        for plan in waiting:
            require(
                plan.predicted is not None or not always,
                f"{path} is damaged: {plan.name} is open, but without prediction; give a copy.",
            )
            self._open.add(plan)
        for question in file.consultations:
            self._consultations.add(question)
        self._superseded = list(file.superseded)
        self._unsuggested = max([0, *(-one.number for one in (*file.answers, *file.superseded))])
        self._open.asked, self._consultations.asked = file.asked, file.consulted
        require(
            (file.generator is not None) == self._draws,
            f"{path} is damaged: its random numbers are "
            f"{'missing' if self._draws else 'there, but this strategy draws none'}; give a copy.",
        )
        if file.generator is not None:
            what = f"{path} is damaged: its random numbers are no state of a generator"
            with refused(what, "give a copy of it."):
                drawn = list(base64.b64decode(file.generator, validate=True))
                self._generator.set_state(torch.tensor(drawn, dtype=torch.uint8, device="cpu"))

    def _begun(self, first: object) -> LoopClock:
        """The clock, begun with the first time there is, unless the loop knows one already."""
        asked = self._open.asked + self._consultations.asked
        if not self._replay.answers and not asked and not self._superseded:
            if first is None:
                first = self._units.clock.now()
            self._units.clock = self._units.clock.begin(first)
        return self._units.clock

    def _number(self, name: Words, time: object) -> float:
        return self._begun(time).number(name, time, "give the time of the measurement.")

    def _present(self, now: Time | None) -> float | None:
        clock, newest = self._begun(now), float(self.state.time)
        if now is None:
            here = clock.now()
            return None if here is None else max(self._number(Cure(Act.NOW), here), newest)
        present = self._number(Cure(Act.NOW), now)
        if self._replay.answers and present < newest:
            raise RefusedInput(
                (Cure(Act.NOW), f" is {clock.said(present)}, but the newest measurement was made "),
                (f"at {clock.said(newest)}, and only its own time or a later one can be decided; "),
                ("leave ", Cure(Act.NOW), " away, or give that time. For old measurements there "),
                ("is ", Cure(Act.OBSERVE_AT), "."),
            )
        return present

    def _said(self, time: Tensor) -> str:
        """A time in words."""
        return self._units.clock.said(float(time))

    @property
    def _draws(self) -> bool:
        """Whether the strategy draws random numbers."""
        return self._strategy.draws or self._strategy.consults

    @functools.cached_property
    def _description(self) -> Description:
        """The strategy as a file has it; frozen as it is, once is enough."""
        return describe(self._strategy, "strategy")


def _checked_seed(seed: int) -> int:
    fix = "give a seed from 0 to 2**64 - 1."
    seed = require_integer("Loop: seed", seed, 0, fix)
    require(seed < 2**64, f"Loop: seed is {seed}, but generators take 64 bits; {fix}")
    return seed


def _strategy_and_domain(
    strategy: Strategy | None, domain: Domain | Bounds | None, maximize: bool | None
) -> tuple[Strategy, Domain | Bounds]:
    """The arguments of a loop, whose strategy may have been left out.

    Raises:
        ValueError: If they are incomplete, or contradict each other.
    """
    require(
        maximize is None or isinstance(maximize, bool),
        f"Loop: maximize is {shown(maximize)}, but it must be True or False; give False where "
        "the smallest value is wanted.",
    )
    require(
        strategy is not None or domain is not None,
        "Loop: no domain; give what can be set, as in Loop({'temperature': (20, 80)}).",
    )
    if strategy is None:
        strategy = adaptive_gp_ucb(maximize=maximize is not False)
    require(
        maximize is None or maximize == strategy.maximize,
        f"Loop: maximize is {maximize}, but the strategy has {strategy.maximize}; say it to "
        "the strategy alone.",
    )
    require(
        strategy.remakes_suggestions,
        f"Loop: {strategy!r} must be told which of its members made a suggestion, which a loop "
        "does not write down; use ask() and tell() of the strategy, or one of its members.",
    )
    if domain is None:
        raise ValueError("Loop: no domain; give Loop(strategy, Box(bounds)).")
    return strategy, domain
