"""The likelihood by itself: ages, the forms in which BoTorch and GPyTorch call it, parameters."""

import copy
import pickle

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.distributions import MultivariateNormal
from gpytorch.priors import GammaPrior
from numpy.testing import assert_allclose
from oracles.dense import noise_factor

from botorch_tv.forgetting import ExponentialWeights, Inflation, Static, UncertaintyInjection
from botorch_tv.likelihoods import AgeNoiseLikelihood, ExponentialAging, FixedAging, InjectionAging

INFLATIONS = [
    (Static(), ("constant",)),
    (ExponentialWeights(0.9), ("exponential", 0.9)),
    (ExponentialWeights(1.0), ("exponential", 1.0)),
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


@pytest.mark.parametrize(("now", "lags"), [(3.0, [3, 2.5, 0, 0, 0]), (None, [7, 6.5, 4, 0, 0])])
def test_lags_count_from_now_or_the_newest_input(now, lags):
    aged = likelihood(ExponentialWeights(0.5), now=now)
    assert_allclose(added(aged, X), 0.1 * 2.0 ** np.array(lags), rtol=1e-12)


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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_finite_at_any_age(dtype):
    aged = AgeNoiseLikelihood(ExponentialWeights(0.9), now=10_000.0).to(dtype)
    at = torch.tensor([[0.0], [9_150.0], [10_000.0]], dtype=dtype)
    noise = aged.noise_covar([at]).diagonal()
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


def test_user_priors():
    prior = GammaPrior(2.0, 20.0)
    aging = ExponentialAging(0.9, discount_prior=prior)
    aged = AgeNoiseLikelihood(aging, noise_prior=None)
    assert [found for _, _, found, *_ in aged.named_priors()] == [prior]
    assert not list(InjectionAging(1.0, alpha_prior=None, kappa_prior=None).named_priors())


class Doubling(Inflation):
    def log_factor(self, lag):
        return lag * 0.6931471805599453


def test_a_user_inflation_may_be_fixed():
    with pytest.raises(ValueError, match=r"declares no parameters.*FixedAging"):
        likelihood(Doubling(), now=7.0)
    aged = likelihood(FixedAging(Doubling()), now=7.0)
    assert_allclose(added(aged, X), 0.1 * 2.0 ** (7.0 - np.array(TIMES)), rtol=1e-12)


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
