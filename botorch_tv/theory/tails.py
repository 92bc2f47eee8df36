"""Constants of the assumptions on a Gaussian process that Bayesian regret bounds take."""

from __future__ import annotations

import math
from typing import NamedTuple

from botorch_tv.theory.arguments import check


class TailConstants(NamedTuple):
    """P(sup |f| > L) <= a0 exp(-(L/b0)²) and P(sup |f'| > L) <= a1 exp(-(L/b1)²), [B16] (9)-(10).

    Attributes:
        a0: Of values.
        b0: Of values, in units of f.
        a1: Of slopes.
        b1: Of slopes, in units of f per unit of x.
    """

    a0: float
    b0: float
    a1: float
    b1: float


def squared_exponential_tails(lengthscale: float, r: float = 1.0) -> TailConstants:
    """Constants for exp(-Δ²/(2 l²)) on the interval [0, r], in one dimension.

    By Rice's formula a stationary process g of variance 1 crosses u upwards
    (r/2π) √Var(g') exp(-u²/2) times on average, so that
    P(sup |g| > u) <= (1 + (r/π) √Var(g')) exp(-u²/2). It is used for f, with Var(f') = 1/l², and
    for l f', with Var(l f'') = 3/l².

    Args:
        lengthscale: l, positive.
        r: Length of the interval, positive.

    Raises:
        ValueError: If an argument is not positive and finite.
    """
    check("squared_exponential_tails", lengthscale=lengthscale, r=r)
    turns = r / (math.pi * lengthscale)
    return TailConstants(
        a0=1 + turns,
        b0=math.sqrt(2),
        a1=1 + math.sqrt(3) * turns,
        b1=math.sqrt(2) / lengthscale,
    )
