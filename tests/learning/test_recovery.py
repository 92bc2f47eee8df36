"""The rate of change returns from bandit data, one run at a time or in batches, and from panels."""

import math

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_tv.forgetting import Markov
from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel
from botorch_tv.learning import Free, Refit, learn
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation import MarkovWorld
from botorch_tv.simulation.panels import fit_epsilon, make_panel
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid, tv_gp_ucb

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")

KERNEL, NOISE, START = unit_kernel("se", 0.2), 0.02, 0.01


def bandit_data(epsilon, seeds, rounds, points=15):
    """Points with their times, `seeds x rounds x 3`, and observations, `seeds x rounds x 1`."""
    grid = Grid.regular(points=points, dim=2)
    world = MarkovWorld(grid, kernel=KERNEL, epsilon=epsilon, noise=NOISE)
    where = {"dtype": torch.float64, "device": torch.device("cpu")}
    values, errors = (Stream(0, purpose, 0, seeds, **where) for purpose in ("world", "noise"))
    strategy = tv_gp_ucb(kernel=KERNEL, noise=NOISE, epsilon=epsilon)
    state = strategy.init(grid, batch_shape=(seeds,))
    X, Y = [], []
    for now, f in zip(range(rounds), world.rounds(values)):
        chosen = strategy.ask(state)
        arm = grid.index_of(chosen.X).unsqueeze(-1)
        y = f.gather(-1, arm) + math.sqrt(NOISE) * errors.normal(1)
        state, _ = strategy.tell(state, chosen, y.squeeze(-1))
        X.append(torch.cat([chosen.X, torch.full((seeds, 1), float(now), dtype=f.dtype)], -1))
        Y.append(y)
    return torch.stack(X, 1), torch.stack(Y, 1)


def fitted(X, Y):
    """ε by ``fit_gpytorch_mll``, the rest given, without a prior; `... x n x 3` to `...`."""
    drift = MarkovKernel(START, batch_shape=X.shape[:-2], epsilon_prior=None)
    space = unit_kernel("se", 0.2).requires_grad_(False)
    model = TimeVaryingGP(
        X,
        Y,
        torch.full_like(Y, NOISE),
        covar_module=SpatioTemporalKernel(space, drift).double(),
        mean_module=ZeroMean(),
        outcome_transform=None,
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model.covar_module.temporal.epsilon.detach().reshape(X.shape[:-2])


def test_rate_returns_from_bandit_data_alone_and_in_a_batch():
    X, Y = bandit_data(0.1, seeds=6, rounds=100)
    together, alone = fitted(X, Y), torch.stack([fitted(*run) for run in zip(X[:2], Y[:2])])
    refit = Refit(lengthscale=None, noise=None, epsilon=Free(prior=None))
    live = torch.ones(Y.shape[:-1], dtype=torch.bool)
    places, times, y = X[..., :-1], X[..., -1], Y.squeeze(-1)
    ours = learn(refit, KERNEL, Markov(START), NOISE, places, times, y, live).decay
    torch.testing.assert_close(together[:2], alone, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(together, ours.value("epsilon"), rtol=1e-2, atol=1e-6)
    error = float(together.std()) / math.sqrt(len(together))
    assert error < 0.03
    assert abs(float(together.mean()) - 0.1) < 3 * error


def test_a_static_objective_returns_from_bandit_data():
    assert fitted(*bandit_data(0.0, seeds=3, rounds=150)).max() < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.0, 0.01, 0.1])
def test_rates_return_at_full_size(epsilon):
    panels = []
    for seed in range(20):
        panel = make_panel(300, 20, epsilon=epsilon, cycle=0.0, gaps=0.0, seed=seed)
        apart = ((panel.coordinates[:, None] - panel.coordinates[None]) ** 2).sum(-1)
        covariance = np.exp(-apart / (2 * 0.3**2))
        panels.append(fit_epsilon(panel.values, covariance, 0.05).epsilon)
    for found in (fitted(*bandit_data(epsilon, 20, 300, points=50)).numpy(), np.array(panels)):
        error = found.std(ddof=1) / math.sqrt(20)
        assert abs(found.mean() - epsilon) <= 3 * error if epsilon else found.max() < 1e-3
