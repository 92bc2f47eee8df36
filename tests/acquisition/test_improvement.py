"""Improvements at the tails and without variance."""

import math

import pytest
import torch
from acquisition.given import Given
from gpytorch.kernels import RBFKernel
from mpmath import mp

from botorch_tv.acquisition.exploration import (
    ExpectedImprovement,
    ProbabilityOfImprovement,
    log_expected_excess,
)
from botorch_tv.gp.point_kernel import point_kernel
from botorch_tv.gp.points import point_posterior
from botorch_tv.gp.regression import Observations

D = torch.float64


def excess(u):
    u = mp.mpf(u)
    below = mp.erfc(-u / mp.sqrt(2)) / 2
    return mp.exp(-u * u / 2) / mp.sqrt(2 * mp.pi) + u * below, below


def exact(u):
    with mp.workdps(60):
        return float(mp.log(excess(u)[0]))


@pytest.mark.parametrize("u", [3.0, 0.0, -1.0, -10.0, -100.0, -300.0, -600.0, -900.0])
def test_value_and_slope_by_arithmetic_of_many_digits(u):
    at = torch.tensor(u, dtype=D, requires_grad=True)
    value = log_expected_excess(at)
    assert float(value.detach()) == pytest.approx(exact(u), abs=1e-9, rel=1e-15 * 10)
    (slope,) = torch.autograd.grad(value, at)
    with mp.workdps(60):
        whole, derivative = excess(u)
        wanted = float(derivative / whole)
    assert float(slope) == pytest.approx(wanted, rel=1e-9)


def log_improvement(mean, sd):
    """ln E[max(f - 0.5, 0)] for f normal."""
    return math.log(sd) + exact((mean - 0.5) / sd)


@pytest.mark.parametrize("dtype", [torch.float32, D], ids=str)
def test_the_two_forms_meet(dtype):
    eps = torch.finfo(dtype).eps
    limit = (15 / eps) ** (1 / 6)
    for share in (0.999, 1.001, 1.5):
        u = -float(torch.tensor(share * limit, dtype=dtype))
        excess = float(log_expected_excess(torch.tensor(u, dtype=dtype)).double()) + 0.5 * u * u
        rounding = 4 * eps * u * u  # of the square itself
        assert abs(excess - (exact(u) + 0.5 * u * u)) < 30 * eps ** (2 / 3) + rounding


D = torch.float64


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_deviations_down_to_a_millionth_of_the_priors_are_taken_as_they_are(scale):
    sds = [2e-6 * scale, 1e-3 * scale, scale]
    means = [0.5 + 1.5 * sds[0], 0.5 - 2 * sds[1], 0.5 + sds[2]]
    candidates = Given(means, sds, scale, incumbent=0.5)
    wanted = [log_improvement(*pair) for pair in zip(means, sds)]
    assert ExpectedImprovement().score(candidates).tolist() == pytest.approx(wanted, rel=1e-8)
    assert ProbabilityOfImprovement().score(candidates).tolist() == pytest.approx([1.5, -2, 1])


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_below_that_improvements_are_those_of_a_millionth(scale, sign):
    floor, sds = 1e-6 * scale, [0.0, 1e-9 * scale, 1e-6 * scale]
    mean = 0.5 + sign * 3 * floor
    candidates = Given([mean] * 3, sds, scale, sign, incumbent=0.5)
    assert ProbabilityOfImprovement().score(candidates).tolist() == pytest.approx([3.0] * 3)
    wanted = log_improvement(0.5 + 3 * floor, floor)
    assert ExpectedImprovement().score(candidates).tolist() == pytest.approx([wanted] * 3)


def test_an_exactly_measured_point_has_a_deviation_with_a_derivative():
    kernel = RBFKernel().double().requires_grad_(False)
    X = torch.linspace(0, 1, 5, dtype=D).view(1, 5, 1)
    root = torch.full((1, 5), 1e10, dtype=D)
    posterior = point_posterior(
        point_kernel(kernel), Observations(X, X.squeeze(-1).sin(), root), None
    )
    at = X.clone().requires_grad_(True)
    _, sd = posterior.at(at)
    (slope,) = torch.autograd.grad(sd.sum(), at)
    sd = sd.detach()
    assert float(sd.min()) >= 1e-9 * (1 - 1e-12)  # 1e-18 of the variance, which is 1
    assert float(sd.max()) < 1e-5
    assert bool(slope.isfinite().all())
