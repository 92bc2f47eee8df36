"""The later algorithms beside those of the papers, at a small size."""

import json
import math

import torch

from benchmarks.statistics import later
from botorch_tv.simulation.rivals import RIVALS
from botorch_tv.simulation.streams import Stream


def test_what_is_written(tmp_path, monkeypatch):
    monkeypatch.setattr(later, "POINTS", 5)
    path = tmp_path / "later.json"
    later.main(["--trials", "2", "--horizon", "6", "--out", str(path)])
    record = json.loads(path.read_text())
    assert set(record["worlds"]) == set(later.worlds())
    labels = {RIVALS[name][0] for name in later.PLAYERS}
    for table in record["worlds"].values():
        assert set(table) == labels
        assert all(math.isfinite(row["total_regret"]) for row in table.values())


def test_a_turning_objective_comes_back(monkeypatch):
    monkeypatch.setattr(later, "POINTS", 5)
    world = later.worlds()["turns"]
    stream = Stream(0, "worlds", 0, 3, dtype=torch.float64, device=torch.device("cpu"))
    rounds = world.rounds(stream)
    values = torch.stack([next(rounds).clone() for _ in range(2 * later.CYCLE)])
    torch.testing.assert_close(values[: later.CYCLE], values[later.CYCLE :])
    torch.testing.assert_close(values[0], -values[later.CYCLE // 2])
