import dataclasses
import math
from operator import attrgetter

import pytest
import torch

from botorch_tv.acquisition import IGPUCB, Constant, Logarithmic
from botorch_tv.forgetting import PeriodicMarkov
from botorch_tv.simulation.rivals import RIVALS, Settings, line_up, unit_kernel


@pytest.fixture
def settings() -> Settings:
    given = {"kernel": unit_kernel("se", 0.2), "noise": 0.02, "epsilon": 0.03, "sigma_w2": 0.04}
    given |= {"period": 29, "window": 28, "gamma": 0.9, "alpha": 2.0, "delta": 0.2}
    given |= {"width": Logarithmic(c1=0.4, c2=4.0), "beta": 7.5, "chance": 0.15}
    given |= {"epsilons": (0.0, 0.02), "windows": (3, 9), "block": 9, "horizon": 81}
    return Settings(**given, cycle=7.0, cycle_lengthscale=0.5)


def test_kernels():
    x = torch.tensor([[0.0], [0.3]], dtype=torch.float64)
    for name, value in {
        "se": math.exp(-(1.5**2) / 2),
        "matern12": math.exp(-1.5),
        "matern32": (1 + math.sqrt(3) * 1.5) * math.exp(-math.sqrt(3) * 1.5),
    }.items():
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
    for label, attribute, value in (
        ("R-GP-UCB", "retention.period", 29),
        ("SW-GP-UCB", "retention.window", 28),
        ("TV-GP-UCB", "decay.epsilon", 0.03),
        ("WGP-UCB", "inflation.gamma", 0.9),
        ("UI-GP-UCB", "inflation.alpha", 2),
        ("ET-GP-UCB", "retention.delta", 0.2),
        ("BR-GP-UCB", "retention.period", 29),
        ("UI-TVBO", "decay.sigma_w2", 0.04),
        ("W-SparQ-GP-UCB", "refresh.schedule.alpha", 2),
        ("GLR-GP-UCB", "retention.delta", 0.2),
        ("GLR-GP-UCB", "exploration.chance", 0.15),
        ("W-DBO", "retention.epsilon", 0.03),
        ("BOB-GP-UCB", "block", 9),
        ("BOB-GP-UCB", "horizon", 81),
        ("R-PERP", "period", 29),
        ("R-PERP", "width", Constant(7.5)),
        ("TV-BayesOpt", "decay", PeriodicMarkov(0.03, 7.0, 0.5)),
    ):
        assert attrgetter(attribute)(made[label]) == value, label
    experts, windows = made["PE-GP-UCB"].members, made["BOB-GP-UCB"].members
    assert [member.decay.epsilon for member in experts] == [0.0, 0.02]
    assert [member.retention[1].window for member in windows] == [3, 9]
    without_width = {"GP-EI", "GP-PI", "R-PERP", "Random", "PE-GP-UCB", "BOB-GP-UCB"}
    widths = [member.width for member in (*experts, *windows)]
    for label, strategy in made.items():
        if label != "Adaptive-GP-UCB":  # it learns the noise
            assert strategy.usual_noise == 0.02
        if label in ("IGP-UCB", "BR-GP-UCB"):  # they have their own width
            assert strategy.width == IGPUCB(B=1.0, R=math.sqrt(0.02), delta=0.1)
        elif label not in without_width:
            widths.append(strategy.width)
    assert all(dataclasses.asdict(width) == {"c1": 0.4, "c2": 4.0} for width in widths)


def test_names_in_any_spelling(settings):
    assert list(line_up(["et", " R-gp-ucb ", "ET"], settings)) == ["ET-GP-UCB", "R-GP-UCB"]
    with pytest.raises(ValueError, match=r"'WGB'; choose from .*WGP"):
        line_up(["WGB"], settings)
    with pytest.raises(ValueError, match="No strategy given"):
        line_up(["", " "], settings)
