"""SparQ-GP-UCB and W-SparQ-GP-UCB for a single trial by dense formulas, given the answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from oracles.dense import information_gain, regression, winner

Array = NDArray[np.float64]


def window_starts(horizon: int, alpha: float, alpha_tilde: float) -> list[int]:
    """t_1 = 1, t_{j+1} = t_j + floor(t_j^(alpha_tilde / alpha)) + 1."""
    starts = [1]
    while starts[-1] <= horizon:
        starts.append(starts[-1] + math.floor(starts[-1] ** (alpha_tilde / alpha) + 1e-9) + 1)
    return starts[:-1]


@dataclass(frozen=True)
class Answers:
    """Answers of an expert about f at a time, after a round."""

    arms: list[int]
    y: list[float]
    time: float
    round: int


@dataclass
class Sparse:
    """A learner that regresses on the newest answers and on all later observations.

    Args:
        K: Kernel matrix of the arms.
        noise: Variance of answers and observations.
        alpha: Exponent of the growth of noise with age; None for none.
        B: Bound on the norm in [M] (12).
        delta: Chance of failure there.
        sign: 1 to maximise, -1 to minimise.
    """

    K: Array
    noise: float
    alpha: float | None
    B: float = 0.5
    delta: float = 0.1
    sign: int = 1
    log: list[tuple[int, float, float]] = field(default_factory=list)  # arm, y, time; NaN: failed
    answers: Answers | None = None

    def rows(self) -> tuple[list[int], list[float], list[float]]:
        """Arms, values and times in use."""
        since = 0 if self.answers is None else self.answers.round
        observed = [row for row in self.log[since:] if not math.isnan(row[1])]
        arms, y, time = ([row[part] for row in observed] for part in range(3))
        if self.answers is not None:
            arms = [*self.answers.arms, *arms]
            y = [*self.answers.y, *y]
            time = [*[self.answers.time] * len(self.answers.arms), *time]
        return arms, y, time

    def choose(self) -> tuple[int, float, float, float]:
        """The arm of the next round with mean, sd and √beta."""
        arms, y, time = self.rows()
        now = self.log[-1][2] + 1 if self.log else 1.0
        aged = ("constant",) if self.alpha is None else ("injection", self.alpha, 1.0)
        reference = self.log[-1][2] if self.log else now
        about = {"noise": self.noise, "inflation": aged, "reference": reference}
        mean, variance = regression(self.K, arms, time, y, now, **about)
        gain = information_gain(self.K, arms, time, **about)
        sd = np.sqrt(np.clip(variance, 0.0, None))
        # [M] (12): sqrt(2 ln(2 |N + K|^(1/2) / (delta |N|^(1/2)))) + B
        sqrt_beta = math.sqrt(2 * (math.log(2 / self.delta) + gain)) + self.B
        score = self.sign * mean + sqrt_beta * sd
        arm = winner(score, float(self.K.diagonal().max())) if arms else 0
        return arm, float(mean[arm]), float(sd[arm]), sqrt_beta
