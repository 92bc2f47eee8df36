"""Rounds of a study on a GPU, recorded once as CUDA graphs and then launched as a whole.

Without CUDA graphs, Python launches every operation on the device, and a launch takes longer than a
small operation. A CUDA graph launches all operations of a round at once. A CUDA graph reads and
writes the same memory every time, and Python cannot intervene. Everything that changes from round
to round, such as the number of the round, is therefore stored on the device. Posteriors are
computed by :class:`~botorch_tv.gp.arm_engine.PlayedArms`, with and without CUDA graphs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
import torch
from torch import Size, Tensor

from botorch_tv.gp.arm_engine import FIRST_SLOTS, PlayedArms
from botorch_tv.gp.linalg import at_index, first_maximum
from botorch_tv.simulation.rules import Compilable, played
from botorch_tv.simulation.settings import Arrays, StudySettings
from botorch_tv.simulation.worlds.base import InFeatures, Objective, OnArms

ROUNDING = 1e-8
"""Largest accepted difference, absolute and relative, between the results of a graph and the
results of its operations when they are launched one by one."""
Work = Callable[[], None]
Capture = Callable[[Work], Work]
"""A function that records work without executing it. It returns a function that executes the
work."""


class Player:
    """Plays one strategy in some trials.

    A trial stores each played arm in a slot of memory. Every round reads all slots, so slots are
    added only when they are needed. After slots have been added, the round is recorded again, as a
    new CUDA graph.

    Args:
        tables: The strategy's settings in the form of numbers and tensors.
        stage: Three tensors that every round overwrites: the values of the objective, `trials x M`;
            the best value of the objective, `trials`; and the observation noise, `trials`.
        horizon: Number of rounds T.
        recorder: The object whose function ``capture`` records a round as a CUDA graph.
    """

    def __init__(
        self, tables: Compilable, stage: tuple[Tensor, ...], horizon: int, recorder: GraphRecorder
    ) -> None:
        self._rules, most, basis = rules, _, _ = tables
        self._stage, self._recorder, self._most = stage, recorder, most + 1
        like, trials = basis.variance, len(stage[0])
        # The copy of the basis has its own scratch memory, which every replay of the CUDA graph
        # uses.
        self.basis = basis.to(like.dtype, like.device)

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=like.device)

        self._table = {
            name: torch.from_numpy(value).to(like.device)
            for name, value in rules._asdict().items()
            if isinstance(value, np.ndarray)
        }
        self._first = rules.prior[0] * like
        self.posterior = PlayedArms(self.basis, Size([trials]), self._first, trend=False)
        self._bound = 0  # upper bound on the number of slots that a trial uses
        self._noise = torch.full_like(self.posterior.information_gain, rules.noise)
        self.elapsed, self.since, self.round = zeros(trials), zeros(trials) + 1, zeros(1)
        self.log = {
            "index": zeros(horizon, trials),
            "regret": zeros(horizon, trials, dtype=like.dtype),
            "resets": zeros(horizon, trials, dtype=torch.bool),
        }
        # All tensors whose contents pass from one round to the next.
        lasting = [tensor for tensor in vars(self.posterior).values() if isinstance(tensor, Tensor)]
        self._record([*lasting, self.elapsed, self.since, self.round, *self.log.values()])

    def play_round(self, step: int) -> None:
        """Reset if a periodic reset is due, add slots if needed, then play round ``step``."""
        period, posterior = self._rules.period, self.posterior
        if period and step > 0 and step % period == 0:
            self._forget(torch.ones_like(self.since, dtype=torch.bool))
            self._bound = 0
        # Every trial needs a free slot for a new arm, and one more slot, which stays empty.
        slots = posterior.arms.shape[-1]
        if self._bound + 1 == slots < self._most:
            # To read the number of used slots, Python must wait for the device. Python therefore
            # reads this number only when ``_bound``, its upper bound, leaves no free slot.
            self._bound = int(posterior.count.max())
            if self._bound + 1 > slots - FIRST_SLOTS:
                posterior.enlarge(min(2 * slots, self._most))
                self._record()
        self._bound += 1
        self._round()

    def played(self) -> Arrays:
        """The recorded variables by name, each `trials x rounds`."""
        found = {name: array.T.cpu().numpy() for name, array in self.log.items()}
        if period := self._rules.period:
            found["resets"][:, period::period] = True
        return played(**found | {"index": found["index"].astype(np.int32)})

    def play(self) -> None:
        """Play a round; the operations of this method are recorded as a CUDA graph."""
        rules, log, now, table = self._rules, self.log, self.round, self._table
        values, best, noise = self._stage
        arm = self._choose()
        truth = at_index(values, arm)
        log["index"].index_copy_(0, now, arm.unsqueeze(0))
        log["regret"].index_copy_(0, now, ((best - truth) * rules.sign).unsqueeze(0))
        residual = truth + noise - rules.mean
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

    def _choose(self) -> Tensor:
        """Advance the posterior by a round; return the first arm with the highest upper bound."""
        rules, posterior, table = self._rules, self.posterior, self._table
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
                table[name].index_select(0, self.round) for name in ("gain_root", "gain_slope")
            )
            gain = posterior.information_gain
            sqrt_beta = torch.addcmul(root, slope, gain).sqrt_().add_(sqrt_beta)
        scratch = self.basis.scratch
        score = scratch.take("score", posterior.mean.shape, posterior.mean)
        torch.clamp(posterior.variance, min=0, out=score).sqrt_().mul_(sqrt_beta.unsqueeze(-1))
        score.add_(posterior.mean, alpha=rules.sign)
        return first_maximum(score, rules.tie, scratch)

    def _forget(self, trials: Tensor) -> None:
        """Reset some trials to the prior: those with True in ``trials``, bool of shape `trials`."""
        self.posterior.clear(self._first, trials)
        self.elapsed.masked_fill_(trials, 0)
        self.since.masked_fill_(trials, 1)

    def _record(self, written: Sequence[Tensor] = ()) -> None:
        """Record a new CUDA graph of the round; if ``written`` is given, check these tensors."""
        self.posterior.used = self.posterior.arms.shape[-1] - 1
        self._round = Replayed(self.play, self._recorder, written)


class CapturedTable:
    """Plays strategies in the trials of one block, in rounds recorded as CUDA graphs.

    Args:
        settings: The settings of the study.
        compilable: The strategies, converted to numbers and tables; each key is the label of a
            strategy.
        block: The trial numbers of the block, such as ``range(50, 100)``.
        capture: A function that records a round as a CUDA graph; None to launch every operation
            individually.
    """

    def __init__(
        self,
        settings: StudySettings,
        compilable: Mapping[str, Compilable],
        block: range,
        capture: Capture | None,
    ) -> None:
        self._recorder, self._noise = GraphRecorder(capture), settings.errors(block)
        some, trials = next(iter(compilable.values()))[2].variance, len(block)
        shapes = (trials, len(some)), (trials,), (trials,)
        self._stage = tuple(some.new_empty(shape) for shape in shapes)
        self._reduce = torch.amax if settings.maximize else torch.amin
        self._given = self._stage[0]
        self._bring: Replayed | None = None
        self.players = {
            label: Player(tables, self._stage, settings.horizon, self._recorder)
            for label, tables in compilable.items()
        }

    def play_round(self, step: int, objective: Objective) -> None:
        """Play one round of every strategy.

        Args:
            step: The round, counted from 0.
            objective: The objectives of all trials.
        """
        assert isinstance(objective, OnArms)
        given = objective.coordinates if isinstance(objective, InFeatures) else objective.values
        if self._bring is None:
            expand = None
            if isinstance(objective, InFeatures):
                self._given = torch.empty_like(given)
                # The objective's basis is copied, because other threads may use the scratch memory
                # of the original basis.
                expand = objective.basis.to(given.dtype, given.device).expand
            self._bring = Replayed(partial(self._brought, expand), self._recorder, self._stage[:2])
        self._given.copy_(given)
        self._stage[2].copy_(self._noise.normal())
        self._bring()
        for player in self.players.values():
            player.play_round(step)

    def finished(self) -> dict[str, Arrays]:
        """The recorded variables of every strategy, by its label."""
        return {label: player.played() for label, player in self.players.items()}

    def _brought(self, expand: Callable[..., Tensor] | None) -> None:
        """Write the objective of this round and its best value to ``self._stage``."""
        values, best, _ = self._stage
        if expand is not None:
            expand(self._given, out=values)
        self._reduce(values, -1, out=best)


class GraphRecorder:
    """Holds the function that records work as CUDA graphs, until a recording fails.

    Args:
        capture: The function that records work as a CUDA graph; None to launch every operation
            individually.
    """

    def __init__(self, capture: Capture | None) -> None:
        self.capture = capture

    def give_up(self, why: str) -> None:
        """Drop the function that records work; warn that the study goes on without CUDA graphs."""
        self.capture = None
        warnings.warn(
            f"run_study: rounds could not be captured as CUDA graphs ({why}). The study continues "
            "without CUDA graphs and makes the same choices; give compiled=False to avoid this "
            "warning.",
            stacklevel=2,
        )


class Replayed:
    """A function that is executed directly in its first call, and replayed from a recording later.

    The first execution is the warm-up that a device needs to load libraries and to reserve memory.

    Args:
        work: A function that reads and writes the same memory every time.
        recorder: The object whose function ``capture`` records the work as a CUDA graph.
        written: All tensors that the work changes and that later calls read. If ``written`` is
            empty, the recording is used without a check. If ``written`` contains tensors, the
            recording is checked: the second call executes the recording, and then executes the work
            without the recording. Later calls execute the recording only if it wrote the same
            numbers as the work to the tensors in ``written``, up to rounding.
    """

    def __init__(self, work: Work, recorder: GraphRecorder, written: Sequence[Tensor] = ()) -> None:
        self._work, self._recorder, self._written = work, recorder, written
        self.again: Work | None = None
        self._times = 0

    def __call__(self) -> None:
        """Execute the work, or replay its recording."""
        self._times += 1
        if self._times == 2 and self._recorder.capture is not None:
            before = [tensor.clone() for tensor in self._written]
            try:
                self.again = self._recorder.capture(self._work)
            except RuntimeError as error:
                why = f"{type(error).__name__}: {error}".strip().partition("\n")[0]
                self._recorder.give_up(why)
            if self.again is not None and before:
                self.again()
                replayed = [tensor.clone() for tensor in self._written]
                for tensor, old in zip(self._written, before):
                    tensor.copy_(old)
                self._work()
                pairs = zip(self._written, replayed)
                if not all(torch.allclose(*pair, rtol=ROUNDING, atol=ROUNDING) for pair in pairs):
                    self.again = None
                    self._recorder.give_up("a graph differs from its operations")
                return
        (self.again or self._work)()


def cuda_graph(device: torch.device) -> Capture:
    """A function that records work on a device as a CUDA graph.

    Args:
        device: The device of all memory that the work reads and writes.
    """

    def capture(work: Work) -> Work:
        graph = torch.cuda.CUDAGraph()
        # The stream is created on ``device``, which need not be the current device. The error mode
        # of the capture is thread-local, because other threads may use the device at the same time.
        stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
            work()
        return graph.replay

    return capture
