"""Every public docstring names its arguments, with shapes of tensors, and the errors it raises."""

import ast
import inspect
import re
import textwrap
from itertools import pairwise

import pytest

from tests.tools.api import modules

SHAPE = re.compile(r"`[^`]*\b(x|shape|batch_shape|sample_shape|[nmdqbTMepk])\b[^`]*`|scalar|shape")
RAISES = re.compile(
    r"\braise (?!NotImplementedError|AttributeError)|\b(require|settle|refuse)\w*\("
)
DIALECT = re.compile(
    r"\b(told|heard|hears|believed?|beliefs?|believes|misfit|alarms?|surprises?|in words|"
    r"stands? still|standstill|of the sides|cures?|left out|leaves out)\b"
)


def ours(value):
    return (getattr(value, "__module__", None) or "").startswith("botorch_tv")


def public():
    """Classes and functions that a module offers, and public methods that our classes define."""
    seen = set()
    for module in modules():
        for name in module.__all__:
            value = getattr(module, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)) or not ours(value):
                continue
            if id(value) in seen:
                continue
            seen.add(id(value))
            yield f"{value.__module__}.{name}", value, inspect.getdoc(value) or ""
            for key, member in vars(value).items() if inspect.isclass(value) else ():
                method = getattr(member, "__func__", member)
                if not key.startswith("_") and inspect.isfunction(method):
                    doc = inspect.getdoc(getattr(value, key)) or ""
                    yield f"{value.__module__}.{name}.{key}", method, doc


def described(doc):
    """Arguments and attributes that a docstring describes."""
    found = {}
    for section in re.findall(r"^(?:Args|Attributes):\n((?: {4}.*\n?|\n)+)", doc + "\n", re.M):
        entries = re.findall(
            r"^ {4}([\w, *]+): ((?:.*\n)(?: {5,}.*\n|\n(?= {5}))*)", section + "\n", re.M
        )
        for names, text in entries:
            found.update((name.strip(" *"), text) for name in names.split(","))
    return found


def described_by_class(value):
    """The same of a class: of its bases, too, and strings below its fields."""
    found = {}
    for base in filter(ours, value.__mro__[::-1]):
        found.update(described(inspect.getdoc(base) or ""))
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0].body
        for field, text in pairwise(body):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr):
                found[field.target.id] = ast.unparse(text)
    return found


def body(value):
    """The source that raises what a caller meets: of a class, where it is made."""
    if not inspect.isclass(value):
        return inspect.getsource(value)
    made = (vars(value).get(name) for name in ("__init__", "__post_init__", "__new__"))
    written = (method for method in made if inspect.isfunction(method))
    return "\n".join(
        inspect.getsource(method) for method in written if method.__code__.co_filename != "<string>"
    )


def test_docstrings_are_complete():
    pytest.importorskip("ax")
    pytest.importorskip("optuna")
    pytest.importorskip("gest_api")
    offered, wrong = list(public()), {}
    for name, value, doc in offered:
        try:
            assert_complete(value, doc)
        except AssertionError as error:
            wrong[name] = str(error)
    assert not wrong
    assert len(offered) > 500


def assert_complete(value, doc):
    assert doc
    assert not DIALECT.findall(doc)
    is_class = inspect.isclass(value)
    if is_class and issubclass(value, Warning | Exception):
        return
    found = described_by_class(value) if is_class else described(doc)
    own = {"__init__", "__dataclass_fields__", "_fields"} & vars(value).keys() if is_class else True
    parameters = inspect.signature(value).parameters.values() if own else ()
    for parameter in parameters:
        if parameter.name not in ("self", "cls") and not parameter.name.startswith("_"):
            assert parameter.name in found
            if re.search(r"\bTensor\b", str(parameter.annotation)):
                assert SHAPE.search(found[parameter.name]), parameter.name
    if not is_class and inspect.signature(value).return_annotation in ("Tensor", "Tensor | None"):
        assert SHAPE.search(re.sub(r"Args:\n( {4}.*\n|\n)+", "", doc + "\n"))
    assert "Raises:" in doc or not RAISES.search(body(value))
