"""What may be wrong with a statement: one node of its syntax tree for another."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator

Change = tuple[str, ast.AST, ast.AST]
"""Kind, the node that goes, the one in its place."""
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
_SIBLINGS = {
    **{"min": "max", "amin": "amax", "minimum": "maximum", "argmin": "argmax"},
    **{"any": "all", "floor": "ceil", "clamp_min": "clamp_max", "tril": "triu"},
}
_SIBLING = _SIBLINGS | {other: one for one, other in _SIBLINGS.items()}
_REMOVED = {"clamp", "clamp_min", "clamp_max", "clamp_", "abs", "clone", "sqrt"}


def changes(statement: ast.stmt) -> Iterator[Change]:
    """All single changes of a statement, its body apart."""
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.ClassDef | ast.Assert):
        return
    if _is_text(statement) or _is_alias(statement):
        return
    yield from _dropped(statement)
    for part in _own_expressions(statement):
        for node in _walk(part):
            for change in _EXPRESSIONS:
                yield from change(node)


def _dropped(statement: ast.stmt) -> Iterator[Change]:
    nothing = ast.copy_location(ast.Pass(), statement)
    match statement:
        case ast.Expr() | ast.AugAssign() | ast.Delete() | ast.Raise():
            yield "statement dropped", statement, nothing
        case ast.Assign(targets=[target], value=value) if _reads(value, target):
            yield "statement dropped", statement, nothing
        case ast.Break():
            yield "break", statement, ast.copy_location(ast.Continue(), statement)
        case ast.Continue():
            yield "continue", statement, ast.copy_location(ast.Break(), statement)


def _condition(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.IfExp():
            new = ast.IfExp(node.test, node.orelse, node.body)
            yield "branches swapped", node, ast.copy_location(new, node)
        case ast.Compare(ops=[operator]):
            for other in _COMPARISONS[type(operator)]:
                new_compare = ast.Compare(node.left, [other()], node.comparators)
                yield "comparison", node, ast.copy_location(new_compare, node)
        case ast.BoolOp():
            other_op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield "and, or", node, ast.copy_location(ast.BoolOp(other_op, node.values), node)
        case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub()):
            if not isinstance(node.operand, ast.Constant):
                yield "sign or not dropped", node, node.operand


def _arithmetic(node: ast.AST) -> Iterator[Change]:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        if not _is_text_like(node.left) and not _is_text_like(node.right):
            new = ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)
            yield "arithmetic", node, ast.copy_location(new, node)
    elif isinstance(node, ast.AugAssign) and type(node.op) in _ARITHMETIC:
        other = ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
        yield "arithmetic", node, ast.copy_location(other, node)


def _constant(node: ast.AST) -> Iterator[Change]:
    values: list[bool | int | float] = []
    match node:
        case ast.Constant(value=bool(value)):
            values = [not value]
        case ast.Constant(value=int(value)):
            values = [value + 1, value - 1]
        case ast.Constant(value=float(value)):
            values = [1.5 * value, -value] if value else [1.0]
    for value in values:
        yield "constant", node, ast.copy_location(ast.Constant(value), node)


def _call(node: ast.AST) -> Iterator[Change]:
    if not isinstance(node, ast.Call):
        return
    function = node.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in _SIBLING:
        other = copy.copy(function)
        setattr(other, "attr" if isinstance(function, ast.Attribute) else "id", _SIBLING[name])
        new = ast.Call(other, node.args, node.keywords)
        yield "sibling", node, ast.copy_location(new, node)
    if isinstance(function, ast.Attribute) and name in _REMOVED:
        whole = function.value
        if isinstance(whole, ast.Name) and whole.id in ("torch", "math"):
            whole = node.args[0]
        yield "call dropped", node, whole
    plain = len(node.args) >= 2 and not any(isinstance(one, ast.Starred) for one in node.args)
    if plain and name not in ("isinstance", "cast", "getattr", "min", "max", "range", "expand"):
        swapped = [*node.args[:-2], node.args[-1], node.args[-2]]
        if ast.dump(node.args[-1]) != ast.dump(node.args[-2]):
            yield (
                "arguments swapped",
                node,
                ast.copy_location(ast.Call(function, swapped, node.keywords), node),
            )


def _answer(node: ast.AST) -> Iterator[Change]:
    """A tuple that is returned, with its first two in the other order."""
    if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
        parts = node.value.elts
        if len(parts) > 1 and ast.dump(parts[0]) != ast.dump(parts[1]):
            swapped = ast.Tuple([parts[1], parts[0], *parts[2:]], ast.Load())
            new = ast.Return(ast.copy_location(swapped, node.value))
            yield "return swapped", node, ast.copy_location(new, node)


_EXPRESSIONS: tuple[Callable[[ast.AST], Iterator[Change]], ...] = (
    _condition,
    _arithmetic,
    _constant,
    _call,
    _answer,
)


def _own_expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """What a statement evaluates itself: no body, no annotation, no text of an error."""
    match statement:
        case ast.FunctionDef():
            yield from (one for one in statement.decorator_list)
            yield from statement.args.defaults
            yield from (one for one in statement.args.kw_defaults if one is not None)
        case ast.If() | ast.While():
            yield statement.test
        case ast.For():
            yield statement.iter
        case ast.With():
            yield from (one.context_expr for one in statement.items)
        case ast.Try() | ast.Raise() | ast.Match():
            return
        case ast.AnnAssign():
            if statement.value is not None:
                yield statement.value
        case _:
            yield statement


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """Like ``ast.walk`` without texts, warnings and types."""
    yield node
    for field, child in ast.iter_fields(node):
        if field in ("annotation", "returns", "slice") and isinstance(node, ast.arg):
            continue
        for one in child if isinstance(child, list) else [child]:
            if isinstance(one, ast.AST) and not _is_spared(one):
                yield from _walk(one)


def _is_spared(node: ast.AST) -> bool:
    if isinstance(node, ast.JoinedStr):
        return True
    if not isinstance(node, ast.Call):
        return False
    name = getattr(node.func, "attr", getattr(node.func, "id", ""))
    return name in ("cast", "warn", "TypeVar", "NewType", "add_note") or name.endswith("Error")


def _is_text_like(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (
        isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_alias(statement: ast.stmt) -> bool:
    """A name for a type, or ``__all__``."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.targets[0], ast.Name):
        return False
    name = statement.targets[0].id
    types = isinstance(statement.value, ast.Subscript | ast.BinOp) and name.lstrip("_").istitle()
    return name.startswith("__") or types


def _reads(value: ast.AST, target: ast.AST) -> bool:
    wanted = ast.unparse(target)
    return any(
        isinstance(one, ast.Name | ast.Attribute) and ast.unparse(one) == wanted
        for one in ast.walk(value)
    )
