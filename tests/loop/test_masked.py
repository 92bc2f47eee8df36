"""Values that NumPy masks are missing; argument lies under the mask is never taken for them."""

import numpy as np
import pytest
from botorch.exceptions import InputDataError
from loop.loops import BOX, GRID, NOISE, STRATEGIES, WITH_CONTEXT, kernel

from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.loop import Loop
from botorch_tv.simulation.panels.record import Panel
from botorch_tv.simulation.worlds.panel import PanelWorld
from botorch_tv.test_functions import WindFarm

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
    loop.save(tmp_path / "before")
    call, argument = LOOP[name]
    with pytest.raises(InputDataError, match=rf"^{argument}.* is masked, .* ok=False for"):
        call(loop, VALUES[value])
    loop.save(tmp_path / "after")
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()


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
