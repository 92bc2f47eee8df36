"""Test points looked at again: the values of a model that never saw them, at less cost."""

import copy
import pickle

import pytest
import torch
from botorch.acquisition import UpperConfidenceBound
from gpytorch.kernels import MaternKernel
from models.cases import FORGETTINGS, build, data

from botorch_tv.kernels import MarkovKernel
from botorch_tv.models import TimeVaryingGP, factored_gp
from botorch_tv.models.regression import Regression

GRID = torch.rand(80, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(9))


def at(time, column=2):
    return torch.cat([GRID[:, :column], torch.full((80, 1), time).double(), GRID[:, column:]], 1)


def predicted(model, X):
    with torch.no_grad():
        posterior = model.posterior(X.unsqueeze(1))
        return posterior.mean.squeeze(-1), posterior.variance.squeeze(-1)


def assert_fresh(model, X, atol=1e-11):
    """As a copy predicts, which remembers nothing."""
    found, expected = predicted(model, X), predicted(copy.deepcopy(model), X)
    for ours, theirs in zip(found, expected):
        assert torch.allclose(ours, theirs, rtol=0, atol=atol)


@pytest.fixture
def solves(monkeypatch):
    """Number of test points solved for from the first observation on, call by call."""
    counted = []
    plain = Regression.explained

    def explained(self, across):
        counted.append(across.shape[-1])
        return plain(self, across)

    monkeypatch.setattr(Regression, "explained", explained)
    return counted


@pytest.mark.parametrize("forgetting", ["static", "markov", "wiener", "markov and weights"])
@pytest.mark.parametrize("column", [0, 2])
def test_a_loop_over_a_grid(forgetting, column, solves):
    """Time moves on in uneven steps, answers come in ones and twos and once out of order."""
    X, Y = data(n=24)
    order = torch.arange(24)
    order[15], order[18] = 18, 15
    X = X[order][:, [2, 0, 1]] if column == 0 else X[order]
    Y = Y[order]
    model = TimeVaryingGP(
        X[:8],
        Y[:8],
        forgetting=FORGETTINGS[forgetting],
        time_dim=column,
        now=60.0,
        outcome_transform=None,
    )
    predicted(model, at(30.0, column))
    assert solves == [80]
    for round_, rows in enumerate(
        [slice(8, 9), slice(9, 11), *(slice(k, k + 1) for k in (11, 15))]
    ):
        model = model.condition_on_observations(X[rows], Y[rows])
        time = 30.0 + 0.7 * round_
        predicted(model, at(time, column))
        predicted(model, at(time, column))
    assert solves == [80]
    fresh = copy.deepcopy(model)
    for found, expected in zip(
        predicted(model, at(31.0, column)), predicted(fresh, at(31.0, column))
    ):
        assert torch.allclose(found, expected, rtol=0, atol=1e-11)
    assert solves == [80, 80]


def test_a_point_of_the_past_is_looked_at_anew(solves):
    """Before the newest observation the past is not one whole."""
    model = build("markov")
    newest = model.train_inputs[0][:, 2].max().item()
    for time in (newest, newest - 3.0, newest - 2.0, newest + 1.0):
        assert_fresh(model, at(time))
    different = at(newest)
    different[0, 2] -= 1.0
    assert_fresh(model, at(newest))
    assert_fresh(model, different)
    assert solves == [80] * (5 + 6)  # all but from newest + 1 to newest, and every copy


def test_other_points_other_kernels(solves):
    model = build("markov")
    assert_fresh(model, at(30.0))
    other = at(30.0)
    other[3, 0] += 1e-9
    assert_fresh(model, other)
    assert_fresh(model, other[:70])
    redrawn = build("markov")
    redrawn.covar_module.temporal = MarkovKernel(1.0).double()
    assert_fresh(redrawn, at(30.0))
    assert_fresh(redrawn, at(31.0))
    X, Y = data()
    custom = TimeVaryingGP(X, Y, covar_module=MaternKernel(ard_num_dims=3))
    assert_fresh(custom, at(30.0))
    assert_fresh(custom, at(31.0))
    assert solves == [80] * 2 + [80] * 2 + [70] * 2 + [80] * 8


def test_parameters_data_and_ages_that_change_are_not_overlooked():
    model = build("markov and weights", now=20.0)
    X, Y = data(n=13)
    predicted(model, at(20.0))
    before = predicted(model, at(20.0))[1]
    model.set_now(25.0)
    assert (predicted(model, at(25.0))[1] > before).all()
    assert_fresh(model, at(25.0))
    model.set_train_data(X + 0.1, Y.squeeze(-1), strict=False)
    assert_fresh(model, at(25.0))
    model.train()
    with torch.no_grad():
        model.covar_module.spatial.raw_lengthscale.add_(0.4)
    assert_fresh(model, at(25.0))
    state = copy.deepcopy(model.state_dict())
    state["covar_module.spatial.raw_lengthscale"] -= 0.4
    model.load_state_dict(state)
    assert_fresh(model, at(25.0))


def test_points_changed_in_place_are_others():
    model = build("markov")
    X = at(30.0)
    predicted(model, X)
    X[:, 0] = 1.0 - X[:, 0]
    assert_fresh(model, X)


def test_alternatives_remember_what_their_parent_saw(solves):
    model = build("markov")
    predicted(model, at(30.0))
    X, Y = at(29.0)[:2], torch.randn(3, 2, 1, dtype=torch.float64)
    both = model.condition_on_observations(X, Y)
    single = model.condition_on_observations(X, Y[1])
    with torch.no_grad():
        whole, alone = both.posterior(at(30.0)), single.posterior(at(30.0))
    assert torch.allclose(whole.mean[1], alone.mean, rtol=0, atol=1e-12)
    assert torch.allclose(whole.variance[1], alone.variance, rtol=0, atol=1e-12)
    assert solves == [80]


def test_with_gradients_nothing_is_remembered():
    model = build("markov")
    X = at(30.0)
    predicted(model, X)
    model.posterior(X).mean.sum().backward()
    assert model.covar_module.spatial.raw_lengthscale.grad is not None
    X.requires_grad_()
    (gradient,) = torch.autograd.grad(model.posterior(X).variance.sum(), X)
    assert gradient.abs().max() > 0


def test_little_is_kept(monkeypatch):
    """No more than the limit, not for few points, and not in files."""
    model = build("markov")
    predicted(model, at(30.0)[:10])
    assert model.prediction_strategy.memory.seen is None
    predicted(model, at(30.0))
    assert model.prediction_strategy.memory.seen.explained.shape == (12, 80)
    saved = pickle.loads(pickle.dumps(model))
    assert saved.prediction_strategy.memory.seen is None
    monkeypatch.setattr(factored_gp, "MOST_REMEMBERED", 100)
    fresh = build("markov")
    predicted(fresh, at(30.0))
    assert fresh.prediction_strategy.memory.seen is None


def test_acquisition_functions_leave_the_factor_alone(monkeypatch):
    """They send the model to the device of X in each call, where it is already."""
    model = build("markov")
    model.posterior(at(30.0))
    factor = model.prediction_strategy
    UpperConfidenceBound(model, beta=2.0)(at(30.0).unsqueeze(1))
    model.to(torch.float64)
    assert model.prediction_strategy is factor
    model.float()
    assert model.prediction_strategy is None


@pytest.mark.parametrize("forgetting", ["static", "markov", "markov and weights"])
def test_relatives_remember_each_their_own(forgetting):
    """Two children of one parent, each with rows of its own, and the parent again."""
    X, Y = data(n=16)
    parent = TimeVaryingGP(X[:12], Y[:12], forgetting=FORGETTINGS[forgetting], now=60.0)
    predicted(parent, at(60.0))
    first = parent.condition_on_observations(X[12:14], Y[12:14])
    second = parent.condition_on_observations(X[14:16], Y[14:16])
    for model in (first, second, parent, first):
        assert_fresh(model, at(60.0))
