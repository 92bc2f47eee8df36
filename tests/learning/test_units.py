"""Learning in any unit of time; custom decays are learned like the package's, or refused."""

import math
import warnings
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from botorch.fit import fit_gpytorch_mll
from conformance.strangers import Seasonal
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior
from scipy.stats import gamma, halfnorm

from benchmarks.statistics import default_rate
from botorch_tv.forgetting import (
    Decay,
    ExponentialWeights,
    Markov,
    Parameter,
    PeriodicMarkov,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.forgetting.claims import require_learnable
from botorch_tv.kernels import MarkovKernel, WienerKernel
from botorch_tv.kernels.stationary import LearnableKernel
from botorch_tv.learning import Free, Refit, learn
from botorch_tv.learning.fit import NegativeLogPosterior
from botorch_tv.learning.layout import ParameterLayout
from botorch_tv.likelihoods import ExponentialAging, InjectionAging
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, GPStrategy

UNITS = {"years": 1 / 8766, "milliseconds": 3.6e6}
DATA = default_rate.data_set(0)


def fitted(unit, **options):
    X = torch.cat([DATA.X[:, :-1], unit * DATA.X[:, -1:]], -1)
    model = TimeVaryingGP(X, DATA.Y, **options)
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
        learned = model.covar_module.temporal.epsilon_per(unit).item()
        assert learned == pytest.approx(epsilon, rel=0.02)


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


@pytest.mark.parametrize("unit", [1e-4, 0.7, 3.6e6])
def test_measure_changes_no_value(unit):
    times = torch.tensor([[0.0], [0.25], [1.0], [7.0]], dtype=D)
    lags = torch.tensor([0.0, 0.25, 1.0, 7.0], dtype=D)
    gap = torch.tensor(unit, dtype=D)
    for kind, name in ((MarkovKernel, "epsilon"), (WienerKernel, "sigma_w2")):
        kernel = kind(0.3).double()
        kernel.initialize(**{name: 0.3})
        before = kernel(times).to_dense()
        kernel.measure(gap)
        assert torch.allclose(kernel(times).to_dense(), before, rtol=1e-9, atol=0)
        assert getattr(kernel, name).item() == pytest.approx(0.3, rel=1e-9)
    for aging in (ExponentialAging(0.7).double(), InjectionAging(0.7, 0.2).double()):
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
NOISE = 0.05
FIXED = {"lengthscale": None, "outputscale": None, "noise": None}
DECAY = Seasonal(rate=0.05, period=10.0)


def observed(loops=3, rounds=40, unit=1.0):
    """Draws of the prior at random points, every half or whole unit."""
    random = np.random.default_rng(0)
    X = random.random((loops, rounds, 2))
    times = np.cumsum(random.choice([0.5, 1.0], (loops, rounds)), -1)
    K = np.stack([covariance(*loop) for loop in zip(X, times)])
    y = np.einsum("bij,bj->bi", np.linalg.cholesky(K), random.standard_normal((loops, rounds)))
    return tuple(torch.from_numpy(item) for item in (X, unit * times, y))


def covariance(X, times, decay=DECAY):
    apart = np.abs(times[:, None] - times)
    squares = ((X[:, None] - X) ** 2).sum(-1)
    K = np.exp(-squares / (2 * 0.5**2) - decay.rate * apart)
    return K * np.cos(6.2832 * apart / decay.period) + NOISE * np.eye(len(times))


def textbook(X, times, y):
    A = covariance(X, times)
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
        textbook(X[i].numpy(), times[i].numpy(), y[i].numpy())
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


def test_declared_and_custom_bounds():
    ordered, *_ = objective(Refit(decay={"period": Free(lower=8.0, upper=12.0)}))
    gap = torch.full((1,), 0.5, dtype=D)
    lower, upper = ordered.bounds(gap)
    assert lower[0, -1].item() == pytest.approx(16.0)  # in gaps of half a unit
    assert upper[0, -1].item() == pytest.approx(24.0)
    ordered, *_ = objective()
    lower, upper = ordered.bounds(gap)
    assert (lower[0, -1].item(), upper[0, -1].item()) == (2.0, 100.0)
    for decay, free, message in (
        (DECAY, {"period": Free(lower=11.0)}, "period starts from"),
        (DECAY, {"speed": Free()}, r"decay has \['speed'\], but .* declares \['rate', 'per"),
    ):
        with pytest.raises(ValueError, match=message):
            objective(Refit(decay=free), decay)


@pytest.mark.parametrize(
    "part",
    [
        *(Markov(0.1), Wiener(0.1), PeriodicMarkov(0.1, 7.0, 1.0), DECAY),
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
    Elsewhere: r"declares \['rate'\], but its formula does not depend on it",
    PartlyElsewhere: "different results with tensors",
    HiddenUnit: "changes with the unit of time",
    WrongPower: "changes with the unit of time",
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_wrong_declarations_are_refused(kind):
    strategy = GPStrategy(kernel=RBFKernel().double(), noise=NOISE, decay=kind(), learning=Refit())
    with pytest.raises(ValueError, match=REFUSED[kind]):
        strategy.init(Box(torch.tensor([[0.0], [1.0]], dtype=D)))
