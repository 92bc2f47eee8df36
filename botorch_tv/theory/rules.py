"""Reset periods, windows and discounts, computed from a rate of change or a variation budget."""

from __future__ import annotations

import math
import sys

from botorch_tv.theory.horizon import checked
from botorch_tv.theory.information_gain import matern_exponent
from botorch_tv.validation import require_number


@checked
def reset_period(
    epsilon: float,
    horizon: int,
    *,
    nu: float | None = None,
    dim: int | None = None,
    constant: float | None = None,
) -> int:
    """Period N of R-GP-UCB for the Markov model, [B16] Corollary 4.1 and §5.1.

    N is ⌈min(T, 12 ε^(-1/4))⌉ for the squared exponential kernel. For a Matérn kernel, N is ⌈min(T,
    24 ε^(-1/(4 - c)))⌉ with c = d(d+1)/(2ν + d(d+1)). Theory gives only the powers of
    ε. The factors 12 and 24 are taken over from the paper, which chose them by cross-validation;
    no derivation exists.

    Args:
        epsilon: Rate of change ε in [0, 1]; for 0, the period is T, so there are no resets.
        horizon: Number of rounds T, at least 1.
        nu: Smoothness ν of a Matérn kernel, above 2; None for the squared exponential.
        dim: Dimension d of the domain; needed for a Matérn kernel.
        constant: Factor by which the power of ε is multiplied, positive. The default is 12 for the
            squared exponential kernel and 24 for a Matérn kernel.

    Raises:
        ValueError: If an argument is out of range.
    """
    usual = 12.0 if nu is None else 24.0
    power = 1 / (4 - exponent("reset_period", nu, dim))
    return math.ceil(_block(epsilon, horizon, power, usual if constant is None else constant))


@checked
def analysis_block(
    epsilon: float, horizon: int, *, nu: float | None = None, dim: int | None = None
) -> int:
    """The block length Ñ for which the bound [B16] (21) has the order of Corollary 4.1 (App. E).

    Ñ is the integer in 1, ..., T closest to ε^(-1/3) or, for a Matérn kernel, to ε^(-1/(3 - c))
    with c of :func:`matern_exponent`. Only the regret bound uses the block length; the strategy
    TV-GP-UCB has no blocks.

    Args:
        epsilon: Rate of change ε in [0, 1].
        horizon: Number of rounds T, at least 1.
        nu: Smoothness ν of a Matérn kernel, above 2; None for the squared exponential.
        dim: Dimension d of the domain; needed for a Matérn kernel.

    Raises:
        ValueError: If an argument is out of range.
    """
    power = 1 / (3 - exponent("analysis_block", nu, dim))
    return max(1, round(_block(epsilon, horizon, power, 1.0)))


@checked
def budget_period(horizon: int, budget: float, gain: float) -> int:
    """H = W = ⌈ĝ^(1/4) (T / B_T)^(1/2)⌉, the period of BR-GP-UCB and the window of SW-GP-UCB.

    The formula is from Zhou and Shroff (2021), as quoted in [W22] §7. The source gives only the
    order of H and W; this function sets the constant factor to 1.

    Args:
        horizon: Number of rounds T, at least 1.
        budget: Variation budget B_T >= Σ ‖f_{t+1} - f_t‖, positive.
        gain: ĝ, a bound on the information gain, for example (ln T)^(d+1); positive.

    Returns:
        The period in rounds, at least 1.

    Raises:
        ValueError: If an argument is out of range.
    """
    return max(1, math.ceil(math.sqrt(math.sqrt(gain) * horizon / budget)))


@checked
def rexp3_period(horizon: int, arms: int, budget: float) -> int:
    """Δ = min(T, ⌈(K ln K)^(1/3) (T / V_T)^(2/3)⌉), the period of RExp3.

    This formula is Theorem 2 of Besbes, Gur, Zeevi (NeurIPS 2014) as given by two public
    implementations; we have not read the paper. With the period Δ, the regret of RExp3 is of the
    order (K ln K)^(1/3) V_T^(1/3) T^(2/3).

    Args:
        horizon: Number of rounds T, at least 1.
        arms: Number of arms K, at least 1.
        budget: Variation budget V_T >= Σ max_k |r_{t+1}(k) - r_t(k)| of rewards in [0, 1],
            positive.

    Returns:
        The period in rounds, at least 1.

    Raises:
        ValueError: If an argument is out of range.
    """
    period = math.cbrt(arms * math.log(arms) * (horizon / budget) ** 2)
    return max(1, math.ceil(min(horizon, period)))


@checked
def discount(horizon: int, gain: float, budget: float | None = None) -> float:
    """γ = 1 - ĝ^(-1/4) (B_T / T)^(1/2) for WGP-UCB, [W22] Corollary 5.

    Here ĝ is ``gain`` and B_T is ``budget``. If no budget is given, γ = 1 - ĝ^(-1/4) T^(-1/2). The
    result is clipped to (0, 1).

    Args:
        horizon: Number of rounds T, at least 1.
        gain: ĝ, a bound on the combined weighted gain γ̇_T, positive.
        budget: Variation budget B_T, positive; None if not given.

    Raises:
        ValueError: If an argument is out of range.
    """
    budget_term = 1.0 if budget is None else budget
    tiny = sys.float_info.epsilon
    return min(max(1 - math.sqrt(budget_term / horizon / math.sqrt(gain)), tiny), 1 - tiny)


def exponent(name: str, nu: float | None, dim: int | None) -> float:
    """Exponent c of [B16] Corollary 4.1; 0 for the squared exponential. Errors mention ``name``."""
    if nu is None:
        return 0.0
    fix = "as [B16] Corollary 4.1 requires; give nu=None for the squared exponential."
    nu = require_number(f"{name}: nu", nu, "(2, inf)", fix)
    if dim is None:
        raise ValueError(f"{name}: dim is None, but a Matérn kernel's exponent c depends on dim.")
    return matern_exponent(nu, dim)


def _block(epsilon: float, horizon: int, power: float, scale: float) -> float:
    return horizon if epsilon == 0 else min(horizon, scale * epsilon**-power)
