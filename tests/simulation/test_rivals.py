import dataclasses
import math

import pytest
import torch

from botorch_tv.acquisition import Logarithmic
from botorch_tv.simulation.rivals import RIVALS, Settings, line_up, unit_kernel


@pytest.fixture
def settings() -> Settings:
    return Settings(
        kernel=unit_kernel("se", 0.2),
        noise=0.02,
        epsilon=0.03,
        period=29,
        window=28,
        gamma=0.9,
        alpha=2.0,
        delta=0.2,
        width=Logarithmic(c1=0.4, c2=4.0),
    )


def test_kernels():
    x = torch.tensor([[0.0], [0.3]], dtype=torch.float64)
    ratio = 0.3 / 0.2
    expected = {
        "se": math.exp(-(ratio**2) / 2),
        "matern12": math.exp(-ratio),
        "matern32": (1 + math.sqrt(3) * ratio) * math.exp(-math.sqrt(3) * ratio),
    }
    for name, value in expected.items():
        kernel = unit_kernel(name, 0.2)
        assert kernel.lengthscale.dtype == torch.float64
        assert kernel(x).to_dense()[0, 1].item() == pytest.approx(value, rel=1e-9)
    with pytest.raises(ValueError, match="choose one of se, matern12"):
        unit_kernel("rbf", 0.2)
    with pytest.raises(ValueError, match="lengthscale is 0"):
        unit_kernel("se", 0)


def test_all_rivals_carry_their_settings(settings):
    strategies = line_up(list(RIVALS), settings)
    assert list(strategies) == [rival.label for rival in RIVALS.values()]
    assert strategies["R-GP-UCB"].retention.period == 29
    assert strategies["SW-GP-UCB"].retention.window == 28
    assert strategies["TV-GP-UCB"].decay.epsilon == 0.03
    assert strategies["WGP-UCB"].inflation.gamma == 0.9
    assert strategies["UI-GP-UCB"].inflation.alpha == 2
    assert strategies["ET-GP-UCB"].retention.delta == 0.2
    without_width = {"GP-EI", "GP-PI", "Random"}
    for label, strategy in strategies.items():
        assert strategy.noise == 0.02
        if label not in without_width:
            assert dataclasses.asdict(strategy.width) == {"c1": 0.4, "c2": 4.0}


def test_names_in_any_spelling(settings):
    assert list(line_up(["et", " R-gp-ucb ", "ET"], settings)) == ["ET-GP-UCB", "R-GP-UCB"]
    with pytest.raises(ValueError, match=r"Unknown strategy 'WGB'.*Did you mean WGP"):
        line_up(["WGB"], settings)
    with pytest.raises(ValueError, match="No strategy given"):
        line_up(["", " "], settings)
