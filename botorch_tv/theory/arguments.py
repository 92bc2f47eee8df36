"""Checks, conversions and parts of bounds that the functions of the theory share.

Everything is computed in float64 unless a horizon is given in another floating type, on the device
of the horizon. Functions take a number or a tensor where results are wanted for many horizons at
once, and always answer with a tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from botorch_tv.acquisition.widths import BayesEventTriggered, BayesResetting, BayesTV, WidthContext
from botorch_tv.validation import INTERVALS, require, require_integer, require_number

Number = float | Tensor


def rounds(name: str, T: Number, least: int = 1) -> Tensor:
    """A horizon as a tensor of its own shape.

    Args:
        name: The function that asks, for the error.
        T: Whole numbers of rounds, any shape.
        least: The smallest horizon that the result is about.

    Raises:
        ValueError: If a value is below ``least``, not whole or not finite.
    """
    fix = f"a whole number of rounds of at least {least}"
    if not isinstance(T, Tensor):
        T = require_number(f"{name}: T", T, "[-inf, inf]", f"give {fix}, or a tensor of such.")
        T = torch.tensor(T, dtype=torch.float64, device="cpu")
    T = T if T.is_floating_point() else T.to(torch.float64)
    wrong = ~((least <= T) & T.isfinite() & (T.frac() == 0))
    if bool(wrong.any()):
        raise ValueError(f"{name}: T is {T[wrong][0].item():g}, but it must be {fix}.")
    return T


def within(name: str, value: Number, T: Tensor, interval: str, fix: str) -> Tensor:
    """A number, or one for every horizon, as a tensor beside ``T``.

    Args:
        name: The argument, for the error.
        value: Finite values from 0 on, or above 0, broadcastable with ``T``.
        T: Horizons.
        interval: ``"[0, inf)"`` or ``"(0, inf)"``.
        fix: Ends the error.

    Raises:
        ValueError: If a value lies outside.
    """
    value = torch.as_tensor(value, dtype=T.dtype, device=T.device)
    wrong = ~((value > 0 if interval == "(0, inf)" else value >= 0) & value.isfinite())
    if bool(wrong.any()):
        raise ValueError(
            f"{name} is {value[wrong][0].item():g}, but it must {INTERVALS[interval]}; {fix}"
        )
    return value


def gain_like(name: str, gain: Number, T: Tensor) -> Tensor:
    """An information gain as a tensor beside ``T``; see :func:`within`.

    Gains of 0, 1, ..., T observations, such as those of ``greedy_information_gain``, begin one too
    early for bounds about 1, ..., T rounds.
    """
    require(
        not (isinstance(gain, Tensor) and gain.dim() == T.dim() == 1 and len(gain) == len(T) + 1),
        f"{name} begins with that of no round; give gain[1:], one per entry of T.",
    )
    return within(name, gain, T, "[0, inf)", "greedy_information_gain bounds the largest one.")


RANGES: dict[str, tuple[str | int, str]] = {
    "B": ("[0, inf)", "it bounds the norm of f."),
    "C_e1": ("(0, inf)", "it scales the eigenvalues."),
    "C_e2": ("(0, inf)", "it is the rate of decay of the eigenvalues."),
    "C_p": ("(0, inf)", "it scales the eigenvalues."),
    "a0": ("[0, inf)", "it bounds the tail of sup |f|."),
    "alpha": ("[0, inf)", "0 is static."),
    "b0": ("[0, inf)", "it bounds the tail of sup |f|."),
    "block": (1, "it divides the rounds in the analysis."),
    "budget": ("(0, inf)", "it bounds the total change; one of 0 calls for no forgetting."),
    "constant": ("(0, inf)", "it scales an order; 1 is usual."),
    "delta": ("(0, 1)", "it is a probability; the papers use 0.1."),
    "dim": (1, "give the domain's dimension."),
    "epsilon": ("[0, 1]", "0 is no change."),
    "feature_error": ("[0, inf)", "it bounds an error."),
    "features": (1, "give the rank of the kernel."),
    "gain": ("(0, inf)", "closed_form_information_gain has the usual orders."),
    "gamma": ("(0, 1)", "botorch_tv.theory.discount gives the paper's."),
    "horizon": (1, "give the number of rounds."),
    "k_bar": ("(0, inf)", "it bounds the kernel."),
    "lengthscale": ("(0, inf)", "0.2 is usual."),
    "mean": ("(0, inf)", "a reset takes at least one round."),
    "memory": (1, "analysis_memory has the paper's."),
    "noise": ("(0, inf)", "it is a variance."),
    "nu": ("(0, inf)", "it is the kernel's smoothness, such as 2.5."),
    "parts": (1, "it is 4 for ET-GP-UCB and 2 for R-GP-UCB."),
    "period": (1, "give the rounds between resets."),
    "psi": ("(0, inf)", "it bounds the eigenfunctions."),
    "r": ("(0, inf)", "it is the length of the domain."),
    "tail": ("[0, inf)", "it is the sum of the eigenvalues that are dropped."),
    "terms": (1, "give the number N of eigenvalues retained."),
}
"""The interval of an argument, or its least whole number, and what it means."""


def check(name: str, **given: float) -> tuple[Any, ...]:
    """Raise unless each argument lies in the range of its name.

    Args:
        name: The function that asks, for the error.
        given: Arguments by their names in ``RANGES``.

    Returns:
        The same as Python numbers, which never overflow silently.
    """
    numbers: list[float] = []
    for argument, value in given.items():
        limit, fix = RANGES[argument]
        if isinstance(limit, int):
            numbers.append(require_integer(f"{name}: {argument}", value, limit, fix))
        else:
            numbers.append(require_number(f"{name}: {argument}", value, limit, fix))
    return tuple(numbers)


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
