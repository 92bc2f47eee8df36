"""Custom decays and inflations are learned in any unit of time, or refused with a hint."""

import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from conformance.strangers import DampedDrift, QuasiPeriodic, Seasonal
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_tv.forgetting import Decay, Inflation, Parameter, Static
from botorch_tv.models import TimeVaryingGP

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


def fitted(X, Y, **options):
    model = TimeVaryingGP(X, Y, **options)
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_gpytorch_mll(mll)
    return model


def test_a_period_is_learned_in_any_unit():
    X, Y = observed()
    for unit in (1.0, 3.6e6):
        scaled = X.clone()
        scaled[:, -1] *= unit
        model = fitted(scaled, Y, forgetting=Seasonal(0.05 / unit, 11.0 * unit))
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


@pytest.mark.parametrize("forgetting", [DampedDrift(), QuasiPeriodic()], ids=["damped", "seasonal"])
def test_undeclared_parameters_are_refused_unless_fixed(forgetting):
    X, Y = observed(12)
    with pytest.raises(ValueError, match=r"declares no parameters.*learn_forgetting=False"):
        TimeVaryingGP(X, Y, forgetting=forgetting)
    model = TimeVaryingGP(X, Y, forgetting=forgetting, learn_forgetting=False)
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
    with pytest.raises(ValueError, match="changes with the unit of time"):
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


class Undeclared(Inflation):
    def log_factor(self, lag):
        return 0.1 * lag


def test_undeclared_inflation_is_refused_unless_fixed():
    X, Y = observed(12)
    with pytest.raises(ValueError, match=r"declares no parameters.*FixedAging"):
        TimeVaryingGP(X, Y, forgetting=Undeclared())
    model = TimeVaryingGP(X, Y, forgetting=Undeclared(), learn_forgetting=False)
    lag = torch.tensor([3.0], dtype=D)
    assert model.likelihood.aging.log_factor(lag).item() == pytest.approx(0.3)
