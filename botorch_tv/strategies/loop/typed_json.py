"""JSON of dataclasses: written with a line per row, read with every field checked by its type."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields
from types import NoneType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from botorch_tv.validation import require

LARGEST = 2**62
"""Counters beyond are damage."""
FORMER = {"multiplier": "sqrt_beta"}
"""New names of fields that older files store under another name."""
Kind = TypeVar("Kind")


def as_json(value: Any) -> str:
    """As JSON: rows with a line for each, all else on one."""
    if not isinstance(value, tuple):
        return json.dumps(value)
    encode = json.JSONEncoder(allow_nan=False).encode  # json.dumps would make one per line
    lines = [f"    {encode(one)}" for one in value]
    return "[\n" + ",\n".join(lines) + "\n  ]" if lines else "[]"


def typed(kind: type[Kind], data: Mapping[str, Any], name: str) -> Kind:
    """A dataclass of the fields that its types ask for.

    Raises:
        KeyError, TypeError, ValueError: If the data are damaged.
    """
    require(isinstance(data, dict), f"{name} is {_short(data)}, which has no fields")
    data = {FORMER.get(one, one): value for one, value in data.items()}
    later = {one.name for one in fields(kind) if one.default is not MISSING}  # type: ignore[arg-type]
    hints = {
        one: hint for one, hint in get_type_hints(kind).items() if one in data or one not in later
    }
    return kind(**{one: _value(hint, data[one], one) for one, hint in hints.items()})


def _value(hint: Any, value: Any, name: str) -> Any:
    """A value of JSON, checked against the type of a field."""
    kinds = get_args(hint)
    if NoneType in kinds:
        return None if value is None else _value(kinds[0], value, name)
    if get_origin(hint) is tuple:
        require(isinstance(value, list), f"{name} is {_short(value)}, which is no list")
        return tuple(_value(kinds[0], one, name) for one in value)
    if hint is int:
        least = -LARGEST if name == "number" else 0  # negative for what nobody suggested
        whole = type(value) is int and least <= value < LARGEST
        require(whole, f"{name} is {_short(value)}, which is no whole number from 0 on")
        return value
    if hint is float:
        plain = type(value) is float or (type(value) is int and abs(value) < LARGEST)
        finite = plain and math.isfinite(value)
        require(finite, f"{name} is {_short(value)}, which is no finite number")
        return float(value)
    if hint is str or get_origin(hint) is dict:
        require(isinstance(value, get_origin(hint) or hint), f"{name} is {_short(value)}")
        return value
    return value if hint is Any else typed(hint, value, name)


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, (list, dict)) else f"a {type(value).__name__}"
    return text if len(text) <= 60 else f"{text[:57]}..."
