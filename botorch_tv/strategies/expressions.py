"""Objectives and limits as text, such as ``"yield - 0.2 * energy"`` and ``"pressure <= 5"``.

The text is parsed, never executed. It consists of names, numbers, + - * / and parentheses. A name
with other characters, or one that looks like a number, stands in backticks or quotes:
```2 * `flow rate` ```. The marks may be omitted where the names are given.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from botorch_tv.validation import require, settle_number, shown

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
NAME, QUOTED = r"[^\W\d]\w*", r"`[^`]+`|\"[^\"]+\"|'[^']+'"
SIGN = r"<=|>=|==|!=|[-+*/(),<>=]"
EQUALITIES, COMPARISONS = ("=", "==", "!="), ("<", "<=", ">", ">=")
OPERATIONS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
FIX = (
    "it must consist of names, numbers, + - * / and parentheses; write 2 * x for 2x, x * x for "
    "powers, and names with other characters in backticks, `flow rate`."
)


@dataclass(frozen=True)
class Expression:
    """A formula of named values, such as ``"yield - 0.2 * energy"``.

    Args:
        text: The formula. The attribute is normalised: equal formulas that differ in spaces,
            redundant parentheses or marks around names have equal texts.
        names: The names that may occur, which then need no marks around them; the longest name
            that fits is taken. By default any name may occur. The attribute has the names that
            occur, in order of appearance.

    Raises:
        ValueError: If the text has anything else than names, numbers, + - * / and parentheses, or
            another name.
    """

    text: str
    names: Sequence[str] | None = field(default=None, compare=False, repr=False)
    _tree: ast.expr = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        tokens = _tokens(self.text, self.names)
        named = [token for token in dict.fromkeys(tokens) if re.match(f"{NAME}|{QUOTED}", token)]
        # Names are replaced before parsing, because "yield" and "lambda" are keywords of Python.
        stands = {token: f"_{number}" for number, token in enumerate(named)}
        try:
            source = " ".join(stands.get(token, token) for token in tokens)
            tree = ast.parse(source, mode="eval").body
            for node in ast.walk(tree):
                _settle(node, named)
            text = ast.unparse(tree)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise ValueError(f"{self.text!r} is not a formula; {FIX}") from None
        for name, value in ("text", text), ("names", tuple(map(_unquoted, named))), ("_tree", tree):
            object.__setattr__(self, name, value)

    def value(self, values: Mapping[str, Any]) -> Any:
        """The value of the formula, of the type and shape of the values.

        A missing value, NaN, makes the result NaN. Division by zero gives ±inf or NaN.

        Args:
            values: A number or a tensor for each name; tensors broadcast.
        """
        return _value(self._tree, values)

    def variance(self, variances: Mapping[str, Any]) -> Any:
        """The variance Σ w² v of a linear formula of independent values.

        Args:
            variances: The variance v of the value of each name, a number or a tensor.

        Raises:
            ValueError: If the formula is not linear in its names.
        """
        zero, some = dict.fromkeys(variances, 0.0), dict(zip(variances, map(math.sqrt, count(2))))
        start = self.value(zero)
        weights = {name: self.value(zero | {name: 1.0}) - start for name in variances}
        linear = start + sum(weight * some[name] for name, weight in weights.items())
        good = math.isclose(self.value(some), linear, rel_tol=1e-9, abs_tol=1e-9)
        require(good, f"noise is given, but {self.text!r} is not linear; give noise without it.")
        return sum(weights[name] ** 2 * variance for name, variance in variances.items())


@dataclass(frozen=True)
class Objective:
    """A formula to maximise or minimise.

    Args:
        expression: The formula.
        maximize: Whether larger values are better.
    """

    expression: Expression
    maximize: bool = True

    @property
    def text(self) -> str:
        """The formula to maximise, such as ``"-cost"``."""
        text = self.expression.text
        return text if self.maximize else Expression(f"-({text})").text


@dataclass(frozen=True)
class Limit:
    """A bound on a formula, such as ``"pressure <= 5"``.

    Args:
        expression: The formula.
        bound: The largest or smallest value allowed.
        upper: Whether ``bound`` is the largest value; otherwise it is the smallest value.

    Raises:
        ValueError: If ``bound`` is not a finite number.
    """

    expression: Expression
    bound: float
    upper: bool

    def __post_init__(self) -> None:
        settle_number(self, "bound", "(-inf, inf)", "give a number, such as 5.")

    @property
    def names(self) -> Sequence[str]:
        """The names in the formula."""
        return self.expression.names or ()

    @property
    def text(self) -> str:
        """The limit as text, such as ``"pressure <= 5"``."""
        return f"{self.expression.text} {'<=' if self.upper else '>='} {_short(self.bound)}"

    def keeps(self, value: Any) -> Any:
        """Whether a value of the formula keeps the limit; NaN does not.

        Args:
            value: A number, or a tensor of any shape.

        Returns:
            A bool, or a bool tensor of the shape of ``value``.
        """
        return value <= self.bound if self.upper else value >= self.bound

    def with_bound(self, bound: float) -> Limit:
        """The limit with another bound.

        Args:
            bound: The new bound, a finite number.

        Raises:
            ValueError: If ``bound`` is not a finite number.
        """
        return replace(self, bound=bound)


def parse_objectives(
    objective: str | Sequence[str], names: Sequence[str] | None = None
) -> tuple[Objective, ...]:
    """Read one or several objectives; a leading minus minimises.

    Args:
        objective: The objectives, such as ``"yield"``, ``"-cost"``, ``"yield, -cost"`` or
            ``["yield", "-cost"]``.
        names: The names that may occur, as for :class:`Expression`.

    Raises:
        ValueError: If an objective is not a formula with at least one name.
    """
    read = []
    for text in _listed(objective, "an objective", "'yield'", names):
        expression, maximize = Expression(text), True
        require(bool(expression.names), f"The objective {text!r} has no name; name an outcome.")
        while isinstance(tree := expression._tree, ast.UnaryOp):
            expression, maximize = Expression(ast.unparse(tree.operand)), not maximize
        read.append(Objective(expression, maximize))
    return tuple(read)


def parse_limits(
    limits: str | Sequence[str], names: Sequence[str] | None = None
) -> tuple[Limit, ...]:
    """Read limits; a comparison of two formulas bounds their difference by 0.

    Args:
        limits: The limits, such as ``"pressure <= 5"``, ``"2 <= pressure <= 5"``, which are two,
            or ``["a >= b", "a + 300 * b <= 1000"]``. The signs < and > count as <= and >=.
        names: The names that may occur, as for :class:`Expression`.

    Raises:
        ValueError: If a limit is not a comparison, by <= or >=, of formulas with at least one name.
    """
    read = []
    for text in _listed(limits, "a limit", "'pressure <= 5'", names):
        tokens = _tokens(text, None)
        equal = next((token for token in tokens if token in EQUALITIES), None)
        tolerance = "for a value near 5, write '4.9 <= pressure <= 5.1'."
        require(equal is None, f"{text!r} has {equal}, but a limit has <= or >=; {tolerance}")
        signs = [token for token in tokens if token in COMPARISONS]
        require(bool(signs), f"{text!r} has no <= or >=, but a limit must; write 'pressure <= 5'.")
        sides = [Expression(side) for side in _split(tokens, COMPARISONS)]
        for left, sign, right in zip(sides, signs, sides[1:]):
            require(
                bool(left.names or right.names),
                f"{left.text!r} and {right.text!r} in {text!r} have no name; write a name and a "
                "number, 'pressure <= 5'.",
            )
            if left.names and right.names:
                left, right = Expression(f"{left.text} - ({right.text})"), Expression("0")
            flipped = not left.names
            if flipped:
                left, right = right, left
            read.append(Limit(left, right.value({}), (sign[0] == "<") != flipped))
    return tuple(read)


def _listed(
    texts: str | Sequence[str], what: str, example: str, names: Sequence[str] | None
) -> list[str]:
    """Texts, split at commas, with marks around names."""
    given = [texts] if isinstance(texts, str) else texts
    good = isinstance(given, Sequence) and len(given) > 0
    require(good, f"{shown(texts)} is not {what}; write {example}, or a list of such texts.")
    return [part for text in given for part in _split(_tokens(text, names), (",",))]


def _split(tokens: list[str], at: Sequence[str]) -> list[str]:
    """The texts between the tokens ``at``."""
    parts: list[list[str]] = [[]]
    for token in tokens:
        if token in at:
            parts.append([])
        else:
            parts[-1].append(token)
    return [" ".join(part) for part in parts]


def _tokens(text: str, names: Sequence[str] | None) -> list[str]:
    """Names, numbers and signs; names that are not identifiers have marks around them."""
    require(isinstance(text, str), f"{shown(text)} is not a formula; write text, such as 'yield'.")
    bare = [name for name in names or () if name and not re.fullmatch(NUMBER, name)]
    bare.sort(key=len, reverse=True)
    own = "|".join(rf"{re.escape(name)}(?:(?<!\w)|(?!\w))" for name in bare) or "(?!)"
    pattern = rf"\s+|(?P<own>{own})|(?P<quoted>{QUOTED})|{NUMBER}|(?P<name>{NAME})|{SIGN}|(?s:.)"
    tokens = []
    for match in re.finditer(pattern, text):
        token = match.group()
        if match.lastgroup:
            name = _unquoted(token) if match.lastgroup == "quoted" else token
            require(
                names is None or name in names,
                f"{name!r} in {text!r} is unknown; the names are {', '.join(names or ())}.",
            )
            mark = next((mark for mark in "`\"'" if mark not in name), "`")
            tokens.append(name if re.fullmatch(NAME, name) else f"{mark}{name}{mark}")
        elif not token.isspace():
            good = re.fullmatch(f"{NUMBER}|{SIGN}", token)
            require(bool(good), f"{token!r} in {text!r} is no part of a formula; {FIX}")
            tokens.append(token)
    return tokens


def _unquoted(name: str) -> str:
    return name[1:-1] if re.fullmatch(QUOTED, name) else name


def _settle(node: ast.AST, named: Sequence[str]) -> None:
    """Check a node of a formula, insert its name, and write whole numbers as such."""
    match node:
        case ast.Name():
            node.id = named[int(node.id[1:])]
        case ast.Constant(int() | float()):
            node.value = _short(node.value)
        case ast.BinOp() | ast.Load() | ast.UnaryOp(ast.USub()) | ast.USub():
            pass
        case _ if type(node) not in OPERATIONS:
            raise SyntaxError


def _short(number: Any) -> float:
    """A finite number, as an int if it is a small whole number."""
    require(math.isfinite(number), "not finite")
    return int(number) if number == int(number) and abs(number) < 1e15 else float(number)


def _value(node: ast.AST, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant():
            return float(node.value)  # type: ignore[arg-type]
        case ast.Name():
            return values[_unquoted(node.id)]
        case ast.UnaryOp():
            return -_value(node.operand, values)
    assert isinstance(node, ast.BinOp)
    left, right = _value(node.left, values), _value(node.right, values)
    try:
        return OPERATIONS[type(node.op)](left, right)
    except ZeroDivisionError:  # of numbers; tensors and arrays give ±inf or NaN
        return left * math.copysign(math.inf, right) if left else math.nan
