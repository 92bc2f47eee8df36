"""Refusals of a loop, which do not change it."""

import numpy as np
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


def content(loop, folder):
    loop.save(folder / "loop.json")
    return (folder / "loop.json").read_text()


REFUSED = {
    "too many": (lambda loop: loop.ask(), "pending is 2, and open are 4 at .* 5 at .*; .* to 3"),
    "which": (lambda loop: loop.tell(1.0), r"open are: 4 .*; 5 .*; give the number"),
    "answered": (lambda loop: loop.tell(1.0, suggestion=1), "suggestion is 1, .*amend an answer"),
    "discarded": (lambda loop: loop.tell(1.0, suggestion=3), "suggestion is 3, .* open .*observe"),
    "a point": (lambda loop: loop.discard([0.1, 0.2]), r"suggestion is \[0.1, 0.2\].*give the nu"),
    "of another loop": (
        lambda loop: loop.tell(1.0, suggestion=other_loop().open[3]),
        r"suggestion is Suggestion 4: \[.* open are: 4 at",
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
    "several": (lambda loop: loop.observe([[0.5, 0.5]] * 2, 1.0), "each of several points .*table"),
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


def test_time_runs_forward_for_questions(tmp_path):
    loop = made(("Thompson", "grid"), pending=3)
    loop.ask()
    loop.tell(1.0, time=5.0)
    before = content(loop, tmp_path)
    with pytest.raises(InputDataError, match="now is 4, but the newest measurement was made at 5"):
        loop.ask(now=4.0)
    with pytest.raises(InputDataError, match="now is nan"):
        loop.ask(now=nan)
    assert content(loop, tmp_path) == before  # no random number is used up
    assert loop.ask(now=5.0).time == 5.0


def test_a_missing_or_invalid_context_is_refused(tmp_path):
    loop = Loop(STRATEGIES["static"](), WITH_CONTEXT)
    before = content(loop, tmp_path)
    for call in (loop.ask, loop.recommend, lambda: loop.observe([0.1, 0.2], 1.0)):
        with pytest.raises(InputDataError, match=r"context is None, but Box.* takes 1 num"):
            call()
    for context in ([1.0, 2.0], torch.ones(1, 3), "rain"):
        with pytest.raises(InputDataError, match=r"context (is|has)"):
            loop.ask(context=context)
    with pytest.raises(InputDataError, match="is no valid context"):
        loop.ask(context=nan)
    assert content(loop, tmp_path) == before


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("y", [1.0, nan, 2.0], "(?s)y is nan, .*In row 1 of the table"),
        ("y", [1.0, 2.0], "y has 2 rows, but there are 3 points"),
        ("y", [[1.0, 2.0, 3.0]] * 2, "y has 2 rows"),
        ("time", [1.0, 2.0, inf], "time in row 2 is inf"),
        ("noise", [1.0, -1.0, 1.0], "-1.0 as noise variance"),
        ("X", [[0.1, 0.2], [0.3, 4.0], [0.1, 0.1]], "lies outside Box"),
        ("X", [[0.1, 0.2, 0.3]] * 3, "a point has 2 coordinates"),
        ("context", [1.0, 2.0, 3.0], "takes 0 numbers"),
    ],
)
def test_tables_that_do_not_fit(column, value, message):
    table = {"X": [[0.1, 0.2]] * 3, "y": [1.0, 2.0, 3.0]} | {column: value}
    with pytest.raises(InputDataError, match=message):
        Loop.from_table(STRATEGIES["static"](), BOX, **table)


@pytest.mark.parametrize("pending", [0, -1, 1.5, "2"])
def test_pending_is_a_number_of_suggestions(pending):
    with pytest.raises(ValueError, match=r"pending is .* must be an integer of at least 1"):
        made(("static", "grid"), pending=pending)
    loop = made(("static", "grid"))
    with pytest.raises(ValueError, match="pending is"):
        loop.pending = pending
    assert loop.pending == 1


HIDDEN = np.ma.array(-999.0, mask=True)
ROW = np.ma.array([0.5, -999.0], mask=[False, True])
VALUES = {"constant": np.ma.masked, "hidden": HIDDEN, "array": np.ma.array([0.5], mask=[True])}
NAMED = {"x": (0.0, 1.0), "y": (-1.0, 1.0)}

LOOP = {
    "tell": (lambda loop, item: loop.tell(item), "y"),
    "tell time": (lambda loop, item: loop.tell(1.0, time=item), "time"),
    "observe": (lambda loop, item: loop.observe([0.5, 0.5], item), "y"),
    "observe X": (lambda loop, item: loop.observe([0.5, item], 1.0), "X"),
    "amend": (lambda loop, item: loop.amend(-1, item), "y"),
    "recommend": (lambda loop, item: loop.recommend(now=item), "now"),
    "posterior": (lambda loop, item: loop.posterior([[0.5, item]]), "X"),
}


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("name", LOOP)
def test_a_loop_refuses_them_and_is_as_it_was(name, value, tmp_path):
    loop = Loop(STRATEGIES["static"](), BOX)
    loop.observe([0.2, 0.2], 0.5, time=1.0)
    loop.ask()
    call, argument = LOOP[name]
    message = rf"^{argument}.* is masked, .* ok=False for"
    assert_refused(loop, lambda loop: call(loop, VALUES[value]), message, tmp_path)


OTHERS = {
    "a parameter": lambda: Loop(NAMED).observe({"x": HIDDEN, "y": 0.0}, 1.0),
    "a context": lambda: Loop(STRATEGIES["static"](), WITH_CONTEXT).ask(context=HIDDEN),
    "a date": lambda: Loop(BOX, unit="hours").ask(now=np.ma.masked),
}
TABLE = {"X": [[0.1, 0.1], [0.2, 0.2]], "y": [1.0, 2.0]}
DAYS = np.ma.array(np.array(["2026-03-01", "2026-03-02"], "datetime64[us]"), mask=[False, True])
for column, entries in {
    "y": ROW,
    "time": ROW,
    "noise": ROW,
    "X": np.ma.array([[0.1, 0.1], [0.2, -999.0]], mask=[[0, 0], [0, 1]]),
    "context": ROW,
}.items():
    OTHERS[f"column {column}"] = lambda column=column, entries=entries: Loop.from_table(
        STRATEGIES["static"](), WITH_CONTEXT, **{"context": [0.5, 0.5], **TABLE, column: entries}
    )
OTHERS |= {
    "column of dates": lambda: Loop.from_table(BOX, **TABLE, time=DAYS),
    "list": lambda: Loop.from_table(BOX, TABLE["X"], [1.0, np.ma.masked]),
    "rows of dicts": lambda: Loop.from_table(NAMED, [{"x": np.ma.masked, "y": 0.0}], [1.0]),
    "good row": lambda: Loop.from_table(BOX, TABLE["X"], ROW, ok=[False, True]),
    "panel": lambda: Panel(np.ma.array([[1.0, -999.0]], mask=[[0, 1]]), ("a", "b")),
    "world": lambda: PanelWorld(np.ma.array(np.eye(9), mask=np.eye(9)), train=4),
    "wind": lambda: WindFarm(ROW, 8.0),
}


@pytest.mark.parametrize("name", OTHERS)
def test_refused(name):
    with pytest.raises(InputDataError, match="is masked, that is, missing; give"):
        OTHERS[name]()


STRATEGY = {
    "y": lambda s, state, at: s.tell(state, at, HIDDEN),
    "time": lambda s, state, at: s.tell(state, at, 1.0, time=HIDDEN),
    "noise": lambda s, state, at: s.tell(state, at, 1.0, noise=HIDDEN),
    "now": lambda s, state, at: s.ask(state, now=HIDDEN),
    "at": lambda s, state, at: s.suggestion_at(state, ROW),
}


@pytest.mark.parametrize("name", STRATEGY)
def test_a_strategy_refuses_them(name):
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
