"""What is said of a world is so."""

import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv.gp.mixture.bank import FIRST, Bank
from botorch_tv.loop import Loop
from botorch_tv.strategies import Grid, adaptive_gp_ucb, gp_ucb

DOMAIN = Grid.regular(points=12, dim=1)


def told(jump: bool, clock: float = 1.0, noise: float = 0.2):
    """A state after 60 readings of a wave, scale near 3, that changes at 40 or stays."""
    player, generator = adaptive_gp_ucb(), torch.Generator().manual_seed(0)
    state = player.init(DOMAIN)
    for t in range(60):
        X = DOMAIN.X[(5 * t) % 12]
        suggestion = player.suggestion_at(state, X, now=clock * t)
        phase = 2.5 if jump and t >= 40 else 0.0
        error = noise * torch.randn((), generator=generator, dtype=torch.float64)
        y = 70 + 4 * torch.sin(7 * X.sum() + phase) + error
        state, _ = player.tell(state, suggestion, y)
    return player, state


def test_a_world_that_stands_still():
    player, state = told(jump=False)
    words = player.describe(state)
    assert words.startswith("It stands still but for jumps (")
    assert "not been seen to" in words
    noise = float(player.model_noise(state).sqrt())
    assert 0.1 < noise < 0.5
    # Readings vary by 0.2, and the bank holds no less noise possible than what it says.
    assert f"the noise of a measurement is {noise:.2g} or less (standard" in words
    assert float(player.weights(state).sum()) == pytest.approx(1.0)
    assert float(player.weights(state)[:, 0].sum()) > 0.5


def test_a_jump_is_dated_in_the_unit_of_the_clock():
    player, state = told(jump=True, clock=3600.0)
    running = state.data.running
    assert not math.isnan(float(running.jumped))
    assert 40 * 3600 <= float(running.jumped) <= 44 * 3600
    when = float(running.jumped)
    assert f"It jumped between the measurement of time {when:g} and" in player.describe(state)
    words = player.describe(
        state, format_time=lambda time: f"{time / 3600:g} o'clock", unit="seconds"
    )
    assert f"of time {when / 3600:g} o'clock and the one before (" in words
    assert 0 <= float(player.jump(state)) < 0.5


def test_a_loop_says_it_too():
    loop = Loop(DOMAIN)
    assert loop.describe().startswith(adaptive_gp_ucb().describe(loop.state))
    told_all = gp_ucb(kernel=RBFKernel().double(), noise=0.1)
    assert "noise=0.1" in Loop(told_all, DOMAIN).describe()


def test_before_anything_is_known_and_of_several_trials():
    player = adaptive_gp_ucb()
    assert "0 of the first" in player.describe(player.init(DOMAIN))
    with pytest.raises(InputDataError, match="one can be told of at a time"):
        player.describe(player.init(DOMAIN, batch_shape=(2,)))


def test_values_that_never_differ():
    """No scale can be had of them, and that is said, however many there are."""
    player, state = adaptive_gp_ucb(starts=3), adaptive_gp_ucb(starts=3).init(DOMAIN)
    for told in range(1, 6):
        state, _ = player.tell(state, player.ask(state), 2.5)
        words = player.describe(state)
        if told < 3:
            assert f"{told} of the first 3 measurements" in words
        else:
            assert f"all {told} measurements so far are 2.5" in words
            assert "without a difference there is no scale" in words
    failed = player.suggestion_at(state, DOMAIN.X[0])
    state, _ = player.tell(state, failed, 9.0, ok=torch.tensor(False))
    assert "all 5 measurements so far are 2.5" in player.describe(state)
    for y in (2.5, 2.75, 3.0):
        state, _ = player.tell(state, player.ask(state), y)
    assert "Nothing is believed" not in player.describe(state)


RATES, HAZARDS = (0.04, 0.0, 0.96, 0.0), (0.7, 0.3)
LENGTHS, NOISES = (0.0, 0.0, 1.0, 0.0), (0.6, 0.4)


@pytest.mark.parametrize(
    ("changes", "unit", "words"),
    [
        (
            {},
            "hours",
            "It drifts (96 %): its correlation with what it was falls by half in 45.5 hours.",
        ),
        ({"rates": (0.04, 0.0, 0.0, 0.96)}, "", "by half in 13.2 units of time or less."),
        ({"rates": (0.04, 0.96, 0.0, 0.0)}, "", "in 138 units of time or more."),
        ({"rates": (0.999, 0, 0.001, 0)}, "", "It stands still but for jumps (more than 99 %)."),
        ({"rates": (1.0,)}, "", "^It has not been seen to jump. It varies by "),
        (
            {"rates": (0.2, 0.0, 0.8, 0.0)},
            "hours",
            "It probably drifts (80 %; before any measurement 75 %): if so, its correlation with "
            "what it was falls by half in 45.5 hours.",
        ),
        (
            {"rates": (0.6, 0.0, 0.4, 0.0)},
            "",
            "It probably stands still but for jumps (60 %; before any measurement 25 %).",
        ),
        (
            {"hazards": (0.4, 0.6)},
            "",
            "It may jump (60 %; before any measurement 50 %), but has not been seen to.",
        ),
        ({"hazards": (0.03, 0.97)}, "", "It may jump (97 %), but has not been seen to."),
        ({"hazards": (0.48, 0.52)}, "", "It has not been seen to jump."),  # presumed: 50 %
        ({"hazards": (1.0,)}, "", "units of time. It varies by "),
        (
            {"jumped": 13.0, "jumped_with": 0.97},
            "",
            "measurement of time 13 h and the one before (97 %)",
        ),
        ({"noises": (0.97, 0.03)}, "", " or less (standard dev"),
        ({"noises": (0.4, 0.6)}, "", " or more (standard deviations)."),
        ({"lengths": (0.0, 0.0, 0.0, 1.0)}, "", "0.4 of the sides or more; the noise"),
        ({"lengths": (1.0, 0.0, 0.0, 0.0)}, "", "0.05 of the sides or less; the noise"),
    ],
)
def test_what_is_believed_is_said(changes, unit, words):
    parts = {"lengths": LENGTHS, "rates": RATES, "hazards": HAZARDS, "noises": NOISES}
    shares = {name: changes.get(name, share) for name, share in parts.items()}
    bank = Bank()
    for name in ("rates", "hazards"):
        bank = replace(bank, **{name: getattr(bank, name)[: len(shares[name])]})
    player = adaptive_gp_ucb(bank=bank)
    state = player.init(DOMAIN)
    for t in range(6):
        state, _ = player.tell(state, player.suggestion_at(state, DOMAIN.X[t], now=t), t % 3)
    running, prior = state.data.running, state.data.prior
    length, rate, hazard, noise = (torch.tensor(one).double() for one in shares.values())
    of_member = torch.einsum("a,b,c->abc", rate, hazard, noise).flatten()[prior.member]
    histories = torch.bincount(prior.member)[prior.member]
    log_weight = (length.unsqueeze(-1) * of_member / histories).log()
    jumped = {name: running.time + changes.get(name, math.nan) - 5 for name in ("jumped",)}
    jumped["jumped_with"] = running.time * 0 + changes.get("jumped_with", math.nan)
    running = running._replace(log_weight=log_weight, **jumped)
    state = state._replace(data=state.data._replace(running=running))
    said = player.describe(state, format_time="{:g} h".format, unit=unit)
    assert said.startswith(words[1:]) if words.startswith("^") else words in said
    assert ("jump" in said) == (len(shares["hazards"]) > 1)


def test_what_was_hardly_presumed_is_less_than_one_percent():
    """One of 120 rates stands still, as do three values measured again and again."""
    rates = (0.0, *(0.5 + t / 400 for t in range(119)))
    player = adaptive_gp_ucb(bank=Bank(rates=rates, hazards=(0.0,), lengthscales=(0.4,)))
    state, said = player.init(DOMAIN), []
    for t in range(16):
        X = DOMAIN.X[t % 3]
        y = 70 + 4 * torch.sin(7 * X.sum())
        state, _ = player.tell(state, player.suggestion_at(state, X, now=t), y)
        said.append(player.describe(state))
    least = re.compile(r"It probably stands still \(\d\d %; before any measurement less than 1 %\)")
    assert any(map(least.match, said))


def test_weight_at_the_edge_of_the_bank_is_told():
    """What lies beyond what the bank holds cannot be told from its edge."""
    _, state = told(jump=False)
    for ratios, words in (
        ((0.01, 0.05), " or less"),
        ((1e-4, 1e-3), " or more"),
        ((1e-4,), ""),
    ):
        other = adaptive_gp_ucb(bank=Bank(noise_ratios=ratios, features=64))
        again = other.init(DOMAIN)
        for X, y in zip(state.history.choice.tensor(), state.history.y.tensor()):
            again, _ = other.tell(again, other.suggestion_at(again, DOMAIN.X[X]), y)
        noise = float(other.model_noise(again).sqrt())
        assert f" {noise:.2g}{words} (standard deviations)" in other.describe(again)


@pytest.mark.parametrize(("noise", "edge"), [(0.05, " or less"), (0.4, ""), (3.0, " or more")])
def test_noise_within_the_bank_is_said_to_be_what_it_is(noise, edge):
    """Of two values one always has most of the weight, which by itself tells nothing."""
    player, state = told(jump=False, noise=noise)
    said = re.search(r"the noise of a measurement is ([\d.]+)( or \w+)? \(", player.describe(state))
    assert said is not None
    assert (said[2] or "") == edge
    if not edge:
        assert 0.75 * noise < float(said[1]) < 1.25 * noise


def test_a_loop_says_times_as_dates_and_expects_nothing_before_it_can():
    start = datetime(2026, 3, 1, 22, tzinfo=UTC)
    loop = Loop(adaptive_gp_ucb(bank=Bank(features=64)), {"temperature": (20.0, 80.0)}, pending=2)
    for hour in range(30):
        if hour < FIRST:
            assert "Best point" not in loop.describe(now=start + timedelta(hours=hour))
        asked = loop.ask(now=start + timedelta(hours=hour))
        assert math.isnan(asked.mean) == math.isnan(asked.sd) == (hour < FIRST)
        assert ("nothing is expected yet" in repr(asked)) == (hour < FIRST)
        moved = 0.0 if hour < 20 else 40.0
        loop.tell(-abs(asked.point["temperature"] - 35 - moved))
    table = loop.table()
    assert table["mean"].isna().tolist() == [hour < FIRST for hour in range(30)]
    words = loop.describe(now=start + timedelta(hours=30))
    assert "Best point for time 2026-03-03 04:00:00+00:00" in words
    jumped = loop.state.data.running.jumped
    assert 20 <= float(jumped) <= 23
    when = (start + timedelta(hours=float(jumped))).isoformat(" ", "seconds")
    assert f"It jumped between the measurement of time {when} and the one before" in words


def test_open_suggestions_before_units_are_known_set_none(tmp_path):
    """What is open is pretended to be answered by the mean, and there is none yet."""
    player = adaptive_gp_ucb(bank=Bank(features=64), starts=3)
    loop = Loop(player, DOMAIN, pending=4)
    for y in (55.0, 55.5):
        loop.ask()
        loop.tell(y)
    points = [loop.ask().point for _ in range(4)]
    wanted = DOMAIN.X[loop.state.basis.starts[2:6]].tolist()
    assert points == wanted  # the domain is filled on
    first = loop.open[0]
    loop.tell(56.0, suggestion=first)
    loop.save(tmp_path / "loop.json")
    again = Loop.load(tmp_path / "loop.json", player)
    assert [math.isnan(one.mean) for one in again.open] == [True] * 3
    assert float(again.state.data.running.units.centre) == pytest.approx(55.5)
    again.tell(55.2, suggestion=again.open[0])
