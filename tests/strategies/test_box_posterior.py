"""What a strategy believes on a box, against the textbook, for every way to forget."""

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel
from oracles.dense import matern_five_halves

from botorch_tv.forgetting import ExponentialWeights, Markov, Static, UncertaintyInjection, Wiener
from botorch_tv.strategies import Box, GPStrategy

D = torch.float64
NOISE, LENGTHSCALE, ROUNDS, TRIALS = 0.05, 0.4, 9, 3
POINTS = np.random.default_rng(0).uniform([-1.0, 2.0], [1.0, 3.0], (8, 2))
BOX = Box(torch.tensor([[-1.0, 2.0], [1.0, 3.0]], dtype=D))
K = matern_five_halves(POINTS, LENGTHSCALE)


def module():
    kernel = MaternKernel(nu=2.5).double()
    kernel.lengthscale = torch.tensor(LENGTHSCALE, dtype=D)
    return kernel


def test_observation_noise_and_groups_of_points():
    strategy = GPStrategy(kernel=module(), noise=NOISE, decay=Markov(0.1))
    state, arms = strategy.init(BOX, batch_shape=(2, 1)), torch.tensor(POINTS)
    for t in range(3):
        X = arms[torch.tensor([[t], [t + 2]])]
        told = torch.tensor([[0.3 * t], [-0.2]], dtype=D)
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X), told, noise=0.3)
    whole = strategy.posterior(state, arms)
    assert whole.mean.shape == (2, 1, 8, 1)
    for lead in ((), (4,), (2, 2)):
        groups = arms.view(4, 1, 1, 2, 2).expand(4, 2, 1, 2, 2)
        groups = groups.reshape(*lead, 2, 1, 2, 2) if lead else groups[0]
        posterior = strategy.posterior(state, groups)
        assert posterior.mean.shape == (*lead, 2, 1, 2, 1)
        for number in range(4 if lead else 1):
            part = slice(2 * number, 2 * number + 2)
            mean = posterior.mean.reshape(-1, 2, 1, 2, 1)[number]
            covariance = posterior.distribution.covariance_matrix.reshape(-1, 2, 1, 2, 2)[number]
            torch.testing.assert_close(mean, whole.mean[..., part, :])
            wanted = whole.distribution.covariance_matrix[..., part, part]
            torch.testing.assert_close(covariance, wanted)
    noisy = strategy.posterior(state, arms, observation_noise=True)
    torch.testing.assert_close(noisy.variance, whole.variance + NOISE, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decay", [Static(), Markov(0.1), Wiener(1e-3)], ids=repr)
@pytest.mark.parametrize("inflation", [Static(), ExponentialWeights(0.9), UncertaintyInjection(1)])
def test_a_gap_of_a_billion(decay, inflation):
    strategy = GPStrategy(kernel=module(), noise=NOISE, decay=decay, inflation=inflation)
    state, arms = strategy.init(BOX), torch.tensor(POINTS)
    for t, y in enumerate((0.5, 1.5, -0.4)):
        at = strategy.suggestion_at(state, arms[t], now=float(t))
        state, _ = strategy.tell(state, at, torch.tensor(y, dtype=D))
    suggestion = strategy.ask(state, now=1e9)
    assert suggestion.mean.isfinite()
    assert suggestion.sd.isfinite()
    posterior = strategy.posterior(state, arms, now=1e9)
    forgets = isinstance(decay, Markov) or not isinstance(inflation, Static)
    variance = 1e6 + 1 if isinstance(decay, Wiener) else 1.0
    if forgets:
        assert posterior.mean.abs().max() < 1e-3
        torch.testing.assert_close(
            posterior.variance, torch.full_like(posterior.variance, variance), rtol=1e-5, atol=0
        )
    elif isinstance(decay, Static):
        assert posterior.mean.abs().max() > 0.1
    # And it learns again.
    state, _ = strategy.tell(state, suggestion, torch.tensor(1.0, dtype=D))
    again = strategy.posterior(state, suggestion.X.unsqueeze(0), now=1e9)
    assert float(again.mean) == pytest.approx(1.0, abs=0.2)


def test_all_failed_is_as_nothing_told():
    strategy = GPStrategy(kernel=module(), noise=NOISE, decay=Wiener(0.2), mean="estimated")
    state, arms = strategy.init(BOX, batch_shape=(2,)), torch.tensor(POINTS)
    for _ in range(3):
        suggestion = strategy.ask(state)
        assert torch.equal(suggestion.X, torch.tensor([[0.0, 2.5]] * 2, dtype=D))  # the middle
        failed = torch.tensor([False, False])
        state, info = strategy.tell(
            state, suggestion, torch.tensor([torch.nan, torch.inf], dtype=D), ok=failed
        )
        assert info.information_gain.abs().max() == 0
    posterior = strategy.posterior(state, arms)
    assert posterior.mean.abs().max() == 0
    torch.testing.assert_close(posterior.variance, torch.ones_like(posterior.variance))
    assert torch.equal(strategy.recommend(state), suggestion.X)
