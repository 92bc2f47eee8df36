"""Regret of IGP-UCB and GP-TS on a function that stands still, [C17] §4.

All assume ‖f‖_k <= B, k(x, x) <= 1, R-sub-Gaussian noise and regression with λ = 1 + 2/T, for which
γ_T is meant; a run with the λ of its horizon is covered in all its rounds. The theorems are stated
as orders. The constants are those of their proofs, in Appendices D and E.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_tv.acquisition.widths import IGPUCB, WidthContext
from botorch_tv.theory.arguments import Number, check, gain_like, rounds, within
from botorch_tv.validation import require, require_number

OPTIMISM = 1 / (4 * math.e * math.sqrt(math.pi))
"""p: the least probability that a sample exceeds f at its maximum, [C17] Lemma 8."""


def igp_ucb_regret(T: Number, *, gain: Number, B: float, R: float, delta: float) -> Tensor:
    """2 β_T √(4(T + 2) γ_T) with β_T = B + R √(2(γ_T + 1 + ln(1/δ))), [C17] Theorem 3.

    The explicit form of its proof: Appendix D with Lemma 4. Holds with probability 1 - δ.

    Args:
        T: Rounds, at least 1; any shape.
        gain: γ_T for every ``T``, at least 0; that of :func:`greedy_information_gain` without its
            first value, ``[1:]``, for 1, 2, ... rounds.
        B: Bound on the norm of f, at least 0.
        R: Sub-Gaussian constant of the noise, at least 0.
        delta: Probability δ of failure, in (0, 1).

    Returns:
        The shape of ``T`` and ``gain`` together.

    Raises:
        ValueError: If an argument is out of range.
    """
    horizons = rounds("igp_ucb_regret", T)
    gains = gain_like("igp_ucb_regret: gain", gain, horizons)
    return 2 * _width(gains, B, R, delta) * _total_deviation(horizons, gains)


def igp_ucb_order(
    T: Number, *, gain: Number, B: float, delta: float, constant: float = 1.0
) -> Tensor:
    """B √(T γ_T) + √(T γ_T (γ_T + ln(1/δ))), [C17] Theorem 3 as stated.

    An order, known up to ``constant``, in which R is hidden. The other arguments and the errors
    are those of :func:`igp_ucb_regret`.
    """
    horizons = rounds("igp_ucb_order", T)
    gains = gain_like("igp_ucb_order: gain", gain, horizons)
    check("igp_ucb_order", B=B, delta=delta, constant=constant)
    noisy = (horizons * gains * (gains - math.log(delta))).sqrt()
    return constant * (B * (horizons * gains).sqrt() + noisy)


def log_decision_set(T: Number, *, B: float, L: float, r: float, dim: int) -> Tensor:
    """Size of the discretisation that [C17] Theorem 4 plays on, ln |D_T| = d ln(B L r d T²).

    Args:
        T: Rounds, at least 1; any shape.
        B: Bound on the norm of f, positive.
        L: Bound on the slopes of the kernel, √(∂²k/∂p_j∂q_j) at p = q, positive; 1/l for a squared
            exponential of lengthscale l.
        r: Side of the box around the domain, positive.
        dim: Dimension d, at least 1.

    Returns:
        The shape of ``T``.

    Raises:
        ValueError: If an argument is out of range, or the set would have less than one point.
    """
    horizons = rounds("log_decision_set", T)
    for symbol, value in (("B", B), ("L", L), ("r", r)):
        require_number(f"log_decision_set: {symbol}", value, "(0, inf)", "the set grows with it.")
    (dim,) = check("log_decision_set", dim=dim)
    cells = B * L * r * dim
    least = float(horizons.min())
    require(
        cells * least**2 >= 1,
        f"log_decision_set: B L r d T² is {cells * least**2:.4g} at T = {least:g}, but a decision "
        "set has at least 1 point; raise B.",
    )
    return dim * (cells * horizons**2).log()


def gp_ts_regret(
    T: Number, *, gain: Number, B: float, R: float, delta: float, log_decisions: Number
) -> Tensor:
    """(11 c_T/p) √(4(T+2) γ_T) + (2B+1)π²/6 + ((4B+11) c_T/p) √(2T ln(2/δ)), [C17] Theorem 4.

    The explicit form of its proof, Lemma 13 with Lemma 4: p = 1/(4e√π), c_T = v_T (1 + c~_T),
    v_T = B + R √(2(γ_T + 1 + ln(2/δ))) and c~_T = √(2 ln(|D_T| T²)). Holds with probability 1 - δ.

    Args:
        T: Rounds, at least 1; any shape.
        gain: γ_T for every ``T``, at least 0.
        B: Bound on the norm of f, at least 0; so large that 2B + 1 <= 2B v_1/p, which the proof
            takes for granted.
        R: Sub-Gaussian constant of the noise, at least 0.
        delta: Probability δ of failure, in (0, 1).
        log_decisions: ln |D_T|, at least 0: the logarithm of the number of arms, or
            :func:`log_decision_set`.

    Returns:
        The shape of ``T``, ``gain`` and ``log_decisions`` together.

    Raises:
        ValueError: If an argument is out of range.
    """
    name = "gp_ts_regret"
    horizons = rounds(name, T)
    gains = gain_like(f"{name}: gain", gain, horizons)
    fix = "it is the logarithm of the number of points to choose from."
    size = within(f"{name}: log_decisions", log_decisions, horizons, "[0, inf)", fix)
    first = float(_width(torch.zeros_like(horizons), B, R, delta / 2).max())
    slack = 2 * B * first / OPTIMISM
    require(
        slack >= 2 * B + 1,
        f"{name}: B is {B}, but the proof needs 2B + 1 <= 2B v_1/p, which is {slack:.4g}; "
        "a larger B bounds the norm as well.",
    )
    spread = 1 + (2 * (size + 2 * horizons.log())).sqrt()
    scale = _width(gains, B, R, delta / 2) * spread / OPTIMISM
    chance = (4 * B + 11) * scale * (2 * horizons * math.log(2 / delta)).sqrt()
    discretisation = (2 * B + 1) * math.pi**2 / 6
    return 11 * scale * _total_deviation(horizons, gains) + discretisation + chance


def gp_ts_order(
    T: Number, *, gain: Number, B: float, dim: int, delta: float, constant: float = 1.0
) -> Tensor:
    """√((γ_T + ln(2/δ)) d ln(BdT)) (√(T γ_T) + B √(T ln(2/δ))), [C17] Theorem 4 as stated.

    An order, known up to ``constant``; R, L and r are part of it.

    Args:
        T: Rounds, at least 1, with B d T at least 1; any shape.
        gain: γ_T for every ``T``, at least 0.
        B: Bound on the norm of f, positive.
        dim: Dimension d, at least 1.
        delta: Probability δ of failure, in (0, 1).
        constant: Factor on the order, positive.

    Returns:
        The shape of ``T`` and ``gain`` together.

    Raises:
        ValueError: If an argument is out of range.
    """
    horizons = rounds("gp_ts_order", T)
    gains = gain_like("gp_ts_order: gain", gain, horizons)
    require_number("gp_ts_order: B", B, "(0, inf)", "it bounds the norm of f.")
    dim, delta, constant = check("gp_ts_order", dim=dim, delta=delta, constant=constant)
    least = float(horizons.min())
    require(
        B * dim * least >= 1,
        f"gp_ts_order: B d T is {B * dim * least:.4g} at T = {least:g}, but its logarithm must not "
        f"be negative; start at T = {math.ceil(1 / (B * dim))}.",
    )
    risk = math.log(2 / delta)
    first = ((gains + risk) * dim * (B * dim * horizons).log()).sqrt()
    return constant * first * ((horizons * gains).sqrt() + B * (horizons * risk).sqrt())


def _width(gain: Tensor, B: float, R: float, delta: float) -> Tensor:
    # The schedule depends on the gain alone, not on the round or the dimension.
    context = WidthContext(t=1, dim=1, information_gain=gain)
    return torch.as_tensor(IGPUCB(B=B, R=R, delta=delta).sqrt_beta(context), device=gain.device)


def _total_deviation(T: Tensor, gain: Tensor) -> Tensor:
    """Σ_t σ_{t-1}(x_t) <= √(4(T + 2) γ_T), [C17] Lemma 4."""
    return (4 * (T + 2) * gain).sqrt()
