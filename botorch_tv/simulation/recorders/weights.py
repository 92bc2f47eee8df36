"""Record the weights of the adaptive strategy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from botorch_tv.inference.mixture.bank import Bank
from botorch_tv.simulation.recorders.recorder import Recorder, Seen, Variable
from botorch_tv.strategies.adaptive import Adaptive
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import Info


@dataclass(frozen=True)
class Weights(Recorder):
    """Records the weights of rates, hazards, lengthscales and noise ratios, and of a jump.

    The result's ``data`` has ``weight_rate``, `strategy x trial x round x rate`, and likewise for
    the others, and ``jump``, the probability that the newest observation came after a jump. They
    are NaN for strategies without this bank.

    Args:
        bank: The bank of the strategies.
    """

    bank: Bank = field(default_factory=Bank)

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        values = self.bank.values(domain.columns)
        weights = {f"weight_{name}": Variable({name: len(one)}) for name, one in values.items()}
        return {**weights, "jump": Variable()}

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        player, like = seen.strategy, seen.value
        if isinstance(player, Adaptive) and player.bank == self.bank:
            weights, jump = player.marginals(seen.state), player.jump(seen.state)
        else:
            values = self.bank.values(seen.state.domain.columns)
            weights = {
                name: like.new_full((*like.shape, len(one)), math.nan)
                for name, one in values.items()
            }
            jump = torch.full_like(like, math.nan)
        return {**{f"weight_{name}": one for name, one in weights.items()}, "jump": jump}

    def labels(self, domain: Domain, strategies: Mapping[str, Strategy]) -> xr.Dataset:
        values = self.bank.values(domain.columns)
        return xr.Dataset(coords={name: np.array(one) for name, one in values.items()})
