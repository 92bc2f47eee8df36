"""The mixture as a BoTorch model: against dense members, the strategy, and as BoTorch asks."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.acquisition import qLogExpectedImprovement, qLogNoisyExpectedImprovement
from botorch.acquisition.analytic import LogConstrainedExpectedImprovement
from botorch.acquisition.logei import qLogProbabilityOfFeasibility
from botorch.acquisition.objective import (
    ExpectationPosteriorTransform,
    GenericMCObjective,
    ScalarizedPosteriorTransform,
)
from botorch.exceptions import BotorchTensorDimensionError, InputDataError, UnsupportedError
from botorch.models import ModelListGP
from botorch.models.model import ModelList
from botorch.optim import optimize_acqf
from botorch.sampling import SobolQMCNormalSampler
from botorch.sampling.get_sampler import get_sampler
from gp.mixture.readings import OFFSET, require_apart
from oracles.bank import predicted

from botorch_tv.acquisition.present import at_present, qLogNoisyExpectedImprovementAtPresent
from botorch_tv.gp.mixture.bank import FIRST, Bank
from botorch_tv.models import adaptive_model

D = torch.float64
JUMPY = Bank(rates=(0.0, 0.1), hazards=(0.0, 0.2), lengthscales=(0.4,), noise_ratios=(0.02,))
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)


def data(n=14, seed=0, *, batch=()):
    """A wave that moves, in raw numbers, at irregular times."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(*batch, n, 2, dtype=D, generator=generator)
    t = torch.rand(*batch, n, dtype=D, generator=generator).add(0.2).cumsum(-1)
    error = torch.randn(*batch, n, dtype=D, generator=generator)
    y = 50 + 5 * torch.cos(3 * x.sum(-1) - 0.3 * t) + 0.3 * error
    return torch.cat([x, t.unsqueeze(-1)], -1), y.unsqueeze(-1)


def textbook(bank, X, Y, query):
    """The prediction of the textbook; the last columns of inputs are times."""
    X, Y, at = X.numpy(), Y[:, 0].numpy(), query.numpy()
    clock = float(np.median(np.diff(X[:FIRST, -1])))
    return predicted(bank, X[:, :-1], Y, X[:, -1], at[:, :-1], at[:, -1], clock=clock)


def query_of(model, *shape, seed=1, ahead=1.0):
    """Points at the present and ``ahead`` of it, `*shape x 3`."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(*shape, 2, dtype=D, generator=generator)
    return torch.cat([x, model.newest.max() + ahead * torch.ones(*shape, 1, dtype=D)], -1)


@pytest.mark.parametrize("pause", [0.0, 3e3, 1e7])
def test_moments_are_those_of_dense_members_at_any_times(pause):
    X, Y = data(15)
    X[8:, -1] += pause
    X[13:, -1] += pause
    require_apart(OFFSET, X[:, :2].numpy())
    model = adaptive_model(X, Y, bank=OFFSET)
    query = query_of(model, 6)
    query[:, -1] += torch.tensor([0.0, 3.0, 1.5, 0.0, 7.0, 3.0], dtype=D)
    query[0, -1] = model.newest
    book = textbook(OFFSET, X, Y, query)
    posterior = model.posterior(query)
    noisy = model.posterior(query, observation_noise=True)
    own = model.posterior(query, observation_noise=torch.full((6, 1), 0.7, dtype=D))
    for found, wanted in (
        (model.weights, book.weights),
        (posterior.mean[:, 0], book.mean),
        (posterior.covariance_matrix, book.covariance),
        (posterior.variance[:, 0], book.covariance.diagonal()),
        (noisy.covariance_matrix, book.covariance + book.noise * np.eye(6)),
        (noisy.variance, posterior.variance + book.noise),
        (own.variance, posterior.variance + 0.7),
    ):
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-8)


@pytest.mark.parametrize("pause", [2.0, 3e3, 1e12])
def test_jumps_ahead_are_enumerated(pause):
    bank = replace(JUMPY, lengthscales=(0.2,), tolerance=1e-7)
    X, Y = data(12)
    require_apart(bank, X[:, :2].numpy())
    model = adaptive_model(X, Y, bank=bank)
    query = query_of(model, 2, ahead=0.5)
    query[1, -1] += pause
    book, posterior = textbook(bank, X, Y, query), model.posterior(query)
    np.testing.assert_allclose(posterior.mean[:, 0], book.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(posterior.covariance_matrix, book.covariance, rtol=0, atol=1e-8)
    assert model.posterior(query[1:]).rsample(torch.Size([5])).isfinite().all()


@pytest.mark.full
def test_samples_have_the_moments_and_are_no_gaussian():
    model = adaptive_model(*data(12), bank=JUMPY)
    query = query_of(model, 4, ahead=2.0)
    posterior, n = model.posterior(query, observation_noise=True), 40_000
    torch.manual_seed(0)
    drawn = posterior.rsample(torch.Size([n]))[..., 0]
    sd = posterior.variance[:, 0].sqrt()
    error = (drawn.mean(0) - posterior.mean[:, 0]) / sd
    assert float(error.abs().max()) < 5 / n**0.5
    apart = (drawn - posterior.mean[:, 0]) / sd
    correlation = posterior.covariance_matrix / (sd.unsqueeze(-1) * sd)
    torch.testing.assert_close(apart.T @ apart / n, correlation, rtol=0, atol=0.03)
    # Members differ in how much they know: tails are heavier than a Gaussian's.
    assert float(apart.pow(4).mean(0).min()) > 3.1


def test_the_sampler_draws_the_same_functions_at_more_points():
    model = adaptive_model(*data(12), bank=OFFSET)
    query = query_of(model, 5)
    sampler = get_sampler(model.posterior(query), torch.Size([32]), seed=3)
    few = sampler(model.posterior(query[:2]))
    many = sampler(model.posterior(query))
    torch.testing.assert_close(few, many[:, :2], rtol=0, atol=1e-10)
    assert torch.equal(sampler(model.posterior(query)), many)
    assert not torch.equal(many[0], many[1])
    batches = sampler(model.posterior(torch.stack([query, query.flip(0)])))
    torch.testing.assert_close(batches[:, 0], many, rtol=0, atol=1e-10)
    by_hand = SobolQMCNormalSampler(torch.Size([32]), seed=0)
    assert by_hand(model.posterior(query)).shape == (32, 5, 1)
    base = torch.randn(6, 2, model.posterior(query).base_sample_shape[-1], dtype=D)
    both = model.posterior(torch.stack([query, query]))
    twice = both.rsample_from_base_samples(torch.Size([6]), base)
    for place in range(2):
        alone = model.posterior(query).rsample_from_base_samples(torch.Size([6]), base[:, place])
        torch.testing.assert_close(twice[:, place], alone, rtol=0, atol=1e-10)


def test_outputs_of_a_list_are_independent():
    """Sobol sequences of two seeds are not: outputs were correlated by .2, with any number."""
    X, Y = data()
    both = ModelList(adaptive_model(X, Y, bank=OFFSET), adaptive_model(X, -Y, bank=OFFSET))
    posterior = both.posterior(query_of(both.models[0], 3))
    count = 1024
    for seed in range(6):
        torch.manual_seed(seed)
        samples = get_sampler(posterior, torch.Size([count]))(posterior)
        item, other = ((samples - samples.mean(0)) / samples.std(0)).unbind(-1)
        correlation = (item * other).mean(0).abs()
        assert float(correlation.max()) < 4.5 / count**0.5


def test_gradients_of_moments_follow_points_and_times():
    model = adaptive_model(*data(9), bank=JUMPY)
    query = query_of(model, 2, 1)
    query[1, 0, -1] += 3.0
    joint = query_of(model, 3)
    joint[:, -1] += torch.tensor([0.0, 1.0, 2.0], dtype=D)
    for points, part in ((query, "mean"), (query, "variance"), (joint, "covariance_matrix")):
        torch.autograd.gradcheck(
            lambda item, part=part: getattr(model.posterior(item), part), points.requires_grad_()
        )


def test_gradients_of_samples_follow_points_and_their_time():
    model = adaptive_model(*data(9), bank=JUMPY)
    single, pair = query_of(model, 2, 1), query_of(model, 3, 2)
    base = torch.randn(4, 1, model.posterior(single).base_sample_shape[-1], dtype=D)
    wide = torch.randn(4, 1, model.posterior(pair).base_sample_shape[-1], dtype=D)

    def drawn(item, base):
        posterior = model.posterior(item, observation_noise=True)
        return posterior.rsample_from_base_samples(torch.Size([4]), base)

    torch.autograd.gradcheck(lambda item: drawn(item, base), single.requires_grad_())
    time = pair[..., 2:]
    torch.autograd.gradcheck(
        lambda item: drawn(torch.cat([item, time], -1), wide),
        pair[..., :2].clone().requires_grad_(),
    )


def test_conditioning_is_making_it_anew():
    X, Y = data(20)
    order = torch.randperm(14, generator=torch.Generator().manual_seed(0))
    model = adaptive_model(X[:14][order], Y[:14][order], bank=JUMPY)
    soon = query_of(model, 4)
    before = model.posterior(soon)
    before = before.mean.clone(), before.covariance_matrix.clone()
    more = model.condition_on_observations(X[14:].flip(0), Y[14:].flip(0))
    whole = adaptive_model(X, Y, bank=JUMPY)
    query = query_of(whole, 4)
    for part in ("mean", "covariance_matrix"):
        found, wanted = (getattr(item.posterior(query), part) for item in (more, whole))
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)
    assert torch.equal(more.train_inputs[0], X)
    assert torch.equal(more.now, X[-1, -1])
    after = model.posterior(soon)
    assert torch.equal(after.mean, before[0])
    assert torch.equal(after.covariance_matrix, before[1])


def test_a_batch_is_its_models():
    X, Y = data(11, batch=(3,))
    Y[1] = 7 - 0.01 * Y[1]
    batch = adaptive_model(X, Y, bank=JUMPY)
    assert batch.batch_shape == (3,)
    query = query_of(batch, 2, 3, 4)
    posterior = batch.posterior(query)
    base = torch.randn(5, 1, 1, posterior.base_sample_shape[-1], dtype=D)
    drawn = posterior.rsample_from_base_samples(torch.Size([5]), base)
    later = query_of(batch, 3, 1, ahead=2.0)
    value = torch.tensor([[[52.0]], [[6.5]], [[48.0]]], dtype=D)
    conditioned = batch.condition_on_observations(later, value)
    for i in range(3):
        single = adaptive_model(X[i], Y[i], bank=JUMPY)
        item = single.posterior(query[:, i])
        torch.testing.assert_close(posterior.mean[:, i], item.mean, rtol=0, atol=1e-10)
        found = posterior.covariance_matrix[:, i]
        torch.testing.assert_close(found, item.covariance_matrix, rtol=0, atol=1e-10)
        mine = item.rsample_from_base_samples(torch.Size([5]), base[:, 0])
        torch.testing.assert_close(drawn[:, :, i], mine, rtol=0, atol=1e-8)
        more = single.condition_on_observations(later[i], value[i])
        far = query_of(batch, 2, ahead=3.0)
        found, wanted = conditioned.posterior(far).mean[i], more.posterior(far).mean
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-10)
    again = pickle.loads(pickle.dumps(batch))
    torch.testing.assert_close(again.posterior(query).mean, posterior.mean, rtol=0, atol=0)


def test_fantasies_are_conditioned_models_that_follow_points():
    model = adaptive_model(*data(9), bank=JUMPY)
    query = query_of(model, 2, 1)
    sampler = get_sampler(model.posterior(query), torch.Size([3]), seed=0)
    fantasy = model.fantasize(query, sampler)
    assert fantasy.batch_shape == (3, 2)
    y = sampler(model.posterior(query, observation_noise=True))
    far = query_of(model, 2, ahead=2.0)
    for i, j in itertools.product(range(3), range(2)):
        wanted = model.condition_on_observations(query[j], y[i, j]).posterior(far).mean
        torch.testing.assert_close(fantasy.posterior(far).mean[i, j], wanted, rtol=0, atol=1e-9)

    def best(x):
        return model.fantasize(torch.cat([x, query[..., 2:]], -1), sampler).posterior(far).mean

    torch.autograd.gradcheck(best, query[..., :2].clone().requires_grad_())


@pytest.mark.parametrize("case", ["later data", "removals", "measured point"])
def test_gradients_of_conditioned_models(case):
    X, Y = data(10)
    bank = replace(JUMPY, points=8) if case == "removals" else JUMPY
    model = adaptive_model(X, Y, bank=bank)
    time = model.newest + torch.tensor([[1.0], [2.0]], dtype=D)
    x = X[:2, :2] if case == "measured point" else query_of(model, 2)[:, :2]
    later = query_of(model, 2, seed=2, ahead=4.0) + torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    far = query_of(model, 2, seed=3, ahead=6.0)

    def mean(x):
        conditioned = model.condition_on_observations(torch.cat([x, time], -1), Y[:2])
        if case != "measured point":
            conditioned = conditioned.condition_on_observations(later, Y[2:4])
        return conditioned.posterior(far).mean

    torch.autograd.gradcheck(mean, x.clone().requires_grad_(), fast_mode=True)


# Of a model, its inputs at the present, and constraints with an objective.
CONSTRAINED = {
    "qLogNEI": lambda model, X, parts: qLogNoisyExpectedImprovement(model, X, **parts),
    "qLogEI": lambda model, X, parts: qLogExpectedImprovement(model, best_f=-1.0, **parts),
    "feasibility": lambda model, X, parts: qLogProbabilityOfFeasibility(
        model, parts["constraints"]
    ),
    "analytic": lambda model, X, parts: LogConstrainedExpectedImprovement(
        model, -1.0, 0, {1: (None, 0.0)}
    ),
}


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:When all training points are infeasible")
@pytest.mark.parametrize("name", [*CONSTRAINED, "at present"])
def test_constrained_acquisition_functions_of_botorch_take_a_list(name):
    """Without a feasible measurement, BoTorch evaluates beyond the box to find a lower bound."""
    for seed in (0, 1) if name == "qLogEI" else (0,):  # no measurement is feasible for 0
        generator = torch.Generator().manual_seed(seed)
        x, noise = (torch.rand(10, 2, dtype=D, generator=generator) for _ in range(2))
        X = torch.cat([x, torch.arange(10, dtype=D).unsqueeze(-1)], -1)
        objective = -(x - 0.3).square().sum(-1, keepdim=True) + 0.02 * noise[:, :1]
        cost = x.sum(-1, keepdim=True) - 0.4 + 0.02 * noise[:, 1:]  # below 0 in a corner
        model = ModelList(*(adaptive_model(X, Y, bank=OFFSET) for Y in (objective, cost)))
        parts = {"constraints": [lambda Y: Y[..., 1]]}
        parts["objective"] = GenericMCObjective(lambda Y, X=None: Y[..., 0])
        if name == "at present":
            function = qLogNoisyExpectedImprovementAtPresent(model, X, now=10.0, **parts)
        else:
            brought = torch.cat([x, torch.full((10, 1), 10.0, dtype=D)], -1)
            function = at_present(CONSTRAINED[name](model, brought, parts), 10.0)
        q = 1 if name == "analytic" else 2
        torch.manual_seed(seed)
        chosen, value = optimize_acqf(
            function, SQUARE, q=q, num_restarts=2, raw_samples=16, options={"maxiter": 15}
        )
        assert bool(((chosen >= 0) & (chosen <= 1)).all())
        corners = torch.tensor([[1.0, 1.0], [0.9, 0.9]], dtype=D)[:q]  # too costly
        assert float(value) > float(function(corners))


def test_beyond_the_bounds_a_process_extrapolates():
    """Posteriors equal those of the kernel, and the variance grows with the distance."""
    common = {"hazards": (0.0,), "lengthscales": (0.3,), "noise_ratios": (0.05,)}
    bank = Bank(rates=(0.02,), **common, outliers=0.0, tolerance=1e-7)
    out = torch.linspace(0, 0.25, 26, dtype=D)
    for seed in range(3):
        X, Y = data(20, seed)
        model = adaptive_model(X, Y, bank=bank)
        along = torch.rand(4, 1, dtype=D, generator=torch.Generator().manual_seed(seed))
        walls = [torch.stack(torch.broadcast_tensors(item, along), -1) for item in (-out, 1 + out)]
        x = torch.cat([*walls, *(item.flip(-1) for item in walls)])
        query = torch.cat([x, model.newest.expand(16, 26, 1)], -1)
        posterior = model.posterior(query)
        mean, variance = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)
        assert float(variance.diff().min()) > 0
        assert float((variance[:, -1] / variance[:, 0]).min()) > 1.2
        book = textbook(bank, X, Y, query.flatten(0, 1))
        sd = float(variance.max()) ** 0.5
        np.testing.assert_allclose(mean.flatten(), book.mean, rtol=0, atol=1e-4 * sd)
        np.testing.assert_allclose(variance.flatten(), book.covariance.diagonal(), rtol=1e-4)


def test_scalarized_transforms():
    X, Y = data(12)
    turn = ScalarizedPosteriorTransform(torch.tensor([-1.0], dtype=D), offset=2.0)
    query = query_of(adaptive_model(X, Y, bank=JUMPY), 3)
    mirrored = adaptive_model(X, Y, bank=JUMPY).posterior(query, posterior_transform=turn)
    plain = adaptive_model(X, 2.0 - Y, bank=JUMPY).posterior(query)
    for part in ("mean", "variance", "covariance_matrix"):
        torch.testing.assert_close(getattr(mirrored, part), getattr(plain, part), rtol=0, atol=1e-9)


def test_units_and_columns_make_no_difference():
    X, Y = data(14)
    plain = adaptive_model(X, Y, bank=JUMPY)
    query = query_of(plain, 3)
    bounds = torch.tensor([[-7.0, 100.0], [33.0, 104.0]], dtype=D)
    extent = bounds[1] - bounds[0]

    def moved(item):
        return torch.cat([3600.0 * item[..., 2:], item[..., :2] * extent + bounds[0]], -1)

    other = adaptive_model(moved(X), 3 - 0.01 * Y, bounds=bounds, time_dim=0, bank=JUMPY)
    wanted, found = plain.posterior(query), other.posterior(moved(query))
    torch.testing.assert_close(found.mean, 3 - 0.01 * wanted.mean, rtol=0, atol=1e-9)
    covariance = 1e-4 * wanted.covariance_matrix
    torch.testing.assert_close(found.covariance_matrix, covariance, rtol=0, atol=1e-10)


def test_methods_refuse_bad_arguments():
    X, Y = data(12)
    model = adaptive_model(X, Y, bank=OFFSET, now=20.0)
    assert float(model.now) == 20.0
    assert model.num_outputs == 1
    assert model.subset_output([0]) is model
    query = query_of(model, 2)
    apart = query + torch.tensor([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    outside = query[:1] * torch.tensor([0.0, 1.0, 1.0]) - torch.tensor([0.01, 0.0, 0.0])
    many = query[:1].expand(1_000_000, 1, 3), Y[:1].expand(1_000_000, 1, 1)
    turn = ExpectationPosteriorTransform(n_w=2)
    sampler = get_sampler(model.posterior(query), torch.Size([2]))
    noise = torch.ones(2, 1, dtype=D)
    before, beyond = query - torch.tensor([0.0, 0.0, 9.0]), query + torch.tensor([1.3, 0.0, 0.0])
    condition = model.condition_on_observations
    for call, error, message in (
        (lambda: model.subset_output([1]), UnsupportedError, "one output"),
        (lambda: model.posterior(before), InputDataError, "at_present"),
        (lambda: model.posterior(beyond), InputDataError, "give bounds"),
        (lambda: model.posterior(query * torch.nan), InputDataError, "give bounds"),
        (lambda: model.posterior(query, output_indices=[1]), ValueError, "one output"),
        (lambda: model.posterior(query, None, False, turn), UnsupportedError, "MC objective"),
        (lambda: model.posterior(apart).rsample(), InputDataError, "fix the time"),
        (lambda: condition(query, Y[:2], noise), UnsupportedError, "noise=None"),
        (lambda: model.fantasize(query, sampler, noise), UnsupportedError, "noise=None"),
        (lambda: condition(X[3:4], Y[3:4]), InputDataError, "build a new model"),
        (lambda: condition(outside, Y[:1]), InputDataError, "give bounds"),
        (lambda: condition(*many), UnsupportedError, "smaller bank"),
        (lambda: ModelListGP(model, model), ValueError, "have a likelihood"),
    ):
        with pytest.raises(error, match=message):
            call()


def test_few_or_equal_measurements():
    model = adaptive_model(*data(3), bank=OFFSET)
    assert model.posterior(query_of(model, 2)).mean.isfinite().all()
    X, Y = data(12)
    Y[:9] = 4.0
    late = adaptive_model(X, Y, bank=OFFSET)
    query = query_of(late, 3)
    rows, at = X.numpy(), query.numpy()
    clock = float(np.median(np.diff(rows[:10, 2])))
    data_of_late = rows[:, :2], Y[:, 0].numpy(), rows[:, 2], at[:, :2], at[:, 2]
    book = predicted(OFFSET, *data_of_late, clock=clock, starts=10)
    np.testing.assert_allclose(late.posterior(query).mean[:, 0], book.mean, rtol=0, atol=1e-8)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"train_X": data(12)[0].float()}, InputDataError, "float64"),
        ({"train_Y": torch.full((12, 1), 3.0, dtype=D)}, InputDataError, "that differ"),
        ({"train_X": data(12)[0][:0], "train_Y": data(1)[1][:0]}, InputDataError, "that differ"),
        ({"train_Y": data(12)[1].expand(12, 2)}, BotorchTensorDimensionError, "x 1, one row for"),
        ({"train_Y": torch.full((12, 1), torch.nan, dtype=D)}, InputDataError, "nan"),
        ({"train_X": 3 * data(12)[0]}, InputDataError, "give bounds"),
        ({"train_X": data(12)[0][:, [*[0] * 21, 2]]}, InputDataError, "to 20"),
        ({"now": 0.0}, InputDataError, "later"),
        ({"time_dim": 3}, ValueError, "index of the time"),
        ({"bounds": SQUARE.flip(0)}, ValueError, "upper bounds in the second"),
        ({"bounds": SQUARE[:, :1]}, ValueError, "2 x 2"),
    ],
)
def test_bad_training_data_are_refused(changes, error, message):
    X, Y = data(12)
    with pytest.raises(error, match=message):
        adaptive_model(**{"train_X": X, "train_Y": Y, "bank": OFFSET, **changes})
