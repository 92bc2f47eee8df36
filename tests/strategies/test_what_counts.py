"""What counts as data: readings that succeeded, since the last reset, at their own times."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
import torch
from conformance.presets import NARROW, RECURSIONS
from conformance.rounds import Setting
from oracles.dense import regression

from botorch_tv.acquisition import Candidates, Exploration, ProbabilityOfImprovement
from botorch_tv.forgetting import EventTrigger, KeepAll, PeriodicReset, SlidingWindow, Wiener
from botorch_tv.gp.basis import ArmBasis, FeatureBasis
from botorch_tv.strategies import (
    Box,
    DiscreteSearch,
    GPStrategy,
    Grid,
    State,
    Strategy,
    gp_ucb,
    w_gp_ucb,
)

# Surprises are what sets a trigger off.
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
SETTING = Setting(points=4, kernel="se", noise=0.1, rounds=0)
X = SETTING.domain.X
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
each_engine = pytest.mark.parametrize("engine", RECURSIONS)


def improving(engine: str, retention: object) -> Strategy:
    return GPStrategy(
        kernel=SETTING.module(),
        noise=0.1,
        exploration=ProbabilityOfImprovement(),
        retention=retention,
        inference=engine,
    )


@dataclass(frozen=True)
class Spy(Exploration):
    """Notes whether there are data."""

    has_data: list = field(default_factory=list)

    def score(self, candidates: Candidates) -> torch.Tensor:
        self.has_data.append(candidates.has_data)
        return candidates.mean


def told(
    strategy: Strategy, state: State, arms: list[int], y: list[float], **more: object
) -> State:
    at = strategy.suggestion_at(state, X[arms])
    values = torch.tensor(y, dtype=torch.float64)
    return strategy.tell(state, at, values, **more)[0]


def observed(strategy: Strategy, state: State) -> list[list[int]]:
    """Arms with data in use, and whether there are any, of every trial."""
    data = strategy.decision(state).data
    arms, noise = data.history.choice.tensor(data.dropped), data.history.noise.tensor(data.dropped)
    use = data.retained & noise.isfinite()
    strategy = replace(strategy, exploration=(spy := Spy()))
    strategy.ask(state)
    assert torch.equal(spy.has_data[0], use.any(-1))
    return [sorted(set(arm[some].tolist())) for arm, some in zip(arms, use)]


@pytest.mark.parametrize("retention", [KeepAll(), SlidingWindow(2)], ids=repr)
@each_engine
def test_failed_readings_are_no_data(engine: str, retention: object) -> None:
    strategy = improving(engine, retention)
    state = strategy.init(SETTING.domain, batch_shape=(2,))
    ok = torch.tensor([False, True])
    state = told(strategy, state, [5, 5], [9.0, 1.0], ok=ok)
    assert observed(strategy, state) == [[], [5]]
    assert strategy.ask(state).index[0] == 0  # as without any round
    state = told(strategy, state, [3, 3], [1.0, 9.0], ok=~ok)
    assert observed(strategy, state) == [[3], [5]]
    assert state.data.empty is not None
    assert state.data.empty.tolist() == [False, False]


@each_engine
def test_only_the_triggering_arm_outlives_a_trigger(engine: str) -> None:
    strategy = improving(engine, EventTrigger(0.1))
    state = strategy.init(SETTING.domain, batch_shape=(2,))
    for arm in (1, 6, 11):
        state = told(strategy, state, [arm, arm], [0.1, 0.1])
    state = told(strategy, state, [6, 6], [50.0, 0.1])
    assert observed(strategy, state) == [[6], [1, 6, 11]]
    # The incumbent is what is believed of that arm, not of those forgotten.
    state = told(strategy, state, [2, 2], [-3.0, -3.0])
    assert observed(strategy, state)[0] in ([2, 6], [2])  # the second where it fires again


@each_engine
def test_only_the_newest_arms_outlive_a_window(engine: str) -> None:
    strategy = improving(engine, SlidingWindow(2))
    state = strategy.init(SETTING.domain, batch_shape=(1,))
    for arm, expected in ((1, [1]), (6, [1, 6]), (1, [1, 6]), (1, [1]), (2, [1, 2])):
        state = told(strategy, state, [arm], [0.1])
        assert observed(strategy, state) == [expected]


@pytest.mark.parametrize(
    "retention", [KeepAll(), PeriodicReset(100.0, by="time")], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("domain", [SETTING.domain, Box(CUBE, search=DiscreteSearch(X))], ids=repr)
def test_random_walk_starts_at_the_earliest_time_told(
    domain: Grid | Box, retention: object
) -> None:
    """Unchecked times may be unsorted; a reading that failed starts nothing."""
    strategy = GPStrategy(
        kernel=SETTING.module(),
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
        SETTING.matrix(), arms[1:], times[1:], y[1:], 7.0, noise=0.1, decay=("wiener", 0.5)
    )
    posterior = strategy.posterior(state, X)
    np.testing.assert_allclose(posterior.mean[:, 0], mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(posterior.variance[:, 0], variance, rtol=0, atol=1e-10)


def test_few_arms_take_features_in_double_precision_alone() -> None:
    """In single precision I + Φᵀ N⁻¹ Φ would lose the digits that I + S K S keeps."""
    rough = Setting(points=4, kernel="matern", noise=0.1, rounds=0)
    strategy = w_gp_ucb(kernel=rough.module(), noise=0.1, gamma=0.9)
    for dtype, basis in ((torch.float64, FeatureBasis), (torch.float32, ArmBasis)):
        assert isinstance(strategy.init(rough.domain, dtype=dtype).basis, basis)


def rounded_below_zero(state: State) -> State:
    """A prior that is a hair too small, as rounding makes it."""
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
        kernel=SETTING.module(), noise=1e-10, **({"gamma": 1.0} if make is w_gp_ucb else {})
    )
    state = strategy.init(SETTING.domain)
    state, _ = strategy.tell(state, strategy.suggestion_at(state, X[0]), 100.0)
    state = rounded_below_zero(state)
    suggestion = strategy.ask(state)  # the mean there is far above all others
    assert int(suggestion.index) == 0
    assert float(suggestion.sd) == 0.0
    assert float(strategy.suggestion_at(state, X[0]).sd) >= 0.0
