"""The priors that Refit documents, by SciPy's densities."""

import math

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior, SmoothedBoxPrior
from scipy.stats import gamma, halfnorm, lognorm
from torch.distributions import LogNormal

from botorch_tv.forgetting import Markov, Wiener
from botorch_tv.forgetting.decay import RatePrior
from botorch_tv.kernels.stationary import LearnableKernel
from botorch_tv.learning import Free, Refit
from botorch_tv.learning.layout import KNEE, ParameterLayout, log_density, on_device

RANGES = (1.0, 4.0, 0.5)
LENGTHS, SCALE, NOISE, RATE = (0.2, 1.7, 0.6), 2.5, 0.01, 0.07
UNIT = 0.25


def kernel_of(ard):
    kernel = ScaleKernel(RBFKernel(ard_num_dims=3 if ard else None)).double()
    kernel.outputscale = torch.tensor(1.6, dtype=torch.float64)
    return kernel


def logarithmic(median, deviation):
    return lognorm(deviation, scale=median)


def density(refit, decay, ard=True):
    """That of the hyperparameters above, and the layout."""
    ranges = torch.tensor(RANGES, dtype=torch.float64)
    ordered = ParameterLayout(refit, LearnableKernel(kernel_of(ard)), decay, 0.05, ranges)
    rate = -math.log1p(-RATE) if isinstance(decay, Markov) else RATE
    lengths = LENGTHS if ard else LENGTHS[:1]
    entries = [*np.log(lengths), math.log(SCALE), math.log(NOISE), math.log1p(rate / KNEE)]
    vector = torch.tensor([entries], dtype=torch.float64)
    return ordered.log_prior(vector, torch.tensor([UNIT], dtype=torch.float64))[0].item()


@pytest.mark.parametrize("ard", [True, False])
@pytest.mark.parametrize("decay", [Markov(0.1), Wiener(0.1)], ids=repr)
def test_all_priors(decay, ard):
    """Lengthscales in the ranges of the domain, scales in the kernel's, rates over the gap."""
    ranges = RANGES if ard else [math.prod(RANGES) ** (1 / 3)]
    wanted = sum(
        logarithmic(0.2 * math.sqrt(3) * side, 0.75).logpdf(item)
        for side, item in zip(ranges, LENGTHS)
    )
    wanted += logarithmic(1.6, 1.0).logpdf(SCALE)
    wanted += logarithmic(1.6 * math.exp(-4), 1.0).logpdf(NOISE)
    wanted += halfnorm(scale=0.25).logpdf(RATE)
    assert density(Refit(), decay, ard) == pytest.approx(wanted, abs=1e-10)


def test_fixed_or_free_hyperparameters_have_no_prior():
    item = {name: None for name in ("lengthscale", "outputscale", "noise", "epsilon", "sigma_w2")}
    for name, prior in (
        ("outputscale", logarithmic(1.6, 1.0).logpdf(SCALE)),
        ("noise", logarithmic(1.6 * math.exp(-4), 1.0).logpdf(NOISE)),
        ("epsilon", halfnorm(scale=0.25).logpdf(RATE)),
    ):
        alone = Refit(**{**item, name: Free()})
        assert density(alone, Markov(0.1)) == pytest.approx(prior, abs=1e-10)
        assert density(Refit(**{**item, name: Free(prior=None)}), Markov(0.1)) == 0.0


def test_a_custom_rate_prior_is_per_unit_of_the_user():
    """Over the gap of 0.25 the vector says 0.07; over the user's unit four times as much."""
    own = Refit(
        lengthscale=None, outputscale=None, noise=None, sigma_w2=Free(prior=GammaPrior(2.0, 3.0))
    )
    wanted = gamma(2.0, scale=1 / 3).logpdf(RATE / UNIT)
    assert density(own, Wiener(0.1)) == pytest.approx(wanted, abs=1e-10)


def test_bounds_of_the_noise():
    """From 1e-4 to 100 times the kernel's variance, extended to the given value."""
    for given, low, high in ((0.05, 1.6e-4, 160.0), (1e-6, 1e-6, 160.0), (500.0, 1.6e-4, 500.0)):
        ranges = torch.tensor(RANGES, dtype=torch.float64)
        ordered = ParameterLayout(
            Refit(), LearnableKernel(kernel_of(True)), Markov(0.1), given, ranges
        )
        lower, upper = ordered.bounds(torch.ones(1, dtype=torch.float64))
        assert lower[0, 4].exp().item() == pytest.approx(low, rel=1e-12)
        assert upper[0, 4].exp().item() == pytest.approx(high, rel=1e-12)


@pytest.mark.parametrize(
    "prior",
    [SmoothedBoxPrior(0.1, 0.9), RatePrior(), LogNormal(torch.tensor([0.3, -1.0]), 1.2)],
    ids=repr,
)
def test_every_tensor_of_a_prior_moves_and_the_prior_stays(prior):
    value = torch.tensor([[0.2, 0.4]], dtype=torch.float64)
    prior = prior.double() if isinstance(prior, torch.nn.Module) else prior
    before = log_density(prior, value)
    meta = torch.device("meta")
    assert {part.device for part in log_density(on_device(prior, meta), value.to(meta))} == {meta}
    torch.testing.assert_close(log_density(prior, value), before, rtol=0, atol=0)


def test_a_rate_prior_is_a_density():
    grid = torch.linspace(0.0, 60.0, 4_000_001, dtype=torch.float64)
    for prior, top in ((RatePrior(), 60.0), (RatePrior(upper=1.0), 1.0)):
        at = grid[grid <= top]
        mass = torch.trapezoid(prior.log_prob(at).exp(), at).item()
        assert mass == pytest.approx(1.0, abs=2e-3)
        torch.manual_seed(0)
        drawn = prior.sample(torch.Size([20_000]))
        assert 0 <= drawn.min().item() <= drawn.max().item() < max(top, float(drawn.max()) + 1)
        below = torch.trapezoid(prior.log_prob(at[at <= 0.05]).exp(), at[at <= 0.05]).item()
        assert (drawn <= 0.05).double().mean().item() == pytest.approx(below, abs=0.015)
    assert RatePrior().log_prob(torch.zeros(())).isfinite()


def test_no_rate_is_drawn_at_the_end_of_the_support(monkeypatch):
    """Not even at a probability of 1 - 2^-53."""
    monkeypatch.setattr(torch, "rand", lambda shape, **like: torch.full(shape, 1 - 2**-53, **like))
    for mode in torch.logspace(-3, 0, 50).tolist():
        for prior in (RatePrior(mode, upper=1.0).double(), RatePrior(mode, upper=1.0).float()):
            assert float(prior.rsample()) < 1
