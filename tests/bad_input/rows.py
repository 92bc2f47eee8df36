"""Tables of bad inputs: a call and the words that its error must say (value, limit, fix)."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_tv.validation import shown

NAN, INF = float("nan"), float("inf")
NO_NUMBERS = (None, "0.5", True, 0.5 + 1j, [0.5], torch.tensor(0.5))
Rows = dict[str, tuple[Any, ...]]


def refuses(call: Callable[[], Any], *words: str) -> None:
    """The call raises, and its message contains the words."""
    with pytest.raises((ValueError, InputDataError)) as raised:
        call()
    for word in words:
        assert word in str(raised.value), f"{word}: {raised.value}"


def numbers(rows: Rows) -> list[Any]:
    """One case for each value of rows (make, values outside, words) and each of NO_NUMBERS."""
    cases: Iterable[tuple[str, Any, Any, tuple[str, ...]]] = (
        (name, make, value, words)
        for name, (make, outside, *words) in rows.items()
        for value in (*NO_NUMBERS, *outside)
    )
    return [
        pytest.param(partial(make, value), (shown(value), *words), id=f"{name}={shown(value)}")
        for name, make, value, words in cases
    ]


def replacing(make: Callable[..., Any], name: str, **good: Any) -> Callable[[Any], Any]:
    """The call with one of its good arguments to be replaced."""
    return lambda value: make(**(good | {name: value}))
