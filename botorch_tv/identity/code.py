"""The users' code that an object depends on: its own, and what that refers to by name."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from botorch_tv.identity.source import function_digest, is_users, names_used
from botorch_tv.identity.words import Description

_BOOKKEEPING = ("_abc_impl", "_member_map_", "_member_names_", "_value2member_map_")
_WRITTEN = (types.FunctionType, staticmethod, classmethod, property)
_TOLD = ("torch", "gpytorch", "botorch", "numpy", "botorch_tv", "linear_operator")
"""Packages whose versions are recorded elsewhere."""
_FIXED = (bool, int, float, complex, str, bytes, range, Enum, Path, torch.dtype, torch.device)
"""Values that cannot change."""


class Code:
    """The code that some user's function or class refers to, by name.

    Attributes:
        found: A digest of every function, and a description of every constant.
    """

    def __init__(self, describe: Callable[[object, str], Description]) -> None:
        self.found: dict[str, Description] = {}
        self._describe = describe
        self._seen: dict[int, object] = {}  # kept, so that no other object gets their numbers
        self._modules: set[tuple[int, frozenset[str]]] = set()

    def add_class(self, kind: type) -> None:
        """The methods and attributes of a class and of those it is made from."""
        for one in kind.__mro__:
            if not is_users(one.__module__):
                self._add_version(one)
                continue
            if not self._is_new(one):
                continue
            for name, member in sorted(vars(one).items()):
                if not _is_bookkeeping(name, member):
                    self._add(f"{one.__qualname__}.{name}", member)

    def add_function(self, function: types.FunctionType) -> None:
        """A function and what it refers to."""
        code = function.__code__
        name = function.__qualname__
        if not self._is_new(function):
            return
        if code.co_filename != "<string>":  # as dataclasses write them, from what is told anyway
            self._note(name, function_digest(function))
        used = names_used(code)
        for one in sorted(used & function.__globals__.keys()):
            self._add(one, function.__globals__[one], used)
        for free, cell in zip(code.co_freevars, function.__closure__ or ()):
            self._add(f"{name}.{free}", content(cell), used)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            if isinstance(default, types.FunctionType | type):
                self._add(f"{name}.default", default)

    def _add(self, name: str, value: Any, used: set[str] | frozenset[str] = frozenset()) -> None:
        """Add the value of a name in a module, a class or a closure.

        Args:
            name: The name.
            value: The value.
            used: Names used by the code that refers to it; of a module, only these are added.
        """
        match value:
            case types.FunctionType() if is_users(module_of(value)):
                self.add_function(value)
            case types.FunctionType():  # perhaps a decorator's, around one of the user's
                for cell in value.__closure__ or ():
                    inner = content(cell)
                    if isinstance(inner, types.FunctionType | type | functools.partial):
                        self._add(name, inner, used)
            case type():
                self.add_class(value)
            case types.ModuleType():
                self._add_module(value, frozenset(used))
            case staticmethod() | classmethod() | types.MethodType():
                self._add(name, value.__func__, used)
            case property():
                for part in (value.fget, value.fset):
                    self._add(name, part, used)
            case functools.cached_property() | functools.partialmethod():
                self._add(name, getattr(value, "func", None), used)
            case _ if isinstance(getattr(value, "__wrapped__", None), types.FunctionType):
                self._add(name, value.__wrapped__, used)
            case _:
                self._add_value(name, value)

    def _add_value(self, name: str, value: object) -> None:
        own = name.rpartition(".")[2]
        if not _is_fixed(value):
            kept = isinstance(value, Tensor | np.ndarray | torch.nn.Module | functools.partial)
            kept |= isinstance(value, Mapping | list | tuple | set)
            if own.startswith("_") or not (kept or is_users(type(value).__module__)):
                if is_users(type(value).__module__):
                    self.add_class(type(value))
                return
        try:
            described = self._describe(value, name)
        except ValueError:  # it holds what cannot be told apart; its code can
            self.add_class(type(value))
            return
        if value is not None:
            self._note(name, described)

    def _add_module(self, module: types.ModuleType, used: frozenset[str]) -> None:
        if not is_users(module.__name__) or (id(module), used) in self._modules:
            return
        self._modules.add((id(module), used))
        for one in sorted(used & vars(module).keys()):
            self._add(one, vars(module)[one], used)

    def _is_new(self, thing: object) -> bool:
        if id(thing) in self._seen:
            return False
        self._seen[id(thing)] = thing
        return True

    def _note(self, name: str, described: Description) -> None:
        while self.found.get(name, described) != described:  # another of the same name
            name += "'"
        self.found[name] = described

    def _add_version(self, kind: type) -> None:
        """Note the version of an installed package that is not recorded elsewhere."""
        top = kind.__module__.partition(".")[0]
        version = getattr(sys.modules.get(top), "__version__", None)
        if top not in _TOLD and isinstance(version, str):
            self.found[f"version of {top}"] = version


def _is_bookkeeping(name: str, member: object) -> bool:
    """Whether Python or a decorator of its library has written this into a class."""
    if isinstance(member, types.MemberDescriptorType | types.GetSetDescriptorType):
        return True
    special = name.startswith("__") and name.endswith("__")
    return (
        name in _BOOKKEEPING
        or (special and not isinstance(member, _WRITTEN))
        or name in ("__annotate__", "__annotate_func__")
    )


def module_of(function: types.FunctionType) -> str | None:
    """The module in which a function was written."""
    name = function.__globals__.get("__name__")
    return name if isinstance(name, str) else None


def _is_fixed(value: object) -> bool:
    """Whether it is made of values that cannot change."""
    if isinstance(value, tuple | frozenset):
        return all(map(_is_fixed, value))
    return value is None or isinstance(value, _FIXED)


def content(cell: types.CellType) -> object:
    """The value in a closure cell; None if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None
