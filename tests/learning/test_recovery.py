"""The rate of change returns from what a bandit saw, one run at a time or in batches."""

import json
import math

import pytest
import torch

from benchmarks.statistics import recovery

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr(recovery, "POINTS", 15)


def test_rate_returns_from_bandit_data_alone_and_in_a_batch(coarse):
    X, Y = recovery.bandit_data(0.1, seeds=6, rounds=100)
    together = torch.tensor(recovery.together(X, Y)["epsilon"])
    alone = torch.tensor(recovery.alone(X[:2], Y[:2])["epsilon"])
    ours = torch.tensor(recovery.refitted(X, Y)["epsilon"])
    torch.testing.assert_close(together[:2], alone, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(together, ours, rtol=1e-2, atol=1e-6)
    error = float(together.std()) / math.sqrt(len(together))
    assert error < 0.03
    assert abs(float(together.mean()) - 0.1) < 3 * error


def test_standstill_returns_from_bandit_data(coarse):
    X, Y = recovery.bandit_data(0.0, seeds=3, rounds=150)
    assert max(recovery.together(X, Y)["epsilon"]) < 1e-3


def test_script_writes_what_was_found(coarse, monkeypatch, tmp_path):
    monkeypatch.setattr(recovery, "SENSORS", 4)
    path = tmp_path / "recovery.json"
    sizes = ["--seeds", "2", "--rounds", "12", "--epsilon", "0.1", "--threads", "1"]
    recovery.main([*sizes, "--out", str(path)])
    found = json.loads(path.read_text())["estimates"]
    assert set(found) == {*recovery.BANDIT, *recovery.PANEL}
    one = found["bandit, learn"][0]
    assert (one["truth"], one["hyperparameter"]) == (0.1, "epsilon")
    with pytest.raises(SystemExit):
        recovery.main(["--seeds", "1"])


def test_verdicts_know_their_errors():
    assert recovery.judged([0.09, 0.11, 0.12], 0.1)["holds"]
    assert not recovery.judged([0.121, 0.12, 0.119], 0.1)["holds"]
    assert recovery.judged([0.0, 9e-4], 0.0)["holds"]
    assert not recovery.judged([0.0, 2e-3], 0.0)["holds"]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.1])
def test_rates_return_at_full_size(epsilon):
    X, Y = recovery.bandit_data(epsilon, seeds=20, rounds=300)
    assert recovery.judged(recovery.together(X, Y)["epsilon"], epsilon)["holds"]
    panels = [recovery.panel_rate(seed, epsilon, 300)["epsilon"] for seed in range(20)]
    assert recovery.judged(panels, epsilon)["holds"]
