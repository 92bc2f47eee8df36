"""Digests of code, which do not change with comments, docstrings or line numbers."""

from __future__ import annotations

import ast
import functools
import hashlib
import linecache
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path

Function = types.FunctionType
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Named = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Module


def digest(parts: Iterator[bytes] | list[bytes]) -> str:
    """A short fingerprint of some bytes."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(part)
    return whole.hexdigest()[:16]


def is_ours(made: object) -> bool:
    """Whether a function or a class is of this package."""
    return (getattr(made, "__module__", None) or "").startswith("botorch_tv.")


def is_users(module: str | None) -> bool:
    """Whether a module is neither of this package, nor of Python, nor of a package installed.

    ``__main__`` always is the user's: a profiler or a worker of a cluster may be what was started,
    but what says that it was defined there came from the user's script.
    """
    if module is None or module == "__main__":
        return True
    if module == "botorch_tv" or module.startswith("botorch_tv."):
        return False
    return _is_users(module, getattr(sys.modules.get(module), "__file__", None))


def function_digest(function: Function) -> str:
    """A digest of a function, without the code that it refers to.

    Its source text without docstring and comments, where that is found and is what runs; otherwise
    its compiled code, which other versions of Python compile in another way.
    """
    code = function.__code__
    text = _source(code, function.__globals__)
    return digest(_compiled(code) if text is None else [text.encode()])


def names_used(code: types.CodeType) -> set[str]:
    """Names of globals and attributes in a function and those within it."""
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return set(code.co_names).union(*(names_used(one) for one in inner))


# ---------------------------------------------------------------- the text of a function


def _source(code: types.CodeType, scope: dict[str, object]) -> str | None:
    text = "".join(linecache.getlines(code.co_filename, scope))
    nodes, codes = _definitions(code.co_filename, text)
    key = (code.co_name, code.co_firstlineno)
    found, compiled = nodes.get(key, []), codes.get(key, [])
    # A file edited since its import is not the code that runs.
    if len(found) != 1 or len(compiled) != 1 or _fingerprint(compiled[0]) != _fingerprint(code):
        return None
    node = found[0]
    return ast.unparse(node) if isinstance(node, ast.Lambda) else _withoutdocstring_of(node)


Found = tuple[dict[tuple[str, int], list[Definition]], dict[tuple[str, int], list[types.CodeType]]]


@functools.lru_cache(maxsize=32)
def _definitions(file: str, text: str) -> Found:
    """All functions of a file, as text and as compiled, by name and line."""
    nodes: dict[tuple[str, int], list[Definition]] = {}
    codes: dict[tuple[str, int], list[types.CodeType]] = {}
    try:
        tree = ast.parse(text)
        whole = compile(text, file, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return nodes, codes
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
            lines = [one.lineno for one in getattr(node, "decorator_list", [])]
            nodes.setdefault((name, min([node.lineno, *lines])), []).append(node)
    for code in _all_codes(whole):
        codes.setdefault((code.co_name, code.co_firstlineno), []).append(code)
    return nodes, codes


def _withoutdocstring_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    if docstring_of(node) is None:
        return ast.unparse(node)
    body = node.body[1:] or [ast.Pass()]
    kept = {name: getattr(node, name) for name in node._fields} | {"body": body}
    return ast.unparse(ast.fix_missing_locations(type(node)(**kept)))


def _all_codes(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _all_codes(one)


def _fingerprint(code: types.CodeType) -> str:
    return digest(_compiled(code))


def _compiled(code: types.CodeType) -> Iterator[bytes]:
    yield code.co_code
    yield repr((code.co_names, code.co_freevars)).encode()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _compiled(constant)
        else:
            yield _constant(constant).encode()


def _constant(value: object) -> str:
    """A constant, whatever order this process keeps sets in."""
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(_constant, value)))}}}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_constant, value))})"
    return repr(value)


# ---------------------------------------------------------------- whose code it is


@functools.cache
def _is_users(module: str, file: str | None) -> bool:
    if file is None:
        top = module.partition(".")[0]
        return top not in sys.stdlib_module_names and top not in sys.builtin_module_names
    path = Path(file).resolve()
    if {"site-packages", "dist-packages"} & set(path.parts):
        return False
    homes = [sysconfig.get_path(name) for name in ("stdlib", "platstdlib")]
    return not any(path.is_relative_to(Path(home).resolve()) for home in homes)


def docstring_of(node: Named) -> ast.Expr | None:
    """The docstring of a module or definition; None if it has none."""
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        return first if isinstance(first.value.value, str) else None
    return None
