"""The timing of one more observation runs at a small size and writes what it promises."""

import json

import pytest

from benchmarks.speed import conditioning


def test_both_kinds_of_candidates(tmp_path):
    path = tmp_path / "conditioning.json"
    sizes = ["--observations", "20", "--candidates", "70", "--repeats", "2", "--threads", "1"]
    conditioning.main([*sizes, "--out", str(path)])
    record = json.loads(path.read_text())
    for kind in ("same_candidates", "new_candidates"):
        found = record[kind]
        assert len(found["milliseconds_of_each_pass"]) == 4
        assert all(len(each) == 2 for each in found["milliseconds_of_each_pass"].values())
        assert found["ratio"] > 0
        assert 0 <= found["largest_difference"] < 1e-8


def test_what_is_not_the_same_is_not_timed(monkeypatch):
    data = conditioning.round_of(20, 70, seed=0)
    models = conditioning.contenders(data)
    assert conditioning.difference(models, data, data.after) < 1e-12
    monkeypatch.setattr(conditioning, "AGREEMENT", -1.0)
    with pytest.raises(AssertionError, match="cannot be compared"):
        conditioning.difference(models, data, data.after)
