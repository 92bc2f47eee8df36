"""What makes two runs the same: everything that decides their numbers, as readable JSON."""

from __future__ import annotations

import functools
import hashlib
import inspect
import math
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.inference.covariance import describe_kernel

Description = Any
"""JSON: None, bool, int, float, str, or lists and dictionaries of such."""

TYPE = "type"
"""Key under which the description of an object names its class."""
ABSENT = object()
"""Stands in for what only one of two descriptions has."""


def describe(value: object, path: str) -> Description:
    """A value as JSON that differs wherever results would.

    Objects are described by their class and public attributes, tensors and arrays by dtype, shape
    and a digest of their bytes, functions by their name (those without one of their own by their
    code besides). Attributes whose name begins with ``_`` and cached properties are left out.

    Args:
        value: Anything a world or a strategy is made of.
        path: Where it stands, for the error.

    Raises:
        ValueError: If an object has no attributes to be told apart by.
    """
    match value:
        case None | bool() | int() | str() if not isinstance(value, Enum):
            return value
        case float():
            return value if math.isfinite(value) else str(value)
        case Enum() | Path() | torch.dtype() | torch.device():
            return str(value)
        case np.generic():
            return describe(value.item(), path)
        case Tensor():
            return _numbers(value.detach().cpu().numpy())
        case np.ndarray():
            return _numbers(value)
        case Kernel():
            return {
                TYPE: type(value).__name__,
                "kernel": describe_kernel(value),
                "sha256": _module_digest(value),
            }
        case torch.nn.Module():
            return {TYPE: type(value).__name__, "sha256": _module_digest(value)}
        case functools.partial():
            parts = {"function": value.func, "args": value.args, "keywords": value.keywords}
            return {TYPE: "partial"} | _described(parts, path)
        case type():
            return value.__qualname__
        case types.FunctionType() | types.BuiltinFunctionType() | types.MethodType():
            return _function(value, path)
        case Mapping():
            return _described({str(key): one for key, one in value.items()}, path)
        case tuple() if hasattr(value, "_asdict"):
            return {TYPE: type(value).__name__} | _described(value._asdict(), path)
        case list() | tuple():
            return [describe(one, f"{path}[{place}]") for place, one in enumerate(value)]
        case set() | frozenset():
            return sorted((describe(one, path) for one in value), key=repr)
    return {TYPE: type(value).__qualname__} | _described(_attributes(value, path), path)


def differences(there: Description, here: Description, path: str = "") -> list[str]:
    """What distinguishes two descriptions, one phrase for each difference.

    Args:
        there: The description found in a folder.
        here: The description of what is wanted now.
        path: Where both stand in the whole.
    """
    if _same_kind(there, here):
        keys = [*there, *(key for key in here if key not in there)]
        deeper = {key: f"{path}.{key}" if path else str(key) for key in keys}
        pairs = [(there.get(key, ABSENT), here.get(key, ABSENT), deeper[key]) for key in keys]
    elif _same_parts(there, here):
        pairs = [(old, new, f"{path}[{n}]") for n, (old, new) in enumerate(zip(there, here))]
    elif there == here:
        pairs = []
    else:
        return [f"{path} is {_short(there)} there and {_short(here)} here"]
    return [one for old, new, at in pairs for one in differences(old, new, at)]


def _same_kind(there: Description, here: Description) -> bool:
    """Whether both are mappings, or objects of one class."""
    both = isinstance(there, dict) and isinstance(here, dict)
    return both and there.get(TYPE) == here.get(TYPE)


def _same_parts(there: Description, here: Description) -> bool:
    """Whether both are lists of as many objects, which are told apart one by one."""
    both = isinstance(there, list) and isinstance(here, list) and len(there) == len(here)
    return both and all(isinstance(one, dict) for one in (*there, *here))


def _short(description: Description) -> str:
    if description is ABSENT:
        return "absent"
    if isinstance(description, dict):
        return str(description.get(TYPE, "a mapping"))
    text = repr(description)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _described(parts: Mapping[str, object], path: str) -> dict[str, Description]:
    return {name: describe(part, f"{path}.{name}") for name, part in parts.items()}


def _attributes(value: object, path: str) -> dict[str, object]:
    """The public attributes of an object, sorted by name."""
    names = set(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        names |= {slots} if isinstance(slots, str) else set(slots)
    if not names and not hasattr(value, "__dict__"):
        raise ValueError(
            f"{path} is {value!r}, and a {type(value).__qualname__} has no attributes by which a "
            "resumed run could be recognised. Keep it under a name that begins with an "
            "underscore if results do not depend on it, or build it from numbers and tensors."
        )
    kind = type(value)
    return {
        name: getattr(value, name)
        for name in sorted(names)
        if not name.startswith("_")
        and hasattr(value, name)
        and not isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
    }


def _function(value: Any, path: str) -> Description:
    name = f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, types.MethodType):
        return {TYPE: name, "of": describe(value.__self__, f"{path}.of")}
    if not isinstance(value, types.FunctionType):
        return name
    if "<" not in value.__qualname__ and not value.__closure__:
        return name
    # A lambda or a function made by another shares its name with its siblings.
    held = {
        "defaults": value.__defaults__,
        "closure": [cell.cell_contents for cell in value.__closure__ or ()],
    }
    return {TYPE: name, "code": _digest(_code(value.__code__))} | _described(held, path)


def _code(code: types.CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr(code.co_names).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _code(constant)
        else:
            yield repr(constant).encode()


def _numbers(array: np.ndarray) -> str:
    shape = " x ".join(map(str, array.shape)) or "1 number"
    data = np.ascontiguousarray(array).tobytes()
    return f"{array.dtype} {shape}, sha256 {_digest([data])}"


def _module_digest(module: torch.nn.Module) -> str:
    """Parameters, buffers and plain attributes (such as the ν of a Matérn kernel)."""

    def parts() -> Iterator[bytes]:
        for name, tensor in sorted(module.state_dict().items()):
            yield f"{name} {describe(tensor, name)}".encode()
        for name, child in module.named_modules():
            for key, one in sorted(vars(child).items()):
                plain = isinstance(one, bool | int | float | str)
                if plain and key != "training" and not key.startswith("_"):
                    yield f"{name}.{key} {one!r}".encode()

    return _digest(parts())


def _digest(parts: Iterator[bytes] | list[bytes]) -> str:
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()[:16]
