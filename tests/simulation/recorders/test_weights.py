import numpy as np
from gpytorch.kernels import RBFKernel

from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.simulation import MarkovWorld, Weights, run_study
from botorch_tv.strategies import Grid, adaptive_gp_ucb, gp_ucb

BANK = Bank(rates=(0.0, 0.05), hazards=(0.0, 0.1), lengthscales=(0.2, 0.4), noise_ratios=(0.01,))


def test_weights_are_those_of_the_strategy():
    domain, kernel = Grid.regular(points=5, dim=2), RBFKernel().double()
    world = MarkovWorld(domain, kernel=kernel, epsilon=0.1, noise=0.02)
    players = {
        "adaptive": adaptive_gp_ucb(bank=BANK),
        "other": adaptive_gp_ucb(bank=Bank(rates=(0.0,), noise_ratios=(0.1,))),
        "GP": gp_ucb(kernel=kernel, noise=0.02),
    }
    result = run_study(world, players, trials=3, horizon=9, record=(Weights(BANK),), chunk=2)
    data = result.data
    for name, values in {
        "rate": BANK.rates,
        "hazard": BANK.hazards,
        "lengthscale": BANK.lengthscales,
        "noise_ratio": BANK.noise_ratios,
    }.items():
        found = data[f"weight_{name}"]
        assert found.dims == ("strategy", "trial", "round", name)
        np.testing.assert_array_equal(found[name], values)
        mine = found.sel(strategy="adaptive")
        np.testing.assert_allclose(mine.sum(name), 1.0)
        assert np.isnan(found.sel(strategy="GP")).all()
        assert np.isnan(found.sel(strategy="other")).all()
    weight = data["weight_rate"].sel(strategy="adaptive").values
    np.testing.assert_allclose(weight[:, :3], 0.5)  # equally likely at first
    assert (np.abs(weight[:, -1] - 0.5) > 1e-6).all()
    jump = data["jump"].sel(strategy="adaptive")
    assert ((jump >= 0) & (jump <= 1)).all()
