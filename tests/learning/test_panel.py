"""Panels: the Kronecker likelihood is GPyTorch's, and the parameters of simulated ones return."""

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from botorch.fit import fit_gpytorch_mll
from botorch.models.transforms import Normalize
from gpytorch.kernels import RBFKernel
from gpytorch.means import ZeroMean
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_tv.forgetting import ExponentialWeights, Markov, Static, Wiener
from botorch_tv.learning import PanelMarginalLogLikelihood, kronecker_log_likelihood
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation.panels import make_panel


def panel(times=6, sensors=4, batch=(), seed=0):
    """Rows of a panel in disorder of time, and readings."""
    generator = torch.Generator().manual_seed(seed)
    places = torch.rand(*batch, sensors, 2, generator=generator, dtype=torch.float64)
    when = torch.rand(*batch, times, generator=generator, dtype=torch.float64).cumsum(-1) * 5
    when = when[..., torch.randperm(times, generator=generator)]
    X = torch.cat(
        [
            places.unsqueeze(-3).expand(*batch, times, sensors, 2),
            when[..., None, None].expand(*batch, times, sensors, 1),
        ],
        -1,
    ).flatten(-3, -2)
    Y = torch.randn(*batch, times * sensors, 1, generator=generator, dtype=torch.float64)
    return X, Y


MODELS = {
    "markov": {"forgetting": Markov(0.1)},
    "wiener": {"forgetting": Wiener(0.1)},
    "static": {"forgetting": Static()},
    "transformed": {"input_transform": Normalize(d=3, indices=[0, 1])},
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("batch", [(), (3,)])
def test_value_and_gradient_are_those_of_gpytorch(name, batch):
    X, Y = panel(batch=batch)
    model = TimeVaryingGP(X, Y, **MODELS[name])
    model.train()
    found = []
    for kind in (ExactMarginalLogLikelihood, PanelMarginalLogLikelihood):
        mll = kind(model.likelihood, model)
        model.zero_grad()
        value = mll(model(*model.train_inputs), model.train_targets)
        value.sum().backward()
        found.append([value.detach(), *(one.grad.clone() for one in model.parameters())])
    for theirs, ours in zip(*found):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-10)


def test_known_noise_and_no_priors():
    X, Y = panel()
    model = TimeVaryingGP(X, Y, torch.full_like(Y, 0.3), outcome_transform=None).train()
    values = [
        kind(model.likelihood, model)(model(X), model.train_targets)
        for kind in (ExactMarginalLogLikelihood, PanelMarginalLogLikelihood)
    ]
    torch.testing.assert_close(values[0], values[1], rtol=1e-9, atol=0)


def test_gradients_survive_equal_eigenvalues():
    along = torch.eye(3, dtype=torch.float64, requires_grad=True)
    across = torch.ones(4, 4, dtype=torch.float64, requires_grad=True)
    noise = torch.tensor(0.2, dtype=torch.float64, requires_grad=True)
    readings = torch.randn(3, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

    def dense(along, across, noise):
        covariance = torch.kron(along, across) + noise * torch.eye(12, dtype=torch.float64)
        zero = torch.zeros(12, dtype=torch.float64)
        law = torch.distributions.MultivariateNormal(zero, covariance)
        return law.log_prob(readings.flatten())

    ours = kronecker_log_likelihood(along, across, noise, readings)
    theirs = dense(along, across, noise)
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-10)
    ours = torch.autograd.grad(ours, (along, across, noise))
    theirs = torch.autograd.grad(theirs, (along, across, noise))
    for one, other in zip(ours, theirs):
        symmetric = other if other.dim() == 0 else 0.5 * (other + other.mT)
        torch.testing.assert_close(one, symmetric, rtol=1e-9, atol=1e-10)


def test_no_number_for_one_panel_leaves_the_others_theirs():
    along = torch.eye(3, dtype=torch.float64)
    across = torch.eye(4, dtype=torch.float64).repeat(2, 1, 1)
    across[0, 0, 1] = torch.nan
    readings, noise = torch.ones(2, 3, 4).double(), torch.ones(2).double()
    found = kronecker_log_likelihood(along, across, noise, readings)
    assert bool(found[0].isnan())
    assert float(found[1]) == pytest.approx(-6 * np.log(2 * np.pi * 2) - 3)


def simulated(epsilon, seed):
    """20 sensors x 300 rounds, lengthscale 0.3 and noise 0.05, as rows."""
    record = make_panel(300, 20, epsilon=epsilon, cycle=0.0, gaps=0.0, seed=seed)
    places = np.broadcast_to(record.coordinates, (300, 20, 2))
    rounds = np.broadcast_to(np.arange(300.0)[:, None, None], (300, 20, 1))
    X = torch.from_numpy(np.concatenate([places, rounds], -1).reshape(6000, 3).copy())
    return X, torch.from_numpy(record.values.reshape(6000, 1).copy())


def test_all_hyperparameters_of_a_simulated_panel_return():
    X, Y = simulated(0.1, seed=0)
    model = TimeVaryingGP(
        X,
        Y,
        mean_module=ZeroMean(),
        outcome_transform=None,
        forgetting=Markov(0.01),
    )
    fit_gpytorch_mll(PanelMarginalLogLikelihood(model.likelihood, model))
    assert model.covar_module.temporal.epsilon.item() == pytest.approx(0.1, abs=0.015)
    assert model.covar_module.spatial.lengthscale.flatten().tolist() == pytest.approx(
        [0.3, 0.3], abs=0.02
    )
    assert model.likelihood.noise.item() == pytest.approx(0.05, abs=0.005)


def refused(match, X, Y, *noise, **options):
    model = TimeVaryingGP(X, Y, *noise, outcome_transform=None, **options)
    with pytest.raises(InputDataError, match=match):
        PanelMarginalLogLikelihood(model.likelihood, model)


@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
def test_what_is_no_panel_is_refused():
    X, Y = panel()
    refused("23 rows are no panel of 4", X[1:], Y[1:])
    swapped = X.clone()
    swapped[[0, 1], :2] = X[[1, 0], :2]
    refused("the same order", swapped, Y)
    refused("no SpatioTemporalKernel", X, Y, covar_module=RBFKernel())
    noise = torch.full_like(Y, 0.1)
    noise[3] = 0.5
    refused(r"train_Yvar goes from 0\.1 to 0\.5", X, Y, noise)
    refused("AgeNoiseLikelihood", X, Y, forgetting=ExponentialWeights(0.9))
