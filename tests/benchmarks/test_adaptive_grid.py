"""The comparison on a grid: its own world, and that every world plays."""

import itertools
import json

import pytest
import torch

from benchmarks.statistics import adaptive_grid
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid


def functions(rates, change, rounds):
    grid = Grid.regular(points=4, dim=1, bounds=[(0.0, 9.0)])
    kernel = unit_kernel("se", 0.2)  # arms are all but independent
    world = adaptive_grid.SwitchingWorld(grid, kernel=kernel, rates=rates, change=change, noise=0.0)
    stream = Stream(0, "world", 0, 4000, dtype=torch.float64, device=torch.device("cpu"))
    return [f.clone() for f, _ in zip(world.rounds(stream), range(rounds))]


def test_a_rate_switches_where_it_should():
    """Neighbouring rounds correlate by the root of 1 - ε, and each is a draw of the kernel's."""
    at = functions((0.0, 0.75), 4, 6)
    torch.testing.assert_close(at[2], at[0], rtol=0, atol=0)
    for before, after in itertools.pairwise(at[2:]):
        assert float((before * after).mean()) == pytest.approx(0.5, abs=0.04)
        assert float(after.square().mean()) == pytest.approx(1, abs=0.06)


@pytest.mark.parametrize("name", ["switching", "sine", "slow"])
def test_a_world_plays(name, tmp_path, monkeypatch):
    monkeypatch.setattr(adaptive_grid, "SIDE", 5)
    out = tmp_path / "grid.json"
    small = ["--worlds", name, "--trials", "2", "--horizon", "6", "--out", str(out)]
    record = adaptive_grid.main(small)
    assert json.loads(out.read_text(encoding="utf-8")) == record
    runs = record["worlds"][name]["runs"]
    assert len(runs) == 4
    assert all(min(one["total regret of every seed"]) >= 0 for one in runs.values())
