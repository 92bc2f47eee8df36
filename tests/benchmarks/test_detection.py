"""Alarms read off a run without forgetting are those of the strategy that forgets."""

import json
from dataclasses import replace

import pytest
import torch

from benchmarks.statistics import detection
from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import EventTrigger, GLRTrigger
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import GPStrategy, Grid

TRIALS = 12


@pytest.mark.parametrize("rule", [EventTrigger(0.5), GLRTrigger(0.5)], ids=repr)
def test_first_alarms_are_first_resets(rule):
    told = detection.play(0.8, "GP-UCB", TRIALS, seed=1)
    first = detection.first_alarms(rule, told)
    strategy = GPStrategy(kernel=unit_kernel("se", 0.2), noise=detection.NOISE)
    strategy = replace(strategy, width=Logarithmic(c1=0.4, c2=4.0), retention=rule)
    state = strategy.init(Grid.regular(points=20, dim=2), batch_shape=(TRIALS,))
    seen = torch.full((TRIALS,), torch.inf, dtype=torch.float64)
    for t in range(detection.BEFORE + detection.AFTER):
        suggestion = strategy.ask(state)
        state, info = strategy.tell(state, suggestion, told.y[:, t])
        seen = torch.where(info.reset & seen.isinf(), t + 1.0, seen)
        # The arms of trials that have been reset are others, whose values nobody has told.
        same = (suggestion.mean - told.mean[:, t]).abs() < 1e-8
        assert bool((same | (seen <= t + 1)).all())
    assert torch.equal(first, seen)
    assert bool(first.isfinite().any())


def test_what_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(detection, "SIZES", (0.2, 1.0))
    monkeypatch.setattr(detection, "DELTAS", (0.01, 0.5))
    path = tmp_path / "detection.json"
    detection.main(["--trials", "30", "--out", str(path)])
    record = json.loads(path.read_text())
    assert len(record["curves"]) == 8
    for one in record["curves"]:
        few, more = (one["points"][delta] for delta in ("0.01", "0.5"))
        assert few["false_alarms"] <= more["false_alarms"]
        assert few["noticed"] <= more["noticed"] + 0.1
    large = [one for one in record["compared"] if one["size"] == 1.0]
    assert all(one["delay"]["GLR"] < 30 for one in large)
    assert path.with_suffix(".png").stat().st_size > 1000
