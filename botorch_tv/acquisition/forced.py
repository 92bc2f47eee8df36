"""Forced exploration, whatever the posterior."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Size, Tensor

from botorch_tv.acquisition.candidates import Candidates
from botorch_tv.acquisition.exploration import Exploration, UpperConfidence, require_defined
from botorch_tv.forgetting.base import Log
from botorch_tv.validation import require, settle_number


@dataclass(frozen=True)
class Forced(Exploration):
    """Another exploration, mixed with occasional uniformly random choices.

    A detector only sees changes where the bandit measures, and a bandit that is certain of its
    optimum measures nowhere else. Forced exploration lets it find every change [Liu, Lee, Shroff,
    AAAI 2018].

    Args:
        chance: Probability of a random choice in each round, in [0, 1].
        otherwise: The exploration of the other rounds, whose memory is kept.

    Raises:
        ValueError: If ``chance`` lies outside [0, 1], or ``otherwise`` is not an exploration.
    """

    chance: float
    otherwise: Exploration = field(default_factory=UpperConfidence)

    def __post_init__(self) -> None:
        settle_number(self, "chance", "[0, 1]", "0.05 forces one round in twenty.")
        require(
            isinstance(self.otherwise, Exploration),
            f"Forced: otherwise is {self.otherwise!r}, but it must be an Exploration; "
            "UpperConfidence() is that of most presets.",
        )
        require_defined(self.otherwise)

    @property
    def samples(self) -> bool:  # type: ignore[override]
        """As of the other exploration."""
        return self.otherwise.samples

    def init(self, batch_shape: Size) -> Any:
        return self.otherwise.init(batch_shape)

    def update(self, log: Log) -> Any:
        return self.otherwise.update(log)

    def choose(self, candidates: Candidates) -> Tensor:
        chosen = self.otherwise.choose(candidates)
        anywhere = candidates.anywhere()
        return candidates.where(candidates.uniform() < self.chance, anywhere, chosen)
