"""Checks of arguments; their errors contain the value, the limit and the fix."""

from __future__ import annotations

import functools
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.warnings import BotorchWarning
from torch import Tensor


class MisspecificationWarning(BotorchWarning, UserWarning):  # type: ignore[misc]
    """Warns that data, domain or clock are orders of magnitude from the prior's assumptions."""


def require(condition: bool, message: str) -> None:
    """Raise a ``ValueError`` with ``message`` unless ``condition`` holds; NaN always fails."""
    if not condition:
        raise ValueError(message)


@contextmanager
def noted(text: str) -> Iterator[None]:
    """Add a note on where an error occurred in a ``with`` block to this error."""
    try:
        yield
    except Exception as error:
        error.add_note(text)
        raise


MISSING = "the number, ok=False for a failed measurement, or drop the row"


def refuse_masked(name: object, value: object, fix: str = MISSING) -> None:
    """Raise an ``InputDataError`` if NumPy masks a value, or an entry of an array, list or dict.

    PyTorch ignores masks, and would use the number under the mask.

    Args:
        name: Name of the argument in the error message.
        value: The value, of any type.
        fix: Text after "give" in the error message.

    Raises:
        InputDataError: If the value or an entry is masked.
    """
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        rows = np.argwhere(np.ma.getmaskarray(value))[0].tolist()
        name = f"{name}: row {rows[0]}" if rows else name
        raise InputDataError(f"{name} is masked, that is, missing; give {fix}.")
    if isinstance(value, (list, tuple)):
        for entry in value:
            refuse_masked(name, entry, fix)
    elif isinstance(value, Mapping):
        for key, entry in value.items():
            refuse_masked(f"{name}: {key}", entry, fix)


def plain(value: object) -> object:
    """A scalar as a value of Python; None if it is masked, a date, a duration, or several values.

    Args:
        value: A scalar, or an array, column or tensor with one element, or a value of Python.
    """
    # NumPy's dates and durations convert to counts of nanoseconds, which are no numbers to a user.
    dated = getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M")
    if dated or np.ma.is_masked(value):
        return None
    try:
        return value.item() if hasattr(value, "item") else value
    except (RuntimeError, ValueError):
        return None


def real(value: object) -> float | None:
    """A real number as a float, infinite if it is too large; None for any other value.

    Args:
        value: As in :func:`plain`. Bools, text, dates, durations and complex numbers are no real
            numbers.
    """
    number: Any = plain(value)
    try:
        return None if isinstance(number, (bool, str, bytes)) else float(number)
    except OverflowError:
        return math.copysign(math.inf, number > 0 or -1)
    except (TypeError, ValueError):
        return None


def real_tensor(value: Any, own: Tensor) -> Tensor | None:
    """Real numbers as a tensor like ``own``; None for any other value.

    A tensor of the dtype and on the device of ``own`` is returned as it is.

    Args:
        value: A number, or a tensor, array, column or list of numbers; see :func:`real`.
        own: A tensor of any shape.
    """
    try:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return own.new_full((), value)  # created on the device, not copied to it
        # The array is copied, because pandas returns read-only arrays.
        made = value if isinstance(value, Tensor) else torch.from_numpy(np.array(value))
        unreal = made.is_complex() or made.dtype == torch.bool
        unread = made.is_meta and not own.is_meta
        return None if unreal or unread or made.is_sparse else made.to(own)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def require_number(name: str, value: object, within: str, fix: str) -> float:
    """A plain number inside an interval.

    Args:
        name: Name of the argument in the error message.
        value: A number of Python or NumPy; bools and tensors are refused.
        within: The interval, such as ``"[0, 1]"`` or ``"(0, inf)"``; round brackets exclude the
            end.
        fix: Advice at the end of the error message.

    Returns:
        The number as a Python int or float.

    Raises:
        ValueError: If the value is not a plain number in the interval.
    """
    limit = f"but it must {INTERVALS.get(within, f'lie in {within}')}; {fix}"
    number = real(value) if isinstance(value, numbers.Real) else None
    if number is None:
        raise ValueError(f"{name} is {shown(value)}, which is not a plain number, {limit}")
    least, most = (float(end) for end in within[1:-1].split(","))
    low = least < number if within[0] == "(" else least <= number
    high = number < most if within[-1] == ")" else number <= most
    if not (low and high):
        raise ValueError(f"{name} is {shown(value)}, {limit}")
    return value if type(value) is int and math.isfinite(number) else number


INTERVALS = {
    "(-inf, inf)": "be finite",
    "(0, 1)": "lie strictly between 0 and 1",
    "(0, inf)": "be positive and finite",
    "[-inf, inf]": "be a number",
    "[0, inf)": "be finite and at least 0",
}
"""Texts of errors for common intervals."""


def require_noise(name: str, value: object) -> float:
    """Check that a noise variance is positive and finite; return it as a Python number.

    Raises:
        ValueError: If the value is not positive and finite.
    """
    fix = "use 1e-6 times the kernel's variance for nearly exact measurements."
    return require_number(name, value, "(0, inf)", fix)


def require_integer(name: str, value: object, least: int, fix: str) -> int:
    """An integer from ``least`` to below 2^64; 29.0 is accepted and returned as 29.

    Raises:
        ValueError: If the value is not an integer, or is out of this range.
    """
    number = real(value) if isinstance(value, numbers.Real) else None
    if number is None or number % 1 or not least <= number < 2**64:
        most = " and below 2^64" if number is not None and number >= 2**64 else ""
        raise ValueError(
            f"{name} is {shown(value)}, but it must be an integer of at least {least}{most}; {fix}"
        )
    return int(value)  # type: ignore[call-overload]


def settle_number(part: object, name: str, within: str, fix: str) -> None:
    """Check a number of a frozen dataclass and store it as a Python number.

    Args:
        part: The dataclass, whose ``__post_init__`` calls this function.
        name: The field.
        within: As in :func:`require_number`.
        fix: As in :func:`require_number`.

    Raises:
        ValueError: As in :func:`require_number`.
    """
    full = f"{type(part).__name__}: {name}"
    object.__setattr__(part, name, require_number(full, getattr(part, name), within, fix))


def settle_integer(part: object, name: str, least: int, fix: str) -> None:
    """Check an integer of a frozen dataclass and store it; see :func:`require_integer`."""
    full = f"{type(part).__name__}: {name}"
    object.__setattr__(part, name, require_integer(full, getattr(part, name), least, fix))


@functools.cache
def largest(dtype: torch.dtype) -> float:
    """The largest number accepted as data: 1e150 in float64, 1e15 in float32.

    If 10⁸ numbers do not exceed this result, the sum of their squares is finite.
    """
    return float(10.0 ** math.floor(math.log10(torch.finfo(dtype).max) / 2 - 4))


def latest(dtype: torch.dtype) -> float:
    """The largest t with t ≠ t + 1: 2^53 in float64, 2^24 in float32."""
    return 2 / torch.finfo(dtype).eps


def require_duration(name: str, value: object) -> None:
    """Raise a ``ValueError`` unless ``value`` is a positive timedelta."""
    positive = isinstance(value, timedelta) and value > timedelta(0)
    fix = "give timedelta(hours=1)."
    require(positive, f"{name} is {shown(value)}, but it must be a positive timedelta; {fix}")


def require_trials(
    good: Tensor, value: Tensor, problem: str, fix: str, limit: Tensor | None = None
) -> None:
    """Raise an ``InputDataError`` for the first trial, if any, in which ``good`` is False.

    Args:
        good: Whether each trial passes the check, `batch_shape`, bool.
        value: The values, `batch_shape`.
        problem: Text after the value in the error message.
        fix: Advice at the end of the error message.
        limit: The limit of each value, `batch_shape`; printed after ``problem``.
    """
    if bool(good if good.dim() == 0 else good.all()):
        return
    position = (~good).nonzero()[0].tolist()
    limit_text = "" if limit is None else f" {limit[tuple(position)].item()}"
    number = value[tuple(position)].item()
    raise InputDataError(f"{number}{of_trial(position)} {problem}{limit_text}; {fix}")


def of_trial(position: Sequence[int]) -> str:
    """Text that names a trial by its position in the `batch_shape`; empty for a single trial."""
    return f" of trial {position[0] if len(position) == 1 else tuple(position)}" if position else ""


def require_floating(dtype: torch.dtype) -> None:
    """Raise an ``InputDataError`` unless ``dtype`` is float64 or float32."""
    if dtype not in (torch.float64, torch.float32):
        raise InputDataError(f"dtype is {dtype}, but it must be torch.float64 or torch.float32.")


def shown(value: object) -> str:
    """The text of a value in an error: its repr, or the shape of a large tensor."""
    if isinstance(value, Tensor) and (value.dim() > 1 or value.numel() > 8):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, numbers.Rational) and real(value) in (math.inf, -math.inf):
        return "a number beyond ± 1.8e308"
    if isinstance(value, numbers.Real) and not isinstance(value, int | float):
        return str(value)
    return repr(value)


# ---------------- texts of spans of time and counts


UNIT_SYMBOLS = {"seconds": "s", "minutes": "min", "hours": "h", "days": "d"}
"""Symbols of units of time by their names."""


def span_text(length: float, unit: str) -> str:
    """A span of time as text, to three significant digits: ``46.6 h``, ``1 week``.

    Args:
        length: The length of the span.
        unit: Unit of time in the plural, such as ``"hours"``; empty if it has no name.
    """
    rounded = float(f"{length:.3g}")
    if unit in UNIT_SYMBOLS:
        return f"{rounded:g} {UNIT_SYMBOLS[unit]}"
    return counted(rounded, unit or "units of time")


def counted(number: float, things: str) -> str:
    """A count with a noun given in the plural: ``1 point``, ``3 points``."""
    first, *rest = things.split(" ", 1)
    first = first.removesuffix("s") if number == 1 else first
    return " ".join([f"{number:g}", first, *rest])
