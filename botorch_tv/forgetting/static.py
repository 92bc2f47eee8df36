"""No forgetting: the objective is static and measurements do not age."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.forgetting.decay import Decay
from botorch_tv.forgetting.inflation import Inflation


@dataclass(frozen=True)
class Static(Decay, Inflation):
    """The decay and the inflation of ordinary Gaussian-process regression: none."""

    markovian = True

    def attenuation(self, elapsed: Tensor) -> Tensor:
        return torch.ones_like(elapsed)

    def log_factor(self, lag: Tensor) -> Tensor:
        return torch.zeros_like(lag)


def is_static(part: Decay | Inflation) -> bool:
    """Whether a part is exactly ``Static``; a subclass may define another formula."""
    return type(part) is Static
