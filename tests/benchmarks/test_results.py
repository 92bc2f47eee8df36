"""Published figures: the pages equal the stored results, which say where they come from."""

import dataclasses
import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import sem

from benchmarks.paper.collect import PAGE, collect
from benchmarks.paper.page import write_page
from benchmarks.speed import common
from benchmarks.statistics.common import ADAPTIVE, REGRET, standard_error, summary
from botorch_tv.papers import EXPERIMENTS, worlds

RESULTS = common.RESULTS
STORED = {path.name: json.loads(path.read_text("utf-8")) for path in RESULTS.glob("*.json")}


def test_page_of_the_papers_is_written_from_the_files(tmp_path):
    write_page(RESULTS, STORED["studies.json"]["studies"], tmp_path / PAGE)
    assert (tmp_path / PAGE).read_text("utf-8") == (RESULTS.parent / PAGE).read_text("utf-8")
    for id, experiment in EXPERIMENTS.items():
        assert STORED[f"{id}.json"]["remark"] == experiment.remark


def test_remarks_quote_numbers_of_the_tables():
    page = (RESULTS.parent / PAGE).read_text("utf-8").split("\n### ")
    sections = {part.partition("\n")[0]: part for part in page[1:]}
    for id, quoted in {"et-fig3d": ("50.8", "65.0"), "b16-fig2c": ("67.8", "68.2")}.items():
        for number in quoted:
            assert re.search(rf"^\| .* \| {number} ± ", sections[id], re.MULTILINE)
            assert number in EXPERIMENTS[id].remark


def _commands(entry):
    if isinstance(entry, dict):
        yield from [entry["command"]] if "command" in entry else []
        entry = list(entry.values())
    for part in entry if isinstance(entry, list) else []:
        yield from _commands(part)


def test_no_result_names_a_folder_of_a_machine(monkeypatch, tmp_path):
    commands = [command for record in STORED.values() for command in _commands(record)]
    assert commands
    assert not [word for each in commands for word in each.split() if Path(word).is_absolute()]
    monkeypatch.setattr(sys, "argv", ["script", "--out", str(tmp_path / "found.json"), "runs/a"])
    assert common.command().endswith(" --out found.json runs/a")


def test_stored_summaries_follow_from_stored_runs():
    for name in ("adaptive", "adaptive_grid"):
        for world in STORED[f"statistics_{name}.json"]["worlds"].values():
            horizon = world.get("horizon") or world["runs"][ADAPTIVE]["settings"]["horizon"]
            found = summary(world["runs"], horizon)
            for label, figures in world["regret per round"].items():
                for figure, value in figures.items():
                    assert found[label][figure] == pytest.approx(value, rel=1e-3, abs=1e-4)


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


def test_collected_runs_are_on_the_page(collected):
    folder, outcomes = collected
    page = (folder / "RESULTS.md").read_text(encoding="utf-8")
    assert "| no (2) | [et-fig2](#et-fig2), [et-table2](#et-table2) |" in page
    assert outcomes["et-table2"].verdict in page
    failed = (~outcomes["et-fig2"].table["holds"].astype(bool)).sum()
    assert page.count(" s.e. |") == failed
    assert page.count("2 trials x 3 rounds") == page.count("seed 7") == 2
    assert "Not run at full size yet: b16-fig2a" in page
    row = next(line for line in page.splitlines() if line.startswith("| δ = 0.005 |"))
    assert row.count("±") == 3
    studies = json.loads((folder / "results" / "studies.json").read_text())["studies"]
    assert set(studies) == {f"{id}-{case}" for id in outcomes for case in EXPERIMENTS[id].cases}
    assert all({"commit", "machine", "torch"} <= set(study) for study in studies.values())


def test_quick_runs_are_not_collected(tmp_path, monkeypatch):
    monkeypatch.setattr(worlds, "POINTS", 5)
    EXPERIMENTS["et-fig4"].run(tmp_path, trials=2, quick=True, progress=False)
    with pytest.raises(ValueError, match=r"et-fig4.json is of a quick look .* full size"):
        collect(tmp_path, tmp_path / "results")
