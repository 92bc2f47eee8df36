"""All engines against the dense posterior covariance; when a step would amplify rounding."""

import pytest
import torch
from torch import Size
from torch.testing import assert_close

from botorch_tv.gp.arm_engine import PlayedArms, RunningPosterior, SlidingArms
from botorch_tv.gp.arms import LEAST_NOISE, amplifies
from botorch_tv.gp.basis import ArmBasis
from botorch_tv.gp.covariance import factor
from botorch_tv.gp.feature_filter import Filter, RootFilter
from botorch_tv.strategies import Grid

D = torch.float64
GRID = Grid.regular(7, 2)
K = torch.exp(-0.5 * torch.cdist(GRID.X, GRID.X).square() / 0.09)
NOISE = 0.05
FEATURES = factor(K, GRID.shape, "features")


@pytest.mark.parametrize("form", [Filter, SlidingArms, RootFilter])
def test_covariance_and_samples(form: type[RunningPosterior]) -> None:
    """The map from normal variates to a sample is linear: its square is the covariance.

    An observation is removed before the last, as if it had never been made.
    """
    played, size = torch.tensor([5, 17, 17, 30, 44]), FEATURES.normals
    posterior = form(FEATURES, Size([size]), FEATURES.variance, trend=False)
    ones = torch.ones(size, dtype=D)
    for arm, remove in zip([5, 17, 38, 17, 30, 38, 44], [0, 0, 0, 0, 0, 1, 0]):
        index = torch.tensor(arm).expand(size)
        posterior.observe(FEATURES, index, ones, NOISE * ones, remove=bool(remove))
        if isinstance(posterior, PlayedArms):
            posterior.reserve(FEATURES.size)
    noisy = K[played][:, played] + NOISE * torch.eye(len(played), dtype=D)
    dense = K - K[:, played] @ torch.linalg.solve(noisy, K[played])
    every = torch.arange(len(GRID)).expand(size, -1)
    found = K - FEATURES.expand(posterior.at(FEATURES, every))
    assert_close(found, dense.expand_as(found), rtol=0, atol=1e-9)
    gain = 0.5 * torch.logdet(noisy / NOISE)
    assert_close(posterior.information_gain, gain.expand(size), rtol=0, atol=1e-9)
    assert_close(posterior.variance[0], dense.diagonal(), rtol=0, atol=1e-9)
    mean = K[:, played] @ torch.linalg.solve(noisy, torch.ones(len(played), dtype=D))
    assert_close(posterior.mean[0], mean, rtol=0, atol=1e-9)
    samples = FEATURES.expand(posterior.draw(FEATURES, None, None, torch.eye(size, dtype=D)))
    assert_close(samples.T @ samples, dense, rtol=0, atol=1e-9)


VARIANCES = (1e-4, 1.0, 2500.0)


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_limit_is_a_share_of_the_largest_prior_variance(variance):
    covariance = variance * torch.diag(torch.tensor([0.3, 1.0, 0.5], dtype=torch.float64))
    basis = ArmBasis(covariance)
    assert amplifies(0.999 * LEAST_NOISE * variance, basis)
    assert not amplifies(1.001 * LEAST_NOISE * variance, basis)
    assert amplifies(1e3 * variance, ArmBasis(covariance.float()))
