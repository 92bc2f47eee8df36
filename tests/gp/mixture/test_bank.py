"""A bank's units of time and value, and its outliers."""

import itertools
import math

import numpy as np
import pytest
import torch
from gp.mixture.static_bank import OFFSET, by_the_book
from numpy.testing import assert_allclose
from oracles import mixture
from scipy.stats import t as student_t
from torch.testing import assert_close

from botorch_tv import Box, Loop, adaptive_gp_ucb
from botorch_tv.acquisition import IGPUCB
from botorch_tv.forgetting.base import median_gap
from botorch_tv.gp.mixture.bank import FIRST, TOGETHER, Bank, checks_clock
from botorch_tv.models import adaptive_model

SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)


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
    player = adaptive_gp_ucb(bank=OFFSET)
    state = observed(player, X, t, y)
    assert float(player.step(state)) == pytest.approx(clock, rel=1e-12)
    rows = torch.cat([X, t.unsqueeze(-1)], -1)
    model = adaptive_model(rows, y.unsqueeze(-1), bank=OFFSET)
    query, now = SQUARE.new_tensor([[0.2, 0.9], [0.5, 0.4], [0.8, 0.1]]), float(t[-1]) + 0.5
    there = torch.cat([query, torch.full((3, 1), now, dtype=torch.float64)], -1)
    _, mean, covariance, _ = by_the_book(model, rows, y.unsqueeze(-1), there, clock)
    posterior = player.posterior(state, query, now=now)
    assert_allclose(posterior.mean[:, 0], mean, rtol=0, atol=1e-8)
    assert_allclose(posterior.variance[:, 0], covariance.diagonal(), rtol=0, atol=1e-8)
    assert_allclose(model.posterior(there).mean[:, 0], mean, rtol=0, atol=1e-8)


@pytest.mark.few(1)
@pytest.mark.parametrize("n", [8, 13])
def test_information_counts_by_the_corrected_clock(n):
    X, t, y = data([0.001] * 4 + [1.0] * (n - 4))
    width = IGPUCB(B=0.0, R=1.0, delta=math.exp(-1))
    player = adaptive_gp_ucb(bank=OFFSET, width=width)
    state = observed(player, X, t, y)
    gain = float(player.suggestion_at(state, X[0]).sqrt_beta) ** 2 / 2 - 2
    phis = [entry.at(X).numpy() for entry in state.data.prior.features]
    times, unit = t.numpy() / float(t[:8].diff().median()), y[:FIRST]
    values = ((y - unit.mean()) / unit.std(correction=0)).numpy()
    wanted = 0.0
    for row in range(n):
        members = []
        for phi, rate, noise in itertools.product(phis, OFFSET.rates, OFFSET.noise_ratios):
            before = phi[:row], values[:row], times[:row]
            there = phi[row : row + 1], times[row : row + 1]
            members.append(
                mixture.member(*before, *there, rate=rate, noise=noise)
                if row
                else mixture.Member(0.0, np.zeros(1), np.full((1, 1), 2.0), noise)
            )
        weight = mixture.mixture(members)[0]
        wanted += weight @ [
            0.5 * math.log1p(entry.covariance.item() / entry.noise) for entry in members
        ]
    assert gain == pytest.approx(wanted, abs=1e-8)


def test_the_clock_is_checked_whenever_the_data_have_doubled():
    assert [n for n in range(100) if checks_clock(n)] == [8, 16, 32, 64]
    assert float(median_gap(torch.tensor([0.0, 1.0, 2.0, 12.0]))) == 1


SIX = [0.0] * 6 + [2.0, 1.0, 1.0, 2.0]
TWO_AND_FOUR = [0.0] * 2 + [1.0] + [0.0] * 3 + [2.0, 1.0, 1.0, 2.0]
QUERY = SQUARE.new_tensor([[0.2, 0.9], [0.5, 0.4], [0.8, 0.1]])


def orders(gaps):
    """Rows as they are, and with those of one time turned round, or mixed."""
    t = torch.tensor(gaps).cumsum(0)
    yield torch.arange(len(gaps))
    for seed in range(3):
        mixed = torch.randperm(len(gaps), generator=torch.Generator().manual_seed(seed))
        yield mixed[t[mixed].argsort(stable=True)]
    yield (len(gaps) - 1 - torch.arange(len(gaps)))[t.flip(0).argsort(stable=True)]


def by_strategy(X, t, y, *, bank=OFFSET):
    player = adaptive_gp_ucb(bank=bank)
    return player.posterior(observed(player, X, t, y), QUERY, now=float(t[-1]) + 1)


def by_model(X, t, y):
    rows = torch.cat([X, t.unsqueeze(-1)], -1)
    model = adaptive_model(rows, y.unsqueeze(-1), bank=OFFSET)
    return model.posterior(torch.cat([QUERY, (t[-1] + 1).expand(3, 1)], -1))


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
        ([0.0] * (TOGETHER + 3) + [1.0], TOGETHER),
    ],
)
def test_units_are_those_of_all_measurements_up_to_the_time_that_completed_them(gaps, counted):
    X, t, y = data(gaps)
    model = adaptive_model(torch.cat([X, t.unsqueeze(-1)], -1), y.unsqueeze(-1), bank=OFFSET)
    units = model.running.units
    assert_allclose(units.centre, [y[:counted].numpy().mean()], rtol=1e-12)
    assert_allclose(units.spread, [y[:counted].numpy().std()], rtol=1e-12)
    assert_close(by_strategy(X, t, y).mean, by_model(X, t, y).mean, rtol=0, atol=1e-9)


NOISE, ODDS = 0.05, 0.1 / 0.9
ONE = Bank(rates=(0.0,), hazards=(0.0,), lengthscales=(0.4,), noise_ratios=(NOISE,), outliers=0.1)


def with_outliers(phi, y):
    """Mean and covariance of f at all rows of ``phi``, the first of which give the values ``y``.

    And the information gain, which counts a reading by the probability that it is right.

    A reading is right, or an outlier from Student's t with 4 degrees of freedom about the constant,
    with twice the prior variance of a reading; a Gaussian with the moments of both cases replaces
    them. The last entry is the constant.
    """
    n, total = len(y), len(phi) + 1
    rows = np.vstack([phi, np.zeros(phi.shape[1])])
    C, m, A, B, gain_in_nats = rows @ rows.T + 1, np.zeros(total), 2.0, 2.0, 0.0
    rest = 1 - (phi**2).sum(-1)
    for i in range(n):
        S, e = C[i, i] + rest[i] + NOISE, y[i] - m[i]
        right = student_t(2 * A, scale=math.sqrt(B / A * S)).pdf(e)
        variance = B / (A - 1) * (1 + NOISE + C[-1, -1])
        wrong = student_t(4, loc=m[-1], scale=math.sqrt(2 * variance)).pdf(y[i])
        r = ODDS * wrong / (right + ODDS * wrong)
        gain_in_nats += 0.5 * (1 - r) * math.log(S / NOISE)
        A, B = A + 0.5, B + 0.5 * ((1 - r) * e**2 / S + r * B / A)
        gain = C[:, i] / S
        m = m + (1 - r) * gain * e
        between = r * (1 - r) * e**2 * np.outer(gain, gain) / (B / A)
        C = C - (1 - r) * S * np.outer(gain, gain) + between
    return m[:-1], B / (A - 1) * C[:-1, :-1], gain_in_nats


@pytest.mark.few(1)
@pytest.mark.parametrize("wrong", [0.0, 2.0, -9.0])
def test_the_posterior_is_that_of_the_textbook(wrong):
    random = np.random.default_rng(3)
    X = torch.from_numpy(random.random((12, 2)))
    y = torch.sin(4 * X.sum(-1)) + 0.1 * torch.from_numpy(random.standard_normal(12))
    y[8] += wrong
    query = torch.from_numpy(random.random((5, 2)))
    player = adaptive_gp_ucb(bank=ONE)
    state = player.init(Box([(0.0, 1.0), (0.0, 1.0)]))
    for item, value in zip(X, y):
        state, _ = player.tell(state, player.suggestion_at(state, item), value)
    posterior = player.posterior(state, query)
    phi = state.data.prior.features[0].at(torch.cat([X, query])).numpy()
    centre, spread = y[:FIRST].mean(), y[:FIRST].std(correction=0)
    mean, covariance, gain = with_outliers(phi, ((y - centre) / spread).numpy())
    assert float(state.data.running.information_gain) == pytest.approx(gain, rel=1e-9)
    np.testing.assert_allclose(posterior.mean[:, 0], centre + spread * mean[12:], rtol=0, atol=1e-9)
    ours = posterior.distribution.covariance_matrix.numpy()
    wanted = float(spread) ** 2 * covariance[12:, 12:]
    off = ~np.eye(5, dtype=bool)  # features leave out some of the variances
    np.testing.assert_allclose(ours[off], wanted[off], rtol=0, atol=1e-9)


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
    loop = Loop(adaptive_gp_ucb(bank=Bank(features=24), maximize=sign > 0), [(0.0, 1.0)])
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
