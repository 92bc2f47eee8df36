"""SparQ and W-SparQ against dense formulas, with complete, partial, late and missing answers."""

from __future__ import annotations

import copy
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.test_law4_pure import assert_identical
from experts.by_the_book import window_starts
from oracles.dense import matern_five_halves, regression
from torch import Tensor

from botorch_tv.acquisition import Heteroscedastic
from botorch_tv.experts import (
    Consultation,
    EveryRound,
    ExpertWarning,
    Refresh,
    SparQ,
    Windows,
    sparq_gp_ucb,
    w_sparq_gp_ucb,
)
from botorch_tv.forgetting import Markov, Static, UncertaintyInjection, Wiener
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, DiscreteSearch, Grid, Strategy, gp_ucb
from botorch_tv.strategies.state import State

POINTS, NOISE, TRIALS, ROUNDS = 6, 0.02, 3, 40
GRID = Grid.regular(points=POINTS, dim=2)
CORNERS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
CANDIDATES = Box(CORNERS, search=DiscreteSearch(GRID.X))
K = matern_five_halves(GRID.X.numpy(), 0.3)


KERNEL = unit_kernel("matern52", 0.3)
KINDS: dict[str, tuple[Any, dict]] = {
    "SparQ": (lambda **more: sparq_gp_ucb(c_Q=2.0, **more), {}),
    "W-SparQ": (
        lambda **more: w_sparq_gp_ucb(alpha=1.5, c_Q=2.0, **more),
        {"inflation": ("injection", 1.5, 1.0)},
    ),
    "other parts": (
        lambda **more: SparQ(
            decay=Markov(0.05),
            mean="estimated",
            refresh=Refresh(Windows(1.0, 0.25), c_Q=2.0, steps=more.pop("steps")),
            **more,
        ),
        {"decay": ("markov", 0.05), "mean": "estimated"},
    ),
}
STARTS = {
    "SparQ": range(1, ROUNDS + 1),
    "W-SparQ": window_starts(ROUNDS, 1.5, 0.25),
    "other parts": window_starts(ROUNDS, 1.0, 0.25),
}


def make(kind: str, **settings: Any) -> SparQ:
    return KINDS[kind][0](**({"kernel": KERNEL, "noise": NOISE, "steps": 6} | settings))


def truth(t: int, trial: int) -> np.ndarray:
    """f_t on the arms: waves that travel."""
    X = GRID.X.numpy()
    return np.sin(4 * X[:, 0] + 0.15 * t + trial) + np.cos(5 * X[:, 1] - 0.1 * t)


def error(t: int, trial: int, number: int) -> float:
    return float(np.random.default_rng([t, trial, number]).standard_normal() * NOISE**0.5)


def answers_to(asked: Consultation, t: int, trials: list[int]) -> Tensor:
    """What an expert says about f_t, errors by trial and arm."""
    rows = []
    for trial, arms in zip(trials, asked.choice.reshape(len(trials), -1).tolist()):
        f = truth(t, trial)
        rows.append([f[arm] + error(t, trial, 100 + arm) for arm in arms])
    return torch.tensor(rows, dtype=torch.float64).view(asked.mask.shape)


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore::botorch_tv.experts.ExpertWarning")
@pytest.mark.parametrize("domain", [GRID, CANDIDATES], ids=["grid", "listed"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_posterior_by_the_textbook_with_late_and_missing_answers(kind: str, domain: Any) -> None:
    """Answers replace all earlier rows; ``tests/conformance`` compares choices and widths."""
    strategy, random = make(kind), np.random.default_rng(5)
    state = strategy.init(domain, batch_shape=(TRIALS,))
    log = np.zeros((2, TRIALS, ROUNDS))  # arms and values; failed rounds are NaN
    answers = [(0, [], [])] * TRIALS  # round, arms and values of the newest answers of each trial
    open_: list[tuple] = []
    for t in range(1, ROUNDS + 1):
        arms = random.integers(len(GRID), size=TRIALS)
        y = np.array([truth(t, i)[arm] + error(t, i, 0) for i, arm in enumerate(arms)])
        good = np.full(TRIALS, t % 9 != 4)
        log[:, :, t - 1] = arms, np.where(good, y, math.nan)
        at = strategy.suggestion_at(state, GRID.X[arms])
        state, _ = strategy.tell(state, at, torch.tensor(y), ok=torch.tensor(good))
        generators = [torch.Generator().manual_seed(trial) for trial in range(TRIALS)]
        asked = strategy.consult(state, generator=generators)
        assert (asked is not None) == (t in STARTS[kind])
        if asked is not None:
            assert asked.time.tolist() == [float(t)] * TRIALS
            there = GRID.index_of(asked.X)
            for trial, mask in enumerate(asked.mask):
                points, past = there[trial][mask].tolist(), set(log[0, trial, :t].tolist())
                assert len(set(points)) == len(points)
                assert set(points) <= past
                # This kernel matrix is regular, so its rank does not limit the number.
                assert len(points) == min(len(past), math.ceil(2 * math.log(t + 1) ** 2))
            ok = torch.from_numpy(random.random(asked.mask.shape) < 0.6)
            ok[t % TRIALS] &= t % 2 == 0  # no answer in a trial
            values = answers_to(asked._replace(choice=there), t, list(range(TRIALS)))
            open_.append((t + random.integers(3), asked, there, values, ok))
        for entry in [entry for entry in open_ if entry[0] <= t]:
            open_.remove(entry)
            _, asked, there, values, ok = entry
            if state.expert is not None and asked.round <= state.expert.round:
                continue
            state = strategy.absorb(state, asked, values.masked_fill(~ok, math.nan), ok=ok)
            for trial, got in enumerate(asked.mask & ok):
                if got.any():
                    rows = there[trial][got].tolist(), values[trial][got].tolist()
                    answers[trial] = (asked.round, *rows)
        posterior = strategy.posterior(state, GRID.X.expand(TRIALS, -1, -1))
        for trial, (since, arms, values) in enumerate(answers):
            played, y = log[:, trial, since:t]
            good = np.isfinite(y)
            mean, variance = regression(
                K,
                [*arms, *played[good].astype(int)],
                [*[float(since)] * len(arms), *(np.arange(since, t)[good] + 1.0)],
                [*values, *y[good]],
                t + 1.0,
                noise=NOISE,
                reference=float(t),
                **KINDS[kind][1],
            )
            np.testing.assert_allclose(posterior.mean[trial, :, 0], mean, rtol=0, atol=1e-8)
            np.testing.assert_allclose(posterior.variance[trial, :, 0], variance, rtol=0, atol=1e-8)


def play(
    strategy: Strategy, state: State, rounds: int, trials: list[int], first: int = 1
) -> tuple[State, list[list[int]]]:
    """Rounds with an expert that answers; random numbers by round and trial."""
    chosen = []
    shape = state.time.shape
    for t in range(first, first + rounds):
        suggestion = strategy.ask(state)
        arms = suggestion.index.reshape(-1).tolist()
        chosen.append(arms)
        y = [truth(t, trial)[arm] + error(t, trial, 0) for trial, arm in zip(trials, arms)]
        state, _ = strategy.tell(
            state, suggestion, torch.tensor(y).to(state.basis.variance).view(shape)
        )
        generators = [torch.Generator().manual_seed(1000 * t + trial) for trial in trials]
        asked = strategy.consult(state, generator=generators)
        if asked is not None:
            answers = answers_to(asked, t, trials).to(state.basis.variance)
            state = strategy.absorb(state, asked, answers)
    return state, chosen


def test_numerical_rank_limits_side_queries() -> None:
    """A kernel of rank 4: after many rounds at most 4 points are asked about."""
    features = np.random.default_rng(0).standard_normal((len(GRID), 4))
    strategy = sparq_gp_ucb(
        kernel=torch.from_numpy(features @ features.T), noise=0.1, c_Q=3.0, steps=9
    )
    state, chosen = play(strategy, strategy.init(GRID, batch_shape=(2,)), 25, [0, 1])
    asked = strategy.consult(state)
    assert asked is not None
    rank = [np.linalg.matrix_rank(features[[row[i] for row in chosen]]) for i in range(2)]
    assert asked.side_queries.tolist() == rank


def test_gradient_search_on_a_box() -> None:
    strategy = make("W-SparQ")
    state = strategy.init(Box(CORNERS), batch_shape=(2,))
    for t in range(1, 9):
        suggestion = strategy.ask(state)
        if t == 3:  # the same points as in round 1 are asked about once
            suggestion = strategy.suggestion_at(state, state.history.choice.row(0))
        y = (4 * suggestion.X[..., 0] + 0.2 * t).sin()
        state, _ = strategy.tell(state, suggestion, y)
        asked = strategy.consult(state)
        if asked is None:
            continue
        assert asked.X.shape[-1] == 2
        new = {1: 1, 3: 2, 5: 4, 7: 6}
        assert asked.side_queries.tolist() == [min(new[t], math.ceil(2 * math.log(t + 1) ** 2))] * 2
        state = strategy.absorb(state, asked, (4 * asked.X[..., 0] + 0.2 * t).sin())
        X = asked.X[:, :1]
        now = strategy.posterior(state, X, now=state.time)
        assert (now.mean[..., 0] - (4 * X[..., 0] + 0.2 * t).sin()).abs().max() < 0.1


def test_a_late_or_absent_expert_is_reported() -> None:
    strategy = make("W-SparQ")
    state = strategy.init(GRID, batch_shape=(2,))
    y = torch.zeros(2, dtype=torch.float64)
    state, _ = strategy.tell(state, strategy.ask(state), y)
    asked = strategy.consult(state)
    assert asked is not None
    with pytest.warns(ExpertWarning, match="after round 1, but no answers .* since round 0"):
        suggestion = strategy.ask(state)

    with pytest.warns(ExpertWarning, match="no answer in 1 of 2 trials after round 1"):
        some = strategy.absorb(state, asked, y.unsqueeze(-1), ok=torch.tensor([[True], [False]]))
    assert some.expert is not None
    assert some.expert.unanswered.tolist() == [0, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        after = strategy.absorb(state, asked, y.unsqueeze(-1))
        suggestion = strategy.ask(after)
    after, info = strategy.tell(after, suggestion, y)
    assert info.side_queries.tolist() == [1, 1]
    _, info = strategy.tell(after, strategy.ask(after), y)
    assert info.side_queries.tolist() == [0, 0]


def test_consults_and_repr() -> None:
    kernel = unit_kernel("matern52", 0.3)
    plain = gp_ucb(kernel=kernel, noise=0.1)
    assert not plain.consults
    strategy = w_sparq_gp_ucb(kernel=kernel, noise=0.1, alpha=2.0)
    assert strategy.consults
    assert strategy.consult(strategy.init(GRID)) is None  # no observation yet
    assert repr(strategy).startswith("SparQ(kernel=")
    assert strategy.refresh.schedule == Windows(2.0, 0.25)
    assert strategy.inflation == UncertaintyInjection(2.0)
    even = w_sparq_gp_ucb(kernel=kernel, noise=0.1, alpha=2.0, inflate=False, B=0.5, delta=0.2)
    assert even.inflation == Static()
    for made in (even, sparq_gp_ucb(kernel=kernel, noise=0.1, B=0.5, delta=0.2)):
        assert made.width == Heteroscedastic(B=0.5, delta=0.2)
    assert Refresh(EveryRound(), 6.0).queries(500, 1) == math.ceil(6 * math.log(501))


def test_bad_answers() -> None:
    strategy = make("SparQ")
    state, _ = play(strategy, strategy.init(GRID, batch_shape=(2,)), 4, [0, 1])
    newest, _ = strategy.tell(state, strategy.ask(state), torch.zeros(2).double())
    asked = strategy.consult(newest)
    assert asked is not None
    y, ok = torch.zeros(asked.mask.shape).double(), torch.ones_like(asked.mask)
    bad = y.clone()
    bad[1, 2] = math.nan
    three = newest._replace(data=newest.data._replace(time=torch.zeros(3).double()))
    answered = strategy.absorb(newest, asked, y)
    before = copy.deepcopy(newest._replace(domain=None))
    values: Any
    for to, values, good, message in [
        (newest, bad, None, r"answer number 2 of trial 1 is nan.*ok=False"),
        (newest, y[:, 1:], None, r"y is torch.float64 of shape \(2, \d\)"),
        (newest, [1, 2], None, r"y is \[1, 2\]"),
        (newest, y, ok[:, 0], r"ok is torch.bool of shape \(2,\)"),
        (newest, y, y, "ok is torch.float64"),
        (newest, y.float(), None, "y is torch.float32"),
        (state, y, None, "follows round 5 of .* 4"),
        (answered, y, None, "follows round 5 of .* answers are of round 5"),
        (three, y, None, r"of trials \(2,\), but the state of trials \(3,\)"),
    ]:
        with pytest.raises(InputDataError, match=message):
            strategy.absorb(to, asked, values, ok=good)
    assert_identical(newest._replace(domain=None), before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda k: w_sparq_gp_ucb(kernel=k, noise=0.1, alpha=1.0, alpha_tilde=1 / 3), "1/3"),
        (lambda k: w_sparq_gp_ucb(kernel=k, noise=0.1, alpha=0.0), "alpha is"),
        (lambda k: sparq_gp_ucb(kernel=k, noise=0.1, c_Q=0), "c_Q is 0"),
        (lambda k: sparq_gp_ucb(kernel=k, noise=0.1, steps=-1), "steps is -1"),
        (lambda k: gp_ucb(kernel=k, noise=0.1).absorb(None, None, None), "consults no expert"),
        (lambda k: SparQ(kernel=k, noise=0.1).init(Box([(0, 1)], context_dim=1)), "context"),
    ],
)
def test_bad_settings(call: Any, message: str) -> None:
    with pytest.raises((InputDataError, ValueError), match=message):
        call(unit_kernel("matern52", 0.3))


@pytest.mark.parametrize("domain", [GRID, CANDIDATES, Box(CORNERS)], ids=["grid", "some", "box"])
def test_no_trials_at_all(domain: Any) -> None:
    for steps, shape in ((0, (0,)), (5, (2, 0)), ("exact", (2, 0))):
        strategy = make("SparQ", steps=steps)
        state = strategy.init(domain, batch_shape=shape)
        for _ in range(2):
            suggestion = strategy.ask(state)
            assert suggestion.X.shape == (*shape, 2)
            state, info = strategy.tell(state, suggestion, torch.zeros(shape).double())
            asked = strategy.consult(state, generator=[])
            assert asked is not None
            assert asked.X.shape[:-2] == asked.side_queries.shape == shape
            state = strategy.absorb(state, asked, torch.zeros(asked.mask.shape).double())
        assert info.side_queries.shape == shape
        assert strategy.posterior(state, GRID.X).mean.shape == (*shape, 25 + 11, 1)
        assert strategy.recommend(state).shape == (*shape, 2)


WALK, WALK_NOISE = 0.4, 0.05


@pytest.mark.parametrize("place", ["grid", "box"])
def test_answers_start_the_clock_where_the_first_measurement_failed(place: str) -> None:
    """Trials: the expert answers at time 3; it does not; the first measurement had worked.

    With u = time - origin, cov f_s(a) f_t(b) = K_ab (1 + w min(u_s, u_t)), asked at time 7.
    """
    domain = GRID if place == "grid" else Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double())
    strategy = SparQ(kernel=KERNEL, noise=WALK_NOISE, decay=Wiener(WALK))
    state, arm = strategy.init(domain, batch_shape=(3,)), 7
    X, y = GRID.X[arm].expand(3, 2), torch.full((3,), 0.6, dtype=torch.float64)
    at = strategy.suggestion_at(state, X, now=3.0)
    state, _ = strategy.tell(state, at, y, ok=torch.tensor([False, False, True]))
    asked = strategy.consult(state)
    assert asked is not None
    answered = torch.tensor([True, False, True]).unsqueeze(-1)
    with pytest.warns(match="no answer in 1 of 3 trials"):
        state = strategy.absorb(
            state, asked, torch.full((3, 1), 0.6, dtype=torch.float64), ok=answered
        )
    assert state.data.origin.tolist() == [3.0, torch.inf, 3.0]
    posterior = strategy.posterior(state, GRID.X.expand(3, -1, 2), now=7.0)
    weight = 1 / (1 + WALK_NOISE)  # K_aa = 1, and the answer is at the origin
    mean = torch.from_numpy(K[arm] * weight * 0.6)
    variance = torch.from_numpy((1 + WALK * (7 - 3)) - K[arm] ** 2 * weight)
    for trial in (0, 2):
        torch.testing.assert_close(posterior.mean[trial, :, 0], mean, rtol=0, atol=1e-10)
        torch.testing.assert_close(posterior.variance[trial, :, 0], variance, rtol=0, atol=1e-10)
    np.testing.assert_allclose(posterior.mean[1], 0.0, atol=1e-12)
    np.testing.assert_allclose(posterior.variance[1], 1.0, atol=1e-12)
