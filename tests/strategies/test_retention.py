"""Which observations count: failures, windows and resets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from conformance.presets import NARROW
from conformance.rounds import Setting, make_world
from loop.loops import GRID, NOISE, kernel
from oracles.dense import DenseBandit, regression

from botorch_tv import Loop, et_gp_ucb, run_study
from botorch_tv.forgetting import ConfirmedTrigger, EventTrigger, KeepAll, PeriodicReset, Wiener
from botorch_tv.gp.arm_engine import PlayedArms
from botorch_tv.gp.arms import LEAST_NOISE
from botorch_tv.gp.feature_filter import Filter
from botorch_tv.simulation import AbruptWorld
from botorch_tv.simulation.worlds.grid import GaussianDraw
from botorch_tv.strategies import (
    Box,
    DiscreteSearch,
    GPStrategy,
    Grid,
    State,
    Strategy,
    gp_ucb,
    sw_gp_ucb,
)

# Large readings leave large rounding.
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
SETTING = Setting(points=4, kernel="se", noise=0.5, rounds=12)
X = SETTING.domain.X


def window(size: int, noise: float = 0.5, **parts: object) -> Strategy:
    preset = sw_gp_ucb(kernel=SETTING.module(), noise=noise, window=size, width=NARROW)
    return replace(preset, **parts)


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


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("size", "noise", "variances"),
    [
        *((size, 0.1, [1e-6 if t == 4 else None for t in range(20)]) for size in (2, 7)),
        *((5, share * LEAST_NOISE, [None] * 40) for share in (0.99, 1.01)),
    ],
    ids=["short", "long", "below the limit", "above"],
)
def test_little_noise_in_a_window(size: int, noise: float, variances: list) -> None:
    """A nearly exact reading drops out again; and noise near the limit of steps."""
    strategy = window(size, noise=noise, inference="features")
    assert worst_error(strategy, variances, torch.float64) < 1e-8


@pytest.mark.few(1)
@pytest.mark.parametrize("usual", [0.1, 1e-6])
def test_nearly_exact_readings_of_arms(usual: float) -> None:
    setting = Setting(points=6, kernel="se", noise=0.02, rounds=40, lengthscale=0.7)
    variances = [1e-6 if t >= 14 else None for t in range(setting.rounds)]
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


# ---------------- A trigger that waits for a second contradiction

POINTS = GRID.X


def confirmed(**given: Any) -> Strategy:
    return et_gp_ucb(**({"kernel": kernel(0.4), "noise": NOISE, "confirm": 1} | given))


def settled_loop(**given: Any) -> Loop:
    flat = torch.ones(len(POINTS), len(POINTS), dtype=torch.float64)
    loop = Loop(confirmed(kernel=flat, **given), GRID, pending=4)
    for _ in range(6):
        loop.ask()
        loop.tell(1.0)
    return loop


@pytest.mark.parametrize("confirm", [0, 1])
def test_a_late_wrong_reading_is_doubted_at_its_time(confirm: int) -> None:
    loop, other = settled_loop(confirm=confirm), settled_loop(confirm=confirm)
    loop.observe(POINTS[3], -3.0, time=2.5)
    assert loop.last.reset == (confirm == 0)
    assert loop.history.reset.tolist().count(True) == (2 if confirm == 0 else 0)
    if confirm:
        for player in (loop, other):
            player.ask()
            player.tell(1.0)
            assert not player.last.reset
        torch.testing.assert_close(loop.posterior(POINTS).mean, other.posterior(POINTS).mean)


def test_a_late_reading_confirms_a_later_reading() -> None:
    loop = settled_loop()
    loop.observe(POINTS[0], -1.0, time=9.0)
    loop.observe(POINTS[1], -1.0, time=8.0)
    assert loop.history.reset.tolist() == [False] * 7 + [True]
    assert loop.posterior(POINTS).mean[0].item() == pytest.approx(-2 / (2 + NOISE), abs=1e-9)


def test_open_suggestions_are_judged_after_a_reset(tmp_path: Path) -> None:
    loop = settled_loop()
    waiting = [loop.ask() for _ in range(4)]
    loop.tell(-1.0, suggestion=waiting[0])
    assert not loop.last.reset
    loop.save(tmp_path / "loop.json")
    for player in (loop, Loop.load(tmp_path / "loop.json", loop.strategy)):
        fired = []
        for asked in waiting[1:]:
            player.tell(-1.0, suggestion=asked)
            fired.append(player.last.reset)
        assert fired == [True, False, False]
        mean = player.posterior(POINTS).mean[0].item()
        assert mean == pytest.approx(-4 / (4 + NOISE), abs=1e-9)


def test_studies_play_it_round_by_round_alike() -> None:
    pytest.importorskip("numba")
    place = AbruptWorld(GRID, functions=GaussianDraw(kernel(0.4)), changes=(12, 24), noise=0.05)
    players = {f"{c}": confirmed(noise=0.05, confirm=c) for c in (0, 1)}
    usual = {"trials": 6, "horizon": 36, "progress": False}
    whole = run_study(place, players, compiled=False, **usual).data
    compiled = run_study(place, {"1": players["1"]}, compiled=True, **usual).data
    for name in ("index", "resets"):
        ours = whole[name].sel(strategy="1").values
        np.testing.assert_array_equal(compiled[name].sel(strategy="1").values, ours)
    papers, ours = (whole["resets"].sel(strategy=c).values for c in ("0", "1"))
    assert ours.any()
    assert (papers != ours).any()


def test_the_papers_rule_is_the_default() -> None:
    for papers in (confirmed(confirm=0), et_gp_ucb(kernel=kernel(0.4), noise=NOISE)):
        assert papers.retention == EventTrigger(0.1)
    assert confirmed(confirm=2.0).retention == ConfirmedTrigger(0.1, confirm=2)
    assert "confirm=2" in repr(confirmed(confirm=2))
