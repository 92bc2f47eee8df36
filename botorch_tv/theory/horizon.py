"""Checks and conversions of arguments, and formulas that several bounds share.

If the horizon is a floating-point tensor, results have its dtype and device; otherwise results are
in float64. Functions accept one horizon or a tensor of horizons, and return a tensor.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor

from botorch_tv.acquisition.widths import BayesEventTriggered, BayesResetting, BayesTV, WidthContext
from botorch_tv.validation import require, require_integer, require_number

Number = float | Tensor
Rounds = Tensor
"""Type of an argument that is a number or a tensor: horizons, or values at every horizon. Functions
receive it as a tensor."""
R = TypeVar("R")

NAMES: dict[str | int, str] = {
    "(0, 1)": "delta gamma",
    "(0, 1]": "resetting_mismatch.noise",
    "(0, inf)": "C_e1 C_e2 C_p L constant k_bar lengthscale mean noise nu psi r "
    "budget_period.budget budget_period.gain discount.budget discount.gain rexp3_period.budget",
    "(1, inf)": "necessary_side_queries.alpha",
    "[0, 0.2]": "sparse_posterior_error.eta",
    "[0, 1]": "epsilon",
    "[0, inf)": "B a0 alpha b0 eta feature_error tail budget double_gain gain log_decisions "
    "noise_norm_bound.R power y_bar",
    "[2, inf)": "beta_p",
    1: "arms block dim features horizon memory parts period points t terms",
}
RANGES = {name: limit for limit, names in NAMES.items() for name in names.split()}
"""Limits of arguments by name: the interval of a number, or the smallest value of an integer. A key
``function.argument`` limits an argument of that function only."""

SERIES = ("budget", "double_gain", "gain", "log_decisions")
"""Arguments that may be tensors with a value for every horizon."""


def checked(function: Callable[..., R]) -> Callable[..., R]:
    """Check the arguments of a function against ``RANGES`` and ``SERIES``.

    Numbers become Python numbers, which never overflow silently. Horizons, and values at every
    horizon, become tensors.
    """
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> R:
        given = signature.bind(*args, **kwargs)
        for name, value in given.arguments.items():
            own, where = f"{function.__name__}.{name}", f"{function.__name__}: {name}"
            if name == "T":
                given.arguments[name] = rounds(value)
            limit = RANGES.get(own, RANGES.get(name))
            omitted = value is None and signature.parameters[name].default is None
            if limit is None or omitted:
                continue
            fix = f"see the docstring of {function.__name__}."
            if name in SERIES and own not in RANGES and isinstance(value, Tensor):
                _check_series(where, value, given.arguments.get("T"), fix)
            else:
                settle: Any = require_integer if isinstance(limit, int) else require_number
                given.arguments[name] = settle(where, value, limit, fix)
            if name in SERIES and own not in RANGES and "T" in given.arguments:
                given.arguments[name] = beside(given.arguments[name], given.arguments["T"])
        return function(*given.args, **given.kwargs)

    return call


def _check_series(name: str, value: Tensor, T: object, fix: str) -> None:
    require(
        not (isinstance(T, Tensor) and value.dim() == T.dim() == 1 and len(value) == len(T) + 1),
        f"{name} starts with the value for 0 rounds; give {name.split()[-1]}[1:], a value per "
        "entry of T.",
    )
    wrong = ~((value >= 0) & value.isfinite())
    if bool(wrong.any()):
        raise ValueError(f"{name} is {value[wrong][0]:g}, but must be finite and at least 0; {fix}")


def rounds(T: Number, least: int = 1) -> Tensor:
    """Convert horizons to a tensor in the shape of ``T``.

    Args:
        T: Horizons in whole rounds; a scalar or a tensor of any shape.
        least: The smallest horizon allowed.

    Raises:
        ValueError: If a horizon is not a finite whole number of at least ``least``.
    """
    fix = f"a whole number of rounds of at least {least}"
    if not isinstance(T, Tensor):
        T = require_number("T", T, "[-inf, inf]", f"give {fix}, or a tensor of such numbers.")
        T = torch.tensor(T, dtype=torch.float64, device="cpu")
    T = T if T.is_floating_point() else T.to(torch.float64)
    wrong = ~((least <= T) & T.isfinite() & (T.frac() == 0))
    if bool(wrong.any()):
        raise ValueError(f"T is {T[wrong][0].item():g}, but it must be {fix}.")
    return T


def beside(value: Number | list[float], T: Tensor) -> Tensor:
    """Convert numbers to a tensor with the dtype and on the device of ``T``."""
    return torch.as_tensor(value, dtype=T.dtype, device=T.device)


def information_constant(noise: float) -> float:
    """C_1 = 8 / ln(1 + σ^(-2)), [B16] Theorem 4.2.

    If k(x, x) <= 1, four times the sum of the posterior variances at the points played is at most
    C_1 times the information gain.
    """
    return 8 / math.log1p(1 / noise)


def bayes_beta(
    width: BayesTV | BayesResetting | BayesEventTriggered, T: Tensor, dim: int
) -> Tensor:
    """β_T of a Bayesian confidence width at every horizon, in the shape of ``T``."""
    values = [width.sqrt_beta(WidthContext(int(t), dim)) ** 2 for t in T.flatten().tolist()]
    return beside(values, T).view(T.shape)


def block_regret(
    T: Tensor, beta: Tensor, block: int, gain: Tensor, noise: float, mismatch: Tensor
) -> Tensor:
    """√(C_1 T β_T (T/N + 1) γ_N) + 2 + T ψ, for at most N rounds between resets.

    Args:
        T: Numbers of rounds, a tensor of any shape.
        beta: β_T at each horizon ``T``.
        block: N, the largest number of rounds between resets.
        gain: γ_N, the maximum information gain of N observations.
        noise: Noise variance σ².
        mismatch: ψ, the regret per round from ignoring changes within a block, any shape.
    """
    scale = information_constant(noise) * T * beta
    return (scale * (T / block + 1) * gain).sqrt() + 2 + T * mismatch


def smallest_constant(order: Tensor, measured: Tensor) -> float:
    """The smallest number c for which c times an order bounds a measured curve from above.

    An order without a published constant can be plotted with the constant c. Because c is fitted to
    the measured curve, the plot compares shapes, not levels.

    Args:
        order: The order of growth with constant 1, shape `rounds`. Rounds where the order is 0 are
            ignored.
        measured: The measured curve, such as cumulative regret, shape `rounds`.
    """
    return float((measured / order)[order > 0].max())


def largest_constant(order: Tensor, measured: Tensor) -> float:
    """The largest number c for which c times an order bounds a measured curve from below.

    Args:
        order: The order of growth with constant 1, shape `rounds`. Rounds where the order is 0 are
            ignored.
        measured: The measured curve, such as cumulative regret, shape `rounds`.
    """
    return float((measured / order)[order > 0].min())
