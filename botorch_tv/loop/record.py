"""The record of a loop: its measurements, how it is saved and loaded, and how it is inspected."""

from __future__ import annotations

import base64
import functools
import math
import warnings
from collections.abc import Callable, Sequence
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

import torch
from botorch.exceptions import InputDataError
from botorch.posteriors import GPyTorchPosterior
from torch import Tensor

from botorch_tv.forgetting import Decay, Inflation
from botorch_tv.forgetting.base import is_static
from botorch_tv.gp.box import BoxPrior
from botorch_tv.identity import Description, describe
from botorch_tv.loop.clock import LoopClock, Time, Units, parameters_of, point_in_words
from botorch_tv.loop.file import COPY, LoopFile, as_domain, domain_data, refused
from botorch_tv.loop.input import Numbers, Points, as_known, as_places, in_order
from botorch_tv.loop.log import (
    MeasurementLog,
    Planned,
    Question,
    Superseded,
    like,
    oldest_for,
    replayed,
)
from botorch_tv.loop.snapshot import EVERY, LATE, read_snapshot, served, write_snapshot
from botorch_tv.loop.table import (
    LastAnswer,
    NumberedSuggestion,
    SupersededMeasurement,
    Table,
    data_frame,
    listed,
    numbered,
    table,
)
from botorch_tv.strategies.box import Bounds, Parameters
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.outcomes import Success, recommended
from botorch_tv.strategies.presets import adaptive_gp_ucb
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import as_path, counted, require, require_integer, shown, span_in_words

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LEFT = 0.5
"""Share of the prior variance above which no measurement supports a point."""
UNSUPPORTED = (
    "No measurement supports this point: most of the uncertainty before any data is left there. "
    "Measure it before you rely on it."
)
FAILS = "Every point is likelier to fail than to succeed."
Given = ParamSpec("Given")
Result = TypeVar("Result")


class LoopLock:
    """A reentrant lock, which lets threads share a loop; copies and pickles of it are unlocked."""

    def __init__(self) -> None:
        self.lock = RLock()

    def __reduce__(self) -> tuple[type[LoopLock], tuple[()]]:
        return LoopLock, ()


def locked(method: Callable[Given, Result]) -> Callable[Given, Result]:
    """A method of a loop that holds its lock while it runs."""

    @functools.wraps(method)
    def wrapped(*args: Given.args, **named: Given.kwargs) -> Result:
        loop: Any = args[0]
        with loop._lock.lock:
            return method(*args, **named)

    return wrapped


class Record:
    """A strategy with its measurements, open suggestions and random number generator."""

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
    ) -> None:
        fix = "give a seed from 0 to 2**64 - 1."
        seed = require_integer("Loop: seed", seed, 0, fix)
        require(seed < 2**64, f"Loop: seed is {seed}, but generators take 64 bits; {fix}")
        given = in_order("Loop", (first, second), strategy=strategy, domain=domain)
        strategy, domain = given
        require(
            maximize is None or isinstance(maximize, bool),
            f"Loop: maximize is {shown(maximize)}, but it must be True or False.",
        )
        if domain is None:
            raise ValueError(
                "Loop: no domain; give the ranges, as in Loop({'temperature': (20, 80)})."
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
        self._lock = LoopLock()
        start = strategy.init(as_domain(domain), dtype=dtype, device=device)
        self._units = Units(parameters_of(start.domain), LoopClock(unit), dtype)
        self._strategy = strategy
        self._log = MeasurementLog.begin(strategy, start)
        self.pending = pending
        self._open: dict[int, Planned] = {}
        self._asked = self._consulted = self._unsuggested = 0
        self._consultations: dict[int, Question] = {}
        self._superseded: list[Superseded] = []
        # On the CPU, so that a file can be resumed on any device.
        self._generator = torch.Generator().manual_seed(seed)

    @property
    @locked
    def history(self) -> Table:
        """All measurements, in order of time; ``points`` has named parameters in their units."""
        log, usual = self._log, self._strategy.usual_noise
        return table(log.answers, log.resets, self.state, usual, self._units)

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
        """The newest answer to arrive, and whether it reset the strategy; None before the first."""
        pairs = zip(self._log.answers, self._log.resets)
        newest = max(pairs, key=lambda pair: pair[0].arrival, default=None)
        return None if newest is None else LastAnswer(newest[0].number, newest[1])

    @property
    @locked
    def open(self) -> list[NumberedSuggestion]:
        """Suggestions without an answer, oldest first."""
        return [numbered(one, self.state, self._units) for one in self._open.values()]

    @property
    def pending(self) -> int:
        """Maximum number of open suggestions."""
        return self._pending

    @pending.setter
    def pending(self, most: int) -> None:
        fix = "give how many measurements run side by side."
        self._pending = require_integer("Loop: pending", most, 1, fix)

    @property
    def state(self) -> State:
        """The strategy's state after all answers, for use with the strategy's methods."""
        return self._log.state

    @property
    def strategy(self) -> Strategy:
        """The strategy."""
        return self._strategy

    @property
    def domain(self) -> Domain:
        """The domain."""
        return self.state.domain

    @property
    def parameters(self) -> Parameters | None:
        """The named parameters; None if coordinates have no names."""
        return self._units.parameters

    def __repr__(self) -> str:
        count = len(self._log.answers)
        clock = self._units.clock
        newest = f", the newest at time {clock.said(float(self.state.time))}" if count else ""
        waiting = f"; open: {listed(self._open, self._units)}" if self._open else ""
        if self._consultations:
            waiting += f"; open consultations: {listed(self._consultations, self._units)}"
        many = counted(count, "measurements")
        return f"Loop on {self.domain!r} with {many}{newest}{waiting}"

    # ---------------------------------------------------------------- files

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
            asked=self._asked,
            consulted=self._consulted,
            generator=drawn,
            open=tuple(self._open.values()),
            answers=self._log.answers,
            consultations=tuple(self._consultations.values()),
            replies=self._log.replies,
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

        All answers are replayed, which takes as long as the first time. The next choices and
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
        with refused(f"{path} is damaged", COPY):
            file.check(domain)
        fix = "pass domain=, or give a copy of the file."
        with refused(f"{path}: the strategy cannot begin on its domain", fix):
            loop = cls(strategy, domain, pending=file.pending, dtype=file.kind, device=place)
        loop._restore(file, path, snapshot=snapshot)
        return loop

    def _restore(self, file: LoopFile, path: Path, *, snapshot: bool) -> None:
        """Restore everything from a file."""
        self._units.clock = LoopClock.of(file.clock)
        waiting: Sequence[Planned] = file.open
        with refused(f"{path} cannot be replayed", "correct it in a copy of the file."):
            if file.stale and self._strategy.compares:
                self._log, waiting = replayed(
                    *(self._log, file.answers, file.open, file.replies, file.stale, self._oldest)
                )
            else:
                self._replay(file, path, snapshot=snapshot)
        if bool(self._strategy.predicts(self._log.start)):
            for plan in waiting:
                require(
                    plan.predicted is not None,
                    f"{path} is damaged: {plan.name} is open, but without prediction; give a copy.",
                )
        self._open = {one.number: one for one in waiting}
        self._consultations = {one.number: one for one in file.consultations}
        self._superseded = list(file.superseded)
        self._unsuggested = max([0, *(-one.number for one in (*file.answers, *file.superseded))])
        self._asked, self._consulted = file.asked, file.consulted
        with refused(f"{path} is damaged", "give a copy of it."):
            wrong = "its random numbers are missing, or no state of a generator"
            require((file.generator is not None) == self._draws, wrong)
            if file.generator is not None:
                drawn = list(base64.b64decode(file.generator, validate=True))
                self._generator.set_state(torch.tensor(drawn, dtype=torch.uint8, device="cpu"))

    def _replay(self, file: LoopFile, path: Path, *, snapshot: bool) -> None:
        """Replay the answers and replies of a file, from a snapshot if there is one."""
        log, following = self._log, len(file.answers) - LATE
        if snapshot and served(file, self._strategy):
            begun = read_snapshot(path, file, log.start)
            if begun is not None:
                moment, resets = begun
                answers = file.answers[: moment.size]
                log = log._replace(moments=(moment,), answers=answers, resets=tuple(resets))
            if following >= len(log.answers) + EVERY:
                log = log.changed(file.answers[:following], self._oldest)
                write_snapshot(path, file, log.moments[-1], log.resets)
        log = log.changed(file.answers, self._oldest)
        for reply in file.replies:
            log = log.absorbed(reply)
        self._log = log

    # ---------------------------------------------------------------- inspection

    @locked
    def recommend(self, *, now: Time | None = None, context: Numbers | None = None) -> Any:
        """The point with the best lower bound, mean - sd / 2, as ``suggestion.point`` has it.

        When minimising, mean + sd / 2. Points that are likelier to fail than to succeed are left
        out. Before the adaptive strategy predicts anything it is the best point measured. Warns if
        no measurement supports the point.

        Args:
            now: As in :meth:`ask`.
            context: As in :meth:`ask`.

        Returns:
            A list of numbers, or a dict of named parameters in their own units.

        Raises:
            InputDataError: If every point is likelier to fail than to succeed.
        """
        present = self._present(now)
        chance = self._success(present)
        best = self._best(present, context, chance)
        if chance is not None and chance.fails:
            raise InputDataError(f"{FAILS} Measure more before you rely on any.")
        if self._is_unsupported(best, present):
            warnings.warn(UNSUPPORTED, stacklevel=3)
        return self._units.point(best.tolist()[: self.domain.dim])

    @locked
    def posterior(
        self, X: Points, *, now: Time | None = None, context: Numbers | None = None
    ) -> GPyTorchPosterior:
        """The posterior of the objective at given points, without observation noise.

        Open suggestions play no part in it.

        Args:
            X: `q x d`; with named parameters a dict, a list of dicts, a DataFrame, or a tensor of
                points in the unit cube.
            now: As in :meth:`ask`.
            context: The same for all points, `c`.

        Returns:
            A joint posterior over the q points.
        """
        points = self._columns(as_places("X", X, self.state), context)
        return self._strategy.posterior(self.state, points, now=self._present(now))

    @locked
    def table(self) -> pd.DataFrame:
        """All measurements in order of time and in their own units, as a DataFrame.

        Returns:
            A row per measurement: ``number`` of the suggestion, or -1, -2, ... in order of arrival
            for those that were not suggested; a column per parameter, named ``x0, x1, ...`` if they
            have no names, and ``time (parameter)`` if the name is taken by another column;
            ``context0, ...``; ``time``; ``y``, NaN if the measurement failed; ``ok``; ``noise``,
            the variance, NaN if the strategy estimates it; ``mean`` and ``sd``, the prediction made
            with the suggestion, NaN if it was not suggested; ``reset``, whether it made the
            strategy forget everything before.

        Raises:
            ImportError: If pandas is not installed.
        """
        log = self._log
        usual = self._strategy.usual_noise
        return data_frame(log.answers, log.resets, self.domain, usual, self._units)

    @locked
    def describe(self, *, now: Time | None = None, context: Numbers | None = None) -> str:
        """A summary in words: how the objective changes, what was measured, and the best point.

        Args:
            now: As in :meth:`ask`.
            context: As in :meth:`ask`; without it the best point of a domain with context is left
                out.
        """
        clock, strategy, state = self._units.clock, self._strategy, self.state
        learned = state.basis.decay if isinstance(state.basis, BoxPrior) else None
        process, unit = strategy.process, clock.unit or ""
        words = [
            strategy.describe(state, said=clock.said, unit=unit),
            forgetting_in_words(learned or process.decay, process.inflation, unit),
            self._measured_in_words(),
        ]
        if self._log.answers and self._has_best(context):
            present = self._present(now)
            chance = self._success(present)
            X = self._best(present, context, chance)
            posterior = strategy.posterior(state, X.unsqueeze(0), now=present)
            mean, sd = float(posterior.mean), float(posterior.variance.clamp_min(0).sqrt())
            when = float(state.time + strategy.step(state)) if present is None else present
            point = point_in_words(self._units.point(X.tolist()[: self.domain.dim]))
            words.append(
                f"Best point for time {clock.said(when)}: {point}; expects {mean:.4g}, "
                f"from {mean - 2 * sd:.4g} to {mean + 2 * sd:.4g} (two standard deviations of the "
                "objective, without noise)."
            )
            words.append(FAILS if chance is not None and chance.fails else "")
            words.append(UNSUPPORTED if self._is_unsupported(X, present) else "")
        return "\n".join(one for one in words if one)

    @locked
    def plot(
        self,
        path: str | PathLike[str] | None = None,
        *,
        ax: Axes | None = None,
        now: Time | None = None,
        context: Numbers | None = None,
    ) -> Figure:
        """Plot observations and choices over time, and the predicted objective now.

        The upper panel shows the observations with the prediction before each, plus and minus two
        standard deviations. Below, each parameter has a panel with its chosen values over time and
        one with a slice of the posterior through the current best point, once there are
        predictions.

        Args:
            path: Where to write the figure; its extension selects the format.
            ax: Axes for the upper panel alone; nothing else is drawn then.
            now: As in :meth:`ask`.
            context: As in :meth:`ask`; without it slices of a domain with context are left out.

        Raises:
            ImportError: If matplotlib is not installed.
            InputDataError: If there is no measurement yet.
        """
        if not self._log.answers:
            raise InputDataError(
                "nothing has been measured, so there is nothing to draw; tell(y) the answer to a "
                "suggestion, or observe(X, y) a measurement first."
            )
        from botorch_tv.loop.plots import draw_loop

        best, predict = None, None
        if ax is None and self._has_best(context):
            present = self._present(now)
            best = self._best(present, context, self._success(present))
            predict = functools.partial(self._strategy.posterior, self.state, now=present)
        return draw_loop(self.table(), self.domain, self._units, best, predict, path, ax)

    # ---------------------------------------------------------------- within

    def _begun(self, first: object) -> LoopClock:
        """The clock, begun with the first time there is, unless the loop has one already."""
        if not self._log.answers and not self._asked + self._consulted and not self._superseded:
            if first is None:
                first = self._units.clock.now()
            self._units.clock = self._units.clock.begin(first)
        return self._units.clock

    def _number(self, name: str, time: object) -> float:
        return self._begun(time).number(name, time, "give the time of the measurement.")

    def _present(self, now: Time | None) -> float | None:
        clock, newest = self._begun(now), float(self.state.time)
        if now is None:
            here = clock.now()
            return None if here is None else max(self._number("now", here), newest)
        present = self._number("now", now)
        if self._log.answers and present < newest:
            raise InputDataError(
                f"now is {clock.said(present)}, but the newest measurement was made at "
                f"{clock.said(newest)}, and only its own time or a later one can be decided; leave "
                "it out, or give that time. For old measurements there is observe(X, y, time=...)."
            )
        return present

    @property
    def _oldest(self) -> int:
        """States of up to so many answers ago are retained for late answers."""
        return oldest_for(2 * self.pending - 1)

    @property
    def _draws(self) -> bool:
        """Whether the strategy draws random numbers."""
        return self._strategy.draws or self._strategy.consults

    @functools.cached_property
    def _description(self) -> Description:
        """The strategy as a file has it, which never changes."""
        return describe(self._strategy, "strategy")

    def _has_best(self, context: Numbers | None) -> bool:
        """Whether anything is predicted, in a context that is given."""
        known = context is not None or self.domain.columns == self.domain.dim
        return known and bool(self._strategy.predicts(self.state))

    def _best(
        self, present: float | None, context: Numbers | None, chance: Success | None
    ) -> Tensor:
        """The point to recommend, with its context, `d + c`."""
        known = as_known(self.state, context)
        return recommended(self._strategy, self.state, present, known, chance)

    def _is_unsupported(self, X: Tensor, present: float | None) -> bool:
        """Whether most of the prior variance is left at a point `d + c`."""
        if not self._log.answers or not bool(self._strategy.predicts(self.state)):
            return False
        sd = float(self._strategy.suggestion_at(self.state, X, now=present).sd)
        return sd**2 > LEFT * self._strategy.prior_variance(self.state)

    def _success(self, present: float | None) -> Success | None:
        """Where measurements succeed; None where none has failed."""
        now = self.state.time + self._strategy.step(self.state) if present is None else present
        return self._log.success(float(now))

    def _measured_in_words(self) -> str:
        answers, said = self._log.answers, self._units.clock.said
        became = [one.became for one in self._superseded]
        counts = [f"{became.count(one)} {one}" for one in dict.fromkeys(became)]
        changed = f"; {', '.join(counts)}" if counts else ""
        if not answers:
            return f"Nothing has been measured yet{changed}."
        failed = sum(one.y is None for one in answers)
        times = [one.time for one, reset in zip(answers, self._log.resets) if reset]
        many = counted(len(answers), "measurements")
        words = f"{many}, of time {said(answers[0].time)}"
        if len(answers) > 1:
            words = f"{many} from time {said(answers[0].time)} to {said(answers[-1].time)}"
        words += (f", of which {failed} failed" if failed else "") + changed
        if self._strategy.process.retention:
            last = f", the last at time {said(times[-1])}" if times else ""
            often = "once" if len(times) == 1 else f"{len(times)} times"
            words += f"; everything was forgotten {often}{last}"
        return words + (f"; open: {listed(self._open, self._units)}." if self._open else ".")

    def _columns(self, X: Tensor, context: Numbers | None) -> Tensor:
        """Points `* x d` with the context behind, `* x (d + c)`."""
        known = as_known(self.state, context)
        return X if known is None else torch.cat([X, known.expand(*X.shape[:-1], -1)], -1)


def forgetting_in_words(decay: Decay, inflation: Inflation, unit: str) -> str:
    """After how long a measurement counts less; empty where it always counts in full.

    Args:
        decay: How covariance falls.
        inflation: How noise grows.
        unit: Of time, "hours"; empty where times are numbers.
    """
    ages = 2 ** torch.linspace(-30, 40, 2**17, dtype=torch.float64, device="cpu")
    start = torch.zeros_like(ages)

    def after(share: Tensor) -> str:
        below = (share.reshape(-1, len(ages)) <= 0.5).all(0).nonzero()
        if not len(below):
            return "never, as far as can be told"
        return f"after {span_in_words(float(ages[below[0]]), unit)}"

    words = []
    if not is_static(decay):
        variances = decay.covariance(start, start) * decay.covariance(ages, ages)
        share = decay.covariance(start, ages) / variances.sqrt()
        words.append(f"its correlation with the objective falls to 1/2 {after(share)}")
    if not is_static(inflation):
        words.append(f"its noise doubles {after(torch.exp(-inflation.log_factor(ages)))}")
    return f"As a measurement ages, {' and '.join(words)}." if words else ""
