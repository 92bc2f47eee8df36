"""What captured rounds are given: tensors that stay where they are."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from botorch_tv.simulation.in_numbers.rules import Rules


class Tables(NamedTuple):
    """What of a strategy's rules changes from round to round, on a device; None for what it lacks.

    Tables are by rounds, or by elapsed time, as for
    :class:`~botorch_tv.simulation.in_numbers.rules.Rules`.
    """

    variance: Tensor
    first: Tensor
    """Prior variance of the arms at the origin of time, `M`."""
    sqrt_beta: Tensor
    gain_root: Tensor | None
    gain_slope: Tensor | None
    attenuation: Tensor | None
    prior: Tensor | None
    band_sd: Tensor | None
    band_noise: Tensor | None

    @classmethod
    def of(cls, rules: Rules, device: torch.device) -> Tables:
        """Those of some rules."""

        def table(values: np.ndarray) -> Tensor:
            return torch.from_numpy(values).to(device)

        gains, triggered = len(rules.gain_slope) > 0, len(rules.band_sd) > 0
        return cls(
            variance=table(rules.variance),
            first=table(rules.prior[0] * rules.variance),
            sqrt_beta=table(rules.sqrt_beta),
            gain_root=table(rules.gain_root) if gains else None,
            gain_slope=table(rules.gain_slope) if gains else None,
            attenuation=table(rules.attenuation) if rules.moves else None,
            prior=table(rules.prior) if rules.moves else None,
            band_sd=table(rules.band_sd) if triggered else None,
            band_noise=table(rules.band_noise) if triggered else None,
        )


class Stage(NamedTuple):
    """What the strategies play on in a round, written anew for every round."""

    values: Tensor
    """Of the objective, `trials x M`."""
    best: Tensor
    """`trials`."""
    noise: Tensor
    """Errors of measurement, `trials`."""


class Log(NamedTuple):
    """What is recorded, each `rounds x trials`."""

    arm: Tensor
    regret: Tensor
    resets: Tensor
    y: Tensor
    """Of no round where all are kept."""
