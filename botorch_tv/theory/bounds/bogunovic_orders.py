"""Orders of regret on the Markov model for particular kernels, and for any strategy, [B16] §4.

Each takes the ``constant`` that the paper leaves open. The assumptions are those of
:mod:`botorch_tv.theory.bounds.bogunovic`; the lower bound needs two derivatives.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.theory.arguments import Number, check, rounds
from botorch_tv.theory.rules import exponent


def r_gp_ucb_order(
    T: Number,
    epsilon: float,
    *,
    nu: float | None = None,
    dim: int | None = None,
    constant: float = 1.0,
) -> Tensor:
    """max(√T, T ε^(1/8)), or max(√(T^(1+c)), T ε^((1-c)/(2(4-c)))), [B16] Corollary 4.1.

    An order up to ``constant`` and logarithms, with the period N of :func:`reset_period`.

    Args:
        T: Rounds, at least 1; any shape.
        epsilon: Rate of change ε in [0, 1].
        nu: Smoothness ν of a Matérn kernel, above 2; None for the squared exponential.
        dim: Dimension d, needed for a Matérn kernel.
        constant: Factor on the order, positive.

    Returns:
        The shape of ``T``.

    Raises:
        ValueError: If an argument is out of range.
    """
    return _order("r_gp_ucb_order", T, epsilon, nu, dim, constant, 4)


def tv_gp_ucb_order(
    T: Number,
    epsilon: float,
    *,
    nu: float | None = None,
    dim: int | None = None,
    constant: float = 1.0,
) -> Tensor:
    """max(√T, T ε^(1/6)), or max(√(T^(1+c)), T ε^((1-c)/(2(3-c)))), [B16] Corollary 4.1.

    Arguments and errors are those of :func:`r_gp_ucb_order`.
    """
    return _order("tv_gp_ucb_order", T, epsilon, nu, dim, constant, 3)


def markov_lower_bound(T: Number, epsilon: float, *, constant: float = 1.0) -> Tensor:
    """T ε: no strategy has a lower order of expected regret, [B16] Theorem 4.1.

    An order, known up to ``constant``. Arguments and errors are those of :func:`r_gp_ucb_order`.
    """
    check("markov_lower_bound", epsilon=epsilon, constant=constant)
    return constant * epsilon * rounds("markov_lower_bound", T)


def _order(
    name: str,
    T: Number,
    epsilon: float,
    nu: float | None,
    dim: int | None,
    constant: float,
    power: int,
) -> Tensor:
    horizons = rounds(name, T)
    check(name, epsilon=epsilon, constant=constant)
    c = exponent(name, nu, dim)
    static = horizons ** ((1 + c) / 2)
    return constant * torch.maximum(static, horizons * epsilon ** ((1 - c) / (2 * (power - c))))
