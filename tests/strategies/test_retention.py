"""Which observations count: failures, windows and resets."""

import copy
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance.presets import NARROW
from conformance.rounds import Setting, make_world
from oracles.dense import DenseBandit, regression

from botorch_tv.forgetting import KeepAll, PeriodicReset, Wiener
from botorch_tv.gp.arm_engine import PlayedArms
from botorch_tv.gp.arms import LEAST_NOISE
from botorch_tv.gp.basis import ArmBasis, FeatureBasis
from botorch_tv.gp.filter import Filter
from botorch_tv.strategies import (
    Box,
    DiscreteSearch,
    GPStrategy,
    Grid,
    State,
    Strategy,
    gp_ucb,
    sw_gp_ucb,
    w_gp_ucb,
)

# Large readings leave large rounding.
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
SETTING = Setting(points=4, kernel="se", noise=0.5, rounds=12)
X = SETTING.domain.X
GOOD, FAILED = torch.tensor(True), torch.tensor(False)


def window(size: int, noise: float = 0.5, **parts: object) -> Strategy:
    preset = sw_gp_ucb(kernel=SETTING.module(), noise=noise, window=size, width=NARROW)
    return replace(preset, **parts)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_a_window_of_failures_has_the_prior(size: int) -> None:
    strategy = window(size, mean="estimated")
    state = strategy.init(SETTING.domain)
    y = torch.as_tensor(np.random.default_rng(size).normal(2.0, 1.0, 12))
    for t in range(5 + size):
        suggestion = strategy.ask(state)
        state, _ = strategy.tell(state, suggestion, y[t], ok=GOOD if t < 5 else FAILED)
    posterior = strategy.posterior(state, X)
    assert not posterior.mean.any()
    assert torch.equal(posterior.variance.squeeze(-1), state.basis.variance)
    running = state.data.running
    assert running is not None
    assert float(running.information_gain) == 0.0
    assert state.data.empty is not None
    assert bool(state.data.empty)
    at = strategy.suggestion_at(state, X[3])
    state, _ = strategy.tell(state, at, torch.tensor(7.0, dtype=torch.float64))
    torch.testing.assert_close(strategy.posterior(state, X).mean.squeeze(-1), 7.0 + 0 * X[:, 0])


def worst_error(strategy: Strategy, variances: list[float | None], dtype: torch.dtype) -> float:
    setting = replace(SETTING, rounds=len(variances))
    world = make_world(setting.points, 0.02, setting.rounds, 1)
    bandit = DenseBandit(
        setting.matrix(), strategy.noise, retention=("window", strategy.retention.window, "rounds")
    )
    state: State = strategy.init(setting.domain, dtype=dtype)
    worst, random = 0.0, np.random.default_rng(0)
    for t, noise in enumerate(variances):
        arm = int(random.integers(len(X)))
        at = strategy.suggestion_at(state, X[arm].to(dtype))
        y = float(world.values[t, 0, arm] + world.errors[t, 0])
        state, _ = strategy.tell(state, at, torch.tensor(y, dtype=dtype), noise=noise)
        bandit.tell(bandit.consider(arm), y, noise=noise)
        posterior, expected = strategy.posterior(state, X.to(dtype)), bandit.predict()
        for ours, theirs in (
            (posterior.mean[:, 0], expected.mean),
            (posterior.distribution.covariance_matrix, expected.covariance),
        ):
            worst = max(worst, float(np.abs(ours.detach().numpy() - theirs).max()))
    return worst


@pytest.mark.parametrize("size", [2, 7])
def test_a_nearly_exact_reading_drops_out_of_a_window(size: int) -> None:
    variances = [1e-6 if t == 4 else None for t in range(20)]
    strategy = window(size, noise=0.1, inference="features")
    assert worst_error(strategy, variances, torch.float64) < 1e-8


@pytest.mark.parametrize("noise", [0.99 * LEAST_NOISE, 1.01 * LEAST_NOISE, 1e-4])
def test_law_two_holds_around_the_limit_of_noise(noise: float) -> None:
    strategy = window(5, noise=noise, inference="features")
    assert worst_error(strategy, [None] * 40, torch.float64) < 1e-8


@pytest.mark.parametrize("usual", [0.1, 1e-6])
def test_nearly_exact_readings_of_arms(usual: float) -> None:
    setting = Setting(points=6, kernel="se", noise=0.02, rounds=60, lengthscale=0.7)
    variances = [1e-6 if t >= 20 else None for t in range(setting.rounds)]
    K, domain = setting.matrix(), setting.domain
    strategy = gp_ucb(kernel=setting.module(), noise=usual, width=NARROW)
    state = strategy.init(domain, batch_shape=(2,))
    bandits = [DenseBandit(K, usual) for _ in range(2)]
    assert isinstance(state.data.running, PlayedArms if usual > LEAST_NOISE else Filter)
    random = np.random.default_rng(0)
    f = np.linalg.cholesky(K + 1e-10 * np.eye(len(K))) @ random.normal(size=len(K))
    for t, noise in enumerate(variances):
        ok = torch.tensor([t > 0, t > 0])
        # Many different arms in a trial and few in another, and an arm that always fails.
        arms = random.integers([len(K) - 1, 4]) if t > 0 else np.array([len(K) - 1, 4])
        y = f[arms] + 1e-3 * random.normal(size=2)
        at = strategy.suggestion_at(state, domain.X[arms])
        parent, before = state, strategy.posterior(state, domain.X)
        state, _ = strategy.tell(state, at, torch.as_tensor(y), noise=noise, ok=ok)
        for bandit, arm, value in zip(bandits, arms, y):
            bandit.tell(bandit.consider(int(arm)), float(value), noise=noise, ok=t > 0)
        after = strategy.posterior(parent, domain.X)
        # The state before is as it was.
        torch.testing.assert_close(before.mean, after.mean, rtol=0, atol=1e-12)
        torch.testing.assert_close(before.variance, after.variance, rtol=0, atol=1e-12)
    assert isinstance(state.data.running, Filter)
    posterior = strategy.posterior(state, domain.X)
    # Of the order of eps k n / noise, as any algorithm.
    for mean, joint, bandit in zip(
        posterior.mean[..., 0], posterior.distribution.covariance_matrix, bandits
    ):
        expected = bandit.predict()
        np.testing.assert_allclose(mean, expected.mean, rtol=0, atol=1e-7)
        np.testing.assert_allclose(joint, expected.covariance, rtol=0, atol=1e-8)


PRECISE = Setting(points=4, kernel="se", noise=0.1, rounds=0)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    "retention", [KeepAll(), PeriodicReset(100.0, by="time")], ids=lambda rule: type(rule).__name__
)
@pytest.mark.parametrize("domain", [PRECISE.domain, Box(CUBE, search=DiscreteSearch(X))], ids=repr)
def test_a_random_walk_starts_at_the_earliest_time(domain: Grid | Box, retention: object) -> None:
    strategy = GPStrategy(
        kernel=PRECISE.module(),
        noise=0.1,
        decay=Wiener(0.5),
        retention=retention,
        inference="exact",
        width=NARROW,
    )
    if isinstance(domain, Grid) and isinstance(retention, KeepAll):
        pytest.skip("a recursion lets time pass as it comes")
    state = strategy.init(domain)
    arms, times, y = [3, 7, 12, 1], [0.0, 4.0, 2.5, 6.0], [5.0, 1.0, -1.0, 0.5]
    for number, (arm, time, value) in enumerate(zip(arms, times, y)):
        at = strategy.suggestion_at(state, X[arm])
        ok = torch.tensor(number > 0)
        state, _ = strategy.tell(state, at, value, time=time, ok=ok, check=False)
    mean, variance = regression(
        PRECISE.matrix(), arms[1:], times[1:], y[1:], 7.0, noise=0.1, decay=("wiener", 0.5)
    )
    posterior = strategy.posterior(state, X)
    np.testing.assert_allclose(posterior.mean[:, 0], mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(posterior.variance[:, 0], variance, rtol=0, atol=1e-10)


def test_few_arms_take_features_in_double_precision_alone() -> None:
    rough = Setting(points=4, kernel="matern", noise=0.1, rounds=0)
    strategy = w_gp_ucb(kernel=rough.module(), noise=0.1, gamma=0.9)
    for dtype, basis in ((torch.float64, FeatureBasis), (torch.float32, ArmBasis)):
        assert isinstance(strategy.init(rough.domain, dtype=dtype).basis, basis)


def rounded_below_zero(state: State) -> State:
    basis = copy.copy(state.basis)
    basis.variance = basis.variance * (1 - 1e-9)
    running = state.data.running
    if running is not None:
        running = copy.copy(running)
        running.variance = running.variance - 1e-9
    return state._replace(data=state.data._replace(prior=basis, running=running))


@pytest.mark.parametrize("make", [gp_ucb, w_gp_ucb], ids=["recursion", "from the log"])
def test_variances_rounded_below_zero_are_zero(make: Callable[..., Strategy]) -> None:
    strategy = make(
        kernel=PRECISE.module(), noise=1e-10, **({"gamma": 1.0} if make is w_gp_ucb else {})
    )
    state = strategy.init(PRECISE.domain)
    state, _ = strategy.tell(state, strategy.suggestion_at(state, X[0]), 100.0)
    state = rounded_below_zero(state)
    suggestion = strategy.ask(state)  # the mean there is far above all others
    assert int(suggestion.index) == 0
    assert float(suggestion.sd) == 0.0
    assert float(strategy.suggestion_at(state, X[0]).sd) >= 0.0
