"""The identity of a run: a JSON description of everything that determines its numbers."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import linecache
import math
import sys
import types
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from numbers import Number
from pathlib import Path
from typing import Any, cast

import botorch
import gpytorch
import numpy as np
import torch
from gpytorch.kernels import Kernel
from torch import Tensor

import botorch_tv
from botorch_tv.gp.covariance import describe_kernel
from botorch_tv.validation import require

__all__ = ["Description", "describe", "differences"]

Description = Any
"""A JSON value: None, bool, int, float, str, or lists and dictionaries of these."""
TYPE, CODE, SUMS = "type", "(code)", "sums"
"""Keys of a description: for an object's class, for its code, and for weighted sums of an array."""
NUMBER_ROUNDING, ARRAY_ROUNDING = 1e-12, 1e-10
"""Relative differences that count as rounding: of numbers, and of sums of an array."""
ABSENT = {TYPE: "absent"}
MADE = (
    *(staticmethod, classmethod, property, types.MethodType),
    *(functools.partial, functools.partialmethod, functools.cached_property),
)
FUNCTIONS = (types.FunctionType, *MADE)
"""MADE: types of objects made from functions. FUNCTIONS: types of functions in classes."""
CODES = (type, types.FunctionType, types.BuiltinFunctionType, np.ufunc, types.ModuleType)
"""Types of classes, functions and modules."""
PARTS = ("func", "args", "keywords", "fget", "fset", "__self__", "__func__", "__wrapped__")
"""Names of the attributes that contain the parts of an object made from functions."""
DATA = (Tensor, np.ndarray, torch.nn.Module, Mapping, list, tuple, set)
FIXED = (Number, str, bytes, range, tuple, frozenset, Enum, Path, torch.dtype, torch.device)
"""DATA: types whose values are data. FIXED: types whose values are immutable."""


def describe(value: object, path: str) -> Description:
    """Describe a value as JSON; values that lead to different results have different descriptions.

    Objects are described by their class and public attributes. Arrays are described by a digest of
    their bytes, and by weighted sums of their entries; the weighted sums allow comparisons that
    ignore rounding. For users' functions and classes, the description contains digests of the
    source, and of all code and constants that the source names. Cached properties are excluded. An
    attribute ``_name`` is excluded too, unless the constructor of a user's class has an argument
    ``name``.

    Args:
        value: The value, of any type.
        path: Name of the value in error messages, such as ``"world"``.

    Returns:
        The description, a JSON value.

    Raises:
        ValueError: If an object has no attributes to describe.
    """
    return _Describer().describe(value, path)


def differences(old: Description, new: Description, path: str = "") -> list[str]:
    """List the differences between two descriptions, except for rounding.

    Args:
        old: A description of an object, read from a file.
        new: A description of the present object.
        path: Name of the object in the result, such as ``"world"``; may be empty.

    Returns:
        A phrase for each difference, such as ``"world.noise is 0.1 there and 0.2 here"``.
    """
    if isinstance(old, dict) and isinstance(new, dict) and old.get(TYPE) == new.get(TYPE):
        if SUMS not in old:
            keys, at = [key for key in {**old, **new} if key != TYPE], f"{path}." if path else ""
            two = [(old.get(key, ABSENT), new.get(key, ABSENT), f"{at}{key}") for key in keys]
            return [difference for pair in two for difference in differences(*pair)]
        norms, near = [*old[SUMS][:1], *new[SUMS][:1]], functools.partial(np.allclose, rtol=0)
        if len(norms) == 2 and near(old[SUMS], new[SUMS], atol=ARRAY_ROUNDING * min(norms)):
            return []
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new))
        return [phrase for n, pair in pairs for phrase in differences(*pair, f"{path}[{n}]")]
    close = isinstance(old, float) and isinstance(new, float)
    if old == new or (close and math.isclose(old, new, rel_tol=NUMBER_ROUNDING)):
        return []
    return [f"{path} is {_short(old)} there and {_short(new)} here"]


def libraries() -> dict[str, str]:
    """Versions of the libraries that affect results."""
    modules = (torch, botorch, gpytorch, np, botorch_tv)
    return {module.__name__: str(module.__version__) for module in modules}


def study_versions() -> dict[str, str]:
    """Versions in the identity of a study: of this package, and of PyTorch without its patch."""
    minor = ".".join(torch.__version__.split(".")[:2])
    return {"botorch_tv": botorch_tv.__version__, "torch": minor}


def require_format(
    what: str, found: object, own: int, made_with: Mapping[str, str], fix: str
) -> None:
    """Refuse a state, a loop or a study of another format.

    Args:
        what: Name of the file in messages.
        found: Number of the format of the file.
        own: Number of the format that this version reads.
        made_with: Versions of the libraries that saved the file, see :func:`libraries`.
        fix: An alternative to the version that saved the file.

    Raises:
        ValueError: If the file has another format.
    """
    require(
        found == own,
        f"{what} has format {found}, but botorch_tv {botorch_tv.__version__} reads format {own}; "
        f"load it with botorch_tv {made_with.get('botorch_tv')}, or {fix}",
    )


def warn_of_versions(what: str, made_with: Mapping[str, str]) -> None:
    """Warn if a file that can be read was saved with other versions of libraries."""
    if unlike := differences(dict(made_with), libraries()):
        warnings.warn(
            f"{what} was saved with other versions of libraries: {'; '.join(unlike)}. Later "
            "choices may differ; to continue exactly, install the versions that saved it.",
            stacklevel=4,
        )


def digest(content: bytes) -> str:
    """The first 16 digits of the SHA-256 hash of some bytes."""
    return hashlib.sha256(content).hexdigest()[:16]


def is_users(module: str | None) -> bool:
    """Whether a module is user code; this package, Python and installed packages are not."""
    top = (module or "__main__").partition(".")[0]
    if module is None or top == "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    installed = file is not None and {"site-packages", "dist-packages"} & set(Path(file).parts)
    return not (installed or top == "botorch_tv" or top in sys.stdlib_module_names)


# ---------------------------------------------------------------- descriptions


class _Describer:
    """A description in progress."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[object, str]] = {}
        """The objects around the present object, and users' functions and classes, with paths."""

    def describe(self, value: object, path: str) -> Description:
        if id(value) in self._seen:
            return {"the same as": self._seen[id(value)][1]}
        self._seen[id(value)] = value, path
        found = self._described(value, path)
        if not (isinstance(value, (type, types.FunctionType)) and isinstance(found, dict)):
            del self._seen[id(value)]
        return found

    def _described(self, value: Any, path: str) -> Description:
        match value:
            case Enum():
                return self._object(value, {"value": value.value}, path)
            case None | bool() | int() | str():
                return value
            case Path() | torch.dtype() | torch.device() | range() | complex() | bytes():
                return str(value)
            case float():
                return float(value) if math.isfinite(value) else str(float(value))
            case np.generic():
                return self.describe(value.item(), path)
            case np.ndarray() if value.dtype.hasobject:
                return self.describe(value.tolist(), path)
            case Tensor() | np.ndarray():
                return _array(value)
            case _ if isinstance(value, CODES) or _is_made_of_functions(value):
                return self._code(value, path)
            case Mapping():
                parts = {k if isinstance(k, str) else f"({k!r})": v for k, v in value.items()}
                return self._object(value, parts, path)
            case tuple() if hasattr(value, "_asdict"):
                return self._object(value, value._asdict(), path)
            case list() | tuple():
                return [self.describe(entry, f"{path}[{n}]") for n, entry in enumerate(value)]
            case set() | frozenset():
                return sorted((self.describe(entry, path) for entry in value), key=repr)
        return self._object(value, _attributes(value, path), path)

    def _object(self, value: object, parts: Mapping[str, object], path: str) -> dict[str, Any]:
        """Describe an object by its class, the code of a user's class, and the given parts."""
        kind = type(value)
        code = self.describe(kind, f"{path}.{CODE}")
        found = {TYPE: kind.__qualname__} | ({CODE: code} if isinstance(code, dict) else {})
        return found | self._parts(parts, path)

    def _parts(self, parts: Mapping[str, object], path: str) -> dict[str, Description]:
        found = {name: self.describe(part, f"{path}.{name}") for name, part in parts.items()}
        reserved = (TYPE, CODE, SUMS)
        return {f"{n} (part)" if n in reserved else n: part for n, part in found.items()}

    def _code(self, value: Any, path: str) -> Description:
        """Describe a class, a function, a module, or an object that is made of functions."""
        if isinstance(value, type):
            return self._class(value, path)
        if isinstance(value, types.FunctionType):
            return self._function(value, path)
        if isinstance(value, CODES):
            return f"{getattr(value, '__module__', None)}.{value.__name__}"
        parts = {name: part for name in PARTS if (part := getattr(value, name, None)) is not None}
        return {TYPE: type(value).__qualname__} | self._parts(parts, path)

    def _class(self, kind: type, path: str) -> Description:
        """Describe a library's class by name, a user's class by the members in its body."""
        name, users = f"class {kind.__qualname__}", _users_bases(kind)
        members = {name: part for base in users for name, part in _members(base)}
        return {TYPE: name} | self._named(members, path) if users else name

    def _function(self, function: types.FunctionType, path: str) -> Description:
        """Describe a library's function by name, a user's function by its source and references."""
        code, scope = function.__code__, function.__globals__
        users = is_users(scope.get("__name__"))
        # The name of the code object is used, because decorators copy the names of functions.
        name = f"{scope.get('__name__')}.{code.co_qualname}"
        if not users and "<" not in name and not hasattr(function, "__wrapped__"):
            return name
        held = {n: c.cell_contents for n, c in zip(code.co_freevars, function.__closure__ or ())}
        held |= {f"default {n}": value for n, value in enumerate(function.__defaults__ or ())}
        held |= function.__kwdefaults__ or {}
        used = _globals_used(_names(code), scope) if users else {}
        found = {TYPE: function.__qualname__}
        if users or "<lambda>" in name:
            found |= _source(function)
        return found | self._named(held, path, held=users) | self._named(used, path)

    def _named(
        self, names: Mapping[str, object], path: str, held: bool = False
    ) -> dict[str, Description]:
        """Describe the named values on which results may depend, by name."""
        found: dict[str, Description] = {}
        for name, part in names.items():
            if _counts(name, part, held):
                try:
                    found |= self._parts({name: part}, path)
                except ValueError:  # for an object without attributes, describe its class
                    found |= self._parts({name: type(part)}, path)
        return found


def _counts(name: str, value: object, held: bool) -> bool:
    """Whether a named value in code is described, because results may depend on it.

    Objects of libraries are described only if they are in the closure or the defaults of a
    function. Under a name with a leading underscore, only functions, classes and immutable values
    are described, because other values may be caches or counters.
    """
    if isinstance(value, types.FunctionType):
        return is_users(value.__globals__.get("__name__")) or value.__closure__ is not None
    if isinstance(value, type):
        return bool(_users_bases(value))
    if _is_made_of_functions(value) or isinstance(value, FIXED):
        return True
    data = held or isinstance(value, DATA) or is_users(type(value).__module__)
    return data and not name.rpartition(".")[2].startswith("_")


def _is_made_of_functions(value: object) -> bool:
    wrapped = getattr(value, "__wrapped__", None)
    return isinstance(value, MADE) or isinstance(wrapped, types.FunctionType)


def _users_bases(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if is_users(base.__module__)]


def _members(kind: type) -> Iterator[tuple[str, object]]:
    """The members in the body of a class, by name."""
    for name, member in sorted(vars(kind).items()):
        special = name.startswith("__annotate") or not isinstance(member, FUNCTIONS)
        if not (name.startswith("__") and special):
            yield f"{kind.__qualname__}.{name}", member


def _globals_used(used: set[str], scope: Mapping[str, object], at: str = "") -> dict[str, object]:
    """The globals named in ``used``; for a user's module, its globals named in ``used``."""
    found: dict[str, object] = {}
    for name in sorted(used & scope.keys()):
        value = scope[name]
        if not isinstance(value, types.ModuleType):
            found |= {} if name.startswith("__") else {f"{at}{name}": value}
        elif is_users(value.__name__):
            found |= _globals_used(used - {name}, vars(value), f"{at}{name}.")
    return found


def _array(array: np.ndarray | Tensor) -> Description:
    """Describe an array by type, shape, a digest of its bytes and, for float64, weighted sums."""
    array = array.detach().cpu().numpy() if isinstance(array, Tensor) else array
    kind = f"{array.dtype} {' x '.join(map(str, array.shape)) or '1 number'}"
    found = {TYPE: kind, "sha256": digest(np.ascontiguousarray(array).tobytes())}
    sums: list[float] = []
    if array.dtype == np.float64 and np.isfinite(array).all():
        flat = array.reshape(-1)
        weights = (np.cos(rate * np.arange(1.0, len(flat) + 1)) for rate in (1.0, 2.0, 3.0))
        sums = [float(np.linalg.norm(flat)), *(float(flat @ row) for row in weights)]
    return found | {SUMS: sums}


def _short(description: Description) -> str:
    if isinstance(description, dict):
        kind = str(description.get(TYPE))
        return f"{kind}, sha256 {description['sha256']}" if SUMS in description else kind
    text = repr(description)
    if isinstance(description, list):
        text = f"[{', '.join(map(_short, description))}]"
    return text if len(text) <= 80 else f"{text[:77]}..."


def _attributes(value: object, path: str) -> dict[str, object]:
    """The attributes of an object that affect results, with a module's parameters and buffers."""
    kind, state = type(value), cast(Any, object.__getstate__(value))
    if state is None and not hasattr(value, "__dict__"):
        raise ValueError(
            f"{path} is {value!r}, which has no attributes, so a resumed run cannot check that "
            "the object is the same; if results do not depend on the object, store it under a name "
            "with a leading underscore."
        )
    plain, slots = state if isinstance(state, tuple) else (state, None)
    hidden: set[str] = set()  # constructor arguments stored under a leading underscore
    if is_users(kind.__module__):
        with suppress(TypeError, ValueError):
            hidden = {f"_{name}" for name in inspect.signature(kind).parameters}
    found = {
        name: part
        for name, part in sorted(((plain or {}) | (slots or {})).items())
        if (not name.startswith("_") or name in hidden)
        and not isinstance(inspect.getattr_static(kind, name, None), functools.cached_property)
    }
    if isinstance(value, Kernel):
        found["kernel"] = describe_kernel(value)
    if isinstance(value, torch.nn.Module):
        found |= {**value._parameters, **value._buffers, **value._modules}
        for name in ("training", *value._non_persistent_buffers_set):
            found.pop(name, None)
    return found


# ---------------------------------------------------------------- source


def _names(code: types.CodeType) -> set[str]:
    """Names of the globals and attributes that a function and its inner functions use."""
    inner = [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return set(code.co_names).union(*map(_names, inner))


def _source(function: types.FunctionType) -> dict[str, str]:
    """A digest of the source of a function, without comments, docstrings and layout.

    The digest is of the compiled code if there is no source, as in ``python -c``, if the file was
    edited after its import, or if a line has several lambdas. Functions that ``dataclass`` and
    ``NamedTuple`` generate have neither, because they follow from the fields.
    """
    code = function.__code__
    if code.co_filename == "<string>" and function.__name__ in dir(object):
        return {}
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    nodes, compiled = _definitions(text)
    found = nodes.get((code.co_name, code.co_firstlineno), [])
    if len(found) == 1 and code in compiled:
        return {"source": digest(ast.unparse(found[0]).encode())}
    return {"compiled code": digest(_compiled(code).encode())}


@functools.lru_cache(maxsize=32)
def _definitions(text: str) -> tuple[dict[tuple[str, int], list[ast.AST]], set[types.CodeType]]:
    """A file's functions (without docstrings) by name and line, and the file's compiled code."""
    nodes: dict[tuple[str, int], list[ast.AST]] = {}
    try:
        tree, codes = ast.parse(text), [compile(text, "", "exec", dont_inherit=True)]
    except (SyntaxError, ValueError):
        return {}, set()
    for code in codes:  # the list grows during this loop
        codes += [inner for inner in code.co_consts if isinstance(inner, types.CodeType)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef):
            line = min(part.lineno for part in (node, *getattr(node, "decorator_list", ())))
            nodes.setdefault((getattr(node, "name", "<lambda>"), line), []).append(node)
        documented = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        if isinstance(node, documented) and ast.get_docstring(node) is not None:
            node.body = node.body[1:] or [ast.Pass()]
    return nodes, set(codes)


def _compiled(code: types.CodeType) -> str:
    """The compiled code of a function as text, without line numbers."""
    inner = [_compiled(c) if isinstance(c, types.CodeType) else c for c in code.co_consts]
    return repr((code.co_code, code.co_names, code.co_freevars, inner))
