"""Posteriors against dense NumPy, and age noise wherever BoTorch asks a likelihood for noise."""

from functools import partial

import numpy as np
import pytest
import torch
from botorch.cross_validation import efficient_loo_cv
from botorch.exceptions import UnsupportedError
from botorch.models import SingleTaskGP
from botorch.sampling import SobolQMCNormalSampler
from botorch.sampling.pathwise import draw_kernel_feature_paths, draw_matheron_paths
from botorch.sampling.pathwise.features import gen_kernel_features
from conformance.user_parts import HalfLife, Seasonal, Settling
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from models.cases import AGED, FORGETTINGS, assert_same, build, data, plain, present
from oracles.dense import joint_regression, noise_factor, squared_exponential

from botorch_tv.forgetting import ExponentialWeights, Markov, Static, UncertaintyInjection, Wiener
from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel, WienerKernel
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation.rivals import unit_kernel

pytestmark = pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
LAST = {
    "weights": ("exponential", 0.9),
    "injection": ("injection", 0.7, 0.5),
    "markov and weights": ("exponential", 0.9),
    "wiener and injection": ("injection", 1.5, 0.1),
}


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("forgetting", AGED)
def test_noise_of_predicted_measurements(forgetting, fixed):
    """Present and future observations have lag 0, past observations their own lag.

    There are as many points as rows, and none has the noise of its row.
    """
    model = build(forgetting, fixed=fixed, now=20.0)
    test_X = present(model, q=12)
    test_X[:, -1] = torch.tensor([20.0, 23.0, 18.5, 5.0] * 3, dtype=torch.float64)
    plain = model.posterior(test_X).variance
    added = (model.posterior(test_X, observation_noise=True).variance - plain).squeeze(-1)
    factor = noise_factor(LAST[forgetting], [0.0, 0.0, 1.5, 15.0] * 3)
    base = (0.02 + 0.1 * data()[1].abs()).mean() if fixed else model.likelihood.noise
    expected = base.item() * torch.from_numpy(factor)
    assert torch.allclose(added, expected, rtol=1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize("forgetting", AGED)
@pytest.mark.parametrize("fixed", [False, True])
def test_leave_one_out_equals_a_model_without_the_row(forgetting, fixed):
    model = build(forgetting, fixed=fixed, now=20.0)
    X, Y = data()
    Yvar = 0.02 + 0.1 * Y.abs() if fixed else None
    model.eval()
    fast = {noise: efficient_loo_cv(model, observation_noise=noise) for noise in (False, True)}
    for row in range(12):
        rest = [other for other in range(12) if other != row]
        others = (X[rest], Y[rest], Yvar[rest] if fixed else None)
        without = plain(*others, forgetting=FORGETTINGS[forgetting], now=20.0)
        if "wiener" in forgetting:
            without.covar_module.temporal.origin.fill_(X[0, -1])
        posterior = without.posterior(X[row : row + 1])
        found = fast[False].posterior
        assert torch.allclose(found.mean[row], posterior.mean, rtol=0, atol=1e-9)
        assert torch.allclose(found.variance[row], posterior.variance, rtol=0, atol=1e-9)
        if not fixed:
            noisy = without.posterior(X[row : row + 1], observation_noise=True)
            assert torch.allclose(fast[True].posterior.variance[row], noisy.variance, rtol=1e-9)


@pytest.mark.few(2)
@pytest.mark.parametrize("forgetting", ["static", "markov", "weights", "markov and weights"])
def test_pathwise_samples_have_the_moments_of_the_posterior(forgetting):
    """Their update asks for noise without inputs. Within 4 standard errors of 1,000 paths,
    and the error of the features."""
    torch.manual_seed(0)
    model = build(forgetting, now=20.0)
    model.eval()
    test_X = present(model, q=6)
    prior = partial(draw_kernel_feature_paths, num_features=2**11)
    with torch.no_grad():
        paths = draw_matheron_paths(model, torch.Size([1_000]), prior_sampler=prior)
        samples, posterior = paths(test_X), model.posterior(test_X)
    mean, variance = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)
    error = (variance / 1_000).sqrt()
    assert ((samples.mean(0) - mean).abs() < 4 * error + 0.01).all()
    assert ((samples.var(0) / variance - 1).abs() < 4 * (2 / 1_000) ** 0.5 + 0.05).all()


@pytest.mark.full
def test_pathwise_samples_of_a_batch():
    torch.manual_seed(0)
    model = build("markov and weights", m=2, batch=(3,))
    model.eval()
    test_X = present(model, q=6, batch=(3,))
    paths = draw_matheron_paths(model, torch.Size([500]))
    with torch.no_grad():
        samples = paths(test_X.unsqueeze(1)).view(500, 3, 2, 6)
        posterior = model.posterior(test_X)
    gap = samples.mean(0).mT - posterior.mean
    assert (gap.abs() < 4 * (posterior.variance / 500).sqrt() + 0.02).all()


@pytest.mark.parametrize(
    "spatial",
    [
        RBFKernel(ard_num_dims=2),
        ScaleKernel(MaternKernel(2.5, ard_num_dims=2)),
        RBFKernel(active_dims=(1,)),
    ],
)
@pytest.mark.parametrize("epsilon", [0.0, 0.1])
@pytest.mark.parametrize("columns", [None, (3, 0, 1)])
def test_features_have_the_covariance_of_the_kernel(spatial, epsilon, columns):
    """phi(x)' phi(x') over 16,384 random frequencies, time in the middle column."""
    torch.manual_seed(0)
    kernel = SpatioTemporalKernel(spatial, MarkovKernel(epsilon), 1, active_dims=columns).double()
    X = torch.rand(12, 3 if columns is None else 4, dtype=torch.float64)
    X[:, 1 if columns is None else 0] *= 10
    features = gen_kernel_features(kernel, num_inputs=X.shape[-1], num_outputs=2**15)
    approximate = features(X) @ features(X).mT
    error = (approximate - kernel(X).to_dense()).abs().max().item()
    assert error < 4 / 2**7


def test_new_training_data_have_their_own_ages():
    X, Y = data(n=14)
    model = plain(X[:6], Y[:6], forgetting=ExponentialWeights(0.8))
    model.posterior(X)
    model.set_train_data(X, Y.squeeze(-1), strict=False)
    full = plain(X, Y, forgetting=ExponentialWeights(0.8))
    assert_same(model.posterior(X + 1), full.posterior(X + 1))


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (SpatioTemporalKernel(RBFKernel(), WienerKernel(0.1)), "WienerKernel"),
        (SpatioTemporalKernel(RBFKernel(), MarkovKernel(1.0)), "epsilon = 1"),
    ],
)
def test_kernels_without_features(kernel, message):
    with pytest.raises(UnsupportedError, match=message):
        gen_kernel_features(kernel.double(), num_inputs=3, num_outputs=64)


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


class OwnForward(TimeVaryingGP):
    def forward(self, x):
        return super().forward(x)


def test_overrides_that_predictions_ignore_are_refused():
    with pytest.raises(ValueError, match=r"Called overrides .*_shaped_noise_covar"):
        TimeVaryingGP(X, Y, likelihood=Called())
    model = build("markov")
    model.likelihood = Called().double()
    with pytest.raises(ValueError, match="Called overrides"):
        model.posterior(X)
    with pytest.raises(ValueError, match=r"OwnForward overrides forward.*mean_module"):
        OwnForward(X, Y)


NOISE = 0.04
DECAYS = [
    (Static(), ("static",)),
    (Markov(0.08), ("markov", 0.08)),
    (Markov(1.0), ("markov", 1.0)),
    (Wiener(0.1), ("wiener", 0.1)),
    (Seasonal(0.05, 6.2832 / 0.6), ("quasi-periodic", 0.05, 0.6)),
    (Settling(0.2), ("damped", 0.2, 3.0)),
]
INFLATIONS = [
    (Static(), ("constant",)),
    (ExponentialWeights(0.9), ("exponential", 0.9)),
    (UncertaintyInjection(0.7, kappa=0.5), ("injection", 0.7, 0.5)),
    (HalfLife(7.0), ("exponential", 0.5 ** (1 / 7))),
]


def double(value):
    """GPyTorch's setters take plain numbers through float32."""
    return torch.tensor(value, dtype=torch.float64)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("inflation", INFLATIONS, ids=lambda part: repr(part[0]))
@pytest.mark.parametrize("decay", DECAYS, ids=lambda part: repr(part[0]))
def test_equals_the_textbook(decay, inflation, fixed):
    """Two trials at different presents, two outputs, a prior mean and uneven times."""
    X, Y = data(n=10, m=2, batch=(2,))
    Yvar = 0.02 + 0.1 * Y.abs()
    now = X[..., -1].amax(-1) + torch.tensor([0.0, 3.5], dtype=torch.float64)
    options = {
        "forgetting": (decay[0], inflation[0]),
        "now": now,
        "spatial_module": unit_kernel("se", 0.4),
    }
    model = plain(X, Y, Yvar if fixed else None, **options)
    model.mean_module.constant = double(0.3)
    if not fixed:
        model.likelihood.noise = double(NOISE)
    generator = torch.Generator().manual_seed(3)
    test_X = torch.rand(2, 6, 3, dtype=torch.float64, generator=generator)
    test_X[..., -1] = (now + 0.75).unsqueeze(-1)
    posterior = model.posterior(test_X)
    covariance = posterior.distribution.covariance_matrix.detach()
    for trial in range(2):
        arms = torch.cat([X[trial], test_X[trial]])[:, :2]
        K = squared_exponential(arms.numpy(), 0.4)
        for output in range(2):
            mean, expected = joint_regression(
                K,
                range(10),
                X[trial, :, -1].tolist(),
                Y[trial, :, output].tolist(),
                test_X[trial, 0, -1].item(),
                noise=Yvar[trial, :, output].numpy() if fixed else NOISE,
                decay=decay[1],
                inflation=inflation[1],
                reference=now[trial].item(),
                origin=X[trial, 0, -1].item(),
                mean=0.3,
            )
            found = posterior.mean[trial, :, output].detach().numpy()
            np.testing.assert_allclose(found, mean[10:], rtol=0, atol=1e-10)
            rows = slice(6 * output, 6 * output + 6)  # outputs are consecutive
            block = covariance[trial, rows, rows].numpy()
            np.testing.assert_allclose(block, expected[10:, 10:], rtol=0, atol=1e-10)


def test_without_forgetting_it_is_botorchs_own():
    """The same kernel, mean and noise in a ``SingleTaskGP`` on the other columns."""
    X, Y = data(n=20)
    ours = TimeVaryingGP(X, Y, forgetting=Static())
    theirs = SingleTaskGP(X[:, :2], Y)
    test_X = torch.rand(3, 7, 3, dtype=torch.float64)
    for noise in (False, True):
        a = ours.posterior(test_X, observation_noise=noise)
        b = theirs.posterior(test_X[..., :2], observation_noise=noise)
        assert torch.allclose(a.mean, b.mean, rtol=0, atol=1e-9)
        assert torch.allclose(a.variance, b.variance, rtol=0, atol=1e-9)


def test_many_points_at_once_equal_single_points():
    """Beyond 512 the covariance is lazy; as a batch of single points it is a solve of columns."""
    X, Y = data(n=15)
    model = TimeVaryingGP(X, Y)
    test_X = torch.rand(600, 3, dtype=torch.float64) * torch.tensor([1.0, 1.0, 20.0])
    together, apart = model.posterior(test_X), model.posterior(test_X.unsqueeze(1))
    assert torch.allclose(together.mean, apart.mean.squeeze(1), rtol=0, atol=1e-12)
    assert torch.allclose(together.variance, apart.variance.squeeze(1), rtol=0, atol=1e-12)
    pairs = model.posterior(test_X.view(300, 2, 3))
    assert torch.allclose(together.mean, pairs.mean.view(600, 1), rtol=0, atol=1e-12)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("forgetting", [Markov(0.1), Wiener(0.1), ExponentialWeights(0.5)])
def test_no_data_and_one_observation(n, forgetting):
    X, Y = data(n=max(n, 2))
    model = plain(X[:n], Y[:n], forgetting=forgetting)
    test_X = X[:2].clone()
    posterior = model.posterior(test_X, observation_noise=True)
    assert posterior.mean.isfinite().all()
    assert (posterior.variance > 0).all()
    grown = model.condition_on_observations(X[n : n + 1], Y[n : n + 1])
    assert grown.train_targets.shape == (n + 1,)
    assert grown.posterior(test_X).variance.isfinite().all()
    if n == 0:
        noise = model.likelihood.noise.item()
        assert posterior.mean.abs().max().item() == 0
        if not isinstance(forgetting, Wiener):
            assert torch.allclose(posterior.variance, torch.tensor(1.0 + noise).double())
