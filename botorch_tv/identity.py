"""The identity of a run: everything that determines its numbers, as readable JSON."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import linecache
import math
import subprocess
import sys
import types
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from numbers import Number
from pathlib import Path
from subprocess import DEVNULL
from typing import Any, cast

import botorch
import gpytorch
import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

import botorch_tv
from botorch_tv.gp.covariance import describe_kernel

Description = Any
"""A JSON value: None, bool, int, float, str, or lists and dictionaries of these."""
TYPE, CODE, SUMS = "type", "(code)", "sums"
"""Keys of the class of an object, of its code, and of the weighted sums of an array."""
NUMBER_ROUNDING, ARRAY_ROUNDING = 1e-12, 1e-10
"""Differences that count as rounding: of numbers, and of sums relative to the norm of an array."""
ABSENT, PARTED = object(), dict | float | list
FUNCTIONS = (types.FunctionType, staticmethod, classmethod, property)
MADE = (functools.partial, functools.partialmethod, functools.cached_property, types.MethodType)
"""Types of functions in the body of a class, and of what is made of functions."""
PARTS = ("func", "args", "keywords", "fget", "fset", "__self__", "__func__", "__wrapped__")
"""Attributes under which these hold what they are made of."""
DATA = (Tensor, np.ndarray, torch.nn.Module, functools.partial, Mapping, list, tuple, set)
FIXED = (Number, str, bytes, range, tuple, frozenset, Enum, Path, torch.dtype, torch.device)
"""Types of data, and of values that cannot change."""


def describe(value: object, path: str) -> Description:
    """Describe a value as JSON such that values with different results differ.

    Objects are described by their class and public attributes, arrays by a digest of their bytes
    and, up to rounding, by weighted sums. Of functions and classes that belong to no library, there
    is besides a digest of the source of each and of all code and constants that they refer to by
    name. Attributes whose name begins with ``_`` are left out, unless they hold an argument of the
    constructor under its name, and so are cached properties.

    Args:
        value: Anything a world or a strategy is made of.
        path: Where it stands, for the error.

    Raises:
        ValueError: If an object has no attributes by which it could be recognised.
    """
    return _Describer().describe(value, path)


def differences(there: Description, here: Description, path: str = "") -> list[str]:
    """List the differences between two descriptions, one phrase each; rounding is none.

    Args:
        there: The description found in a file.
        here: The description of what is wanted now.
        path: The path of both in the whole description.
    """
    if isinstance(there, dict) and isinstance(here, dict) and there.get(TYPE) == here.get(TYPE):
        if SUMS not in there:
            keys, at = sorted({**there, **here}.keys() - {TYPE}), f"{path}." if path else ""
            two = [(there.get(key, ABSENT), here.get(key, ABSENT), f"{at}{key}") for key in keys]
            return [one for each in two for one in differences(*each)]
        norms, near = [*there[SUMS][:1], *here[SUMS][:1]], functools.partial(np.allclose, rtol=0)
        if len(norms) == 2 and near(there[SUMS], here[SUMS], atol=ARRAY_ROUNDING * min(norms)):
            return []
    lists = isinstance(there, list) and isinstance(here, list) and len(there) == len(here)
    if lists and all(isinstance(one, PARTED) for one in (*there, *here)):
        pairs = enumerate(zip(there, here))
        return [one for n, two in pairs for one in differences(*two, f"{path}[{n}]")]
    close = isinstance(there, float) and isinstance(here, float)
    if there == here or (close and math.isclose(there, here, rel_tol=NUMBER_ROUNDING)):
        return []
    return [f"{path} is {_short(there)} there and {_short(here)} here"]


def libraries() -> dict[str, str]:
    """Versions of the libraries that take part."""
    found = {one.__name__: str(one.__version__) for one in (torch, botorch, gpytorch, np)}
    return found | {"botorch_tv": own_version()}


@functools.cache
def own_version() -> str:
    """The version of this package; of a clone also the commit, and a digest of edits since then."""
    folder = Path(botorch_tv.__file__).parent
    with suppress(OSError, subprocess.CalledProcessError):
        if (folder.parent / ".git").exists():  # else installed, perhaps in a repository of the user
            commit, edits = (
                subprocess.check_output(["git", "-C", folder, *one, "--", "*.py"], stderr=DEVNULL)
                for one in (("log", "-1", "--format=%h"), ("diff", "HEAD"))
            )
            edited = f" with edits {digest(edits.strip())}" if edits.strip() else ""
            return f"{botorch_tv.__version__} (commit {commit.decode().strip()}{edited})"
    return botorch_tv.__version__


def digest(content: bytes) -> str:
    """A short fingerprint of some bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


def is_users(module: str | None) -> bool:
    """Whether a module is neither of this package, nor of Python, nor of an installed package."""
    top = (module or "__main__").partition(".")[0]
    if module is None or top == "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    installed = file is not None and {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not (installed or top == "botorch_tv" or top in sys.stdlib_module_names)


# ---------------------------------------------------------------- descriptions


class _Describer:
    """One description in progress."""

    def __init__(self) -> None:
        self._above: dict[int, str] = {}
        self._code: dict[int, tuple[object, str]] = {}
        """Functions and classes described already, and where."""

    def describe(self, value: object, path: str) -> Description:
        if id(value) in self._above:
            return {"the same as": self._above[id(value)]}
        self._above[id(value)] = path
        try:
            return self._described(value, path)
        finally:
            del self._above[id(value)]

    def _described(self, value: Any, path: str) -> Description:
        match value:
            case Enum():
                return self._object(value, {"value": value.value}, path)
            case None | bool() | int() | str():
                return value
            case Path() | torch.dtype() | torch.device() | range() | complex():
                return str(value)
            case float():
                return float(value) if math.isfinite(value) else str(float(value))
            case bytes():
                return f"{len(value)} bytes, sha256 {digest(value)}"
            case np.generic():
                return self.describe(value.item(), path)
            case Tensor() | np.ndarray():
                return _array(value)
            case torch.nn.Module():
                text = {"kernel": describe_kernel(value)} if isinstance(value, Kernel) else {}
                return text | self._object(value, _attributes(value, path), path)
            case type():
                return {TYPE: f"class {value.__qualname__}", CODE: self._class(value, path)}
            case types.FunctionType():
                return self._function(value, path)
            case types.BuiltinFunctionType() | np.ufunc() | types.ModuleType():
                return f"{getattr(value, '__module__', None)}.{value.__name__}"
            case _ if _is_made_of_functions(value):
                held = {n: one for n in PARTS if (one := getattr(value, n, None)) is not None}
                return {TYPE: type(value).__qualname__} | self._parts(held, path)
            case Mapping():
                alike = len({str(key) for key in value}) < len(value)
                parts = {repr(key) if alike else str(key): one for key, one in value.items()}
                plain = type(value) is dict
                return self._parts(parts, path) if plain else self._object(value, parts, path)
            case tuple() if hasattr(value, "_asdict"):
                return self._object(value, value._asdict(), path)
            case list() | tuple():
                return [self.describe(one, f"{path}[{n}]") for n, one in enumerate(value)]
            case set() | frozenset():
                return sorted((self.describe(one, path) for one in value), key=repr)
        return self._object(value, _attributes(value, path), path)

    def _object(self, value: object, parts: Mapping[str, object], path: str) -> dict[str, Any]:
        """An object by its class, the code of that, and some parts."""
        kind = type(value)
        code = self._class(kind, f"{path}.{CODE}")
        found = {TYPE: kind.__qualname__} | ({CODE: code} if code else {})
        return found | self._parts(parts, path)

    def _parts(self, parts: Mapping[str, object], path: str) -> dict[str, Description]:
        found = {name: self.describe(one, f"{path}.{name}") for name, one in parts.items()}
        return {f"{n} (part)" if n in (TYPE, CODE, SUMS) else n: one for n, one in found.items()}

    def _class(self, kind: type, path: str) -> dict[str, Description]:
        """The code of a class, as far as it is a user's; empty if all is a library's."""
        if id(kind) in self._code:
            return {"the same as": self._code[id(kind)][1]}
        if users := [one for one in kind.__mro__ if is_users(one.__module__)]:
            self._code[id(kind)] = kind, path
        return self._named({n: part for one in users for n, part in _members(one)}, path)

    def _function(self, function: types.FunctionType, path: str) -> Description:
        """A library's by its name; a user's by its source and all that this refers to."""
        code, scope = function.__code__, function.__globals__
        users = is_users(scope.get("__name__"))
        # By the code, since decorators give their functions the names of those that they wrap.
        name = f"{scope.get('__name__')}.{code.co_qualname}"
        if not users and "<" not in name and not hasattr(function, "__wrapped__"):
            return name
        if users and id(function) in self._code:
            return {"the same as": self._code[id(function)][1]}
        self._code[id(function)] = function, path
        own = (users or "<lambda>" in name) and code.co_filename != "<string>"  # of a dataclass
        cells = [cell.cell_contents for cell in function.__closure__ or ()]
        held = dict(zip(code.co_freevars, cells))
        held |= {f"default {n}": one for n, one in enumerate(function.__defaults__ or ())}
        held |= function.__kwdefaults__ or {}
        used = _globals_used(_names(code), scope) if users else {}
        found = {TYPE: function.__qualname__} | ({"source": _source(function)} if own else {})
        return found | self._named(held, path, held=users) | self._named(used, path)

    def _named(
        self, names: Mapping[str, object], path: str, held: bool = False
    ) -> dict[str, Description]:
        """What names in code stand for, as far as results may depend on it."""
        found: dict[str, Description] = {}
        for name, part in names.items():
            if _counts(name, part, held):
                try:
                    found |= self._parts({name: part}, path)
                except ValueError:  # what cannot be recognised counts by its class
                    found |= self._parts({name: type(part)}, path)
        return found


def _counts(name: str, value: object, held: bool) -> bool:
    """Whether results may depend on what a name in code stands for, beyond versions of libraries.

    Objects of libraries do where a function holds them, in its closure or as a default. Under a
    hidden name, only what cannot change does: the rest is a cache or a counter.
    """
    if isinstance(value, types.FunctionType):
        return is_users(value.__globals__.get("__name__")) or value.__closure__ is not None
    if isinstance(value, type):
        return any(is_users(one.__module__) for one in value.__mro__)
    if value is None or _is_made_of_functions(value) or isinstance(value, FIXED):
        return value is not None
    known = held or isinstance(value, DATA) or is_users(type(value).__module__)
    return known and not name.rpartition(".")[2].startswith("_")


def _is_made_of_functions(value: object) -> bool:
    wrapped = getattr(value, "__wrapped__", None)
    return isinstance(value, (*MADE, *FUNCTIONS)) or isinstance(wrapped, types.FunctionType)


def _members(kind: type) -> Iterator[tuple[str, object]]:
    """What is written in the body of a class, by name."""
    for name, member in sorted(vars(kind).items()):
        written = isinstance(member, FUNCTIONS) and not name.startswith("__annotate")
        if written or not name.startswith("__"):
            yield f"{kind.__qualname__}.{name}", member


def _globals_used(
    used: set[str], scope: Mapping[str, object], at: str = "", above: tuple[object, ...] = ()
) -> dict[str, object]:
    """The globals that some names stand for; of modules of users, their globals in turn."""
    found: dict[str, object] = {}
    for name in sorted(used & scope.keys()):
        one, own = scope[name], f"{at}{name}"
        if not isinstance(one, types.ModuleType):
            found |= {} if name.startswith("__") else {own: one}
        elif one not in above and is_users(one.__name__):
            found |= _globals_used(used, vars(one), f"{own}.", (*above, one))
    return found


def _array(array: np.ndarray | Tensor) -> Description:
    """Type, shape, a digest of the bytes, and for float64, which may be computed, sums."""
    array = array.detach().cpu().numpy() if isinstance(array, Tensor) else array
    if array.dtype.hasobject:
        raise ValueError("an array of Python objects cannot be recognised in a resumed run.")
    kind = f"{array.dtype} {' x '.join(map(str, array.shape)) or '1 number'}"
    found = {TYPE: kind, "sha256": digest(np.ascontiguousarray(array).tobytes())}
    sums: list[float] = []
    if array.dtype == np.float64 and np.isfinite(array).all():
        flat = array.reshape(-1)
        weights = (np.cos(rate * np.arange(1.0, len(flat) + 1)) for rate in (1.0, 2.0, 3.0))
        sums = [float(np.linalg.norm(flat)), *(float(flat @ each) for each in weights)]
    return found | {SUMS: sums}


def _short(description: Description) -> str:
    if description is ABSENT:
        return "absent"
    if isinstance(description, dict):
        kind = str(description.get(TYPE, "a mapping"))
        return f"{kind}, sha256 {description['sha256']}" if SUMS in description else kind
    text = repr(description)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _attributes(value: object, path: str) -> dict[str, object]:
    """The attributes of an object that count; of a module also what it is made of."""
    kind, state = type(value), cast(Any, object.__getstate__(value))
    if state is None and not hasattr(value, "__dict__"):
        raise ValueError(
            f"{path} is {value!r}, which has no attributes to be recognised by in a resumed run; "
            "keep it under a name that begins with an underscore if results do not depend on it."
        )
    plain, slots = state if isinstance(state, tuple) else (state, None)
    hidden: set[str] = set()  # names under which a user's class may hold arguments
    if is_users(kind.__module__):
        with suppress(TypeError, ValueError):
            hidden = {f"_{name}" for name in inspect.signature(kind).parameters}
    found = {
        name: one
        for name, one in sorted(((plain or {}) | (slots or {})).items())
        if (not name.startswith("_") or name in hidden)
        and not isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
    }
    if isinstance(value, torch.nn.Module):
        found |= {**value._parameters, **value._buffers, **value._modules}
        for name in ("training", *value._non_persistent_buffers_set):
            found.pop(name, None)
    return found


# ---------------------------------------------------------------- source


def _names(code: types.CodeType) -> set[str]:
    """Names of globals and attributes in a function and those within it."""
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _source(function: types.FunctionType) -> str:
    """A digest of the source of a function, without comments, docstrings and layout.

    Where there is no source, as of a script on standard input, or where a file has been edited
    since its import, what runs is known by its compiled form alone.
    """
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    found, compiled = _definitions(text)
    nodes = found.get((code.co_name, code.co_firstlineno), [])
    same = len(nodes) == 1 and code in compiled
    return digest((ast.unparse(nodes[0]) if same else _compiled(code)).encode())


@functools.lru_cache(maxsize=32)
def _definitions(text: str) -> tuple[dict[tuple[str, int], list[ast.AST]], set[types.CodeType]]:
    """All functions of a file without their docstrings, by name and line, and as compiled."""
    nodes: dict[tuple[str, int], list[ast.AST]] = {}
    try:
        tree, codes = ast.parse(text), [compile(text, "", "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return {}, set()
    for code in codes:  # which grows meanwhile
        codes += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
            line = min(one.lineno for one in (node, *getattr(node, "decorator_list", ())))
            nodes.setdefault((getattr(node, "name", "<lambda>"), line), []).append(node)
            if not isinstance(node, ast.Lambda) and ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    return nodes, set(codes)


def _compiled(code: types.CodeType) -> str:
    """What a function was compiled to, whatever its lines and the order of sets."""

    def stable(one: object) -> object:
        if isinstance(one, types.CodeType):
            return _compiled(one)
        return sorted(map(repr, one)) if isinstance(one, frozenset) else one

    constants = [stable(one) for one in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_freevars, constants))
