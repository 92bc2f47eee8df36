"""In which round a reset shows: the one decided without what came before it."""

import pytest
import torch
from conformance.presets import NARROW
from conformance.rounds import Setting

from botorch_tv.forgetting import EventTrigger, PeriodicReset, SlidingWindow
from botorch_tv.simulation import StaticWorld, run_study
from botorch_tv.simulation.worlds.grid import GaussianDraw
from botorch_tv.strategies import Box, GPStrategy, Grid, Strategy, gp_ucb, r_gp_ucb

SETTING = Setting(points=3, kernel="se", noise=0.1, rounds=8)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


def strategy(retention: object, **parts: object) -> Strategy:
    return GPStrategy(
        kernel=SETTING.module(), noise=0.1, width=NARROW, retention=retention, **parts
    )


def rounds_with_resets(
    player: Strategy, times: list[float], domain: Grid | Box = SETTING.domain
) -> list[int]:
    state, shown = player.init(domain), []
    for t, time in enumerate(times, 1):
        suggestion = player.ask(state, now=time)
        fresh = float(suggestion.sd) == pytest.approx(1.0)
        state, info = player.tell(state, suggestion, 0.5)
        if bool(info.reset):
            assert fresh  # the round was decided without data
            shown.append(t)
    return shown


@pytest.mark.parametrize("inference", ["exact", "auto"])
@pytest.mark.parametrize("period", [1, 3, 4, 8])
def test_periodic_reset_shows_where_t_minus_1_is_a_multiple(period: int, inference: str) -> None:
    """[B16]: before deciding round t when (t - 1) mod N = 0; the first has nothing to forget."""
    player = strategy(PeriodicReset(period), inference=inference)
    expected = [t for t in range(2, 9) if (t - 1) % period == 0]
    assert rounds_with_resets(player, [float(t) for t in range(1, 9)]) == expected


def test_period_of_time_shows_in_the_first_round_of_the_next() -> None:
    """Periods of 2.5 from time 1: they end at 3.5, 6, 8.5, 11; a long gap is one reset."""
    times = [1.0, 2.0, 3.0, 3.5, 6.25, 6.5, 20.0]
    for domain in (SETTING.domain, Box(CUBE)):
        player = strategy(PeriodicReset(2.5, by="time"))
        assert rounds_with_resets(player, times, domain) == [4, 5, 7]


def test_trigger_shows_in_the_round_whose_observation_set_it_off() -> None:
    player = strategy(EventTrigger(0.1))
    state, shown = player.init(SETTING.domain), []
    for y in (0.1, 0.0, 10.0, 9.0):
        state, info = player.tell(state, player.ask(state), y)
        shown.append(bool(info.reset))
    assert shown == [False, False, True, False]


def test_window_never_resets() -> None:
    times = [float(t) for t in range(1, 9)]
    for retention in (SlidingWindow(2), SlidingWindow(0.5, by="time")):
        player = strategy(retention)
        state = player.init(SETTING.domain)
        for now in times:
            state, info = player.tell(state, player.ask(state, now=now), 0.5)
            assert not bool(info.reset)


def test_study_as_long_as_a_period_shows_no_reset() -> None:
    kernel = SETTING.module()
    world = StaticWorld(SETTING.domain, functions=GaussianDraw(kernel), noise=0.1)
    players = {
        "N = T": r_gp_ucb(kernel=kernel, noise=0.1, period=8),
        "N = 3": r_gp_ucb(kernel=kernel, noise=0.1, period=3),
        "all": gp_ucb(kernel=kernel, noise=0.1),
    }
    result = run_study(world, players, trials=2, horizon=8, progress=False)
    shown = result.resets.sum("trial")
    assert int(shown.sel(strategy=["N = T", "all"]).sum()) == 0
    rounds = shown["round"].values
    assert rounds[shown.sel(strategy="N = 3").values == 2].tolist() == [4, 7]
