"""Where a posterior knows a value exactly: variances have a floor, and stay exact above it."""

import mpmath
import pytest
import torch
from acquisition.known import Compilable
from gpytorch.kernels import RBFKernel

from botorch_tv.acquisition import ExpectedImprovement, ProbabilityOfImprovement
from botorch_tv.gp.point_kernel import point_kernel
from botorch_tv.gp.points import point_posterior
from botorch_tv.gp.regression import Observations

D = torch.float64


def log_improvement(mean, sd):
    """ln E[max(f - 0.5, 0)] for f normal, to 40 digits."""
    with mpmath.workdps(40):
        u = (mpmath.mpf(mean) - mpmath.mpf("0.5")) / mpmath.mpf(sd)
        return float(mpmath.log(mpmath.mpf(sd) * (mpmath.npdf(u) + u * mpmath.ncdf(u))))


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_deviations_down_to_a_millionth_of_the_priors_are_taken_as_they_are(scale):
    sds = [2e-6 * scale, 1e-3 * scale, scale]
    means = [0.5 + 1.5 * sds[0], 0.5 - 2 * sds[1], 0.5 + sds[2]]
    known = Compilable(means, sds, scale, incumbent=0.5)
    wanted = [log_improvement(*pair) for pair in zip(means, sds)]
    assert ExpectedImprovement().score(known).tolist() == pytest.approx(wanted, rel=1e-8)
    assert ProbabilityOfImprovement().score(known).tolist() == pytest.approx([1.5, -2, 1])


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_below_that_improvements_are_those_of_a_millionth(scale, sign):
    floor, known = 1e-6 * scale, [0.0, 1e-9 * scale, 1e-6 * scale]
    mean = 0.5 + sign * 3 * floor
    candidates = Compilable([mean] * 3, known, scale, sign, incumbent=0.5)
    assert ProbabilityOfImprovement().score(candidates).tolist() == pytest.approx([3.0] * 3)
    wanted = log_improvement(0.5 + 3 * floor, floor)
    assert ExpectedImprovement().score(candidates).tolist() == pytest.approx([wanted] * 3)


def test_a_point_known_to_the_last_digit_has_a_deviation_with_a_derivative():
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
