"""Features of all lengthscales beside each other, and how they change with the points.

For a few points at a time, of which a search asks many times in a row: one sine serves all waves.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.inference.mixture.features import Features, Inducing, Waves, gaussian

Pull = Callable[[Tensor], Tensor]
"""From derivatives by features, `* x r`, to those by points, `* x d`."""


class Beside(ABC):
    """Features of all lengthscales in a row."""

    @abstractmethod
    def at(self, U: Tensor) -> tuple[Tensor, Pull]:
        """Features of points of the unit cube, `* x d -> * x r`, and their derivatives."""


def beside(parts: Sequence[Features]) -> Beside:
    """Features of some lengthscales, all of them waves or none."""
    waves = [one for one in parts if isinstance(one, Waves)]
    inducing = [one for one in parts if isinstance(one, Inducing)]
    return WavesBeside.of(waves) if waves else InducingBeside(inducing)


@dataclass(frozen=True, eq=False)
class WavesBeside(Beside):
    """Waves written out.

    Attributes:
        frequency: Of the waves of all lengthscales, `d x w`.
        phase: `d x w`.
        directions: What a product of sines is worth in every direction, `w_l x r_l` per
            lengthscale l.
    """

    frequency: Tensor
    phase: Tensor
    directions: tuple[Tensor, ...]

    @classmethod
    def of(cls, parts: Sequence[Waves]) -> WavesBeside:
        """Those of some lengthscales."""
        frequency, phase, directions = [], [], []
        for one in parts:
            side, number = one.waves.side, one.waves.number.T.to(one.directions)
            frequency.append(number * (math.pi / side))
            phase.append(frequency[-1] * (0.5 * (side - 1)))
            directions.append(one.directions * (2 / side) ** (0.5 * len(number)))
        return cls(torch.cat(frequency, -1), torch.cat(phase, -1), tuple(directions))

    def at(self, U: Tensor) -> tuple[Tensor, Pull]:
        angle = torch.addcmul(self.phase, U.unsqueeze(-1), self.frequency)
        waves = angle.sin()

        def pull(by: Tensor) -> Tensor:
            slopes = angle.cos() * self.frequency
            for shift in range(1, len(self.frequency)):
                slopes = slopes * waves.roll(shift, -2)
            own = torch.split(by, [one.shape[1] for one in self.directions], -1)
            back = torch.cat([part @ one.T for part, one in zip(own, self.directions)], -1)
            return (slopes @ back.unsqueeze(-1)).squeeze(-1)

        own = torch.split(waves.prod(-2), [len(one) for one in self.directions], -1)
        return torch.cat([part @ one for part, one in zip(own, self.directions)], -1), pull


@dataclass(frozen=True, eq=False)
class InducingBeside(Beside):
    """Projections, each on points of its own."""

    parts: Sequence[Inducing]

    def at(self, U: Tensor) -> tuple[Tensor, Pull]:
        covariances = [gaussian(U, one.points, one.lengthscale) for one in self.parts]

        def pull(by: Tensor) -> Tensor:
            total = torch.zeros_like(U)
            own = torch.split(by, [one.size for one in self.parts], -1)
            for one, part, covariance in zip(self.parts, own, covariances):
                slopes = (part @ one.inverse) * covariance
                away = slopes @ one.points - slopes.sum(-1, keepdim=True) * U
                total.add_(away, alpha=one.lengthscale**-2)
            return total

        features = [one @ part.inverse.T for one, part in zip(covariances, self.parts)]
        return torch.cat(features, -1), pull
