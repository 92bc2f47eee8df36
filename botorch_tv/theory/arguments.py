"""Checks and conversions that the functions of the theory share.

Everything is computed in float64 unless a horizon is given in another floating type, on the device
of the horizon. Functions take a number or a tensor where results are wanted for many horizons at
once, and always answer with a tensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from botorch_tv.validation import require, require_integer, require_number

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


COUNTS = {
    "block": "it divides the rounds in the analysis.",
    "dim": "give the domain's dimension.",
    "features": "give the rank of the kernel.",
    "horizon": "give the number of rounds.",
    "memory": "analysis_memory has the paper's.",
    "parts": "it is 4 for ET-GP-UCB and 2 for R-GP-UCB.",
    "period": "give the rounds between resets.",
    "terms": "give the number N of eigenvalues kept.",
}
"""Arguments that are whole numbers of at least 1, and what to give."""
AT_LEAST_ZERO = {
    "B": "it bounds the norm of f",
    "a0": "it bounds the tail of sup |f|",
    "alpha": "0 stands still",
    "b0": "it bounds the tail of sup |f|",
    "feature_error": "it bounds an error",
    "tail": "it is the sum of the eigenvalues left out",
}
"""Those that are finite and at least 0, and why."""
POSITIVE = {
    "C_e1": "it scales the eigenvalues",
    "C_e2": "it is the rate of decay of the eigenvalues",
    "C_p": "it scales the eigenvalues",
    "budget": "it bounds the total change; one of 0 calls for no forgetting",
    "constant": "it scales an order; 1 is usual",
    "gain": "closed_form_information_gain has the usual orders",
    "k_bar": "it bounds the kernel",
    "lengthscale": "0.2 is usual",
    "mean": "a reset takes at least one round",
    "noise": "it is a variance",
    "nu": "it is the kernel's smoothness, such as 2.5",
    "psi": "it bounds the eigenfunctions",
    "r": "it is the length of the domain",
}
"""Those that are finite and positive, and why."""
WITHIN = {
    "delta": ("(0, 1)", "a probability lies strictly between 0 and 1; the papers use 0.1."),
    "epsilon": ("[0, 1]", "a rate of change lies in [0, 1]; 0 is no change."),
    "gamma": (
        "(0, 1)",
        "the result is about discounts strictly between 0 and 1; botorch_tv.theory.discount gives "
        "the paper's.",
    ),
}
"""Those of other intervals."""


def check(name: str, **given: float) -> tuple[Any, ...]:
    """Raise unless each argument is what one of its name must be.

    Args:
        name: Who asks, for the error.
        given: Arguments by their names in ``COUNTS``, ``AT_LEAST_ZERO``, ``POSITIVE`` or
            ``WITHIN``.

    Returns:
        The same numbers as Python has them, which never overflow without a word.
    """
    return tuple(_checked(f"{name}: {one}", one, value) for one, value in given.items())


def _checked(what: str, argument: str, value: float) -> float:
    if argument in COUNTS:
        return require_integer(what, value, 1, COUNTS[argument])
    if argument in AT_LEAST_ZERO:
        fix = f"must be finite and at least 0; {AT_LEAST_ZERO[argument]}."
        return require_number(what, value, "[0, inf)", fix)
    if argument in POSITIVE:
        return require_positive(what, value, POSITIVE[argument])
    return require_number(what, value, *WITHIN[argument])


def require_positive(name: str, value: float, why: str) -> float:
    """A positive and finite number, as Python has it."""
    return require_number(name, value, "(0, inf)", f"must be positive and finite; {why}.")
