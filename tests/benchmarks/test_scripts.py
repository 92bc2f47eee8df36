"""Every script runs at a small size and writes what it promises."""

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import dummy
from types import SimpleNamespace

import pytest
import torch

from benchmarks.speed import (
    box_rounds,
    compiled,
    estimates,
    executors,
    figure4,
    limits,
    long_runs,
    rates,
    scaling,
)
from benchmarks.statistics import float32, wind_farm
from botorch_tv.papers import worlds as markov

STRATEGY = ["TV-GP-UCB"]


@pytest.fixture
def short(monkeypatch):
    monkeypatch.setattr(rates, "SHORTEST", 1e-4)
    monkeypatch.setattr(rates, "BEYOND_CACHE", {"cpu": 8000})
    monkeypatch.setattr(limits, "LARGE", 16)
    monkeypatch.setattr(figure4, "LARGE", 16)
    monkeypatch.setattr(figure4, "FIGURE_4", replace(figure4.FIGURE_4, horizon=4))
    monkeypatch.setattr(float32, "POINTS", 5)
    monkeypatch.setattr(markov, "POINTS", 5)


def test_limits(short, tmp_path, monkeypatch):
    # In a thread; a process of its own is started by test_scaling.
    threads = SimpleNamespace(get_context=lambda method: dummy)
    monkeypatch.setattr(limits, "multiprocessing", threads)
    path = tmp_path / "limits.json"
    sizes = ["--trials", "2", "--horizon", "3", "--points", "5", "--repeats", "1"]
    late = ["--rounds", "2", "4", "--late-trials", "2", "--window", "1", "--largest", "8000"]
    chosen = ["--strategies", *STRATEGY, "--devices", "cpu", "--threads", "1", "--out", str(path)]
    limits.main([*sizes, *late, *chosen])
    record = json.loads(path.read_text())
    found = record["devices"]["cpu"]
    one = found["strategies"]["TV-GP-UCB"]
    assert one["live"] == 1  # 0, 1 and 2
    assert one["engine_bytes"] > one["count_bytes"] > 6 * 25 * 8
    assert 0 < one["share_of_limit"] < 1
    assert [entry["round"] for entry in found["late"]["TV-GP-UCB"]] == [2, 4]
    assert path.with_suffix(".png").stat().st_size > 1000


def test_figure_4(short, tmp_path):
    path = tmp_path / "figure4.json"
    figure4.main(["--trials", "2", "--device", "cpu", "--threads", "1", "--out", str(path)])
    cases = json.loads(path.read_text())["cases"]
    assert len(cases) == 2
    assert all(0 < one["least_seconds"] < one["seconds"] for one in cases.values())


def test_compiled(tmp_path, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(markov, "POINTS", 5)
    monkeypatch.setattr(compiled, "HORIZON", 3)
    path = tmp_path / "compiled.json"
    compiled.main(["--trials", "2", "--repeats", "1", "--threads", "1", "--out", str(path)])
    record = json.loads(path.read_text())
    assert set(record["strategies"]) == set(compiled.PLAYED)
    assert all(one["ratio"]["passed"] > 0 for one in record["strategies"].values())


def test_wind_farm(tmp_path):
    pytest.importorskip("floris")
    path = tmp_path / "wind_farm.json"
    wind_farm.main(["--trials", "2", "--horizon", "4", "--out", str(path)])
    found = json.loads(path.read_text())["MW"]
    assert set(found["lost"]) == {"facing the wind", "told nothing", "static"}
    assert all(0 < lost < found["best"] for lost in found["lost"].values())


def test_float32(short, tmp_path):
    path = tmp_path / "float32.json"
    float32.main(["--trials", "2", "--horizon", "3", "--threads", "1", "--out", str(path)])
    record = json.loads(path.read_text())
    assert set(record["strategies"]) == set(float32.LABELS)
    with pytest.raises(SystemExit):
        float32.main(["--trials", "1"])


def test_precisions_are_compared_trial_by_trial(short):
    options = float32.parse(["--trials", "3", "--horizon", "2"])
    double = float32.study(torch.float64, options)
    same = float32.compare(double, double, "GP-UCB")
    assert (same["difference"], same["within"], same["trials_that_part"]) == (0, True, 0)
    worse = type(double)(double.data.assign(regret=double.data["regret"] + 0.5))
    other = float32.compare(worse, double, "GP-UCB")
    assert other["difference"] == pytest.approx(1)
    assert not other["within"]


def test_scaling(tmp_path):
    arguments = ["--trials", "2", "--points", "5", "--rounds", "2", "4", "--window", "1"]
    record = scaling.main(
        [*arguments, "--strategies", *STRATEGY, "--out", str(tmp_path / "s.json")]
    )
    first, last = record["strategies"]["TV-GP-UCB"]["at"]
    assert last["state_bytes"] >= first["state_bytes"] > 0
    assert last["log_bytes"] == 2 * first["log_bytes"]


def test_long_runs(tmp_path, monkeypatch):
    pytest.importorskip("numba")
    threads = SimpleNamespace(get_context=lambda method: dummy)
    monkeypatch.setattr(long_runs, "multiprocessing", threads)
    monkeypatch.setattr(long_runs, "resident_bytes", lambda: 1)  # which collects garbage
    sizes = ["--trials", "3", "--together", "2", "--points", "5", "--horizon", "40"]
    path = tmp_path / "long.json"
    long_runs.main([*sizes, "--window", "8", "--out", str(path)])
    for one in json.loads(path.read_text())["strategies"].values():
        assert one["trials"] == one["trials_checked"] == 3
        assert len(one["ratio_by_block"]) == 2
        assert all(apart < 1e-10 for apart in one["largest_drift"].values())
        assert [entry["round"] for entry in one["memory"]] == [8, 16, 24]


def test_executors(tmp_path, monkeypatch):
    """In threads; that processes serve is tested with the studies."""

    def pool(number, **settings):
        return ThreadPoolExecutor(number)

    monkeypatch.setattr(executors, "ProcessPoolExecutor", pool)
    path = tmp_path / "executors.json"
    small = ["--trials", "8", "--horizon", "3", "--points", "4", "--repeats", "1"]
    executors.main([*small, "--out", str(path)])
    record = json.loads(path.read_text())
    one, several = record["seconds, one worker"], record["seconds, several"]
    assert record["ratio"] == pytest.approx(one[0] / several[0])
    assert record["identical"] is True
    assert record["workers"] == 2


def test_estimates(tmp_path, monkeypatch):
    kinds = ("GP-UCB", "WGP-UCB")
    monkeypatch.setattr(estimates, "FAMILIES", {kind: estimates.FAMILIES[kind] for kind in kinds})
    path = tmp_path / "estimates.json"
    estimates.main(["--trials", "2", "--rounds", "17", "--points", "5", "--out", str(path)])
    rows = json.loads(path.read_text())["families"]
    found = [(row["strategy"], row["domain"], row["inference"]) for row in rows]
    grid, box = ("grid", "auto"), ("box", "exact")
    wanted = [(kind, *place) for place in (grid, box) for kind in kinds]
    assert found == [*wanted, ("GP-UCB", "box", "features")]  # where noise ages they do not serve
    for row in rows:
        assert row["ratio"] == row["numbers estimated"] / row["numbers at most"]


def test_box_rounds(tmp_path):
    path = tmp_path / "rounds.json"
    box_rounds.main(["--told", "3", "70", "--repeats", "1", "--out", str(path)])
    rounds = json.loads(path.read_text())["rounds"]
    assert [one["told"] for one in rounds] == [3, 70]
    assert all(value > 0 for one in rounds for value in one.values())
