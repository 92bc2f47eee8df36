"""The rate of change is recovered from a bandit's observations, singly or in batches."""

import math

import pytest
import torch

from benchmarks.statistics import recovery

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")


@pytest.fixture
def coarse(monkeypatch):
    monkeypatch.setattr(recovery, "POINTS", 15)


def test_rate_is_recovered_from_bandit_data(coarse):
    X, Y = recovery.bandit_data(0.1, seeds=6, rounds=100)
    together = torch.tensor(recovery.together(X, Y)["epsilon"])
    alone = torch.tensor(recovery.alone(X[:2], Y[:2])["epsilon"])
    ours = torch.tensor(recovery.refitted(X, Y)["epsilon"])
    torch.testing.assert_close(together[:2], alone, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(together, ours, rtol=1e-2, atol=1e-6)
    error = float(together.std()) / math.sqrt(len(together))
    assert error < 0.03
    assert abs(float(together.mean()) - 0.1) < 3 * error


def test_verdicts_account_for_errors():
    assert recovery.judged([0.09, 0.11, 0.12], 0.1)["holds"]
    assert not recovery.judged([0.121, 0.12, 0.119], 0.1)["holds"]
    assert recovery.judged([0.0, 9e-4], 0.0)["holds"]
    assert not recovery.judged([0.0, 2e-3], 0.0)["holds"]
