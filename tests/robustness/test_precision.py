"""Long runs and ill-conditioned problems against a fresh factorisation, in fifty digits."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.posteriors import Posterior
from conformance.presets import BY_NAME, CHOOSING, ENGINES, NARROW, Preset, each_path
from conformance.rounds import Setting, assert_close, make_world
from numpy.typing import NDArray
from oracles import exact
from oracles.dense import decay_between
from torch import Tensor

from botorch_tv.acquisition.exploration import ExpectedImprovement, ProbabilityOfImprovement
from botorch_tv.simulation import MarkovWorld, run_study
from botorch_tv.simulation.settings import require_precision
from botorch_tv.strategies import (
    GPStrategy,
    Grid,
    Strategy,
    gp_ts,
    gp_ucb,
    r_gp_ucb,
    sw_gp_ucb,
    ui_tvbo,
)

SETTING = Setting(points=8, kernel="se", noise=0.02, rounds=0)
LIMIT = 1e-6


def gap(posterior: Posterior, mean: NDArray[np.float64], variance: NDArray[np.float64]) -> float:
    """Largest error of the mean or the variance."""
    found = (posterior.mean, posterior.variance)
    pairs = zip(found, (mean, variance), strict=True)
    return max(float(np.abs(item.flatten().numpy() - wanted).max()) for item, wanted in pairs)


def tv_rows(epsilon: float) -> int:
    """Rounds after which an observation's covariance is below 1e-18."""
    return int(np.ceil(2.0 * np.log(1e-18) / np.log1p(-epsilon)))


def fresh(
    kind: tuple,
    retained: tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]],
    now: float,
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and variance from the retained rows, by a new factorisation."""
    index, time, y = retained
    K, noise = SETTING.matrix(), SETTING.noise
    if kind[0] == "static":
        # Counts and sums per arm suffice, so the matrix has a row per arm.
        count = np.bincount(index, minlength=len(K)).astype(float)
        seen = np.flatnonzero(count)
        total = np.bincount(index, weights=y, minlength=len(K))[seen] / count[seen]
        A = K[np.ix_(seen, seen)] + np.diag(noise / count[seen])
        across, prior = K[seen], K.diagonal()
    else:
        at = np.array([now])
        origin = float(time[0])
        A = K[np.ix_(index, index)] * decay_between(kind, time, time, origin)
        A = A + noise * np.eye(len(index))
        across, total = K[index] * decay_between(kind, time, at, origin), y
        prior = K.diagonal() * decay_between(kind, at, at, origin)[0, 0]
    solved = np.linalg.solve(A, np.column_stack([total, across]))
    return across.T @ solved[:, 0], prior - (across * solved[:, 1:]).sum(0)


def drift(
    strategy: Strategy, kind: tuple, rounds: int, dtype: torch.dtype = torch.float64
) -> float:
    """Largest error of mean or variance at twenty times of a run."""
    random = np.random.default_rng(1)
    waves = random.standard_normal((60, 2)) / 0.25
    phase = random.uniform(0.0, 2.0 * np.pi, 60)
    basis = np.cos(SETTING.X @ waves.T + phase) * (2.0 / 60.0) ** 0.5
    weight = random.standard_normal(60)
    state = strategy.init(SETTING.domain, batch_shape=(1,), dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    index, y = np.empty(rounds, dtype=np.int64), np.empty(rounds)
    first, worst = 0, 0.0
    for t in range(rounds):
        # The objective drifts, and jumps occasionally, so triggers fire and arms change.
        weight = 0.999 * weight + 0.0447 * random.standard_normal(60)
        if t % 5000 == 4999:
            weight = random.standard_normal(60)
        suggestion = strategy.ask(state, generator=generator)
        index[t] = int(suggestion.index)
        y[t] = basis[index[t]] @ weight + random.standard_normal() * SETTING.noise**0.5
        observed: Tensor = torch.tensor([y[t]], dtype=dtype)
        state, info = strategy.tell(state, suggestion, observed, check=False, consume=True)
        if kind[-1] == "trigger" and bool(info.reset):
            first = t
        if (t + 1) % (rounds // 20) == 0:
            start = {
                "all": 0,
                "window": max(0, t + 1 - 40),
                "period": (t + 1) // 37 * 37,
                "trigger": first,
                "markov": max(0, t + 1 - tv_rows(0.03)),
            }[kind[-1]]
            rows = slice(start, t + 1)
            time = np.arange(1.0, rounds + 1.0)
            retained = (index[rows], time[rows], y[rows])
            mean, variance = fresh(kind[:-1], retained, t + 2.0)
            posterior = strategy.posterior(state, SETTING.domain.X.to(dtype))
            worst = max(worst, gap(posterior, mean, variance))
    return worst


COMMON = {"kernel": SETTING.module(), "noise": 0.02}
RUNS = {
    "GP": (gp_ucb(**COMMON, width=NARROW), ("static", "all")),
    "GP-TS": (gp_ts(**COMMON, B=0.5, R=0.1), ("static", "all")),
    "R": (r_gp_ucb(**COMMON, period=37, width=NARROW), ("static", "period")),
    "SW": (sw_gp_ucb(**COMMON, window=40, width=NARROW), ("static", "window")),
    "TV": (BY_NAME["TV-GP-UCB"].strategy(*COMMON.values()), ("markov", 0.03, "markov")),
    "ET": (BY_NAME["ET-GP-UCB"].strategy(*COMMON.values()), ("static", "trigger")),
    "UI": (ui_tvbo(**COMMON, sigma_w2=0.003, width=NARROW), ("wiener", 0.003, "all")),
}
# Static models have two recursions: by features, and by the arms seen.
PLAYED = [(name, "features") for name in RUNS] + [("GP", "auto"), ("ET", "auto")]


@pytest.mark.full
@pytest.mark.parametrize("rounds", [400, pytest.param(100_000, marks=pytest.mark.slow)], ids=str)
@pytest.mark.parametrize(("name", "engine"), PLAYED)
def test_long_runs(name: str, engine: str, rounds: int) -> None:
    strategy, kind = RUNS[name]
    if name == "UI":  # all rows count for ever
        rounds = min(rounds, 2000)
    assert drift(replace(strategy, inference=engine), kind, rounds) < LIMIT


@pytest.mark.parametrize("name", ["GP", "ET"])
def test_single_precision_is_refused_for_long_runs(name: str) -> None:
    world = MarkovWorld(SETTING.domain, kernel=SETTING.module(), epsilon=0.01, noise=0.02)
    strategies = {name: RUNS[name][0]}
    usual = {"trials": 1, "progress": False}
    for dtype, horizon in ((torch.float32, 12), (torch.float64, 12)):
        run_study(world, strategies, dtype=dtype, horizon=horizon, **usual)
    with pytest.raises(
        ValueError, match=f"{name}.* may retain 2,000 .* more than 1,311 .*float32.*; give"
    ):
        run_study(world, strategies, dtype=torch.float32, horizon=2000, **usual)


def test_forgetting_needs_no_more_precision() -> None:
    for name in ("R", "SW", "TV"):
        strategy = RUNS[name][0]
        state = strategy.init(SETTING.domain, dtype=torch.float32)
        require_precision(name, strategy, state, 10**6)
    static = RUNS["GP"][0]
    require_precision("GP", static, static.init(SETTING.domain), 10**6)


@pytest.mark.full
def test_single_precision_is_accurate_as_long_as_allowed() -> None:
    """In the worst case: a drifting objective under a static model."""
    # A standard deviation is at least 4e-3 then.
    assert drift(*RUNS["GP"], 1300, torch.float32) < 1e-3


SMALL = Setting(points=4, kernel="se", noise=0.02, rounds=30)
each_engine = pytest.mark.parametrize("engine", ENGINES)


def line(arms: int) -> Grid:
    return Grid(torch.linspace(0.0, 1.0, arms, dtype=torch.float64).unsqueeze(-1))


@pytest.mark.few(10)
@each_path(2, CHOOSING)
def test_grid_with_every_arm_twice(preset: Preset, engine: str) -> None:
    """Twins have equal posteriors; the lower index is played, as if the others did not exist."""
    single = SMALL.domain
    double = Grid(single.X.repeat_interleave(2, 0))
    strategy = replace(preset.strategy(SMALL.module(), 0.02), inference=engine)
    world = make_world(SMALL.points, 0.02, SMALL.rounds, 2)
    states = [strategy.init(domain, batch_shape=(2,)) for domain in (single, double)]
    for t in range(16):
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


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("exploration", [ExpectedImprovement(), ProbabilityOfImprovement()])
@each_engine
def test_improvement_where_nothing_is_uncertain(
    exploration: object, maximize: bool, engine: str
) -> None:
    """The incumbent has sd 0, without division by it; EI explores other arms, PI does not."""
    K = torch.diag(torch.tensor([0.0, 1.0, 1.0], dtype=torch.float64))
    parts = {"exploration": exploration, "maximize": maximize, "inference": engine}
    strategy = GPStrategy(kernel=K, noise=0.01, width=NARROW, **parts)
    domain = line(3)
    state = strategy.init(domain)
    sign = 1.0 if maximize else -1.0
    played = set()
    for round in range(12):
        # Without data the first choice would be an arm of the largest prior sd.
        suggestion = strategy.ask(state) if round else strategy.suggestion_at(state, domain.X[0])
        assert torch.isfinite(suggestion.mean)
        assert torch.isfinite(suggestion.sd)
        played.add(int(suggestion.index))
        y = sign * torch.tensor([0.0, -1.0, 1.0], dtype=torch.float64)[suggestion.index]
        state, _ = strategy.tell(state, suggestion, y)
    curious = isinstance(exploration, ExpectedImprovement)
    assert float(strategy.recommend(state)) == (1.0 if curious else 0.0)
    assert played == ({0, 1, 2} if curious else {0})


def error_of_a_window(engine: str, noise: float, window: int) -> float:
    """Largest error of mean or variance on a 6 x 6 grid over 120 rounds."""
    setting = Setting(points=6, kernel="se", noise=noise, rounds=120)
    strategy = sw_gp_ucb(
        kernel=setting.module(), noise=noise, window=window, width=NARROW, inference=engine
    )
    state, X = strategy.init(setting.domain), setting.domain.X
    world = make_world(6, noise, 120, 1)
    index, y, worst = [], [], 0.0
    for t in range(setting.rounds):
        suggestion = strategy.ask(state)
        seen = world.observe(t, suggestion.index.reshape(1)).reshape(())
        state, _ = strategy.tell(state, suggestion, seen)
        index.append(int(suggestion.index))
        y.append(float(seen))
        if t % 60 == 59:
            posterior = strategy.posterior(state, X)
            mean, covariance, _ = exact.joint_regression(
                *(setting.matrix(), index[-window:], [1.0] * window, y[-window:], 1.0),
                noise=[noise] * window,
                reference=1.0,
                origin=1.0,
            )
            worst = max(worst, gap(posterior, mean, covariance.diagonal()))
    return worst


@pytest.mark.few(1)
@pytest.mark.parametrize(("noise", "window", "limit"), [(1e-3, 13, 1e-8), (1e-6, 13, 1e-6)])
@each_engine
def test_windows(engine: str, noise: float, window: int, limit: float) -> None:
    """Over a hundred deletions; with noise 1e-6 of the prior the condition number is 4e6."""
    assert error_of_a_window(engine, noise, window) < limit
