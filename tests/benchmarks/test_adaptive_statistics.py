"""The comparison of who is told nothing runs at a small size, and what was played is kept."""

import json
import math

import pytest
import torch

from benchmarks.statistics import adaptive


def test_the_world_of_two_peaks_is_what_its_formula_says():
    one = adaptive.world("two peaks", range(3), 60)
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(3, 7, 2, dtype=torch.float64, generator=generator)
    for t in (1, 31, 60):
        angle = 2 * math.pi * (t - 1) / 120
        centre = torch.tensor([0.5 + 0.3 * math.cos(angle), 0.5 + 0.3 * math.sin(angle)])
        moving = 10 * torch.exp(-(X - centre).square().sum(-1) / 0.08)
        resting = 6 * torch.exp(-(X - 0.2).square().sum(-1) / 0.045)
        torch.testing.assert_close(one.value(X, t), 50 + moving + resting, atol=1e-6, rtol=0)
    assert bool((one.highest(1) - 60).abs().max() < 0.05)


@pytest.mark.parametrize("name", ["markov", "abrupt", "narrow peaks"])
def test_a_seed_is_the_same_world_beside_any_others(name):
    both, second = (adaptive.world(name, range(low, 9), 6) for low in (7, 8))
    X = torch.full((1, 1, 2), 0.3, dtype=torch.float64)
    for t in (1, 6):
        value = both.value(X.expand(2, -1, -1), t)
        torch.testing.assert_close(value[1:], second.value(X, t))
        assert bool((value[0] != value[1]).all())
        assert bool((both.highest(t) >= value.squeeze(-1)).all())


def test_what_was_played_is_kept(tmp_path, monkeypatch):
    path = tmp_path / "nothing.json"
    small = ["--worlds", "two peaks", "--seeds", "2", "--horizon", "6", "--out", str(path)]
    record = adaptive.main(small)
    assert json.loads(path.read_text(encoding="utf-8")) == record
    runs = record["worlds"]["two peaks"]["runs"]
    assert set(runs) == {"told nothing", "static", "static with a trigger", "drifting at 0.03"}
    assert all(len(one["total regret of every seed"]) == 2 for one in runs.values())
    assert 0 <= runs["told nothing"]["coverage of bands of 95 %"] <= 1
    differences = record["worlds"]["two peaks"]["regret per round"]["static"]
    totals = [
        torch.tensor(runs[name]["total regret of every seed"])
        for name in ("told nothing", "static")
    ]
    expected = float((totals[0] - totals[1]).mean()) / 6
    assert differences["told nothing less this"] == pytest.approx(expected, abs=1e-6)
    monkeypatch.setattr(adaptive, "play", None)  # nothing is played again
    assert adaptive.main(small)["worlds"] == record["worlds"]
