"""Experts that are silent for long, and batches without trials."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from experts.by_the_book import Answers, Sparse, window_starts
from oracles.dense import matern_five_halves

from botorch_tv.experts import ExpertWarning, SparQ, sparq_gp_ucb, w_sparq_gp_ucb
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, DiscreteSearch, Grid
from botorch_tv.strategies.domains import Domain

NOISE, ROUNDS = 0.02, 26
GRID = Grid.regular(points=5, dim=2)
CORNERS = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
CANDIDATES = Box(CORNERS, search=DiscreteSearch(GRID.X))
DOMAINS: dict[str, Domain] = {"grid": GRID, "box": CANDIDATES}
K = matern_five_halves(GRID.X.numpy(), 0.3)
KERNEL = unit_kernel("matern52", 0.3)
KINDS: dict[str, tuple[SparQ, float | None]] = {
    "SparQ": (sparq_gp_ucb(kernel=KERNEL, noise=NOISE, B=0.5, steps=0), None),
    "W-SparQ": (w_sparq_gp_ucb(kernel=KERNEL, noise=NOISE, alpha=1.5, B=0.5, steps=0), 1.5),
}
GONE = range(4, 10)
"""After these rounds nobody replies at all."""
IGNORANT = range(12, 20)
"""After these every reply says that no point could be measured."""


def value(arm: int, t: int) -> float:
    return math.sin(0.7 * arm + 0.2 * t)


@pytest.mark.parametrize("place", list(DOMAINS))
@pytest.mark.parametrize("kind", list(KINDS))
def test_nothing_for_many_rounds_in_a_row(kind: str, place: str) -> None:
    """Old answers and all that is observed since are gone on with, and every silence is named."""
    strategy, alpha = KINDS[kind]
    state, book = strategy.init(DOMAINS[place]), Sparse(K, NOISE, alpha)
    starts = window_starts(ROUNDS, 1.5, 0.25) if alpha else list(range(1, ROUNDS + 1))
    missed = ignored = 0
    for t in range(1, ROUNDS + 1):
        due = t - 1 in starts and t - 1 in GONE
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            suggestion = strategy.ask(state)
        assert [one.category for one in seen] == [ExpertWarning] * due
        assert all(one.filename == __file__ for one in seen)
        missed += due
        if t == 1:
            suggestion = strategy.suggestion_at(state, GRID.X[0])
        arm = int(GRID.index_of(suggestion.X))
        expected = book.choose()
        assert arm == expected[0], f"round {t}"
        assert float(suggestion.mean) == pytest.approx(expected[1], abs=1e-8)
        assert float(suggestion.sd) == pytest.approx(expected[2], abs=1e-8)
        y = value(arm, t)
        state, _ = strategy.tell(state, suggestion, torch.tensor(y, dtype=torch.float64))
        book.log.append((arm, y, float(t)))
        asked = strategy.consult(state)
        assert (asked is not None) == (t in starts)
        if asked is None or t in GONE:
            continue
        arms = GRID.index_of(asked.X).tolist()
        answers = [value(one, t) for one in arms]
        nothing = torch.zeros(len(arms), dtype=torch.bool)
        if t in IGNORANT:
            with pytest.warns(ExpertWarning, match=f"no answer in .* after round {t}"):
                state = strategy.absorb(
                    state, asked, torch.full(nothing.shape, math.nan).double(), ok=nothing
                )
            assert state.expert is not None
            assert int(state.expert.unanswered) == len(arms)
            ignored += 1
        else:
            state = strategy.absorb(state, asked, torch.tensor(answers, dtype=torch.float64))
            book.answers = Answers(arms, answers, float(t), t)
    assert missed > 1
    assert ignored > 1
    assert strategy.ask(state).mean.isfinite()


def test_never_more_questions_than_there_are_past_points() -> None:
    """However many are wanted; on a box too, where the same point comes again."""
    strategy = sparq_gp_ucb(kernel=KERNEL, noise=NOISE, c_Q=1000.0, steps=0)
    for domain in DOMAINS.values():
        state, seen = strategy.init(domain), set()
        for arm in (3, 7, 3, 7, 12, 3):
            seen.add(arm)
            at = strategy.suggestion_at(state, GRID.X[arm])
            state, _ = strategy.tell(state, at, torch.tensor(0.1, dtype=torch.float64))
            asked = strategy.consult(state)
            assert asked is not None
            assert set(GRID.index_of(asked.X).tolist()) == seen
            assert int(asked.side_queries) == len(seen)


@pytest.mark.parametrize("inference", ["exact", "features"])
@pytest.mark.parametrize("place", [*DOMAINS, "ascent"])
@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_no_trials_at_all(shape: tuple[int, ...], place: str, inference: str) -> None:
    domain = DOMAINS.get(place, Box(CORNERS))
    for steps in (0, 5, "exact"):
        strategy = sparq_gp_ucb(kernel=KERNEL, noise=NOISE, steps=steps, inference=inference)
        state = strategy.init(domain, batch_shape=shape)
        assert strategy.consult(state) is None
        for _ in range(2):
            suggestion = strategy.ask(state)
            assert suggestion.X.shape == (*shape, 2)
            state, info = strategy.tell(state, suggestion, torch.zeros(shape).double())
            asked = strategy.consult(state, generator=[])
            assert asked is not None
            assert asked.X.shape[:-2] == shape
            assert asked.side_queries.shape == shape
            state = strategy.absorb(state, asked, torch.zeros(asked.mask.shape).double())
        assert info.side_queries.shape == shape
        assert strategy.posterior(state, GRID.X).mean.shape == (*shape, 25, 1)
        assert strategy.recommend(state).shape == (*shape, 2)
