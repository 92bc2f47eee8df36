"""Custom likelihoods are honoured or refused."""

import pytest
import torch
from botorch.sampling import SobolQMCNormalSampler
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from models.cases import assert_same, build, data, plain, present

from botorch_tv.forgetting import Markov
from botorch_tv.models import TimeVaryingGP

X, Y = data(n=12)
VARIANCES = 0.05 + 0.02 * torch.arange(12, dtype=torch.float64)


def additional(rows):
    """Given variances, and 0.3 learned in addition."""
    likelihood = FixedNoiseGaussianLikelihood(
        VARIANCES[:rows], learn_additional_noise=True
    ).double()
    likelihood.second_noise = torch.tensor(0.3, dtype=torch.float64)
    return plain(X[:rows], Y[:rows], likelihood=likelihood, forgetting=Markov(0.05))


@pytest.mark.parametrize("given", [True, False])
def test_additional_noise_equals_a_refit(given):
    noise = VARIANCES[8:, None] if given else None
    grown = additional(8).condition_on_observations(X[8:], Y[8:], noise=noise)
    expected = additional(12)
    if not given:
        expected.likelihood.noise_covar.noise[8:] = VARIANCES[:8].mean()
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


def test_noise_by_its_covariance_is_honoured():
    louder, usual = Louder().double(), GaussianLikelihood().double()
    louder.noise, usual.noise = 0.1, 0.4
    models = [plain(X, Y, likelihood=given) for given in (louder, usual)]
    test_X = present(models[0])
    found, expected = (model.posterior(test_X) for model in models)
    assert_same(found, expected, atol=1e-7)
    found, expected = (
        model.condition_on_observations(X[:2] + 0.1, Y[:2]).posterior(test_X) for model in models
    )
    assert_same(found, expected, atol=1e-7)


class Own(TimeVaryingGP):
    def forward(self, x):
        return super().forward(x)


def test_overrides_that_predictions_ignore_are_refused():
    for kind in (Doubled, Called):
        with pytest.raises(ValueError, match=f"{kind.__name__} overrides .*_shaped_noise_covar"):
            TimeVaryingGP(X, Y, likelihood=kind())
        model = build("markov")
        model.likelihood = kind().double()
        with pytest.raises(ValueError, match=f"{kind.__name__} overrides"):
            model.posterior(X)
    with pytest.raises(ValueError, match=r"Own overrides forward.*mean_module"):
        Own(X, Y)
