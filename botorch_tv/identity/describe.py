"""Anything a world or a strategy is made of, as readable JSON."""

from __future__ import annotations

import functools
import inspect
import math
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.identity.arrays import describe_array
from botorch_tv.identity.code import Code, content, module_of
from botorch_tv.identity.source import digest, function_digest, is_users
from botorch_tv.identity.words import CODE, PROBES, TYPE, Description
from botorch_tv.inference.covariance import describe_kernel


def describe(value: object, path: str) -> Description:
    """Describe a value as JSON such that values with different results differ.

    Objects are described by their class and public attributes, tensors and arrays by dtype, shape,
    a digest of their bytes and a few sums, library functions by their name. Of functions and
    classes that are no library's there is besides a digest of the code of each, and of all code and
    constants that they refer to by name. Attributes whose name begins with ``_`` are left out,
    unless they keep an argument of the constructor under its name, and so are cached properties.

    Args:
        value: Anything a world or a strategy is made of.
        path: Where it stands, for the error.

    Raises:
        ValueError: If an object has no attributes to be told apart by, or is nested too deeply.
    """
    try:
        return _Describer().describe(value, path)
    except RecursionError:
        raise ValueError(
            f"{path} is nested too deeply to be described for a resumed run; build it of fewer "
            "layers, or keep the deep part under a name that begins with an underscore if results "
            "do not depend on it."
        ) from None


class _Describer:
    """One description under way."""

    def __init__(self) -> None:
        self._above: dict[int, str] = {}
        self._classes: dict[type, dict[str, Description]] = {}

    def describe(self, value: object, path: str) -> Description:
        if value is None or (type(value) in (bool, int, str)):
            return value
        if id(value) in self._above:
            return {"the same as": self._above[id(value)]}
        with self._within(value, path):
            return self._described(value, path)

    @contextmanager
    def _within(self, value: object, path: str) -> Iterator[None]:
        self._above[id(value)] = path
        try:
            yield
        finally:
            del self._above[id(value)]

    def _described(self, value: Any, path: str) -> Description:
        match value:
            case Enum() if is_users(type(value).__module__):
                return self._of_class(value) | self._parts({"value": value.value}, path)
            case Enum() | Path() | torch.dtype() | torch.device() | range() | complex():
                return str(value)
            case bool() | int() | str():
                return value
            case float():
                return float(value) if math.isfinite(value) else str(float(value))
            case bytes():
                return f"{len(value)} bytes, sha256 {digest([value])}"
            case np.generic():
                return self.describe(value.item(), path)
            case Tensor():
                return describe_array(value.detach().cpu())
            case np.ndarray():
                return describe_array(value)
            case torch.nn.Module():
                return self._of_class(value) | self._module(value, path)
            case functools.partial():
                parts = {"function": value.func, "args": value.args, "keywords": value.keywords}
                return {TYPE: "partial"} | self._parts(parts, path)
            case type():
                return self._class_itself(value)
            case types.FunctionType() | types.BuiltinFunctionType() | types.MethodType():
                return self._function(value, path)
            case _ if isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
                return {TYPE: type(value).__qualname__} | self._parts(
                    {"function": value.__wrapped__}, path
                )
            case np.ufunc():
                return value.__name__
            case Mapping():
                keys = {key: str(key) for key in value}
                if len(set(keys.values())) < len(keys):
                    keys = {key: repr(key) for key in value}
                parts = {keys[key]: one for key, one in value.items()}
                return self._code_of(type(value)) | self._parts(parts, path)
            case tuple() if hasattr(value, "_asdict"):
                return self._of_class(value) | self._parts(value._asdict(), path)
            case list() | tuple():
                return [self.describe(one, f"{path}[{n}]") for n, one in enumerate(value)]
            case set() | frozenset():
                return sorted((self.describe(one, path) for one in value), key=repr)
        return self._of_class(value) | self._parts(_attributes(value, path), path)

    def _parts(self, parts: Mapping[str, object], path: str) -> dict[str, Description]:
        # A part may not hide what the whole is.
        return {
            f"{name} (part)" if name in (TYPE, CODE, PROBES) else name: self.describe(
                part, f"{path}.{name}"
            )
            for name, part in parts.items()
        }

    def _of_class(self, value: object) -> dict[str, Description]:
        return {TYPE: type(value).__qualname__} | self._code_of(type(value))

    def _code_of(self, kind: type) -> dict[str, Description]:
        """What the code of a class does, as far as it is a user's."""
        if kind not in self._classes:
            self._classes[kind] = {}  # an attribute of the class may be of the class
            code = Code(self.describe)
            code.add_class(kind)
            self._classes[kind] = {CODE: code.found} if code.found else {}
        return self._classes[kind]

    def _class_itself(self, kind: type) -> Description:
        code = self._code_of(kind)
        return {TYPE: f"class {kind.__qualname__}"} | code if code else kind.__qualname__

    def _function(self, value: Any, path: str) -> Description:
        if isinstance(value, types.MethodType):
            method = {TYPE: f"method {value.__func__.__qualname__}"}
            return method | self._parts({"of": value.__self__}, path)
        if not isinstance(value, types.FunctionType):
            return f"{value.__module__}.{value.__qualname__}"
        held = {
            "defaults": value.__defaults__,
            "named defaults": value.__kwdefaults__,
            "closure": [content(cell) for cell in value.__closure__ or ()],
        }
        held = {key: one for key, one in held.items() if one}
        if is_users(module_of(value)):
            own = Code(self.describe)
            own.add_function(value)
            return {TYPE: value.__qualname__, CODE: own.found} | self._parts(held, path)
        # By the code, since decorators give their functions the names of those that they wrap.
        name = f"{module_of(value)}.{value.__code__.co_qualname}"
        if "<" not in name:
            return name
        # A lambda or a function made by another shares its name with its siblings.
        code = {CODE: function_digest(value)} if "<lambda>" in name else {}
        return {TYPE: name} | code | self._parts(held, path)

    def _module(self, module: torch.nn.Module, path: str) -> dict[str, Description]:
        """Parameters, buffers, and whatever else it and the modules within it keep."""
        told: dict[str, Description] = {}
        if isinstance(module, Kernel):
            told["kernel"] = describe_kernel(module)
        state = {name: tensor.detach().cpu() for name, tensor in module.state_dict().items()}
        told["state"] = {name: describe_array(tensor) for name, tensor in sorted(state.items())}
        for name, child in module.named_modules():
            for key, one in sorted(_kept(child).items()):
                own = f"{name}.{key}".lstrip(".")
                try:
                    told |= self._parts({own: one}, path)
                except ValueError:
                    if is_users(type(child).__module__):
                        raise
                    told[own] = {TYPE: type(one).__qualname__}  # a library's own business
            if name and (code := self._code_of(type(child))):
                told[f"{name} {CODE}"] = code[CODE]
        return told


def _attributes(value: object, path: str) -> dict[str, object]:
    """The attributes of an object that count, sorted by name."""
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
    hidden = _arguments_kept(kind)
    return {
        name: getattr(value, name)
        for name in sorted(names)
        if (not name.startswith("_") or name in hidden)
        and hasattr(value, name)
        and not isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
    }


def _kept(module: torch.nn.Module) -> dict[str, object]:
    """What a module keeps besides parameters, buffers and modules."""
    hidden = _arguments_kept(type(module))
    return {
        name: one
        for name, one in vars(module).items()
        if one is not None and name != "training" and (name[0] != "_" or name in hidden)
    }


def _arguments_kept(kind: type) -> set[str]:
    """Hidden names under which a user's class may keep the arguments of its constructor."""
    if not is_users(kind.__module__):
        return set()
    try:
        return {f"_{name}" for name in inspect.signature(kind).parameters}
    except (TypeError, ValueError):
        return set()
