"""Improvements far out on the tail and without variance, and forced exploration."""

import math

import pytest
import torch
from conformance.strangers import EpsilonGreedy
from gpytorch.kernels import RBFKernel
from mpmath import mp

from botorch_tv.acquisition import (
    Candidates,
    ExpectedImprovement,
    Exploration,
    Forced,
    ProbabilityOfImprovement,
    Thompson,
    UpperConfidence,
)
from botorch_tv.acquisition.exploration import log_expected_excess
from botorch_tv.gp.point_kernel import point_kernel
from botorch_tv.gp.points import point_posterior
from botorch_tv.gp.regression import Observations
from botorch_tv.gp.tensors import Scratch
from botorch_tv.strategies import Box, GPStrategy, Grid, Strategy

D = torch.float64


class Compilable(Candidates):
    """Candidates with these means and deviations, of one trial, whose best mean is 0.5."""

    mean = sd = noise = incumbent = best_observation = sqrt_beta = has_data = None

    def __init__(self, mean, sd, scale, sign=1):
        self.mean, self.sd = torch.tensor(mean, dtype=D), torch.tensor(sd, dtype=D)
        self.sign, self.scale, self.scratch = sign, scale, Scratch()
        self.incumbent, self.sqrt_beta = torch.tensor([0.5], dtype=D), 0.0
        self.best_observation = torch.tensor([math.nan], dtype=D)

    def nothing(self, *_):
        raise NotImplementedError

    sample = uniform = argmax = at = anywhere = where = nothing


def excess(u):
    """φ(u) + u Φ(u) and its derivative Φ(u), in as many digits as there are."""
    u = mp.mpf(u)
    below = mp.erfc(-u / mp.sqrt(2)) / 2
    return mp.exp(-u * u / 2) / mp.sqrt(2 * mp.pi) + u * below, below


def exact_log(u):
    """ln(φ(u) + u Φ(u)) in sixty digits, of which cancellation takes a few."""
    with mp.workdps(60):
        return float(mp.log(excess(u)[0]))


@pytest.mark.parametrize("u", [3.0, 0.0, -1.0, -10.0, -100.0, -300.0, -600.0, -900.0])
def test_by_arithmetic_of_many_digits(u):
    """Both forms, and the series about where they meet: it leaves 15 / u⁴ of the value."""
    value = float(log_expected_excess(torch.tensor(u, dtype=D)))
    assert value == pytest.approx(exact_log(u), abs=1e-9, rel=1e-15 * 10)


@pytest.mark.parametrize("u", [2.0, 0.0, -1.0, -10.0, -600.0])
def test_its_slope_by_arithmetic_of_many_digits(u):
    """At 0 as well, where a search that begins at the incumbent finds itself."""
    at = torch.tensor(u, dtype=D, requires_grad=True)
    (slope,) = torch.autograd.grad(log_expected_excess(at), at)
    with mp.workdps(60):
        value, derivative = excess(u)
        wanted = float(derivative / value)
    assert float(slope) == pytest.approx(wanted, rel=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, D], ids=str)
def test_the_two_forms_meet(dtype):
    """On both sides of the limit from which on the series counts, to the power 2/3 of rounding."""
    eps = torch.finfo(dtype).eps
    limit = (15 / eps) ** (1 / 6)
    for share in (0.999, 1.001, 1.5):
        u = -float(torch.tensor(share * limit, dtype=dtype))
        excess = float(log_expected_excess(torch.tensor(u, dtype=dtype)).double()) + 0.5 * u * u
        rounding = 4 * eps * u * u  # of the square itself
        assert abs(excess - (exact_log(u) + 0.5 * u * u)) < 30 * eps ** (2 / 3) + rounding


def log_improvement(mean, sd):
    """ln E[max(f - 0.5, 0)] for f normal."""
    with mp.workdps(40):
        u = (mp.mpf(mean) - mp.mpf("0.5")) / mp.mpf(sd)
        return float(mp.log(mp.mpf(sd) * excess(u)[0]))


@pytest.mark.parametrize("scale", [1.0, 20.0])
def test_deviations_down_to_a_millionth_of_the_priors_are_taken_as_they_are(scale):
    sds = [2e-6 * scale, 1e-3 * scale, scale]
    means = [0.5 + 1.5 * sds[0], 0.5 - 2 * sds[1], 0.5 + sds[2]]
    known = Compilable(means, sds, scale)
    wanted = [log_improvement(*pair) for pair in zip(means, sds)]
    assert ExpectedImprovement().score(known).tolist() == pytest.approx(wanted, rel=1e-8)
    assert ProbabilityOfImprovement().score(known).tolist() == pytest.approx([1.5, -2, 1])


@pytest.mark.parametrize("scale", [1.0, 20.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_below_that_improvements_are_those_of_a_millionth(scale, sign):
    floor, known = 1e-6 * scale, [0.0, 1e-9 * scale, 1e-6 * scale]
    mean = 0.5 + sign * 3 * floor
    candidates = Compilable([mean] * 3, known, scale, sign)
    assert ProbabilityOfImprovement().score(candidates).tolist() == pytest.approx([3.0] * 3)
    wanted = log_improvement(0.5 + 3 * floor, floor)
    assert ExpectedImprovement().score(candidates).tolist() == pytest.approx([wanted] * 3)


def test_a_point_known_to_the_last_digit_has_a_deviation_with_a_derivative():
    """Noise 1e-20: what the data take from the prior rounds to the prior, or to more."""
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


DOMAINS = [Grid.regular(points=5, dim=2), Box([(0.0, 1.0), (0.0, 1.0)])]
MIDDLE = torch.tensor([0.5, 0.5], dtype=torch.float64)
each_domain = pytest.mark.parametrize("domain", DOMAINS, ids=["grid", "box"])


def strategy(exploration: Exploration) -> Strategy:
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.3, dtype=torch.float64)
    return GPStrategy(kernel=kernel, noise=0.05, exploration=exploration)


def played(exploration: Exploration, domain, trials: int = 6, rounds: int = 6) -> torch.Tensor:
    one = strategy(exploration)
    state, points = one.init(domain, batch_shape=(trials,)), []
    for t in range(rounds):
        suggestion = one.ask(state, generator=torch.Generator().manual_seed(t))
        points.append(suggestion.X)
        state, _ = one.tell(state, suggestion, torch.cos(4 * suggestion.X.sum(-1) + t))
    return torch.stack(points)


@each_domain
def test_no_chance_is_the_other_exploration(domain):
    told = played(Forced(0.0), domain)
    torch.testing.assert_close(told, played(UpperConfidence(), domain), rtol=0, atol=1e-9)


def test_as_many_rounds_are_forced_as_told():
    domain = DOMAINS[0]
    first = played(Forced(0.3), domain, trials=4000, rounds=1)[0]
    elsewhere = (first != domain.X[0]).any(-1).double().mean()
    assert float(elsewhere) == pytest.approx(0.3 * 24 / 25, abs=0.03)


@each_domain
def test_the_other_remembers_as_it_does_alone(domain):
    alone, forced = strategy(EpsilonGreedy()), strategy(Forced(0.0, EpsilonGreedy()))
    states = [one.init(domain) for one in (alone, forced)]
    for t in range(3):
        for number, one in enumerate((alone, forced)):
            suggestion = one.suggestion_at(states[number], MIDDLE)
            states[number], _ = one.tell(states[number], suggestion, 0.1 * t)
    fades = [state.memory[-1] for state in states]
    assert float(fades[0]) == pytest.approx(0.9**3)
    assert torch.equal(*fades)


@pytest.mark.parametrize("chance", [-0.1, 1.1, float("nan")])
def test_chances_are_chances(chance):
    with pytest.raises(ValueError, match=r"Forced: chance"):
        Forced(chance)


def test_functions_are_drawn_where_the_other_needs_them():
    assert Forced(0.1, Thompson()).samples
    assert not Forced(0.1).samples
