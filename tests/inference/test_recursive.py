"""When a step would amplify rounding: a matter of shares, whatever unit the objective has."""

import pytest
import torch

from botorch_tv.inference.basis import ArmBasis
from botorch_tv.inference.costs import LEAST_NOISE
from botorch_tv.inference.recursive import amplifies

VARIANCES = (1e-4, 1.0, 2500.0)


@pytest.mark.parametrize("variance", VARIANCES)
def test_the_limit_is_a_share_of_the_largest_prior_variance(variance):
    covariance = variance * torch.diag(torch.tensor([0.3, 1.0, 0.5], dtype=torch.float64))
    basis = ArmBasis(covariance)
    assert amplifies(0.999 * LEAST_NOISE * variance, basis)
    assert not amplifies(1.001 * LEAST_NOISE * variance, basis)


def test_in_single_precision_no_noise_is_enough():
    basis = ArmBasis(torch.eye(3))
    assert amplifies(1e3, basis)
