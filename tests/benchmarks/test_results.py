"""Published pages equal the stored results and the docstrings."""

import ast
import dataclasses
import importlib
import inspect
import json
import re
import sys
from importlib.machinery import SourceFileLoader
from importlib.util import spec_from_loader

import numpy as np
import pytest
from scipy.stats import sem

from benchmarks.paper.collect import PAGE, collect
from benchmarks.paper.page import write_page
from benchmarks.records import RESULTS, library_of
from benchmarks.statistics.paired import ADAPTIVE, REGRET, standard_error, summary
from botorch_tv.papers import EXPERIMENTS, worlds
from tests.tools.api import PAGE as NAMES
from tests.tools.api import _markdown, modules, page
from tests.tools.pages import INDEX, index

STORED = {path.name: json.loads(path.read_text("utf-8")) for path in RESULTS.glob("*.json")}


def test_page_of_the_papers_is_written_from_the_files(tmp_path):
    write_page(RESULTS, STORED["studies.json"]["studies"], tmp_path / PAGE)
    assert (tmp_path / PAGE).read_text("utf-8") == (RESULTS.parent / PAGE).read_text("utf-8")
    assert "nan <" not in (tmp_path / PAGE).read_text("utf-8")  # rows that are no orders


def test_stored_summaries_follow_from_stored_runs():
    for name in ("regret_on_square", "regret_on_grid"):
        for world in STORED[f"statistics_{name}.json"]["worlds"].values():
            horizon = world.get("horizon") or world["runs"][ADAPTIVE]["settings"]["horizon"]
            found = summary(world["runs"], horizon)
            for label, figures in world["regret per round"].items():
                for figure, value in figures.items():
                    assert found[label][figure] == pytest.approx(value, rel=1e-3, abs=1e-4)


def test_stored_ratios_follow_from_stored_regrets():
    worlds = STORED["statistics_regret_against_commit.json"]["worlds"]
    for rows in worlds.values():
        before = rows["before"]["regret of every seed"]
        for label, row in rows.items():
            each = row["regret of every seed"]
            assert row["mean"] == pytest.approx(np.mean([*each.values()]), rel=1e-4)
            if (pair := row.get("against before")) is not None:
                ours, other = zip(*[(each[seed], before[seed]) for seed in each if seed in before])
                assert pair["pairs"] == len(ours), label
                assert pair["ratio"] == pytest.approx(np.sum(ours) / np.sum(other), rel=1e-4)


def test_standard_errors():
    values = np.random.default_rng(0).standard_normal(7)
    assert standard_error(values.tolist()) == pytest.approx(sem(values), rel=1e-14)
    assert standard_error([0.3]) is None
    runs = {ADAPTIVE: {REGRET: [2.0, 4.0, 9.0]}, "other": {REGRET: [3.0, 7.0]}}
    found = summary(runs, 10)["other"]  # paired on the seeds of both
    assert found["adaptive minus this"] == pytest.approx(-0.2)
    assert found["its standard error"] == pytest.approx(0.1)
    assert found["adaptive as a fraction"] == pytest.approx(0.6)


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    folder, outcomes = tmp_path_factory.mktemp("collected"), {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worlds, "POINTS", 5)
        for id in ("et-table2", "et-fig2"):
            small = dataclasses.replace(EXPERIMENTS[id], horizon=3)
            (folder / id).mkdir()
            outcomes[id] = small.run(folder / id, trials=2, seed=7, progress=False)
            collect(folder / id, folder / "benchmarks" / "results")
    return folder / "benchmarks", outcomes


@pytest.mark.full
def test_collected_runs_are_on_the_page(collected):
    folder, outcomes = collected
    page = (folder / "RESULTS.md").read_text(encoding="utf-8")
    assert "| no (1) | [et-table2](#et-table2) |" in page
    assert "| level (1) | [et-fig2](#et-fig2) |" in page
    assert outcomes["et-table2"].verdict in page
    assert "![et-fig7](results/et-fig7.png)" in page
    assert (folder / "results" / "et-fig7.png").stat().st_size > 10_000
    theirs = outcomes["et-fig2"].table.query("not ours")
    failed = (theirs["answer"] != "yes").sum()
    assert page.count(" s.e. |") == failed
    assert page.count("2 trials x 3 rounds") == page.count("seed 7") == 2
    assert "Not run at full size yet: b16-fig2a" in page
    row = next(line for line in page.splitlines() if line.startswith("| δ = 0.005 |"))
    assert row.count("±") == 3
    studies = json.loads((folder / "results" / "studies.json").read_text())["studies"]
    assert set(studies) == {f"{id}-{case}" for id in outcomes for case in EXPERIMENTS[id].cases}
    assert all({"commit", "machine", "torch"} <= set(study) for study in studies.values())


@pytest.mark.full
def test_quick_runs_are_not_collected(tmp_path, monkeypatch):
    monkeypatch.setattr(worlds, "POINTS", 5)
    EXPERIMENTS["et-fig4"].run(tmp_path, trials=2, quick=True, progress=False)
    with pytest.raises(ValueError, match=r"et-fig4.json is of a quick look .* full size"):
        collect(tmp_path, tmp_path / "results")


def test_every_result_is_in_the_index_with_its_script():
    text = INDEX.read_text("utf-8")
    assert text == index(), "run `python -m tests.tools.pages`"
    rows = re.findall(r"^\| \[([^]]+)\]\(\1\) \| (.+) \| (.*) \|$", text, re.MULTILINE)
    names = sorted(path.name for path in RESULTS.iterdir() if path != INDEX)
    assert [name for name, _, _ in rows] == names
    for name, script, pages in rows:
        assert name.endswith(".md") == (script == "by hand")
        assert pages or name.endswith((".json", ".md")), f"no page shows {name}; remove it"
    assert all((RESULTS / link).exists() for link in re.findall(r"\]\(([^)]+)\)", text))


LINKED = re.compile(r"^\| \[`(\w+)`\]\(([\w/]+\.py)\) \| (.+) \|$", re.MULTILINE)
ALSO = re.compile(r"^Also, from `([\w.]+)`: (.+)\.$", re.MULTILINE)


def all_of(source):
    """The ``__all__`` that a file assigns; None where it assigns none."""
    text = source.read_text(encoding="utf-8")
    exported = set()
    for line in ast.parse(text).body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == "__all__":
            return set(ast.literal_eval(line.value))
        if isinstance(line, ast.ImportFrom):  # as in `from module import name as name`
            exported |= {each.name for each in line.names if each.name == each.asname}
    if re.search(r"^    __all__ = sorted\(", text, re.MULTILINE) is None:
        return None
    home = {"botorch_tv": "botorch_tv", "strategies": "botorch_tv.strategies"}
    name = home.get(source.parent.name)  # these two also export the presets
    return exported if name is None else set(importlib.import_module(name).__all__)


@pytest.fixture
def every_module():
    for name in ("ax", "gest_api", "optuna"):
        pytest.importorskip(name)
    return modules()


@pytest.mark.usefixtures("every_module")
def test_the_page_is_what_the_docstrings_say():
    assert NAMES.read_text(encoding="utf-8") == page(), "run `python -m tests.tools.api`"


def test_every_name_is_there_and_no_other():
    offered = {}
    for source in NAMES.parent.rglob("*.py"):  # as written: some modules need what is not here
        parts = source.relative_to(NAMES.parent.parent).with_suffix("").parts
        names = all_of(source)
        if names is not None:
            offered[".".join(parts).removesuffix(".__init__")] = names
    listed, explained = {}, []
    for text in NAMES.read_text(encoding="utf-8").split("\n## ")[1:]:
        title, _, body = text.partition("\n")
        here = {name: source for name, source, _ in LINKED.findall(body)}
        assert all((NAMES.parent / source).is_file() for source in here.values())
        named = {name: home for home, names in ALSO.findall(body) for name in names.split(", ")}
        named = {name.strip("`"): home for name, home in named.items()}
        for name, home in named.items():  # where the reader is sent, it is explained
            assert (home, name) in explained
        listed[title] = {*here, *named}
        explained += [(title, name) for name in here]
    assert listed == offered
    assert sum(len(names) for names in offered.values()) > 200


def test_help_says_what_every_field_of_a_tuple_is(every_module):
    offered = [getattr(module, name) for module in every_module for name in module.__all__]
    tuples = {kind for kind in offered if isinstance(kind, type) and issubclass(kind, tuple)}
    assert len(tuples) > 10
    for kind in tuples:
        explained = re.findall(r"^ {4}(\w+): ", inspect.getdoc(kind), re.MULTILINE)
        assert set(kind._fields) <= set(explained), kind.__name__


def test_a_name_without_a_line_is_refused():
    assert _markdown("A :class:`~a.b.Word` of ``x * y``.\n\nMore.", "w") == "A `Word` of `x \\* y`."
    for docstring in ("", "Two\nlines.", "long" * 30):
        with pytest.raises(ValueError, match="begins with one line"):
            _markdown(docstring, "w")


class Finder:
    """As that of an editable installation of another checkout."""

    __module__ = "__editable___botorch_tv_0_1_0_finder"

    def find_spec(self, name, path, target=None):
        return spec_from_loader(name, SourceFileLoader(name, __file__)) if path else None


def test_another_checkout_is_the_only_library(tmp_path, monkeypatch):
    """Also for modules that it lacks; nothing is mixed if another is imported already."""
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder()])
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "botorch_tv").mkdir()
    (tmp_path / "botorch_tv" / "__init__.py").touch()
    with pytest.raises(RuntimeError, match="is imported, which is not in"):
        library_of(tmp_path)
    for name in [name for name in sys.modules if name.split(".")[0] == "botorch_tv"]:
        monkeypatch.delitem(sys.modules, name)
    library_of(tmp_path)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("botorch_tv.gest")
