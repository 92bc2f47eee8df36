"""Rounds of a study on a GPU, recorded once as CUDA graphs and then started as a whole.

Every operation of a device has to be started by Python, which takes longer than a small operation
lasts. A CUDA graph starts all operations of a round at once. It reads and writes the same memory
every time and never waits for the device, so all that changes from round to round, the number of
the round among it, is a number on the device. The posterior is
:class:`~botorch_tv.gp.arm_engine.PlayedArms`, the same as without a record.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Size, Tensor

from botorch_tv.gp.arm_engine import FIRST_SLOTS, PlayedArms
from botorch_tv.gp.arms import REFRESH_ROUNDS
from botorch_tv.gp.linalg import at_index, first_maximum
from botorch_tv.simulation.rules import Known, stacked
from botorch_tv.simulation.settings import Arrays, Chunk, StudySettings
from botorch_tv.simulation.worlds.base import InFeatures, Objective, OnArms

ROUNDING = 1e-8
"""Largest difference between two ways to start the same operations, absolute and relative."""
Work = Callable[[], None]
Capture = Callable[[Work], Work]
"""Records work without doing it; the result does it."""


class Stage(NamedTuple):
    """The objective of a round, written anew for every round."""

    values: Tensor
    """`trials x M`."""
    best: Tensor
    """`trials`."""
    noise: Tensor
    """Errors of measurement, `trials`."""


class Player:
    """Some trials of one strategy.

    Trials hold arms in slots. Room for those of all rounds would make every round pass over
    numbers that nobody uses, so there are more slots as they are needed, and rounds are then
    recorded anew.

    Args:
        known: The strategy in numbers.
        stage: The objective.
        trials: How many.
        horizon: Rounds T.
        recorder: Records its rounds.
    """

    def __init__(
        self, known: Known, stage: Stage, *, trials: int, horizon: int, recorder: Recorder
    ) -> None:
        self.known, self._stage, self._recorder = known, stage, recorder
        rules, like = known.rules, known.basis.variance
        # A record of the round goes on using the memory for intermediate results of this copy.
        self.basis = known.basis.to(like.dtype, like.device)

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=like.device)

        self._table = {
            name: torch.from_numpy(value).to(like.device)
            for name, value in rules._asdict().items()
            if isinstance(value, np.ndarray)
        }
        self._first = rules.prior[0] * like
        self.posterior = PlayedArms(self.basis, Size([trials]), self._first, trend=False)
        self._most = known.slots + 1
        self._bound = 0  # no trial uses more slots
        self._noise = torch.full_like(self.posterior.information_gain, rules.noise)
        self.elapsed, self.since = zeros(trials), zeros(trials) + 1
        self.round, self.place = zeros(1), zeros(1)
        self.log = {
            "index": zeros(horizon, trials),
            "regret": zeros(horizon, trials, dtype=like.dtype),
            "resets": zeros(horizon, trials, dtype=torch.bool),
            "y": zeros(horizon if rules.window else 0, trials, dtype=like.dtype),
        }
        # All that lasts from round to round.
        lasting = [one for one in vars(self.posterior).values() if isinstance(one, Tensor)]
        clocks = [self.elapsed, self.since, self.round, self.place]
        self._record([*lasting, *clocks, *self.log.values()])

    def play_round(self, step: int) -> None:
        """A round, and what Python decides before and after it; ``step`` counts from 0."""
        rules = self.known.rules
        if rules.period and step > 0 and step % rules.period == 0:
            self._forget_all()
        self._reserve()
        self._round()
        oldest = step - rules.window
        if rules.window == 0 or oldest < 0:
            return
        if step % REFRESH_ROUNDS != 0:
            self._remove()
            return
        self._forget_all()
        self.place.fill_(oldest + 1)
        for _ in range(rules.window):
            self._reserve()
            self._again()

    def logged(self) -> dict[str, np.ndarray]:
        """What was recorded, by name, each `trials x rounds`."""
        found = {name: self.log[name].T.cpu().numpy() for name in ("index", "regret", "resets")}
        period = self.known.rules.period
        if period:
            found["resets"][:, period::period] = True
        return {**found, "index": found["index"].astype(np.int32)}

    def play(self) -> None:
        """A round, as it is recorded."""
        rules, log, now = self.known.rules, self.log, self.round
        stage, table = self._stage, self._table
        arm = self._choose()
        truth = at_index(stage.values, arm)
        y = truth + stage.noise
        log["index"].index_copy_(0, now, arm.unsqueeze(0))
        log["regret"].index_copy_(0, now, ((stage.best - truth) * rules.sign).unsqueeze(0))
        if rules.window:
            log["y"].index_copy_(0, now, y.unsqueeze(0))
        residual = y - rules.mean
        if len(table["band_sd"]):
            sd = at_index(self.posterior.variance, arm).clamp_min_(0).sqrt_()
            band = torch.addcmul(table["band_noise"][self.since], table["band_sd"][self.since], sd)
            fired = (residual - at_index(self.posterior.mean, arm)).abs_() > band
            log["resets"].index_copy_(0, now, fired.unsqueeze(0))
            self.since.add_(1)
            self._forget(fired)
        prior = table["prior"][self.elapsed] if rules.moves else None
        self.posterior.observe(self.basis, arm, residual, self._noise, prior)
        now.add_(1)

    def remove(self) -> None:
        """Remove the observation that a window no longer holds, as it is recorded."""
        oldest = self.round - (self.known.rules.window + 1)  # the round under way is over
        self._observe_logged(oldest, remove=True)

    def observe_again(self) -> None:
        """Observe the round of number ``place`` again, and go on to the next, as it is recorded."""
        self._observe_logged(self.place, remove=False)
        self.place.add_(1)

    def _observe_logged(self, number: Tensor, *, remove: bool) -> None:
        arm, y = (self.log[one].index_select(0, number).squeeze(0) for one in ("index", "y"))
        residual = y - self.known.rules.mean
        self.posterior.observe(self.basis, arm, residual, self._noise, remove=remove)

    def _choose(self) -> Tensor:
        """Let a round pass; then the first arm of those whose upper bound is highest."""
        rules, posterior, table = self.known.rules, self.posterior, self._table
        if rules.moves:
            begun, elapsed = posterior.count > 0, self.elapsed
            attenuation = torch.where(begun, table["attenuation"][elapsed], 1.0)
            square = attenuation.square()
            grown = (table["prior"][elapsed + 1] - square * table["prior"][elapsed]) * begun
            elapsed.add_(begun)
            posterior.move(self.basis, attenuation, square, grown)
        sqrt_beta = table["sqrt_beta"].index_select(0, self.round)
        if len(table["gain_slope"]):
            root, slope = (
                table[one].index_select(0, self.round) for one in ("gain_root", "gain_slope")
            )
            gain = posterior.information_gain
            sqrt_beta = torch.addcmul(root, slope, gain).sqrt_().add_(sqrt_beta)
        scratch = self.basis.scratch
        score = scratch.take("score", posterior.mean.shape, posterior.mean)
        torch.clamp(posterior.variance, min=0, out=score).sqrt_().mul_(sqrt_beta.unsqueeze(-1))
        score.add_(posterior.mean, alpha=rules.sign)
        return first_maximum(score, rules.tie, scratch).masked_fill_(posterior.count == 0, 0)

    def _forget_all(self) -> None:
        self._forget(torch.ones_like(self.since, dtype=torch.bool))
        self._bound = 0

    def _forget(self, trials: Tensor) -> None:
        """Forget everything in some trials, `trials`, bool."""
        self.posterior.clear(self._first, trials)
        self.elapsed.masked_fill_(trials, 0)
        self.since.masked_fill_(trials, 1)

    def _record(self, written: Sequence[Tensor] = ()) -> None:
        """Record rounds; with more slots, when copies take more memory, nothing is compared."""
        self.posterior.used = self.posterior.arms.shape[-1] - 1
        self._round = Replayed(self.play, self._recorder, written)
        self._remove = Replayed(self.remove, self._recorder, written)
        self._again = Replayed(self.observe_again, self._recorder, written)

    def _reserve(self) -> None:
        """Make sure that every trial has a slot for another arm, and one to spare."""
        posterior, slots = self.posterior, self.posterior.arms.shape[-1]
        if self._bound + 1 == slots < self._most:
            # Reading the count makes Python wait, so it is read only now and then.
            self._bound = int(posterior.count.max())
            if self._bound + 1 > slots - FIRST_SLOTS:
                posterior.give_room(min(2 * slots, self._most))
                self._record()
        self._bound += 1


class CapturedTable:
    """Strategies whose rounds are recorded, in the trials of one chunk.

    Args:
        settings: The study.
        served: What is played, by label.
        chunk: The trials.
        capture: Records a round; None where every operation is started by itself.
    """

    def __init__(
        self,
        settings: StudySettings,
        served: Mapping[str, Known],
        chunk: Chunk,
        capture: Capture | None,
    ) -> None:
        self._recorder = Recorder(capture)
        trials, horizon = chunk.trials, settings.horizon
        self._noise = settings.errors(chunk)
        some = next(iter(served.values())).basis.variance
        self._stage = Stage(
            some.new_empty(trials, len(some)), some.new_empty(trials), some.new_empty(trials)
        )
        self._maximize = settings.maximize
        self._given: Tensor | None = None
        self._bring: Work | None = None
        self.players = {
            label: Player(one, self._stage, trials=trials, horizon=horizon, recorder=self._recorder)
            for label, one in served.items()
        }

    def play_round(self, step: int, objective: Objective) -> None:
        """One round of every strategy.

        Args:
            step: The round, counted from 0.
            objective: That of every trial.
        """
        assert isinstance(objective, OnArms)
        if self._given is None or self._bring is None:
            self._given, work = self._brought(objective)
            self._bring = Replayed(work, self._recorder, [self._stage.values, self._stage.best])
        self._given.copy_(
            objective.coordinates if isinstance(objective, InFeatures) else objective.values
        )
        self._stage.noise.copy_(self._noise.normal())
        self._bring()
        for player in self.players.values():
            player.play_round(step)

    def finished(self) -> tuple[list[str], Arrays]:
        """What was recorded, and of which strategies in this order."""
        return list(self.players), stacked([one.logged() for one in self.players.values()])

    def _brought(self, objective: OnArms) -> tuple[Tensor, Work]:
        """Where objectives like this one are to be written, and what brings them to the stage."""
        stage = self._stage
        reduce = torch.amax if self._maximize else torch.amin
        given, expand = stage.values, None
        if isinstance(objective, InFeatures):
            given = torch.empty_like(objective.coordinates)
            # Nobody else works in the memory of this basis.
            expand = objective.basis.to(given.dtype, given.device).expand

        def work() -> None:
            if expand is not None:
                expand(given, out=stage.values)
            reduce(stage.values, -1, out=stage.best)

        return given, work


class Recorder:
    """Records work, as long as that succeeds.

    Args:
        capture: Records; None where everything is to be done as it is.
    """

    def __init__(self, capture: Capture | None) -> None:
        self._capture = capture

    def recorded(self, work: Work) -> Work | None:
        """Work that is started as a whole; None if it cannot be recorded, warned of once."""
        if self._capture is None:
            return None
        try:
            return self._capture(work)
        except RuntimeError as error:
            self.give_up(f"{type(error).__name__}: {error}".strip().partition("\n")[0])
            return None

    def give_up(self, why: str) -> None:
        """Record nothing from here on, and say so."""
        self._capture = None
        warnings.warn(
            f"run_study: rounds could not be captured as CUDA graphs ({why}). They are played one "
            "operation at a time from here on, with the same choices; compiled=False does so from "
            "the beginning.",
            stacklevel=2,
        )


class Replayed:
    """Some work, done as it is for the first time, and recorded for the others.

    The first time is the warm-up that a device asks for: libraries are loaded, and memory that is
    kept is reserved.

    Args:
        work: Reads and writes the same memory every time.
        recorder: Records it.
        written: All memory that lasts and is written to. If given, the second time the work is done
            both ways, and the record is used only if both are the same.
    """

    def __init__(self, work: Work, recorder: Recorder, written: Sequence[Tensor] = ()) -> None:
        self._work, self._recorder, self._written = work, recorder, written
        self.again: Work | None = None
        self._times = 0

    def __call__(self) -> None:
        """Do it."""
        self._times += 1
        if self._times == 2:
            self.again = self._recorder.recorded(self._work)
            if self.again is not None and self._written:
                self._compare(self.again)
                return
        (self.again or self._work)()

    def _compare(self, again: Work) -> None:
        """Do it both ways; what is left is that of the work as it is."""
        before = [one.clone() for one in self._written]
        again()
        for number, one in enumerate(self._written):
            replayed = one.clone()
            one.copy_(before[number])
            before[number] = replayed
        self._work()
        pairs = zip(self._written, before)
        if not all(torch.allclose(*pair, rtol=ROUNDING, atol=ROUNDING) for pair in pairs):
            self.again = None
            self._recorder.give_up("one did something else than its operations do")


def cuda_graph(device: torch.device) -> Capture:
    """Records work on a device, of all memory that is read and written, as CUDA graphs."""

    def capture(work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        # On a stream of this device, for it need not be the current one. Other chunks may use it
        # meanwhile, from threads of their own.
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            work()
        replay: Work = graph.replay
        return replay

    return capture
