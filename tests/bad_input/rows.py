"""How a table of bad inputs is written, and what every row must show.

An error names the value, the limit and the cure; each row says in which words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import pytest
import torch

from botorch_tv.validation import shown

NAN, INF = float("nan"), float("inf")
NO_NUMBERS = (None, "0.5", True, 0.5 + 1j, [0.5], torch.tensor(0.5))
"""What is no plain number, given wherever a number is wanted."""


class Row(NamedTuple):
    """One bad input."""

    call: Callable[[], Any]
    value: str
    """How the message shows the value."""
    limit: str
    """What it says the value must be."""
    cure: str
    """What it says to do."""
    error: type[Exception] = ValueError


class Parameter(NamedTuple):
    """A number that is refused wherever it is no number, or outside its limits."""

    make: Callable[[Any], Any]
    outside: Iterable[Any]
    """Numbers beyond the limits."""
    limit: str
    cure: str

    def rows(self) -> list[Row]:
        """One row per wrong type and per number outside."""
        return [
            Row(lambda v=value: self.make(v), shown(value), self.limit, self.cure)
            for value in (*NO_NUMBERS, *self.outside)
        ]


def table(parameters: dict[str, Parameter]) -> list[Any]:
    """Every row of some parameters, ready for ``pytest.mark.parametrize``."""
    return [
        pytest.param(row, id=f"{name}={row.value}")
        for name, parameter in parameters.items()
        for row in parameter.rows()
    ]


def named(rows: dict[str, Row]) -> list[Any]:
    """Rows by their names, ready for ``pytest.mark.parametrize``."""
    return [pytest.param(row, id=name) for name, row in rows.items()]


def assert_refuses(row: Row) -> None:
    """The call raises the error of the row, and its message says what the row says."""
    with pytest.raises(row.error) as raised:
        row.call()
    said = str(raised.value)
    for what in ("value", "limit", "cure"):
        assert getattr(row, what) in said, f"{what}: {said}"
    assert len({row.value, row.limit, row.cure}) == 3, "three different things are to be named"
