"""Recursive weighted regression in features, against the dense formula."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose

from botorch_tv.kernels.features import quadrature_fourier_features
from botorch_tv.strategies.weighted_features import WeightedFeatures


@pytest.mark.parametrize("gamma", [1.0, 0.9])
@pytest.mark.parametrize("dim", [1, 2])
def test_recursion_is_the_dense_weighted_regression(dim, gamma):
    random, noise, rounds, trials = np.random.default_rng(3), 0.1, 40, 2
    X = torch.from_numpy(random.random((25, dim)))
    phi = quadrature_fourier_features(X, points=8, lengthscale=0.5)
    K = (phi @ phi.mT).numpy()
    played = random.integers(25, size=(trials, rounds))
    y = random.standard_normal((trials, rounds))
    model = WeightedFeatures(phi.shape[-1], gamma=gamma, noise=noise, batch_shape=(trials,))
    prior_mean, prior_variance = model.posterior(phi)
    assert_allclose(prior_mean, 0.0)
    assert_allclose(prior_variance, np.broadcast_to(K.diagonal(), (trials, 25)), rtol=1e-12)
    assert_allclose(model.double_gain(), 0.0)
    for t in range(rounds):
        model.observe(phi[played[:, t]], torch.from_numpy(y[:, t]))
        mean, variance = model.posterior(phi)
        gain, age = model.double_gain(), np.arange(t, -1, -1)
        for trial, seen in enumerate(played[:, : t + 1]):
            own = K[np.ix_(seen, seen)]
            aged = own + np.diag(noise * gamma ** -age.astype(float))
            weights = np.linalg.solve(aged, K[seen]).T
            assert_allclose(mean[trial], weights @ y[trial, : t + 1], atol=1e-8)
            reduced = K.diagonal() - (weights * K[:, seen]).sum(-1)
            assert_allclose(variance[trial], reduced, atol=1e-8)
            root = gamma**age  # of the weights of the double gain
            weighted = np.eye(t + 1) + root[:, None] * own * root / noise
            assert_allclose(gain[trial], 0.5 * np.linalg.slogdet(weighted)[1], atol=1e-8)


@pytest.mark.parametrize("wrong", [{"size": 0}, {"gamma": 0.0}, {"gamma": 1.1}, {"noise": 0.0}])
def test_bad_arguments(wrong):
    with pytest.raises(ValueError, match=f"WeightedFeatures: {next(iter(wrong))}"):
        WeightedFeatures(**({"size": 3, "gamma": 0.9, "noise": 0.1} | wrong))
