"""An expert by the textbook, and the points of its queries: dense, greedy, no random numbers.

In round t, for an arm first chosen in round n with observation y_n (0 if it failed), the answer is
y_n / 2 + cos(n + 0.3 t); there is no answer if (n + t) mod 4 = 3.
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
"""Smallest informative conditional variance, as a share of the first."""


@dataclass(frozen=True)
class Consultant:
    """The rounds of queries, and the scale c_Q of the number of points, ceil(c_Q ln^d(t + 1))."""

    due: Callable[[int], bool]
    c_Q: float = 1.0
    dim: int = 2

    def answers(self, K: Array, rows: list[Row], noise: float) -> list[Row]:
        """The answers after the newest row."""
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
    """Arms of largest variance given the earlier arms; the first candidate wins ties."""
    chosen: list[int] = []
    variances: list[float] = []
    unit = max(K[arm, arm] for arm in candidates)
    while len(chosen) < min(most, len(candidates)):
        rest = [arm for arm in candidates if arm not in chosen]
        k = K[np.ix_(chosen, rest)]
        explained = np.linalg.solve(K[np.ix_(chosen, chosen)], k) if chosen else k
        variance = K[rest, rest] - (k * explained).sum(0)
        place = int(np.argmax(variance >= variance.max() - TIES * unit))
        variances.append(float(variance[place]))
        if variances[-1] <= KNOWN * variances[0]:
            break
        chosen.append(rest[place])
    return chosen
