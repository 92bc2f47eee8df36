"""Input of a loop, converted to numbers and tensors."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.loop.log import like
from botorch_tv.strategies.box import Box, Parameters
from botorch_tv.strategies.checks import as_context
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import counted, decimal_comma, refuse_masked, shown

Numbers = Tensor | list[float] | tuple[float, ...] | list[list[float]] | float
"""Points or values: a tensor, or plain numbers."""
Points = Any
"""Points: numbers or, with named parameters, a dict, a list of dicts or a DataFrame."""
SAYS_FAILED = "tell(ok=False) says that a measurement failed."
OBSERVE_FAILED = "observe(X, ok=False) says that a measurement failed."
Column = Numbers | None
"""A column of a table, or None if the table lacks it."""


def in_order(call: str, given: Sequence[Any], **named: Any) -> list[Any]:
    """Arguments by position, of which the first, a strategy, may be missing, and those by name.

    Args:
        call: Name of the function or class, for the error.
        given: Those by position.
        named: All by name, in order, the strategy first; None for those not passed by name.

    Raises:
        ValueError: If there are too many, or the strategy is at another place or is none.
    """
    rest = [one for one in given if one is not None]
    by_name = [f"{name}=" for name, one in named.items() if one is not None]
    came = ", ".join([*(type(one).__name__ for one in rest), *by_name])
    if named["strategy"] is None and rest and isinstance(rest[0], Strategy):
        named["strategy"] = rest.pop(0)
    for name, value in named.items():
        if name != "strategy" and value is None and rest:
            named[name] = rest.pop(0)
    strategy, *others = named.values()
    wrong = rest or any(isinstance(one, Strategy) for one in others)
    # Without y, X is a table that has it as a column.
    wrong = wrong or ("y" in named and named["y"] is None and not hasattr(named["X"], "columns"))
    if wrong or not isinstance(strategy, Strategy | None):
        more = ", X and y" if "y" in named else ""
        raise ValueError(
            f"{call}: {came} came, but it takes a strategy, a domain{more}, in this order or by "
            f"name; or a domain{more}, for adaptive_gp_ucb()."
        )
    return list(named.values())


def as_number(name: str, value: object, fix: str) -> float:
    """A finite number: a float, an int, or a tensor or array with one element.

    Raises:
        InputDataError: If it is not one.
    """
    refuse_masked(name, value)
    try:
        if isinstance(value, (str, bytes, bool)):
            raise TypeError
        one = getattr(value, "item", None)  # NumPy makes no float of a row of one
        number = float(value if one is None else one())  # type: ignore[arg-type]
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputDataError(
            f"{name} is {shown(value)}, but it must be one number; {fix}{decimal_comma(value)}"
        ) from error
    if not math.isfinite(number):
        raise InputDataError(f"{name} is {number}, but it must be finite; {fix}")
    return number


def as_truth(name: str, value: object) -> bool:
    """A bool of Python or an array, or one of the numbers 1 and 0; False if NumPy masks it.

    Raises:
        InputDataError: If it is anything else. Python would take every string for True, even "no".
    """
    if np.ma.is_masked(value):
        return False
    truth = value.item() if hasattr(value, "item") else value
    if not isinstance(truth, numbers.Real) or truth not in (0, 1):
        raise InputDataError(f"{name} is {shown(value)}; give True or False.")
    return bool(truth)


def as_points(name: str, value: object, columns: int, state: State) -> Tensor:
    """Points `q x columns` in the dtype and on the device of a state.

    Args:
        name: Name of the argument, for errors.
        value: Points, or one point; plain numbers if there is one column.
        columns: Number of coordinates of a point.
        state: The state whose dtype and device the points get.

    Raises:
        InputDataError: If the points have another shape.
    """
    own = like(state)
    refuse_masked(name, value)
    try:
        X = _tensor(value, dtype=own.dtype, device=own.device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputDataError(
            f"{name} is {shown(value)}; give points as rows of {counted(columns, 'numbers')}."
        ) from error
    if X.dim() <= 1:
        X = X.reshape(-1, 1) if columns == 1 else X.reshape(1, -1)
    if X.dim() != 2 or X.shape[-1] != columns:
        raise InputDataError(
            f"{name} has shape {tuple(X.shape)}, but points here have "
            f"{counted(columns, 'coordinates')}; give rows of {counted(columns, 'numbers')}."
        )
    return X


def as_places(name: str, value: object, state: State) -> Tensor:
    """Points of a domain, `q x d`, from numbers, a dict of named parameters or a list of dicts.

    Raises:
        InputDataError: If a point is invalid; the error names the parameter.
    """
    parameters = _parameters(state)
    if parameters is not None and isinstance(value, Tensor):
        return _as_cube(name, value, parameters, state)
    if parameters is None:
        return as_points(name, value, state.domain.dim, state)
    if isinstance(value, Mapping):
        refuse_masked(name, value)
        return parameters.place(value, like(state), "the point").unsqueeze(0)
    records = value.to_dict("records") if hasattr(value, "to_dict") else value
    if not isinstance(records, (list, tuple)):
        records = [records]
    refuse_masked(name, records)
    places = [
        parameters.place(one, like(state), f"{name}[{row}]") for row, one in enumerate(records)
    ]
    return torch.stack(places) if places else like(state).new_empty(0, parameters.columns)


def _as_cube(name: str, value: Tensor, parameters: Parameters, state: State) -> Tensor:
    """Points in the unit cube, `q x d`, such as ``suggestion.X``.

    Raises:
        InputDataError: If they lie outside the cube, as values in their own units usually do.
    """
    d = parameters.columns
    inside = value.dim() > 0 and value.shape[-1] == d
    inside = inside and bool(((value - 0.5).abs() <= 0.5 + 1e-6).all())  # the domain is exact
    if not inside:
        raise InputDataError(
            f"{name} is {shown(value)}, but as a tensor points are places in the unit cube here, "
            f"{counted(d, 'numbers')} from 0 to 1; give values in their own units as "
            f"{{{', '.join(f'{one!r}: ...' for one in parameters)}}}."
        )
    return as_points(name, value, d, state)


def _parameters(state: State) -> Parameters | None:
    return state.domain.parameters if isinstance(state.domain, Box) else None


def as_table(X: object, y: object, state: State) -> Tensor:
    """The points of a table, `n x d`, after checking that X and y are not swapped.

    Raises:
        InputDataError: If a point is invalid, or if in one dimension X is not `n x 1` or y not `n`,
            so that they could be swapped.
    """
    if state.domain.dim == 1 and _parameters(state) is None:
        for name, column, dim, shape in (("X", X, 2, "n x 1"), ("y", y, 1, "n")):
            if np.ndim(column) != dim:  # type: ignore[arg-type]
                raise InputDataError(
                    f"{name} is {shown(column)}, but in one dimension X must have shape n x 1 and "
                    f"y shape n, so that they cannot be swapped; give {name} as {shape}."
                )
    return as_places("X", X, state)


def check_labels(columns: Mapping[str, object]) -> None:
    """Refuse columns of pandas whose rows have different labels.

    This package matches rows by position, pandas by label. A column that was sorted or filtered by
    itself has its labels in another order.

    Args:
        columns: The columns of a table, by the names of the arguments.

    Raises:
        InputDataError: If two columns differ; the error names them.
    """
    found = ((name, _labels(column)) for name, column in columns.items())
    labelled = [(name, labels) for name, labels in found if labels is not None]
    for name, labels in labelled[1:]:
        first, wanted = labelled[0]
        if not labels.equals(wanted):
            raise InputDataError(
                f"{name} has the row labels {shown(list(labels))} and {first} "
                f"{shown(list(wanted))}, but rows belong together by their place; give "
                f"{name}.loc[{first}.index], or {name}.to_numpy() where they are in order."
            )


def _tensor(value: Any, **wanted: Any) -> Tensor:
    """``torch.as_tensor`` without its warning about read-only arrays, which pandas returns."""
    if not getattr(getattr(value, "flags", None), "writeable", True):
        value = value.copy()
    return torch.as_tensor(value, **wanted)


def _labels(value: object) -> Any:
    """The index of a DataFrame or Series; None for other types (a list's is a method)."""
    labels = getattr(value, "index", None)
    return labels if hasattr(labels, "equals") else None


def as_place(value: object, state: State) -> Tensor:
    """One point, `d`; see :func:`as_places`.

    Raises:
        InputDataError: If it is a plain number, which might be an observation; if there are several
            points; or as for :func:`as_places`.
    """
    if isinstance(value, numbers.Real):
        names = _parameters(state)
        form = "[...]" if names is None else f"{{{', '.join(f'{one!r}: ...' for one in names)}}}"
        raise InputDataError(
            f"X is {shown(value)}, but a point is a row of {state.domain.dim}, so that it "
            f"cannot be swapped with a value; give {form}, and the value behind it."
        )
    X = as_places("X", value, state)
    if len(X) != 1:
        raise InputDataError(
            f"X holds {len(X)} points, but one is needed; pass one after the other, or begin "
            "with all of them by Loop.from_table."
        )
    return X[0]


def as_known(state: State, context: Numbers | None) -> Tensor | None:
    """The context of a round, `c`; None if the domain has none.

    Raises:
        InputDataError: If it is missing, of another size, or given for a domain without context.
    """
    c = state.domain.columns - state.domain.dim
    if context is None and c == 0:
        return None
    known = None if context is None or c == 0 else as_points("context", context, c, state)
    if known is None or len(known) != 1:
        raise InputDataError(
            f"context is {context}, but {state.domain!r} takes {counted(c, 'numbers')}; see "
            "Box(context_dim=)."
        )
    return as_context(state, known[0])


def measurements(
    state: State,
    points: Tensor,
    y: Numbers,
    time: list[float] | None,
    noise: Column | Sequence[float | None],
    context: Column,
    ok: object = None,
) -> Iterator[tuple[Tensor, float | None, float, float | None, Numbers | None]]:
    """Yield the rows of a table in order of time: point, value, time, noise and context.

    Args:
        state: The state of the loop.
        points: The points, `n x d`.
        y: The observations, `n`.
        time: Their times, `n`; 1, 2, ..., n by default.
        noise: Their noise variances, `n`; the strategy's by default, and where an entry is None.
        context: Their contexts, `n x c`; None if there are none.
        ok: False where a measurement failed, `n`; all succeeded by default.

    Raises:
        InputDataError: If columns differ in length, or a number is not finite.
    """
    c = state.domain.columns - state.domain.dim
    n = len(points)
    good = [True] * n if ok is None else _truths("ok", ok, n)
    values = as_series("y", y, n, good)
    times = as_series("time", list(range(1, n + 1)) if time is None else time, n)
    noises: Sequence[float | None] = [None] * n
    if noise is not None:
        given = [one is not None for one in noise] if isinstance(noise, list) else [True] * n
        series = as_series("noise", noise, n, given)
        noises = [one if there else None for one, there in zip(series, given)]
    contexts: Sequence[Numbers | None] = [context] * n
    if context is not None and c:
        known = as_points("context", context, c, state)
        if len(known) != n:
            raise InputDataError(
                f"context has {counted(len(known), 'rows')}, but X has {n}; give one row per "
                "measurement."
            )
        contexts = list(known)
    for row in sorted(range(n), key=lambda one: times[one]):
        value = values[row] if good[row] else None
        yield points[row], value, times[row], noises[row], contexts[row]


def _truths(name: str, value: object, rows: int) -> list[bool]:
    """A bool per row of a table."""
    column = list(value) if isinstance(value, Iterable) else [value]
    if len(column) != rows:
        raise InputDataError(
            f"{name} is {shown(value)}, but X has {counted(rows, 'rows')}; give one bool per row."
        )
    return [as_truth(f"{name} in row {row}", one) for row, one in enumerate(column)]


def as_series(
    name: str, value: object, rows: int, good: Sequence[bool] | None = None, there: str = "X has"
) -> list[float]:
    """A finite number per row of a table, or per row that is ``good``.

    Raises:
        InputDataError: If the number of rows differs or a number is not finite.
    """
    fix = f"{there} {counted(rows, 'rows')}; give one number per row."
    given: Any = value
    if good is not None and not all(good) and len(good) == np.size(given):
        entries = given.reshape(-1) if hasattr(given, "reshape") else given
        given = [one if counts else math.nan for one, counts in zip(entries, good)]
    refuse_masked(name, given)
    try:
        series = _tensor(given, dtype=torch.float64).cpu()
    except (TypeError, ValueError, RuntimeError) as error:
        each = value if isinstance(value, Iterable) else ()
        text = next((one for one in each if isinstance(one, str)), None)
        raise InputDataError(
            f"{name} has {shown(value if text is None else text)}, which is no number, but "
            f"{fix}{decimal_comma(text)}"
        ) from error
    if series.numel() != rows or series.dim() > 2:
        raise InputDataError(f"{name} has shape {tuple(series.shape)}, but {fix}")
    column: list[float] = series.reshape(-1).tolist()
    for row, one in enumerate(column):
        if not math.isfinite(one) and (good is None or good[row]):
            failed = ", or say ok=False for them" if name == "y" else ""
            raise InputDataError(
                f"{name} is {one} in row {row}; leave out rows without a measurement{failed}."
            )
    return column


def as_replies(y: object, ok: object, points: int) -> tuple[float | None, ...]:
    """An expert's answers, one per point; None where a point was not answered.

    Args:
        y: The answers; arbitrary where ``ok`` is False.
        ok: Which points were answered: one bool for all points, or one per point; all by default.
        points: Number of points asked about.

    Raises:
        InputDataError: If there is not one value per point, or an answer is not finite.
    """
    every = ok is None or isinstance(ok, bool)
    good = [ok is not False] * points if every else _truths("ok", ok, points)
    if y is None and not any(good):
        return (None,) * points
    values = as_series("y", y, points, good, "the consultation has")
    return tuple(value if counts else None for value, counts in zip(values, good))
