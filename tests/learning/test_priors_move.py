"""Priors move to the device of the data."""

import pytest
import torch
from gpytorch.priors import GammaPrior, SmoothedBoxPrior, UniformPrior
from torch.distributions import Gumbel, LogNormal

from botorch_tv.forgetting.decay import RatePrior
from botorch_tv.learning.layout import log_density, on_device

META = torch.device("meta")


@pytest.mark.parametrize(
    "prior",
    [
        SmoothedBoxPrior(0.1, 0.9),
        UniformPrior(0.0, 1.0),
        GammaPrior(2.0, 3.0),
        RatePrior(),
        LogNormal(torch.tensor([0.3, -1.0]), 1.2),
        Gumbel(1.0, 2.0),
    ],
    ids=repr,
)
def test_every_tensor_of_a_prior_moves_and_the_prior_stays(prior):
    value = torch.tensor([[0.2, 0.4]], dtype=torch.float64)
    prior = prior.double() if isinstance(prior, torch.nn.Module) else prior
    before = log_density(prior, value)
    after = log_density(on_device(prior, torch.device("cpu")), value)
    torch.testing.assert_close(after, before, rtol=0, atol=0)
    moved = on_device(prior, META)
    assert _devices(moved) == {META}
    torch.testing.assert_close(log_density(prior, value), before, rtol=0, atol=0)


def _devices(part):
    if isinstance(part, torch.nn.Module) and list(part.buffers()):
        return {tensor.device for tensor in part.buffers()}
    base = getattr(part, "base_dist", part)
    return {value.device for value in vars(base).values() if isinstance(value, torch.Tensor)}


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
