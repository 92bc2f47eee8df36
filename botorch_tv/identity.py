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
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import botorch
import gpytorch
import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

import botorch_tv
from botorch_tv.gp.covariance import describe_kernel

__all__ = ["Description", "describe", "differences"]

Description = Any
"""A JSON value: None, bool, int, float, str, or lists and dictionaries of these."""
TYPE, CODE, SUMS = "type", "(code)", "sums"
"""Keys of the class of an object, of its code, and of the weighted sums of an array."""
NUMBER_ROUNDING, ARRAY_ROUNDING = 1e-12, 1e-10
"""Differences that count as rounding: of numbers, and of sums relative to the norm of an array."""
ABSENT, PARTED = object(), dict | float | list
RECORDED = ("torch", "gpytorch", "botorch", "numpy", "botorch_tv", "linear_operator")
"""Packages whose versions are recorded elsewhere."""
MADE = (functools.partial, functools.partialmethod, functools.cached_property, types.MethodType)
WRITTEN = (types.FunctionType, staticmethod, classmethod, property)
"""Types of what is made of functions, and of functions in the body of a class."""
SLOTS = (types.MemberDescriptorType, types.GetSetDescriptorType)
DATA = (Tensor, np.ndarray, torch.nn.Module, functools.partial, Mapping, list, tuple, set)
FIXED = (bool, int, float, complex, str, bytes, range, Enum, Path, torch.dtype, torch.device)
"""Types of data, and of values that cannot change."""
BOOKKEEPING = (
    *("_abc_impl", "_member_map_", "_member_names_", "_value2member_map_"),
    *("__annotate__", "__annotate_func__"),
)
"""Members of classes that Python writes."""


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
    both = (there, here)
    pairs: list[tuple[Any, Any, str]] | None = None
    if _are(dict, both) and there.get(TYPE) == here.get(TYPE):
        if SUMS in there and _same_array(there, here):
            return []
        if SUMS not in there:
            keys = [key for key in {**there, **here} if key != TYPE]
            at = {key: f"{path}.{key}" if path else str(key) for key in keys}
            pairs = [(there.get(key, ABSENT), here.get(key, ABSENT), at[key]) for key in keys]
    elif _are(list, both) and len(there) == len(here) and _are(PARTED, (*there, *here)):
        pairs = [(old, new, f"{path}[{n}]") for n, (old, new) in enumerate(zip(there, here))]
    if pairs is not None:
        return [one for pair in pairs for one in differences(*pair)]
    if there == here or (_are(float, both) and math.isclose(there, here, rel_tol=NUMBER_ROUNDING)):
        return []
    return [f"{path} is {_short(there)} there and {_short(here)} here"]


def libraries() -> dict[str, str]:
    """Versions of the libraries that take part."""
    others = {"torch": torch, "botorch": botorch, "gpytorch": gpytorch, "numpy": np}
    found = {name: str(one.__version__) for name, one in others.items()}
    return found | {"botorch_tv": own_version()}


@functools.cache
def own_version() -> str:
    """The version of this package; of a clone also the commit, and a digest of edits since then."""
    folder = Path(botorch_tv.__file__).parent

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(folder), *arguments, "--", "*.py"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    if not (folder.parent / ".git").exists():  # installed, perhaps within a repository of the user
        return botorch_tv.__version__
    try:
        commit, edits = git("log", "-1", "--format=%h"), git("diff", "HEAD")
    except (OSError, subprocess.CalledProcessError):
        return botorch_tv.__version__
    edited = f" with edits {digest(edits.encode())}" if edits else ""
    return f"{botorch_tv.__version__} (commit {commit}{edited})"


def together(several: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Join the versions of several runs; different versions of a library are listed, each once."""
    found: dict[str, dict[str, None]] = {}
    for one in several:
        for name, version in one.items():
            found.setdefault(name, {}).update(dict.fromkeys(version.split(", ")))
    return {name: ", ".join(every) for name, every in found.items()}


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
        if value is None or (type(value) in (bool, int, str)):
            return value
        if id(value) in self._above:
            return {"the same as": self._above[id(value)]}
        self._above[id(value)] = path
        try:
            return self._described(value, path)
        finally:
            del self._above[id(value)]

    def _described(self, value: Any, path: str) -> Description:
        match value:
            case Enum() if is_users(type(value).__module__):
                return self._object(value, {"value": value.value}, path)
            case Enum() | Path() | torch.dtype() | torch.device() | range() | complex():
                return str(value)
            case bool() | int() | str():
                return value
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
                code, name = self._class(value, path), value.__qualname__
                return {TYPE: f"class {name}", CODE: code} if code else name
            case types.ModuleType():
                return value.__name__
            case types.FunctionType():
                return self._function(value, path)
            case types.BuiltinFunctionType() | np.ufunc():
                return f"{getattr(value, '__module__', None)}.{value.__name__}"
            case _ if _is_made_of_functions(value):
                names = ("func", "args", "keywords", "fget", "fset", "__self__", "__func__")
                parts = {name: getattr(value, name, None) for name in (*names, "__wrapped__")}
                held = {name: one for name, one in parts.items() if one is not None}
                return {TYPE: type(value).__qualname__} | self._parts(held, path)
            case Mapping():
                alike = len({str(key) for key in value}) < len(value)
                parts = {repr(key) if alike else str(key): one for key, one in value.items()}
                users = is_users(type(value).__module__)
                return self._object(value, parts, path) if users else self._parts(parts, path)
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
        lenient = isinstance(value, torch.nn.Module) and not is_users(kind.__module__)
        return found | self._parts(parts, path, lenient)

    def _parts(
        self, parts: Mapping[str, object], path: str, lenient: bool = False
    ) -> dict[str, Description]:
        """Parts by name; with ``lenient``, those that cannot be recognised by their class."""
        found: dict[str, Description] = {}
        for name, part in parts.items():
            own = f"{name} (part)" if name in (TYPE, CODE, SUMS) else name
            try:
                found[own] = self.describe(part, f"{path}.{name}")
            except ValueError:
                if not lenient:
                    raise
                found[own] = self.describe(type(part), f"{path}.{name}")
        return found

    def _class(self, kind: type, path: str) -> dict[str, Description]:
        """The code of a class, as far as it is a user's; empty if all is a library's."""
        if id(kind) in self._code:
            return {"the same as": self._code[id(kind)][1]}
        users = [one for one in kind.__mro__ if is_users(one.__module__)]
        if not users:
            return {}
        self._code[id(kind)] = kind, path
        parts: dict[str, object] = {}
        for one in kind.__mro__:
            if one in users:
                parts |= _members(one)
            elif (top := one.__module__.partition(".")[0]) not in RECORDED:
                parts[f"version of {top}"] = getattr(sys.modules.get(top), "__version__", None)
        return self._named(parts, path)

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
        held = dict(zip(code.co_freevars, map(_content, function.__closure__ or ())))
        held |= {f"default {n}": one for n, one in enumerate(function.__defaults__ or ())}
        held |= function.__kwdefaults__ or {}
        used = _globals_used(_names(code), scope) if users else {}
        found = {TYPE: function.__qualname__} | ({"source": _source(function)} if own else {})
        return found | self._named(held, path, held=users) | self._named(used, path)

    def _named(
        self, names: Mapping[str, object], path: str, held: bool = False
    ) -> dict[str, Description]:
        """What names in code stand for, as far as results may depend on it."""
        parts = {name: one for name, one in names.items() if _counts(name, one, held)}
        return self._parts(parts, path, lenient=True)


def _counts(name: str, value: object, held: bool) -> bool:
    """Whether results may depend on what a name in code stands for, beyond versions of libraries.

    Objects of libraries do where a function holds them, in its closure or as a default. Under a
    hidden name, only what cannot change does: the rest is a cache or a counter.
    """
    if isinstance(value, types.FunctionType):
        return is_users(value.__globals__.get("__name__")) or value.__closure__ is not None
    if isinstance(value, type):
        return any(is_users(one.__module__) for one in value.__mro__)
    if _is_made_of_functions(value) or _is_fixed(value):
        return value is not None
    known = held or isinstance(value, DATA) or is_users(type(value).__module__)
    return known and not name.rpartition(".")[2].startswith("_")


def _is_made_of_functions(value: object) -> bool:
    wrapped = getattr(value, "__wrapped__", None)
    return isinstance(value, (*MADE, *WRITTEN)) or isinstance(wrapped, types.FunctionType)


def _members(kind: type) -> dict[str, object]:
    """What is written in the body of a class, by name."""
    return {
        f"{kind.__qualname__}.{name}": member
        for name, member in sorted(vars(kind).items())
        if name not in BOOKKEEPING
        and (isinstance(member, WRITTEN) or not (name[:2] == "__" or isinstance(member, SLOTS)))
    }


def _globals_used(used: set[str], scope: Mapping[str, object]) -> dict[str, object]:
    """The globals that some names stand for; of modules of users, their globals in turn."""
    names = {name: scope[name] for name in sorted(used & scope.keys()) if name[:2] != "__"}
    expanded: set[int] = set()
    while modules := {key: one for key, one in names.items() if isinstance(one, types.ModuleType)}:
        for key, module in modules.items():
            del names[key]
            if is_users(module.__name__) and id(module) not in expanded:
                expanded.add(id(module))
                inner = sorted(used & vars(module).keys())
                names |= {f"{key}.{one}": vars(module)[one] for one in inner if one[:2] != "__"}
    return names


def _is_fixed(value: object) -> bool:
    """Whether it is made of values that cannot change."""
    if isinstance(value, tuple | frozenset):
        return all(map(_is_fixed, value))
    return value is None or isinstance(value, FIXED)


def _array(array: np.ndarray | Tensor) -> Description:
    """Type, shape, a digest of the bytes, and for float64, which may be computed, sums."""
    if isinstance(array, Tensor):
        array = array.detach().cpu().resolve_conj().resolve_neg()
        kind, shape = str(array.dtype).removeprefix("torch."), tuple(array.shape)
        array = (array.float() if array.dtype == torch.bfloat16 else array).numpy()
    else:
        kind, shape = str(array.dtype), array.shape
    if array.dtype.hasobject:
        raise ValueError(
            f"an array of Python objects, of shape {shape}, cannot be recognised in a resumed run; "
            "use numbers."
        )
    size = " x ".join(map(str, shape)) or "1 number"
    found = {TYPE: f"{kind} {size}", "sha256": digest(np.ascontiguousarray(array).tobytes())}
    sums: list[float] = []
    if array.dtype == np.float64 and np.isfinite(array).all():
        flat = array.reshape(-1)
        weights = (np.cos(rate * np.arange(1.0, len(flat) + 1)) for rate in (1.0, 2.0, 3.0))
        sums = [float(np.linalg.norm(flat)), *(float(flat @ each) for each in weights)]
    return found | {SUMS: sums}


def _same_array(there: dict[str, Any], here: dict[str, Any]) -> bool:
    old, new = there[SUMS], here[SUMS]
    if there["sha256"] == here["sha256"] or len(old) != len(new) or not old:
        return bool(there["sha256"] == here["sha256"])
    size = ARRAY_ROUNDING * min(old[0], new[0])  # the first is the norm
    return all(abs(one - other) <= size for one, other in zip(old, new))


def _are(kind: Any, values: Iterable[object]) -> bool:
    return all(isinstance(one, kind) for one in values)


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
    kind, names = type(value), set(getattr(value, "__dict__", {}))
    for one in kind.__mro__:
        slots = one.__dict__.get("__slots__", ())
        names |= {slots} if isinstance(slots, str) else set(slots)
    if not names and not hasattr(value, "__dict__"):
        raise ValueError(
            f"{path} is {value!r}, and a {kind.__qualname__} has no attributes by which a "
            "resumed run could be recognised. Keep it under a name that begins with an "
            "underscore if results do not depend on it, or build it from numbers and tensors."
        )
    hidden = _hidden_arguments(kind)
    found = {
        name: getattr(value, name)
        for name in sorted(names)
        if (not name.startswith("_") or name in hidden)
        and hasattr(value, name)
        and not isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
    }
    if isinstance(value, torch.nn.Module):
        inner = {**value._parameters, **value._buffers, **value._modules}
        passing = {"training", *value._non_persistent_buffers_set}
        found = {
            n: one for n, one in (found | inner).items() if n not in passing and one is not None
        }
    return found


def _hidden_arguments(kind: type) -> set[str]:
    """Hidden names under which a user's class may hold the arguments of its constructor."""
    if not is_users(kind.__module__):
        return set()
    try:
        return {f"_{name}" for name in inspect.signature(kind).parameters}
    except (TypeError, ValueError):
        return set()


# ---------------------------------------------------------------- source


def _content(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # still empty
        return None


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
    if len(nodes) != 1 or code not in compiled:
        return digest(_compiled(code).encode())
    return digest(ast.unparse(nodes[0]).encode())


@functools.lru_cache(maxsize=32)
def _definitions(text: str) -> tuple[dict[tuple[str, int], list[ast.AST]], set[types.CodeType]]:
    """All functions of a file without their docstrings, by name and line, and as compiled."""
    nodes: dict[tuple[str, int], list[ast.AST]] = {}
    codes: set[types.CodeType] = set()
    try:
        tree, rest = ast.parse(text), [compile(text, "", "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return nodes, codes
    while rest:
        codes.add(code := rest.pop())
        rest += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda):
            nodes.setdefault(("<lambda>", node.lineno), []).append(node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            line = min(one.lineno for one in (node, *node.decorator_list))
            nodes.setdefault((node.name, line), []).append(node)
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
    return nodes, codes


def _compiled(code: types.CodeType) -> str:
    """What a function was compiled to, whatever its lines and the order of sets."""
    constants = [
        _compiled(one)
        if isinstance(one, types.CodeType)
        else sorted(map(repr, one))
        if isinstance(one, frozenset)
        else repr(one)
        for one in code.co_consts
    ]
    return repr((code.co_code, code.co_names, code.co_freevars, constants))
