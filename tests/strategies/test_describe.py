"""The summary of an adaptive posterior as text."""

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


def observed(jump: bool, clock: float = 1.0, noise: float = 0.2):
    """A state after 60 readings of a static wave, scale near 3, which may change at 40."""
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


def test_a_static_objective():
    player, state = observed(jump=False)
    text = player.describe(state)
    assert text.startswith("No drift: probability > 0.99. No change point detected. Signal sd ")
    noise = float(player.model_noise(state).sqrt())
    assert 0.1 < noise < 0.5
    # The noise of 0.2 lies at or below the smallest ratio of the bank.
    assert text.endswith(f"noise sd {noise:.2g} or less.")
    assert float(player.weights(state).sum()) == pytest.approx(1.0)
    assert float(player.weights(state)[:, 0].sum()) > 0.5


def test_a_jump_is_dated_in_the_unit_of_the_clock():
    player, state = observed(jump=True, clock=3600.0)
    when = float(state.data.running.jumped)
    assert 40 * 3600 <= when <= 44 * 3600
    assert f"Change point between the observation at {when:g} and" in player.describe(state)
    text = player.describe(
        state, format_time=lambda time: f"{time / 3600:g} o'clock", unit="seconds"
    )
    assert f"at {when / 3600:g} o'clock and the one before (probability " in text
    assert 0 <= float(player.jump(state)) < 0.5


def test_a_loop_includes_the_text_of_its_strategy():
    loop = Loop(DOMAIN)
    assert loop.describe().startswith(adaptive_gp_ucb().describe(loop.state))
    given = gp_ucb(kernel=RBFKernel().double(), noise=0.1)
    assert Loop(given, DOMAIN).describe().startswith(f"Given: {given!r}.\n")


def test_several_trials_are_refused():
    player = adaptive_gp_ucb()
    with pytest.raises(InputDataError, match=r"2 trials, but .* takes one"):
        player.describe(player.init(DOMAIN, batch_shape=(2,)))


def test_values_that_never_differ():
    player, state = adaptive_gp_ucb(starts=3), adaptive_gp_ucb(starts=3).init(DOMAIN)
    for number in range(6):
        text = player.describe(state)
        if number < 3:
            assert text == f"Initialising: {number} of 3 observations received."
        else:
            assert f"all {number} observations equal 2.5" in text
        state, _ = player.tell(state, player.ask(state), 2.5)
    failed = player.suggestion_at(state, DOMAIN.X[0])
    state, _ = player.tell(state, failed, 9.0, ok=torch.tensor(False))
    assert "all 6 observations equal 2.5" in player.describe(state)
    for y in (2.5, 2.75, 3.0):
        state, _ = player.tell(state, player.ask(state), y)
    assert "Initialising" not in player.describe(state)


PARTS = {
    "lengths": (0.0, 0.0, 1.0, 0.0),
    "rates": (0.04, 0.0, 0.96, 0.0),
    "hazards": (0.7, 0.3),
    "noises": (0.6, 0.4),
}


@pytest.mark.parametrize(
    ("changes", "unit", "text"),
    [
        ({}, "hours", "^Drift: probability 0.96, correlation half-life 45.5 h. No change point"),
        ({"rates": (0.04, 0.0, 0.0, 0.96)}, "", "half-life 13.2 units of time or less."),
        ({"rates": (0.04, 0.96, 0.0, 0.0)}, "", "half-life 138 units of time or more."),
        ({"rates": (0.999, 0, 0.001, 0)}, "", "^No drift: probability > 0.99. No change"),
        ({"rates": (1.0,)}, "", "^No change point detected. Signal sd "),
        (
            {"rates": (0.2, 0.0, 0.8, 0.0)},
            "hours",
            "^Drift: probability 0.80 (prior 0.75), correlation half-life 45.5 h.",
        ),
        ({"rates": (0.6, 0.0, 0.4, 0.0)}, "", "^No drift: probability 0.60 (prior 0.25)."),
        (
            {"hazards": (0.4, 0.6)},
            "",
            "No change point detected. Jump rate above 0: probability 0.60 (prior 0.50).",
        ),
        ({"hazards": (0.03, 0.97)}, "", "Jump rate above 0: probability 0.97."),
        ({"hazards": (0.48, 0.52)}, "", "No change point detected. Signal"),  # prior: 0.5
        ({"hazards": (1.0,)}, "", "units of time. Signal sd "),
        (
            {"jumped": 13.0, "jumped_with": 0.97},
            "",
            "Change point between the observation at 13 h and the one before (probability 0.97).",
        ),
        ({"noises": (0.97, 0.03)}, "", " or less."),
        ({"noises": (0.4, 0.6)}, "", " or more."),
        ({"lengths": (0.0, 0.0, 0.0, 1.0)}, "", "lengthscale 0.4 of each range or more, noise"),
        ({"lengths": (1.0, 0.0, 0.0, 0.0)}, "", "lengthscale 0.05 of each range or less, noise"),
    ],
)
def test_texts_for_given_posterior_weights(changes, unit, text):
    shares = {name: changes.get(name, share) for name, share in PARTS.items()}
    bank = Bank()
    for name in ("rates", "hazards"):
        bank = replace(bank, **{name: getattr(bank, name)[: len(shares[name])]})
    player = adaptive_gp_ucb(bank=bank)
    state = player.init(DOMAIN)
    for t in range(6):
        state, _ = player.tell(state, player.suggestion_at(state, DOMAIN.X[t], now=t), t % 3)
    running, prior = state.data.running, state.data.prior
    length, rate, hazard, noise = (torch.tensor(share).double() for share in shares.values())
    of_member = torch.einsum("a,b,c->abc", rate, hazard, noise).flatten()[prior.member]
    histories = torch.bincount(prior.member)[prior.member]
    running = running._replace(
        log_weight=(length.unsqueeze(-1) * of_member / histories).log(),
        jumped=running.time + changes.get("jumped", math.nan) - 5,
        jumped_with=running.time * 0 + changes.get("jumped_with", math.nan),
    )
    state = state._replace(data=state.data._replace(running=running))
    printed = player.describe(state, format_time="{:g} h".format, unit=unit)
    assert printed.startswith(text[1:]) if text.startswith("^") else text in printed
    assert ("hange point" in printed) == (len(shares["hazards"]) > 1)


def test_a_prior_probability_below_one_percent():
    """One of 120 rates is 0, and three points are measured again and again."""
    rates = (0.0, *(0.5 + t / 400 for t in range(119)))
    player = adaptive_gp_ucb(bank=Bank(rates=rates, hazards=(0.0,), lengthscales=(0.4,)))
    state, texts = player.init(DOMAIN), []
    for t in range(16):
        X = DOMAIN.X[t % 3]
        y = 70 + 4 * torch.sin(7 * X.sum())
        state, _ = player.tell(state, player.suggestion_at(state, X, now=t), y)
        texts.append(player.describe(state))
    assert any(re.match(r"No drift: probability 0\.\d\d \(prior < 0.01\)", text) for text in texts)


@pytest.mark.parametrize(
    ("ratios", "edge"),
    [((0.01, 0.05), " or less"), ((1e-4, 1e-3), " or more"), ((1e-4,), "")],
)
def test_noise_at_the_edge_of_the_bank(ratios, edge):
    _, state = observed(jump=False)
    player = adaptive_gp_ucb(bank=Bank(noise_ratios=ratios, features=64))
    again = player.init(DOMAIN)
    for X, y in zip(state.history.choice.tensor(), state.history.y.tensor()):
        again, _ = player.tell(again, player.suggestion_at(again, DOMAIN.X[X]), y)
    noise = float(player.model_noise(again).sqrt())
    assert f"noise sd {noise:.2g}{edge}." in player.describe(again)


@pytest.mark.parametrize(("noise", "edge"), [(0.05, " or less"), (0.4, ""), (3.0, " or more")])
def test_noise_within_the_bank_is_estimated(noise, edge):
    player, state = observed(jump=False, noise=noise)
    found = re.search(r"noise sd ([\d.]+?)( or \w+)?\.$", player.describe(state))
    assert (found[2] or "") == edge
    if not edge:
        assert 0.75 * noise < float(found[1]) < 1.25 * noise


def test_a_loop_prints_dates_and_predicts_nothing_before_its_units_are_set():
    start = datetime(2026, 3, 1, 22, tzinfo=UTC)
    loop = Loop(adaptive_gp_ucb(bank=Bank(features=64)), {"temperature": (20.0, 80.0)}, pending=2)
    for hour in range(30):
        now = start + timedelta(hours=hour)
        if hour < FIRST:
            assert "Best setting" not in loop.describe(now=now)
        suggestion = loop.ask(now=now)
        assert math.isnan(suggestion.mean) == math.isnan(suggestion.sd) == (hour < FIRST)
        assert ("no prediction yet" in repr(suggestion)) == (hour < FIRST)
        best = 35.0 if hour < 20 else 75.0
        loop.tell(-abs(suggestion.point["temperature"] - best))
    assert loop.table()["mean"].isna().tolist() == [hour < FIRST for hour in range(30)]
    text = loop.describe(now=start + timedelta(hours=30))
    assert re.search(r"^Best setting now: temperature .*; posterior mean .*, ± 2 sd: ", text, re.M)
    jumped = float(loop.state.data.running.jumped)
    assert 20 <= jumped <= 23
    when = (start + timedelta(hours=jumped)).isoformat(" ", "seconds")
    assert f"Change point between the observation at {when} and the one before" in text


def test_open_suggestions_before_units_are_set(tmp_path):
    """An open suggestion is assumed to yield the mean, but there is none yet."""
    player = adaptive_gp_ucb(bank=Bank(features=64), starts=3)
    loop = Loop(player, DOMAIN, pending=4)
    for y in (55.0, 55.5):
        loop.ask()
        loop.tell(y)
    points = [loop.ask().point for _ in range(4)]
    assert points == DOMAIN.X[loop.state.basis.starts[2:6]].tolist()  # the filling design goes on
    loop.tell(56.0, suggestion=loop.open[0])
    loop.save(tmp_path / "loop.json")
    again = Loop.load(tmp_path / "loop.json", player)
    assert [math.isnan(suggestion.mean) for suggestion in again.open] == [True] * 3
    assert float(again.state.data.running.units.centre) == pytest.approx(55.5)
    again.tell(55.2, suggestion=again.open[0])
