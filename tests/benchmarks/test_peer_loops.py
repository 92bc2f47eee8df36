"""Loops written here for methods of others: each maximises, and follows the rule of dbo-torch."""

import numpy as np
import pytest
import torch

from benchmarks.peers.loops.botorch_loops import FittedDecay, Static, TimeAsInput


@pytest.fixture(autouse=True)
def prepared():
    before = torch.get_default_dtype()
    Static.prepare()
    yield
    torch.set_default_dtype(before)


def observed(kind, peak):
    """A loop with 24 measurements of a bump at `peak(t)` along the unit interval."""
    loop, generator = kind(1, 0), np.random.default_rng(1)
    places = np.tile(np.linspace(0, 1, 8), 3)[::-1] + generator.uniform(-0.06, 0.06, 24)
    for now, place in enumerate(places.clip(0, 1), start=1):
        value = 10 * np.exp(-((place - peak(now)) ** 2) / 0.04)
        loop.tell(np.array([place]), float(now), value + generator.normal(0, 0.2))
    return loop


@pytest.mark.parametrize("kind", [Static, TimeAsInput, FittedDecay])
def test_loops_maximise_and_prefer_new_data(kind):
    assert observed(kind, lambda now: 0.7).ask(25.0) == pytest.approx(0.7, abs=0.12)
    if kind is not Static:  # until round 12 the bump is elsewhere
        loop = observed(kind, lambda now: 0.15 if now <= 12 else 0.8)
        assert loop.ask(25.0) == pytest.approx(0.8, abs=0.15)


def test_likelihood_and_incumbent_of_the_fitted_decay():
    loop = observed(FittedDecay, lambda now: 0.7)
    model = loop._from(1.0)
    X, Y = model.train_inputs[0], model.train_targets
    with torch.no_grad():
        covariance = model.covar_module(X).to_dense() + model.likelihood.noise * torch.eye(24)
        normal = torch.distributions.MultivariateNormal(model.mean_module(X), covariance)
        exact = float(normal.log_prob(Y)) / 24
        assert loop._likelihood(model) == pytest.approx(exact, rel=1e-8)
        lattice = torch.stack([torch.linspace(0, 1, 501), torch.full((501,), 25.0)], -1)
        highest = float(model.posterior(lattice).mean.max())
    assert loop._best(model, 25.0) == pytest.approx(highest, abs=1e-3)
