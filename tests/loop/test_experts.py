"""Loops with strategies that consult an expert."""

import json
import math
import warnings

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from experts.by_the_book import window_starts
from loop.loops import GRID, NOISE, PLACES, assert_refused, kernel, made, measured, number, tensor
from oracles.dense import squared_exponential

from botorch_tv.experts import Consultation, ExpertWarning, sparq_gp_ucb, w_sparq_gp_ucb
from botorch_tv.loop import Loop
from botorch_tv.loop.log import CAUTION
from botorch_tv.loop.record import MOST_OPEN
from botorch_tv.strategies import gp_ucb, ui_gp_ucb

KINDS = {
    "SparQ": lambda: sparq_gp_ucb(kernel=kernel(), noise=NOISE, B=0.5, steps=9),
    "W-SparQ": lambda: w_sparq_gp_ucb(kernel=kernel(), noise=NOISE, alpha=1.0, B=0.5, steps=9),
}
nan, inf = math.nan, math.inf


def strategy_of(kind):
    return KINDS[kind]()


def loop_of(kind, place="grid", **settings):
    return Loop(strategy_of(kind), PLACES[place], **settings)


def answered(asked):
    """Answers of the expert: the objective with small errors."""
    return [measured(x, asked.time) + 0.01 * math.sin(99 * sum(x)) for x in asked.points]


def replies(t, count):
    """Which points are answered, and the delay in rounds; None for no reply."""
    if t % 7 == 3:
        return None
    if t % 5 == 4:
        return [False] * count, 0
    return [(place + t) % 3 != 0 or t < 4 for place in range(count)], (t % 4 == 2) + (t % 8 == 2)


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore::botorch_tv.experts.ExpertWarning")
@pytest.mark.parametrize("place", ["grid", "candidates", "box"])
@pytest.mark.parametrize("kind", list(KINDS))
def test_same_choices_as_by_hand(kind, place, tmp_path):
    """Experts that answer all, part or nothing, late or never; saved now and then."""
    strategy, domain, file = strategy_of(kind), PLACES[place], tmp_path / "loop.json"
    loop = Loop(strategy, domain, seed=5)
    state, generator = strategy.init(domain), torch.Generator().manual_seed(5)
    late = []
    asked_ever, unanswered, last = 0, 0, 11 if place == "box" else 20
    for t in range(1, last + 1):
        expected, actual = strategy.ask(state, generator=generator), loop.ask()
        assert torch.equal(actual.X, expected.X)
        assert (actual.mean, actual.sd) == (float(expected.mean), float(expected.sd))
        ok, y = t != last, measured(actual.point, t)
        if not ok:
            assert loop.recommend() == strategy.recommend(state, caution=CAUTION).tolist()
        state, _ = strategy.tell(state, expected, number(y), ok=torch.tensor(ok))
        loop.tell(y, ok=ok)
        asked, ours = strategy.consult(state, generator=generator), loop.consult()
        assert (asked is None) == (ours is None)
        if asked is not None and ours is not None:
            assert torch.equal(ours.X, asked.X)
            assert (ours.time, len(ours)) == (float(t), int(asked.side_queries))
            asked_ever += 1
            again = loop.consult()  # no other points are drawn
            assert (again.number, again.points) == (ours.number, ours.points)
            reply = replies(t, len(ours))
            late += [] if reply is None else [(t + reply[1], ours, asked, reply[0])]
        if t % 4 == 0:
            loop.save(file)
            loop = Loop.load(file, strategy)
        newest = 0 if state.expert is None else state.expert.round
        for item in [entry for entry in late if entry[0] <= t]:
            late.remove(item)
            _, numbered, consultation, good = item
            if consultation.round <= newest:
                with pytest.raises(InputDataError, match="is not open"):
                    loop.absorb(numbered, answered(numbered))
                continue
            values = [y if counts else nan for y, counts in zip(answered(numbered), good)]
            state = strategy.absorb(state, consultation, tensor(*values), ok=torch.tensor(good))
            missing = loop.absorb(numbered if t % 2 else numbered.number, values, ok=good)
            assert missing == good.count(False)
            unanswered += missing
            newest = consultation.round
    assert asked_ever == (t if kind == "SparQ" else len(window_starts(t, 1.0, 0.25)))
    assert unanswered > 5
    X = GRID.X[:3] if place == "grid" else tensor(0.2, 0.4, 0.6, -0.8).view(2, 2)
    ours, theirs = loop.posterior(X, now=40.0), strategy.posterior(state, X, now=40.0)
    assert torch.equal(ours.mean, theirs.mean)
    assert torch.equal(ours.variance, theirs.variance)


def observed(order, consult_after, kind="W-SparQ"):
    """Measurements at times 1, 2, ...; an expert asked once so many of them have been count."""
    loop = loop_of(kind)
    for count, t in enumerate(order, 1):
        loop.observe(GRID.X[5 * t], measured(GRID.X[5 * t].tolist(), t), time=t)
        if count == consult_after:
            asked = loop.consult()
            assert asked.time == max(order[:count])
            loop.absorb(asked, answered(asked))
    return loop


@pytest.mark.parametrize("late", [[1, 3, 5, 2, 4, 6], [1, 3, 5, 6, 4, 2], [3, 5, 1, 6, 2, 4]])
def test_replies_replace_older_late_answers(late):
    loop = observed(late, 3)
    strategy, state = loop.strategy, loop.strategy.init(GRID)
    assert loop.history.time.tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]
    for t in range(1, 7):
        at = strategy.suggestion_at(state, GRID.X[5 * t], now=float(t))
        state, _ = strategy.tell(state, at, number(measured(GRID.X[5 * t].tolist(), t)))
    answers = loop.state.expert
    arms = answers.choice
    asked = Consultation(
        GRID.X[arms], arms, torch.ones(2, dtype=torch.bool), number(5.0), round=5, limit=2
    )
    assert set(arms.tolist()) < {5 * t for t in late[:3]}
    state = strategy.absorb(state, asked, answers.y)
    ours, theirs = loop.posterior(GRID.X), strategy.posterior(state, GRID.X)
    assert torch.equal(ours.mean, theirs.mean)
    assert torch.equal(ours.variance, theirs.variance)
    assert state.expert.round == 5
    assert loop.state.expert.round == 5


def test_an_answer_of_the_time_of_a_question_stays_if_it_arrives_later():
    loop, without = (observed([1, 2, 3], 3) for _ in range(2))
    loop.observe(GRID.X[7], 2.0, time=3)
    assert not torch.equal(loop.posterior(GRID.X).mean, without.posterior(GRID.X).mean)
    loop.observe(GRID.X[8], 1.0, time=2.5)  # replaced by the reply
    assert loop.state.expert.round == 4
    alone = observed([1, 2, 3], 3)
    alone.observe(GRID.X[7], 2.0, time=3)
    assert torch.equal(loop.posterior(GRID.X).mean, alone.posterior(GRID.X).mean)


def test_late_answers_count_for_the_schedule_on_arrival():
    loop = loop_of("W-SparQ")
    for count, time in enumerate([1.0, 5.0, 3.0, 6.0, 7.0], 1):
        loop.observe(GRID.X[count], 0.1 * count, time=time)
        asked = loop.consult()
        assert (asked is not None) == (count in (1, 3, 5))
        if asked is not None:
            assert asked.time == (1.0, 5.0, 7.0)[count // 2]
            loop.absorb(asked, answered(asked))
            assert loop.consult() is None  # answered


@pytest.mark.filterwarnings("error")
def test_nothing_new_is_no_reason_to_ask_again():
    """A late answer moves the consultation with it, open or answered."""
    loop = loop_of("SparQ")
    for t in (1, 2, 5):
        loop.observe(GRID.X[t], 0.1 * t, time=t)
    asked = loop.consult()
    loop.observe(GRID.X[9], 0.3, time=3.0)
    again = loop.consult()
    assert (again.number, again.points, again.time) == (1, asked.points, 5.0)
    loop.absorb(asked, answered(asked))
    loop.observe(GRID.X[10], 0.3, time=4.0)
    assert loop.consult() is None
    loop.ask()
    loop.observe(GRID.X[10], 0.3, time=6.0)
    newest = loop.consult()
    assert (newest.number, newest.time) == (2, 6.0)


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_initial_table_is_learned_without_a_consultation(kind):
    X, y = GRID.X[:20], [measured(point, t) for t, point in enumerate(GRID.X[:20].tolist(), 1)]
    rows = 20 if kind == "SparQ" else 17  # a window starts after round 17
    loop = Loop.from_table(strategy_of(kind), GRID, X[:rows], y[:rows])
    assert loop.state.expert is None
    asked = loop.consult()
    assert (asked.number, asked.time) == (1, float(rows))
    assert len(asked) == math.ceil(math.log(rows + 1) ** 2)
    loop.absorb(asked, answered(asked))
    # The answers alone, and no row of the table.
    K = squared_exponential(np.vstack([asked.X.numpy(), GRID.X.numpy()]), 0.3)
    Q = len(asked)
    mean = K[Q:, :Q] @ np.linalg.solve(K[:Q, :Q] + NOISE * np.eye(Q), answered(asked))
    np.testing.assert_allclose(loop.posterior(GRID.X).mean[:, 0], mean, atol=1e-9)


@pytest.mark.parametrize("kind", list(KINDS))
def test_an_expert_that_never_answers_is_reported_and_ignored(kind, tmp_path):
    strategy = strategy_of(kind)
    plain = (
        gp_ucb(kernel=kernel(), noise=NOISE, width=strategy.width)
        if kind == "SparQ"
        else ui_gp_ucb(kernel=kernel(), noise=NOISE, alpha=1.0, width=strategy.width)
    )
    loop, other, asked = Loop(strategy, GRID), Loop(plain, GRID), None
    for t in range(1, 20):
        due = t > 1 and strategy.refresh.due(t - 1)
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            suggestion = loop.ask()
        assert [warning.category for warning in seen] == [ExpertWarning] * due
        if due:
            assert seen[0].filename == __file__
            assert f"after round {t - 1}, but no answers" in str(seen[0].message)
        assert suggestion.point == other.ask().point
        y = measured(suggestion.point, t)
        loop.tell(y)
        other.tell(y)
        asked = loop.consult()
    if kind == "SparQ":
        with pytest.raises(InputDataError, match=r"3 is not open; open consultations: \[4"):
            loop.absorb(3, [0.0])
        loop.save(tmp_path / "loop.json")
        waiting = json.loads((tmp_path / "loop.json").read_text())["consultations"]
        assert [row["number"] for row in waiting] == list(range(20 - MOST_OPEN, 20))
        assert repr(Loop.load(tmp_path / "loop.json", strategy)) == repr(loop)
        loop.absorb(19, answered(asked))  # back at last
        assert "open consultations" not in repr(loop)


@pytest.mark.filterwarnings("error")
def test_an_expert_without_any_answer():
    loop = loop_of("SparQ")
    for t in (1, 2, 3):
        loop.observe(GRID.X[t], 0.1 * t)
    before = loop.posterior(GRID.X).mean
    asked = loop.consult()
    message = "answered no point of consultation 1; the loop continues"
    with pytest.warns(ExpertWarning, match=message):
        assert loop.absorb(asked, ok=False) == 2
    torch.testing.assert_close(loop.posterior(GRID.X).mean, before, atol=1e-12, rtol=0.0)
    assert loop.consult() is None
    loop.ask()  # it has been answered already


@pytest.mark.filterwarnings("error")
def test_fantasies_warn_of_no_missing_expert():
    loop = loop_of("W-SparQ", pending=4)
    for t in (1, 2):
        loop.observe(GRID.X[t], 0.1 * t)
        if t == 1:
            asked = loop.consult()
            loop.absorb(asked, answered(asked))
    for _ in range(4):
        loop.ask()
    loop.tell(0.5, suggestion=1)
    with pytest.warns(
        ExpertWarning, match="after round 3, but no answers .* since round 1"
    ) as seen:
        loop.ask()
    assert seen[0].filename == __file__


def asking():
    """Consultation 1 is absorbed, 2 is overtaken by 3, and 4 and 5 are open."""
    loop = loop_of("SparQ")
    for t in range(1, 6):
        loop.observe(GRID.X[3 * t], 0.1 * t)
        asked = loop.consult()
        if t in (1, 3):
            loop.absorb(asked, answered(asked))
    return loop


REFUSED = {
    "absorbed": (lambda loop: loop.absorb(1, [0.0]), "consultation 1 is not open"),
    "overtaken": (lambda loop: loop.absorb(2, [0.0, 0.0]), r"2 is not open; .*\[4, 5\]. Absorb"),
    "too few": (lambda loop: loop.absorb(5, [0.1, 0.2]), "y has 2 rows, but there are 4 points"),
    "NaN": (lambda loop: loop.absorb(5, [0.1, 0.2, nan, 0.4]), "y in row 2 is nan, .* ok=False"),
    "gap": (lambda loop: loop.absorb(5, [0.1, None, 0.3, 0.4]), "y in row 1 is None, but it must"),
    "infinite": (
        lambda loop: loop.absorb(5, [0.1, -inf, nan, 0.4], ok=[True, True, False, True]),
        "y in row 1 is -inf",
    ),
    "no expert": (
        lambda loop: made(("Markov", "box")).absorb(1, [0.3]),
        r"1 is not open; open consultations: \[\]",
    ),
    "ok in numbers": (lambda loop: loop.absorb(5, [0.1] * 4, ok=[1, 2, 0, 1]), "ok is 2; give"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_nothing_changed(name, tmp_path):
    assert_refused(asking(), *REFUSED[name], tmp_path)
