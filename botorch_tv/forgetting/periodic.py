"""A periodic decay whose cycles drift."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from botorch_tv.forgetting.decay import Decay, Markov
from botorch_tv.forgetting.parameter import Parameter
from botorch_tv.validation import settle_number


@dataclass(frozen=True)
class PeriodicMarkov(Decay):
    """A periodic decay: each cycle resembles the last, and earlier ones less and less.

    The covariance is multiplied by (1 - ε)^(|t - t'| / 2) exp(-2 sin²(π |t - t'| / P) / ℓ²), that
    of :class:`Markov` times the periodic one of MacKay (1998): "both a gradual forgetting and
    periodic covariance functions" as in TV-BayesOpt, Fleming et al., PLOS Comput. Biol. 19 (2023).
    Only the abstract was available, so no parameter has a default.

    Args:
        epsilon: Rate of change ε per unit of time, in [0, 1].
        cycle: Length P of a cycle, in units of time, positive.
        cycle_lengthscale: Lengthscale ℓ within a cycle, positive: opposite phases have correlation
            exp(-2 / ℓ²).

    Raises:
        ValueError: If a number is out of range.
    """

    epsilon: float
    cycle: float
    cycle_lengthscale: float

    parameters: ClassVar[Mapping[str, Parameter]] = {
        **Markov.parameters,
        "cycle": Parameter(lower=2.0, power=1),  # two measurements in each, at least
        "cycle_lengthscale": Parameter(lower=0.05, upper=20.0),
    }

    def __post_init__(self) -> None:
        settle_number(self, "epsilon", "[0, 1]", "0 keeps all cycles alike.")
        settle_number(self, "cycle", "[1e-100, 1e100]", "it is a length of time.")
        settle_number(self, "cycle_lengthscale", "[1e-3, 1e3]", "1 is usual.")

    def attenuation(self, elapsed: Tensor) -> Tensor:
        phase = torch.sin(torch.pi * elapsed / self.cycle) / self.cycle_lengthscale
        return Markov.attenuation(self, elapsed) * torch.exp(-2 * phase.square())  # type: ignore[arg-type]
