"""The unit of time does not change what is learned."""

import math
import warnings

import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.kernels import ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior

from benchmarks.statistics import default_rate
from botorch_tv.forgetting import ExponentialWeights, Markov, UncertaintyInjection, Wiener
from botorch_tv.kernels import MarkovKernel, WienerKernel
from botorch_tv.learning import Free, Refit, learn
from botorch_tv.likelihoods import ExponentialAging, InjectionAging
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation.rivals import unit_kernel

D = torch.float64
UNITS = {"years": 1 / 8766, "milliseconds": 3.6e6}
DATA = default_rate.data_set(0)


def in_unit_of(unit):
    X = DATA.X.clone()
    X[:, -1] *= unit
    return X


def fitted(unit, **options):
    model = TimeVaryingGP(in_unit_of(unit), DATA.Y, **options)
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_gpytorch_mll(mll)
    model.train()
    value = 60 * mll(model(*model.train_inputs), model.train_targets, *model.train_inputs)
    return model, value.item()


@pytest.mark.parametrize("start", [None, Markov(0.03)], ids=["default", "given"])
def test_a_model_learns_the_same_rate(start):
    """From a start of its own, and from 0.03 per unit, which is far off in all but hours."""
    hours, value = fitted(1.0, forgetting=start)
    epsilon = hours.covar_module.temporal.epsilon.item()
    for unit in UNITS.values():
        model, found = fitted(unit, forgetting=start)
        assert found == pytest.approx(value, abs=1e-3)
        temporal = model.covar_module.temporal
        assert temporal.epsilon_per(unit).item() == pytest.approx(epsilon, rel=0.02)
        if unit > 1:
            per_unit = 1 - (1 - temporal.epsilon.item()) ** unit
            assert per_unit == pytest.approx(epsilon, rel=0.02)


@pytest.mark.parametrize(
    ("per_hour", "per_second"),
    [
        (Wiener(0.03), Wiener(0.03 / 3600)),
        (ExponentialWeights(0.97), ExponentialWeights(0.97 ** (1 / 3600))),
        (UncertaintyInjection(1.0, 0.1), UncertaintyInjection(1.0, 0.1 / 3600)),
    ],
)
def test_other_rates_are_the_same_too(per_hour, per_second):
    _, value = fitted(1.0, forgetting=per_hour)
    assert fitted(3600.0, forgetting=per_second)[1] == pytest.approx(value, abs=1e-2)


@pytest.mark.parametrize("decay", [Markov(0.03), Wiener(0.03)], ids=repr)
def test_loops_learn_the_same_rate(decay):
    """Two loops with different gaps in a batch; starts and warm starts per unit of time."""
    sets = [DATA, default_rate.data_set(3)]
    X = torch.stack([data.X[:, :-1] for data in sets])
    y = torch.stack([(data.Y - data.Y.mean()).squeeze(-1) / data.Y.std() for data in sets])
    times = torch.stack([DATA.X[:, -1], 7 * DATA.X[:, -1]])
    kernel = ScaleKernel(unit_kernel("se", 0.3)).double()
    live = torch.ones_like(y, dtype=torch.bool)

    def found(unit, start=None):
        return learn(Refit(), kernel, decay, 0.02, X, unit * times, y, live, start=start)

    hours = found(1.0)
    for unit in UNITS.values():
        other = found(unit)
        torch.testing.assert_close(other.log_posterior, hours.log_posterior, rtol=0, atol=1e-4)
        [name] = decay.parameters
        rate, wanted = (
            decay.parameters[name].natural_counted(made.values[name], 1 / made.unit, made.values)
            for made in (other.decay, hours.decay)
        )
        torch.testing.assert_close(unit * rate, wanted, rtol=1e-2, atol=1e-9)
        again = found(unit, start=other.vector)
        assert bool((again.log_posterior >= other.log_posterior - 1e-6).all())


def test_custom_bounds_and_priors_are_per_unit_of_the_user():
    X, y = DATA.X[None, :, :-1], ((DATA.Y - DATA.Y.mean()) / DATA.Y.std()).T
    live = torch.ones_like(y, dtype=torch.bool)
    seconds = 3600 * DATA.X[None, :, -1]
    for free in (Free(lower=1e-7, upper=2e-7), Free(prior=GammaPrior(1.5e8, 1e15))):
        refit = Refit(lengthscale=None, noise=None, epsilon=free)
        found = learn(refit, unit_kernel("se", 0.3), Markov(1.5e-7), 0.02, X, seconds, y, live)
        assert 1e-7 * (1 - 1e-9) <= float(found.decay.value("epsilon")) <= 2e-7 * (1 + 1e-9)


def test_defaults_learn_rates_near_the_truth():
    sets = [default_rate.data_set(number) for number in range(3)]
    ratios = [default_rate.learned(data, "hours")[0] / data.epsilon for data in sets]
    verdict = default_rate.judged(ratios)
    assert 0.6 < verdict["median"] < 1.6
    assert verdict["largest"] < 5
    assert verdict["smallest"] > 1 / 5


@pytest.mark.parametrize("unit", [1e-4, 0.7, 1.0, 40.0, 3.6e6])
def test_measure_changes_no_value(unit):
    times = torch.tensor([[0.0], [0.25], [1.0], [7.0]], dtype=D)
    lags = torch.tensor([0.0, 0.25, 1.0, 7.0], dtype=D)
    gap = torch.tensor(unit, dtype=D)
    for kernel, name, value in (
        (MarkovKernel(0.3).double(), "epsilon", 0.3),
        (WienerKernel(0.3).double(), "sigma_w2", 0.3),
    ):
        kernel.initialize(**{name: value})
        before = kernel(times).to_dense()
        kernel.measure(gap)
        assert torch.allclose(kernel(times).to_dense(), before, rtol=1e-9, atol=0)
        assert getattr(kernel, name).item() == pytest.approx(value, rel=1e-9)
        kernel.initialize(**{name: 0.2})
        assert getattr(kernel, name).item() == pytest.approx(0.2, rel=1e-9)
    for aging in (ExponentialAging(0.7).double(), InjectionAging(0.7, 0.2).double()):
        aging.restart()
        before = aging.log_factor(lags)
        aging.measure(gap)
        assert torch.allclose(aging.log_factor(lags), before, rtol=1e-9, atol=1e-12)
        aging.restart()
        assert torch.allclose(aging.log_factor(lags), before, rtol=1e-9, atol=1e-12)


def test_epsilon_over_any_duration():
    kernel = MarkovKernel().double()
    kernel.measure(torch.tensor(1 / 8766, dtype=D))  # hours, in years
    kernel.set_epsilon_per(1 / 8766, 0.1)
    assert kernel.epsilon.item() == 1.0  # to all digits
    assert kernel.epsilon_per(1 / 8766).item() == pytest.approx(0.1, rel=1e-12)
    hour = torch.tensor([[0.0], [1 / 8766]], dtype=D)
    assert kernel(hour).to_dense()[0, 1].item() == pytest.approx(math.sqrt(0.9), rel=1e-12)
