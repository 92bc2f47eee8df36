"""Regret of WGP-UCB under a variation budget, [W22] §5 and Appendix C.

All functions assume ‖f_t‖ <= B, k(x, x) <= 1, R-sub-Gaussian noise, and
Σ_{t < T} ‖f_{t+1} - f_t‖ <= B_T, in the norm of the kernel's space. The observation of round s has
the weight γ^(-s).
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_tv.acquisition.widths import WGPUCB, WidthContext
from botorch_tv.theory.horizon import Rounds, checked
from botorch_tv.validation import require


@checked
def w_gp_ucb_regret(
    T: Rounds,
    *,
    gain: Rounds,
    double_gain: Rounds,
    budget: Rounds,
    gamma: float,
    noise: float,
    B: float,
    R: float,
    delta: float,
    memory: int,
    features: int,
    feature_error: float = 0.0,
) -> Tensor:
    """The bound of [W22] Appendix C.5, which Theorem 4 states as an order.

    2β_T √(4λTγˇ + 2λmT² ln(1/γ)) + (2/λ) c^(3/2) B_T √(4λγˇ + 2λmc ln(1/γ)) + 4Bγ^c T/(λ(1-γ))
    + (2/λ) B_T c² √ε_m/(1-γ) + 2β_T T √ε_m/(1-γ), with
    β_T = B + (R/√λ) √(2 ln(1/δ) + 2γ̄_T). The bound holds with probability 1 - δ.

    The kernel is approximated by m features with an error of at most ε_m. On finitely many arms,
    ε_m is 0 if m is the rank of the kernel matrix. If ε_m is positive, the bound is not explicit,
    since Lemma 15 of the paper gives the factor of √ε_m/(1-γ) only as an order.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        gain: γˇ_T for every ``T``, the maximum of :func:`weighted_information_gain` with
            ``double=False``.
        double_gain: γ̄_T for every ``T``, the maximum of :func:`weighted_information_gain` with
            ``double=True``.
        budget: Variation budget B_T for every ``T``, at least 0.
        gamma: Discount γ, strictly between 0 and 1.
        noise: Noise variance λ, at least 0.398, because Lemma 16 needs 1/(2λ) <= ln(1 + 1/λ).
        B: Bound on the norms of all f_t, at least 0.
        R: Sub-Gaussian constant of the noise, at least 0.
        delta: Probability δ that the bound fails, in (0, 1).
        memory: Largest age c in the analysis, at least 1; see :func:`analysis_memory`.
        features: Number m of features that approximate the kernel, at least 1.
        feature_error: Largest error ε_m when m features approximate the kernel, at least 0.

    Returns:
        The bounds, in the shape to which ``T``, the gains and ``budget`` broadcast.

    Raises:
        ValueError: If an argument is out of range.
    """
    width = WGPUCB(B=B, R=R, noise=noise, delta=delta)
    require(
        1 / (2 * noise) <= math.log1p(1 / noise),
        f"w_gp_ucb_regret: noise is {noise}, but Lemma 16 of [W22] needs λ of at least 0.398.",
    )
    context = WidthContext(t=1, dim=1, weighted_information_gain=double_gain)
    beta = torch.as_tensor(width.sqrt_beta(context), device=double_gain.device)
    lost = 1 - gamma
    leak = 2 * noise * features * math.log(1 / gamma)
    static = 2 * beta * (4 * noise * T * gain + leak * T.square()).sqrt()
    drift = 2 / noise * math.pow(memory, 1.5) * budget * (4 * noise * gain + leak * memory).sqrt()
    forgotten = 4 * B * math.pow(gamma, memory) / (noise * lost) * T
    error = math.sqrt(feature_error) / lost
    approximation = (2 / noise * memory * memory * budget + 2 * beta * T) * error
    return static + drift + forgotten + approximation


@checked
def w_gp_ucb_order(T: Rounds, *, gain: Rounds, budget: Rounds, budget_given: bool = True) -> Tensor:
    """γ̇^(7/8) B_T^(1/4) T^(3/4), or γ̇^(7/8) B_T T^(3/4) if B_T is not given, [W22] Corollary 5.

    This formula gives the order of the regret of WGP-UCB, up to a constant and logarithms, if the
    discount is from :func:`botorch_tv.theory.discount`.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        gain: γ̇_T for every ``T``, the larger of the maximum gains γˇ_T and γ̄_T of
            :func:`w_gp_ucb_regret`.
        budget: Variation budget B_T for every ``T``, positive.
        budget_given: Whether the discount was computed from B_T.

    Returns:
        The orders, in the shape to which ``T``, ``gain`` and ``budget`` broadcast.

    Raises:
        ValueError: If an argument is out of range.
    """
    require(
        bool((budget > 0).all()),
        "w_gp_ucb_order: budget is 0, but must be positive; for a static objective see "
        "igp_ucb_order.",
    )
    power = 0.25 if budget_given else 1.0
    return gain.pow(0.875) * budget.pow(power) * T.pow(0.75)


@checked
def analysis_memory(horizon: int, gamma: float) -> int:
    """Memory c = ⌈ln T / (1 - γ)⌉, the largest age in the analysis of [W22] Corollary 5.

    Args:
        horizon: Number of rounds T, at least 1.
        gamma: Discount γ, strictly between 0 and 1.

    Raises:
        ValueError: If an argument is out of range.
    """
    return max(1, math.ceil(math.log(horizon) / (1 - gamma)))


@checked
def quadrature_error(points: int, *, lengthscale: float, dim: int) -> float:
    """Bound d 2^(d-1) (m̄! / (2m̄)!) l^(-2m̄) on ε_m of quadrature features, [W22] Lemma 14.

    ε_m is the error with which :func:`botorch_tv.kernels.features.quadrature_fourier_features`
    approximate the squared exponential kernel on [0, 1]^d. If quadrature nodes are omitted, add
    their weight to the bound. The paper replaces m̄! / (2m̄)! by Stirling's approximation
    (e / (4m̄))^m̄ / √2, which is too small by up to 4 %: at m̄ = 1 and l = 10 the error exceeds the
    paper's bound. The result is infinite if the bound exceeds the largest float64.

    Args:
        points: Number m̄ of nodes per dimension, at least 1.
        lengthscale: Lengthscale l, positive.
        dim: Dimension d of the domain, at least 1.

    Raises:
        ValueError: If an argument is out of range.
    """
    log = math.lgamma(points + 1) - math.lgamma(2 * points + 1) - 2 * points * math.log(lengthscale)
    log += math.log(dim) + (dim - 1) * math.log(2)
    return math.exp(log) if log < 709 else math.inf
