"""A bank's units of time and value, and its outliers."""

import math

import numpy as np
import pytest
import torch
from gp.mixture.readings import OFFSET, require_apart, with_bands
from numpy.testing import assert_allclose
from oracles.bank import predicted
from torch.testing import assert_close

from botorch_tv import Box, Loop, adaptive_gp_ucb
from botorch_tv.acquisition import IGPUCB
from botorch_tv.forgetting.base import median_gap
from botorch_tv.gp.mixture.bank import FIRST, Bank, prior_on_box
from botorch_tv.gp.mixture.filter import advanced
from botorch_tv.gp.mixture.running import mixture_prior
from botorch_tv.gp.mixture.units import checks_units
from botorch_tv.models import adaptive_model

SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
QUERY = SQUARE.new_tensor([[0.2, 0.9], [0.5, 0.4], [0.8, 0.1]])


def data(gaps):
    """Measurements so far apart in time."""
    generator = torch.Generator().manual_seed(3)
    gaps = torch.as_tensor(gaps, dtype=torch.float64)
    X = torch.rand(len(gaps), 2, dtype=torch.float64, generator=generator)
    t = gaps.cumsum(0)
    error = torch.randn(len(gaps), dtype=torch.float64, generator=generator)
    return X, t, 50 + 5 * torch.cos(3 * X.sum(-1) - 0.3 * t) + 0.3 * error


def observed(player, X, t, y, shape=()):
    state = player.init(Box(SQUARE), batch_shape=shape)
    for row in range(len(y)):
        suggestion = player.suggestion_at(state, X[row].expand(*shape, 2), now=float(t[row]))
        state, _ = player.tell(state, suggestion, y[row].expand(shape))
    return state


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("gaps", "counted"),
    [
        ([0.001] * 4 + [1.0] * 8, 8),  # seconds, then hours
        ([1.0] * 8 + [50.0] * 12, 16),
        ([1.0] * 4 + [2.0] * 12, FIRST),  # not far enough
        ([0.001] * 4 + [1.0] * 3, FIRST),  # not looked at again yet
        ([1.0] * 2 + [1e12] + [1.0] * 5 + [3e4, 1e12, 1e12, 1.0], FIRST),  # with long pauses
        ([1.0] + [1e12] * 2 + [1.0] * 6, 8),  # the first gaps are pauses
    ],
)
def test_a_clock_that_is_far_off_begins_anew(gaps, counted):
    X, t, y = data(gaps)
    clock = float(t[:counted].diff().median())
    require_apart(OFFSET, X.numpy())
    player = adaptive_gp_ucb(bank=OFFSET)
    state = observed(player, X, t, y)
    assert float(player.step(state)) == pytest.approx(clock, rel=1e-12)
    now = float(t[-1]) + 0.5
    rows = X.numpy(), y.numpy(), t.numpy()
    book = predicted(OFFSET, *rows, QUERY.numpy(), now, clock=clock)
    posterior = player.posterior(state, QUERY, now=now)
    assert_allclose(posterior.mean[:, 0], book.mean, rtol=0, atol=1e-8)
    variance = with_bands(book.covariance, player, state).diagonal()
    assert_allclose(posterior.variance[:, 0], variance, rtol=0, atol=1e-8)
    assert_allclose(by_model(X, t, y, ahead=0.5).mean[:, 0], book.mean, rtol=0, atol=1e-8)


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [8, 13])
def test_information_counts_by_the_corrected_clock(n):
    X, t, y = data([0.001] * 4 + [1.0] * (n - 4))
    width = IGPUCB(B=0.0, R=1.0, delta=math.exp(-1))
    player = adaptive_gp_ucb(bank=OFFSET, width=width)
    state = observed(player, X, t, y)
    gain = float(player.suggestion_at(state, X[0]).sqrt_beta) ** 2 / 2 - 2
    clock = float(t[:8].diff().median())
    rows = X.numpy(), y.numpy(), t.numpy()
    book = predicted(OFFSET, *rows, QUERY.numpy(), t[-1], clock=clock)
    assert gain == pytest.approx(book.information_gain, abs=1e-8)


def test_the_clock_is_checked_whenever_the_data_have_doubled():
    assert [n for n in range(100) if checks_units(n)] == [8, 16, 32, 64]
    assert float(median_gap(torch.tensor([0.0, 1.0, 2.0, 12.0]))) == 1


SIX = [0.0] * 6 + [2.0, 1.0, 1.0, 2.0]
TWO_AND_FOUR = [0.0] * 2 + [1.0] + [0.0] * 3 + [2.0, 1.0, 1.0, 2.0]


def orders(gaps):
    """Rows as they are, and with those of one time turned round, or mixed."""
    t = torch.tensor(gaps).cumsum(0)
    yield torch.arange(len(gaps))
    for seed in range(3):
        mixed = torch.randperm(len(gaps), generator=torch.Generator().manual_seed(seed))
        yield mixed[t[mixed].argsort(stable=True)]
    yield (len(gaps) - 1 - torch.arange(len(gaps)))[t.flip(0).argsort(stable=True)]


def by_strategy(X, t, y):
    player = adaptive_gp_ucb(bank=OFFSET)
    return player.posterior(observed(player, X, t, y), QUERY, now=float(t[-1]) + 1)


def by_model(X, t, y, ahead=1.0):
    rows = torch.cat([X, t.unsqueeze(-1)], -1)
    model = adaptive_model(rows, y.unsqueeze(-1), bank=OFFSET)
    return model.posterior(torch.cat([QUERY, (t[-1] + ahead).expand(3, 1)], -1))


@pytest.mark.few("by_model-six")
@pytest.mark.parametrize("gaps", [SIX, TWO_AND_FOUR], ids=["six", "two and four"])
@pytest.mark.parametrize("way", [by_strategy, by_model])
def test_simultaneous_measurements_have_no_order(way, gaps):
    X, t, y = data(gaps)
    found = [way(X[order], t, y[order]) for order in orders(gaps)]
    for entry in found[1:]:
        assert_close(entry.mean, found[0].mean, rtol=0, atol=1e-9)
        assert_close(entry.variance, found[0].variance, rtol=0, atol=1e-9)


@pytest.mark.few("gaps0-6", "gaps2-4")
@pytest.mark.parametrize(
    ("gaps", "counted"),
    [
        (SIX, 6),
        (TWO_AND_FOUR, 6),
        ([1.0] * 9, FIRST),
        ([1.0] * 3 + [0.0] + [1.0] * 5, FIRST),
        ([0.0] * 35 + [1.0], 35),
    ],
)
def test_units_are_those_of_all_measurements_up_to_the_time_that_completed_them(gaps, counted):
    X, t, y = data(gaps)
    require_apart(OFFSET, X.numpy())
    rows = X.numpy(), y.numpy(), t.numpy()
    book = predicted(OFFSET, *rows, QUERY.numpy(), t[-1] + 1, starts=counted)
    for way in (by_strategy, by_model):
        assert_allclose(way(X, t, y).mean[:, 0], book.mean, rtol=0, atol=1e-8)


@pytest.mark.full
def test_a_suspect_reading_is_named_and_is_no_change_point():
    loop, texts = Loop([(0.0, 1.0)]), []
    for number in range(24):
        (x,) = loop.ask().point
        loop.tell(90 - 40 * (x - 0.4) ** 2 - 6 * (number == 20) + 0.1 * math.sin(99 * number))
        texts.append(loop.describe())
    assert not any("Change point between" in text for text in texts)
    suspects = [number for number, text in enumerate(texts) if "from its prediction" in text]
    assert suspects == [20]
    wanted = "Reading 21 lies 14 sd from its prediction; the next suggestion measures near it again"
    assert f"\n{wanted}; if it is wrong: amend 21.\n" in texts[20]
    points = loop.table()["x0"]
    assert abs(points[21] - points[20]) < 0.1
    assert loop.recommend()[0] == pytest.approx(0.4, abs=0.1)


@pytest.mark.full
@pytest.mark.filterwarnings("ignore:No measurement supports")
@pytest.mark.parametrize("sign", [1, -1])
def test_no_setting_is_recommended_for_one_lucky_reading(sign):
    loop = Loop(adaptive_gp_ucb(maximize=sign > 0), [(0.0, 1.0)])
    for x in np.linspace(0, 1, 7):
        y = 50 + 10 * math.exp(-(((x - 0.75) / 0.2) ** 2)) + 0.3 * math.sin(99 * x)
        loop.observe([x], sign * y)
    loop.observe([0.2], sign * 61.0)
    assert "Reading -8 lies " in (text := loop.describe(now=8.5))
    assert "the next suggestion measures near it" in text
    loop.enqueue([0.9])
    assert "Reading -8 lies " in (text := loop.describe())
    assert "the next suggestion" not in text
    loop.ask()
    loop.discard()
    assert loop.recommend()[0] == pytest.approx(0.72, abs=0.05)
    loop.observe([0.2], sign * 61.0)
    assert loop.recommend()[0] == pytest.approx(0.2, abs=0.05)
    loop.observe([0.2], sign * 45.0)  # an unlucky reading
    text = loop.describe()
    assert "Reading -10 lies " in text
    near = abs(loop.ask().point[0] - 0.2) <= 0.1
    assert ("the next suggestion measures near it" in text) == near
    assert text.split("Reading")[1].split("\n")[0] in loop.describe()  # it is open now


@pytest.mark.parametrize(
    ("given", "columns", "context", "ratios"),
    [
        ({}, 2, 0, (0.01, 0.05)),
        ({}, 2, 1, (0.0005, 0.01, 0.05)),
        ({}, 9, 0, (0.0005, 0.01, 0.05)),
        ({"noise_ratios": (0.2, 0.002)}, 9, 0, (0.2, 0.002)),
    ],
)
def test_default_noise_ratios_follow_the_dimension(given, columns, context, ratios):
    lower = torch.zeros(columns, dtype=torch.float64)
    prior = prior_on_box(Bank(**given), lower, lower + 1, context)
    assert tuple(dict.fromkeys(prior.noise.tolist())) == ratios


def test_blocks_of_different_trials_fit_the_slots_of_samples():
    """One trial completes a block of 16 readings; the other one, with such a block, has none."""
    bank = Bank(points=16, rates=(0.0,), lengthscales=(0.05,), noise_ratios=(0.01,))
    zero, both = SQUARE[0], torch.ones(2, 16, dtype=torch.bool)
    prior = prior_on_box(bank, *SQUARE, 0)
    running = mixture_prior(prior, 2)
    X = torch.rand(2, 16, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for time, good in [(0.0, both), (1.0, both), (1.0, both & torch.tensor([[True], [False]]))]:
        reading = X + 1e-3 * time, X.sum(-1), zero + time, torch.ones_like(X[..., 0])
        running = advanced(prior, running, *reading, good)
        X = X.flip(-1)
    assert running.matrices.shape[-1] <= prior.slots + 1
