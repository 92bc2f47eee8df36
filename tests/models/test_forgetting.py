"""Forgetting of models: by name, learned in any unit of time, custom, or refused with a hint."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from conformance.user_parts import DampedDrift, Seasonal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from models.cases import FORGETTINGS, assert_same, build, data, fit, plain, present

from botorch_tv.forgetting import (
    Decay,
    ExponentialWeights,
    Inflation,
    Markov,
    Parameter,
    Static,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel
from botorch_tv.models import TimeVaryingGP

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")


@pytest.mark.parametrize("forgetting", FORGETTINGS)
@pytest.mark.parametrize("learn", [True, False])
def test_it_can_be_passed_to_another_model(forgetting, learn):
    model = build(forgetting, learn_forgetting=learn)
    given = FORGETTINGS[forgetting]
    wanted = () if forgetting == "static" else given
    found = model.forgetting
    if isinstance(wanted, (tuple, list)):
        assert {type(item) for item in found} == {type(item) for item in wanted}
    else:
        assert type(found) is type(wanted)
    X, Y = data()
    again = plain(X, Y, forgetting=found or given, learn_forgetting=learn)
    assert_same(model.posterior(present(model)), again.posterior(present(again)))


def test_learned_rates_are_per_unit_of_the_data():
    X, Y = data(n=30)
    X[..., -1] *= 60  # minutes
    model = TimeVaryingGP(X, Y, forgetting=Markov(0.001))
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))  # without a warning
    learned = model.forgetting
    assert isinstance(learned, Markov)
    assert learned.epsilon != 0.001
    temporal = model.covar_module.temporal
    over_an_hour = float(temporal.epsilon_per(60.0).detach())
    assert math.isclose(1 - (1 - learned.epsilon) ** 60, over_an_hour, rel_tol=1e-9)
    assert repr(learned) in repr(model)
    # The covariance of the textbook with that rate is the model's own.
    times = X[..., -1:]
    wanted = (1 - learned.epsilon) ** ((times - times.mT).abs() / 2)
    assert torch.allclose(temporal(times).to_dense(), wanted, rtol=1e-9)


@pytest.mark.parametrize(
    ("part", "name", "value"),
    [
        (Wiener(0.05), "sigma_w2", 0.3),
        (ExponentialWeights(0.9), "gamma", 0.8),
        (UncertaintyInjection(0.7, 0.5), "kappa", 0.2),
    ],
)
def test_it_follows_every_parameter(part, name, value):
    X, Y = data()
    model = TimeVaryingGP(X, Y, forgetting=part)
    home = model.covar_module.temporal if isinstance(part, Decay) else model.likelihood.aging
    setattr(home, name, value)
    assert math.isclose(getattr(model.forgetting, name), value, rel_tol=1e-12)
    assert getattr(part, name) != value


def test_a_rate_that_rounds_to_1_is_refused():
    X, Y = data()
    X[..., -1] *= 1e-4  # steps of milliseconds in units of ten seconds
    model = TimeVaryingGP(X, Y, forgetting=Markov(0.01))
    model.covar_module.temporal.set_epsilon_per(1e-4, 0.5)
    with pytest.raises(ValueError, match="measure time in a shorter unit"):
        _ = model.forgetting


D = torch.float64


def observed(n=70, seed=0):
    """A draw of a seasonal objective of period 10, at gaps of 1 or 2 hours."""
    random = np.random.default_rng(seed)
    X = random.random((n, 1))
    t = np.cumsum(random.choice([1.0, 2.0], n))
    apart = np.abs(t[:, None] - t)
    K = np.exp(-((X - X.T) ** 2) / (2 * 0.4**2) - 0.01 * apart) * np.cos(2 * np.pi * apart / 10)
    y = np.linalg.cholesky(K + 0.01 * np.eye(n)) @ random.standard_normal(n)
    return torch.from_numpy(np.column_stack([X, t])), torch.from_numpy(y).unsqueeze(-1)


@pytest.mark.full
def test_a_period_is_learned_in_any_unit():
    X, Y = observed()
    for unit in (1.0, 3.6e6):
        scaled = X.clone()
        scaled[:, -1] *= unit
        model = fit(TimeVaryingGP(scaled, Y, forgetting=Seasonal(0.05 / unit, 11.0 * unit)))
        temporal = model.covar_module.temporal
        assert temporal.value("period").item() / unit == pytest.approx(10.0, rel=0.03)
        assert 0 < temporal.value("rate").item() * unit < 0.05
        state = model.state_dict()
        again = TimeVaryingGP(scaled, Y, forgetting=Seasonal(0.05 / unit, 11.0 * unit))
        again.load_state_dict(state)
        query = scaled[:5].clone()
        query[:, -1] = scaled[-1, -1] + 2 * unit
        wanted = model.posterior(query).mean
        torch.testing.assert_close(again.posterior(query).mean, wanted, rtol=1e-9, atol=1e-9)


class Undeclared(Inflation):
    def log_factor(self, lag):
        return 0.1 * lag


@pytest.mark.parametrize(
    ("forgetting", "hint"),
    [(DampedDrift(), "learn_forgetting=False"), (Undeclared(), "learn=False")],
    ids=["decay", "inflation"],
)
def test_undeclared_parameters_are_refused_unless_fixed(forgetting, hint):
    X, Y = observed(12)
    with pytest.raises(ValueError, match=f"declares no parameters.*{hint}"):
        TimeVaryingGP(X, Y, forgetting=forgetting)
    model = TimeVaryingGP(X, Y, forgetting=forgetting, learn_forgetting=False)
    if hint == "learn=False":
        lag = torch.tensor([3.0], dtype=D)
        assert model.likelihood.aging.log_factor(lag).item() == pytest.approx(0.3)
    else:
        assert not list(model.covar_module.temporal.parameters())
    assert model.posterior(X).mean.isfinite().all()


@dataclass(frozen=True)
class HiddenUnit(Decay):
    """The 5 is a time that is not declared."""

    rate: float = 0.1
    parameters = {"rate": Parameter(power=-1)}  # noqa: RUF012

    def attenuation(self, elapsed):
        return torch.exp(-self.rate * elapsed) * torch.cos(elapsed / 5)


def test_fixed_forgetting_uses_the_unit_of_the_user():
    """Wrong declarations do not matter if nothing is learned."""
    X, Y = observed(12)
    scaled = X.clone()
    scaled[:, -1] *= 3  # gaps of 3 and 6
    with pytest.raises(ValueError, match="depend on the unit of time"):
        TimeVaryingGP(scaled, Y, forgetting=HiddenUnit())
    model = TimeVaryingGP(scaled, Y, forgetting=HiddenUnit(), learn_forgetting=False)
    times = scaled[:, -1:]
    wanted = HiddenUnit().covariance(times, times.T)
    found = model.covar_module.temporal(times).to_dense()
    torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)


class AgedStatic(Static):
    """Inherits decay and inflation, and changes the inflation."""

    def log_factor(self, lag):
        return 0.5 * lag


def test_a_part_of_both_kinds_counts_as_both():
    X, Y = observed(12)
    fixed = torch.full_like(Y, 0.01)
    models = [
        TimeVaryingGP(X, Y, fixed, forgetting=item, learn_forgetting=False)
        for item in (AgedStatic(), Static())
    ]
    means = [model.posterior(X).mean for model in models]
    assert not torch.allclose(means[0], means[1])
    lag = torch.tensor([2.0], dtype=D)
    assert models[0].likelihood.aging.log_factor(lag).item() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "spatial", [RBFKernel(ard_num_dims=2), ScaleKernel(ScaleKernel(RBFKernel(ard_num_dims=2)))]
)
def test_the_lengthscales_are_those_inside(spatial):
    kernel = SpatioTemporalKernel(spatial, MarkovKernel(0.03)).double()
    kernel.lengthscale = torch.tensor([0.2, 0.5])
    inner = spatial
    while not inner.has_lengthscale:
        inner = inner.base_kernel
    assert torch.allclose(inner.lengthscale, torch.tensor([[0.2, 0.5]]).double())
    assert torch.equal(kernel.lengthscale, inner.lengthscale)
    product = RBFKernel(active_dims=[0]) * RBFKernel(active_dims=[1])
    assert SpatioTemporalKernel(product, MarkovKernel(0.03)).lengthscale is None
