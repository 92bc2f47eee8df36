"""In which round a reset shows: the one decided without what came before it."""

import pytest
import torch
from conformance.presets import NARROW
from conformance.rounds import Setting

from botorch_tv.forgetting import EventTrigger, PeriodicReset
from botorch_tv.strategies import Box, GPStrategy, Grid, Strategy

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
