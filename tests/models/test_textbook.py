"""Posteriors against dense numpy, for every forgetting, several outputs and several presents."""

import numpy as np
import pytest
import torch
from conformance.strangers import HalfLife, Seasonal, Settling
from gpytorch.kernels import RBFKernel
from models.cases import data, plain
from oracles.dense import joint_regression, squared_exponential

from botorch_tv.forgetting import ExponentialWeights, Markov, Static, UncertaintyInjection, Wiener
from botorch_tv.models import TimeVaryingGP

NOISE = 0.04
DECAYS = [
    (Static(), ("static",)),
    (Markov(0.08), ("markov", 0.08)),
    (Markov(1.0), ("markov", 1.0)),
    (Wiener(0.1), ("wiener", 0.1)),
    (Seasonal(0.05, 6.2832 / 0.6), ("quasi-periodic", 0.05, 0.6)),
    (Settling(0.2), ("damped", 0.2, 3.0)),
]
INFLATIONS = [
    (Static(), ("constant",)),
    (ExponentialWeights(0.9), ("exponential", 0.9)),
    (UncertaintyInjection(0.7, kappa=0.5), ("injection", 0.7, 0.5)),
    (HalfLife(7.0), ("exponential", 0.5 ** (1 / 7))),
]


def double(value):
    """GPyTorch's setters take plain numbers through float32."""
    return torch.tensor(value, dtype=torch.float64)


def spatial():
    kernel = RBFKernel().double()
    kernel.lengthscale = double(0.4)
    return kernel


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("inflation", INFLATIONS, ids=lambda part: repr(part[0]))
@pytest.mark.parametrize("decay", DECAYS, ids=lambda part: repr(part[0]))
def test_equals_the_textbook(decay, inflation, fixed):
    """Two trials at different presents, two outputs, a prior mean and uneven times."""
    X, Y = data(n=10, m=2, batch=(2,))
    Yvar = 0.02 + 0.1 * Y.abs()
    now = X[..., -1].amax(-1) + torch.tensor([0.0, 3.5], dtype=torch.float64)
    model = plain(
        X,
        Y,
        Yvar if fixed else None,
        forgetting=(decay[0], inflation[0]),
        now=now,
        spatial_module=spatial(),
    )
    model.mean_module.constant = double(0.3)
    if not fixed:
        model.likelihood.noise = double(NOISE)
    generator = torch.Generator().manual_seed(3)
    test_X = torch.rand(2, 6, 3, dtype=torch.float64, generator=generator)
    test_X[..., -1] = (now + 0.75).unsqueeze(-1)
    posterior = model.posterior(test_X)
    covariance = posterior.distribution.covariance_matrix.detach()
    for trial in range(2):
        arms = torch.cat([X[trial], test_X[trial]])[:, :2]
        K = squared_exponential(arms.numpy(), 0.4)
        for output in range(2):
            mean, expected = joint_regression(
                K,
                range(10),
                X[trial, :, -1].tolist(),
                Y[trial, :, output].tolist(),
                test_X[trial, 0, -1].item(),
                noise=Yvar[trial, :, output].numpy() if fixed else NOISE,
                decay=decay[1],
                inflation=inflation[1],
                reference=now[trial].item(),
                origin=X[trial, 0, -1].item(),
                mean=0.3,
            )
            found = posterior.mean[trial, :, output].detach().numpy()
            np.testing.assert_allclose(found, mean[10:], rtol=0, atol=1e-10)
            rows = slice(6 * output, 6 * output + 6)  # outputs are consecutive
            block = covariance[trial, rows, rows].numpy()
            np.testing.assert_allclose(block, expected[10:, 10:], rtol=0, atol=1e-10)


def test_without_forgetting_it_is_botorchs_own():
    """The same kernel, mean and noise in a ``SingleTaskGP`` on the other columns."""
    from botorch.models import SingleTaskGP

    X, Y = data(n=20)
    ours = TimeVaryingGP(X, Y, forgetting=Static())
    theirs = SingleTaskGP(X[:, :2], Y)
    test_X = torch.rand(3, 7, 3, dtype=torch.float64)
    for noise in (False, True):
        a = ours.posterior(test_X, observation_noise=noise)
        b = theirs.posterior(test_X[..., :2], observation_noise=noise)
        assert torch.allclose(a.mean, b.mean, rtol=0, atol=1e-9)
        assert torch.allclose(a.variance, b.variance, rtol=0, atol=1e-9)


def test_many_points_at_once_equal_single_points():
    """Beyond 512 the covariance is lazy; as a batch of single points it is a solve of columns."""
    X, Y = data(n=15)
    model = TimeVaryingGP(X, Y)
    test_X = torch.rand(600, 3, dtype=torch.float64) * torch.tensor([1.0, 1.0, 20.0])
    together, apart = model.posterior(test_X), model.posterior(test_X.unsqueeze(1))
    assert torch.allclose(together.mean, apart.mean.squeeze(1), rtol=0, atol=1e-12)
    assert torch.allclose(together.variance, apart.variance.squeeze(1), rtol=0, atol=1e-12)
    pairs = model.posterior(test_X.view(300, 2, 3))
    assert torch.allclose(together.mean, pairs.mean.view(600, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("forgetting", [Markov(0.1), Wiener(0.1), ExponentialWeights(0.5)])
def test_no_data_and_one_observation(n, forgetting):
    X, Y = data(n=max(n, 2))
    model = plain(X[:n], Y[:n], forgetting=forgetting)
    test_X = X[:2].clone()
    posterior = model.posterior(test_X, observation_noise=True)
    assert posterior.mean.isfinite().all()
    assert (posterior.variance > 0).all()
    grown = model.condition_on_observations(X[n : n + 1], Y[n : n + 1])
    assert grown.train_targets.shape == (n + 1,)
    assert grown.posterior(test_X).variance.isfinite().all()
    if n == 0:
        noise = model.likelihood.noise.item()
        assert posterior.mean.abs().max().item() == 0
        if not isinstance(forgetting, Wiener):
            assert torch.allclose(posterior.variance, torch.tensor(1.0 + noise).double())
