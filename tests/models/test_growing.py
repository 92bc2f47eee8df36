"""Conditioning on new observations equals a model of all data, at the cost of the new rows."""

import gc
import weakref

import pytest
import torch
from gpytorch.kernels import RBFKernel
from models.cases import AGED, FORGETTINGS, assert_same, build, data, plain, present

from botorch_tv.forgetting import ExponentialWeights, Markov
from botorch_tv.models import TimeVaryingGP


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("forgetting", FORGETTINGS)
@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_equals_a_refit(forgetting, fixed, m, batch):
    full = build(forgetting, fixed=fixed, m=m, batch=batch)
    X, Y = data(m=m, batch=batch)
    Yvar = 0.02 + 0.1 * Y.abs()
    grown = plain(
        X[..., :6, :],
        Y[..., :6, :],
        Yvar[..., :6, :] if fixed else None,
        forgetting=FORGETTINGS[forgetting],
    )
    before = grown.posterior(present(full))
    first = grown
    for rows in (slice(6, 7), slice(7, 10), slice(10, 12)):
        noise = Yvar[..., rows, :] if fixed else None
        grown = grown.condition_on_observations(X[..., rows, :], Y[..., rows, :], noise)
    assert grown.batch_shape == full.batch_shape
    assert torch.equal(grown.train_targets, full.train_targets)
    for noise in (False, True) if not fixed else (False,):
        ours = grown.posterior(present(full), observation_noise=noise)
        assert_same(ours, full.posterior(present(full), observation_noise=noise), atol=1e-11)
    # Without its factor the grown model equals a new model, including noise.
    grown.set_now(None)
    assert_same(grown.posterior(present(full)), full.posterior(present(full)), atol=1e-11)
    assert_same(first.posterior(present(full)), before, atol=0)


@pytest.mark.parametrize("n", [120, pytest.param(1_000, marks=pytest.mark.slow)])
def test_many_chained_calls(n):
    """Factor and predictions equal those of a refit, and no parent stays in memory."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n + 1, 3, dtype=torch.float64, generator=generator)
    X[:, 2] = torch.arange(n + 1) * 0.1
    Y = torch.sin(5 * X[:, :1]) * torch.cos(0.2 * X[:, 2:])
    spatial = RBFKernel().double()
    spatial.lengthscale = torch.tensor(0.3, dtype=torch.float64)
    options = {
        "forgetting": FORGETTINGS["markov and weights"],
        "now": 120.0,
        "spatial_module": spatial,
        "outcome_transform": None,
    }
    model = TimeVaryingGP(X[:1], Y[:1], **options)
    model.posterior(X[:1])
    links = []
    for row in range(1, n + 1):
        child = model.condition_on_observations(X[row : row + 1], Y[row : row + 1])
        if row > n - 3:
            links.append(weakref.ref(model))
        assert child.prediction_strategy.triangle.grad_fn is None
        assert not child.prediction_strategy.attached
        model = child
    gc.collect()
    assert not any(link() for link in links), "a parent outlives its child"
    held = model.prediction_strategy
    assert held.triangle.shape == (n + 1, n + 1)
    assert held.triangle.untyped_storage().nbytes() == 8 * (n + 1) ** 2
    refit = TimeVaryingGP(X, Y, **options)
    test_X = torch.rand(50, 3, dtype=torch.float64, generator=generator)
    test_X[:, 2] = 110.0
    assert_same(model.posterior(test_X), refit.posterior(test_X), atol=1e-10)
    factor = refit.prediction_strategy.triangle
    assert torch.allclose(held.triangle, factor, rtol=0, atol=1e-10)


def test_no_call_factors_the_old_rows_again(monkeypatch):
    """With a fixed now, the largest matrix factored in a call has the size of the new rows."""
    from botorch_tv.gp import cholesky

    sizes = []
    plain = cholesky.psd_safe_cholesky

    def counted(matrix, **options):
        sizes.append(matrix.shape[-1])
        return plain(matrix, **options)

    monkeypatch.setattr(cholesky, "psd_safe_cholesky", counted)
    X, Y = data(n=30)
    for forgetting, now in ((Markov(0.1), None), (ExponentialWeights(0.9), 100.0)):
        model = TimeVaryingGP(X[:20], Y[:20], forgetting=forgetting, now=now)
        model.posterior(X[:2])
        assert sizes == [20]
        sizes.clear()
        for row in range(20, 30, 2):
            model = model.condition_on_observations(X[row : row + 2], Y[row : row + 2])
            model.posterior(X[:2])
        assert sizes == [2] * 5
        sizes.clear()


@pytest.mark.parametrize("forgetting", ["markov", "weights"])
def test_observations_out_of_order(forgetting):
    X, Y = data(n=10)
    order = [0, 1, 2, 3, 5, 6, 7, 9, 8, 4]
    full = plain(X, Y, forgetting=FORGETTINGS[forgetting])
    grown = plain(X[order[:8]], Y[order[:8]], forgetting=FORGETTINGS[forgetting])
    for row in order[8:]:
        grown = grown.condition_on_observations(X[row : row + 1], Y[row : row + 1])
    assert_same(grown.posterior(present(full)), full.posterior(present(full)))


@pytest.mark.parametrize("forgetting", FORGETTINGS)
def test_alternatives_at_the_same_inputs_share_the_factor(forgetting):
    model = build(forgetting, n=10)
    new = present(model, q=2)
    answers = torch.randn(4, 2, 1, dtype=torch.float64)
    grown = model.condition_on_observations(new, answers)
    assert grown.batch_shape == torch.Size([4])
    assert grown.prediction_strategy.triangle.shape == (12, 12)
    test_X = present(model)
    posterior = grown.posterior(test_X)
    assert posterior.mean.shape == (4, 5, 1)
    for k in range(4):
        alone = model.condition_on_observations(new, answers[k]).posterior(test_X)
        assert torch.allclose(posterior.mean[k], alone.mean, rtol=0, atol=1e-12)
        assert torch.allclose(posterior.variance[k], alone.variance, rtol=0, atol=1e-12)
    again = grown.condition_on_observations(test_X[:1], torch.zeros(4, 1, 1).double())
    assert again.posterior(test_X).mean.shape == (4, 5, 1)


@pytest.mark.parametrize("m", [1, 2])
def test_inputs_per_member_of_a_batch(m):
    model = build(m=m)
    new = present(model, q=2, batch=(3,))
    answers = torch.randn(4, 3, 2, m, dtype=torch.float64)
    grown = model.condition_on_observations(new, answers)
    assert grown.batch_shape == torch.Size([4, 3])
    test_X = present(model)
    posterior = grown.posterior(test_X)
    assert posterior.mean.shape == (4, 3, 5, m)
    alone = model.condition_on_observations(new[1], answers[2, 1]).posterior(test_X)
    assert torch.allclose(posterior.mean[2, 1], alone.mean, rtol=0, atol=1e-12)
    assert torch.allclose(posterior.variance[2, 1], alone.variance, rtol=0, atol=1e-12)


def test_gradients_reach_new_inputs_and_answers():
    """As the knowledge gradient needs them; against finite differences."""
    model = build("markov and weights", now=20.0)
    test_X = present(model)

    def value(X, Y):
        posterior = model.condition_on_observations(X, Y).posterior(test_X)
        return posterior.mean.sum() + posterior.variance.sum()

    new = present(model, q=2, seed=5)
    new[..., -1] = 18.0
    new, answers = new.requires_grad_(), torch.randn(2, 1, dtype=torch.float64).requires_grad_()
    assert torch.autograd.gradcheck(value, (new, answers))
    assert model.prediction_strategy.triangle.grad_fn is None


@pytest.mark.parametrize("m", [1, 2])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_given_noise_counts_in_a_fit(m, batch):
    """The marginal likelihood uses given variances instead of the learned noise."""
    X, Y = data(m=m, batch=batch)
    noise = 0.02 + Y[..., 8:, :].abs()
    model = plain(X[..., :8, :], Y[..., :8, :], forgetting=Markov(0.1)).condition_on_observations(
        X[..., 8:, :], Y[..., 8:, :], noise
    )
    model.likelihood.noise = 0.3
    model.train()
    (inputs,) = model.train_inputs
    found = model.likelihood(model(inputs), inputs).log_prob(model.train_targets)
    learned = model.likelihood.noise.detach().flatten()[0].requires_grad_()
    fixed = torch.cat([learned.expand_as(Y[..., :8, :]), noise], -2)
    fixed = fixed.mT if m > 1 else fixed.squeeze(-1)
    covariance = model.covar_module(inputs).to_dense() + torch.diag_embed(fixed)
    textbook = torch.distributions.MultivariateNormal(model.mean_module(inputs), covariance)
    expected = textbook.log_prob(model.train_targets)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-9)
    (slope,) = torch.autograd.grad(found.sum(), model.likelihood.raw_noise)
    torch.testing.assert_close(slope.sum(), torch.autograd.grad(expected.sum(), learned)[0])


def test_a_model_in_training_mode_can_be_conditioned():
    X, Y = data(n=8)
    model = TimeVaryingGP(X[:7], Y[:7])
    scale = model.outcome_transform.stdvs.clone()
    model.train()
    grown = model.condition_on_observations(X[7:], Y[7:])
    assert torch.equal(grown.outcome_transform.stdvs, scale)
    assert torch.equal(model.outcome_transform.stdvs, scale)


@pytest.mark.parametrize("forgetting", AGED)
def test_set_now(forgetting):
    model = build(forgetting)
    test_X = present(model)
    test_X[..., -1] = 40.0
    before = model.posterior(test_X)
    model.set_now(40.0)
    after = model.posterior(test_X)
    assert (after.variance > before.variance).all()
    with pytest.raises(AttributeError):
        model.now = 50.0
    model.set_now(None)
    assert_same(model.posterior(test_X), before, atol=0)
