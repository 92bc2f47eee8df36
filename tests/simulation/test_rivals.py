import dataclasses
import math

import pytest
import torch

from botorch_tv.acquisition import IGPUCB, Constant, Logarithmic
from botorch_tv.forgetting import PeriodicMarkov
from botorch_tv.simulation.rivals import RIVALS, Settings, line_up, unit_kernel


@pytest.fixture
def settings() -> Settings:
    return Settings(
        kernel=unit_kernel("se", 0.2),
        noise=0.02,
        epsilon=0.03,
        sigma_w2=0.04,
        period=29,
        window=28,
        gamma=0.9,
        alpha=2.0,
        delta=0.2,
        width=Logarithmic(c1=0.4, c2=4.0),
        beta=7.5,
        chance=0.15,
        epsilons=(0.0, 0.02),
        windows=(3, 9),
        block=9,
        horizon=81,
        cycle=7.0,
        cycle_lengthscale=0.5,
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
    with pytest.raises(ValueError, match="'rbf'; give se, matern12"):
        unit_kernel("rbf", 0.2)
    with pytest.raises(ValueError, match="lengthscale is 0"):
        unit_kernel("se", 0)


def test_all_rivals_carry_their_settings(settings):
    made = line_up(list(RIVALS), settings)
    assert list(made) == [label for label, _, _ in RIVALS.values()]
    assert made["R-GP-UCB"].retention.period == 29
    assert made["SW-GP-UCB"].retention.window == 28
    assert made["TV-GP-UCB"].decay.epsilon == 0.03
    assert made["WGP-UCB"].inflation.gamma == 0.9
    assert made["UI-GP-UCB"].inflation.alpha == 2
    assert made["ET-GP-UCB"].retention.delta == 0.2
    assert made["BR-GP-UCB"].retention.period == 29
    assert made["UI-TVBO"].decay.sigma_w2 == 0.04
    assert made["W-SparQ-GP-UCB"].refresh.schedule.alpha == 2
    assert made["GLR-GP-UCB"].retention.delta == 0.2
    assert made["GLR-GP-UCB"].exploration.chance == 0.15
    assert made["W-DBO"].retention.epsilon == 0.03
    assert [member.decay.epsilon for member in made["PE-GP-UCB"].members] == [0.0, 0.02]
    windows = [member.retention[1].window for member in made["BOB-GP-UCB"].members]
    assert (windows, made["BOB-GP-UCB"].block, made["BOB-GP-UCB"].horizon) == ([3, 9], 9, 81)
    assert made["R-PERP"].period == 29
    assert made["R-PERP"].width == Constant(7.5)
    assert made["TV-BayesOpt"].decay == PeriodicMarkov(0.03, 7.0, 0.5)
    without_width = {"GP-EI", "GP-PI", "R-PERP", "Random", "PE-GP-UCB", "BOB-GP-UCB"}
    for label, strategy in made.items():
        if label != "Adaptive-GP-UCB":  # it learns the noise
            assert strategy.usual_noise == 0.02
        if label in ("IGP-UCB", "BR-GP-UCB"):  # they have their own width
            assert strategy.width == IGPUCB(B=1.0, R=math.sqrt(0.02), delta=0.1)
        elif label not in without_width:
            assert dataclasses.asdict(strategy.width) == {"c1": 0.4, "c2": 4.0}
    for label in ("PE-GP-UCB", "BOB-GP-UCB"):
        for member in made[label].members:
            assert dataclasses.asdict(member.width) == {"c1": 0.4, "c2": 4.0}


def test_names_in_any_spelling(settings):
    assert list(line_up(["et", " R-gp-ucb ", "ET"], settings)) == ["ET-GP-UCB", "R-GP-UCB"]
    with pytest.raises(ValueError, match=r"'WGB'; choose from .*WGP"):
        line_up(["WGB"], settings)
    with pytest.raises(ValueError, match="No strategy given"):
        line_up(["", " "], settings)
