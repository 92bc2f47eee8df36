"""How the optimum of a drifting function moves."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor

from botorch_tv.validation import require, settle_number


class Motion(ABC):
    """A path of the optimum through the box."""

    @abstractmethod
    def path(self, t: Tensor, start: Tensor, bounds: Tensor) -> Tensor:
        """The position of the optimum.

        Args:
            t: Times, any shape.
            start: The optimum of the static function, `d`, inside the box.
            bounds: Bounds of the box, `2 x d`.

        Returns:
            Points of the box, `t.shape x d`.
        """


@dataclass(frozen=True)
class Orbit(Motion):
    """A smooth path: p_j(t) = c_j + r_j sin(2π (1 + j/d) t / period + φ_j), j = 0, ..., d − 1.

    c is the middle of the box, r_j = reach · (upper_j − lower_j) / 2, and the phase φ_j puts p(0)
    on the optimum of the static function, or on the nearest point within the reach. No coordinate
    moves faster than 4π r_j / period. The coordinates oscillate at different rates, so that loops
    that start at different times see different functions; the path closes after d periods.

    Args:
        period: Period of the first coordinate.
        reach: Share of the box that the path covers, in (0, 1].

    Raises:
        ValueError: If a parameter is out of range.
    """

    period: float = 100.0
    reach: float = 0.8

    def __post_init__(self) -> None:
        settle_number(self, "period", "(0, inf)", "100 is usual.")
        settle_number(self, "reach", "(0, 1]", "it is a share of the box; 0.8 is usual.")

    def path(self, t: Tensor, start: Tensor, bounds: Tensor) -> Tensor:
        centre, radius = _middle(bounds, self.reach)
        phase = torch.asin(((start - centre) / radius).clamp(-1, 1))
        dim = len(start)
        rate = (1 + torch.arange(dim, dtype=t.dtype, device=t.device) / dim) / self.period
        point = centre + radius * torch.sin(2 * math.pi * rate * t.unsqueeze(-1) + phase)
        # With a reach of 1, rounding could leave the box.
        return torch.clamp(point, bounds[0], bounds[1])


@dataclass(frozen=True)
class Jumps(Motion):
    """An abrupt path: the optimum jumps at each time of change and is constant in between.

    Until the first change it is the optimum of the static function; then it is drawn uniformly from
    the middle ``reach`` of the box.

    Args:
        times: Times of change, increasing; the new position holds from that time on.
        reach: Share of each side of the box from which positions are drawn, in (0, 1].
        seed: Seed of the positions.

    Raises:
        ValueError: If a parameter is out of range.
    """

    times: tuple[float, ...] = (100.0, 200.0)
    reach: float = 0.8
    seed: int = 0

    def __post_init__(self) -> None:
        require(
            all(math.isfinite(time) for time in self.times)
            and all(earlier < later for earlier, later in pairwise(self.times)),
            f"Jumps: times is {self.times}; give finite, increasing times of change.",
        )
        settle_number(self, "reach", "(0, 1]", "it is a share of the box; 0.8 is usual.")

    def path(self, t: Tensor, start: Tensor, bounds: Tensor) -> Tensor:
        centre, radius = _middle(bounds, self.reach)
        generator = torch.Generator().manual_seed(self.seed)
        share = torch.rand(
            len(self.times), len(start), generator=generator, dtype=torch.float64, device="cpu"
        )
        drawn = torch.clamp(centre + radius * (2 * share - 1).to(start), bounds[0], bounds[1])
        places = torch.cat([start.unsqueeze(0), drawn])
        changes = torch.tensor(self.times, dtype=t.dtype, device=t.device)
        return places[torch.bucketize(t.detach().contiguous(), changes, right=True)]


def _middle(bounds: Tensor, reach: float) -> tuple[Tensor, Tensor]:
    lower, upper = bounds
    return (lower + upper) / 2, reach * (upper - lower) / 2
