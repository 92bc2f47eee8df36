"""Exploration that no posterior can talk out of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from torch import Size, Tensor

from botorch_tv.acquisition.candidates import Candidates
from botorch_tv.acquisition.exploration import Exploration, UpperConfidence, require_defined
from botorch_tv.forgetting.parts import Log
from botorch_tv.validation import require, settle_number


@dataclass(frozen=True)
class Forced(Exploration):
    """Another exploration, mixed with occasional uniformly random choices.

    A detector can see a change where it looks alone, and a bandit that is sure of its optimum looks
    nowhere else; with forced exploration it meets every change [Liu, Lee, Shroff, AAAI 2018].

    Args:
        chance: That of a choice by chance, of every round, in [0, 1].
        otherwise: What chooses in the other rounds. It remembers what it remembers alone.

    Raises:
        ValueError: If ``chance`` lies outside [0, 1], or ``otherwise`` is no exploration.
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
