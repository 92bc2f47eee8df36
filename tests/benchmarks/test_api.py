"""Every public name is in the table of names with its line, and nothing else is."""

import importlib
import pkgutil
import re

import pytest

import botorch_tv

pytest.importorskip("ax")
pytest.importorskip("optuna")

from benchmarks.api import PAGE, _markdown, page

LINKED = re.compile(r"^\| \[`(\w+)`\]\(([\w/]+\.py)\) \| (.+) \|$", re.MULTILINE)
ALSO = re.compile(r"^Also, from `([\w.]+)`: (.+)\.$", re.MULTILINE)


def test_the_page_is_what_the_docstrings_say():
    assert PAGE.read_text(encoding="utf-8") == page(), "run `python -m benchmarks.api`"


def test_every_name_is_there_and_no_other():
    offered = {"botorch_tv": set(botorch_tv.__all__)}
    for part in pkgutil.walk_packages(botorch_tv.__path__, "botorch_tv."):
        if not part.name.endswith("__main__"):
            module = importlib.import_module(part.name)
            if hasattr(module, "__all__"):
                offered[part.name] = set(module.__all__)
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


def test_a_name_without_a_line_is_refused():
    assert _markdown("A :class:`~a.b.Word` of ``x * y``.\n\nMore.", "w") == "A `Word` of `x \\* y`."
    for docstring in ("", "Two\nlines.", "long" * 30):
        with pytest.raises(ValueError, match="begins with one line"):
            _markdown(docstring, "w")
