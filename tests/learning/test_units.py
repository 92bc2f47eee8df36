"""Learning in any unit of time; custom decays are learned like the package's, or refused."""

import math
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from conformance.user_parts import Seasonal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior
from models.cases import fit
from scipy.stats import gamma, halfnorm

from benchmarks.statistics import recovery_of_rate
from botorch_tv.forgetting import (
    Decay,
    ExponentialWeights,
    Markov,
    Parameter,
    PeriodicMarkov,
    Smooth,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.forgetting.formulas import require_learnable
from botorch_tv.kernels import MarkovKernel
from botorch_tv.kernels.stationary import LearnableKernel
from botorch_tv.learning import Free, Refit, learn
from botorch_tv.learning.fit import NegativeLogPosterior
from botorch_tv.learning.layout import ParameterLayout
from botorch_tv.likelihoods import Aging
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, GPStrategy

UNITS = {"years": 1 / 8766, "milliseconds": 3.6e6}
DATA = recovery_of_rate.data_set(0)


def fitted(unit, **options):
    X = torch.cat([DATA.X[:, :-1], unit * DATA.X[:, -1:]], -1)
    model = fit(TimeVaryingGP(X, DATA.Y, **options)).train()
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    value = 60 * mll(model(*model.train_inputs), model.train_targets, *model.train_inputs)
    return model, value.item()


@pytest.mark.full
@pytest.mark.parametrize("start", [None, Markov(0.03)], ids=["default", "given"])
def test_a_model_learns_the_same_rate(start):
    """From a start of its own, and from 0.03 per unit, which is far off in all but hours."""
    hours, value = fitted(1.0, forgetting=start)
    epsilon = hours.covar_module.temporal.epsilon.item()
    for unit in UNITS.values():
        model, found = fitted(unit, forgetting=start)
        assert found == pytest.approx(value, abs=1e-3)
        learned = model.covar_module.temporal.epsilon_per(unit).item()
        assert learned == pytest.approx(epsilon, rel=0.02)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("per_hour", "per_second"),
    [
        (Wiener(0.03), Wiener(0.03 / 3600)),
        (Smooth(30.0, 2.5), Smooth(30.0 * 3600, 2.5)),
        (ExponentialWeights(0.97), ExponentialWeights(0.97 ** (1 / 3600))),
        (UncertaintyInjection(1.0, 0.1), UncertaintyInjection(1.0, 0.1 / 3600)),
    ],
)
def test_other_rates_are_the_same_too(per_hour, per_second):
    _, value = fitted(1.0, forgetting=per_hour)
    assert fitted(3600.0, forgetting=per_second)[1] == pytest.approx(value, abs=1e-2)


@pytest.mark.few(1)
@pytest.mark.parametrize("decay", [Markov(0.03), Wiener(0.03), Smooth(30.0, 2.5)], ids=repr)
def test_loops_learn_the_same_rate(decay):
    """Two loops with different gaps in a batch; starts and warm starts per unit of time."""
    sets = [DATA, recovery_of_rate.data_set(3)]
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
        [(name, parameter)] = decay.parameters.items()
        natural, wanted = (
            parameter.natural_counted(made.values[name], 1 / made.unit, made.values)
            for made in (other.decay, hours.decay)
        )
        found_per_hour = natural * unit**-parameter.power
        torch.testing.assert_close(found_per_hour, wanted, rtol=1e-2, atol=1e-9)
        again = found(unit, start=other.vector)
        assert bool((again.log_posterior >= other.log_posterior - 1e-6).all())


@pytest.mark.parametrize("unit", [1e-4, 0.7, 3.6e6])
def test_measure_changes_no_inflation(unit):
    lags = torch.tensor([0.0, 0.25, 1.0, 7.0], dtype=D)
    gap = torch.tensor(unit, dtype=D)
    for inflation in (ExponentialWeights(0.7), UncertaintyInjection(0.7, 0.2)):
        aging = Aging(inflation).double()
        aging.restart()
        before = aging.log_factor(lags)
        for change in (lambda aging=aging: aging.measure(gap), aging.restart):
            change()
            assert torch.allclose(aging.log_factor(lags), before, rtol=1e-9, atol=1e-12)


def test_epsilon_over_any_duration():
    kernel = MarkovKernel().double()
    kernel.measure(torch.tensor(1 / 8766, dtype=D))  # hours, in years
    kernel.set_epsilon_per(1 / 8766, 0.1)
    assert kernel.epsilon.item() == 1.0  # to all digits
    assert kernel.epsilon_per(1 / 8766).item() == pytest.approx(0.1, rel=1e-12)
    hour = torch.tensor([[0.0], [1 / 8766]], dtype=D)
    assert kernel(hour).to_dense()[0, 1].item() == pytest.approx(math.sqrt(0.9), rel=1e-12)


D = torch.float64


DECAY = Seasonal(rate=0.05, period=10.0)


def layout(**free):
    parts = LearnableKernel(unit_kernel("se", 0.5).double())
    return ParameterLayout(Refit(**free), parts, DECAY, 0.05, torch.ones(2, dtype=D))


def test_declared_and_custom_bounds():
    gap = torch.full((1,), 0.5, dtype=D)
    for free, bounds in (({"period": Free(lower=8.0, upper=12.0)}, (16.0, 24.0)), ({}, (2.0, 100))):
        lower, upper = layout(decay=free).bounds(gap)  # in gaps of half a unit
        assert (lower[0, -1].item(), upper[0, -1].item()) == pytest.approx(bounds)
    for free, message in (
        ({"period": Free(lower=11.0)}, "period starts from"),
        ({"speed": Free()}, r"decay has \['speed'\], but .* declares \['rate', 'per"),
    ):
        with pytest.raises(ValueError, match=message):
            layout(decay=free)


def test_priors_by_default_are_per_unit_of_the_search_and_custom_priors_per_unit_of_the_user():
    X, times, y = (torch.rand(3, 9, *size, dtype=D) for size in ((2,), (), ()))
    live, fixed = y < 2, dict.fromkeys(("lengthscale", "outputscale", "noise"))

    def value(rate, unit):
        ordered = layout(**fixed, decay={"rate": rate, "period": None})
        parts, unit = LearnableKernel(unit_kernel("se", 0.5).double()), torch.full((3,), unit).to(D)
        rows = (X, times, y, live, torch.ones_like(y))
        found = NegativeLogPosterior(parts, DECAY, ordered, *rows, unit=unit)
        at = ordered.searched(ordered.given.expand(3, -1), unit)
        return -found(at, torch.arange(3))[0].numpy()

    without = value(Free(prior=None), 1.0)
    for rate, prior in (
        (Free(prior=None), 0.0),
        (Free(), halfnorm(scale=0.25).logpdf(0.05 * 0.8)),
        (Free(prior=GammaPrior(2.0, 30.0)), gamma(2.0, scale=1 / 30).logpdf(0.05)),
    ):
        np.testing.assert_allclose(value(rate, 0.8), without + prior, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    "part",
    [
        *(Markov(0.1), Wiener(0.1), PeriodicMarkov(0.1, 7.0, 1.0), DECAY),
        *(Smooth(7.0), Smooth(7.0, 1.5), Smooth(7.0, 2.5)),
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


REFUSED = {
    Elsewhere: r"declares \['rate'\], but its formula does not depend on all of these",
    PartlyElsewhere: "different results with tensors",
    HiddenUnit: "depend on the unit of time",
    WrongPower: "depend on the unit of time",
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_wrong_declarations_are_refused(kind):
    strategy = GPStrategy(kernel=RBFKernel().double(), noise=0.05, decay=kind(), learning=Refit())
    with pytest.raises(ValueError, match=REFUSED[kind]):
        strategy.init(Box(torch.tensor([[0.0], [1.0]], dtype=D)))
