"""Bounds of [C17] on the regret of IGP-UCB and GP-TS for a static function (§4), and on the noise.

The bounds on regret assume ‖f‖_k <= B, k(x, x) <= 1, R-sub-Gaussian noise, and regression with λ =
1 + 2/T; γ_T is computed with the same λ. The bounds hold in all rounds of a run if λ is computed
from the run's horizon. The theorems state orders; the constants here come from the proofs in
Appendices D and E.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_tv.acquisition.widths import IGPUCB, WidthContext
from botorch_tv.theory.horizon import Rounds, checked
from botorch_tv.validation import require

OPTIMISM = 1 / (4 * math.e * math.sqrt(math.pi))
"""p, a lower bound on the probability that a sample at the maximiser of f exceeds f, [C17] Lemma
8."""


@checked
def noise_norm(covariance: Tensor, errors: Tensor, eta: float) -> Tensor:
    """ε^T ((K + ηI)^(-1) + I)^(-1) ε, the self-normalised noise, left side of [C17] Theorem 1.

    The matrix between the two vectors ε equals I - ((1 + η)I + K)^(-1), so K may be singular.

    Args:
        covariance: The kernel matrix K of the points played, `batch_shape x n x n`.
        errors: ε, the noise of the observations, `batch_shape x n`.
        eta: Regularisation η, at least 0; it may be 0 only if K is positive definite.

    Returns:
        The norms, `batch_shape`.

    Raises:
        ValueError: If ``eta`` is negative or not finite.
        RuntimeError: If (1 + η)I + K is not positive definite.
    """
    factor = torch.linalg.cholesky(_shifted(covariance, eta))
    solved = torch.linalg.solve_triangular(factor, errors.unsqueeze(-1), upper=False)
    return errors.square().sum(-1) - solved.square().sum((-2, -1))


@checked
def noise_norm_bound(covariance: Tensor, *, R: float, delta: float, eta: float) -> Tensor:
    """2R² ln(√det((1 + η)I + K) / δ), the bound on :func:`noise_norm` of [C17] Theorem 1.

    If each point depends only on past observations, the bound holds in all rounds with probability
    at least 1 - δ.

    Args:
        covariance: The kernel matrix K of the points played, `batch_shape x n x n`.
        R: Sub-Gaussian constant of the noise, at least 0.
        delta: Probability δ that the bound fails, in (0, 1).
        eta: Regularisation η, at least 0; it may be 0 only if K is positive definite.

    Returns:
        The bounds, `batch_shape`.

    Raises:
        ValueError: If an argument is out of range.
        RuntimeError: If (1 + η)I + K is not positive definite.
    """
    factor = torch.linalg.cholesky(_shifted(covariance, eta))
    log_root = factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    return 2 * R**2 * (log_root - math.log(delta))


@checked
def igp_ucb_regret(T: Rounds, *, gain: Rounds, B: float, R: float, delta: float) -> Tensor:
    """2 β_T √(4(T + 2) γ_T) with β_T = B + R √(2(γ_T + 1 + ln(1/δ))), [C17] Theorem 3.

    This formula bounds the regret of IGP-UCB over T rounds with probability 1 - δ. Appendix D and
    Lemma 4 of the paper give this explicit form.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        gain: Maximum information gain γ_T for every ``T``, at least 0; if ``T`` is 1, 2, ..., pass
            ``greedy_information_gain(...)[1:]``.
        B: Bound on the norm of f, at least 0.
        R: Sub-Gaussian constant of the noise, at least 0.
        delta: Probability δ that the bound fails, in (0, 1).

    Returns:
        The bounds, in the shape to which ``T`` and ``gain`` broadcast.

    Raises:
        ValueError: If an argument is out of range.
    """
    return 2 * _width(gain, B, R, delta) * _total_deviation(T, gain)


@checked
def igp_ucb_order(T: Rounds, *, gain: Rounds, B: float, delta: float) -> Tensor:
    """B √(T γ_T) + √(T γ_T (γ_T + ln(1/δ))), [C17] Theorem 3 as stated.

    This formula gives the order of the regret of IGP-UCB; its constant includes R.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        gain: Maximum information gain γ_T for every ``T``, at least 0.
        B: Bound on the norm of f, at least 0.
        delta: Probability δ that the bound fails, in (0, 1).

    Returns:
        The orders, in the shape to which ``T`` and ``gain`` broadcast.

    Raises:
        ValueError: If an argument is out of range.
    """
    noisy = (T * gain * (gain - math.log(delta))).sqrt()
    return B * (T * gain).sqrt() + noisy


@checked
def log_decision_set(T: Rounds, *, B: float, L: float, r: float, dim: int) -> Tensor:
    """Logarithm of the size of the decision set, ln |D_T| = d ln(B L r d T²), [C17] Theorem 4.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        B: Bound on the norm of f, positive.
        L: Bound on the slopes of the kernel, √(∂²k/∂p_j∂q_j) at p = q, positive; 1/l for a squared
            exponential of lengthscale l.
        r: Side length r of the box around the domain, positive.
        dim: Dimension d of the domain, at least 1.

    Returns:
        The logarithms, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range, or if the decision set has less than 1 point.
    """
    cells = B * L * r * dim
    least = float(T.min())
    require(
        cells * least**2 >= 1,
        f"log_decision_set: B L r d T² is {cells * least**2:.4g} at T = {least:g}, but a decision "
        "set has at least 1 point; raise B.",
    )
    return dim * (cells * T**2).log()


@checked
def gp_ts_regret(
    T: Rounds, *, gain: Rounds, B: float, R: float, delta: float, log_decisions: Rounds
) -> Tensor:
    """(11 c_T/p) √(4(T+2) γ_T) + (2B+1)π²/6 + ((4B+11) c_T/p) √(2T ln(2/δ)), [C17] Theorem 4.

    This formula bounds the regret of GP-TS over T rounds. Lemmas 13 and 4 of the paper give this
    explicit form with p = 1/(4e√π), c_T = v_T (1 + c~_T), v_T = B + R √(2(γ_T + 1 + ln(2/δ))) and
    c~_T = √(2 ln(|D_T| T²)). The bound holds with probability 1 - δ.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        gain: Maximum information gain γ_T for every ``T``, at least 0.
        B: Bound on the norm of f, at least 0, with 2B + 1 <= 2B v_1/p, as the proof assumes.
        R: Sub-Gaussian constant of the noise, at least 0.
        delta: Probability δ that the bound fails, in (0, 1).
        log_decisions: ln |D_T|, at least 0: the logarithm of the number of arms, or
            :func:`log_decision_set`.

    Returns:
        The bounds, in the shape to which ``T``, ``gain`` and ``log_decisions`` broadcast.

    Raises:
        ValueError: If an argument is out of range.
    """
    first = float(_width(torch.zeros_like(T), B, R, delta / 2).max())
    slack = 2 * B * first / OPTIMISM
    require(
        slack >= 2 * B + 1,
        f"gp_ts_regret: B is {B}, but the proof needs 2B + 1 <= 2B v_1/p, where the right side "
        f"is {slack:.4g}; give a larger B, which is also a valid bound.",
    )
    spread = 1 + (2 * (log_decisions + 2 * T.log())).sqrt()
    scale = _width(gain, B, R, delta / 2) * spread / OPTIMISM
    chance = (4 * B + 11) * scale * (2 * T * math.log(2 / delta)).sqrt()
    discretisation = (2 * B + 1) * math.pi**2 / 6
    return 11 * scale * _total_deviation(T, gain) + discretisation + chance


@checked
def gp_ts_order(T: Rounds, *, gain: Rounds, B: float, dim: int, delta: float) -> Tensor:
    """√((γ_T + ln(2/δ)) d ln(BdT)) (√(T γ_T) + B √(T ln(2/δ))), [C17] Theorem 4 as stated.

    This formula gives the order of the regret of GP-TS; its constant includes R, L and
    r.

    Args:
        T: Number T of rounds, at least 1, with B d T at least 1; a scalar or a tensor of any shape.
        gain: Maximum information gain γ_T for every ``T``, at least 0.
        B: Bound on the norm of f, positive.
        dim: Dimension d of the domain, at least 1.
        delta: Probability δ that the bound fails, in (0, 1).

    Returns:
        The orders, in the shape to which ``T`` and ``gain`` broadcast.

    Raises:
        ValueError: If an argument is out of range.
    """
    cells = B * dim * T
    require(
        bool((cells >= 1).all()),
        f"gp_ts_order: B d T is {float(cells.min()):.4g} at the first T, but its logarithm must "
        "not be negative; start at a later T.",
    )
    risk = math.log(2 / delta)
    first = ((gain + risk) * dim * cells.log()).sqrt()
    return first * ((T * gain).sqrt() + B * (T * risk).sqrt())


@checked
def linear_order(T: Rounds, *, dim: int, power: float = 1.0) -> Tensor:
    """d^p √T: orders of the regret for linear functions θᵀx, [C17] §4.

    The order is d√T for IGP-UCB, which is also the lower bound for infinitely many arms (Dani et
    al. 2008); d^(3/2) √T for GP-TS; and √(dT) for KernelUCB on finitely many arms. All orders hold
    up to a constant and logarithms. For another kernel the order of KernelUCB is √(d~T), where
    the effective dimension d~ is at most of the order of γ_T.

    Args:
        T: Number T of rounds, at least 1; a scalar or a tensor of any shape.
        dim: Dimension d of the domain, at least 1.
        power: The power p of d: 1 for IGP-UCB, 1.5 for GP-TS, 0.5 for KernelUCB.

    Returns:
        The orders, in the shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return math.pow(dim, power) * T.sqrt()


def _shifted(covariance: Tensor, eta: float) -> Tensor:
    eye = torch.eye(covariance.shape[-1], dtype=covariance.dtype, device=covariance.device)
    return covariance + (1 + eta) * eye


def _width(gain: Tensor, B: float, R: float, delta: float) -> Tensor:
    # The confidence width depends on the gain alone, not on the round or the dimension.
    context = WidthContext(t=1, dim=1, information_gain=gain)
    return torch.as_tensor(IGPUCB(B=B, R=R, delta=delta).sqrt_beta(context), device=gain.device)


def _total_deviation(T: Tensor, gain: Tensor) -> Tensor:
    """Σ_t σ_{t-1}(x_t) <= √(4(T + 2) γ_T), [C17] Lemma 4."""
    return (4 * (T + 2) * gain).sqrt()
