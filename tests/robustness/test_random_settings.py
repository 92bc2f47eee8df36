"""Random shapes, dtypes, kernels and parameters: results are finite, bounded and correct.

``EXAMPLES=1500 pytest tests/robustness`` tries more of them.
"""

from __future__ import annotations

import math
import os
from typing import Any

import numpy as np
import pytest
import torch
from conformance.combinations import EXPLORATIONS
from conformance.presets import ENGINES, NARROW
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from oracles import exact
from oracles.dense import DenseBandit, matern_five_halves, squared_exponential

from botorch_tv.forgetting import (
    EventTrigger,
    ExponentialWeights,
    KeepAll,
    Markov,
    PeriodicReset,
    SlidingWindow,
    Static,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.gp.arms import LEAST_NOISE
from botorch_tv.strategies import GPStrategy, Grid, Strategy
from botorch_tv.strategies.arguments import least_noise

BATCHES = [(), (1,), (3,), (2, 3), (0,), (2, 0)]

epsilons = st.sampled_from([0.0, 1e-12, 0.03, 0.5, 1.0 - 1e-12, 1.0])
decays = st.one_of(
    st.just((Static(), ("static",))),
    epsilons.map(lambda e: (Markov(e), ("markov", e))),
    st.sampled_from([0.0, 1e-9, 0.03, 10.0]).map(lambda s: (Wiener(s), ("wiener", s))),
)
inflations = st.one_of(
    st.just((Static(), ("constant",))),
    st.sampled_from([1e-3, 0.5, 0.97, 1.0]).map(
        lambda g: (ExponentialWeights(g), ("exponential", g))
    ),
    st.tuples(st.sampled_from([0.0, 0.25, 1.0, 3.0]), st.sampled_from([0.0, 1e-6, 1.0, 1e3])).map(
        lambda p: (UncertaintyInjection(p[0], kappa=p[1]), ("injection", *p))
    ),
)
sizes = st.integers(1, 6)
retentions = st.one_of(
    st.just((KeepAll(), ("all",))),
    sizes.map(lambda n: (PeriodicReset(n), ("period", n, "rounds"))),
    sizes.map(lambda n: (SlidingWindow(n), ("window", n, "rounds"))),
    sizes.map(lambda n: (PeriodicReset(float(n), by="time"), ("period", float(n), "time"))),
    sizes.map(lambda n: (SlidingWindow(float(n), by="time"), ("window", float(n), "time"))),
    st.sampled_from([1e-6, 0.1, 0.9]).map(lambda d: (EventTrigger(d), ("trigger", d))),
)


@st.composite
def kernels(draw: st.DrawFn) -> NDArray[np.float64]:
    """Smooth, rough, nearly constant or diagonal, of low rank, with dead, equal or uneven arms."""
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    arms = draw(st.integers(1, 9))
    scale = draw(st.sampled_from([1e-4, 1.0, 1.0, 1e4]))
    kinds = ["se", "matern", "low rank", "rank one", "dead arm", "equal arms", "uneven"]
    kind = draw(st.sampled_from(kinds))
    X = random.uniform(size=(arms, 2))
    lengthscale = draw(st.sampled_from([0.01, 0.2, 1.0, 30.0]))
    K = squared_exponential(X, lengthscale)
    if kind == "matern":
        K = matern_five_halves(X, lengthscale)
    if kind in ("low rank", "rank one"):
        sample = random.standard_normal((1 if kind == "rank one" else 2, arms))
        K = sample.T @ sample
    if kind == "dead arm" and arms > 1:
        K[-1, :] = K[:, -1] = 0.0
    if kind == "equal arms":
        K = K[np.ix_(np.arange(arms) // 2, np.arange(arms) // 2)]
    if kind == "uneven":
        # The last arm has variance 1, also if it is the only arm: float32 refuses 1e-16.
        spread = 10.0 ** -np.linspace(0.0, 6.0, arms)[::-1]
        K = K * np.outer(spread, spread)
    return scale * (K + K.T) / 2.0


PARTS = {"decay": decays, "inflation": inflations, "retention": retentions}


@st.composite
def cases(draw: st.DrawFn) -> tuple[NDArray[np.float64], dict[str, Any], dict[str, Any], int]:
    """Covariance of the arms, parts of a strategy, their names in the textbook, and a seed."""
    K = draw(kernels())
    scale = float(K.diagonal().max()) or 1.0
    common = {
        "noise": scale * draw(st.sampled_from([1e-6, 1e-3, 0.05, 1.0, 10.0])),
        "mean": draw(st.sampled_from([0.0, 0.0, -3.0 * math.sqrt(scale), "estimated"])),
        "maximize": draw(st.booleans()),
    }
    drawn = {name: draw(options) for name, options in PARTS.items()}
    ours, book = ({name: part[i] for name, part in drawn.items()} for i in (0, 1))
    return K, common | ours, common | book, draw(st.integers(0, 2**16))


def strategy_of(K: NDArray[np.float64], **parts: Any) -> Strategy:
    return GPStrategy(kernel=torch.as_tensor(K), width=NARROW, **parts)


def grid(K: NDArray[np.float64]) -> Grid:
    """Arms that stand for the rows of K."""
    return Grid(torch.arange(len(K), dtype=torch.float64).unsqueeze(-1))


def steps(random: np.random.Generator, rounds: int) -> NDArray[np.float64]:
    """Gaps between rounds: none, tiny, usual, odd, long."""
    gaps = random.choice([0.0, 1e-6, 1.0, 1.0, 0.37, 6.0], rounds)
    return np.cumsum(gaps) + random.choice([1.0, -40.0, 1e6])


# Random settings seldom fit each other.
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
ROUNDS = 9
EPS = {torch.float64: 2.0**-52, torch.float32: 2.0**-23}
quick = settings(
    max_examples=int(os.environ.get("EXAMPLES", "20")),
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.few("exact-torch.float32")
@pytest.mark.parametrize("dtype", EPS, ids=str)
@pytest.mark.parametrize("engine", ENGINES)
@given(case=cases())
@quick
def test_posterior_is_right(case: Any, engine: str, dtype: torch.dtype) -> None:
    """One trial at random arms and times, with failures and given variances, against fifty digits.

    A stable algorithm has errors of a modest multiple of eps cond(A), where A is the inverted
    matrix: 1000 n here, in units of the prior. Downdating a window loses the squared condition
    number of the rows before deletion.
    """
    K, parts, book, seed = case
    # Smaller noise is below the rounding of the variance in single precision.
    assume(dtype == torch.float64 or book["noise"] >= 1e-4 * float(K.max()))
    random = np.random.default_rng(seed)
    domain, bandit = grid(K), DenseBandit(K, **book, gains=False)
    strategy = strategy_of(K, inference=engine, **parts)
    state = strategy.init(domain, dtype=dtype)
    times = steps(random, ROUNDS + 1)
    scale = float(K.diagonal().max()) or 1.0
    X = domain.X.to(dtype)
    for t in range(ROUNDS):
        arm = int(random.integers(len(K)))
        y = float(random.standard_normal()) * math.sqrt(scale)
        ok, own = bool(random.random() < 0.8), float(np.exp(random.uniform(-6.0, 1.0))) * scale
        noise = None if random.random() < 0.5 else own
        y = float(torch.tensor(y, dtype=dtype))
        at = strategy.suggestion_at(state, X[arm], now=times[t])
        choice = bandit.consider(arm, times[t])
        state, info = strategy.tell(
            state,
            at,
            torch.tensor(y if ok else math.nan, dtype=dtype),
            ok=torch.tensor(ok),
            noise=noise,
        )
        fired = bandit.tell(choice, y, ok=ok, noise=noise)
        if fired != bool(info.reset):  # rounding decides a tie of the band
            assert book["retention"][0] == "trigger"
            assume(False)
    for now in (None, times[-1]):
        posterior = strategy.posterior(state, X, now=None if now is None else float(now))
        mean = posterior.mean.squeeze(-1).double().numpy()
        covariance = posterior.distribution.covariance_matrix.double().numpy()
        at_now, rows, data = bandit.observations(now)
        expected_mean, expected, condition = exact.joint_regression(
            K, y=[row.y for row in rows], now=at_now, mean=book["mean"], **data
        )
        prior = exact.joint_regression(K, [], [], [], at_now, **no_data(data))[1]
        variance, top = covariance.diagonal(), float(prior.diagonal().max()) or 1.0
        worst = 1.0 + ROUNDS * top / min(row.noise for row in bandit.rows)
        if EPS[dtype] * worst > 0.01:
            return  # float32 cannot represent the posterior
        assert np.isfinite(mean).all()
        assert np.isfinite(covariance).all()
        usual = min(row.noise for row in bandit.rows) >= LEAST_NOISE * scale
        if usual and dtype == torch.float64 and book["retention"][0] == "window":
            condition = worst**2
        tolerance = min(1.0, 1000.0 * ROUNDS * EPS[dtype] * condition)
        assert (variance >= -tolerance * top).all()
        assert (variance <= prior.diagonal() + tolerance * top).all()
        np.testing.assert_allclose(covariance, expected, rtol=0, atol=tolerance * top)
        size = math.sqrt(scale) + np.abs(expected_mean).max()
        np.testing.assert_allclose(mean, expected_mean, rtol=0, atol=10.0 * tolerance * size)


def no_data(data: dict[str, Any]) -> dict[str, Any]:
    retained = {name: data[name] for name in ("decay", "inflation", "reference", "origin")}
    return retained | {"noise": []}


@pytest.mark.full
@pytest.mark.parametrize("engine", ENGINES)
@given(
    case=cases(),
    batch_shape=st.sampled_from(BATCHES),
    exploration=st.sampled_from(["ucb", "thompson", "ei", "pi", "uniform"]),
    dtype=st.sampled_from([torch.float64, torch.float32]),
)
@quick
def test_play_is_sound(
    case: Any, engine: str, batch_shape: tuple[int, ...], exploration: str, dtype: torch.dtype
) -> None:
    """Rounds of a batch: shapes, dtypes, finite numbers, valid arms."""
    K, parts, book, seed = case
    assume(book["noise"] >= least_noise(float(K.max()), dtype))  # smaller noise is refused
    random = np.random.default_rng(seed)
    domain = grid(K)
    strategy = strategy_of(K, inference=engine, exploration=EXPLORATIONS[exploration], **parts)
    state = strategy.init(domain, batch_shape=batch_shape, dtype=dtype)
    times = steps(random, ROUNDS)
    top = math.sqrt(float(K.diagonal().max()) or 1.0)
    generator = torch.Generator().manual_seed(seed)
    for t in range(ROUNDS):
        newest = float(state.time.max()) if t and state.time.numel() else -math.inf
        now = None if t % 2 else max(float(times[t]), newest)
        suggestion = strategy.ask(state, now=now, generator=generator)
        assert suggestion.index.shape == batch_shape
        assert suggestion.index.dtype == torch.int64
        assert ((suggestion.index >= 0) & (suggestion.index < len(K))).all()
        assert torch.equal(suggestion.X, domain.X.to(dtype)[suggestion.index])
        for value in (suggestion.mean, suggestion.sd):
            assert value.shape == batch_shape
            assert value.dtype == dtype
            assert torch.isfinite(value).all()
        assert (suggestion.sd >= 0).all()
        y = torch.as_tensor(random.standard_normal(batch_shape) * top, dtype=dtype)
        ok = torch.as_tensor(random.random(batch_shape) < 0.8)
        state, info = strategy.tell(state, suggestion, y, ok=ok)
        assert torch.isfinite(info.information_gain).all()
        assert (info.information_gain >= 0).all()
        assert strategy.recommend(state).shape == (*batch_shape, 1)
    posterior = strategy.posterior(state, domain.X.to(dtype))
    assert posterior.mean.shape == (*batch_shape, len(K), 1)
    assert torch.isfinite(posterior.mean).all()
