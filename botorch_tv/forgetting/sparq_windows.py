"""Window starts of W-SparQ-GP-UCB, [M] §3.3. The module defines no retention.

Window j starts in round t_j, where t_1 = 1 and t_{j+1} = t_j + ⌊t_j^(α~/α)⌋ + 1; no other integers
solve [M] eq. (32). The starts of windows depend only on α~/α and are computed exactly. The
computation uses the decimals that Python prints for α~ and α, so 0.25 / 0.75 is exactly 1/3 and
1000^(1/3) is exactly 10.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import lru_cache

from botorch_tv.validation import require, require_integer, require_number

ENDLESS = 2**62
"""Maximum length of a window in rounds."""
EXACT_DENOMINATOR = 1000
"""Largest denominator q for which base^(p/q) is rounded down by comparing integers.

For larger q and a base from 2 to 2^1000, base^(p/q) is never an integer, so a computation with
fifty digits rounds it down correctly.
"""


def next_window_start(start: int, alpha: float, alpha_tilde: float) -> int:
    """The window start t_{j+1} that follows t_j, [M] eq. (32).

    Args:
        start: Round t_j in which window j starts, at least 1.
        alpha: Exponent α of the growth of noise with age, positive.
        alpha_tilde: Exponent α~ that determines the lengths of windows, in [0, 1/3); [M] uses 1/4.
            A larger α~ gives longer windows.

    Raises:
        ValueError: If an argument is out of range.
    """
    start = require_integer("next_window_start: start", start, 1, "rounds count from 1.")
    return _next(start, window_exponent(alpha, alpha_tilde))


def window_starts(horizon: int, alpha: float, alpha_tilde: float) -> tuple[int, ...]:
    """All window starts up to round T, starting with 1.

    Args:
        horizon: Last round T, at least 1.
        alpha: Exponent α of the growth of noise with age, positive.
        alpha_tilde: Exponent α~ that determines the lengths of windows, in [0, 1/3); [M] uses 1/4.

    Returns:
        Rounds in increasing order.

    Raises:
        ValueError: If an argument is out of range.
    """
    horizon = require_integer("window_starts: horizon", horizon, 1, "give the number of rounds.")
    return _starts(horizon, window_exponent(alpha, alpha_tilde))


def is_window_start(t: int, alpha: float, alpha_tilde: float) -> bool:
    """Whether a window starts in round t. The starts of windows are cached.

    Args:
        t: Round, at least 1.
        alpha: Exponent α of the growth of noise with age, positive.
        alpha_tilde: Exponent α~ that determines the lengths of windows, in [0, 1/3); [M] uses 1/4.

    Raises:
        ValueError: If an argument is out of range.
    """
    t = require_integer("is_window_start: t", t, 1, "rounds count from 1.")
    return t in _starts_below(t.bit_length(), window_exponent(alpha, alpha_tilde))


def window_count(horizon: int, alpha: float, alpha_tilde: float) -> int:
    """Number n(T) of windows up to round T, of order T^(1 - α~/α), [M] Theorem 3.10.

    Args:
        horizon: Last round T, at least 1.
        alpha: Exponent α of the growth of noise with age, positive.
        alpha_tilde: Exponent α~ that determines the lengths of windows, in [0, 1/3); [M] uses 1/4.

    Raises:
        ValueError: If an argument is out of range.
    """
    return len(window_starts(horizon, alpha, alpha_tilde))


def require_alpha_tilde(alpha_tilde: float) -> None:
    """Raise an error unless α~ is in [0, 1/3), as [M] §3.3 prints for windows.

    [M] Theorem 3.10 excludes 0, for which all windows have two rounds, so that the number of side
    queries per round does not vanish; regret is sublinear for 0 too.
    """
    require(
        0 <= alpha_tilde < 1 / 3,
        f"alpha_tilde is {alpha_tilde}, but regret is sublinear only for values of at least 0 and "
        "below 1/3; the paper uses 1/4.",
    )


@lru_cache(maxsize=64)
def window_exponent(alpha: float, alpha_tilde: float) -> Fraction:
    """The exponent α~/α: the length of the window that starts in round t_j grows as t_j^(α~/α).

    Raises:
        ValueError: If an argument is out of range.
    """
    require_alpha_tilde(alpha_tilde)
    require_number("alpha", alpha, "(0, inf)", "a static objective needs no windows.")
    return Fraction(str(float(alpha_tilde))) / Fraction(str(float(alpha)))


def _next(start: int, exponent: Fraction) -> int:
    return start + _floor_power(start, exponent) + 1


def _floor_power(base: int, exponent: Fraction) -> int:
    """⌊base^exponent⌋ for a base of at least 1, capped at ENDLESS."""
    p, q = exponent.numerator, exponent.denominator
    if float(exponent) * math.log(base) >= math.log(ENDLESS):
        return ENDLESS
    if q > EXACT_DENOMINATOR:
        with localcontext(prec=50):
            return int(Decimal(base) ** (Decimal(p) / Decimal(q)))
    guess = int(base ** float(exponent))
    while guess**q > base**p:
        guess -= 1
    while (guess + 1) ** q <= base**p:
        guess += 1
    return guess


@lru_cache(maxsize=64)
def _starts(horizon: int, exponent: Fraction) -> tuple[int, ...]:
    starts = [1]
    while (following := _next(starts[-1], exponent)) <= horizon:
        starts.append(following)
    return tuple(starts)


@lru_cache(maxsize=256)
def _starts_below(bits: int, exponent: Fraction) -> frozenset[int]:
    return frozenset(_starts(2**bits - 1, exponent))
