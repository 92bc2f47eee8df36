import importlib.util

import numpy as np
import pytest
import torch

from botorch_tv.simulation import run_study
from botorch_tv.strategies import Grid, et_gp_ucb, random_search

OWN = '''
import torch
from botorch_tv.simulation import GridWorld


class Ramp(GridWorld):
    """A ramp that turns around every ``period`` rounds; trials start at a slope of their own."""

    def __init__(self, domain, *, period, noise):
        super().__init__(domain, noise)
        self.period = period

    def rounds(self, stream):
        slope = 1 + stream.uniform(1)
        X = self.domain.X.to(slope)[:, 0]
        sign = 1
        while True:
            for _ in range(self.period):
                yield sign * slope * X
            sign = -sign

    def __repr__(self):
        return f"Ramp(period={self.period}, noise={self.noise})"
'''


@pytest.fixture
def ramp(tmp_path):
    file = tmp_path / "own_world.py"
    file.write_text(OWN)
    spec = importlib.util.spec_from_file_location("own_world", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Ramp(Grid.regular(points=5, dim=1), period=4, noise=0.01)


def test_it_is_played_in_a_study(ramp):
    K = torch.exp(-10 * torch.cdist(ramp.domain.X, ramp.domain.X).square())
    players = {"ET": et_gp_ucb(kernel=K, noise=0.01), "random": random_search(kernel=K, noise=0.01)}
    result = run_study(ramp, players, trials=6, horizon=8, progress=False)
    objective = ramp.look(rounds=8, trials=6)
    assert objective.sel(trial=0, round=4).values == pytest.approx(
        -objective.sel(trial=0, round=5).values
    )
    assert len(np.unique(objective.sel(round=1, arm=4))) == 6
    best = objective.max("arm")
    for label in players:
        regret = result.regret.sel(strategy=label)
        played = result.data["index"].sel(strategy=label)
        by_hand = best - objective.isel(arm=played.astype(int).rename(None))
        assert regret.values == pytest.approx(by_hand.values, abs=1e-12)
    assert float(result.regret.sel(strategy="ET").mean()) < float(
        result.regret.sel(strategy="random").mean()
    )
    halves = [
        run_study(ramp, players, trials=6, horizon=8, chunk=chunk, progress=False)
        for chunk in (2, 5)
    ]
    for half in halves:
        assert np.array_equal(half.regret.values, result.regret.values)
