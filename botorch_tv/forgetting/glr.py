"""An event trigger based on a likelihood ratio over all candidate rounds of a change."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.forgetting.parts import Log
from botorch_tv.forgetting.retention import Kept, Retention
from botorch_tv.validation import settle_integer, settle_number


class Errors(NamedTuple):
    """Standardised prediction errors since the last reset."""

    newest_first: Tensor
    """`batch_shape x longest`; entries beyond ``number`` are arbitrary."""
    number: Tensor
    """Number of errors, at most ``longest``, `batch_shape`, int64."""


@dataclass(frozen=True)
class GLRTrigger(Retention):
    """Forget all but the newest observation when a likelihood ratio detects a change.

    If the objective is static and the model's kernel and noise are correct, the one-step prediction
    errors e = (y - mean) / sqrt(sd² + σ²) are independent and standard normal. After every
    observation the generalised likelihood ratio [Lorden 1971] tests for a change of their mean w
    rounds ago,

        G_w = sup_μ Σ (e² - (e - μ)²) / 2 = (Σ e)² / (2 w),   over the w newest,

    and fires when max_w G_w > ln(L π² t'² / (6 δ)), where t' is the number of rounds since the last
    reset and L the number of lengths w tested. Since P(G_w > b) <= exp(-b), a union bound limits
    the probability of ever firing on a static objective to δ, as for
    :class:`~botorch_tv.forgetting.EventTrigger`, which tests one error at a time.

    A detector for detection-augmented learning, Gerogiannis, Huang, Bose, Veeravalli
    (arXiv:2501.19401), applied to predictions. Only that paper's introduction was available, so the
    threshold is derived here and is not the authors'. Besson, Kaufmann, Maillard, Seznec (JMLR
    2022) test the rewards of every arm, between two unknown means.

    Args:
        delta: δ, the probability of ever firing on a static objective, in (0, 1).
        longest: How many rounds back to look for a change; memory and work per round grow with it.

    Raises:
        ValueError: If ``delta`` lies outside (0, 1), or ``longest`` is below 1.
    """

    delta: float = 0.1
    longest: int = 64

    def __post_init__(self) -> None:
        settle_number(self, "delta", "(0, 1)", "0.1 is usual.")
        settle_integer(self, "longest", 1, "give whole rounds.")

    def init(self, batch_shape: Size) -> Errors:
        number = torch.zeros(batch_shape, dtype=torch.int64, device="cpu")
        return Errors(torch.zeros((*batch_shape, self.longest), device="cpu"), number)

    @property
    def on_observation(self) -> bool:
        return type(self).keep is GLRTrigger.keep

    def keep(self, log: Log) -> Kept:
        if log.newest is None:
            return Kept()
        # Another rule's reset, before the round was decided, shows in t' alone.
        errors = self._errors(log, log.since - 1)
        fired = self.statistic(errors) > self.threshold(log.since)
        # A failed measurement tells nothing; its round counts, so that the threshold is higher.
        return Kept(newest=1, where=fired, reset=fired)

    def update(self, log: Log) -> Errors:
        # t' is that of the next round: 2 after a reset before this observation, whose own error
        # counts, and 1 after one on it, whose own is left out by keep.
        return self._errors(log, (log.since - 2).clamp_min(0))

    def statistic(self, errors: Errors) -> Tensor:
        """max_w G_w, `batch_shape`; 0 without errors."""
        e = errors.newest_first
        w = torch.arange(1, self.longest + 1, dtype=e.dtype, device=e.device)
        ratios = e.cumsum(-1).square() / (2 * w)
        return ratios.masked_fill(w > errors.number.unsqueeze(-1), 0.0).amax(-1)

    def threshold(self, since: Tensor) -> Tensor:
        """ln(L π² t'² / (6 δ)), given t', `batch_shape`, float64."""
        rounds = since.to(torch.float64)
        lengths = rounds.clamp_max(self.longest)
        constant = math.log(math.pi**2 / 6) - math.log(self.delta)
        return torch.log(lengths * rounds.square()) + constant

    def _errors(self, log: Log, before: Tensor) -> Errors:
        """Those so far and that of the newest observation; what failed has none.

        Args:
            log: After an observation.
            before: Rounds since the last reset that were told before it, `batch_shape`, int64.
        """
        seen, memory = log.newest, log.memory
        assert seen is not None
        number = torch.minimum(memory.number, before)
        good = seen.noise.isfinite()
        error = (seen.y - seen.mean) / (seen.sd.square() + seen.noise).sqrt()
        shifted = torch.cat([error.unsqueeze(-1), memory.newest_first[..., :-1]], -1)
        return Errors(
            torch.where(good.unsqueeze(-1), shifted, memory.newest_first),
            torch.where(good, (number + 1).clamp_max(self.longest), number),
        )
