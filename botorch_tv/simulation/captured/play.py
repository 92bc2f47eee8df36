"""A round of many trials as one function of tensors that stay where they are.

Everything that changes from round to round, the number of the round and the time among it, is a
number on the device, in memory of which only the contents change; every operation has the same
shapes in all rounds, and none makes Python wait. So the round can be recorded once and played
again. It is that of :mod:`botorch_tv.simulation.compiled.kernel`, trial beside trial.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.linalg import at_index
from botorch_tv.simulation.captured.parts import Log, Stage, Tables
from botorch_tv.simulation.captured.passes import Elapsed, Passes
from botorch_tv.simulation.in_numbers.rules import Rules


class Play:
    """What some trials know of an objective, and what a round makes of it.

    Args:
        basis: Coordinates of the kernel. Its memory for intermediate results is used by nobody
            else, since a record of the round goes on using it.
        rules: Of the strategy.
        stage: What it plays on.
        trials: How many.
        horizon: Rounds T.
        slots: Arms that a trial can hold at first; see :meth:`give_room`.
    """

    def __init__(
        self,
        basis: Basis,
        rules: Rules,
        stage: Stage,
        *,
        trials: int,
        horizon: int,
        slots: int,
    ) -> None:
        self.basis, self.rules, self.stage = basis, rules, stage
        device = basis.variance.device
        self.tables = Tables.of(rules, device)

        def zeros(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
            return torch.zeros(shape, dtype=dtype, device=device)

        real = basis.variance.dtype
        self.mean = zeros(trials, basis.arms, dtype=real)
        self.variance = self.tables.first.repeat(trials, 1)
        self.arms, self.inverse = zeros(trials, slots), zeros(trials, slots, slots, dtype=real)
        self.count, self.number, self.elapsed = zeros(trials), zeros(trials), zeros(trials)
        self.since, self.gain = zeros(trials) + 1, zeros(trials, dtype=real)
        self.round, self.place = zeros(1), zeros(1)
        self.log = Log(
            arm=zeros(horizon, trials),
            regret=zeros(horizon, trials, dtype=real),
            resets=zeros(horizon, trials, dtype=torch.bool),
            y=zeros(horizon if rules.window else 0, trials, dtype=real),
        )
        self._slots = torch.arange(slots, device=device)
        self._step = torch.empty_like(self.mean)
        self._passes = Passes(
            self.mean,
            self.variance,
            self.tables.variance,
            self.tables.first,
            sign=rules.sign,
            tie=rules.tie,
        )

    @property
    def slots(self) -> int:
        """Arms that a trial can hold."""
        return self.arms.shape[-1]

    @property
    def written(self) -> list[Tensor]:
        """All that lasts from round to round."""
        known = [self.mean, self.variance, self.arms, self.inverse, self.gain]
        return [
            *known, self.count, self.number, self.elapsed, self.since, self.round, self.place,
            *self.log,
        ]  # fmt: skip

    def give_room(self, slots: int) -> None:
        """Let trials hold more arms. What was recorded of this play is of no use any more."""
        more = slots - self.slots
        self.arms = torch.nn.functional.pad(self.arms, (0, more))
        self.inverse = torch.nn.functional.pad(self.inverse, (0, more, 0, more))
        self._slots = torch.arange(slots, device=self.arms.device)

    def forget(self) -> None:
        """Nothing is known any more in any trial."""
        self.mean.zero_()
        self.variance.copy_(self.tables.first.expand_as(self.variance))
        self.inverse.zero_()
        self.count.zero_()
        self.number.zero_()
        self.elapsed.zero_()
        self.gain.zero_()

    def play(self) -> None:
        """A round."""
        rules, log, stage, now = self.rules, self.log, self.stage, self.round
        elapsed = self._pass_time()
        arm = self._passes.choose(self._sqrt_beta(), elapsed)
        arm.masked_fill_(self.number == 0, 0)
        truth = at_index(stage.values, arm)
        y = truth + stage.noise
        log.arm.index_copy_(0, now, arm.unsqueeze(0))
        log.regret.index_copy_(0, now, ((stage.best - truth) * rules.sign).unsqueeze(0))
        if rules.window:
            log.y.index_copy_(0, now, y.unsqueeze(0))
        fired = self._fired(arm, y)
        self.since.add_(1)
        square = None if elapsed is None else elapsed.square
        if fired is not None:
            log.resets.index_copy_(0, now, fired.unsqueeze(0))
            square = self._forget_where(fired, square)
        self._observe(arm, y, square, fired, sign=1)
        now.add_(1)

    def leave_out(self) -> None:
        """Leave out again what was observed as many rounds ago as a window has."""
        left = self.round - (self.rules.window + 1)  # the round under way is over
        self._observe(*self._told(left), sign=-1)

    def observe_again(self) -> None:
        """Take in what was observed in the round of number ``place``, and go on to the next."""
        self._observe(*self._told(self.place), sign=1)
        self.place.add_(1)

    def _told(self, number: Tensor) -> tuple[Tensor, Tensor]:
        """Arms and observations of a round, `1 -> trials`."""
        arm, y = (one.index_select(0, number).squeeze(0) for one in (self.log.arm, self.log.y))
        return arm, y

    def _pass_time(self) -> Elapsed | None:
        """What a round that passes makes of what is known; None for nothing."""
        attenuation, prior = self.tables.attenuation, self.tables.prior
        if attenuation is None or prior is None:
            return None
        begun, elapsed = self.number > 0, self.elapsed
        kept = torch.where(begun, attenuation[elapsed], 1.0)
        square = kept.square()
        grown = (prior[elapsed + 1] - square * prior[elapsed]) * begun
        elapsed.add_(begun)
        return Elapsed(kept, square, grown)

    def _sqrt_beta(self) -> Tensor:
        """√beta of the round, `trials`, or `1` where it is that of all."""
        tables = self.tables
        sqrt_beta = tables.sqrt_beta.index_select(0, self.round)
        if tables.gain_root is None or tables.gain_slope is None:
            return sqrt_beta
        root, slope = (
            one.index_select(0, self.round) for one in (tables.gain_root, tables.gain_slope)
        )
        return torch.addcmul(root, slope, self.gain).sqrt_().add_(sqrt_beta)

    def _fired(self, arm: Tensor, y: Tensor) -> Tensor | None:
        """Which trials observe what nobody could expect; None where nobody looks."""
        band_sd, band_noise = self.tables.band_sd, self.tables.band_noise
        if band_sd is None or band_noise is None:
            return None
        sd = at_index(self.variance, arm).clamp_min_(0).sqrt_()
        band = torch.addcmul(band_noise[self.since], band_sd[self.since], sd)
        return (y - self.rules.mean - at_index(self.mean, arm)).abs_() > band

    def _forget_where(self, trials: Tensor, square: Tensor | None) -> Tensor:
        """Nothing is known any more in some trials; the factor on the reduction.

        Their mean and variance are left to the pass that takes the next observation in.
        """
        for one in (self.count, self.number, self.elapsed, self.gain):
            one.masked_fill_(trials, 0)
        self.since.masked_fill_(trials, 1)
        kept = (~trials).to(self.mean.dtype)
        return kept if square is None else kept.mul_(square)

    def _observe(
        self,
        arm: Tensor,
        y: Tensor,
        square: Tensor | None = None,
        forgotten: Tensor | None = None,
        *,
        sign: int,
    ) -> None:
        """Take in an observation, or leave one out again; see ``ArmReduction``.

        Args:
            arm: `trials`.
            y: `trials`.
            square: Factor on the reduction since the last one, `trials`; None for 1.
            forgotten: Where nothing was known any more since, `trials`; None for nowhere.
            sign: -1 to leave it out.
        """
        slot = torch.where(self.arms == arm.unsqueeze(-1), self._slots, self.count.unsqueeze(-1))
        slot = slot.amin(-1)
        chosen = self._slots == slot.unsqueeze(-1)
        between = self.basis.between(arm.unsqueeze(-1), self.arms).squeeze(-2)
        weights = torch.bmm(between.unsqueeze(-2), self.inverse).squeeze(-2)
        variance, unit = self.tables.variance[arm], weights.new_ones(())
        if square is not None:
            weights.mul_(square.unsqueeze(-1))
        if self.tables.prior is not None:
            unit = self.tables.prior[self.elapsed]
            variance = variance * unit
            unit = unit.unsqueeze(-1)
        variance = variance - (between * weights).sum(-1)
        noise = sign * self.rules.noise
        self.gain.add_(torch.log1p(variance / noise), alpha=0.5)
        root = (variance + noise).abs_().rsqrt_()
        direction = torch.where(chosen, unit, 0.0).sub_(weights).mul_(root.unsqueeze(-1))
        torch.where(chosen, arm.unsqueeze(-1), self.arms, out=self.arms)
        torch.maximum(self.count, slot + 1, out=self.count)
        step = self.basis.mixture(self.arms, direction, out=self._step)
        self._passes.absorb(self.inverse, direction, square, sign=sign)
        expected = at_index(self.mean, arm)
        if forgotten is not None:
            expected.masked_fill_(forgotten, 0)
        surprise = (y - self.rules.mean - expected).mul_(root)
        self._passes.take_in(step, surprise, forgotten, sign=sign)
        self.number.add_(sign)
