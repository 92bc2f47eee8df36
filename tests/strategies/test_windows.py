"""Windows in the recursion: what is left of what has left, and when nothing must be left out."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from conformance.presets import NARROW
from conformance.rounds import Setting, make_world
from oracles.dense import DenseBandit

from botorch_tv.gp.arm_engine import PlayedArms
from botorch_tv.gp.arms import LEAST_NOISE
from botorch_tv.gp.filter import Filter
from botorch_tv.strategies import State, Strategy, gp_ucb, sw_gp_ucb

# Large readings leave large rounding.
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
SETTING = Setting(points=4, kernel="se", noise=0.5, rounds=12)
X = SETTING.domain.X
GOOD, FAILED = torch.tensor(True), torch.tensor(False)


def window(size: int, noise: float = 0.5, **parts: object) -> Strategy:
    preset = sw_gp_ucb(kernel=SETTING.module(), noise=noise, window=size, width=NARROW)
    return replace(preset, **parts)


@pytest.mark.parametrize("size", [2, 3, 5])
def test_nothing_is_left_of_a_window_in_which_all_failed(size: int) -> None:
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


def worst_error(strategy: Strategy, told: list[float | None], dtype: torch.dtype) -> float:
    setting = replace(SETTING, rounds=len(told))
    world = make_world(setting.points, 0.02, setting.rounds, 1)
    bandit = DenseBandit(
        setting.matrix(), strategy.noise, retention=("window", strategy.retention.window, "rounds")
    )
    state: State = strategy.init(setting.domain, dtype=dtype)
    worst, random = 0.0, np.random.default_rng(0)
    for t, noise in enumerate(told):
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
def test_one_nearly_exact_reading_does_no_harm_when_it_leaves(size: int) -> None:
    told = [1e-6 if t == 4 else None for t in range(20)]
    strategy = window(size, noise=0.1, inference="features")
    assert worst_error(strategy, told, torch.float64) < 1e-8


@pytest.mark.parametrize("noise", [0.99 * LEAST_NOISE, 1.01 * LEAST_NOISE, 1e-4])
def test_law_two_holds_on_both_sides_of_the_rule(noise: float) -> None:
    strategy = window(5, noise=noise, inference="features")
    assert worst_error(strategy, [None] * 40, torch.float64) < 1e-8


@pytest.mark.parametrize("usual", [0.1, 1e-6])
def test_nearly_exact_readings_of_arms(usual: float) -> None:
    setting = Setting(points=6, kernel="se", noise=0.02, rounds=60, lengthscale=0.7)
    told = [1e-6 if t >= 20 else None for t in range(setting.rounds)]
    K, domain = setting.matrix(), setting.domain
    strategy = gp_ucb(kernel=setting.module(), noise=usual, width=NARROW)
    state = strategy.init(domain, batch_shape=(2,))
    bandits = [DenseBandit(K, usual) for _ in range(2)]
    assert isinstance(state.data.running, PlayedArms if usual > LEAST_NOISE else Filter)
    random = np.random.default_rng(0)
    f = np.linalg.cholesky(K + 1e-10 * np.eye(len(K))) @ random.normal(size=len(K))
    for t, noise in enumerate(told):
        ok = torch.tensor([t > 0, t > 0])
        # Many different ones, and few; and one that never tells anything.
        arms = random.integers([len(K) - 1, 4]) if t > 0 else np.array([len(K) - 1, 4])
        y = f[arms] + 1e-3 * random.normal(size=2)
        at = strategy.suggestion_at(state, domain.X[arms])
        parent, before = state, strategy.posterior(state, domain.X)
        state, _ = strategy.tell(state, at, torch.as_tensor(y), noise=noise, ok=ok)
        for bandit, arm, one in zip(bandits, arms, y):
            bandit.tell(bandit.consider(int(arm)), float(one), noise=noise, ok=t > 0)
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
