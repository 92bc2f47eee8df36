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
from experts.by_the_book import Answers, Sparse, window_starts
from gpytorch.kernels import MaternKernel
from oracles.dense import matern_five_halves, regression
from torch import Tensor

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
from botorch_tv.forgetting import Markov, Wiener
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, DiscreteSearch, Grid, Strategy, gp_ucb
from botorch_tv.strategies.state import State

POINTS, NOISE, TRIALS, ROUNDS = 6, 0.02, 3, 40
GRID = Grid.regular(points=POINTS, dim=2)
CORNERS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
CANDIDATES = Box(CORNERS, search=DiscreteSearch(GRID.X))
K = matern_five_halves(GRID.X.numpy(), 0.3)
KINDS = {
    "SparQ": lambda **k: sparq_gp_ucb(noise=NOISE, c_Q=2.0, B=0.5, **k),
    "W-SparQ": lambda **k: w_sparq_gp_ucb(noise=NOISE, alpha=1.5, c_Q=2.0, B=0.5, **k),
    "W-SparQ even": lambda **k: w_sparq_gp_ucb(
        noise=NOISE, alpha=0.5, alpha_tilde=0.3, inflate=False, c_Q=1.5, B=0.5, **k
    ),
}
ALPHA = {"SparQ": None, "W-SparQ": 1.5, "W-SparQ even": None}
STARTS = {
    "SparQ": list(range(1, ROUNDS + 1)),
    "W-SparQ": window_starts(ROUNDS, 1.5, 0.25),
    "W-SparQ even": window_starts(ROUNDS, 0.5, 0.3),
}
SCALE = {"SparQ": 2.0, "W-SparQ": 2.0, "W-SparQ even": 1.5}


def make(kind: str, **settings: Any) -> SparQ:
    settings.setdefault("kernel", unit_kernel("matern52", 0.3))
    return KINDS[kind](steps=settings.pop("steps", 6), **settings)


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


def reply(script: str, t: int, shape: torch.Size) -> tuple[bool, Tensor | None, int]:
    """Whether the expert answers, which points, and how many rounds later."""
    random = np.random.default_rng([5, t])
    if script == "patchy":
        ok = torch.from_numpy(random.random(shape) < 0.6)
        ok[t % TRIALS] &= t % 2 == 0  # no answer in a trial
        return t % 7 != 0, ok, 0
    if script == "slow":
        return True, None, int(random.integers(0, 3))
    return True, None, 0


@pytest.mark.filterwarnings("ignore::botorch_tv.experts.ExpertWarning")
@pytest.mark.parametrize(
    ("inference", "script"), [("exact", "patchy"), ("features", "slow"), ("box", "prompt")]
)
@pytest.mark.parametrize("kind", list(KINDS))
def test_same_choices_as_the_textbook(kind: str, inference: str, script: str) -> None:
    on_box = inference == "box"
    strategy = make(kind, inference="exact" if on_box else inference)
    state = strategy.init(CANDIDATES if on_box else GRID, batch_shape=(TRIALS,))
    learners = [Sparse(K, NOISE, ALPHA[kind]) for _ in range(TRIALS)]
    generators = [torch.Generator().manual_seed(trial) for trial in range(TRIALS)]
    late: list[tuple[int, Consultation, Tensor, list[Answers | None]]] = []
    total = np.zeros(TRIALS, dtype=int)
    for t in range(1, ROUNDS + 1):
        suggestion = strategy.ask(state)
        if on_box and t == 1:  # without data a box plays its middle, a grid its first arm
            suggestion = strategy.suggestion_at(state, torch.zeros(TRIALS, 2).double())
        arms = GRID.index_of(suggestion.X).tolist()
        for trial, book in enumerate(learners):
            arm, mean, sd, sqrt_beta = book.choose()
            assert arms[trial] == arm, f"round {t}, trial {trial}"
            assert suggestion.mean[trial] == pytest.approx(mean, abs=1e-8)
            assert suggestion.sd[trial] == pytest.approx(sd, abs=1e-8)
            assert suggestion.sqrt_beta[trial] == pytest.approx(sqrt_beta, abs=1e-8)
        failed = script == "patchy" and t % 9 == 4
        y = [truth(t, trial)[arm] + error(t, trial, 0) for trial, arm in enumerate(arms)]
        ok = torch.full((TRIALS,), not failed)
        state, info = strategy.tell(state, suggestion, torch.tensor(y).double(), ok=ok)
        assert info.side_queries.tolist() == total.tolist()
        total[:] = 0
        for book, arm, value in zip(learners, arms, y):
            book.log.append((arm, math.nan if failed else value, float(t)))
        asked = strategy.consult(state, generator=generators)
        assert (asked is not None) == (t in STARTS[kind])
        if asked is not None:
            asked = asked._replace(choice=GRID.index_of(asked.X)) if on_box else asked
            check_points(asked, learners, t, SCALE[kind])
            answering, good, delay = reply(script, t, asked.mask.shape)
            values = answers_to(asked, t, list(range(TRIALS)))
            good = torch.ones_like(asked.mask) if good is None else good
            got = [received(asked, values, good, trial, t) for trial in range(TRIALS)]
            if on_box:
                asked = asked._replace(choice=asked.X)
            if answering:
                late.append((t + delay, asked, torch.where(good, values, math.nan), got))
        newest = 0 if state.expert is None else state.expert.round
        for due, question, values, got in [entry for entry in late if entry[0] <= t]:
            late.remove((due, question, values, got))
            if question.round <= newest:
                continue
            state = strategy.absorb(state, question, values, ok=values.isfinite())
            newest = question.round
            total += question.side_queries.numpy()
            for book, answers in zip(learners, got):
                book.answers = answers or book.answers


def received(
    asked: Consultation, values: Tensor, good: Tensor, trial: int, t: int
) -> Answers | None:
    """The answers that a trial gets; None if there are none."""
    got = asked.mask[trial] & good[trial]
    if not got.any():
        return None
    return Answers(asked.choice[trial][got].tolist(), values[trial][got].tolist(), float(t), t)


def check_points(asked: Consultation, learners: list[Sparse], t: int, scale: float) -> None:
    """Distinct past points, as many as the formula says."""
    assert asked.round == t
    assert asked.time.tolist() == [float(t)] * TRIALS
    for arms, mask, book in zip(asked.choice, asked.mask, learners):
        points = arms[mask].tolist()
        past = {arm for arm, _, _ in book.log}
        assert len(set(points)) == len(points)
        assert set(points) <= past
        # This kernel matrix is regular, so its rank does not limit the number.
        assert len(points) == min(len(past), math.ceil(scale * math.log(t + 1) ** 2))


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


@pytest.mark.parametrize("maximize", [True, False])
def test_with_other_parts(maximize: bool) -> None:

    strategy = SparQ(
        kernel=unit_kernel("matern52", 0.3),
        noise=NOISE,
        decay=Markov(0.05),
        mean="estimated",
        maximize=maximize,
        refresh=Refresh(Windows(1.0), c_Q=1.0, steps=20),
    )
    state, _ = play(strategy, strategy.init(GRID), 8, [0])
    assert state.expert is not None
    expert, since = state.expert, state.expert.round
    assert 0 < since < 8  # there are answers and observations
    arms, values = (
        getattr(expert, name).tolist() + getattr(state.history, name).tensor(since).tolist()
        for name in ("choice", "y")
    )
    times = [float(expert.time)] * len(expert.y) + state.history.time.tensor(since).tolist()
    mean, variance = regression(
        K, arms, times, values, 9.0, noise=NOISE, decay=("markov", 0.05), mean="estimated"
    )
    posterior = strategy.posterior(state, GRID.X)
    np.testing.assert_allclose(posterior.mean.squeeze(), mean, atol=1e-8)
    np.testing.assert_allclose(posterior.variance.squeeze(), variance, atol=1e-8)


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
    assert "Windows(alpha=2.0, alpha_tilde=0.25)" in repr(strategy)
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
        (answered, y, None, "follows round 5 of .* answers of round 5"),
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


KERNEL = MaternKernel(nu=2.5).double()
KERNEL.lengthscale = torch.tensor(0.3, dtype=torch.float64)
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
