"""Conditioning on new rows, saved states, and the factor: equal to a model of all data."""

import copy
import gc
import weakref

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from gpytorch.kernels import RBFKernel
from gpytorch.utils.warnings import GPInputWarning
from models.cases import AGED, FORGETTINGS, assert_same, build, data, plain, present, regression

from botorch_tv.acquisition.present import at_present
from botorch_tv.forgetting import ExponentialWeights, Markov
from botorch_tv.gp import cholesky
from botorch_tv.models import TimeVaryingGP
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, tv_gp_ucb

pytestmark = pytest.mark.filterwarnings("ignore::gpytorch.utils.warnings.GPInputWarning")


@pytest.mark.few(14)
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("forgetting", FORGETTINGS)
@pytest.mark.parametrize(("batch", "m"), [((), 1), ((), 2), ((3,), 2)])
def test_equals_a_refit(forgetting, fixed, m, batch):
    full = build(forgetting, fixed=fixed, m=m, batch=batch)
    X, Y = data(m=m, batch=batch)
    Yvar = 0.02 + 0.1 * Y.abs()
    noise = Yvar[..., :6, :] if fixed else None
    grown = plain(X[..., :6, :], Y[..., :6, :], noise, forgetting=FORGETTINGS[forgetting])
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


@pytest.mark.full
@pytest.mark.parametrize("n", [60, pytest.param(1_000, marks=pytest.mark.slow)])
def test_many_chained_calls(n):
    """Factor and predictions equal those of a refit, and no parent stays in memory."""
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(n + 1, 3, dtype=torch.float64, generator=generator)
    X[:, 2] = torch.arange(n + 1) * 0.1
    Y = torch.sin(5 * X[:, :1]) * torch.cos(0.2 * X[:, 2:])
    options = {"forgetting": FORGETTINGS["markov and weights"], "now": 120.0}
    options["spatial_module"] = unit_kernel("se", 0.3)
    model = plain(X[:1], Y[:1], **options)
    model.posterior(X[:1])
    for row in range(1, n + 1):
        link = weakref.ref(model)
        model = model.condition_on_observations(X[row : row + 1], Y[row : row + 1])
        assert model.prediction_strategy.triangle.grad_fn is None
    gc.collect()
    assert link() is None, "a parent outlives its child"
    held = model.prediction_strategy
    assert held.triangle.shape == (n + 1, n + 1)
    assert held.triangle.untyped_storage().nbytes() == 8 * (n + 1) ** 2
    refit = plain(X, Y, **options)
    test_X = torch.rand(50, 3, dtype=torch.float64, generator=generator)
    test_X[:, 2] = 110.0
    assert_same(model.posterior(test_X), refit.posterior(test_X), atol=1e-10)
    assert torch.allclose(held.triangle, refit.prediction_strategy.triangle, rtol=0, atol=1e-10)


def test_no_call_factors_the_old_rows_again(monkeypatch):
    """With a fixed now, the largest matrix factored in a call has the size of the new rows."""
    sizes, usual = [], cholesky.psd_safe_cholesky

    def counted(matrix, **options):
        sizes.append(matrix.shape[-1])
        return usual(matrix, **options)

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


@pytest.mark.parametrize("forgetting", ["markov", "wiener", "weights"])
def test_observations_out_of_order(forgetting):
    """The earliest row is not the first, and a walk begins at it."""
    X, Y = data(n=10)
    order = [1, 2, 0, 3, 5, 6, 7, 9, 8, 4]
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
    assert (model.posterior(test_X).variance > before.variance).all()
    with pytest.raises(AttributeError):
        model.now = 50.0
    model.set_now(None)
    assert_same(model.posterior(test_X), before, atol=0)


NEW_X = data(n=15)[0][12:]
FIRST, SECOND = (torch.full((3, 1), value, dtype=torch.float64) for value in (0.7, -1.1))


def tensors(model):
    """Every tensor that a model predicts from, its factor included."""
    found = [*model.state_dict(keep_vars=True).values(), *model.train_inputs, model.train_targets]
    covar = getattr(model.likelihood, "noise_covar", None)
    for name in ("train_X", "row_noise", "noise"):
        found.append(getattr(covar, name, None))
    found.append(model._row_noise)
    factor = model.prediction_strategy
    if factor is not None:
        found += [factor.inputs, factor.scale, factor.triangle, factor.whitened]
    return [item for item in found if isinstance(item, torch.Tensor) and item.numel()]


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("forgetting", ["markov", "wiener", *AGED])
def test_relatives_are_independent(forgetting, fixed):
    """Overwrite every tensor of a child in place; its sibling and parent do not change."""
    parent = build(forgetting, fixed=fixed, now=40.0)
    X = present(parent)
    noise = {"noise": 0.3 * torch.ones_like(FIRST)} if fixed else {}
    before = parent.posterior(X)
    first = parent.condition_on_observations(NEW_X, FIRST, **noise)
    second = parent.condition_on_observations(NEW_X, SECOND, **noise)
    assert_same(parent.posterior(X), before, atol=0)
    alone = copy.deepcopy(parent).condition_on_observations(NEW_X, FIRST, **noise)
    assert_same(first.posterior(X), alone.posterior(X), atol=1e-10)
    expected_first = first.posterior(X)
    with torch.no_grad():
        for tensor in tensors(second):
            tensor.fill_(0.5)
    assert_same(first.posterior(X), expected_first, atol=0)
    assert_same(parent.posterior(X), before, atol=0)
    for model, expected in ((first, expected_first), (parent, before)):
        model.train()
        model.eval()  # the factor is recomputed
        assert model.prediction_strategy is None
        assert_same(model.posterior(X), expected, atol=1e-9)


@pytest.mark.parametrize("chain", [(True, False, True), (False, True, False)])
@pytest.mark.parametrize("batch", [(), (2,)])
def test_given_and_learned_noise(chain, batch):
    """Dense regression against the grown factor and a recomputed factor."""
    model = build("markov", batch=batch, n=9)
    X, Y = data(n=16, batch=batch)
    X, Y = X[..., 9:, :] + torch.tensor([0.0, 0.0, 20.0]), Y[..., 9:, :]
    learned = model.likelihood.noise.detach()
    variance = [learned.expand(*batch, 9)]
    start = 0
    for q, given in zip((2, 1, 4), chain):
        rows = slice(start, start + q)
        noise = torch.full((*batch, q, 1), 0.05 * q, dtype=X.dtype) if given else None
        model = model.condition_on_observations(X[..., rows, :], Y[..., rows, :], noise=noise)
        variance.append(noise.squeeze(-1) if given else learned.expand(*batch, q))
        start += q
    at = present(model, batch=batch)
    with torch.no_grad():
        mean, spread = regression(model, model.train_inputs[0], at, torch.cat(variance, -1))
        for _ in range(2):
            posterior = model.posterior(at)
            torch.testing.assert_close(posterior.mean.squeeze(-1), mean, rtol=0, atol=1e-9)
            torch.testing.assert_close(posterior.variance.squeeze(-1), spread, rtol=0, atol=1e-9)
            model.train()
            model.eval()


def changed_by_step(model):
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.03)


def loaded(model):
    other = copy.deepcopy(model)
    changed_by_step(other)
    model.load_state_dict(other.state_dict())


@pytest.mark.parametrize(("change", "trains"), [(changed_by_step, True), (loaded, False)])
@pytest.mark.parametrize("forgetting", ["markov", "weights"])
@pytest.mark.parametrize("grown", [False, True])
def test_changed_parameters_are_seen_after_train_and_loading(change, trains, forgetting, grown):
    model = build(forgetting)
    test_X = present(model)
    if grown:
        zero = torch.zeros(1, 1, dtype=torch.float64)
        model = model.condition_on_observations(test_X[:1], zero)
    before = model.posterior(test_X).variance
    factor = model.prediction_strategy
    model.posterior(test_X)
    assert model.prediction_strategy is factor
    change(model)
    if trains:
        model.train()
    fresh = copy.deepcopy(model)  # copies compute their own
    assert_same(model.posterior(test_X), fresh.posterior(test_X), atol=1e-12)
    assert not torch.allclose(model.posterior(test_X).variance, before)


def test_a_warning_where_a_loss_needs_the_prior():
    model = build("markov").eval()
    with pytest.warns(GPInputWarning, match=r"forget to call model.train\(\)"):
        model(*model.train_inputs)


def test_the_clock_of_the_caller_may_change_in_place():
    clock = torch.tensor(20.0, dtype=torch.float64)
    model = build("weights", now=clock)
    likelihood = model.likelihood
    bound = at_present(UpperConfidenceBound(model, 4.0), now=clock)
    strategy = tv_gp_ucb(kernel=RBFKernel().double(), noise=0.02, epsilon=0.1)
    state = strategy.init(Box([(0.0, 1.0)]))
    state, _ = strategy.tell(state, strategy.ask(state), 1.0)
    posterior_model = strategy.as_model(state, now=clock)
    X = torch.tensor([[[0.2, 0.7]]], dtype=torch.float64)

    def values():
        model.train()
        model.eval()
        return bound(X).detach(), posterior_model.posterior(X[..., :1]).mean, likelihood.now.clone()

    before = values()
    clock += 5.0
    assert all(map(torch.equal, before, values()))
    likelihood.set_now(clock)
    clock += 5.0
    assert likelihood.now.item() == 25.0


@pytest.mark.parametrize("transform", [True, False])
@pytest.mark.parametrize("forgetting", ["markov", "markov and weights", "injection"])
def test_the_present_is_restored(forgetting, transform):
    options = {} if transform else {"outcome_transform": None}
    X, Y = data()
    saved = TimeVaryingGP(X, Y, forgetting=FORGETTINGS[forgetting], now=30.0, **options)
    loaded = TimeVaryingGP(X, Y, forgetting=FORGETTINGS[forgetting], **options)
    loaded.posterior(X)
    with torch.no_grad():
        for parameter in saved.covar_module.spatial.parameters():
            parameter.add_(0.3)
    loaded.load_state_dict(saved.state_dict())
    assert loaded.now.item() == 30.0
    test_X = present(saved)
    for noise in (False, True):
        expected = saved.posterior(test_X, observation_noise=noise)
        assert_same(loaded.posterior(test_X, observation_noise=noise), expected, atol=1e-12)
    fewer = TimeVaryingGP(X[:5], Y[:5], forgetting=FORGETTINGS[forgetting], **options)
    fewer.load_state_dict(saved.state_dict())
    assert fewer.now.item() == 30.0


def test_a_present_that_follows_the_data_is_not_saved():
    model = build("weights")
    assert "now" not in model.state_dict()
    other = build("weights", now=50.0)
    other.load_state_dict(model.state_dict())
    assert other.now.item() == 50.0


def test_loading_never_moves_time_back():
    """Parameters of the last round are loaded onto newer data."""
    saved = build("weights", n=12, now=20.0).state_dict()
    X, Y = data(n=30)
    newest = X[-1, -1].item()
    assert newest > 20.0
    more = plain(X, Y, forgetting=FORGETTINGS["weights"])
    more.load_state_dict(saved)
    assert more.now.item() == newest
    again = more.condition_on_observations(X[-1:] + 5.0, Y[-1:])  # and goes on following
    assert again.now.item() == newest + 5.0
    later = build("weights", now=60.0)
    later.load_state_dict(saved)
    assert later.now.item() == 60.0


@pytest.mark.parametrize("m", [1, 2])
def test_a_present_for_each_member_of_a_batch(m):
    now = torch.tensor([30.0, 25.0], dtype=torch.float64)
    saved = build("weights", batch=(2,), m=m, now=now)
    loaded = build("weights", batch=(2,), m=m, now=26.0 + 0 * now)
    loaded.load_state_dict(saved.state_dict())
    assert loaded.now.tolist() == [30.0, 26.0]
    single = build("weights", m=m)
    with pytest.raises(RuntimeError, match="size mismatch for now"):
        single.load_state_dict({**single.state_dict(), "now": now})
