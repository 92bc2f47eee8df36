"""Input of a loop, converted to numbers and tensors."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np
import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.loop.log import OpenBox, like
from botorch_tv.strategies.arguments import as_context
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.named import Parameters
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import counted, plain, real, real_tensor, refuse_masked, shown

Numbers = Tensor | list[float] | tuple[float, ...] | list[list[float]] | float
"""Type of points or values: a tensor, or plain numbers."""
Condition = Numbers | Mapping[str, Any] | None
"""Type of a context: numbers, or values by name; None for the newest measured context."""
Points = Any
"""Type of points: numbers or, with named parameters, a dict, a list of dicts or a DataFrame."""
FAILED = "for a failed measurement pass ok=False, or --failed on the command line."


def in_order(call: str, given: Sequence[Any], **named: Any) -> list[Any]:
    """Match positional and named arguments; the first argument, the strategy, is optional.

    Args:
        call: Name of the function or class, for the error.
        given: The positional arguments.
        named: All arguments in order, the strategy first; None for each argument that was not
            passed by name.

    Returns:
        The values in the order of ``named``.

    Raises:
        ValueError: If there are too many positional arguments, if ``strategy`` is not a
            :class:`~botorch_tv.strategies.Strategy`, or if another argument is a strategy.
    """
    given = [value for value in given if value is not None]
    rest = [*given]
    if named["strategy"] is None and rest and isinstance(rest[0], Strategy):
        named["strategy"] = rest.pop(0)
    for name, value in named.items():
        if name != "strategy" and value is None and rest:
            named[name] = rest.pop(0)
    strategy, *others = named.values()
    misplaced = any(isinstance(value, Strategy) for value in others)
    if rest or misplaced or not isinstance(strategy, Strategy | None):
        kinds = ", ".join(type(value).__name__ for value in given or (strategy,))
        raise ValueError(
            f"{call}: the positional arguments are {kinds}, but it takes {', '.join(named)} in "
            "this order, or by name; the strategy is optional."
        )
    return list(named.values())


def as_number(name: str, value: object, fix: str) -> float:
    """A finite number: a float, an int, or a tensor or array with one element.

    Raises:
        InputDataError: If the value is not a finite number.
    """
    refuse_masked(name, value)
    number = real(value)
    if number is None:
        raise InputDataError(f"{name} is {shown(value)}, but it must be one number; {fix}")
    if not math.isfinite(number):
        raise InputDataError(f"{name} is {number}, but it must be finite; {fix}")
    return number


def as_truth(name: str, value: object) -> bool:
    """Convert a bool, 1, 0 or a one-element array of these to a bool; masked values become False.

    Raises:
        InputDataError: If the value is neither a bool nor one of the numbers 0 and 1, for example
            the string "no".
    """
    if np.ma.is_masked(value):
        return False
    truth = plain(value)
    if not isinstance(truth, numbers.Real) or truth not in (0, 1):
        raise InputDataError(f"{name} is {shown(value)}; give True or False.")
    return bool(truth)


def as_points(name: str, value: object, columns: int, state: State) -> Tensor:
    """Points `q x columns` in the dtype and on the device of a state.

    Args:
        name: Name of the argument, for errors.
        value: Points, or a single point. If there is only one column, each number is a point.
        columns: Number of coordinates of a point.
        state: The state, which has the dtype and device of the points.

    Raises:
        InputDataError: If the value is neither one point nor a table of points with ``columns``
            coordinates.
    """
    refuse_masked(name, value)
    X = real_tensor(value, like(state))
    if X is not None and X.dim() <= 1:
        X = X.reshape((-1, 1) if columns == 1 else (1, X.numel()))
    if X is None or X.dim() != 2 or X.shape[-1] != columns:
        raise InputDataError(
            f"{name} is {shown(value)}, but a point has {counted(columns, 'coordinates')}; give "
            f"rows of {counted(columns, 'numbers')}."
        )
    return X


def as_places(name: str, value: object, state: State) -> Tensor:
    """Points of a domain, `q x d`, from numbers, a dict of named parameters or a list of dicts.

    Raises:
        InputDataError: If a point is invalid; the error names the parameter.
    """
    parameters = parameters_of(state.domain)
    if parameters is None:
        return as_points(name, value, state.domain.dim, state)
    if not getattr(getattr(value, "columns", None), "is_unique", True):
        raise InputDataError(f"{name} has two columns of the same name; drop one of them.")
    if isinstance(value, Tensor):  # a point of the unit cube, like suggestion.X
        X = as_points(name, value, parameters.columns, state)
        if not bool(((X - 0.5).abs() <= 0.5 + 1e-6).all()):  # exact limits are checked later
            raise InputDataError(
                f"{name} is {shown(value)}, but a tensor holds points of the unit cube, from 0 "
                f"to 1; give values of {', '.join(parameters)} as a dict."
            )
        return X
    refuse_masked(name, value)
    if hasattr(value, "to_dict") and not hasattr(value, "columns"):  # a row of a DataFrame
        value = value.to_dict()
    outside, single = isinstance(state.domain, OpenBox), isinstance(value, Mapping)
    records = value.to_dict("records") if hasattr(value, "to_dict") and not single else value
    places = []
    for row, record in enumerate(records if isinstance(records, (list, tuple)) else [records]):
        own = "the point" if single else f"{name}[{row}]"
        given = [
            key for key in parameters.contexts if isinstance(record, Mapping) and key in record
        ]
        if given:
            raise InputDataError(f"{own} has {', '.join(given)}, a context; give it by context=.")
        places.append(parameters.place(record, like(state), own, outside=outside))
    return torch.stack(places) if places else like(state).new_empty(0, parameters.columns)


def parameters_of(domain: Domain) -> Parameters | None:
    """The named parameters of a domain; None if coordinates have no names."""
    return domain.parameters if isinstance(domain, Box) else None


def check_labels(columns: Mapping[str, Any]) -> None:
    """Raise an error if pandas columns have different row labels.

    This package matches rows by position, whereas pandas matches rows by label. Sorting or
    filtering a single column changes the order of its labels.

    Args:
        columns: A dict from the name of each argument to the column given for the argument.

    Raises:
        InputDataError: If the labels of two columns differ; the error names the columns.
    """
    every = ((name, getattr(column, "index", None)) for name, column in columns.items())
    labelled: list[Any] = [(name, index) for name, index in every if hasattr(index, "equals")]
    for name, labels in labelled[1:]:
        first, own = labelled[0]
        if not labels.equals(own):
            raise InputDataError(
                f"{name} has the row labels {shown(list(labels))}, but {first} has "
                f"{shown(list(own))}; rows are matched by position, so give "
                f"{name}.loc[{first}.index], or {name}.to_numpy() if the order is right."
            )


def as_place(value: object, state: State) -> Tensor:
    """One point, `d`; see :func:`as_places`.

    Raises:
        InputDataError: If the value is a single number (perhaps an observation), if it contains
            several points, or if it is invalid as in :func:`as_places`.
    """
    number = isinstance(value, numbers.Real)
    X = as_places("X", [value] if number else value, state)
    if number or len(X) != 1:
        raise InputDataError(
            f"X is {shown(value)}, but it must be one point, "
            f"{counted(state.domain.dim, 'numbers')} or a dict; observe several points one by "
            "one, or make the loop from a table of them."
        )
    return X[0]


def context_row(state: State, context: Condition) -> Tensor | None:
    """The context of a round, `c`; None if the domain has none.

    Raises:
        InputDataError: If the context is missing, if it has the wrong size, or if it is given for a
            domain without a context.
    """
    c = state.domain.columns - state.domain.dim
    if context is None and c == 0:
        return None
    parameters = parameters_of(state.domain)
    if parameters is not None and (parameters.contexts or isinstance(context, Mapping)):
        return as_context(state, parameters.context_row(context, like(state)))
    rows = None if context is None or c == 0 else as_points("context", context, c, state)
    if rows is None or len(rows) != 1:
        takes = f"{state.domain!r} takes {counted(c, 'numbers')}"
        raise InputDataError(f"context is {context}, but {takes}; see Box(context_dim=).")
    return as_context(state, rows[0])


def with_context(X: Tensor, context: Tensor | None) -> Tensor:
    """Points `* x d` followed by the context `c` of all points, if any, `* x (d + c)`."""
    return X if context is None else torch.cat([X, context.expand(*X.shape[:-1], -1)], -1)


def as_table(X: object, y: object, state: State) -> Tensor:
    """The points of a table, `n x d`.

    Raises:
        InputDataError: If a point is invalid. In one dimension, an error is also raised if X is not
            `n x 1` or y is not `n`; otherwise nothing would reveal swapped arguments.
    """
    line = state.domain.dim == 1 and parameters_of(state.domain) is None
    if line and (_dims(X), _dims(y)) != (2, 1):
        fix = "in one dimension, give X of shape n x 1 and y of shape n."
        raise InputDataError(f"X is {shown(X)} and y {shown(y)}; {fix}")
    return as_places("X", X, state)


def _dims(values: Any) -> int:
    """Number of dimensions of a tensor, array or nested list; -1 if it has none."""
    try:
        return values.dim() if isinstance(values, Tensor) else np.ndim(values)
    except (TypeError, ValueError, RuntimeError):
        return -1


def as_rows(name: str, column: Any, rows: int) -> list[Any]:
    """The entries of a column, one per point.

    Raises:
        InputDataError: If the number of entries differs from the number of points.
    """
    if hasattr(column, "columns"):  # a DataFrame of outcomes or of contexts; NaN is missing
        records = column.to_dict("records")
        column = [{key: own for key, own in row.items() if own == own} for row in records]
    # Sets and dicts are no columns: a set has no order, and a dict would give its keys.
    several = isinstance(column, Iterable) and not isinstance(column, (Set, Mapping))
    entries = list(column) if several and getattr(column, "ndim", 1) != 0 else [column]
    if len(entries) != rows:
        raise InputDataError(
            f"{name} has {counted(len(entries), 'rows')}, but there are {counted(rows, 'points')}; "
            "give one row per point."
        )
    return entries


def as_replies(y: object, ok: object, points: int) -> tuple[float | None, ...]:
    """An expert's answers, one per point; None where the expert gave no answer.

    Args:
        y: The answers; ignored where ``ok`` is False.
        ok: Whether the expert answered: one bool for all points, or one per point; True by default.
        points: Number of points of the consultation.

    Raises:
        InputDataError: If the number of values differs from the number of points, or if an answer
            is not finite.
    """
    good = [ok is not False] * points
    if not isinstance(ok, bool | None):
        good = [as_truth("ok", entry) for entry in as_rows("ok", ok, points)]
    if y is None and not any(good):
        return (None,) * points
    fix = "pass ok=False for a point without an answer."
    return tuple(
        as_number(f"y in row {row}", entry, fix) if answered else None
        for row, (entry, answered) in enumerate(zip(as_rows("y", y, points), good))
    )
