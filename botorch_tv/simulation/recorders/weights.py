"""What a strategy that is told nothing comes to believe."""

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
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.state import Info

PARTS = ("lengthscale", "rate", "hazard", "noise_ratio")
"""Dimensions of what is recorded, in the order of :meth:`Adaptive.weights`."""


@dataclass(frozen=True)
class Weights(Recorder):
    """Records the weights of rates, hazards, lengthscales and noise ratios, and of a jump.

    The result's ``data`` has ``weight_rate`` and its like, `strategy x trial x round x rate`, and
    ``jump``, the chance that the newest observation came after a jump; NaN for strategies that have
    no bank, or another one.

    Args:
        bank: That of the strategies.
    """

    bank: Bank = field(default_factory=Bank)

    def _values(self, domain: Domain) -> dict[str, tuple[float, ...]]:
        bank, lengthscales = self.bank, self.bank.lengthscales_of(domain.columns)
        return dict(zip(PARTS, (lengthscales, bank.rates, bank.hazards, bank.noise_ratios)))

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        sizes = {name: len(values) for name, values in self._values(domain).items()}
        weights = {f"weight_{name}": Variable({name: size}) for name, size in sizes.items()}
        return {**weights, "jump": Variable()}

    def after(self, seen: Seen, info: Info) -> Mapping[str, Tensor]:
        player, like = seen.strategy, seen.value
        if isinstance(player, Adaptive) and player.bank == self.bank:
            share, jump = player.weights(seen.state), player.jump(seen.state)
        else:
            sizes = [len(values) for values in self._values(seen.state.domain).values()]
            share = like.new_full((*like.shape, *sizes), math.nan)
            jump = torch.full_like(like, math.nan)
        dims = range(-len(PARTS), 0)
        weights = {
            f"weight_{name}": share.sum([one for one in dims if one != own])
            for name, own in zip(PARTS, dims)
        }
        return {**weights, "jump": jump}

    def labels(self, domain: Domain, strategies: Mapping[str, Strategy]) -> xr.Dataset:
        return xr.Dataset(coords={n: np.array(v) for n, v in self._values(domain).items()})
