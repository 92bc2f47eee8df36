"""The parts told: that every bank is told one more than the last, and that they play."""

import itertools

import pytest

from benchmarks.statistics import adaptive_grid, given_parts
from botorch_tv.strategies import adaptive_gp_ucb


@pytest.mark.parametrize(("name", "hazard"), [("static", 0.0), ("abrupt", 0.02)])
def test_the_last_bank_holds_the_truth_alone(name, hazard):
    players = given_parts.contenders(name, 100)
    banks = [one.bank for one in players.values() if hasattr(one, "bank")]
    values = [bank.values(2) for bank in banks]
    told = [sum(len(part) == 1 for part in one.values()) for one in values]
    assert told == [0, 2, 3, 4]
    assert values[-1] == {
        "lengthscale": (0.2,),
        "rate": (0.0,),
        "hazard": (hazard,),
        "noise_ratio": (0.02,),
    }
    assert values[0] == adaptive_gp_ucb().bank.values(2)
    for before, after in itertools.pairwise(values):
        assert all(after[part] == before[part] or len(after[part]) == 1 for part in before)
    assert len({repr(one.width) for one in players.values()}) == 1


def test_every_part_plays(tmp_path, monkeypatch):
    monkeypatch.setattr(adaptive_grid, "SIDE", 5)
    out = tmp_path / "parts.json"
    small = ["--trials", "2", "--horizon", "6", "--out", str(out)]
    record = given_parts.main(small)
    assert adaptive_grid.read(out) == record
    for name in ("static", "abrupt"):
        found = record["worlds"][name]["regret per round"]
        assert list(found) == list(given_parts.contenders(name, 6))
