"""Age noise wherever BoTorch asks a likelihood for noise."""

from functools import partial

import pytest
import torch
from botorch.cross_validation import batch_cross_validation, efficient_loo_cv, gen_loo_cv_folds
from botorch.exceptions import UnsupportedError
from botorch.sampling.pathwise import draw_kernel_feature_paths, draw_matheron_paths
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from models.cases import AGED, FORGETTINGS, assert_same, build, data, plain, present
from oracles.dense import noise_factor

from botorch_tv.forgetting import ExponentialWeights, Markov
from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel, WienerKernel
from botorch_tv.models import TimeVaryingGP
from botorch_tv.models.aging_gp import rates

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
    """Present and future observations have lag 0, past observations their own lag."""
    model = build(forgetting, fixed=fixed, now=20.0)
    test_X = present(model, q=4)
    test_X[:, -1] = torch.tensor([20.0, 23.0, 18.5, 5.0], dtype=torch.float64)
    plain = model.posterior(test_X).variance
    added = (model.posterior(test_X, observation_noise=True).variance - plain).squeeze(-1)
    factor = noise_factor(LAST[forgetting], [0.0, 0.0, 1.5, 15.0])
    base = (0.02 + 0.1 * data()[1].abs()).mean() if fixed else model.likelihood.noise
    expected = base.item() * torch.from_numpy(factor)
    assert torch.allclose(added, expected, rtol=1e-9)


@pytest.mark.parametrize("forgetting", AGED)
def test_noise_is_not_matched_by_shape(forgetting):
    """Noise is not matched by shape."""
    model = build(forgetting, fixed=True)
    test_X = present(model, q=12)
    plain = model.posterior(test_X).variance
    added = model.posterior(test_X, observation_noise=True).variance - plain
    assert torch.allclose(added, added[0].expand(12, 1), rtol=1e-9)


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
        without = plain(
            X[rest],
            Y[rest],
            Yvar[rest] if fixed else None,
            forgetting=FORGETTINGS[forgetting],
            now=20.0,
        )
        if "wiener" in forgetting:
            without.covar_module.temporal.origin.fill_(X[0, -1])
        posterior = without.posterior(X[row : row + 1])
        found = fast[False].posterior
        assert torch.allclose(found.mean[row], posterior.mean, rtol=0, atol=1e-9)
        assert torch.allclose(found.variance[row], posterior.variance, rtol=0, atol=1e-9)
        if not fixed:
            noisy = without.posterior(X[row : row + 1], observation_noise=True)
            assert torch.allclose(fast[True].posterior.variance[row], noisy.variance, rtol=1e-9)


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("forgetting", ["markov", "weights"])
def test_cross_validation_in_a_batch(forgetting, fixed):
    X, Y = data(n=7)
    folds = gen_loo_cv_folds(X, Y, 0.05 + 0 * Y if fixed else None)
    results = batch_cross_validation(
        TimeVaryingGP,
        ExactMarginalLogLikelihood,
        folds,
        fit_args={"optimizer_kwargs": {"options": {"maxiter": 1}}},
        observation_noise=True,
        model_init_kwargs={
            "forgetting": FORGETTINGS[forgetting],
            "now": 12.0,
            "outcome_transform": None,
        },
    )
    assert results.posterior.mean.shape == (7, 1, 1)
    assert results.model.now.item() == 12.0
    assert results.posterior.variance.isfinite().all()


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


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("forgetting", ["markov and weights", "weights"])
def test_pathwise_samples_of_a_batch(forgetting, m):
    torch.manual_seed(0)
    model = build(forgetting, m=m, batch=(3,))
    model.eval()
    test_X = present(model, q=6, batch=(3,))
    paths = draw_matheron_paths(model, torch.Size([500]))
    with torch.no_grad():
        samples = paths(test_X if m == 1 else test_X.unsqueeze(1)).view(500, 3, m, 6)
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
    from botorch.sampling.pathwise.features import gen_kernel_features

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


def test_listen_uses_the_unit_of_the_present_data():
    random = torch.Generator().manual_seed(0)
    arms = torch.rand(12, 2, dtype=torch.float64, generator=random)
    times = torch.arange(12, dtype=torch.float64).unsqueeze(-1)
    Y = torch.rand(12, 1, dtype=torch.float64, generator=random)
    model = TimeVaryingGP(torch.cat([arms, times], -1), Y, forgetting=Markov(0.1))
    model.set_train_data(torch.cat([arms, 10 * times], -1), Y.squeeze(-1))
    (part,) = rates(model)
    before = float(part.epsilon)
    model.listen()
    assert float(part.unit) == 10
    assert float(part.epsilon) == pytest.approx(before)


class Cubed(MarkovKernel):
    def forward(self, x1, x2, diag=False, last_dim_is_batch=False):
        return super().forward(x1, x2, diag, last_dim_is_batch) ** 3


class Own(SpatioTemporalKernel):
    pass


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (SpatioTemporalKernel(RBFKernel(), WienerKernel(0.1)), "WienerKernel"),
        (SpatioTemporalKernel(RBFKernel(), MarkovKernel(1.0)), "epsilon = 1"),
        (SpatioTemporalKernel(RBFKernel(), Cubed(0.1)), "Cubed"),
        (Own(RBFKernel(), MarkovKernel(0.1)), "Own"),
    ],
)
def test_kernels_without_features(kernel, message):
    from botorch.sampling.pathwise.features import gen_kernel_features

    with pytest.raises(UnsupportedError, match=message):
        gen_kernel_features(kernel.double(), num_inputs=3, num_outputs=64)
