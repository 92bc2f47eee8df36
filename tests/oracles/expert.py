"""An expert of the textbook, and which points it is asked about: dense, greedy, no random numbers.

What it says can be looked up without coordinates: in round t, of an arm that was first chosen in
round n and gave y_n (0 where that failed), it says y_n / 2 + cos(n + 0.3 t); and nothing at all
where n + t leaves 3 when divided by 4.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from oracles.dense import Array, Row

TIES = 1e-9
"""Conditional variances this close, as a share of the largest variance, are equal."""
KNOWN = np.finfo(np.float64).eps ** (2 / 3)
"""A conditional variance below this share of the first says nothing new."""


@dataclass(frozen=True)
class Consultant:
    """When it is asked, and the scale c_Q of the number of points, ceil(c_Q ln^d(t + 1))."""

    due: Callable[[int], bool]
    c_Q: float = 1.0
    dim: int = 2

    def answers(self, K: Array, rows: list[Row], noise: float) -> list[Row]:
        """What a bandit hears that has just been told its newest row."""
        t, first = len(rows), {}
        for n, row in enumerate(rows, 1):
            first.setdefault(row.index, n)
        most = math.ceil(self.c_Q * math.log(t + 1) ** self.dim)
        answers = []
        for arm in greedy(K, list(first), most):
            n = first[arm]
            seen = rows[n - 1].y if math.isfinite(rows[n - 1].noise) else 0.0
            if (n + t) % 4 != 3:
                y = 0.5 * seen + math.cos(n + 0.3 * t)
                answers.append(Row(arm, rows[-1].time, y, noise))
        return answers


def greedy(K: Array, candidates: list[int], most: int) -> list[int]:
    """Arms in turn of largest variance given those before; of equals the first candidate."""
    chosen: list[int] = []
    variances: list[float] = []
    unit = max(K[arm, arm] for arm in candidates)
    while len(chosen) < min(most, len(candidates)):
        left = [arm for arm in candidates if arm not in chosen]
        k = K[np.ix_(chosen, left)]
        known = np.linalg.solve(K[np.ix_(chosen, chosen)], k) if chosen else k
        variance = K[left, left] - (k * known).sum(0)
        place = int(np.argmax(variance >= variance.max() - TIES * unit))
        variances.append(float(variance[place]))
        if variances[-1] <= KNOWN * variances[0]:
            break
        chosen.append(left[place])
    return chosen
