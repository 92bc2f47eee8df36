"""Regret of ET-GP-UCB, and a tighter bound for R-GP-UCB, on the Markov model, [ET] §6 and App. E.

Equation numbers are those of the preprint, and its bounds are implemented. The journal's version
replaces the mean time until a reset by an admissible window N̄ and the mismatch φ_T(ε, δ, τ̄) by
φ_T(ε, N̄); this version was not available, so it is not implemented.

The assumptions are those of [B16] with a stationary kernel; see
:mod:`botorch_tv.theory.bogunovic`. The bounds hold with probability 1 - δ.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_tv.acquisition.widths import BayesEventTriggered, BayesResetting
from botorch_tv.theory.horizon import Number, Rounds, bayes_beta, beside, block_regret, checked


@checked
def et_gp_ucb_regret(
    T: Rounds,
    *,
    block: int,
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
    """√(C_1 T β_T (T/τ̄ + 1) γ_τ̄) + 2 + T φ_T(ε, δ, τ̄), [ET] Theorem 1, eq. (12)-(13).

    This formula bounds the regret of ET-GP-UCB over T rounds. C_1 = 8 / ln(1 + σ^(-2)), β_T is from
    :class:`BayesEventTriggered`, and φ is from :func:`model_mismatch`. The bound on |y| in φ holds
    with probability 1 - δ/4. The proof counts T/τ̄ + 1 blocks, although resets may be fewer than τ̄
    rounds apart.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        block: τ̄, the largest number of rounds before a reset, at least 1; :func:`reset_time_bound`
            with δ/4 returns the value of the theorem.
        gain: γ_τ̄, the maximum information gain of τ̄ observations, at least 0.
        epsilon: Rate of change ε in [0, 1].
        noise: Noise variance σ², positive.
        dim: Dimension d of the domain, at least 1.
        delta: Probability δ that the bound fails, in (0, 1); not the trigger's δ_B.
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
    beta = bayes_beta(BayesEventTriggered(delta=delta, r=r, a1=a1, b1=b1), T, dim)
    mismatch = model_mismatch(
        beta, block=block, epsilon=epsilon, noise=noise, delta=delta, a0=a0, b0=b0, parts=4
    )
    return block_regret(T, beta, block, gain, noise, mismatch)


@checked
def r_gp_ucb_regret_improved(
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
    """√(C_1 T β_T (T/N + 1) γ_N) + 2 + T φ_T(ε, δ, N), [ET] Theorem 2, eq. (46)-(47).

    This formula bounds the regret of R-GP-UCB over T rounds. The mismatch φ is of order N² (1 -
    (1-ε)^(N/2)), a tighter order than N³ε in [B16] (17). The formula for φ holds for any noise
    variance. β_T is from :class:`BayesResetting`. The bound on |y| in φ holds with probability
    1 - δ/2.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        period: Period N in rounds, at least 1.
        gain: γ_N, the maximum information gain of N observations, at least 0.
        epsilon: Rate of change ε in [0, 1].
        noise: Noise variance σ², positive.
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
    mismatch = model_mismatch(
        beta, block=period, epsilon=epsilon, noise=noise, delta=delta, a0=a0, b0=b0, parts=2
    )
    return block_regret(T, beta, period, gain, noise, mismatch)


@checked
def model_mismatch(
    beta: Number,
    *,
    block: int,
    epsilon: float,
    noise: float,
    delta: float,
    a0: float,
    b0: float,
    parts: int,
) -> Tensor:
    """φ_T: regret per round from assuming a static objective, [ET] eq. (13) and (47).

    2 √(β_T (3σ^-2 + σ^-4) u) + 2 (σ^-2 + σ^-4) u ȳ with u = N² (1 - exp(-p(ε) N)),
    p(ε) = -½ ln(1 - ε) and ȳ = (b0 + √2 σ) √ln(parts (a0 + 1) π² N² / (3δ)).

    Args:
        beta: β_T, the squared width of the confidence band, at least 0; a scalar or a tensor of any
            shape.
        block: N or τ̄, the largest number of rounds between resets, at least 1.
        epsilon: Rate of change ε in [0, 1].
        noise: Noise variance σ², positive.
        delta: Probability δ that the bound fails, in (0, 1).
        a0: Factor a0 in P(sup |f| > L) <= a0 exp(-(L/b0)²), at least 0.
        b0: Scale b0 in P(sup |f| > L) <= a0 exp(-(L/b0)²), at least 0.
        parts: Number of equal parts into which δ is divided: 4 in eq. (13), 2 in eq. (47).

    Returns:
        The values of φ_T, in the shape of ``beta``.

    Raises:
        ValueError: If an argument is out of range.
    """
    if not isinstance(beta, Tensor):
        beta = torch.tensor(beta, dtype=torch.float64, device="cpu")
    N = beside(block, beta)
    tail = math.log(parts * (a0 + 1) * math.pi**2 * block**2 / (3 * delta))
    y_bar = (b0 + math.sqrt(2 * noise)) * math.sqrt(tail)
    spread = beta.sqrt() * sd_mismatch(N, epsilon=epsilon, noise=noise)
    return 2 * (spread + mean_mismatch(N, epsilon=epsilon, noise=noise, y_bar=y_bar))


@checked
def sd_mismatch(T: Rounds, *, epsilon: float, noise: float) -> Tensor:
    """√((3σ^-2 + σ^-4) T² (1 - exp(-p(ε) T))), p(ε) = -½ ln(1 - ε), [ET] Lemma 8, eq. (27).

    This formula bounds the error of a posterior standard deviation that is computed after T rounds
    as if the objective were static. With ε = 1, the formula gives the trivial bound of [ET]
    Figure 7. The trivial bound holds for any rate of change.

    Args:
        T: Number T of rounds since a reset, at least 1; a scalar or a tensor of any shape.
        epsilon: Rate of change ε in [0, 1].
        noise: Noise variance σ², positive.

    Returns:
        The bounds, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return ((3 / noise + noise**-2) * _change(T, epsilon)).sqrt()


@checked
def mean_mismatch(T: Rounds, *, epsilon: float, noise: float, y_bar: float) -> Tensor:
    """(σ^-2 + σ^-4) T² (1 - exp(-p(ε) T)) ȳ, p(ε) = -½ ln(1 - ε), [ET] Lemma 8, eq. (28).

    This formula bounds the error of a posterior mean that is computed after T rounds as if the
    objective were static.

    Args:
        T: Number T of rounds since a reset, at least 1; a scalar or a tensor of any shape.
        epsilon: Rate of change ε in [0, 1].
        noise: Noise variance σ², positive.
        y_bar: ȳ, a bound on all |y_t|, at least 0; [ET] Lemma 6 gives
            (b0 + √2 σ) √ln((a0 + 1)π²T²/(3δ)), with probability 1 - δ.

    Returns:
        The bounds, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return (1 / noise + noise**-2) * _change(T, epsilon) * y_bar


def _change(T: Tensor, epsilon: float) -> Tensor:
    """T² (1 - (1 - ε)^(T/2))."""
    remains = math.log1p(-epsilon) if epsilon < 1 else -math.inf
    return -T.square() * torch.expm1(0.5 * T * remains)


@checked
def reset_time_bound(horizon: int, mean: float, delta: float) -> int:
    """A reset comes within τ̄ = ⌈min(T, E[τ]/δ)⌉ rounds with probability 1 - δ, [ET] Lemma 4.

    The bound τ̄ follows from Markov's inequality. The bound is rounded up because Theorem 1 uses τ̄
    as a number of observations.

    Args:
        horizon: Number of rounds T, at least 1.
        mean: E[τ], the mean number of rounds until the first reset, positive. Measure E[τ], since
            no formula gives it.
        delta: Probability δ that a reset takes longer than τ̄ rounds, in (0, 1). For Theorem 1,
            pass a quarter of the ``delta`` of :func:`et_gp_ucb_regret`.

    Raises:
        ValueError: If an argument is out of range.
    """
    return max(1, math.ceil(min(horizon, mean / delta)))
