"""Long runs: recursions must not drift from a fresh factorisation of the log."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance.presets import BY_NAME, NARROW
from conformance.rounds import Setting
from numpy.typing import NDArray
from oracles.dense import decay_between
from torch import Tensor

from botorch_tv.simulation import MarkovWorld, run_study
from botorch_tv.simulation.settings import require_precision
from botorch_tv.strategies import Strategy, gp_ts, gp_ucb, r_gp_ucb, sw_gp_ucb, ui_tvbo

SETTING = Setting(points=8, kernel="se", noise=0.02, rounds=0)
LIMIT = 1e-6


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
) -> tuple[float, float]:
    """Largest errors of mean and variance at twenty times of a run."""
    random = np.random.default_rng(1)
    waves = random.standard_normal((60, 2)) / 0.25
    phase = random.uniform(0.0, 2.0 * np.pi, 60)
    basis = np.cos(SETTING.X @ waves.T + phase) * (2.0 / 60.0) ** 0.5
    weight = random.standard_normal(60)
    state = strategy.init(SETTING.domain, batch_shape=(1,), dtype=dtype)
    generator = torch.Generator().manual_seed(0)
    index, y = np.empty(rounds, dtype=np.int64), np.empty(rounds)
    first, worst = 0, (0.0, 0.0)
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
            worst = (
                max(worst[0], float(np.abs(posterior.mean[0, :, 0].numpy() - mean).max())),
                max(worst[1], float(np.abs(posterior.variance[0, :, 0].numpy() - variance).max())),
            )
    return worst


RUNS = {
    "GP": (lambda: gp_ucb(kernel=SETTING.module(), noise=0.02, width=NARROW), ("static", "all")),
    "GP-TS": (lambda: gp_ts(kernel=SETTING.module(), noise=0.02, B=0.5, R=0.1), ("static", "all")),
    "R": (
        lambda: r_gp_ucb(kernel=SETTING.module(), noise=0.02, period=37, width=NARROW),
        ("static", "period"),
    ),
    "SW": (
        lambda: sw_gp_ucb(kernel=SETTING.module(), noise=0.02, window=40, width=NARROW),
        ("static", "window"),
    ),
    "TV": (
        lambda: BY_NAME["TV-GP-UCB"].strategy(SETTING.module(), 0.02),
        ("markov", 0.03, "markov"),
    ),
    "ET": (lambda: BY_NAME["ET-GP-UCB"].strategy(SETTING.module(), 0.02), ("static", "trigger")),
}


# Static models have two recursions: by features, and by the arms seen.
PLAYED = [(name, "features") for name in RUNS] + [("GP", "auto"), ("ET", "auto")]
LENGTHS = pytest.mark.parametrize(
    "rounds", [400, pytest.param(100_000, marks=pytest.mark.slow)], ids=str
)


@LENGTHS
@pytest.mark.parametrize(("name", "engine"), PLAYED)
def test_long_runs(name: str, engine: str, rounds: int) -> None:
    strategy, kind = RUNS[name]
    assert max(drift(replace(strategy(), inference=engine), kind, rounds)) < LIMIT


def wiener_drift(rounds: int) -> tuple[float, float]:
    """Errors against a Kalman filter over all 64 arms in Joseph's form."""
    sigma_w2, noise = 0.003, SETTING.noise
    strategy = ui_tvbo(
        kernel=SETTING.module(), noise=noise, sigma_w2=sigma_w2, width=NARROW, inference="features"
    )
    K = SETTING.matrix()
    mean, covariance = np.zeros(len(K)), K.copy()
    state = strategy.init(SETTING.domain, batch_shape=(1,))
    random, worst = np.random.default_rng(2), (0.0, 0.0)
    f = np.linalg.cholesky(K + 1e-9 * np.eye(len(K))) @ random.standard_normal(len(K))
    for t in range(rounds):
        if t:
            covariance = covariance + sigma_w2 * K
        suggestion = strategy.ask(state)
        at = int(suggestion.index)
        y = f[at] + random.standard_normal() * noise**0.5
        # Joseph's form is a sum of positive semi-definite terms, so rounding is harmless.
        gain = covariance[:, at] / (covariance[at, at] + noise)
        mean = mean + gain * (y - mean[at])
        joseph = np.eye(len(K))
        joseph[:, at] -= gain
        covariance = joseph @ covariance @ joseph.T + noise * np.outer(gain, gain)
        observed = torch.tensor([y], dtype=torch.float64)
        state, _ = strategy.tell(state, suggestion, observed, check=False, consume=True)
        if (t + 1) % (rounds // 20) == 0:
            posterior = strategy.posterior(state, SETTING.domain.X)
            expected = (covariance + sigma_w2 * K).diagonal()
            worst = (
                max(worst[0], float(np.abs(posterior.mean[0, :, 0].numpy() - mean).max())),
                max(worst[1], float(np.abs(posterior.variance[0, :, 0].numpy() - expected).max())),
            )
    return worst


@LENGTHS
def test_long_runs_of_a_random_walk(rounds: int) -> None:
    assert max(wiener_drift(rounds)) < LIMIT


@pytest.mark.parametrize("name", ["GP", "ET"])
def test_single_precision_is_refused_for_long_runs(name: str) -> None:
    world = MarkovWorld(SETTING.domain, kernel=SETTING.module(), epsilon=0.01, noise=0.02)
    strategies = {name: RUNS[name][0]()}
    usual = {"trials": 1, "progress": False}
    for dtype, horizon in ((torch.float32, 12), (torch.float64, 12)):
        run_study(world, strategies, dtype=dtype, horizon=horizon, **usual)
    with pytest.raises(
        ValueError, match=f"{name}.* may retain 2,000 .*float32.* beyond 1,311; give"
    ):
        run_study(world, strategies, dtype=torch.float32, horizon=2000, **usual)


def test_forgetting_needs_no_more_precision() -> None:
    for name, strategy in (("R", RUNS["R"][0]()), ("SW", RUNS["SW"][0]()), ("TV", RUNS["TV"][0]())):
        state = strategy.init(SETTING.domain, dtype=torch.float32)
        require_precision(name, strategy, state, 10**6)
    static = RUNS["GP"][0]()
    require_precision("GP", static, static.init(SETTING.domain), 10**6)


def test_single_precision_is_accurate_as_long_as_allowed() -> None:
    """In the worst case: a drifting objective under a static model."""
    strategy = RUNS["GP"][0]()
    errors = drift(strategy, ("static", "all"), 1300, torch.float32)
    assert max(errors) < 1e-3  # a standard deviation is at least 4e-3 then
