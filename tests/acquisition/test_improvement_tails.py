"""Far out on the tail and without any spread left, improvements still tell points apart."""

import pytest
import torch
from acquisition.known import Compilable
from mpmath import mp

from botorch_tv.acquisition.exploration import (
    ExpectedImprovement,
    ProbabilityOfImprovement,
    log_expected_excess,
)

D = torch.float64


def excess(u):
    u = mp.mpf(u)
    below = mp.erfc(-u / mp.sqrt(2)) / 2
    return mp.exp(-u * u / 2) / mp.sqrt(2 * mp.pi) + u * below, below


def exact(u):
    with mp.workdps(60):
        return float(mp.log(excess(u)[0]))


@pytest.mark.parametrize("u", [3.0, 0.0, -1.0, -10.0, -100.0, -300.0, -600.0, -900.0])
def test_by_arithmetic_of_many_digits(u):
    value = float(log_expected_excess(torch.tensor(u, dtype=D)))
    assert value == pytest.approx(exact(u), abs=1e-9, rel=1e-15 * 10)


@pytest.mark.parametrize("u", [2.0, 0.0, -1.0, -10.0, -600.0])
def test_its_slope_by_arithmetic_of_many_digits(u):
    at = torch.tensor(u, dtype=D, requires_grad=True)
    (slope,) = torch.autograd.grad(log_expected_excess(at), at)
    with mp.workdps(60):
        value, derivative = excess(u)
        wanted = float(derivative / value)
    assert float(slope) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, D], ids=str)
def test_the_two_forms_meet(dtype):
    eps = torch.finfo(dtype).eps
    limit = (15 / eps) ** (1 / 6)
    for share in (0.999, 1.001, 1.5):
        u = -float(torch.tensor(share * limit, dtype=dtype))
        excess = float(log_expected_excess(torch.tensor(u, dtype=dtype)).double()) + 0.5 * u * u
        rounding = 4 * eps * u * u  # of the square itself
        assert abs(excess - (exact(u) + 0.5 * u * u)) < 30 * eps ** (2 / 3) + rounding


def test_points_without_variance_are_compared_at_the_floor():
    candidates = Compilable([0.0, 0.5, 0.9, 1.0, 1.1], [0.0] * 5)
    floor = 1e-6 * candidates.scale
    u = (candidates.mean - 1.0) / floor
    torch.testing.assert_close(ProbabilityOfImprovement().score(candidates), u, rtol=1e-12, atol=0)
    score = ExpectedImprovement().score(candidates)
    assert score.isfinite().all()
    assert bool((score.diff() > 0).all())
    # E[max(f - m, 0)] = mean - m where that is many deviations, and sd φ(0) at the incumbent.
    assert float(score[4].exp()) == pytest.approx(0.1, rel=1e-9)
    assert float(score[3].exp()) == pytest.approx(floor * 0.3989422804014327, rel=1e-9)
    below = Compilable([0.0, 0.5, 0.9, 1.0, 1.1], [0.5 * floor] * 5)
    assert torch.equal(ExpectedImprovement().score(below), score)
    above = Compilable([0.0, 0.5, 0.9, 1.0, 1.1], [2 * floor] * 5)
    assert float(ExpectedImprovement().score(above)[3].exp()) == pytest.approx(
        2 * floor * 0.3989422804014327, rel=1e-9
    )
