"""Duplicates, nearly singular kernels, nearly exact measurements, dead arms.

The tolerance is a few hundred eps times the condition number, against the textbook in fifty digits
or a closed form.
"""

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance.presets import BY_NAME, DRAWING, ENGINES, NARROW, Preset, each_path
from conformance.rounds import Setting, assert_close, make_world
from oracles import exact
from oracles.dense import squared_exponential

from botorch_tv.acquisition.exploration import ExpectedImprovement, ProbabilityOfImprovement
from botorch_tv.strategies import GPStrategy, Grid, Strategy, gp_ucb, sw_gp_ucb, tv_gp_ucb, ui_tvbo

EPS = 2.0**-52
SETTING = Setting(points=4, kernel="se", noise=0.02, rounds=30)
each_engine = pytest.mark.parametrize("engine", ENGINES)


def line(arms: int) -> Grid:
    return Grid(torch.linspace(0.0, 1.0, arms, dtype=torch.float64).unsqueeze(-1))


@pytest.mark.parametrize("noise", [1e-6, pytest.param(0.01, marks=pytest.mark.slow), 10.0])
@each_engine
def test_same_arm_a_thousand_times(engine: str, noise: float) -> None:
    """mean = k S / (k_00 n + noise), variance = k - k^2 n / (k_00 n + noise), S the sum of y."""
    domain, rounds, at = line(7), 1000 if engine == "features" else 200, 3
    K = squared_exponential(domain.X.numpy(), 0.3)
    strategy = gp_ucb(kernel=torch.as_tensor(K), noise=noise, width=NARROW, inference=engine)
    state = strategy.init(domain)
    y = np.random.default_rng(0).standard_normal(rounds) * 0.1 + 1.0
    for value in torch.as_tensor(y):
        suggestion = strategy.suggestion_at(state, domain.X[at])
        assert float(suggestion.sd) > 0.0
        state, _ = strategy.tell(state, suggestion, value, check=False, consume=True)
    posterior = strategy.posterior(state, domain.X)
    k, total = K[at], rounds + noise
    tolerance = 100.0 * EPS * rounds / noise
    assert_close(posterior.mean[:, 0], k * y.sum() / total, min(1e-8, tolerance), "mean")
    expected = K.diagonal() - k**2 * rounds / total
    assert_close(posterior.variance[:, 0], expected, 1e-9, "variance")


@each_path(2)
def test_grid_with_every_arm_twice(preset: Preset, engine: str) -> None:
    """Twins have equal posteriors; the lower index is played, as if the others did not exist."""
    single = SETTING.domain
    double = Grid(single.X.repeat_interleave(2, 0))
    strategy = replace(preset.strategy(SETTING.module(), 0.02), inference=engine)
    world = make_world(SETTING.points, 0.02, SETTING.rounds, 2)
    states = [strategy.init(domain, batch_shape=(2,)) for domain in (single, double)]
    for t in range(16):
        if preset.draws:  # other features, other draws: the arms are given
            arms = torch.tensor([(5 * t) % 16, (3 * t + 1) % 16])
            item = strategy.suggestion_at(states[0], single.X[arms])
            two = strategy.suggestion_at(states[1], single.X[arms])
        else:
            item, two = strategy.ask(states[0]), strategy.ask(states[1])
            assert torch.equal(two.index, 2 * item.index), f"round {t + 1}"
        y = world.observe(t, item.index)
        assert torch.equal(item.X, two.X)
        for name in ("mean", "sd"):
            assert_close(getattr(two, name), getattr(item, name), 1e-10, f"{name}, round {t + 1}")
        states = [strategy.tell(s, a, y)[0] for s, a in zip(states, (item, two))]
    twins = strategy.posterior(states[1], double.X)
    mean, variance = twins.mean.view(2, -1, 2), twins.variance.view(2, -1, 2)
    assert_close(mean[..., 0], mean[..., 1], 1e-10, "mean of twins")
    assert_close(variance[..., 0], variance[..., 1], 1e-10, "variance of twins")


def matrix(kind: str) -> np.ndarray:
    random, X = np.random.default_rng(2), np.linspace(0.0, 1.0, 9)[:, None]
    if kind == "nearly constant":
        return squared_exponential(X, 100.0)
    if kind == "very smooth":
        return squared_exponential(X, 3.0)
    if kind == "rank one":
        loading = random.standard_normal(9)
        return np.outer(loading, loading)
    if kind == "all arms equal":
        return np.ones((9, 9))
    if kind == "dead arm":
        K = squared_exponential(X, 0.2)
        K[4, :] = K[:, 4] = 0.0
        return K
    if kind == "uneven":
        spread = 10.0 ** np.linspace(-6.0, 0.0, 9)
        return squared_exponential(X, 0.3) * np.outer(spread, spread)
    raise ValueError(kind)


KINDS = ["nearly constant", "very smooth", "rank one", "all arms equal", "dead arm", "uneven"]
MODELS = [
    ("static", ("static",), lambda k, n, e: gp_ucb(kernel=k, noise=n, width=NARROW, inference=e)),
    (
        "Markov",
        ("markov", 0.05),
        lambda k, n, e: tv_gp_ucb(kernel=k, noise=n, epsilon=0.05, width=NARROW, inference=e),
    ),
    (
        "Wiener",
        ("wiener", 0.05),
        lambda k, n, e: ui_tvbo(kernel=k, noise=n, sigma_w2=0.05, width=NARROW, inference=e),
    ),
]


@pytest.mark.parametrize("noise", [1e-6, 1e-2])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "decay", "make"), MODELS, ids=[model[0] for model in MODELS])
def test_nearly_singular_kernels(
    name: str, decay: tuple, make: Callable[..., Strategy], kind: str, noise: float
) -> None:
    """Fourteen rounds, arms repeated, then against fifty digits, in each recursion."""
    K, rounds = matrix(kind), 14
    domain = line(9)
    random = np.random.default_rng(3)
    index, y = random.integers(0, 9, rounds).tolist(), random.standard_normal(rounds)
    # A function that the prior allows, and noise.
    values, vectors = np.linalg.eigh(K)
    f = vectors @ (np.sqrt(values.clip(0)) * random.standard_normal(9))
    y = f[index] + noise**0.5 * y
    times = [t + 1.0 for t in range(rounds)]
    mean, covariance, condition = exact.joint_regression(
        K,
        index,
        times,
        y,
        rounds + 1.0,
        noise=[noise] * rounds,
        decay=decay,
        inflation=("constant",),
        reference=float(rounds),
        origin=1.0,
    )
    tolerance = 500.0 * EPS * condition
    assert tolerance < 1e-4
    for engine in ENGINES:
        strategy = make(torch.as_tensor(K), noise, engine)
        state = strategy.init(domain)
        for arm, value in zip(index, torch.as_tensor(y)):
            at = strategy.suggestion_at(state, domain.X[arm])
            assert torch.isfinite(at.sd)
            state, _ = strategy.tell(state, at, value)
        posterior = strategy.posterior(state, domain.X)
        size = 1.0 + np.abs(y).max()
        assert_close(posterior.mean[:, 0], mean, tolerance * size, f"mean, {engine}")
        joint = posterior.distribution.covariance_matrix
        assert_close(joint, covariance, tolerance, f"covariance, {engine}")
        assert (posterior.variance[:, 0].numpy() >= -tolerance).all()
        suggestion = strategy.ask(state)
        assert torch.isfinite(suggestion.mean + suggestion.sd)


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("exploration", [ExpectedImprovement(), ProbabilityOfImprovement()])
@each_engine
def test_improvement_where_nothing_is_uncertain(
    exploration: object, maximize: bool, engine: str
) -> None:
    """The incumbent has sd 0, without division by it; EI explores other arms, PI does not."""
    K = torch.diag(torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64))
    strategy = GPStrategy(
        kernel=K,
        noise=0.01,
        width=NARROW,
        exploration=exploration,
        maximize=maximize,
        inference=engine,
    )
    domain = line(3)
    state = strategy.init(domain)
    sign = 1.0 if maximize else -1.0
    played = set()
    for _ in range(12):
        suggestion = strategy.ask(state)
        assert torch.isfinite(suggestion.mean)
        assert torch.isfinite(suggestion.sd)
        played.add(int(suggestion.index))
        y = sign * torch.tensor([0.0, -1.0, 1.0], dtype=torch.float64)[suggestion.index]
        state, _ = strategy.tell(state, suggestion, y)
    curious = isinstance(exploration, ExpectedImprovement)
    assert float(strategy.recommend(state)) == (1.0 if curious else 0.0)
    assert played == ({0, 1, 2} if curious else {0})


def errors_of_a_window(engine: str, noise: float, window: int) -> tuple[float, float]:
    """Largest errors of mean and variance on a 6 x 6 grid over 120 rounds."""
    setting = Setting(points=6, kernel="se", noise=noise, rounds=120)
    strategy = sw_gp_ucb(
        kernel=setting.module(), noise=noise, window=window, width=NARROW, inference=engine
    )
    state, X = strategy.init(setting.domain), setting.domain.X
    world = make_world(6, noise, 120, 1)
    index, y, worst = [], [], (0.0, 0.0)
    for t in range(setting.rounds):
        suggestion = strategy.ask(state)
        seen = world.observe(t, suggestion.index.reshape(1)).reshape(())
        state, _ = strategy.tell(state, suggestion, seen)
        index.append(int(suggestion.index))
        y.append(float(seen))
        if t >= window and t % 30 == 29:
            posterior = strategy.posterior(state, X)
            mean, covariance, _ = exact.joint_regression(
                setting.matrix(),
                index[-window:],
                [1.0] * window,
                y[-window:],
                1.0,
                noise=[noise] * window,
                decay=("static",),
                inflation=("constant",),
                reference=1.0,
                origin=1.0,
            )
            worst = (
                max(worst[0], float(np.abs(posterior.mean[:, 0].numpy() - mean).max())),
                max(
                    worst[1],
                    float(np.abs(posterior.variance[:, 0].numpy() - covariance.diagonal()).max()),
                ),
            )
    return worst


@pytest.mark.parametrize("start", [-1e9, -1000.0, 0.0, 1e9])
@pytest.mark.parametrize("name", ["TV-GP-UCB", "Markov + window", "UI-TVBO", "WGP-UCB"])
@each_engine
def test_the_clock_may_start_anywhere(engine: str, name: str, start: float) -> None:
    """The clock may start anywhere, for instance before 1970."""
    strategy = replace(BY_NAME[name].strategy(SETTING.module(), 0.02), inference=engine)
    state = strategy.init(SETTING.domain)
    k = SETTING.matrix()[5]
    suggestion = strategy.suggestion_at(state, SETTING.domain.X[5], now=start)
    assert_close(suggestion.mean, 0.0, 1e-12, "mean")
    assert_close(suggestion.sd, 1.0, 1e-12, "sd")
    state, _ = strategy.tell(state, suggestion, torch.tensor(1.02, dtype=torch.float64))
    posterior = strategy.posterior(state, SETTING.domain.X, now=start)
    assert_close(posterior.mean[:, 0], k, 1e-10, "mean afterwards")
    assert_close(posterior.variance[:, 0], 1.0 - k**2 / 1.02, 1e-10, "variance afterwards")


@pytest.mark.parametrize("name", [preset.name for preset in DRAWING[:3]])
@each_engine
def test_draws_where_the_kernel_is_singular(engine: str, name: str) -> None:
    for kind in KINDS:
        K = torch.as_tensor(matrix(kind))
        strategy = replace(BY_NAME[name].strategy(K, 1e-6), inference=engine)
        state = strategy.init(line(9), batch_shape=(20,))
        for t in range(6):
            suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(t))
            assert torch.isfinite(suggestion.mean).all()
            y = torch.full((20,), math.sqrt(float(K.diagonal().max())), dtype=torch.float64)
            state, _ = strategy.tell(state, suggestion, 0.3 * y)


@pytest.mark.parametrize(
    ("noise", "window", "limit"), [(1e-3, 13, 1e-8), (1e-6, 5, 1e-6), (1e-6, 13, 1e-6)]
)
@each_engine
def test_windows(engine: str, noise: float, window: int, limit: float) -> None:
    """Over a hundred deletions; with noise 1e-6 of the prior the condition number is 4e6."""
    assert max(errors_of_a_window(engine, noise=noise, window=window)) < limit
