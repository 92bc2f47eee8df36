"""Checks and conversions that the functions of the theory share.

Everything is computed in float64 unless a horizon is given in another floating type, on the device
of the horizon. Functions take a number or a tensor where results are wanted for many horizons at
once, and always answer with a tensor.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.validation import require, require_number

Number = float | Tensor


def rounds(name: str, T: Number, least: int = 1) -> Tensor:
    """A horizon as a tensor of its own shape.

    Args:
        name: Who asks, for the error.
        T: Whole numbers of rounds, any shape.
        least: The smallest horizon that the result is about.

    Raises:
        ValueError: If a value is below ``least``, not whole or not finite.
    """
    fix = f"it must be a whole number of rounds of at least {least}; or a tensor of such."
    if not isinstance(T, Tensor):
        T = torch.tensor(require_number(f"{name}: T", T, "[-inf, inf]", fix), dtype=torch.float64)
    require(not T.is_complex(), f"{name}: T is {T.dtype}, but {fix}")
    T = T if T.is_floating_point() else T.to(torch.float64)
    wrong = ~((least <= T) & T.isfinite() & (T.frac() == 0))
    if bool(wrong.any()):
        raise ValueError(
            f"{name}: T is {T[wrong][0].item():g}, but it must be a whole number of rounds of at "
            f"least {least}."
        )
    return T


def beside(name: str, value: Number, T: Tensor) -> Tensor:
    """A number, or one for every horizon, as a tensor beside ``T``.

    Raises:
        ValueError: If the shapes do not go together.
    """
    if not isinstance(value, Tensor):
        fix = "it must be a number; or a tensor with one per entry of T."
        value = torch.tensor(require_number(name, value, "[-inf, inf]", fix), dtype=torch.float64)
    value = value.to(T)
    try:
        torch.broadcast_shapes(value.shape, T.shape)  # type: ignore[no-untyped-call]
    except RuntimeError:
        counted = value.dim() == T.dim() == 1 and len(value) == len(T) + 1
        what = name.rpartition(" ")[2]
        fix = (
            f"values of 0, 1, ..., {len(T)} rounds begin one too early: {what}={what}[1:]."
            if counted
            else f"give one number, or one per entry of T, {tuple(T.shape)}."
        )
        raise ValueError(
            f"{name} has shape {tuple(value.shape)}, but T has shape {tuple(T.shape)}; {fix}"
        ) from None
    return value


def gain_like(name: str, gain: Number, T: Tensor) -> Tensor:
    """An information gain as a tensor beside ``T``, at least 0 and finite.

    Raises:
        ValueError: If a value is negative or not finite, or the shapes do not go together.
    """
    gain = beside(name, gain, T)
    wrong = ~((gain >= 0) & gain.isfinite())
    if bool(wrong.any()):
        raise ValueError(
            f"{name} is {gain[wrong][0].item():g}, but an information gain is finite and at least "
            "0; greedy_information_gain bounds the largest one."
        )
    return gain


def require_positive(name: str, value: float, why: str) -> None:
    """Raise unless ``value`` is positive and finite."""
    require_number(name, value, "(0, inf)", f"must be positive and finite; {why}.")


def require_at_least_zero(name: str, value: float, why: str) -> None:
    """Raise unless ``value`` is at least 0 and finite."""
    require_number(name, value, "[0, inf)", f"must be finite and at least 0; {why}.")


def require_probability(name: str, value: float) -> None:
    """Raise unless ``value`` lies strictly between 0 and 1."""
    require_number(
        name,
        value,
        "(0, 1)",
        "a probability lies strictly between 0 and 1; the papers use 0.1.",
    )


def require_rate(name: str, value: float) -> None:
    """Raise unless ``value`` is a rate of change in [0, 1]."""
    require_number(name, value, "[0, 1]", "a rate of change lies in [0, 1]; 0 is no change.")


def require_discount(name: str, value: float) -> None:
    """Raise unless ``value`` is a discount strictly between 0 and 1."""
    require_number(
        name,
        value,
        "(0, 1)",
        "the result is about discounts strictly between 0 and 1; "
        "botorch_tv.theory.discount gives the paper's.",
    )
