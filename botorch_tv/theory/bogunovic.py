"""Regret of R-GP-UCB and TV-GP-UCB on the Markov model, [B16] §4.

All functions assume the Markov model f_1 = g_1, f_{t+1} = √(1-ε) f_t + √ε g_{t+1}, where the g_t
are independent draws from a Gaussian process with 0 <= k(x, x') <= 1. On a compact convex domain in
[0, r]^d, the slopes of f satisfy P(sup |∂f/∂x_j| > L) <= a1 exp(-(L/b1)²). The noise is Gaussian
with variance σ². All bounds hold with probability 1 - δ. The docstring of each regret bound names
the confidence width of the strategy. The bounds are not sharp: on short horizons they exceed the
regret of the worst choices. Orders hold up to a constant, which the paper does not specify. The
lower bound assumes that f has two derivatives.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.acquisition.widths import BayesResetting, BayesTV
from botorch_tv.theory.horizon import (
    Number,
    Rounds,
    bayes_beta,
    beside,
    block_regret,
    checked,
    information_constant,
    rounds,
)
from botorch_tv.theory.rules import exponent


@checked
def r_gp_ucb_regret(
    T: Rounds,
    *,
    period: int,
    gain: Rounds,
    epsilon: float,
    noise: float,
    dim: int,
    delta: float,
    r: float,
    a0: float,
    b0: float,
    a1: float,
    b1: float,
) -> Tensor:
    """√(C_1 T β_T (T/N + 1) γ_N) + 2 + T ψ_T(N, ε), [B16] Theorem 4.2, eq. (17)-(18).

    This formula bounds the regret of R-GP-UCB over T rounds. C_1 = 8 / ln(1 + σ^(-2)), β_T is from
    :class:`BayesResetting`, and ψ is from :func:`resetting_mismatch`.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        period: Period N in rounds, at least 1.
        gain: γ_N, the maximum information gain of N observations, at least 0.
        epsilon: Rate of change ε in [0, 1].
        noise: Noise variance σ², in (0, 1].
        dim: Dimension d of the domain, at least 1.
        delta: Probability δ that the bound fails, in (0, 1).
        r: Side length r of the box around the domain, positive.
        a0: Factor a0 in P(sup |f| > L) <= a0 exp(-(L/b0)²), at least 0.
        b0: Scale b0 in P(sup |f| > L) <= a0 exp(-(L/b0)²), at least 0.
        a1: Factor a1 in P(sup |∂f/∂x_j| > L) <= a1 exp(-(L/b1)²), positive.
        b1: Scale b1 in P(sup |∂f/∂x_j| > L) <= a1 exp(-(L/b1)²), positive.

    Returns:
        The bounds, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    beta = bayes_beta(BayesResetting(delta=delta, r=r, a1=a1, b1=b1), T, dim)
    mismatch = resetting_mismatch(
        T, beta, period=period, epsilon=epsilon, noise=noise, delta=delta, a0=a0, b0=b0
    )
    return block_regret(T, beta, period, gain, noise, mismatch)


@checked
def resetting_mismatch(
    T: Rounds,
    beta: Number,
    *,
    period: int,
    epsilon: float,
    noise: float,
    delta: float,
    a0: float,
    b0: float,
) -> Tensor:
    """ψ_T(N, ε): regret per round from ignoring changes between resets, [B16] eq. (18).

    √(β_T (3σ^-2 + σ^-4) N³ε) + (σ^-2 + σ^-4) N³ε (2 + b0) √ln(2(1 + a0)π²T²/(3δ)), as printed: the
    sum of :func:`linear_sd_mismatch`, multiplied by √β_T, and :func:`linear_mean_mismatch`. In the
    last step of the paper's proof, (72), and in [ET] (47), each of the two terms of ψ_T is twice as
    large. The bound on |y_t| assumes σ² <= 1.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        beta: β_T, the squared width of the confidence band, at least 0; a number, or a tensor in
            the shape of ``T``.
        period: Period N in rounds, at least 1.
        epsilon: Rate of change ε in [0, 1].
        noise: Noise variance σ², in (0, 1].
        delta: Probability δ that the bound fails, in (0, 1).
        a0: Factor a0 in P(sup |f| > L) <= a0 exp(-(L/b0)²), at least 0.
        b0: Scale b0 in P(sup |f| > L) <= a0 exp(-(L/b0)²), at least 0.

    Returns:
        The values of ψ_T, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    largest = (2 + b0) * (2 * (1 + a0) * math.pi**2 * T**2 / (3 * delta)).log().sqrt()
    N = beside(period, T)
    spread = beside(beta, T).sqrt() * linear_sd_mismatch(N, epsilon=epsilon, noise=noise)
    return spread + linear_mean_mismatch(N, epsilon=epsilon, noise=noise, y_bar=1.0) * largest


@checked
def linear_sd_mismatch(T: Rounds, *, epsilon: float, noise: float) -> Tensor:
    """√((3σ^-2 + σ^-4) T³ε), a bound on Δ^(σ), [B16] Lemma D.1, eq. (82).

    This formula bounds the error of a posterior standard deviation that is computed T rounds after
    a reset as if the objective were static. The lemma as stated lacks the square root and has the
    factor L~ of the mean; eq. (82) of its proof is meant. :func:`sd_mismatch` is tighter.

    Args:
        T: Number T of rounds since a reset, at least 1; a scalar or a tensor of any shape.
        epsilon: Rate of change ε in [0, 1].
        noise: Noise variance σ², positive.

    Returns:
        The bounds, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return ((3 / noise + noise**-2) * epsilon * T**3).sqrt()


@checked
def linear_mean_mismatch(T: Rounds, *, epsilon: float, noise: float, y_bar: float) -> Tensor:
    """(σ^-2 + σ^-4) T³ε L~, a bound on Δ^(μ), [B16] Lemma D.1, eq. (87).

    This formula bounds the error of a posterior mean that is computed T rounds after a reset as if
    the objective were static. :func:`mean_mismatch` is tighter.

    Args:
        T: Number T of rounds since a reset, at least 1; a scalar or a tensor of any shape.
        epsilon: Rate of change ε in [0, 1].
        noise: Noise variance σ², positive.
        y_bar: L~, a bound on all |y_t|, at least 0.

    Returns:
        The bounds, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return (1 / noise + noise**-2) * epsilon * T**3 * y_bar


@checked
def tv_gp_ucb_regret(
    T: Rounds, *, gain: Rounds, noise: float, dim: int, delta: float, r: float, a1: float, b1: float
) -> Tensor:
    """√(C_1 T β_T γ~_T) + 2, [B16] Theorem 4.3, eq. (20), with β_T of :class:`BayesTV`.

    This formula bounds the regret of TV-GP-UCB over T rounds. With the gain of
    :func:`time_varying_gain`, it is √(C_1 T β_T (T/Ñ + 1)(γ_Ñ + Ñ³ε)) + 2, eq. (21).

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        gain: γ~_T, the maximum gain under the Markov model for every ``T``, at least 0. If ``T`` is
            1, 2, ..., pass ``markov_information_gain(...)[1:]`` or the result of
            :func:`time_varying_gain`.
        noise: Noise variance σ², positive.
        dim: Dimension d of the domain, at least 1.
        delta: Probability δ that the bound fails, in (0, 1).
        r: Side length r of the box around the domain, positive.
        a1: Factor a1 in P(sup |∂f/∂x_j| > L) <= a1 exp(-(L/b1)²), positive.
        b1: Scale b1 in P(sup |∂f/∂x_j| > L) <= a1 exp(-(L/b1)²), positive.

    Returns:
        The bounds, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    beta = bayes_beta(BayesTV(delta=delta, r=r, a1=a1, b1=b1), T, dim)
    return (information_constant(noise) * T * beta * gain).sqrt() + 2


@checked
def time_varying_gain(T: Rounds, *, block: int, gain: float, epsilon: float) -> Tensor:
    """γ~_T <= (T/Ñ + 1)(γ_Ñ + Ñ³ε), [B16] eq. (46); any Ñ in 1, ..., T.

    The paper carries out the proof for σ² = 1. If σ² is not 1, the paper's proof gives Ñ^(5/2) ε /
    (2√6 σ²) instead of Ñ³ε. Therefore the bound with Ñ³ε is proved only for σ² >= 1/√(24 Ñ), for
    example for σ² >= 0.04 if Ñ = 26. :func:`markov_information_gain` has no such restriction.

    Args:
        T: Number T of rounds, at least Ñ; a scalar or a tensor of any shape.
        block: Block length Ñ, at least 1; :func:`botorch_tv.theory.analysis_block` returns the
            paper's choice.
        gain: γ_Ñ, the maximum gain of Ñ observations of a static objective, at least 0.
        epsilon: Rate of change ε in [0, 1].

    Returns:
        The bounds, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    T = rounds(T, block)
    return (T / block + 1) * (gain + block**3 * epsilon)


# Orders of regret.


@checked
def r_gp_ucb_order(
    T: Rounds, epsilon: float, *, nu: float | None = None, dim: int | None = None
) -> Tensor:
    """The order of the regret of R-GP-UCB on the Markov model, [B16] Corollary 4.1.

    For the squared exponential kernel the order is max(√T, T ε^(1/8)). For a Matérn kernel the
    order is max(√(T^(1+c)), T ε^((1-c)/(2(4-c)))), with c of :func:`matern_exponent`. The order
    holds up to a constant and logarithms if the period N is from :func:`reset_period`.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        epsilon: Rate of change ε in [0, 1].
        nu: Smoothness ν of a Matérn kernel, above 2; None for the squared exponential.
        dim: Dimension d of the domain; needed for a Matérn kernel.

    Returns:
        The orders, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return _order(T, epsilon, exponent("r_gp_ucb_order", nu, dim), 4)


@checked
def tv_gp_ucb_order(
    T: Rounds, epsilon: float, *, nu: float | None = None, dim: int | None = None
) -> Tensor:
    """The order of the regret of TV-GP-UCB on the Markov model, [B16] Corollary 4.1.

    For the squared exponential kernel the order is max(√T, T ε^(1/6)). For a Matérn kernel the
    order is max(√(T^(1+c)), T ε^((1-c)/(2(3-c)))), with c of :func:`matern_exponent`. The order
    holds up to a constant and logarithms.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        epsilon: Rate of change ε in [0, 1].
        nu: Smoothness ν of a Matérn kernel, above 2; None for the squared exponential.
        dim: Dimension d of the domain; needed for a Matérn kernel.

    Returns:
        The orders, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return _order(T, epsilon, exponent("tv_gp_ucb_order", nu, dim), 3)


@checked
def markov_lower_bound(T: Rounds, epsilon: float) -> Tensor:
    """T ε: no strategy has a lower order of expected regret, [B16] Theorem 4.1.

    For every strategy, the expected regret is at least of the order T ε, up to a constant.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        epsilon: Rate of change ε in [0, 1].

    Returns:
        Orders of a lower bound on regret, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return epsilon * T


def _order(T: Tensor, epsilon: float, c: float, power: int) -> Tensor:
    static = T ** ((1 + c) / 2)
    return torch.maximum(static, T * epsilon ** ((1 - c) / (2 * (power - c))))


class TailConstants(NamedTuple):
    """P(sup |f| > L) <= a0 exp(-(L/b0)²) and P(sup |f'| > L) <= a1 exp(-(L/b1)²), [B16] (9)-(10).

    Attributes:
        a0: Factor a0 for values.
        b0: Scale b0 of values, in units of f.
        a1: Factor a1 for slopes.
        b1: Scale b1 of slopes, in units of f per unit of x.
    """

    a0: float
    b0: float
    a1: float
    b1: float


@checked
def squared_exponential_tails(lengthscale: float, r: float = 1.0, dim: int = 1) -> TailConstants:
    """Constants of tail bounds on f and its slopes, for the kernel exp(-‖Δ‖²/(2 l²)) on [0, r]^d.

    For d = 1, let g be a stationary process of variance 1, and s² = Var(g'). By Rice's formula, the
    process g crosses a level u from below (r/2π) s exp(-u²/2) times on average. Hence P(sup |g| >
    u) <= (1 + (r/π) s) exp(-u²/2). This bound on sup |g| applies to g = f with s = 1/l, and to g =
    l f' with s = √3/l.

    For d > 1, let g_j be independent processes in one dimension. The variance of f(x) - f(x') is at
    most the sum over j of the variances of g_j(x_j) - g_j(x'_j). By Rice's formula, E sup g_j is at
    most m(s), the integral of min(1, (1/2 + (r/2π) s) exp(-u²/2)) over u > 0. It follows that E sup
    f <= d m(1/l) (Sudakov, Fernique), and likewise E sup l ∂_j f <= m(√3/l) + (d - 1) m(1/l). Let S
    be d m(1/l), the bound on E sup f. Then P(sup |f| > L) <= 2 exp(-(L - S)²/2) (Borell, TIS). The
    same inequality holds for l ∂_j f with S = m(√3/l) + (d - 1) m(1/l). Since (L - S)² >= L²/2 -
    S², the tail constants are a = 2 exp(S²/2) and b = 2, in units of the standard deviation.

    Args:
        lengthscale: Lengthscale l, positive.
        r: Side length r of the box [0, r]^d, positive.
        dim: Dimension d of the domain, at least 1.

    Raises:
        ValueError: If an argument is not positive and finite.
        OverflowError: If a constant exceeds the largest float64, as it may for short lengthscales
            in many dimensions.
    """
    turns = r / (math.pi * lengthscale)
    if dim == 1:
        root = math.sqrt(2)
        return TailConstants(1 + turns, root, 1 + math.sqrt(3) * turns, root / lengthscale)
    plain, slope = _mean_supremum(turns), _mean_supremum(math.sqrt(3) * turns)
    values, slopes = dim * plain, slope + (dim - 1) * plain
    a0, a1 = 2 * math.exp(values**2 / 2), 2 * math.exp(slopes**2 / 2)
    return TailConstants(a0, 2.0, a1, 2 / lengthscale)


def _mean_supremum(turns: float) -> float:
    """The integral of min(1, c exp(-u²/2)) over u > 0, where c = (1 + turns) / 2."""
    c = (1 + turns) / 2
    start = math.sqrt(2 * math.log(max(c, 1.0)))
    return start + c * math.sqrt(math.pi / 2) * math.erfc(start / math.sqrt(2))
