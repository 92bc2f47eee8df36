"""The unit in which time is told decides nothing of what is learned."""

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
from botorch_tv.forgetting.base import median_gap
from botorch_tv.kernels import MarkovKernel, WienerKernel
from botorch_tv.learning import Free, Refit, learn
from botorch_tv.likelihoods import ExponentialAging, InjectionAging
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation.rivals import unit_kernel

D = torch.float64
UNITS = {"years": 1 / 8766, "milliseconds": 3.6e6}
ONE = default_rate.data_set(0)


def told_in(unit):
    X = ONE.X.clone()
    X[:, -1] *= unit
    return X


def fitted(unit, **options):
    model = TimeVaryingGP(told_in(unit), ONE.Y, **options)
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_gpytorch_mll(mll)
    model.train()
    value = 60 * mll(model(*model.train_inputs), model.train_targets, *model.train_inputs)
    return model, value.item()


@pytest.mark.parametrize("start", [None, Markov(0.03)], ids=["unsaid", "said"])
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
    "units", [(3600.0,), pytest.param((3600.0, 1 / 8766), marks=pytest.mark.slow)], ids=len
)
@pytest.mark.parametrize(
    "forgetting", [Wiener(0.03), ExponentialWeights(0.97), UncertaintyInjection(1.0, 0.1)], ids=repr
)
def test_other_rates_are_the_same_too(forgetting, units):
    _, value = fitted(1.0, forgetting=forgetting)
    for unit in units:
        scaled = {
            Wiener: lambda u: Wiener(0.03 / u),
            ExponentialWeights: lambda u: ExponentialWeights(0.97 ** min(1 / u, 400)),
            UncertaintyInjection: lambda u: UncertaintyInjection(1.0, 0.1 / u),
        }[type(forgetting)](unit)
        assert fitted(unit, forgetting=scaled)[1] == pytest.approx(value, abs=1e-2)


@pytest.mark.parametrize("decay", [Markov(0.03), Wiener(0.03)], ids=repr)
def test_loops_learn_the_same_rate(decay):
    """Two loops of unlike steps, in one batch; starts and warm starts per unit."""
    sets = [ONE, default_rate.data_set(3)]
    X = torch.stack([one.X[:, :-1] for one in sets])
    y = torch.stack([(one.Y - one.Y.mean()).squeeze(-1) / one.Y.std() for one in sets])
    times = torch.stack([ONE.X[:, -1], 7 * ONE.X[:, -1]])
    kernel = ScaleKernel(unit_kernel("se", 0.3)).double()
    live = torch.ones_like(y, dtype=torch.bool)

    def found(unit, start=None):
        return learn(Refit(), kernel, decay, 0.02, X, unit * times, y, live, start=start)

    hours = found(1.0)
    for unit in UNITS.values():
        other = found(unit)
        torch.testing.assert_close(other.log_posterior, hours.log_posterior, rtol=0, atol=1e-4)
        [name] = decay.parameters
        told, wanted = (
            decay.parameters[name].natural_counted(one.values[name], 1 / one.unit, one.values)
            for one in (other.decay, hours.decay)
        )
        torch.testing.assert_close(unit * told, wanted, rtol=1e-2, atol=1e-9)
        again = found(unit, start=other.vector)
        assert bool((again.log_posterior >= other.log_posterior - 1e-6).all())


def test_bounds_and_priors_of_ones_own_are_per_unit_of_the_user():
    X, y = ONE.X[None, :, :-1], ((ONE.Y - ONE.Y.mean()) / ONE.Y.std()).T
    live = torch.ones_like(y, dtype=torch.bool)
    seconds = 3600 * ONE.X[None, :, -1]
    for free in (Free(lower=1e-7, upper=2e-7), Free(prior=GammaPrior(1.5e8, 1e15))):
        refit = Refit(lengthscale=None, noise=None, epsilon=free)
        found = learn(refit, unit_kernel("se", 0.3), Markov(1.5e-7), 0.02, X, seconds, y, live)
        assert 1e-7 * (1 - 1e-9) <= float(found.decay.value("epsilon")) <= 2e-7 * (1 + 1e-9)


@pytest.mark.parametrize("sets", [3, pytest.param(9, marks=pytest.mark.slow)])
def test_what_the_defaults_learn_is_near_the_truth(sets):
    ratios = [
        default_rate.learned(one, "hours")[0] / one.epsilon
        for one in map(default_rate.data_set, range(sets))
    ]
    verdict = default_rate.judged(ratios)
    assert 0.6 < verdict["median"] < 1.6
    assert verdict["largest"] < 5
    assert verdict["smallest"] > 1 / 5


def test_median_gap():
    times = torch.tensor([[3.0, 0.0, 1.0, 0.3, 0.1 * 3], [5.0, 5.0, 5.0, 5.0, 5.0]], dtype=D)
    assert median_gap(times).tolist() == [pytest.approx(0.7), 1.0]  # of 0.3, 0.7 and 2
    live = torch.tensor([[True, True, True, False, False], [True, False, False, False, False]])
    assert median_gap(times, live).tolist() == [1.5, 1.0]  # of 1 and 2
    assert median_gap(times[:, :1]).tolist() == [1.0, 1.0]
    assert median_gap(1e6 * times)[0].item() == pytest.approx(7e5)


@pytest.mark.parametrize("unit", [0.7, 3.6e6])
def test_measuring_keeps_what_stands_still(unit):
    for kernel in (MarkovKernel(0.0), WienerKernel(0.0)):
        kernel.measure(torch.tensor(unit))
        times = torch.tensor([[0.0], [5.0]])
        assert torch.equal(kernel(times).to_dense(), torch.ones(2, 2))
    aging = ExponentialAging(1.0)
    aging.measure(torch.tensor(unit))
    assert torch.equal(aging.log_factor(torch.tensor([0.0, 5.0])), torch.zeros(2))


@pytest.mark.parametrize("unit", [1e-4, 0.7, 1.0, 40.0, 3.6e6])
def test_measuring_changes_no_value(unit):
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
    kernel.measure(torch.tensor(1 / 8766, dtype=D))  # hours, told in years
    kernel.set_epsilon_per(1 / 8766, 0.1)
    assert kernel.epsilon.item() == 1.0  # to all digits
    assert kernel.epsilon_per(1 / 8766).item() == pytest.approx(0.1, rel=1e-12)
    hour = torch.tensor([[0.0], [1 / 8766]], dtype=D)
    assert kernel(hour).to_dense()[0, 1].item() == pytest.approx(math.sqrt(0.9), rel=1e-12)
