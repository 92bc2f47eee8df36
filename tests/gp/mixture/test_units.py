"""Relevances of parameters against the textbook."""

import math

import numpy as np
import pytest
import torch
from gp.mixture.readings import Readings, assert_textbook, bank_of, relevance_of, told
from numpy.testing import assert_allclose
from oracles.bank import log_density, predicted
from scipy.optimize import minimize

from botorch_tv import Box, Choice, Grid, adaptive_gp_ucb
from botorch_tv.gp.mixture.bank import prior_on_box
from botorch_tv.gp.mixture.units import Measured, fitted, units_of

D = torch.float64
BANK = bank_of(2, lengthscales=(0.3, 0.6), rates=(0.0,), noise_ratios=(0.01,), tolerance=1e-6)


def readings(n: int, relevant: int, dim: int = 4, seed: int = 0) -> Readings:
    """Readings of a wave in some of the coordinates, the last of them failed."""
    random = np.random.default_rng(seed)
    X = random.random((n, dim))
    y = 20 + 3 * np.sin(7 * X[:, :relevant]).sum(-1) + 0.1 * random.standard_normal(n)
    return Readings(X, y, np.arange(n) * 0.5, np.arange(n) < n - 1)


def test_relevances_maximise_the_density_of_the_textbook():
    """Three parameters, the second of which has two columns; the last reading failed.

    A third of the variances is given.
    """
    data, groups, corners = readings(14, 2), [0, 1, 1, 2], torch.zeros(2, 4, dtype=D)
    corners[1] = 2.0
    bank = bank_of(2, lengthscales=(0.3, 0.6))
    prior = prior_on_box(bank, *corners, 0, groups=torch.tensor(groups))
    each = (torch.from_numpy(part).unsqueeze(0) for part in (2 * data.X, data.y, data.good))
    variance = np.resize([0.0, 0.0, 0.5], 14)
    rest = (torch.from_numpy(part).unsqueeze(0) for part in (data.times, variance))
    measured = Measured(*each, *rest)
    log, gain = fitted(prior, units_of(prior, measured.first(4), 4), measured)
    y, own = ((data.y - data.y[:4].mean()) / data.y[:4].std())[:-1], variance[:-1]
    own = own / data.y[:4].var()

    def value(vector):
        relevance = np.exp(vector[groups] + vector[3]) / math.sqrt(0.3 * 0.6)
        rate, ratio = np.exp(vector[4:])
        noise = np.where(own > 0, own, ratio)
        log = log_density(relevance, rate, noise, data.X[:-1], y, data.times[:-1] / 0.5)
        usual = np.array([0.0, 0.0, 0.0, 0.0, math.log(0.02), math.log(0.02)])
        apart = (vector - usual) / np.array([1.0, 1.0, 1.0, 1.5, 1.5, 1.5])
        return 0.5 * np.square(apart).sum() - log

    start = np.array([0.0, 0.0, 0.0, 0.0, math.log(0.02), math.log(0.02)])
    best = minimize(value, start)
    alone = minimize(lambda some: value(np.concatenate([np.zeros(3), some])), start[3:])
    assert_allclose(log[0], best.x[:3], rtol=0, atol=0.02)
    assert float(gain) == pytest.approx(alone.fun - best.fun, abs=0.01)


@pytest.mark.parametrize("kind", ["box", "grid"])
def test_a_posterior_in_relevant_coordinates_is_the_textbook(kind):
    data, query = readings(33, 1), np.random.default_rng(9).random((3, 4))
    data.X[:2] = [[0.0] * 4, [1.0] * 4]  # the corners of a grid
    box = Box([(0.0, 1.0)] * 4)
    domain = box if kind == "box" else Grid(torch.from_numpy(np.concatenate([data.X, query])))
    player = adaptive_gp_ucb(bank=BANK)
    state, now = told(player, domain, data), 17.0
    found = relevance_of(state)
    assert found[0] == 2.0
    assert (found[1:] < 1).all()
    assert "of the ranges" in player.describe(state)
    parts = dict(good=data.good, clock=0.5, relevance=found)
    assert_textbook(
        player, state, predicted(BANK, *data[:3], query, now, **parts), query, now, 1e-7
    )


def test_trials_have_relevances_of_their_own():
    logs = [readings(33, 1), readings(33, 4, seed=1)]
    player, box = adaptive_gp_ucb(bank=BANK), Box([(0.0, 1.0)] * 4)
    state = player.init(box, batch_shape=(2,))
    for rows in zip(*(zip(*log[:3]) for log in logs)):
        X, y, (time, _) = zip(*rows)
        suggestion = player.suggestion_at(state, torch.tensor(np.stack(X)), now=time)
        state, _ = player.tell(state, suggestion, torch.tensor(y, dtype=D))
    alone = [told(player, box, log._replace(good=log.good | True)) for log in logs]
    assert_allclose(relevance_of(state), [relevance_of(each) for each in alone], rtol=0, atol=0)
    assert (relevance_of(state)[0] != 1).any()
    assert (relevance_of(state)[1] == 1).all()
    together = player.ask(state, now=17.0).X
    for number, each in enumerate(alone):
        torch.testing.assert_close(
            together[number], player.ask(each, now=17.0).X, atol=1e-7, rtol=0
        )


def test_the_columns_of_a_category_have_one_relevance():
    box = Box({"x": (0, 1), "kind": Choice("a", "b", "c", "d"), "y": (0, 1), "z": (0, 1)})
    player, random = adaptive_gp_ucb(), np.random.default_rng(0)
    state = player.init(box)
    for t in range(33):
        kind = "abcd"[random.integers(4)]
        x, y, z = random.random(3)
        X = box.parameters.place(
            {"x": x, "kind": kind, "y": y, "z": z}, like=torch.empty(0, dtype=D)
        )
        value = 3.0 * math.sin(9 * x) + 0.05 * random.standard_normal()
        state, _ = player.tell(state, player.suggestion_at(state, X, now=float(t)), value)
    found = relevance_of(state)
    assert found[0] > 1 > found[1]
    assert len(set(found[1:4])) == 1
