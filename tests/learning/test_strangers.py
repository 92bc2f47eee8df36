"""Custom decays are learned like the decays of the package, or refused."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from conformance.strangers import DampedDrift, Seasonal
from gpytorch.kernels import RBFKernel
from gpytorch.priors import GammaPrior, HalfNormalPrior
from scipy.stats import gamma, halfnorm

from botorch_tv.forgetting import (
    Decay,
    ExponentialWeights,
    Markov,
    Parameter,
    PeriodicMarkov,
    Static,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.forgetting.claims import require_learnable
from botorch_tv.kernels.stationary import LearnableKernel
from botorch_tv.learning import Free, Refit, learn
from botorch_tv.learning.fit import NegativeLogPosterior
from botorch_tv.learning.layout import ParameterLayout
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, GPStrategy

D = torch.float64
NOISE = 0.05
FIXED = {"lengthscale": None, "outputscale": None, "noise": None}
DECAY = Seasonal(rate=0.05, period=10.0)


def observed(loops=3, rounds=40, decay=DECAY, unit=1.0, seed=0):
    """Draws of the prior at random points, every half or whole unit."""
    random = np.random.default_rng(seed)
    X = random.random((loops, rounds, 2))
    times = np.cumsum(random.choice([0.5, 1.0], (loops, rounds)), -1)
    squares = ((X[:, :, None] - X[:, None]) ** 2).sum(-1)
    apart = np.abs(times[:, :, None] - times[:, None])
    D = np.exp(-decay.rate * apart) * np.cos(6.2832 * apart / decay.period)
    K = np.exp(-squares / (2 * 0.5**2)) * D + NOISE * np.eye(rounds)
    y = np.einsum("bij,bj->bi", np.linalg.cholesky(K), random.standard_normal((loops, rounds)))
    return tuple(torch.from_numpy(item) for item in (X, unit * times, y))


def textbook(X, times, y, rate, period):
    apart = np.abs(times[:, None] - times)
    squares = ((X[:, None] - X) ** 2).sum(-1)
    A = np.exp(-squares / (2 * 0.5**2) - rate * apart) * np.cos(6.2832 * apart / period)
    A += NOISE * np.eye(len(y))
    log_det = np.linalg.slogdet(2 * math.pi * A)[1]
    return -0.5 * (log_det + y @ np.linalg.solve(A, y))


def objective(refit=None, decay=DECAY):
    X, times, y = observed()
    parts = LearnableKernel(unit_kernel("se", 0.5).double())
    ordered = ParameterLayout(refit or Refit(), parts, decay, NOISE, torch.ones(2, dtype=D))
    live, unit = torch.ones_like(y, dtype=torch.bool), torch.full((3,), 0.8, dtype=D)
    found = NegativeLogPosterior(
        parts, decay, ordered, X, times, y, live, torch.ones_like(y), unit=unit
    )
    loops = torch.arange(3)
    at = ordered.searched(ordered.given.expand(3, -1), unit)
    return (ordered, found, at, loops, (X, times, y))


def test_value_and_prior_by_the_textbook():
    _, found, at, loops, (X, times, y) = objective(Refit(**FIXED))
    wanted = [
        textbook(X[i].numpy(), times[i].numpy(), y[i].numpy(), 0.05, 10.0)
        + halfnorm(scale=0.25).logpdf(0.05 * 0.8)  # over the unit it is learned in
        for i in range(3)
    ]
    np.testing.assert_allclose(-found(at, loops)[0].numpy(), wanted, rtol=0, atol=1e-9)
    own = Refit(**FIXED, decay={"rate": Free(prior=GammaPrior(2.0, 30.0)), "period": None})
    _, found, at, loops, _ = objective(own)
    prior = gamma(2.0, scale=1 / 30).logpdf(0.05)  # per unit of the user's
    wanted = [item - halfnorm(scale=0.25).logpdf(0.05 * 0.8) + prior for item in wanted]
    np.testing.assert_allclose(-found(at, loops)[0].numpy(), wanted, rtol=0, atol=1e-9)


def test_gradient_is_that_of_finite_differences():
    ordered, found, at, loops, _ = objective()
    _, gradient = found(at, loops)
    for entry in range(ordered.size):
        away = torch.zeros(ordered.size, dtype=D)
        away[entry] = 1e-5
        change = (found(at + away, loops)[0] - found(at - away, loops)[0]) / 2e-5
        torch.testing.assert_close(gradient[:, entry], change, rtol=1e-5, atol=1e-6)


def test_it_is_found_in_any_unit():
    """From a wrong start, in hours and in milliseconds, near the truth."""
    refit = Refit(**FIXED, evaluations=200)
    found = {}
    for unit in (1.0, 3.6e6):
        X, times, y = observed(loops=6, rounds=120, unit=unit)
        start = Seasonal(rate=0.2 / unit, period=11.5 * unit)
        live = torch.ones_like(y, dtype=torch.bool)
        learned = learn(refit, unit_kernel("se", 0.5), start, NOISE, X, times, y, live).decay
        found[unit] = learned.value("rate") * unit, learned.value("period") / unit
    for item, other in zip(*found.values(), strict=True):
        torch.testing.assert_close(item, other, rtol=1e-2, atol=1e-6)
    rate, period = found[1.0]
    assert float(period.median()) == pytest.approx(10.0, rel=0.03)
    assert 0.02 < float(rate.median()) < 0.12


@dataclass(frozen=True)
class Stretched(Decay):
    """exp(-κ lag^α), whose κ has a unit that depends on α."""

    alpha: float = 0.5
    kappa: float = 0.3
    parameters = {  # noqa: RUF012
        "alpha": Parameter(upper=2.0),
        "kappa": Parameter(power=lambda others: -others["alpha"]),
    }

    def attenuation(self, elapsed):
        return torch.exp(-self.kappa * elapsed**self.alpha)


def test_declared_and_custom_bounds():
    ordered, *_ = objective(Refit(decay={"period": Free(lower=8.0, upper=12.0)}))
    gap = torch.full((1,), 0.5, dtype=D)
    lower, upper = ordered.bounds(gap)
    assert lower[0, -1].item() == pytest.approx(16.0)  # in gaps of half a unit
    assert upper[0, -1].item() == pytest.approx(24.0)
    ordered, *_ = objective()
    lower, upper = ordered.bounds(gap)
    assert (lower[0, -1].item(), upper[0, -1].item()) == (2.0, 100.0)
    prior = Free(prior=HalfNormalPrior(1.0))
    for decay, free, message in (
        (DECAY, {"period": Free(lower=11.0)}, "period starts from"),
        (DECAY, {"speed": Free()}, r"decay has \['speed'\], but .* declares \['rate', 'per"),
        (Stretched(), {"kappa": prior}, "the unit of kappa depends on other parameters"),
    ):
        with pytest.raises(ValueError, match=message):
            objective(Refit(decay=free), decay)


@dataclass(frozen=True)
class Capped(Decay):
    """A fraction of the variance stays for ever, at most half."""

    share: float = 0.25
    parameters = {"share": Parameter(upper=1.0)}  # noqa: RUF012

    def attenuation(self, elapsed):
        share = torch.as_tensor(self.share, dtype=elapsed.dtype).clamp_max(0.5)
        return torch.where(elapsed == 0, 1.0, share)


@pytest.mark.parametrize(
    "part",
    [
        *(Markov(0.1), Wiener(0.1), PeriodicMarkov(0.1, 7.0, 1.0), DECAY, Capped()),
        *(ExponentialWeights(0.9), UncertaintyInjection(0.5, 0.3)),
    ],
    ids=repr,
)
def test_correct_declarations_are_accepted(part):
    require_learnable(part)


@dataclass(frozen=True)
class Wrong(Decay):
    rate: float = 0.1
    parameters = {"rate": Parameter(power=-1)}  # noqa: RUF012


@dataclass(frozen=True)
class Elsewhere(Wrong):
    """Uses a value derived at construction."""

    def __post_init__(self):
        object.__setattr__(self, "half", 0.5 * self.rate)

    def attenuation(self, elapsed):
        return torch.exp(-self.half * elapsed)


class PartlyElsewhere(Elsewhere):
    def attenuation(self, elapsed):
        return torch.exp(-(self.half + self.rate) * elapsed)


class HiddenUnit(Wrong):
    """The 5 is a time that is not declared."""

    def attenuation(self, elapsed):
        return torch.exp(-self.rate * elapsed) * torch.cos(elapsed / 5)


class WrongPower(Wrong):
    parameters = {"rate": Parameter(power=1)}  # noqa: RUF012

    def attenuation(self, elapsed):
        return torch.exp(-self.rate * elapsed)


class WrongShape(Wrong):
    def attenuation(self, elapsed):
        return torch.exp(-torch.as_tensor(self.rate).flatten()[0] * elapsed)


REFUSED = {
    Elsewhere: r"declares \['rate'\], but its formula does not depend on it",
    PartlyElsewhere: "different results with tensors",
    HiddenUnit: "changes with the unit of time",
    WrongPower: "changes with the unit of time",
    WrongShape: "compute elementwise",
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_wrong_declarations_are_refused(kind):
    strategy = GPStrategy(kernel=RBFKernel().double(), noise=NOISE, decay=kind(), learning=Refit())
    with pytest.raises(ValueError, match=REFUSED[kind]):
        strategy.init(Box(torch.tensor([[0.0], [1.0]], dtype=D)))


def test_undeclared_parameters_are_refused_unless_fixed():
    parts, ranges = LearnableKernel(unit_kernel("se", 0.5).double()), torch.ones(2, dtype=D)
    with pytest.raises(ValueError, match=r"declares no parameters.*Refit\(decay=None\)"):
        ParameterLayout(Refit(), parts, DampedDrift(), NOISE, ranges)
    assert ParameterLayout(Refit(), parts, Static(), NOISE, ranges).size == 3
    X, times, y = observed()
    live = torch.ones_like(y, dtype=torch.bool)
    retained = learn(
        Refit(decay=None), unit_kernel("se", 0.5), DampedDrift(), NOISE, X, 100 * times, y, live
    )
    at = times[:, :4]
    wanted = DampedDrift().covariance(at.unsqueeze(-1), at.unsqueeze(-2))
    torch.testing.assert_close(
        retained.decay.covariance(at.unsqueeze(-1), at.unsqueeze(-2)), wanted
    )
