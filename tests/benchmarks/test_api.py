"""Every public name is in the table of names with its line, and nothing else is."""

import ast
import inspect
import re

import pytest

pytest.importorskip("ax")
pytest.importorskip("optuna")

from benchmarks.api import PAGE, _markdown, modules, page

LINKED = re.compile(r"^\| \[`(\w+)`\]\(([\w/]+\.py)\) \| (.+) \|$", re.MULTILINE)
ALSO = re.compile(r"^Also, from `([\w.]+)`: (.+)\.$", re.MULTILINE)


def all_of(source):
    """The ``__all__`` that a file assigns; None where it assigns none."""
    for line in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__all__":
            return set(ast.literal_eval(line.value))
    return None


def test_the_page_is_what_the_docstrings_say():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m benchmarks.api`"


def test_every_name_is_there_and_no_other():
    offered = {}
    for source in PAGE.parent.rglob("*.py"):  # as written: some modules need what is not here
        parts = source.relative_to(PAGE.parent.parent).with_suffix("").parts
        names = all_of(source)
        if names is not None:
            offered[".".join(parts).removesuffix(".__init__")] = names
    told, explained = {}, []
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, body = section.partition("\n")
        here = {name: source for name, source, _ in LINKED.findall(body)}
        assert all((PAGE.parent / source).is_file() for source in here.values())
        named = {name: home for home, names in ALSO.findall(body) for name in names.split(", ")}
        named = {name.strip("`"): home for name, home in named.items()}
        for name, home in named.items():  # where the reader is sent, it is explained
            assert (home, name) in explained
        told[title] = {*here, *named}
        explained += [(title, name) for name in here]
    assert told == offered
    assert sum(len(names) for names in offered.values()) > 200


def test_help_says_what_every_field_of_a_tuple_is():
    offered = [getattr(one, name) for one in modules() for name in one.__all__]
    tuples = {one for one in offered if isinstance(one, type) and issubclass(one, tuple)}
    assert len(tuples) > 10
    for one in tuples:
        told = re.findall(r"^ {4}(\w+): ", inspect.getdoc(one), re.MULTILINE)
        assert set(one._fields) <= set(told), one.__name__


def test_a_name_without_a_line_is_refused():
    assert _markdown("A :class:`~a.b.Word` of ``x * y``.\n\nMore.", "w") == "A `Word` of `x \\* y`."
    for docstring in ("", "Two\nlines.", "long" * 30):
        with pytest.raises(ValueError, match="begins with one line"):
            _markdown(docstring, "w")
