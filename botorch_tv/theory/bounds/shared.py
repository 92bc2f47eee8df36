"""Parts that several regret bounds have in common."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from botorch_tv.acquisition.gains import WidthContext
from botorch_tv.acquisition.widths import BayesEventTriggered, BayesResetting, BayesTV
from botorch_tv.theory.arguments import Number, check, gain_like, rounds

BayesWidth = BayesTV | BayesResetting | BayesEventTriggered


def information_constant(name: str, noise: float) -> float:
    """C_1 = 8 / ln(1 + σ^(-2)), [B16] Theorem 4.2; it turns gain into variance for k(x, x) <= 1."""
    check(name, noise=noise)
    return 8 / math.log1p(1 / noise)


def bayes_beta(name: str, width: BayesWidth, T: Tensor, dim: int) -> Tensor:
    """β_T of a Bayesian width at every horizon, the shape of ``T``."""
    (dim,) = check(name, dim=dim)
    values = [width.sqrt_beta(WidthContext(int(t), dim)) ** 2 for t in T.flatten().tolist()]
    return torch.tensor(values, dtype=T.dtype, device=T.device).view(T.shape)


def block_regret(
    name: str,
    T: Number,
    width: BayesWidth,
    block: int,
    gain: Number,
    noise: float,
    dim: int,
    mismatch: Callable[[Tensor], Tensor],
) -> Tensor:
    """√(C_1 T β_T (T/N + 1) γ_N) + 2 + T ψ, where strategies forget at least every N rounds.

    Args:
        name: Which bound it is, for errors.
        T: Rounds, any shape.
        width: That of β_T.
        block: N.
        gain: γ_N.
        noise: σ².
        dim: Dimension d.
        mismatch: ψ from β_T, the regret per round for ignoring change within a block.
    """
    horizons = rounds(name, T)
    constant = information_constant(name, noise)
    beta = bayes_beta(name, width, horizons, dim)
    gains = gain_like(f"{name}: gain", gain, horizons)
    ignored = horizons * mismatch(beta)
    return (constant * horizons * beta * (horizons / block + 1) * gains).sqrt() + 2 + ignored


def smallest_constant(order: Tensor, measured: Tensor) -> float:
    """The smallest factor for which an order lies above a measured curve everywhere.

    For orders whose constant no paper states: the constant is then fitted, so the picture compares
    shapes, not levels.

    Args:
        order: The order with constant 1, `rounds`; rounds where it is 0 are left out.
        measured: What it is laid over, `rounds`.

    Raises:
        ValueError: If the order is 0 everywhere.
    """
    return float(_ratios("smallest_constant", order, measured).max())


def largest_constant(order: Tensor, measured: Tensor) -> float:
    """The largest factor for which a lower order lies below a measured curve everywhere.

    Arguments and errors are those of :func:`smallest_constant`.
    """
    return float(_ratios("largest_constant", order, measured).min())


def _ratios(name: str, order: Tensor, measured: Tensor) -> Tensor:
    known = order > 0
    if not bool(known.any()):
        raise ValueError(
            f"{name}: the order is 0 in all rounds, so no factor fits it; give later rounds."
        )
    return measured[known] / order[known]
