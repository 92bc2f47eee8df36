"""Features on a box: the posterior of a regression, to the error that was allowed."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import MaternKernel, RBFKernel
from oracles.dense import DenseBandit, squared_exponential

from botorch_tv.acquisition import (
    Constant,
    ExpectedImprovement,
    ProbabilityOfImprovement,
    Thompson,
    UniformChoice,
)
from botorch_tv.forgetting import EventTrigger, ExponentialWeights, Markov, SlidingWindow
from botorch_tv.gp.box import BoxPrior, PointBasis
from botorch_tv.gp.points import PointRegression
from botorch_tv.learning import Refit
from botorch_tv.strategies import Box, DiscreteSearch, Features, GPStrategy, MultiStart, tv_gp_ucb
from botorch_tv.strategies.gp_strategy import FEW_FEATURES

D = torch.float64
SEARCH = MultiStart(raw_samples=64, evaluations=40)


def cube(d, **more):
    corners = torch.tensor([[0.0] * d, [1.0] * d], dtype=D)
    return Box(corners, **({"search": SEARCH} | more))


def smooth(lengthscale, d):
    kernel = RBFKernel(ard_num_dims=d).double()
    kernel.lengthscale = lengthscale
    return kernel


def features(lengthscale=0.4, d=2, noise=0.01, inference="features", **parts):
    parts = {"kernel": smooth(lengthscale, d)} | parts
    return GPStrategy(noise=noise, inference=inference, **parts)


def test_more_exact_observations_are_regressed_on():
    found = []
    for inference in ("features", "exact"):
        strategy = features(decay=Markov(0.03), inference=inference)
        state, generator = strategy.init(cube(2)), torch.Generator().manual_seed(0)
        for t, noise in enumerate([None] * 10 + [1e-3] * 5 + [1e-8] * 5):
            X = torch.rand(2, generator=generator, dtype=D)
            suggestion = strategy.suggestion_at(state, X, now=state.time + 0.5 + 0.3 * (t % 3))
            y = (6 * X).sin().sum() + 0.1 * torch.randn((), generator=generator, dtype=D)
            ok = torch.tensor(t % 9 != 4)
            state, _ = strategy.tell(state, suggestion, y, ok=ok, noise=noise)
            if t < 15:
                assert isinstance(state.basis, PointBasis) == (inference == "features")
        assert isinstance(state.basis, BoxPrior)
        assert isinstance(strategy.inference_for(state.domain, state.basis), PointRegression)
        X = torch.rand(300, 2, generator=generator, dtype=D)
        posterior = strategy.posterior(state, X)
        found.append((posterior.mean, posterior.variance))
    torch.testing.assert_close(*found, rtol=0, atol=1e-12)


AUTO = {
    "few": ({}, True),
    "many": ({"kernel": smooth(0.1, 2)}, False),
    "rough": ({"kernel": MaternKernel(nu=2.5).double()}, False),
    "drawn": ({"exploration": Thompson()}, False),
    "aging": ({"inflation": ExponentialWeights(0.9)}, False),
    "hardly any noise": ({"noise": 1e-12}, False),
    "learned": ({"learning": Refit()}, False),
}


@pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
@pytest.mark.parametrize("name", AUTO)
def test_features_are_taken_where_they_pay_and_change_no_choice(name):
    parts, taken = AUTO[name]
    state = features(**parts, lengthscale=0.5, inference="auto").init(cube(2))
    assert isinstance(state.basis, PointBasis) == taken
    assert not taken or state.basis.size <= FEW_FEATURES


REFUSED = {
    "short": ({"kernel": smooth(0.03, 2)}, {}, "more than 1024 basis functions.*increase"),
    "rough": ({"kernel": MaternKernel(nu=0.5).double()}, {}, "1e-06.*more than 1024 basis"),
    "hardly any noise": ({"noise": 1e-12}, {}, "accurate to 1e-14, because the noise is so small"),
    "aging": ({"inflation": ExponentialWeights(0.9)}, {}, "noise that ages"),
    "window": ({"retention": SlidingWindow(3.0, by="time")}, {}, "dropped by time"),
    "context": ({"kernel": smooth(0.4, 3)}, {"context_dim": 1}, "context has no bounds"),
}


@pytest.mark.few("aging", "hardly any noise")
@pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
@pytest.mark.parametrize("name", REFUSED)
def test_processes_without_features_are_refused(name):
    parts, box, match = REFUSED[name]
    with pytest.raises(InputDataError, match=match):
        features(**parts).init(cube(**({"d": 2} | box)))


def test_single_precision_is_refused():
    with pytest.raises(InputDataError, match=r"float32 is too coarse.*'exact'"):
        features().init(cube(2), dtype=torch.float32)
    state = features(inference="auto").init(cube(2), dtype=torch.float32)
    assert isinstance(state.basis, BoxPrior)


@pytest.mark.full
def test_tolerances_are_checked_and_presets_take_them():
    for wrong in (0.0, 1.0, -1e-3, float("nan")):
        with pytest.raises(ValueError, match="tolerance"):
            Features(tolerance=wrong)
    with pytest.raises(ValueError, match=r"Features\(tolerance"):
        features(inference="fast")
    coarse = tv_gp_ucb(kernel=smooth(0.2, 2), noise=0.01, epsilon=0.03, inference=Features(1e-2))
    fine = replace(coarse, inference="features")
    sizes = [player.init(cube(2)).basis.size for player in (coarse, fine)]
    assert sizes[0] < 0.7 * sizes[1]


# ---------------- Contexts

LINE = torch.tensor([[0.0], [1.0]], dtype=D)


def module(**arguments):
    kernel = RBFKernel(**arguments).double()
    kernel.lengthscale = torch.tensor(0.4, dtype=D)
    return kernel


def strategy_of(**parts):
    return GPStrategy(
        **(
            {"kernel": module(), "noise": 0.01, "width": Constant(0.0), "decay": Markov(1e-6)}
            | parts
        )
    )


def trained(strategy, search=None, batch_shape=(), rounds=25, dtype=D):
    box = Box(LINE, context_dim=1, search=search)
    state = strategy.init(box, batch_shape=batch_shape, dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    for _ in range(rounds):
        X = torch.rand(*batch_shape, 2, generator=generator, dtype=D)
        y = -4 * (X[..., 0] - X[..., 1]).square()
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X.to(dtype)), y.to(dtype))
    return state


CONTEXTS = torch.tensor([[0.2], [0.5], [0.9]], dtype=D)


@pytest.mark.few(1)
@pytest.mark.parametrize("maximize", [True, False])
def test_the_choice_is_the_best_for_its_context(maximize):
    strategy = strategy_of(maximize=maximize)
    state = trained(strategy, batch_shape=(3,))
    suggestion = strategy.ask(state, context=CONTEXTS)
    assert suggestion.X.shape == (3, 2)
    torch.testing.assert_close(suggestion.X[:, 1:], CONTEXTS, rtol=0, atol=0)
    if maximize:
        torch.testing.assert_close(suggestion.X[:, :1], CONTEXTS, rtol=0, atol=0.12)
    else:
        first, middle, last = suggestion.X[:, 0].tolist()
        assert (first, last) == (1.0, 0.0)
        assert middle in (0.0, 1.0)  # both ends are as far from 0.5
    found = strategy.recommend(state, context=CONTEXTS)
    torch.testing.assert_close(found, suggestion.X, rtol=0, atol=1e-5)  # no width: the same
    # The same by eye over all settings of each context.
    axis = torch.linspace(0, 1, 1001, dtype=D)
    sheet = torch.stack([axis.expand(3, -1), CONTEXTS.expand(3, 1001)], -1)
    mean = strategy.posterior(state, sheet, now=state.time + 1).mean[..., 0]
    best = mean.amax(-1) if maximize else mean.amin(-1)
    torch.testing.assert_close(suggestion.mean, best, rtol=0, atol=1e-5)
    after, _ = strategy.tell(state, suggestion, torch.zeros(3, dtype=D))
    assert torch.equal(after.history.choice.row(25), suggestion.X)


@pytest.mark.few(1)
@pytest.mark.parametrize("exploration", [ExpectedImprovement(), ProbabilityOfImprovement()])
def test_incumbents_are_those_of_the_context(exploration):
    strategy = strategy_of(exploration=exploration, kernel=module(), noise=1e-4)
    box = Box(LINE, context_dim=1)
    state = strategy.init(box)
    for x in np.linspace(0, 1, 6):
        for context in (0.0, 3.0):  # far apart, so unrelated
            X = torch.tensor([x, context], dtype=D)
            y = torch.tensor(-((x - 0.3) ** 2) + 10 * (context > 1), dtype=D)
            state, _ = strategy.tell(state, strategy.suggestion_at(state, X), y)
    alone = strategy.init(Box(LINE))
    for x in np.linspace(0, 1, 6):
        X = torch.tensor([x], dtype=D)
        y = torch.tensor(-((x - 0.3) ** 2), dtype=D)
        alone, _ = strategy.tell(alone, strategy.suggestion_at(alone, X), y)
    with_context = strategy.ask(state, context=torch.zeros(1, dtype=D)).X[0]
    assert float(with_context) == pytest.approx(float(strategy.ask(alone).X), abs=2e-3)


def test_posterior_by_the_textbook():
    points = np.random.default_rng(0).random((6, 3)) * [1.0, 5.0, 2.0]
    kernel, arms = module(), torch.tensor(points)
    strategy = strategy_of(kernel=kernel, decay=Markov(0.1), retention=EventTrigger(0.1))
    box = Box(LINE, context_dim=2)
    book = {"decay": ("markov", 0.1), "retention": ("trigger", 0.1), "gains": False}
    bandits = [DenseBandit(squared_exponential(points, 0.4), 0.01, **book) for _ in range(2)]
    state = strategy.init(box, batch_shape=(2,))
    for t in range(5):
        chosen, y = [t, (2 * t + 1) % 6], torch.tensor([0.3 * t, 5.0 if t == 3 else 0.2], dtype=D)
        suggestion = strategy.suggestion_at(state, arms[chosen])
        for i, bandit in enumerate(bandits):
            choice = bandit.consider(chosen[i])
            assert float(suggestion.mean[i]) == pytest.approx(choice.mean, abs=1e-8)
            assert float(suggestion.sd[i]) == pytest.approx(choice.sd, abs=1e-8)
            bandit.tell(choice, float(y[i]))
        state, _ = strategy.tell(state, suggestion, y)


@pytest.mark.full
def test_context_with_candidates_thompson_chance_and_learning():
    X = torch.tensor([[0.9], [0.2], [0.5]], dtype=D)
    strategy = strategy_of()
    state = trained(strategy, DiscreteSearch(X), (3,))
    chosen = strategy.ask(state, context=CONTEXTS).X
    torch.testing.assert_close(chosen[:, 0], torch.tensor([0.2, 0.5, 0.9], dtype=D))
    empty = strategy.init(Box(LINE, context_dim=1, search=DiscreteSearch(X)), batch_shape=(3,))
    first = strategy.ask(empty, context=CONTEXTS).X
    assert first.tolist() == [[0.9, 0.2], [0.9, 0.5], [0.9, 0.9]]
    first = strategy.ask(strategy.init(Box(LINE, context_dim=1)), context=CONTEXTS[0]).X
    assert first.tolist() == [0.5, 0.2]
    for parts in (
        {"exploration": Thompson()},
        {"exploration": UniformChoice()},
        {"learning": Refit(every=5)},
        {"kernel": module(active_dims=[1, 0], ard_num_dims=2)},
    ):
        for dtype in (D, torch.float32):
            other = strategy_of(**parts)
            state = trained(other, batch_shape=(2,), rounds=6, dtype=dtype)
            suggestion = other.ask(
                state, context=CONTEXTS[:2].to(dtype), generator=torch.Generator().manual_seed(0)
            )
            assert suggestion.X.dtype == dtype
            assert torch.equal(suggestion.X[:, 1:], CONTEXTS[:2].to(dtype))
            assert ((suggestion.X[:, 0] - 0.5).abs() <= 0.5).all()


def test_contexts_that_do_not_fit_are_refused():
    strategy = strategy_of()
    state = trained(strategy, batch_shape=(3,), rounds=2)
    wrong = (
        None,
        CONTEXTS[:2],
        CONTEXTS.squeeze(-1),
        CONTEXTS.expand(3, 2),
        CONTEXTS.float(),
        [0.2],
    )
    bad = [CONTEXTS.masked_fill(CONTEXTS > 0.5, value) for value in (math.nan, math.inf, -1e200)]
    for context in (*wrong, *bad):
        for call in (strategy.ask, strategy.recommend):
            with pytest.raises(InputDataError, match="context"):
                call(state, context=context)
    point = torch.tensor([[0.5, math.nan]] * 3, dtype=D)
    for call in (strategy.suggestion_at, lambda s, X: strategy.posterior(s, X.unsqueeze(1))):
        with pytest.raises(InputDataError, match="context"):
            call(state, point)
    with pytest.raises(InputDataError, match="context"):
        strategy.ask(strategy.init(Box(LINE)), context=torch.tensor([0.1], dtype=D))
    far = strategy.ask(state, context=1e6 * CONTEXTS)  # contexts have no bounds
    assert far.mean.abs().max() < 1e-6
