"""Learning: each loop alone, no worse than BoTorch's fit, and the truth within its error."""

import math

import numpy as np
import pytest
import scipy.stats
import torch
from botorch.fit import fit_gpytorch_mll
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from gpytorch.kernels import MaternKernel, ScaleKernel
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import GammaPrior

from botorch_tv.forgetting import Markov, Static, Wiener
from botorch_tv.learning import Free, Refit, learn
from botorch_tv.learning.layout import KNEE
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.test_functions import MarkovFunction


def observed(loops, rounds, epsilon, seed=0, noise=0.02):
    """Noisy values of drifting functions with lengthscale 0.2 at random points of [0, 1]²."""
    world = MarkovFunction(
        unit_kernel("se", 0.2), epsilon=epsilon, horizon=rounds, batch_shape=(loops,), seed=seed
    )
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(loops, rounds, 2, generator=generator, dtype=torch.float64)
    times = torch.arange(rounds, dtype=torch.float64).expand(loops, rounds)
    y = world(torch.cat([X, times.unsqueeze(-1)], -1))
    y = y + math.sqrt(noise) * torch.randn(y.shape, generator=generator, dtype=torch.float64)
    return X, times, y


def all_of(y):
    return torch.ones_like(y, dtype=torch.bool)


pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")


@pytest.mark.parametrize("decay", [Markov(0.03), Wiener(0.03), Static()], ids=repr)
@pytest.mark.few(1)
def test_a_batch_is_its_loops(decay):
    X, times, y = observed(4, 25, 0.05)
    live = torch.rand(4, 25, generator=torch.Generator().manual_seed(1)) < 0.6
    live[2, 3:] = False  # too few to learn from
    ratio = 0.5 + torch.rand(4, 25, generator=torch.Generator().manual_seed(2)).double()
    kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)).double()
    together = learn(Refit(), kernel, decay, 0.05, X, times, y, live, ratio)
    for i in range(4):
        alone = learn(Refit(), kernel, decay, 0.05, X[i], times[i], y[i], live[i], ratio[i])
        found = together.log_posterior[i]
        torch.testing.assert_close(found, alone.log_posterior, atol=1e-7, rtol=0)
        pairs = [(together.vector[i], alone.vector), (together.noise[i], alone.noise)]
        for name in decay.parameters:
            pairs.append((together.decay.value(name)[i], alone.decay.value(name)))
        for item, other in pairs:
            torch.testing.assert_close(item, other, rtol=1e-6, atol=1e-8)
        wanted = alone.kernel(X[i]).to_dense()
        torch.testing.assert_close(together.kernel(X).to_dense()[i], wanted, rtol=1e-6, atol=1e-8)
    assert float(together.noise[2]) == pytest.approx(0.05)
    assert bool((together.noise[[0, 1, 3]] != 0.05).all())


def test_batch_dimensions_and_pieces(monkeypatch):
    X, times, y = observed(6, 20, 0.05)
    kernel = unit_kernel("se", 0.3)
    whole = learn(Refit(), kernel, Markov(0.01), 0.05, X, times, y, all_of(y))
    monkeypatch.setattr("botorch_tv.learning.fit.NUMBERS", 1)
    X, times, y = X.view(2, 3, 20, 2), times.reshape(2, 3, 20), y.view(2, 3, 20)
    parts = learn(Refit(), kernel, Markov(0.01), 0.05, X, times, y, all_of(y))
    assert parts.decay.value("epsilon").shape == (2, 3)
    assert parts.kernel.batch_shape == (2, 3)
    torch.testing.assert_close(parts.vector.view(6, -1), whole.vector, rtol=1e-6, atol=1e-8)


def test_as_good_as_botorch_on_the_same_posterior():
    X, times, y = observed(1, 60, 0.05)
    spatial = get_covar_module_with_dim_scaled_prior(ard_num_dims=2).double()
    model = TimeVaryingGP(
        torch.cat([X[0], times[0, :, None]], -1),
        y[0, :, None],
        spatial_module=spatial,
        mean_module=ZeroMean(),
        outcome_transform=None,
        forgetting=Markov(0.01),
    )
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    noise = model.likelihood.noise.item()
    fit_gpytorch_mll(mll)
    mll.train()
    theirs = 60 * mll(model(*model.train_inputs), model.train_targets)
    kernel = get_covar_module_with_dim_scaled_prior(ard_num_dims=2).double()  # its prior counts
    learned = learn(Refit(), kernel, Markov(0.01), noise, X[0], times[0], y[0], all_of(y[0]))
    assert float(learned.log_posterior) >= float(theirs.detach()) - 1e-3
    if float(learned.log_posterior) < float(theirs.detach()) + 1e-2:  # the same maximum
        ours = learned.kernel.lengthscale.flatten()
        torch.testing.assert_close(ours, spatial.lengthscale.detach().flatten(), rtol=0.02, atol=0)
        epsilon = model.covar_module.temporal.epsilon.item()
        assert float(learned.decay.value("epsilon")) == pytest.approx(epsilon, rel=0.02, abs=1e-4)


def test_parameters_of_simulated_loops_return_within_their_error():
    X, times, y = observed(8, 120, 0.02)
    refit = Refit(epsilon=Free(prior=None), lengthscale=Free(prior=None), noise=Free(prior=None))
    learned = learn(refit, unit_kernel("se", 0.5), Markov(0.01), 0.1, X, times, y, all_of(y))
    found = {
        "epsilon": (learned.decay.value("epsilon"), 0.02, 0.3),
        "lengthscale": (learned.kernel.lengthscale.flatten(), 0.2, 0.2),
        "noise": (learned.noise, 0.02, 0.5),
    }
    for name, (values, truth, limit) in found.items():
        error = float(values.std()) / math.sqrt(len(values))
        assert error < limit * truth, name
        assert abs(float(values.mean()) - truth) < 3 * error, name


def test_fixed_hyperparameters_stay():
    X, times, y = observed(2, 30, 0.05)
    kernel = ScaleKernel(unit_kernel("matern52", 0.3)).double()
    kernel.outputscale = torch.tensor(1.4, dtype=torch.float64)
    refit = Refit(lengthscale=None, outputscale=None, noise=None)
    learned = learn(refit, kernel, Markov(0.01), 0.07, X, times, y, all_of(y))
    wanted = kernel(X).to_dense().detach()
    torch.testing.assert_close(learned.kernel(X).to_dense(), wanted, rtol=0, atol=1e-12)
    torch.testing.assert_close(learned.noise, torch.full((2,), 0.07, dtype=torch.float64))
    for epsilon in (0.25, 1.0):
        fixed = learn(Refit(epsilon=None), kernel, Markov(epsilon), 0.07, X, times, y, all_of(y))
        wanted = torch.full((2,), epsilon, dtype=torch.float64)
        torch.testing.assert_close(fixed.decay.value("epsilon"), wanted)


def test_a_warm_start_is_followed_and_never_worse():
    X, times, y = observed(3, 50, 0.05)
    kernel = unit_kernel("se", 0.9)
    first = learn(Refit(), kernel, Markov(0.3), 1.0, X, times, y, all_of(y))
    again = learn(Refit(), kernel, Markov(0.3), 1.0, X, times, y, all_of(y), start=first.vector)
    assert bool((again.log_posterior >= first.log_posterior - 1e-6).all())


def test_without_data_parameters_stay():
    X = torch.zeros(2, 0, 2, dtype=torch.float64)
    none = torch.zeros(2, 0, dtype=torch.float64)
    learned = learn(Refit(), unit_kernel("se", 0.3), Markov(0.2), 0.1, X, none, none, none.bool())
    torch.testing.assert_close(
        learned.decay.value("epsilon"), torch.full((2,), 0.2, dtype=torch.float64)
    )
    torch.testing.assert_close(learned.kernel.lengthscale, torch.full((2, 1, 1), 0.3).double())


def test_estimated_mean_of_shifted_data():
    X, times, y = observed(2, 40, 0.05)
    kernel = unit_kernel("se", 0.3)
    arguments = (Refit(), kernel, Markov(0.01), 0.05, X, times)
    low = learn(*arguments, y, all_of(y), estimates_mean=True)
    high = learn(*arguments, y + 100, all_of(y), estimates_mean=True)
    torch.testing.assert_close(low.vector, high.vector, rtol=1e-4, atol=1e-5)


def test_single_precision():
    X, times, y = observed(2, 30, 0.05)
    learned = learn(
        Refit(), unit_kernel("se", 0.3), Markov(0.01), 0.05, X.float(), times, y.float(), all_of(y)
    )
    assert {learned.noise.dtype, learned.kernel.dtype} == {torch.float32}
    of_time = {learned.vector.dtype, learned.decay.value("epsilon").dtype}
    assert of_time == {torch.float64}


def test_a_prior_decides_where_data_do_not():
    """[ET] cart-pole: Gamma(15, 10/3), whose mode is 4.2."""
    X, times, y = observed(1, 30, 0.05)
    refit = Refit(least=1, lengthscale=Free(prior=GammaPrior(15.0, 10 / 3)))
    learned = learn(refit, unit_kernel("se", 1.0), Markov(0.03), 0.02, X, times, 0 * y, ~all_of(y))
    assert float(learned.decay.value("epsilon")) == pytest.approx(0.03)  # nothing at all: all stay
    live = torch.arange(30) < 1
    learned = learn(
        refit, unit_kernel("se", 1.0), Markov(0.03), 0.02, X, times, 0 * y, live.expand(1, 30)
    )
    assert float(learned.kernel.lengthscale) == pytest.approx(4.2, rel=1e-2)


def test_inflated_noise_is_not_small_noise():
    """Where old rows are inflated a thousand times, their likelihood as noise says σ² = 0."""
    X, times, y = observed(4, 60, 0.0, noise=0.05)
    growth = torch.where(times < 40, 1000.0, 1.0)
    refit = Refit(lengthscale=None, noise=Free(prior=None))
    arguments = (refit, unit_kernel("se", 0.2), Static(), 0.05, X, times, y, all_of(y))
    counted = learn(*arguments, inflation=growth)
    taken = learn(*arguments, relative_noise=growth)
    recent = learn(*arguments[:-1], growth == 1)
    assert float(taken.noise.mean()) < 0.5 * float(recent.noise.mean())
    np.testing.assert_allclose(counted.noise.mean(), recent.noise.mean(), rtol=0.2)


X, TIMES, Y = observed(16, 20, 0.1, seed=3)


def few_rounds(refit=None, epsilon=0.003, start=None):
    kernel = unit_kernel("se", 0.3)
    decay = Markov(epsilon)
    return learn(refit or Refit(), kernel, decay, 0.02, X, TIMES, Y, all_of(Y), start=start)


def vector(lengthscale, noise, rate):
    entries = [math.log(lengthscale), 0.0, math.log(noise), math.log1p(rate / KNEE)]
    return torch.tensor(entries, dtype=torch.float64).expand(len(X), -1)


@pytest.mark.full
def test_a_first_fit_is_no_worse_than_any_rate_held_fixed():
    """From 0.003 alone, two of these loops end 0.2 below the best."""
    prior = scipy.stats.halfnorm(scale=0.25)
    fixed = [
        few_rounds(Refit(epsilon=None), epsilon).log_posterior.numpy() + prior.logpdf(epsilon)
        for epsilon in (1e-6, 0.003, 0.03, 0.1, 0.2, 0.4)
    ]
    best = np.max(fixed, axis=0)
    assert (few_rounds().log_posterior.numpy() >= best - 1e-3).all()


def test_a_bad_last_result_does_not_trap_a_later_fit():
    """From lengthscale 0.03 alone, a loop ends 4 below the search from the given values."""
    given = few_rounds(start=vector(0.3, 0.02, -math.log1p(-0.003)))
    later = few_rounds(start=vector(0.03, 0.02, 0.0))
    assert bool((later.log_posterior >= given.log_posterior - 1e-3).all())


def test_static_objectives_are_recognised():
    X, times, y = observed(3, 100, 0.0)
    refit, kernel = Refit(lengthscale=None, noise=None), unit_kernel("se", 0.2)
    learned = learn(refit, kernel, Markov(0.05), 0.02, X, times, y, all_of(y))
    assert float(learned.decay.value("epsilon").max()) < 1e-3
