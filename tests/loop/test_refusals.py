"""Refusals of a loop, which do not change it."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions import InputDataError
from loop.loops import (
    BOX,
    GRID,
    NOISE,
    STRATEGIES,
    WITH_CONTEXT,
    assert_refused,
    kernel,
    made,
    measured,
)

from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.loop import Loop
from botorch_tv.simulation.panels.record import Panel
from botorch_tv.simulation.worlds.panel import PanelWorld
from botorch_tv.strategies import Float, adaptive_gp_ucb
from botorch_tv.test_functions import WindFarm

nan, inf = float("nan"), float("inf")


@pytest.fixture
def loop():
    """Suggestions 4 and 5 are open, 3 was discarded, the newest time is 2."""
    loop = made(("trigger", "box"), pending=2)
    for t in range(2):
        loop.tell(measured(loop.ask().point, t))
    loop.ask()
    loop.discard()
    loop.ask()
    loop.ask()
    return loop


REFUSED = {
    "too many": (
        lambda loop: loop.ask(),
        "pending is 2, and these suggestions are open: 4 at .* 5 at .*; .* to 3",
    ),
    "which": (lambda loop: loop.tell(1.0), r"open suggestions are: 4 .*; 5 .*; give the number"),
    "answered": (lambda loop: loop.tell(1.0, suggestion=1), "suggestion is 1, .*amend an answer"),
    "discarded": (lambda loop: loop.tell(1.0, suggestion=3), "suggestion is 3, .* open .*observe"),
    "a point": (lambda loop: loop.discard([0.1, 0.2]), r"suggestion is \[0.1, 0.2\].*give the nu"),
    "of another loop": (
        lambda loop: loop.tell(1.0, suggestion=other_loop().open[3]),
        r"suggestion is Suggestion 4: \[.* open suggestions are: 4 at",
    ),
    "NaN": (lambda loop: loop.tell(nan, suggestion=4), "y is nan.*ok=False, or --failed"),
    "infinite": (lambda loop: loop.tell(inf, suggestion=4), "y is inf.*ok=False, or --failed"),
    "ok no": (lambda loop: loop.tell(1.0, suggestion=4, ok="no"), "ok is 'no'; give True or False"),
    "no y": (lambda loop: loop.tell(suggestion=4), "y is None, but it must be one number"),
    "text": (lambda loop: loop.tell("0.3", suggestion=4), "y is '0.3', but it must be one number"),
    "no time": (lambda loop: loop.tell(1.0, suggestion=4, time=nan), "time is nan"),
    "noise": (lambda loop: loop.tell(1.0, suggestion=4, noise=-1.0), "-1.0 as noise variance"),
    "late": (lambda loop: loop.tell(1.0, suggestion=4, time=0.5, noise=-1.0), "-1.0 as noise var"),
    "outside": (lambda loop: loop.observe([0.5, 3.0], 1.0), "X is .*3.0.* lies outside Box"),
    "text point": (lambda loop: loop.observe("here", 1.0), "X is 'here', but a point has 2 c"),
    "several": (lambda loop: loop.observe([[0.5, 0.5]] * 2, 1.0), "one by one, .*table"),
    "no context": (lambda loop: loop.observe([0.5, 0.5], 1.0, context=[1.0]), "takes 0 numbers"),
    "backwards": (
        lambda loop: loop.recommend(now=1.0),
        "now is 1, but the newest measurement was made at 2; .*observe an old measurement",
    ),
}


def other_loop():
    loop = made(("static", "box"), pending=4)
    for _ in range(4):
        loop.ask(now=20.0)
    return loop


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_nothing_changed(name, loop, tmp_path):
    assert_refused(loop, *REFUSED[name], tmp_path)


def test_a_refused_question_uses_no_random_number(tmp_path):
    loop = made(("Thompson", "grid"), pending=3)
    loop.ask()
    loop.tell(1.0, time=5.0)
    message = "now is 4, but the newest measurement was made at 5"
    assert_refused(loop, lambda loop: loop.ask(now=4.0), message, tmp_path)
    assert_refused(loop, lambda loop: loop.ask(now=nan), "now is nan", tmp_path)
    assert loop.ask(now=5.0).time == 5.0


CONTEXTS = {
    "ask": (lambda loop: loop.ask(), r"context is None, but Box.* takes 1 num"),
    "recommend": (lambda loop: loop.recommend(), r"context is None, but Box.* takes 1 num"),
    "observe": (lambda loop: loop.observe([0.1, 0.2], 1.0), "context is None, but Box.* takes 1"),
    "two": (lambda loop: loop.ask(context=[1.0, 2.0]), r"context (is|has)"),
    "rows": (lambda loop: loop.ask(context=torch.ones(1, 3)), r"context (is|has)"),
    "text": (lambda loop: loop.ask(context="rain"), r"context (is|has)"),
    "nan": (lambda loop: loop.ask(context=nan), "is no valid context"),
}


@pytest.mark.parametrize("name", CONTEXTS)
def test_a_missing_or_invalid_context_is_refused(name, tmp_path):
    assert_refused(Loop(STRATEGIES["static"](), WITH_CONTEXT), *CONTEXTS[name], tmp_path)


LINE, NEVER = [(0.0, 1.0)], datetime(9999, 12, 31, 23, tzinfo=ZoneInfo("America/New_York"))
CONSTRUCTOR = {
    "no domain": (lambda: Loop(), r"no domain; .* Loop\({'temperature': \(20, 80\)}\)"),
    "minimize": (lambda: Loop(LINE, minimize=True), "minimize"),
    "down": (
        lambda: Loop(adaptive_gp_ucb(), LINE, maximize=False),
        "pass maximize to the strategy alone",
    ),
    "up": (
        lambda: Loop(adaptive_gp_ucb(maximize=False), LINE, maximize=True),
        "the strategy alone",
    ),
    "context": (lambda: Loop({"(context)": (0.0, 1.0)}), r"'\(context\)', .* another name"),
    "unit": (lambda: Loop(LINE, unit="fortnights"), "unit is 'fortnights'"),
    "no ranges": (lambda: Loop("x"), "domain is 'x', but it must be a Box or a Grid"),
    "year 9999": (lambda: Loop(LINE).ask(now=NEVER), "time is 9999.*year must lie from 2 to 9998"),
    "year 1": (lambda: Loop(LINE).ask(now=datetime(1, 1, 1)), "time is 0001.*year must lie from 2"),
    "NaT": (lambda: Loop(LINE).ask(now=np.datetime64("NaT")), "time is NaT, which is not a time"),
    "zero of a logarithmic scale": (
        lambda: Loop({"x": Float(0.1, 1.0, log=True)}).observe({"x": 0.0}, 1.0),
        "x is 0.0, but .* from 0.1 to 1; a logarithmic scale has positive values only; drop",
    ),
    "a column twice": (
        lambda: Loop.from_table({"x": (0, 1)}, pd.DataFrame([[0, 0, 1]], columns=[*"xxy"])),
        "X has several columns x; give one each",
    ),
    "y twice": (
        lambda: Loop.from_table(LINE, pd.DataFrame([[0, 0, 1]], columns=["x0", "y", "y"])),
        "X has several columns y; give one each",
    ),
    "seed": (lambda: Loop(LINE, seed=2**64), "seed is 1844.*at least 0 and below 2.64"),
    "folder": (lambda: Loop(LINE).save("no/loop.json"), r"no such folder; create it.*no'$"),
}


@pytest.mark.parametrize("name", CONSTRUCTOR)
def test_a_loop_that_cannot_be_made_or_saved(name):
    call, message = CONSTRUCTOR[name]
    errors = (InputDataError, ValueError, TypeError, FileNotFoundError)
    with pytest.raises(errors, match=message):
        call()


def test_times_and_points_of_numpy_and_pandas():
    loop, row = Loop(NAMED, unit="hours"), pd.DataFrame(TABLE["X"], columns=[*"xy"]).iloc[1]
    for time in (np.datetime64("2026-03-01T08"), pd.Timestamp("2026-03-01T09:30")):
        loop.observe(row, 1.0, time=time)
    assert loop.history.time.tolist() == [0.0, 1.5]
    assert loop.history.points[1] == {"x": 0.2, "y": 0.2}


def test_numbers_of_measurements_of_numpy():
    loop = Loop(STRATEGIES["static"](), LINE)
    loop.tell(0.5, suggestion=np.int64(loop.ask().number))
    loop.amend(np.int64(1), 0.25)
    loop.ask()
    loop.discard(torch.tensor(2))
    assert loop.history.y.tolist() == [0.25]
    assert loop.open == []


def test_settings_are_checked_when_they_change():
    loop = made(("static", "grid"))
    with pytest.raises(ValueError, match="pending is"):
        loop.pending = 0
    assert loop.pending == 1
    assert Loop(adaptive_gp_ucb(maximize=False), LINE, maximize=False).describe()


HIDDEN = np.ma.array(-999.0, mask=True)
ROW = np.ma.array([0.5, -999.0], mask=[False, True])
DAYS = np.ma.array(np.array(["2026-03-01", "2026-03-02"], "datetime64[us]"), mask=[False, True])
NAMED = {"x": (0.0, 1.0), "y": (-1.0, 1.0)}
TABLE = {"X": [[0.1, 0.1], [0.2, 0.2]], "y": [1.0, 2.0], "context": [0.5, 0.5]}
COLUMNS = {"y": ROW, "time": ROW, "noise": ROW, "context": ROW}
COLUMNS["X"] = np.ma.array([[0.1, 0.1], [0.2, -999.0]], mask=[[0, 0], [0, 1]])
MASKED = {
    "tell": (lambda loop: loop.tell(np.ma.masked), "y"),
    "tell time": (lambda loop: loop.tell(1.0, time=HIDDEN), "time"),
    "observe": (lambda loop: loop.observe([0.5, 0.5], np.ma.array([0.5], mask=[True])), "y"),
    "observe X": (lambda loop: loop.observe([0.5, np.ma.masked], 1.0), "X"),
    "amend": (lambda loop: loop.amend(-1, HIDDEN), "y"),
    "recommend": (lambda loop: loop.recommend(now=np.ma.masked), "now"),
    "posterior": (lambda loop: loop.posterior([[0.5, HIDDEN]]), "X"),
    "parameter": (lambda loop: Loop(NAMED).observe({"x": HIDDEN, "y": 0.0}, 1.0), ""),
    "context": (lambda loop: Loop(loop.strategy, WITH_CONTEXT).ask(context=HIDDEN), ""),
    "date": (lambda loop: Loop(BOX, unit="hours").ask(now=np.ma.masked), ""),
    "dates": (lambda loop: Loop.from_table(BOX, TABLE["X"], TABLE["y"], time=DAYS), ""),
    "list": (lambda loop: Loop.from_table(BOX, TABLE["X"], [1.0, np.ma.masked]), ""),
    "dicts": (lambda loop: Loop.from_table(NAMED, [{"x": np.ma.masked, "y": 0.0}], [1.0]), ""),
    "good row": (lambda loop: Loop.from_table(BOX, TABLE["X"], ROW, ok=[False, True]), ""),
    "panel": (lambda loop: Panel(np.ma.array([[1.0, -9.0]], mask=[[0, 1]]), ("a", "b")), ""),
    "world": (lambda loop: PanelWorld(np.ma.array(np.eye(9), mask=np.eye(9)), train=4), ""),
    "wind": (lambda loop: WindFarm(ROW, 8.0), ""),
}


@pytest.mark.parametrize("name", MASKED)
def test_masked_numbers_are_refused_and_change_nothing(name, tmp_path):
    loop = Loop(STRATEGIES["static"](), BOX)
    loop.observe([0.2, 0.2], 0.5, time=1.0)
    loop.ask()
    call, argument = MASKED[name]
    assert_refused(loop, call, rf"^{argument}.* is masked, that is, missing; give", tmp_path)


@pytest.mark.parametrize("column", COLUMNS)
def test_masked_rows_of_a_table_are_refused(column):
    table = TABLE | {column: COLUMNS[column]}
    with pytest.raises(InputDataError, match="is masked, that is, missing; give"):
        Loop.from_table(STRATEGIES["static"](), WITH_CONTEXT, **table)


STRATEGY = {
    "y": lambda s, state, at: s.tell(state, at, HIDDEN),
    "time": lambda s, state, at: s.tell(state, at, 1.0, time=HIDDEN),
    "noise": lambda s, state, at: s.tell(state, at, 1.0, noise=HIDDEN),
    "now": lambda s, state, at: s.ask(state, now=HIDDEN),
    "at": lambda s, state, at: s.suggestion_at(state, ROW),
}


@pytest.mark.parametrize("name", STRATEGY)
def test_a_strategy_refuses_masked_numbers(name):
    strategy = STRATEGIES["static"]()
    state = strategy.init(BOX)
    with pytest.raises(InputDataError, match="is masked, that is, missing; give"):
        STRATEGY[name](strategy, state, strategy.ask(state))


def test_masked_truths_are_false():
    loop = Loop(STRATEGIES["static"](), GRID)
    for ok in (np.ma.masked, np.ma.array(True, mask=True)):
        loop.ask()
        loop.tell(np.ma.masked, ok=ok)
    loop.observe(GRID.X[0], HIDDEN, ok=False)
    assert loop.history.y.isnan().all()


def test_masks_that_hide_nothing():
    whole = np.ma.array([0.25, 0.5], mask=False)
    loop = Loop.from_table(
        STRATEGIES["static"](), BOX, np.ma.array([whole, whole]), whole, time=whole
    )
    loop.observe(whole, whole[1], time=whole[1], noise=np.ma.array(0.125))
    assert loop.history.y.tolist() == [0.25, 0.5, 0.5]
    assert loop.history.X.tolist() == [[0.25, 0.5]] * 3


def test_answers_of_an_expert():
    loop = Loop(sparq_gp_ucb(kernel=kernel(), noise=NOISE), BOX)
    loop.observe([0.5, 0.5], 1.0)
    asked = loop.consult()
    masked = np.ma.array(np.ones(len(asked)), mask=np.arange(len(asked)) == 0)
    with pytest.raises(InputDataError, match="y in row 0 is masked"):
        loop.absorb(asked, masked)
    assert loop.absorb(asked, masked, ok=~np.ma.getmaskarray(masked)) == 1
