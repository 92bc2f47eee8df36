"""Strategies that learn hyperparameters as they go."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.acquisition.objective import ScalarizedPosteriorTransform
from botorch.exceptions import InputDataError
from gpytorch.kernels import MaternKernel, RQKernel, ScaleKernel
from oracles.dense import matern_five_halves, regression
from oracles.rules import trigger_threshold

from botorch_tv.acquisition import Constant
from botorch_tv.forgetting import (
    EventTrigger,
    ExponentialWeights,
    Markov,
    PeriodicReset,
    SlidingWindow,
    Static,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.learning import Free, Refit, learn
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, GPStrategy, Grid, MultiStart, gp_ei, gp_ts, gp_ucb, tv_gp_ucb

D = torch.float64
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
SEARCH = MultiStart(32, 3, 30)
BOX = Box(CUBE, search=SEARCH)
NOISE = 0.05
MATERN = unit_kernel("matern52", 0.5)


def strategy_of(**parts):
    usual = {"kernel": MATERN, "noise": NOISE, "width": Constant(4.0)}
    return GPStrategy(**(usual | {"learning": Refit(every=4, least=3)} | parts))


def observed(rounds, trials, seed=0):
    random = np.random.default_rng(seed)
    X = random.random((rounds, trials, 2))
    time = np.cumsum(random.exponential(1.0, (rounds, trials)), 0)
    rough = 3 + 3 * np.arange(trials)
    y = np.sin(rough * X.sum(-1) + 0.02 * rough * time)
    y = y + 0.05 * (1 + 2 * np.arange(trials)) * random.standard_normal(y.shape)
    y[rounds // 2, 0] += 8  # makes a trigger fire in one trial only
    return torch.tensor(X), torch.tensor(time), torch.tensor(y)


def play(strategy, X, time, y, batch_shape, *, dtype=D, box=BOX, ok=None):
    state = strategy.init(box, batch_shape=batch_shape, dtype=dtype)
    infos = []
    for t in range(len(X)):
        now = time[t].reshape(batch_shape)
        at = X[t].reshape(*batch_shape, -1).to(dtype)
        good = None if ok is None else ok[t].reshape(batch_shape)
        state, info = strategy.tell(
            state,
            strategy.suggestion_at(state, at, now=now),
            y[t].reshape(batch_shape).to(dtype),
            ok=good,
        )
        infos.append(info)
    return state, infos


WAYS = {
    "Static": {},
    "Markov": {"decay": Markov(0.05)},
    "Wiener": {"decay": Wiener(0.05)},
    "weights": {"inflation": ExponentialWeights(0.9)},
    "injection": {"inflation": UncertaintyInjection(0.5)},
    "Markov trigger": {"decay": Markov(0.05), "retention": EventTrigger(0.1)},
    "Wiener reset": {"decay": Wiener(0.05), "retention": PeriodicReset(8)},
    "Markov window by time": {"decay": Markov(0.05), "retention": SlidingWindow(6.0, by="time")},
    "estimated mean": {"decay": Markov(0.05), "mean": "estimated"},
}


@pytest.mark.few(2)
@pytest.mark.parametrize("name", WAYS)
def test_the_posterior_uses_learned_hyperparameters(name):
    strategy, rounds = strategy_of(**WAYS[name]), 8 if "reset" not in name else 7
    X, time, y = observed(rounds, 2, seed=3)
    state, infos = play(strategy, X, time, y, (2,))
    box_prior = state.basis
    lengthscale = box_prior.kernel.lengthscale.reshape(2)
    noise = NOISE * box_prior.noise_factor
    now = time[-1] + 1
    query = np.random.default_rng(1).random((3, 2))
    got = strategy.posterior(state, torch.tensor(query))
    for i in range(2):
        rows = np.arange(rounds)
        if "trigger" in name:
            fired = [t for t, info in enumerate(infos) if bool(info.reset[i])]
            rows = rows[(fired or [0])[-1] :]
        if "window" in name:
            rows = rows[time[:, i].numpy() >= float(now[i]) - 6.0]
        points = np.concatenate([query, X[rows, i].numpy()])
        rate = 0.0
        if box_prior.decay is not None:
            rate = float(box_prior.decay.value("sigma_w2" if "Wiener" in name else "epsilon")[i])
        decay = {"M": ("markov", rate), "e": ("markov", rate), "W": ("wiener", rate)}
        inflation = {"weights": ("exponential", 0.9), "injection": ("injection", 0.5, 1.0)}
        mean, variance = regression(
            matern_five_halves(points, float(lengthscale[i])),
            range(3, 3 + len(rows)),
            time[rows, i].numpy(),
            y[rows, i].numpy(),
            float(now[i]),
            noise=float(noise[i]),
            decay=decay.get(name[0], ("static",)),
            inflation=inflation.get(name, ("constant",)),
            reference=float(time[-1, i]),
            origin=float(time[rows[0], i]),
            mean="estimated" if name == "estimated mean" else 0.0,
        )
        np.testing.assert_allclose(got.mean[i, :, 0], mean[:3], rtol=0, atol=1e-7)
        np.testing.assert_allclose(got.variance[i, :, 0], variance[:3], rtol=0, atol=1e-7)


@pytest.mark.full
def test_learning_uses_the_retained_rows():
    strategy = strategy_of(decay=Markov(0.05), retention=EventTrigger(0.1))
    X, time, y = observed(12, 2, seed=1)
    ok = torch.ones(12, 2, dtype=torch.bool)
    ok[9, 1] = False
    state = strategy.init(BOX, batch_shape=(2,))
    for t in range(12):
        if t == 11:
            before = state
        at = strategy.suggestion_at(state, X[t], now=time[t])
        state, _ = strategy.tell(state, at, y[t], ok=ok[t], noise=NOISE * (1 + t % 3))
    retained = [row.nonzero().flatten() + state.data.dropped for row in state.data.retained]
    assert len(retained[0]) != len(retained[1])
    for i in range(2):
        rows = retained[i][ok[retained[i], i]]
        found = learn(
            strategy.learning,
            MATERN,
            strategy.decay,
            NOISE,
            X[rows, i],
            time[rows, i],
            y[rows, i],
            torch.ones(len(rows), dtype=torch.bool),
            (1 + rows % 3).double(),
            before.basis.parameters[i],
        )
        torch.testing.assert_close(state.basis.parameters[i], found.vector, rtol=1e-4, atol=1e-5)


def test_noise_that_ages_is_learned_with():
    strategy = strategy_of(inflation=ExponentialWeights(0.7))
    X, time, y = observed(8, 1, seed=2)
    before, _ = play(strategy, X[:7], time[:7], y[:7], (1,))
    state, _ = play(strategy, X, time, y, (1,))
    rows = strategy.learning, MATERN, Static(), NOISE, X[:, 0], time[:, 0], y[:, 0]
    rows = *rows, torch.ones(8, dtype=torch.bool), None, before.basis.parameters[0]
    found = learn(*rows, inflation=0.7 ** -(time[-1] - time)[:, 0])
    torch.testing.assert_close(state.basis.parameters[0], found.vector, rtol=1e-4, atol=1e-5)


def test_schedule():
    strategy = strategy_of(learning=Refit(every=3, least=5))
    X, time, y = observed(10, 2)
    state = strategy.init(BOX, batch_shape=(2,))
    learned = []
    for t in range(10):
        at = strategy.suggestion_at(state, X[t], now=time[t])
        before = state.basis
        state, _ = strategy.tell(state, at, y[t])
        learned.append(state.basis is not before)
        if state.rounds == 3:  # fewer than the least: the given values
            torch.testing.assert_close(
                state.basis.kernel.lengthscale.flatten(), torch.full((2,), 0.5, dtype=D)
            )
            torch.testing.assert_close(state.basis.noise_factor, torch.ones(2, dtype=D))
    assert learned == [False, False, True] * 3 + [False]


def test_the_trigger_uses_the_learned_noise():
    strategy = strategy_of(
        noise=1.0, retention=EventTrigger(0.1), learning=Refit(every=6, lengthscale=None)
    )
    X, _, _ = observed(6, 1)
    state = strategy.init(BOX)
    for t in range(6):
        at = strategy.suggestion_at(state, X[t, 0])
        state, info = strategy.tell(state, at, 0.3 * X[t, 0].sum())
        assert not info.reset
    learned_noise = float(state.basis.noise_factor)
    assert learned_noise < 0.2
    at = strategy.suggestion_at(state, X[2, 0])
    limits = [trigger_threshold(float(at.sd), noise, 7, 0.1) for noise in (learned_noise, 1.0)]
    assert limits[1] > limits[0] + 0.5
    for fraction, fires in ((0.99, False), (1.01, True)):
        y = at.mean + fraction * limits[0]
        _, info = strategy.tell(state, at, y)
        assert bool(info.reset) == fires
        assert float(info.information_gain) == pytest.approx(
            0.5 * math.log1p(float(at.sd) ** 2 / learned_noise), abs=1e-9
        )


@pytest.mark.full
@pytest.mark.parametrize("dtype", [torch.float32, D])
def test_nothing_to_learn_from(dtype):
    strategy = strategy_of(
        learning=Refit(every=2, least=1), retention=PeriodicReset(4), decay=Wiener(0.1)
    )
    X, time, y = observed(8, 2)
    state, _ = play(strategy, X, time, y, (2,), dtype=dtype, ok=torch.zeros(8, 2, dtype=torch.bool))
    lengthscale = state.basis.kernel.lengthscale
    assert lengthscale.dtype == dtype
    torch.testing.assert_close(lengthscale.flatten(), torch.full((2,), 0.5, dtype=dtype))
    assert strategy.ask(state).mean.abs().max() == 0
    state, _ = play(strategy, X, time, y, (2,), dtype=dtype)  # reset in the last round
    assert strategy.ask(state).X.tolist() == [[0.5, 0.5]] * 2
    full = strategy_of(learning=Refit(every=2, least=1, epsilon=None), decay=Markov(1.0))
    state, _ = play(full, X, time, y, (2,), dtype=dtype)
    suggestion = full.ask(state)
    torch.testing.assert_close(suggestion.sd, torch.ones(2, dtype=dtype), rtol=0, atol=1e-5)


def test_unsupported_learning_is_refused_at_init():
    with pytest.raises(ValueError, match="Box"):
        strategy_of().init(Grid.regular(3, 2))
    for kernel in (RQKernel().double(), MATERN * MATERN, torch.eye(3, dtype=D)):
        with pytest.raises(InputDataError):
            strategy_of(kernel=kernel).init(BOX)
    tight = Refit(lengthscale=Free(lower=1.0, upper=2.0))
    with pytest.raises(ValueError, match="lengthscale"):
        strategy_of(learning=tight).init(BOX)


@pytest.mark.full
@pytest.mark.parametrize("rounds", [4, 12])
def test_a_random_walk_is_learned_from_its_origin(rounds):
    strategy = strategy_of(decay=Wiener(0.05), retention=PeriodicReset(6))
    X, time, y = observed(rounds, 2, seed=2)
    early, late = (play(strategy, X, time + by, y, (2,))[0] for by in (0.0, 512.0))
    torch.testing.assert_close(late.basis.parameters, early.basis.parameters, rtol=1e-5, atol=1e-6)
    if rounds == 4:
        live = torch.ones(4, dtype=torch.bool)
        for i in range(2):
            own = (X[:, i], time[:, i] - time[0, i], y[:, i], live)
            found = learn(strategy.learning, MATERN, strategy.decay, NOISE, *own)
            torch.testing.assert_close(late.basis.parameters[i], found.vector, rtol=1e-5, atol=1e-6)


# ---------------- Strategies as BoTorch models

MODEL_NOISE = 0.04


def scaled_module():
    kernel = ScaleKernel(MaternKernel(nu=2.5, ard_num_dims=2)).double()
    kernel.outputscale = torch.tensor(1.6, dtype=D)
    kernel.base_kernel.lengthscale = torch.tensor([[0.3, 0.6]], dtype=D)
    return kernel


def random_state(strategy, domain, n=7, batch_shape=()):
    state = strategy.init(domain, batch_shape=batch_shape)
    generator = torch.Generator().manual_seed(0)
    time = torch.zeros(batch_shape, dtype=D)
    for _ in range(n):
        time = time + torch.rand(batch_shape, generator=generator, dtype=D) * 2
        if isinstance(domain, Grid):
            X = domain.X[torch.randint(len(domain), batch_shape, generator=generator)]
        else:
            X = torch.rand(*batch_shape, 2, generator=generator, dtype=D)
        y = torch.randn(batch_shape, generator=generator, dtype=D)
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X, now=time), y)
    return state


@pytest.mark.few(3)
@pytest.mark.parametrize("lead", [(), (3,), (2, 3)])
@pytest.mark.parametrize("batch_shape", [(), (1,), (2,), (2, 2)])
def test_same_posterior_with_any_batch(batch_shape, lead):
    strategy = GPStrategy(
        kernel=scaled_module(), noise=MODEL_NOISE, decay=Wiener(0.1), retention=EventTrigger()
    )
    state = random_state(strategy, Box(CUBE), batch_shape=batch_shape)
    now = state.time + 1.3
    model = strategy.as_model(state, now=now)
    assert model.num_outputs == 1
    assert model.batch_shape == torch.Size(batch_shape)
    X = torch.rand(*lead, *batch_shape, 3, 2, dtype=D, generator=torch.Generator().manual_seed(1))
    for noisy in (False, True):
        ours = model.posterior(X, observation_noise=noisy)
        theirs = strategy.posterior(state, X, now=now, observation_noise=noisy)
        assert ours.mean.shape == (*lead, *batch_shape, 3, 1)
        torch.testing.assert_close(ours.mean, theirs.mean, rtol=0, atol=0)
        torch.testing.assert_close(ours.variance, theirs.variance, rtol=0, atol=0)
    # A group of points is what it is alone.
    plain = model.posterior(X)
    covariance = plain.distribution.covariance_matrix
    for place in [(0,) * len(lead), (-1,) * len(lead)]:
        alone = model.posterior(X[place])
        torch.testing.assert_close(alone.mean, plain.mean[place], rtol=0, atol=1e-12)
        wanted = alone.distribution.covariance_matrix
        torch.testing.assert_close(covariance[place], wanted, rtol=0, atol=1e-12)
    assert plain.rsample(torch.Size([5])).shape == (5, *lead, *batch_shape, 3, 1)
    shifted = ScalarizedPosteriorTransform(torch.tensor([2.0], dtype=D), offset=1.0)
    transformed = model.posterior(X, posterior_transform=shifted)
    torch.testing.assert_close(transformed.mean, 2 * plain.mean + 1)


def test_learned_hyperparameters_are_the_models():
    strategy = GPStrategy(
        kernel=scaled_module(),
        noise=MODEL_NOISE,
        decay=Markov(0.1),
        learning=Refit(every=3, least=3),
    )
    state = random_state(strategy, Box(CUBE), n=6, batch_shape=(2,))
    X = torch.rand(4, 1, 1, 2, dtype=D).expand(4, 2, 1, 2)
    model = strategy.as_model(state)
    ours = strategy.posterior(state, X, observation_noise=True)
    torch.testing.assert_close(model.posterior(X, observation_noise=True).mean, ours.mean)
    gap = ours.variance - model.posterior(X).variance
    noise = MODEL_NOISE * state.basis.noise_factor
    torch.testing.assert_close(gap[..., 0, 0], noise.expand(4, 2), rtol=0, atol=1e-9)
    assert not torch.allclose(noise, torch.full_like(noise, MODEL_NOISE))


def test_other_outputs_and_points_are_refused():
    strategy = GPStrategy(kernel=scaled_module(), noise=MODEL_NOISE)
    model = strategy.as_model(random_state(strategy, Box(CUBE)))
    X = torch.rand(1, 2, dtype=D)
    assert torch.equal(model.posterior(X, output_indices=[0]).mean, model.posterior(X).mean)
    with pytest.raises(ValueError, match="one output"):
        model.posterior(torch.rand(1, 2, dtype=D), output_indices=[1])
    with pytest.raises(InputDataError, match="outside"):
        model.posterior(torch.full((1, 2), 1.5, dtype=D))
    with pytest.raises(InputDataError, match="shape"):
        model.posterior(torch.rand(1, 3, dtype=D))


# ---------------- torch.inference_mode()


MAKE = {
    "GP-UCB": lambda kernel: gp_ucb(kernel=kernel, noise=0.02),
    "GP-TS": lambda kernel: gp_ts(kernel=kernel, noise=0.02),
    "GP-EI": lambda kernel: gp_ei(kernel=kernel, noise=0.02),
    "learning": lambda kernel: replace(
        tv_gp_ucb(kernel=kernel, noise=0.02, epsilon=0.01), learning=Refit(every=2, least=2)
    ),
}


def played(name, where):
    strategy = MAKE[name](unit_kernel("se", 0.3))
    bounds = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
    domain = Box(bounds) if where == "box" else Grid.regular(points=4, dim=2)
    state = strategy.init(domain)
    for t in range(3):
        suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(t))
        y = torch.sin(3 * suggestion.X.sum())
        state, _ = strategy.tell(state, suggestion, y)
    strategy.posterior(state, suggestion.X.unsqueeze(0))
    return strategy, state, torch.cat([suggestion.X, strategy.recommend(state)])


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "where"),
    [(name, where) for name in MAKE for where in ("box", "grid") if (name, where)[0] != "learning"]
    + [("learning", "box")],
)
def test_inference_mode(name, where):
    _, _, expected = played(name, where)
    with torch.inference_mode():
        strategy, state, chosen = played(name, where)
    torch.testing.assert_close(chosen.clone(), expected, rtol=0, atol=1e-9)
    suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(9))
    state, _ = strategy.tell(state, suggestion, 0.3)
    X = suggestion.X.clone().unsqueeze(0).requires_grad_(where == "box")
    mean = strategy.posterior(state, X).mean
    if where == "box":
        mean.sum().backward()
        assert X.grad.isfinite().all()
