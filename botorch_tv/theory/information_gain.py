"""Information gains of given observations, in nats, and bounds on the maximum gain.

For noise variances N, the gain is ½ ln det(I + N^(-½) K N^(-½)); γ_T of [M] has no factor ½ and is
twice this gain. Every regret bound contains γ_n, the maximum gain over all sets of n observations.
Computing γ_n is hard; a greedy choice of observations gives a lower and an upper bound on γ_n.

[W22] §6 derives bounds on weighted gains from the decay of a kernel's eigenvalues. By
Assumption 1 of [W22], the kernel is the series Σ c_m φ_m(x) φ_m(x') with eigenvalues c_m in falling
order, |k| is at most k̄, and |φ_m| is at most ψ. The proofs of the bounds retain the first N terms
of the kernel's series. The tail δ_N = Σ_{m > N} c_m ψ² bounds the terms that the proofs omit.
"""

from __future__ import annotations

import math
from typing import Literal

import torch
from torch import Tensor

from botorch_tv.acquisition.widths import ClosedForm, Greedy, WidthContext, greedy_gain
from botorch_tv.forgetting.base import Inflation
from botorch_tv.forgetting.inflation import ExponentialWeights
from botorch_tv.gp.covariance import EVALUATED_TOLERANCE
from botorch_tv.theory.horizon import Number, Rounds, beside, checked
from botorch_tv.validation import require


def running_information_gain(covariance: Tensor, noise: Number) -> Tensor:
    """Gain of the first 0, 1, ..., n observations, [B16] (12) and [C17] (10)-(11).

    The squared diagonal of the Cholesky factor of K + N is n_i + var_{i-1}(x_i), the noise
    variances n_i plus the posterior variances.

    Args:
        covariance: Kernel matrix of the observed points, in the order of observation,
            `batch_shape x n x n`; if the covariance includes a temporal decay, the gain is that of
            [B16] (14).
        noise: Noise variances of the observations, a positive number or `batch_shape x n`.

    Returns:
        The gains, `batch_shape x (n + 1)`; the first gain is 0.

    Raises:
        ValueError: If a noise variance is not positive and finite, or if the covariance is not
            symmetric.
        RuntimeError: If the covariance is not a matrix of floating-point numbers, or has an
            eigenvalue too negative for the noise variances to compensate.
    """
    # The factorisation reads only half of the matrix and would not detect asymmetry.
    apart, largest = (covariance - covariance.mT).abs(), covariance.abs()
    require(
        apart.numel() == 0 or bool(apart.max() <= EVALUATED_TOLERANCE * largest.max()),
        "running_information_gain: covariance is not symmetric or not finite; give the covariance "
        "of the points with themselves, in the same order, or (K + K.mT) / 2.",
    )
    variances = torch.as_tensor(noise, dtype=covariance.dtype, device=covariance.device)
    require(
        bool(((variances > 0) & variances.isfinite()).all()),
        "running_information_gain: noise is not positive and finite everywhere; "
        "without noise the gain is infinite.",
    )
    variances = variances.expand(covariance.shape[:-1])
    factor = torch.linalg.cholesky(covariance + torch.diag_embed(variances))
    pivots = factor.diagonal(dim1=-2, dim2=-1)
    steps = pivots.log() - 0.5 * variances.log()
    return torch.nn.functional.pad(steps.cumsum(-1), (1, 0))


def information_gain(covariance: Tensor, noise: Number) -> Tensor:
    """Gain of all n observations, [B16] (12) and [C17] (10)-(11).

    Args:
        covariance: Kernel matrix of the observed points, `batch_shape x n x n`; see
            :func:`running_information_gain`.
        noise: Noise variances of the observations, a positive number or `batch_shape x n`.

    Returns:
        The gains, `batch_shape`.

    Raises:
        ValueError: If a noise variance is not positive and finite, or if the covariance is not
            symmetric.
        RuntimeError: If the covariance has an eigenvalue too negative for the noise variances to
            compensate.
    """
    return running_information_gain(covariance, noise)[..., -1]


@checked
def aged_information_gain(covariance: Tensor, noise: float, inflation: Inflation) -> Tensor:
    """Information gain of observations in successive rounds, with noise that grows with age.

    With :class:`UncertaintyInjection` the gain is half of the logarithm in [M] (12).

    Args:
        covariance: Kernel matrix of the observed points, oldest first, `batch_shape x n x n`.
        noise: Noise variance of the newest observation, positive.
        inflation: Growth of the noise with the lag; the lags are n - 1, ..., 1, 0 rounds.

    Returns:
        The gains, `batch_shape`.

    Raises:
        ValueError: If ``noise`` is not positive and finite.
    """
    lag = torch.arange(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    return information_gain(covariance, noise * inflation.log_factor(lag.flip(0)).exp())


def weighted_information_gain(
    covariance: Tensor, noise: float, gamma: float, *, double: bool = True
) -> Tensor:
    """Gain with weights γ^(-s): the quantity maximised in [W22] eq. (5).

    The weighted gain equals the gain under noise λ γ^(-2 lag), or λ γ^(-lag) if ``double`` is
    False.

    Args:
        covariance: Kernel matrix of the observed points, oldest first, `batch_shape x n x n`.
        noise: Noise variance λ, positive.
        gamma: Discount γ in (0, 1].
        double: True to weight the kernel by the squares of the weights, as in the confidence width;
            False to weight it by the weights themselves.

    Returns:
        The gains, `batch_shape`.

    Raises:
        ValueError: If ``noise`` or ``gamma`` is out of range.
    """
    ExponentialWeights(gamma)  # checks γ, because γ² may be in range although γ is not
    discount = ExponentialWeights(gamma**2 if double else gamma)
    return aged_information_gain(covariance, noise, discount)


# Bounds on the maximum information gain.


def greedy_information_gain(covariance: Tensor, noise: float, horizon: int) -> Tensor:
    """Upper bounds on γ_0, ..., γ_T for a static objective on finitely many arms.

    The bound is the gain of a greedy choice divided by 1 - 1/e (see
    :class:`botorch_tv.acquisition.Greedy`); the gain of the greedy choice itself is a lower bound.
    Noise that grows with age lowers the gain, so the bound also holds for weighted gains. For the
    Markov model see :func:`markov_information_gain`.

    Args:
        covariance: Kernel matrix of all arms, `M x M`.
        noise: Noise variance σ² (λ in [C17]), positive.
        horizon: Number of rounds T, at least 1.

    Returns:
        `T + 1` bounds; the bound at index n is for n observations, and the first is 0. Pass
        ``gain[1:]`` to bounds over 1, ..., T rounds:
        ``igp_ucb_regret(torch.arange(1, T + 1), gain=gain[1:], ...)``.

    Raises:
        InputDataError: If ``covariance`` is not a covariance matrix.
        ValueError: If ``noise`` or ``horizon`` is out of range.
    """
    values = Greedy.of(covariance, noise, horizon).values
    return torch.tensor(values, dtype=torch.float64, device=covariance.device)


@checked
def markov_information_gain(
    covariance: Tensor, noise: float, epsilon: float, horizon: int
) -> Tensor:
    """Upper bounds on γ~_0, ..., γ~_T of the Markov model, [B16] (14)-(15), on a grid.

    The bound is twice the gain of a strategy that plays the most uncertain arm of f_t in each
    round. A greedy choice over successive sets reaches at least half of the maximum of a monotone
    submodular function (Fisher, Nemhauser and Wolsey 1978). For ε = 0, the result is the tighter
    bound of :func:`greedy_information_gain`.

    Args:
        covariance: Kernel matrix of all arms, `M x M`.
        noise: Noise variance σ², positive.
        epsilon: Rate of change ε in [0, 1].
        horizon: Number of rounds T, at least 1.

    Returns:
        `T + 1` bounds in float64; the bound at index n is for n rounds, and the first is 0. Pass
        ``gain[1:]`` to bounds over 1, ..., T rounds:
        ``tv_gp_ucb_regret(torch.arange(1, T + 1), gain=gain[1:], ...)``.

    Raises:
        InputDataError: If ``covariance`` is not a covariance matrix.
        ValueError: If ``noise``, ``epsilon`` or ``horizon`` is out of range.
    """
    if epsilon == 0:
        return greedy_information_gain(covariance, noise, horizon)
    twice = 2 * greedy_gain(covariance, noise, horizon, epsilon)
    return torch.nn.functional.pad(twice, (1, 0))


@checked
def closed_form_information_gain(
    T: Rounds, dim: int, kernel: Literal["se", "matern"], nu: float | None = None
) -> Tensor:
    """The order of the maximum information gain γ_T, [C17] §3.1.

    Up to a constant, the order is (ln T)^(d+1) for the squared exponential kernel, and T^c ln T
    with c = d(d+1)/(2ν + d(d+1)) for a Matérn kernel. The order is not a bound, and ignores
    lengthscale and noise.

    Args:
        T: Number T of observations, at least 1; a scalar or a tensor of any shape.
        dim: Dimension d of the domain, at least 1.
        kernel: ``"se"`` or ``"matern"``.
        nu: Smoothness ν of the Matérn kernel; None for ``"se"``.

    Returns:
        The orders, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    order = ClosedForm(kernel, nu)
    values = [order.value(WidthContext(int(n) + 1, dim)) for n in T.flatten().tolist()]
    return beside(values, T).view(T.shape)


@checked
def matern_exponent(nu: float, dim: int) -> float:
    """Exponent c = d(d+1) / (2ν + d(d+1)), the power of T in the order of γ_T for a Matérn kernel.

    Args:
        nu: Smoothness ν, positive.
        dim: Dimension d of the domain, at least 1.

    Raises:
        ValueError: If ``nu`` is not positive and finite or ``dim`` is below 1.
    """
    return dim * (dim + 1) / (2 * nu + dim * (dim + 1))


@checked
def linear_gain_bound(T: Rounds, *, dim: int, noise: float, k_bar: float = 1.0) -> Tensor:
    """γ_T <= d/2 ln(1 + k̄T/(λd)) for the linear kernel xᵀx'; [C17] §4 gives only O(d ln T).

    By Sylvester's identity, the gain is ½ ln det(I + Σ xxᵀ/λ). The d x d matrix I + Σ xxᵀ/λ has a
    trace of at most d + k̄T/λ, and its determinant is largest if its eigenvalues are equal.
    Equality holds if T is a multiple of d and each of d orthogonal points of squared norm k̄ is
    played T/d times.

    Args:
        T: Number T of observations, at least 1; a scalar or a tensor of any shape.
        dim: Dimension d of the domain, at least 1.
        noise: Noise variance λ, positive.
        k_bar: The largest squared norm k̄ of a point, positive.

    Returns:
        The bounds, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return universal_gain_bound(T, noise=noise, terms=dim, tail=0.0, k_bar=k_bar)


# Bounds from the decay of the kernel's eigenvalues.


@checked
def universal_gain_bound(
    T: Rounds, *, noise: float, terms: int, tail: float, k_bar: float = 1.0
) -> Tensor:
    """γ̇_T <= N/2 ln(1 + k̄T/(λN)) + T δ_N/(2λ), [W22] Theorem 6.

    The bound holds for gains without weights, and for gains with any increasing weights, whether
    the kernel is weighted by the weights or by their squares.

    Args:
        T: Number T of observations, at least 1; a scalar or a tensor of any shape.
        noise: Noise variance λ, positive.
        terms: Number N of terms that the proof retains from the kernel's series, at least 1.
        tail: Bound δ_N on the terms that the proof omits from the kernel's series, at least 0.
        k_bar: Bound k̄ on |k|, positive.

    Returns:
        The bounds, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return terms / 2 * (k_bar * T / (noise * terms)).log1p() + T * tail / (2 * noise)


@checked
def discounted_gain_bound(
    *, gamma: float, noise: float, terms: int, tail: float, k_bar: float = 1.0, double: bool = True
) -> float:
    """γ̄_T <= N/2 ln(1 + k̄/(λN(1 - γ²))) + δ_N/(2λ(1 - γ²)) for weights γ^(-s), [W22] Thm 7.

    The bound does not depend on T. If ``double`` is False, γ replaces γ², as in Appendix D.2. (The
    sentence after Corollary 8 of the paper exchanges the cases of γ and γ².)

    Args:
        gamma: Discount γ, strictly between 0 and 1.
        noise: Noise variance λ, positive.
        terms: Number N of terms that the proof retains from the kernel's series, at least 1.
        tail: Bound δ_N on the terms that the proof omits from the kernel's series, at least 0.
        k_bar: Bound k̄ on |k|, positive.
        double: As in :func:`weighted_information_gain`.

    Raises:
        ValueError: If an argument is out of range.
    """
    lost = noise * (1 - gamma**2 if double else 1 - gamma)
    return terms / 2 * math.log1p(k_bar / (terms * lost)) + tail / (2 * lost)


@checked
def polynomial_gain_bound(
    *,
    gamma: float,
    noise: float,
    C_p: float,
    beta_p: float,
    psi: float = 1.0,
    k_bar: float = 1.0,
    double: bool = True,
) -> float:
    """((C_p ψ²/(λ(1-γ²)))^(1/β_p) L^(-1/β_p) + 1) L, L = ln(1 + k̄/(λ(1-γ²))), [W22] Cor. 8.1.

    The bound is for eigenvalues c_m <= C_p m^(-β_p). The proof bounds the tail δ_N by
    C_p ψ² N^(1 - β_p); this step requires β_p >= 2.

    Args:
        gamma: Discount γ, strictly between 0 and 1.
        noise: Noise variance λ, positive.
        C_p: Factor C_p in the bound on the eigenvalues, positive.
        beta_p: Exponent β_p in the bound on the eigenvalues, at least 2.
        psi: Bound ψ on the eigenfunctions |φ_m|, positive.
        k_bar: Bound k̄ on |k|, positive.
        double: As in :func:`weighted_information_gain`.

    Raises:
        ValueError: If an argument is out of range.
    """
    lost = noise * (1 - gamma**2 if double else 1 - gamma)
    log = math.log1p(k_bar / lost)
    return (math.pow(C_p * psi**2 / (lost * log), 1 / beta_p) + 1) * log


@checked
def exponential_gain_bound(
    *,
    gamma: float,
    noise: float,
    C_e1: float,
    C_e2: float,
    psi: float = 1.0,
    k_bar: float = 1.0,
    double: bool = True,
) -> float:
    """((ln(1/(1-γ²)) + ln(C_e1 ψ²/(λ C_e2))) / C_e2 + 1) ln(1 + k̄/(λ(1-γ²))), [W22] Cor. 8.2.

    The bound is for eigenvalues c_m <= C_e1 exp(-C_e2 m). The proof retains N terms of the kernel's
    series, where N is (ln(1/(1-γ²)) + ln(C_e1 ψ²/(λ C_e2))) / C_e2, rounded up. The number N of
    terms must be positive, and the bound on the gain must be at least 1 nat.

    Args:
        gamma: Discount γ, strictly between 0 and 1.
        noise: Noise variance λ, positive.
        C_e1: Factor C_e1 in the bound on the eigenvalues, positive.
        C_e2: Rate C_e2 in the bound on the eigenvalues, positive.
        psi: Bound ψ on the eigenfunctions |φ_m|, positive.
        k_bar: Bound k̄ on |k|, positive.
        double: As in :func:`weighted_information_gain`.

    Raises:
        ValueError: If an argument is out of range, or if the noise is too large for the proof.
    """
    lost = noise * (1 - gamma**2 if double else 1 - gamma)
    retained = math.log(C_e1 * psi**2 / (C_e2 * lost)) / C_e2
    log = math.log1p(k_bar / lost)
    require(
        retained > 0 and (retained + 1) * log >= 1,
        f"exponential_gain_bound: noise is {noise}, but with these constants the proof requires "
        f"noise below {C_e1 * psi**2 * noise / (C_e2 * lost):.4g} and a gain of at "
        f"least 1 nat ({(retained + 1) * log:.4g} here); use discounted_gain_bound.",
    )
    return (retained + 1) * log
