"""Likelihoods of one's own are honoured or refused, by the factor as by a refit."""

import pytest
import torch
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.kernels import RBFKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from models.cases import assert_same, build, data, present

from botorch_tv.forgetting import Markov
from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel
from botorch_tv.models import TimeVaryingGP

X, Y = data(n=12)
KNOWN = 0.05 + 0.02 * torch.arange(12, dtype=torch.float64)


def additional(rows):
    """Known variances, and 0.3 learned besides."""
    likelihood = FixedNoiseGaussianLikelihood(KNOWN[:rows], learn_additional_noise=True).double()
    likelihood.second_noise = torch.tensor(0.3, dtype=torch.float64)
    return TimeVaryingGP(
        X[:rows],
        Y[:rows],
        likelihood=likelihood,
        forgetting=Markov(0.05),
        outcome_transform=None,
    )


@pytest.mark.parametrize("given", [True, False])
def test_noise_learned_besides_known_variances_is_that_of_a_refit(given):
    noise = KNOWN[8:, None] if given else None
    grown = additional(8).condition_on_observations(X[8:], Y[8:], noise=noise)
    expected = additional(12)
    if not given:
        expected.likelihood.noise_covar.noise[8:] = KNOWN[:8].mean()
    test_X = present(expected)
    assert_same(grown.posterior(test_X), expected.posterior(test_X))
    grown.train()
    grown.eval()
    assert_same(grown.posterior(test_X), expected.posterior(test_X))


def test_fantasies_are_as_noisy_as_they_were_drawn():
    model = additional(12)
    new = present(model, q=1)
    fantasy = model.fantasize(new, SobolQMCNormalSampler(torch.Size([2]), seed=0))
    expected = model.condition_on_observations(new, torch.zeros(1, 1, dtype=torch.float64))
    found = fantasy.posterior(new).variance[0]
    assert torch.allclose(found, expected.posterior(new).variance, rtol=0, atol=1e-12)


class Doubled(GaussianLikelihood):
    def marginal(self, function_dist, *args, **kwargs):
        return super().marginal(function_dist, *args, **kwargs)


class Called(GaussianLikelihood):
    def __call__(self, *args, **kwargs):
        return super().__call__(*args, **kwargs)


class Louder(GaussianLikelihood):
    def _shaped_noise_covar(self, base_shape, *params, **kwargs):
        return super()._shaped_noise_covar(base_shape, *params, **kwargs) * 4.0


@pytest.mark.parametrize("kind", [Doubled, Called])
def test_what_predictions_would_not_ask_is_refused(kind):
    with pytest.raises(ValueError, match=f"{kind.__name__} overrides .*_shaped_noise_covar"):
        TimeVaryingGP(X, Y, likelihood=kind())
    model = build("markov")
    model.likelihood = kind().double()
    with pytest.raises(ValueError, match=f"{kind.__name__} overrides"):
        model.posterior(X)


def test_noise_by_its_covariance_is_honoured():
    louder, plain = Louder().double(), GaussianLikelihood().double()
    louder.noise, plain.noise = 0.1, 0.4
    models = [
        TimeVaryingGP(X, Y, likelihood=one, outcome_transform=None) for one in (louder, plain)
    ]
    test_X = present(models[0])
    found, expected = (one.posterior(test_X) for one in models)
    assert_same(found, expected, atol=1e-7)
    found, expected = (
        one.condition_on_observations(X[:2] + 0.1, Y[:2]).posterior(test_X) for one in models
    )
    assert_same(found, expected, atol=1e-7)


def test_a_prior_by_forward_is_refused():
    class Own(TimeVaryingGP):
        def forward(self, x):
            return super().forward(x)

    with pytest.raises(ValueError, match=r"Own overrides forward.*mean_module"):
        Own(X, Y)


class Cubed(MarkovKernel):
    def forward(self, x1, x2, diag=False, last_dim_is_batch=False):
        return super().forward(x1, x2, diag, last_dim_is_batch) ** 3


def test_a_temporal_kernel_of_ones_own_is_not_taken_for_its_parent():
    """On a grid looked at again later, and by random features."""
    from botorch.exceptions import UnsupportedError
    from botorch.sampling.pathwise.features import gen_kernel_features

    kernel = SpatioTemporalKernel(RBFKernel(ard_num_dims=2), Cubed(0.1)).double()
    model = TimeVaryingGP(X, Y, covar_module=kernel, outcome_transform=None)
    grid = torch.rand(80, 3, dtype=torch.float64)
    for time in (30.0, 33.0):
        grid[:, 2] = time
        with torch.no_grad():
            found = model.posterior(grid.unsqueeze(1)).mean.squeeze()
        across = kernel(grid, X).to_dense()
        A = kernel(X).to_dense() + model.likelihood.noise * torch.eye(12)
        mean = model.mean_module.constant
        expected = mean + across @ torch.linalg.solve(A, Y.squeeze(-1) - mean)
        assert torch.allclose(found, expected, rtol=0, atol=1e-8)
    with pytest.raises(UnsupportedError, match="Cubed"):
        gen_kernel_features(kernel, num_inputs=3, num_outputs=64)
