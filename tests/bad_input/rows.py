"""Tables of bad inputs: a call and the words that its error must say (value, limit, fix)."""

from collections.abc import Callable, Iterable
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_tv.validation import shown

NAN, INF = float("nan"), float("inf")
HUGE, SPAN = 10**400, np.timedelta64(1, "ns")
NO_NUMBERS = (None, "0.5", True, 0.5 + 1j, [0.5], torch.tensor(0.5), HUGE, SPAN)
NO_REALS = (  # for functions that take tensors, arrays and columns with one element, too
    *(
        "0.5",
        b"0.5",
        True,
        0.5 + 1j,
        HUGE,
        Decimal("NaN"),
        {0.5},
        {0.5: 0.5},
        float,
        datetime.now(),
    ),
    *(
        np.bool_(True),
        np.str_("0.5"),
        np.complex128(0.5),
        np.datetime64("2026-03-01T08", "ns"),
        SPAN,
    ),
    *(np.array([SPAN]), np.array(SPAN), np.array([HUGE]), np.array(["0.5"]), np.array([None])),
    *(pd.NaT, pd.NA, pd.Timedelta("1h"), pd.Series([pd.Timedelta("1h")]), pd.Series(["0.5"])),
    *(torch.tensor(True), torch.tensor(0.5 + 0j), torch.empty(0), torch.empty((), device="meta")),
    *(np.ma.masked, np.ma.array([0.5], mask=[True])),
    *(torch.ones(3), [[0.5], [0.5, 0.5]]),
)
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
