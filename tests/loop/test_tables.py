"""What a loop measured goes into another, failures included."""

import inspect
import io
from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions import InputDataError
from loop.loops import BOX, FEW, GRID, STRATEGIES, WITH_CONTEXT, fired, measured

from botorch_tv.loop import Loop
from botorch_tv.strategies import Box, Choice, Float, adaptive_gp_ucb

START = datetime(2026, 3, 1, 8, tzinfo=UTC)
MACHINE = {"ok": (20.0, 80.0), "rate": Float(1e-4, 1.0, log=True), "metal": Choice("tin", "zinc")}


def filled(loop, given, noise):
    """Suggestions and others, some of them failures, late, or with a noise of their own."""
    for t in range(9):
        suggestion = loop.ask(
            now=given(t)["time"], **{k: v for k, v in given(t).items() if k != "time"}
        )
        loop.tell(measured([0.1 * t, 0.5], t), noise=noise if t == 2 else None, ok=t not in (3, 7))
        if t == 5:
            for early, ok in ((1, False), (2, True)):
                when = given(early)["time"] + (given(1)["time"] - given(0)["time"]) / 4
                loop.observe(suggestion.point, 0.125, **{**given(t), "time": when}, ok=ok)
    return loop


PLAIN = {
    "grid": (STRATEGIES["trigger"], GRID),
    "box": (STRATEGIES["window"], BOX),
    "context": (STRATEGIES["Markov"], WITH_CONTEXT),
    "adaptive": (FEW["adaptive"], GRID),
}


def at(t):
    return {"time": float(t + 1)}


def in_context(t):
    return {"time": float(t + 1), "context": [0.1 * t]}


def dated(t):
    return {"time": START + timedelta(hours=t)}


def require_same(loop, by_hand, now, context):
    for ours, theirs in zip(loop.history[1:7], by_hand.history[1:7]):
        assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())
    assert list(loop.history.times) == list(by_hand.history.times)
    for _ in range(2):
        actual, expected = loop.ask(now=now, context=context), by_hand.ask(now=now, context=context)
        assert actual.point == expected.point
        for item, suggestion in ((loop, actual), (by_hand, expected)):
            item.tell(0.75, suggestion=suggestion)
        assert fired(loop) == fired(by_hand)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", PLAIN)
def test_a_loop_begins_with_the_table_of_another(name):
    make, domain = PLAIN[name]
    given = in_context if name == "context" else at
    loop = filled(Loop(make(), domain), given, None if name == "adaptive" else 0.05)
    frame = loop.table()
    assert (~frame["ok"]).sum() == 3
    text = io.StringIO(frame.to_csv(index=False))
    rows, of_strategy = loop.history, name == "adaptive"
    for table in (frame, pd.read_csv(text, float_precision="round_trip"), frame.iloc[::-1]):
        begun = Loop.from_table(make(), domain, table)
        assert begun.history.number.tolist() == [-row - 1 for row in range(len(rows.y))]
        by_hand = Loop(make(), domain)
        for row in range(len(rows.y)):
            own = of_strategy or rows.y[row].isnan()
            by_hand.observe(
                rows.X[row],
                rows.y[row],
                ok=not rows.y[row].isnan(),
                time=rows.times[row],
                noise=None if own else float(rows.noise[row]),
                context=rows.context[row] if name == "context" else None,
            )
        require_same(begun, by_hand, 12.0, [0.5] if name == "context" else None)


def test_names_choices_and_dates():
    """A parameter may be called as a column is."""
    loop = filled(Loop(FEW["adaptive"](), MACHINE), dated, None)
    frame = loop.table()
    assert "ok (parameter)" in frame.columns
    begun, by_hand = (
        Loop.from_table(FEW["adaptive"](), MACHINE, frame),
        Loop(FEW["adaptive"](), MACHINE),
    )
    rows = zip(frame["ok (parameter)"], frame["rate"], frame["metal"], frame["time"], frame["y"])
    for heat, rate, metal, time, y in rows:
        point = {"ok": heat, "rate": rate, "metal": metal}
        by_hand.observe(point, y, ok=not np.isnan(y), time=time)
    assert (
        begun.table()
        .drop(columns=["number", "mean", "sd"])
        .equals(frame.drop(columns=["number", "mean", "sd"]))
    )


X, Y = [[0.2, 0.5], [0.4, -0.5], [0.6, 0.0]], [1.0, float("nan"), 2.0]


OK, HIDDEN = [True, False, True], [False, True, False]
OKS = {
    "list": OK,
    "torch": torch.tensor(OK),
    "pandas": pd.Series(OK),
    "numbers": np.array([1, 0, 1]),
}
OKS["masked"] = np.ma.array([True, True, True], mask=HIDDEN)
YS = {"list": Y, "torch": torch.tensor(Y), "pandas": pd.Series(Y), "None": [1.0, None, 2.0]}
YS["column"] = np.array([[1.0], [-999.0], [2.0]])
YS["masked"] = np.ma.array([1.0, -999.0, 2.0], mask=HIDDEN)


@pytest.mark.parametrize("ok", OKS)
@pytest.mark.parametrize("y", YS)
def test_rows_that_failed(y, ok):
    loop = Loop.from_table(STRATEGIES["static"](), BOX, X, YS[y], ok=OKS[ok])
    assert loop.table()["y"].fillna(99).tolist() == [1.0, 99, 2.0]
    assert loop.table()["ok"].tolist() == OK


def test_a_failed_observation():
    first, other = (Loop(STRATEGIES["static"](), BOX) for _ in range(2))
    first.observe(X[0], ok=False)
    other.observe(X[0], float("nan"), ok=False)
    assert first.history.y.isnan().all()
    assert first.ask().point == other.ask().point
    with pytest.raises(InputDataError, match=r"y is None, .* ok=False"):
        first.observe(X[1])


FRAME = pd.DataFrame({"x0": [0.1], "x1": [0.2], "y": [1.0], "ok": [True], "noise": [0.1]})
NAN, INF = float("nan"), float("inf")
LINE = {"t": (0.0, 1.0)}
SORTED = pd.Series([0.3, 0.1, 0.2]).sort_values()  # has the labels of other rows
NAMED = pd.DataFrame({"t": [0.2, 0.4, 0.6]})


def columns(**changes):
    return lambda s: Loop.from_table(s, BOX, **{"X": X, "y": [1.0, 2.0, 3.0]} | changes)


def points(X):
    return lambda s: Loop.from_table(Box([(0.0, 1.0)]), X, [1.0, 2.0])


def line(*table, **named):
    return lambda s: Loop.from_table(LINE, *table, **named)


REFUSED = {
    "ok": (columns(y=Y), r"(?s)y is nan, .* ok=False.*In row 1 of the table"),
    "one": (columns(y=Y, ok=False), "ok has 1 row, but there are 3"),
    "short": (columns(y=[1.0, 2.0]), "y has 2 rows, but there are 3 points"),
    "wide": (columns(y=[[1.0, 2.0, 3.0]] * 2), "y has 2 rows"),
    "time": (columns(time=[1.0, 2.0, INF]), "time in row 2 is inf"),
    "noise": (columns(noise=[1.0, -1.0, 1.0]), "-1.0 as noise variance"),
    "outside": (columns(X=[[0.1, 0.2], [0.3, 4.0], [0.1, 0.1]]), "lies outside Box"),
    "coordinates": (columns(X=[[0.1, 0.2, 0.3]] * 3), "a point has 2 coordinates"),
    "context": (columns(context=[1.0, 2.0, 3.0]), "takes 0 numbers"),
    "lacks": (lambda s: Loop.from_table(s, BOX, FRAME[["x0", "y"]]), "missing columns: x1"),
    "both": (lambda s: Loop.from_table(s, BOX, FRAME, ok=[True]), "X alone, .*given: X, ok;"),
    "gap": (lambda s: Loop.from_table(s, BOX, FRAME.assign(y=NAN)), r"(?s)y is nan.*In row 0"),
    "order": (lambda s: Loop.from_table(BOX, s, X, Y), "in this order, or by name"),
    "many": (lambda s: Loop.from_table(s, BOX, X, Y, [1, 2, 3]), "arguments are .*list, but it "),
    "two": (lambda s: Loop.from_table(s, BOX, X, Y, strategy=s), "arguments are .*, but it takes"),
    "truths": (points([[True], [False]]), "a point has 1 coordinate"),
    "complex": (points(np.array([[1 + 2j], [0.5]])), "a point has 1 coordinate"),
    "texts": (points([["0.5"], ["0.2"]]), "a point has 1 coordinate"),
    "capitals": (line(pd.DataFrame({"t": [0.2], "y": [1.0], "OK": [1.0]})), "has a column OK; wr"),
    "Time": (line(pd.DataFrame({"t": [0.2], "y": [1.0], "Time": [1.0]})), "has a column Time; wr"),
    "twins": (line(pd.DataFrame([[0.2, 0.9]], columns=["t", "t"]), [1.0]), "two columns of the"),
    "labels of y": (line(NAMED, SORTED), r"y\.loc\[X\.index\], or y\.to_numpy"),
    "of time": (line(NAMED, [1, 2, 3], time=SORTED), r"time\.loc\[X\.index\], or time\.to_nu"),
    "of noise": (line(NAMED, [1, 2, 3], noise=SORTED), r"noise\.loc\[X\.index\], or noise\.to_"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, message = REFUSED[name]
    with pytest.raises((InputDataError, ValueError), match=message):
        call(STRATEGIES["static"]())


def test_a_series_in_another_order_is_paired_by_hand():
    for right in (SORTED.sort_index(), SORTED.loc[NAMED.index], SORTED.sort_index().to_numpy()):
        assert Loop.from_table(LINE, NAMED, right).table()["y"].tolist() == [0.3, 0.1, 0.2]


def test_arguments_by_name_and_by_place():
    s, y = STRATEGIES["Markov"](), [1.0, 2.0, 3.0]
    loops = [Loop(s, BOX), Loop(BOX, strategy=s), Loop(s, domain=BOX), Loop(strategy=s, domain=BOX)]
    assert all(loop.strategy is s and loop.domain is BOX for loop in loops)
    tables = [
        Loop.from_table(s, BOX, X, y),
        Loop.from_table(BOX, X, y, strategy=s),
        Loop.from_table(s, BOX, X=X, y=y),
        Loop.from_table(strategy=s, domain=BOX, X=X, y=y),
        Loop.from_table(BOX, X, y=y, strategy=s),
    ]
    for loop in tables:
        assert loop.strategy is s
        assert repr(loop.history) == repr(tables[0].history)
    assert type(Loop.from_table(BOX, X, y).strategy) is type(adaptive_gp_ucb())


def test_a_table_has_all_arguments_of_a_loop_and_passes_them_on():
    arguments = inspect.signature(Loop).parameters.values()
    arguments = [argument for argument in arguments if argument.kind is argument.KEYWORD_ONLY]
    own = inspect.signature(Loop.from_table).parameters
    assert [own[argument.name] for argument in arguments] == arguments
    given = {argument.name: object() for argument in arguments} | {"strategy": adaptive_gp_ucb()}

    class Taken(Loop):
        def __init__(self, **passed):
            raise KeyError(passed == given)

    with pytest.raises(KeyError, match="True"):
        Taken.from_table(**given, X=[[0.5]], y=[1.0])
