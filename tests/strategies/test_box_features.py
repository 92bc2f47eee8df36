"""Features on a box: the posterior of a regression, to the error that was allowed."""

import pickle
from dataclasses import replace

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

from botorch_tv.acquisition import Thompson
from botorch_tv.forgetting import (
    EventTrigger,
    ExponentialWeights,
    Markov,
    PeriodicReset,
    SlidingWindow,
    Wiener,
)
from botorch_tv.gp.box import BoxPrior, PointBasis
from botorch_tv.gp.data import Present
from botorch_tv.gp.points import FAMILIAR, PointRegression
from botorch_tv.learning import Refit
from botorch_tv.strategies import Box, Features, GPStrategy, MultiStart, tv_gp_ucb
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


def measured(strategy, state, rounds, seed=0, **given):
    generator = torch.Generator().manual_seed(seed)
    shape, d = state.time.shape, state.domain.dim
    for t in range(rounds):
        X = torch.rand(*shape, d, generator=generator, dtype=D)
        X = X if t % 2 else 0.3 + 0.05 * X
        y = (6 * X).sin().sum(-1) + 0.1 * torch.randn(shape, generator=generator, dtype=D)
        ok = torch.rand(shape, generator=generator) < 0.9
        now = state.time + 0.5 + torch.rand(shape, generator=generator, dtype=D)
        suggestion = strategy.suggestion_at(state, X, now=now)
        state, _ = strategy.tell(state, suggestion, y, ok=ok, **given)
    return state


def differences(strategy, state, other, wanted):
    d, shape = state.domain.dim, state.time.shape
    X = torch.rand(300, d, generator=torch.Generator().manual_seed(7), dtype=D)
    X[:100, 0] = X[:100, 0].round()
    X = X.expand(*shape, 300, d)
    ours, theirs = strategy.posterior(state, X), other.posterior(wanted, X)
    mean = (ours.mean - theirs.mean).abs().max() / state.basis.scale
    return max(
        float(mean),
        float((ours.variance.clamp_min(0).sqrt() - theirs.variance.clamp_min(0).sqrt()).abs().max())
        / state.basis.scale,
    )


PROCESSES = {
    "static": {},
    "Markov": {"decay": Markov(0.03)},
    "Wiener": {"decay": Wiener(0.05)},
    "estimated mean": {"decay": Markov(0.03), "mean": "estimated"},
    "given mean": {"mean": 0.7},
    "window": {"retention": SlidingWindow(12)},
    "window, little noise": {"retention": SlidingWindow(12), "noise": 1e-4},
    "period": {"decay": Markov(0.03), "retention": PeriodicReset(15)},
    "trigger": {"decay": Markov(0.03), "retention": EventTrigger(delta=0.1)},
    "other units": {"kernel": ScaleKernel(smooth(0.4, 2)).double(), "noise": 0.003},
}


@pytest.mark.parametrize(("d", "lengthscale", "most"), [(1, 0.2, 20), (2, 0.2, 220), (3, 0.4, 600)])
def test_short_lengthscales(d, lengthscale, most):
    strategy = features(lengthscale, d, decay=Markov(0.01))
    exact = replace(strategy, inference="exact")
    state, wanted = (measured(player, player.init(cube(d)), 120) for player in (strategy, exact))
    assert state.basis.size <= most
    assert differences(strategy, state, exact, wanted) < 1e-6


@pytest.mark.parametrize("name", ["static", "trigger", "window"])
def test_states_are_values(name):
    strategy = features(**PROCESSES[name])
    state = measured(strategy, strategy.init(cube(2), batch_shape=(2,)), 20)
    saved = pickle.dumps(state)
    suggestion, X = strategy.ask(state), torch.rand(2, 5, 2, dtype=D)
    before = strategy.posterior(state, X).mean
    y = torch.tensor([0.3, 9.0], dtype=D)
    after, _ = strategy.tell(state, suggestion, y)
    assert torch.equal(strategy.posterior(state, X).mean, before)
    restored = pickle.loads(saved)
    again, _ = strategy.tell(restored, strategy.ask(restored), y)
    assert torch.equal(strategy.posterior(again, X).mean, strategy.posterior(after, X).mean)
    consumed, _ = strategy.tell(restored, suggestion, y, consume=True)
    assert torch.equal(strategy.posterior(consumed, X).mean, strategy.posterior(after, X).mean)
    new = strategy.init_like(state, (4,))
    assert new.rounds == 0
    assert isinstance(new.basis, PointBasis)
    assert strategy.ask(new).X.shape == (4, 2)


@pytest.mark.parametrize("moves", [False, True])
def test_functions_drawn_have_the_posterior(moves):
    strategy = features(exploration=Thompson(), **({"decay": Markov(0.1)} if moves else {}))
    trials, each = 100, 40
    state = measured(strategy, strategy.init(cube(2), batch_shape=(trials,)), 4)
    generator = torch.Generator().manual_seed(3)
    X = torch.rand(5, 2, generator=generator, dtype=D)
    inference = strategy.inference_for(state.domain, state.basis)
    now = state.time + 2.0

    def normal(*shape):
        return torch.randn(trials, *shape, generator=generator, dtype=D)

    functions = []
    for _ in range(each):
        posterior = inference.predict(state.data, Present(now, now), normal)
        functions.append(posterior.sample_at(X.expand(trials, 5, 2)))
    drawn = torch.stack(functions, -1)  # trials x 5 x each
    _, covariance = posterior.joint(X.expand(trials, 1, 5, 2))
    whitened = torch.linalg.solve_triangular(
        torch.linalg.cholesky(covariance[:, 0]), drawn, upper=False
    )
    whitened = whitened.mT.reshape(trials * each, 5)
    assert whitened.mean(0).abs().max() < 5 / 4000**0.5
    second = whitened.mT @ whitened / 4000 - torch.eye(5, dtype=D)
    assert second.abs().max() < 5 * (2 / 4000) ** 0.5
    assert strategy.ask(state, generator=generator).X.shape == (trials, 2)


def test_more_exact_observations_are_regressed_on():
    strategy = features(decay=Markov(0.03))
    exact = replace(strategy, inference="exact")
    results = []
    for player in (strategy, exact):
        state = measured(player, player.init(cube(2)), 10)
        state = measured(player, state, 5, seed=1, noise=1e-3)
        assert isinstance(state.basis, PointBasis) == (player is strategy)
        state = measured(player, state, 5, seed=2, noise=1e-8)
        assert isinstance(state.basis, BoxPrior)
        assert isinstance(player.inference_for(state.domain, state.basis), PointRegression)
        results.append(state)
    assert differences(strategy, results[0], exact, results[1]) < 1e-12


def test_rounds_take_the_same_however_many_there_were():
    strategy = features(d=1, decay=Markov(0.03))
    state = strategy.init(cube(1))
    early, late = (strategy.numbers_per_trial(state, horizon) for horizon in (400, 40_000))
    assert late - early < 30 * 40_000, "the log alone grows"
    state = measured(strategy, state, FAMILIAR + 40)
    inference = strategy.inference_for(state.domain, state.basis)
    posterior = inference.predict(state.data, Present(state.time, state.time))
    X, live = posterior.familiar(1, None)
    torch.testing.assert_close(X, posterior.X[:, 40:], rtol=0, atol=0)
    assert live.shape == (1, FAMILIAR)
    assert posterior.X.shape[-2] == FAMILIAR + 40
    assert strategy.ask(state).X.shape == (1,)


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
    "short": ({"kernel": smooth(0.03, 2)}, {}, "more than 1024 functions.*increase"),
    "rough": ({"kernel": MaternKernel(nu=0.5).double()}, {}, "1e-06.*more than 1024 functions"),
    "many dimensions": ({"kernel": smooth(0.2, 6)}, {"d": 6}, "more than 1024 functions"),
    "hardly any noise": ({"noise": 1e-12}, {}, "accurate to 1e-14, since the noise is so small"),
    "aging": ({"inflation": ExponentialWeights(0.9)}, {}, "noise that ages"),
    "window": ({"retention": SlidingWindow(3.0, by="time")}, {}, "dropped by time"),
    "context": ({"kernel": smooth(0.4, 3)}, {"context_dim": 1}, "context has no bounds"),
}


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
