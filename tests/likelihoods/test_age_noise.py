"""The likelihood by itself: ages, forms of call, parameters and their bounds."""

import copy
import pickle
import unittest

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.distributions import MultivariateNormal
from gpytorch.test.base_likelihood_test_case import BaseLikelihoodTestCase
from numpy.testing import assert_allclose
from oracles.dense import noise_factor

from botorch_tv.forgetting import ExponentialWeights, Static, UncertaintyInjection
from botorch_tv.kernels import MarkovKernel, WienerKernel
from botorch_tv.likelihoods import AgeNoiseLikelihood, Aging

INFLATIONS = [
    (Static(), ("constant",)),
    (ExponentialWeights(0.9), ("exponential", 0.9)),
    (UncertaintyInjection(0.5, 0.3), ("injection", 0.5, 0.3)),
    (UncertaintyInjection(0.0, 2.0), ("injection", 0.0, 2.0)),
]
TIMES = [0.0, 0.5, 3.0, 7.0, 7.0]
X = torch.stack([torch.rand(5), torch.tensor(TIMES)], -1).double()


def double(value):
    return torch.tensor(value, dtype=torch.float64)


def likelihood(inflation, **options):
    found = AgeNoiseLikelihood(inflation, **options).double()
    found.aging.restart()
    if found.noise_covar.learned:
        found.noise = 0.1
    return found


def standard(n=5):
    return MultivariateNormal(torch.zeros(n).double(), torch.eye(n).double())


def added(covered, *inputs):
    return (covered(standard(), *inputs).variance - 1).detach().numpy()


@pytest.mark.parametrize(("inflation", "part"), INFLATIONS)
def test_noise_by_age_in_every_form_of_call(inflation, part):
    aged = likelihood(inflation, now=9.0)
    aged.set_training_data(X)
    expected = 0.1 * noise_factor(part, 9.0 - np.array(TIMES))
    for inputs in ((), (X,), ([X],)):
        assert_allclose(added(aged, *inputs), expected, rtol=1e-12)
    diagonal = aged.noise_covar(shape=torch.Size([4, 5])).diagonal(dim1=-1, dim2=-2)
    assert_allclose(diagonal.detach().numpy(), np.tile(expected, (4, 1)), rtol=1e-12)


def test_without_inputs_or_data_nothing_can_age():
    aged = likelihood(ExponentialWeights(0.5), now=9.0)
    with pytest.raises(InputDataError, match=r"have no age.*likelihood\(model\(X\), X\)"):
        aged(standard())
    with pytest.raises(InputDataError, match="set_training_data"):
        aged.noise_covar(shape=torch.Size([5]))
    assert_allclose(added(likelihood(Static(), now=9.0)), 0.1)


def test_given_variances_stay_with_their_rows():
    given = torch.linspace(0.1, 0.5, 5, dtype=torch.float64)
    aged = likelihood(ExponentialWeights(0.5), now=7.0, noise=given)
    aged.set_training_data(X)
    assert not hasattr(aged.noise_covar, "raw_noise")
    expected = given.numpy() * 0.5 ** (np.array(TIMES) - 7.0)
    assert_allclose(added(aged.eval(), X), expected, rtol=1e-12)
    other = X.clone()
    other[:, 0] += 1
    assert_allclose(added(aged, other)[-1], 0.3, rtol=1e-12)
    learned = likelihood(Static(), noise=torch.where(given > 0.3, torch.nan, given)).eval()
    learned.set_training_data(X)
    assert_allclose(added(learned, X), [0.1, 0.2, 0.3, 0.1, 0.1], rtol=1e-12)


def test_a_batch_with_presents_and_parameters_of_their_own():
    aged = likelihood(ExponentialWeights(0.9), now=double([7.0, 10.0]), batch_shape=torch.Size([2]))
    aged.aging.gamma = double([[0.9], [0.5]])
    both = MultivariateNormal(torch.zeros(2, 5).double(), torch.eye(5).expand(2, 5, 5).double())
    found = (aged(both, X.expand(2, 5, 2)).variance - 1).detach().numpy()
    for member, (gamma, now) in enumerate([(0.9, 7.0), (0.5, 10.0)]):
        expected = 0.1 * gamma ** (np.array(TIMES) - now)
        assert_allclose(found[member], expected, rtol=1e-11)


def test_finite_at_any_age():
    aged = AgeNoiseLikelihood(ExponentialWeights(0.9), now=10_000.0)
    noise = aged.noise_covar([torch.tensor([[0.0], [9_150.0], [10_000.0]])]).diagonal()
    noise.log().sum().backward()
    assert noise.isfinite().all()
    assert noise[0] > 1e15
    assert aged.aging.raw_gamma.grad.isfinite().all()


@pytest.mark.parametrize(
    "inflation",
    [ExponentialWeights(1.0), UncertaintyInjection(0.0, 0.0), UncertaintyInjection(0.5, 1.0)],
)
def test_gradients_are_finite_at_the_ends(inflation):
    aged = likelihood(inflation, now=7.0)
    at = X.clone().requires_grad_()
    aged.noise_covar([at]).diagonal().sum().backward()
    assert at.grad.isfinite().all()
    assert all(p.grad.isfinite().all() for p in aged.parameters())
    for _, module, prior, closure, _ in aged.named_priors():
        assert prior.log_prob(closure(module)).isfinite().all()


def test_parameters_have_priors_and_can_be_drawn():
    names = {
        ExponentialWeights(0.9): {"noise_prior", "gamma_prior"},
        UncertaintyInjection(1.0): {"noise_prior", "alpha_prior", "kappa_prior"},
        Static(): {"noise_prior"},
    }
    for inflation, expected in names.items():
        aged = likelihood(inflation)
        assert {name.split(".")[-1] for name, *_ in aged.named_priors()} == expected
        for other in (aged, copy.deepcopy(aged), pickle.loads(pickle.dumps(aged))):
            for _, module, _, closure, put in other.named_priors():
                put(module, torch.full_like(closure(module), 0.25))
                assert closure(module).allclose(double(0.25))


def test_state_dict_holds_no_rows():
    aged = likelihood(ExponentialWeights(0.9), now=7.0)
    aged.set_training_data(X)
    fewer = likelihood(ExponentialWeights(0.5), now=9.0)
    fewer.set_training_data(X[:2])
    fewer.load_state_dict(aged.state_dict())
    assert fewer.aging.gamma.item() == 0.9
    assert fewer.now == 9.0
    assert fewer.noise_covar.train_X.shape == (2, 2)

    float32 = likelihood(Static(), now=7.0, noise=torch.ones(5).double()).float().noise_covar
    assert float32.row_noise.dtype == float32.now.dtype == torch.float32


NAN, INF = float("nan"), float("inf")
SETTABLE = [
    (lambda: MarkovKernel(0.1), "epsilon", (5, -0.1, NAN, 1.0)),
    (lambda: WienerKernel(0.1), "sigma_w2", (-0.1, NAN, INF)),
    (lambda: Aging(ExponentialWeights(0.9)), "gamma", (0.0, 1.1, NAN)),
    (lambda: Aging(UncertaintyInjection(1.0)), "alpha", (-0.1, NAN, INF)),
    (lambda: Aging(UncertaintyInjection(1.0)), "kappa", (-0.1, NAN, INF)),
]


@pytest.mark.parametrize(("make", "name", "values"), SETTABLE)
def test_out_of_bounds(make, name, values):
    module = make().double()
    before = getattr(module, name).clone()
    for value in values:
        for put in (
            lambda v: setattr(module, name, v),
            lambda v: setattr(module, name, torch.tensor(v)),
            lambda v: module.initialize(**{name: v}),
        ):
            with pytest.raises(ValueError, match=rf"{name} is .* out of bounds of its current"):
                put(value)
    assert torch.equal(getattr(module, name), before)
    for value in (0.0, 1e-7, 1.5) if name == "gamma" else ():
        with pytest.raises(ValueError, match="gamma is"):
            Aging(ExponentialWeights(value))


@pytest.mark.parametrize(("now", "lags"), [(3.0, [3, 2.5, 0, 0, 0]), (None, [7, 6.5, 4, 0, 0])])
def test_lags_count_from_now_or_the_newest_input(now, lags):
    aged = likelihood(ExponentialWeights(0.5), now=now)
    assert_allclose(added(aged, X), 0.1 * 2.0 ** np.array(lags), rtol=1e-12)


class Case(BaseLikelihoodTestCase):
    seed = 0
    parts: tuple = ()

    def create_likelihood(self, **kwargs):
        likelihood = AgeNoiseLikelihood(*self.parts, now=3.0, **kwargs)
        likelihood.set_training_data(torch.linspace(2.0, 3.0, 5).unsqueeze(-1).to(likelihood.noise))
        # The noise of GPyTorch's likelihoods, ln 2, for which 512 samples are enough.
        return likelihood.initialize(noise=0.693)


class TestExponential(Case, unittest.TestCase):
    parts = (ExponentialWeights(0.9),)


class TestInjection(Case, unittest.TestCase):
    parts = (UncertaintyInjection(1.0, 0.5),)


class TestConstant(Case, unittest.TestCase):
    parts = (Static(),)
