"""What is collected of full-size runs, and the page that tells of them."""

import dataclasses
import json

import pytest

from benchmarks.paper.collect import collect
from botorch_tv.papers import EXPERIMENTS, worlds


@pytest.fixture(scope="module")
def collected(tmp_path_factory):
    """Two experiments, small, run and collected one after the other; and their outcomes."""
    folder = tmp_path_factory.mktemp("collected")
    outcomes = {}
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(worlds, "POINTS", 5)
        for id in ("et-table2", "et-fig2"):
            runs = folder / id
            runs.mkdir()
            small = dataclasses.replace(EXPERIMENTS[id], horizon=3)
            outcomes[id] = small.run(runs, trials=2, seed=7, progress=False)
            collect(runs, folder / "benchmarks" / "results")
    return folder / "benchmarks", outcomes


def test_page_tells_verdicts_numbers_and_origin(collected):
    folder, outcomes = collected
    page = (folder / "RESULTS.md").read_text(encoding="utf-8")
    for id, outcome in outcomes.items():
        assert f"| [{id}](#{id}) | no |" in page
        assert f"- **Here.** {outcome.verdict}" in page
        assert f"](results/{id}.png)" in page
        assert (folder / "results" / f"{id}.png").exists()
    assert page.count("2 trials x 3 rounds, seed 7, float64") == 2
    assert "Not run at full size yet: b16-fig2a" in page
    row = next(line for line in page.splitlines() if line.startswith("| δ = 0.005 |"))
    assert row.count("±") == 3  # a column per rate of change


def test_studies_say_how_they_came_about(collected):
    folder, _ = collected
    retained = json.loads((folder / "results" / "studies.json").read_text())["studies"]
    names = [f"{id}-{case}" for id in ("et-table2", "et-fig2") for case in EXPERIMENTS[id].cases]
    assert sorted(retained) == sorted(names)
    assert {one["seed"] for one in retained.values()} == {7}
    assert all({"commit", "machine", "torch"} <= set(one) for one in retained.values())


def test_a_quick_look_is_not_collected(tmp_path, monkeypatch):
    monkeypatch.setattr(worlds, "POINTS", 5)
    EXPERIMENTS["et-fig4"].run(tmp_path, trials=2, quick=True, progress=False)
    with pytest.raises(ValueError, match=r"et-fig4.json is of a quick look .* full size"):
        collect(tmp_path, tmp_path / "results")
    assert not list((tmp_path / "results").glob("*"))
