"""All that a posterior depends on, besides the data."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.forgetting import (
    ConfirmedTrigger,
    Decay,
    Inflation,
    KeepAll,
    PeriodicReset,
    Retention,
    SlidingWindow,
)
from botorch_tv.forgetting.static import is_static

BY_COUNT_OR_TIME = (KeepAll, PeriodicReset, SlidingWindow)
"""Rules known to look at no observation."""


@dataclass(frozen=True, eq=False)
class Process:
    """A Gaussian process whose measurements are forgotten.

    Attributes:
        kernel: Spatial covariance: a GPyTorch kernel, or a matrix over the arms, `M x M`.
        noise: Noise variance σ² of a new observation.
        mean: Prior mean; ``"estimated"`` for the constant of generalised least squares.
        decay: How covariance falls with the time between measurements.
        inflation: How the noise of a measurement grows with its age.
        retention: Which measurements are kept: those that every rule keeps.
    """

    kernel: Kernel | Tensor
    noise: float
    mean: float | Literal["estimated"]
    decay: Decay
    inflation: Inflation
    retention: tuple[Retention, ...]

    @cached_property
    def known_mean(self) -> float | None:
        """The prior mean; None where it is to be estimated."""
        return None if isinstance(self.mean, str) else self.mean

    @cached_property
    def moves(self) -> bool:
        """Whether the prior changes with time at all; a static one needs no arithmetic."""
        return not is_static(self.decay)

    @cached_property
    def ages(self) -> bool:
        """Whether the noise of an observation grows with its age."""
        return not is_static(self.inflation)

    @cached_property
    def reacts(self) -> bool:
        """Whether what is kept may depend on what was observed."""
        return any(type(one) not in BY_COUNT_OR_TIME for one in self.retention)

    @cached_property
    def slides(self) -> bool:
        """Whether rows are known to leave one by one, in all trials together."""
        rules = self.retention
        return any(isinstance(one, SlidingWindow) and one.by == "rounds" for one in rules)

    @cached_property
    def returns(self) -> bool:
        """Whether rows may be set aside, which is followed by computing all anew."""
        return any(isinstance(one, ConfirmedTrigger) for one in self.retention)

    @cached_property
    def expires(self) -> bool:
        """Whether rows are known to leave by time, at moments that differ by trial."""
        timed = [one for one in self.retention if isinstance(one, (PeriodicReset, SlidingWindow))]
        return any(one.by == "time" for one in timed)

    def most_kept(self, horizon: int) -> int:
        """Most observations that a trial keeps within ``horizon`` rounds, as far as is known."""
        limits = [horizon]
        for one in self.retention:
            if isinstance(one, (PeriodicReset, SlidingWindow)) and one.by == "rounds":
                limits.append(int(one.period if isinstance(one, PeriodicReset) else one.window))
        return min(limits)
