"""How many questions to an expert theory asks for, [M] §3 and §5."""

from __future__ import annotations

import math
from collections.abc import Iterable

from torch import Tensor

from botorch_tv.theory.arguments import Number, check, rounds
from botorch_tv.theory.windows import window_exponent
from botorch_tv.validation import require_integer, require_number


def side_queries(t: int, dim: int, *, constant: float = 1.0) -> int:
    """⌈c_Q ln^d(t + 1)⌉, the maximum number of side queries in round t.

    [M] Proposition 3.2 gives the order O(ln^d t); the constant is the caller's. A strategy asks
    less where fewer distinct points have been played or their kernel matrix has a lower rank.

    Args:
        t: Round, at least 1.
        dim: Dimension d, at least 1.
        constant: c_Q, positive.

    Raises:
        ValueError: If an argument is out of range.
    """
    t = require_integer("side_queries: t", t, 1, "rounds count from 1.")
    check("side_queries", dim=dim, constant=constant)
    return math.ceil(constant * math.log(t + 1) ** dim)


def total_side_queries(asking: Iterable[int], dim: int, *, constant: float = 1.0) -> int:
    """N_T <= Σ_t ⌈c_Q ln^d(t + 1)⌉ over the rounds in which an expert is asked.

    Args:
        asking: ``range(1, T + 1)`` for SparQ-GP-UCB; for W-SparQ-GP-UCB the rounds of
            :func:`botorch_tv.theory.window_starts`.
        dim: Dimension d, at least 1.
        constant: c_Q, positive.

    Raises:
        ValueError: If an argument is out of range.
    """
    return sum(side_queries(t, dim, constant=constant) for t in asking)


def necessary_side_queries(T: Number, alpha: float, *, constant: float = 1.0) -> Tensor:
    """T^(α/(α+1)): with no more side queries than this order, regret is linear, [M] Theorem 5.3.

    An order, known up to ``constant``, for α > 1.

    Args:
        T: Rounds, at least 1; any shape.
        alpha: α, above 1.
        constant: Factor on the order, positive.

    Returns:
        Side queries in all T rounds, the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    alpha = require_number(
        "necessary_side_queries: alpha",
        alpha,
        "(1, inf)",
        "[M] Theorem 5.3 is about fast change; for slower none is known.",
    )
    check("necessary_side_queries", constant=constant)
    return constant * rounds("necessary_side_queries", T) ** (alpha / (alpha + 1))


def sufficient_side_queries(
    T: Number, alpha: float, alpha_tilde: float, dim: int, *, constant: float = 1.0
) -> Tensor:
    """T^(1 - α~/α) ln^d T: with so many, W-SparQ has sublinear regret, [M] Theorem 3.10, Table 2.

    An order, known up to ``constant``. Table 2 prints it for α~ = 1/4, as T^((4α-1)/(4α)) ln^d T.

    Args:
        T: Rounds, at least 1; any shape.
        alpha: As in :func:`botorch_tv.theory.next_window_start`.
        alpha_tilde: As there.
        dim: Dimension d, at least 1.
        constant: Factor on the order, positive.

    Returns:
        Side queries in all T rounds, the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    exponent = 1 - float(window_exponent(alpha, alpha_tilde))
    check("sufficient_side_queries", dim=dim, constant=constant)
    horizons = rounds("sufficient_side_queries", T)
    return constant * horizons**exponent * horizons.log() ** dim
