"""What a model says of its own forgetting: by name, in its repr, and as the argument of another."""

import math

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.mlls import ExactMarginalLogLikelihood
from models.cases import FORGETTINGS, assert_same, build, data, plain, present

from botorch_tv.forgetting import Decay, ExponentialWeights, Markov, UncertaintyInjection, Wiener
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
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
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
