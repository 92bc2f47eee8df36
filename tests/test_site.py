"""The site's pages keep their rules, run as they stand, and name everything that is public."""

import importlib
import re
from functools import reduce
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from benchmarks.site import CONFIG, MOVED, _faults, public
from tests.test_readme import blocks
from tests.tools.api import modules
from tests.tools.pages import SITE

PAGES = sorted(SITE.rglob("*.md"))
NAMES = [page.relative_to(SITE).with_suffix("").as_posix() for page in PAGES]
MOST_WORDS = 900
ENDS = {"how-to": "\n## Limits\n", "tutorials": "\n## What you have learned\n"}
SMALLER = {
    "trials=32, horizon=100": "trials=4, horizon=20",
    "for t in range(60)": "for t in range(36)",
    "n_trials=20": "n_trials=14",
}
WRITTEN = {*MOVED.values(), "reference/command-line.md"}


def listed(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    return [
        page
        for entry in nav
        for page in listed(next(iter(entry.values())) if isinstance(entry, dict) else entry)
    ]


@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_pages_are_short_and_of_one_kind(page: Path) -> None:
    text, kind = page.read_text("utf-8"), page.relative_to(SITE).parts[0]
    words = re.sub(r"<!--.*?-->", "", text).split()
    assert len(words) <= MOST_WORDS or kind == "reference"
    assert ENDS.get(kind, "") in text
    assert len(re.findall("^# ", re.sub("```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)) == 1


def test_all_pages_are_listed_once() -> None:
    nav = listed(yaml.safe_load(CONFIG.read_text("utf-8"))["nav"])
    found = {page.relative_to(SITE).as_posix() for page in PAGES}
    assert len(nav) == len(set(nav))
    assert {page for page in nav if not page.endswith("/")} - WRITTEN == found
    assert all(any(page.startswith(entry) for entry in nav) for page in WRITTEN)


@pytest.mark.few("explanation/theory")
@pytest.mark.parametrize("page", PAGES, ids=NAMES)
def test_python_blocks_run_alone(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before, names = torch.get_default_dtype(), dict[str, object]()
    try:
        for block in blocks(page.read_text("utf-8")):
            small = reduce(lambda text, pair: text.replace(*pair), SMALLER.items(), block)
            exec(compile(small, page.name, "exec"), names)
    finally:
        torch.set_default_dtype(before)


def test_every_public_name_has_a_page() -> None:
    pytest.importorskip("ax")
    pytest.importorskip("optuna")
    for module in modules():
        described = public()[module.__name__]
        elsewhere = {name for names in public().values() for name in names}
        assert set(module.__all__) <= described.keys() | elsewhere
        for name, home in described.items():
            assert getattr(importlib.import_module(home.rpartition(".")[0]), name) is getattr(
                module, name
            )


def test_the_builder_finds_broken_links(tmp_path: Path) -> None:
    links = ["gone.html", "page.html#gone", "page.html#here", "#top", "https://a.org", "mailto:a@b"]
    body = "".join(f'<a href="{link}">x</a>' for link in links)
    (tmp_path / "index.html").write_text(f'<p id="top">{body}<script src="https://a.org/x.js">')
    (tmp_path / "page.html").write_text('<p id="here"><img src="gone.png">')
    wrong = [fault.split()[1] for fault in _faults(tmp_path) if ".html: " in fault]
    assert sorted(wrong) == ["gone.html", "gone.png", "https://a.org/x.js", "page.html#gone"]
