"""A loop with a memory of its own, for people who run a machine overnight."""

from __future__ import annotations

import functools
from os import PathLike
from pathlib import Path

import torch
from botorch.exceptions import InputDataError
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from botorch_tv.identity import Description, describe
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.loop_domain import domain_data
from botorch_tv.strategies.loop_file import LoopFile
from botorch_tv.strategies.loop_input import (
    Numbers,
    as_known,
    as_number,
    as_point,
    as_points,
    measurements,
)
from botorch_tv.strategies.loop_log import (
    Answer,
    NumberedSuggestion,
    Planned,
    Table,
    numbered,
    planned,
    table,
    unpredicted,
)
from botorch_tv.strategies.loop_open import OpenSuggestions
from botorch_tv.strategies.loop_replay import Replay, credulous, pretended
from botorch_tv.strategies.state import State
from botorch_tv.validation import require


class Loop:
    """A strategy at work: it asks where to measure, is told what came out, and remembers.

    The same choices as ``strategy.ask`` and ``strategy.tell`` make by hand, for one trial. Besides,
    several suggestions may be open at once; answers come in any order, late, or never; and
    everything is saved in a file from which the loop goes on as if never stopped.

    **Several at once.** While suggestions are open, the next is chosen as if each of them had been
    answered with the mean predicted for it (GP-BUCB, Desautels et al., 2014), so that it goes
    somewhere else. What a suggestion itself predicts rests on real answers alone.

    **Late answers.** An answer that was measured before the newest one known is taken in at its
    place: what came after it is told anew. That is cheap for the last 2 ``pending`` answers, and
    takes as long as telling everything for one that is older.

    **Triggers.** An event trigger compares an answer with the prediction its suggestion was made
    with, or, where nobody suggested it, with the one made when it came in. Told anew, it is
    compared with the same prediction; only rounds since the last reset are counted anew. If an
    answer that came after the suggestion has fired the trigger, the prediction is of a model that
    is forgotten, and one from what is left takes its place: otherwise every suggestion open at a
    change would fire again, and forget the first measurements made after it.

    Args:
        strategy: Any but those that consult an expert.
        domain: Where to choose.
        pending: Most suggestions open at once; may be changed later.
        seed: For strategies that draw random numbers.
        dtype: Of all that is computed, float64 or float32.
        device: Where it is computed; the domain's unless given.

    Raises:
        ValueError: If ``pending`` is below 1, or the strategy consults an expert or does not fit
            the domain.
        InputDataError: As :meth:`Strategy.init`.

    Example:
        >>> loop = Loop(strategy, Box(bounds))
        >>> for _ in range(100):
        ...     suggestion = loop.ask()
        ...     loop.tell(measure(suggestion.point))
        ...     loop.save("loop.json")
        >>> loop.recommend()
        >>> loop = Loop.load("loop.json", strategy)  # after a power failure
        >>> suggestion = loop.open[0] if loop.open else loop.ask()
    """

    def __init__(
        self,
        strategy: Strategy,
        domain: Domain,
        *,
        pending: int = 1,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        require(
            type(strategy).consult is Strategy.consult,
            f"Loop: {type(strategy).__name__} consults an expert, but a loop cannot pass on the "
            "answers; use the strategy's own ask, tell, consult and absorb.",
        )
        start = strategy.init(domain, dtype=dtype, device=device)
        self._strategy, self._credulous = strategy, credulous(strategy)
        self._replay = Replay(strategy, start)
        self._open = OpenSuggestions(pending)
        self._generator = torch.Generator(start.time.device).manual_seed(seed)

    @classmethod
    def from_table(
        cls,
        strategy: Strategy,
        domain: Domain,
        X: Numbers,
        y: Numbers,
        *,
        time: Numbers | None = None,
        noise: Numbers | None = None,
        context: Numbers | None = None,
        pending: int = 1,
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> Loop:
        """A loop that begins with what has been measured before.

        Args:
            strategy: As for the class.
            domain: As for the class.
            X: Where was measured, `n x d`.
            y: What came out, `n`.
            time: When, `n`, in any order; 1, 2, ..., n unless given.
            noise: Variance of each measurement, `n`; the strategy's unless given.
            context: What was known beforehand, `n x c`, for a domain with a context.
            pending: As for the class.
            seed: As for the class.
            dtype: As for the class.
            device: As for the class.

        Raises:
            InputDataError: If the columns do not fit each other or the domain, or a value is not
                finite; rows without a measurement are to be left out.
        """
        loop = cls(strategy, domain, pending=pending, seed=seed, dtype=dtype, device=device)
        for point, value, when, variance, known in measurements(
            loop.state, X, y, time=time, noise=noise, context=context
        ):
            loop.observe(point, value, time=when, noise=variance, context=known)
        return loop

    # ---------------------------------------------------------------- asking and telling

    def ask(
        self, *, now: float | None = None, context: Numbers | None = None
    ) -> NumberedSuggestion:
        """Choose where to measure next.

        Args:
            now: Time of the measurement; one more than the newest time told or asked for, unless
                given. It may not lie before the newest measurement.
            context: What is known before this round and not chosen, `c` numbers, on a box with
                ``context_dim`` c.

        Returns:
            The suggestion, open until :meth:`tell` or :meth:`discard`.

        Raises:
            InputDataError: If ``pending`` suggestions are open, ``now`` lies before the newest
                measurement, or the context does not fit. The loop is not changed.
        """
        self._open.require_room()
        present = self._present(now)
        known = as_known(self.state, context)
        state = self.state
        strategy, waiting = self._strategy, list(self._open.plans.values())
        if waiting:
            state = pretended(self._credulous, state, waiting, present)
        choice = strategy.ask(state, now=present, context=known, generator=self._generator)
        if waiting:
            honest = strategy.suggestion_at(self.state, choice.X, now=choice.time)
            choice = choice._replace(mean=honest.mean, sd=honest.sd)
        plan = planned(choice, self._open.asked + 1, len(self._replay.answers))
        self._open.add(plan)
        return numbered(plan, state)

    def tell(
        self,
        y: float | Tensor | None = None,
        *,
        suggestion: int | NumberedSuggestion | None = None,
        time: float | None = None,
        noise: float | None = None,
        ok: bool = True,
    ) -> bool:
        """Take in the answer to a suggestion.

        Args:
            y: What came out; not looked at where ``ok`` is False.
            suggestion: Which suggestion it answers, or its number; the only open one unless given.
            time: When it was really measured; the suggestion's time unless given. It may lie before
                that of other answers.
            noise: Variance of this measurement; the strategy's unless given.
            ok: False where the measurement failed: the round counts, but nothing is learned.

        Returns:
            Whether the answer made the strategy forget everything before it.

        Raises:
            InputDataError: If the suggestion is not open, or ``y``, ``time`` or ``noise`` is no
                finite number. The loop is not changed.
        """
        plan = self._open.find(suggestion, self._replay.answers)
        value = as_number("y", y, "tell(ok=False) says that a measurement failed.") if ok else None
        reset = self._take(plan, value, plan.time if time is None else time, noise)
        del self._open.plans[plan.number]
        return reset

    def observe(
        self,
        X: Numbers,
        y: float | Tensor,
        *,
        time: float | None = None,
        noise: float | None = None,
        context: Numbers | None = None,
    ) -> bool:
        """Take in a measurement that nobody suggested.

        Args:
            X: Where, `d` numbers.
            y: What came out.
            time: When; one more than the newest time told unless given. It may lie before that.
            noise: Variance of this measurement; the strategy's unless given.
            context: What was known beforehand, `c` numbers.

        Returns:
            Whether it made the strategy forget everything before it.

        Raises:
            InputDataError: If the point lies outside the domain or a number is not finite. The loop
                is not changed.
        """
        point = self._columns(as_point("X", X, self.domain.dim, self.state), context)
        value = as_number("y", y, "leave out measurements that failed.")
        if time is None:
            when = float(self.state.time) + 1
        else:
            when = as_number("time", time, "give the time of the measurement.")
        known = len(self._replay.answers)
        if self._strategy.retention.uses_data:
            state = self._replay.before(when)
            plan = planned(self._strategy.suggestion_at(state, point, now=when), 0, known)
        else:
            plan = unpredicted(self.state, point, when, known)
        return self._take(plan, value, when, noise)

    def discard(self, suggestion: int | NumberedSuggestion | None = None) -> None:
        """Give up a suggestion whose answer will never come.

        Args:
            suggestion: It or its number; the only open one unless given.

        Raises:
            InputDataError: If it is not open.
        """
        plan = self._open.find(suggestion, self._replay.answers)
        del self._open.plans[plan.number]

    # ---------------------------------------------------------------- looking

    def recommend(self, *, now: float | None = None, context: Numbers | None = None) -> Tensor:
        """The point whose predicted mean is best, `d`; arguments as in :meth:`ask`."""
        best = self._strategy.recommend(
            self.state, now=self._present(now), context=as_known(self.state, context)
        )
        return best[: self.domain.dim]

    def posterior(
        self, X: Numbers, *, now: float | None = None, context: Numbers | None = None
    ) -> GPyTorchPosterior:
        """What real answers say about the objective at some points, without observation noise.

        Args:
            X: `q x d`.
            now: As in :meth:`ask`.
            context: The same for all points, `c`.

        Returns:
            A joint posterior over the q points.
        """
        points = as_points("X", X, self.domain.dim, self.state)
        points = self._columns(points, context)
        return self._strategy.posterior(self.state, points, now=self._present(now))

    @property
    def history(self) -> Table:
        """Everything measured, in order of time."""
        replay = self._replay
        return table(replay.answers, replay.resets, self.state, self._strategy.noise)

    @property
    def open(self) -> list[NumberedSuggestion]:
        """Suggestions without an answer, oldest first."""
        return [numbered(one, self.state) for one in self._open.plans.values()]

    @property
    def pending(self) -> int:
        """Most suggestions open at once."""
        return self._open.most

    @pending.setter
    def pending(self, most: int) -> None:
        self._open.most = most

    @property
    def state(self) -> State:
        """The strategy's state after all answers, for its own methods."""
        return self._replay.state

    @property
    def strategy(self) -> Strategy:
        """The strategy."""
        return self._strategy

    @property
    def domain(self) -> Domain:
        """Where it chooses."""
        return self.state.domain

    def __repr__(self) -> str:
        count = len(self._replay.answers)
        newest = f", the newest at time {float(self.state.time):g}" if count else ""
        waiting = f"; open: {self._open}" if len(self._open) else ""
        plural = "" if count == 1 else "s"
        return f"Loop on {self.domain!r} with {count} measurement{plural}{newest}{waiting}"

    # ---------------------------------------------------------------- keeping

    def save(self, path: str | PathLike[str]) -> None:
        """Write everything to a file, as readable JSON with a line per measurement.

        The file is replaced in one step, so that it is whole whenever the power fails. The strategy
        is only described in it, and given again to :meth:`load`.

        Args:
            path: The file; one that is there is overwritten.

        Raises:
            OSError: If it cannot be written; an older file is then as it was.
            ValueError: If the strategy or domain has parts that cannot be described.
        """
        random = self._strategy.exploration.random
        LoopFile(
            strategy=self._description,
            domain=domain_data(self.domain),
            dtype=self.state.basis.variance.dtype,
            device=str(self.state.time.device),
            pending=self.pending,
            asked=self._open.asked,
            generator=bytes(self._generator.get_state().tolist()) if random else None,
            waiting=list(self._open.plans.values()),
            answers=self._replay.answers,
        ).write(Path(path))

    @classmethod
    def load(
        cls,
        path: str | PathLike[str],
        strategy: Strategy,
        domain: Domain | None = None,
        *,
        device: torch.device | str | None = None,
    ) -> Loop:
        """The loop of a file, which goes on as if never stopped.

        Every answer is told anew, so that this takes as long as telling them did. The next choices
        are the same bit for bit where device and number of threads are.

        Args:
            path: The file.
            strategy: The strategy of the loop that was saved.
            domain: Its domain; made from the file unless given, which works for a :class:`Grid`,
                and for a :class:`Box` with one of the searches of this package.
            device: Where to compute; as before unless given.

        Raises:
            ValueError: If the file is damaged or of another version, or was saved with another
                strategy or domain, naming every difference.
            OSError: If it cannot be read.
        """
        path = Path(path)
        file = LoopFile.read(path)
        file.require_strategy(strategy, path)
        place = torch.device(file.device if device is None else device)
        domain = file.domain_or(domain, place, path)
        loop = cls(strategy, domain, pending=file.pending, dtype=file.dtype, device=place)
        for answer in file.answers:
            loop._replay.add(answer, keep=2 * loop.pending)
        for plan in file.waiting:
            loop._open.add(plan)
        loop._open.asked = file.asked
        if file.generator is not None:
            require(
                place.type == torch.device(file.device).type,
                f"{path} holds random numbers of {file.device}, which do not go on on {place}; "
                f"load it with device='{file.device}'.",
            )
            loop._generator.set_state(torch.tensor(list(file.generator), dtype=torch.uint8))
        return loop

    # ---------------------------------------------------------------- within

    @functools.cached_property
    def _description(self) -> Description:
        """The strategy as a file has it; frozen as it is, once is enough."""
        return describe(self._strategy, "strategy")

    def _take(self, plan: Planned, y: float | None, time: float, noise: float | None) -> bool:
        fix = "give the time of the measurement."
        variance = "give the variance of this measurement."
        answer = Answer(
            planned=plan,
            y=y,
            time=as_number("time", time, fix),
            noise=None if noise is None else as_number("noise", noise, variance),
            arrival=len(self._replay.answers),
        )
        return self._replay.add(answer, keep=2 * self.pending)

    def _present(self, now: float | None) -> float | None:
        if now is None:
            return None
        present = as_number("now", now, "give the time of the measurement.")
        if self._replay.answers and present < float(self.state.time):
            raise InputDataError(
                f"now is {present:g}, but the newest measurement was made at "
                f"{float(self.state.time):g}, and only its own time or a later one can be decided; "
                "leave now away, or give that time. For old measurements there is observe(X, y, "
                "time=...)."
            )
        return present

    def _columns(self, X: Tensor, context: Numbers | None) -> Tensor:
        """Points `* x d` with the context behind, `* x (d + c)`."""
        known = as_known(self.state, context)
        return X if known is None else torch.cat([X, known.expand(*X.shape[:-1], -1)], -1)
