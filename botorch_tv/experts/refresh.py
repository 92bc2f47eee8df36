"""When an expert is asked, and about how many points."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from botorch_tv.experts.dpp import Steps, require_steps
from botorch_tv.theory.windows import is_window_start, require_alpha_tilde
from botorch_tv.validation import require, settle_number


class Schedule(ABC):
    """The rounds after which an expert is asked."""

    @abstractmethod
    def due(self, t: int) -> bool:
        """Whether the expert is asked once round t, counted from 1, has been told."""


@dataclass(frozen=True)
class EveryRound(Schedule):
    """Ask after every round: SparQ-GP-UCB, [M] Algorithm 1."""

    def due(self, t: int) -> bool:
        return True


@dataclass(frozen=True)
class Never(Schedule):
    """Never ask; continue with the data available."""

    def due(self, t: int) -> bool:
        return False


@dataclass(frozen=True)
class Windows(Schedule):
    """Ask at window starts: W-SparQ-GP-UCB, [M] Algorithm 2.

    t_1 = 1 and t_{j+1} = t_j + ⌊t_j^(α~/α)⌋ + 1, [M] (32): as long as noise growing as lag^α
    stays within t^α~.

    Args:
        alpha: Exponent α of the growth of noise with age, positive.
        alpha_tilde: α~ in (0, 1/3); larger values give longer windows; 1/4 in the paper.

    Raises:
        ValueError: If ``alpha`` or ``alpha_tilde`` is out of range.
    """

    alpha: float
    alpha_tilde: float = 0.25

    def __post_init__(self) -> None:
        settle_number(self, "alpha", "(0, inf)", "an objective that stands still needs no expert.")
        require_alpha_tilde(self.alpha_tilde)

    def due(self, t: int) -> bool:
        return is_window_start(t, self.alpha, self.alpha_tilde)


@dataclass(frozen=True)
class Refresh:
    """When an expert is asked, and about how many points.

    Args:
        schedule: The rounds after which the expert is asked.
        c_Q: Scale c_Q of the number of points, ⌈c_Q ln^d(t + 1)⌉ after round t, positive.
        steps: Number of proposals of the swap chain that draws the points: None for
            :func:`~botorch_tv.experts.default_steps`, or ``"exact"`` for the exact sampler, which
            is also faster for smooth kernels on a CPU.

    Raises:
        ValueError: If an argument is out of range or of the wrong kind.
    """

    schedule: Schedule = field(default_factory=EveryRound)
    c_Q: float = 1.0
    steps: Steps = None

    def __post_init__(self) -> None:
        require(
            isinstance(self.schedule, Schedule),
            f"Refresh: schedule is {self.schedule!r}; give EveryRound(), Windows(alpha), Never().",
        )
        settle_number(self, "c_Q", "(0, inf)", "it scales the number of side queries; 1 is usual.")
        object.__setattr__(self, "steps", require_steps("Refresh", self.steps))

    def due(self, t: int) -> bool:
        """Whether the expert is asked once round t has been told; never before the first."""
        return t >= 1 and self.schedule.due(t)

    def queries(self, t: int, dim: int) -> int:
        """⌈c_Q ln^d(t + 1)⌉, the most points asked about after round t."""
        return math.ceil(self.c_Q * math.log(t + 1) ** dim)
