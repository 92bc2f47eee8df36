"""Parts that several regret bounds have in common."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from botorch_tv.acquisition.widths import BayesEventTriggered, BayesResetting, BayesTV, WidthContext
from botorch_tv.theory.arguments import check

BayesWidth = BayesTV | BayesResetting | BayesEventTriggered


def information_constant(name: str, noise: float) -> float:
    """C_1 = 8 / ln(1 + σ^(-2)), [B16] Theorem 4.2; it turns gain into variance for k(x, x) <= 1."""
    check(name, noise=noise)
    return 8 / math.log1p(1 / noise)


def bayes_beta(name: str, width: BayesWidth, T: Tensor, dim: int) -> Tensor:
    """β_T of a Bayesian width at every horizon, the shape of ``T``."""
    (dim,) = check(name, dim=dim)
    values = [width.multiplier(WidthContext(int(t), dim)) ** 2 for t in T.flatten().tolist()]
    return torch.tensor(values, dtype=T.dtype, device=T.device).view(T.shape)


def block_regret(constant: float, T: Tensor, beta: Tensor, block: int, gain: Tensor) -> Tensor:
    """√(C_1 T β_T (T/N + 1) γ_N) + 2, the part of a bound that does not come from change."""
    return (constant * T * beta * (T / block + 1) * gain).sqrt() + 2


def smallest_constant(order: Tensor, measured: Tensor) -> float:
    """The smallest factor with which an order lies above a measured curve everywhere.

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
    """The largest factor with which a lower order lies below a measured curve everywhere.

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
