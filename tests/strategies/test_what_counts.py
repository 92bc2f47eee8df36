"""What counts as data: readings that succeeded, since the last reset, at their own times."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch
from conformance.presets import NARROW
from conformance.rounds import Setting
from oracles.dense import regression

from botorch_tv.forgetting import KeepAll, PeriodicReset, Wiener
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


@pytest.mark.parametrize(
    "retention", [KeepAll(), PeriodicReset(100.0, by="time")], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("domain", [SETTING.domain, Box(CUBE, search=DiscreteSearch(X))], ids=repr)
def test_random_walk_starts_at_the_earliest_time_told(
    domain: Grid | Box, retention: object
) -> None:
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
        kernel=SETTING.module(), noise=1e-10, **({"gamma": 1.0} if make is w_gp_ucb else {})
    )
    state = strategy.init(SETTING.domain)
    state, _ = strategy.tell(state, strategy.suggestion_at(state, X[0]), 100.0)
    state = rounded_below_zero(state)
    suggestion = strategy.ask(state)  # the mean there is far above all others
    assert int(suggestion.index) == 0
    assert float(suggestion.sd) == 0.0
    assert float(strategy.suggestion_at(state, X[0]).sd) >= 0.0
