"""Loops with limits, named outcomes and contexts, as users see them."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_tv import Box, Choice, Context, Float, Integer, Loop, gp_ucb
from botorch_tv.cli import command
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import MultiStart

SPACE = {
    "heat": Float(0, 10, step=0.5),
    "gas": Choice("Ar", "N2"),
    "time": Context(-10, 40),
    "day": Context("mon", "tue"),
}
WORDS = {"objective": "yield", "constraints": ["noise <= 5", "heat <= 9"]}
AGAIN = ["heat", "gas", "time (context)", "day", "time", "ok", "yield", "noise (outcome)"]


def model():
    return gp_ucb(kernel=unit_kernel("se", 0.3), noise=0.01)


@pytest.fixture(scope="module")
def measured():
    """Six measurements: the second lacks an outcome, and the third failed."""
    loop = Loop(model(), SPACE, **WORDS)
    for t, heat in enumerate((1, 2, 3, 4.5, 8, 5)):
        loop.enqueue({"heat": heat, "gas": "Ar"})
        loop.ask()
        y = {"yield": 10.0 - (heat - 4) ** 2, "noise": float(heat)}
        context = {"time": 12.5 + t} | ({"day": "tue"} if t == 1 else {})
        loop.tell(y | {"noise": 1.0} if t != 1 else {"yield": 6.0}, ok=t != 2, context=context)
    return loop


def test_contexts_are_values_by_name_and_the_newest_by_default(measured, tmp_path):
    points = measured.history.points
    assert [point["day"] for point in points] == ["mon", *["tue"] * 5]
    assert points[3] == {"heat": 4.5, "gas": "Ar", "time": 15.5, "day": "tue"}
    given = {"time": 17.5, "day": "tue"}
    newest, same, other = (
        float(measured.posterior({"heat": 4, "gas": "N2"}, context=context).mean)
        for context in (None, given, given | {"day": "mon"})
    )
    assert newest == same != other
    measured.save(tmp_path / "loop.json")
    rows = json.loads((tmp_path / "loop.json").read_text())["answers"]
    assert rows[3]["point"] == points[3]
    assert Loop.load(tmp_path / "loop.json", measured.strategy).history.points == points


def test_a_suggestion_shows_its_context():
    loop = Loop(model(), SPACE, **WORDS)
    assert loop.ask().context == {"time": 15.0, "day": "mon"}  # the middle, and the first
    loop.tell({"yield": 1.0}, context={"time": 90})
    suggestion = loop.ask(context={"time": 3.25, "day": "tue"})
    assert suggestion.context == {"time": 3.25, "day": "tue"}
    assert "at time 2, context time 3.25, day tue; posterior mean" in repr(suggestion)
    assert loop.history.points[0]["time"] == 90


def test_a_table_of_outcomes_and_contexts_begins_another_loop(measured):
    frame = measured.table()
    assert set(AGAIN) <= {*frame.columns}
    assert frame["noise (outcome)"].isna().tolist() == [False, True, True, False, False, False]
    again = Loop.from_table(model(), SPACE, frame[AGAIN], **WORDS)
    pd.testing.assert_frame_equal(again.table()[AGAIN], frame[AGAIN])
    with pytest.raises(InputDataError, match="ok=False"):
        Loop.from_table(model(), SPACE, frame[[name for name in AGAIN if name != "ok"]], **WORDS)


def test_a_space_is_changed_and_all_data_remain(measured, tmp_path):
    measured.enqueue({"heat": 4, "gas": "Ar"})
    measured.ask()
    space = {"heat": Float(2, 12, step=0.5), "gas": Choice("Ar", "N2", "He"), "stir": (0, 5)}
    space |= {name: SPACE[name] for name in ("time", "day")}
    with pytest.warns(UserWarning, match="1 in all, were dropped"):
        wide = measured.with_space(space, had={"stir": 0})
    measured.discard()
    before, after = (loop.table() for loop in (measured, wide))
    assert after["stir"].tolist() == [0.0] * 6
    columns = [name for name in before if name not in ("mean", "sd")]
    pd.testing.assert_frame_equal(after[columns], before[columns])  # heat 1 lies outside
    assert wide.ask()["heat"] <= 9  # the limit on a parameter stays
    wide.save(tmp_path / "wide.json")
    again = Loop.load(tmp_path / "wide.json", wide.strategy)
    pd.testing.assert_frame_equal(again.table(), after)
    narrow = {name: SPACE[name] for name in ("heat", "time", "day")}
    assert list(measured.with_space(narrow).parameters) == ["heat"]  # gas was always Ar
    with pytest.raises(InputDataError, match="named parameters and contexts"):
        Loop(Box(RANGES, context_dim=1)).with_space(RANGES)
    with pytest.raises(InputDataError, match="new parameters stir, but values are given for none"):
        measured.with_space(space)


def test_limits_that_no_setting_keeps_are_named():
    loop = Loop(model(), {"x": (0, 1)}, objective="a", constraints="b <= -5", confidence=0.9)
    for x in (0.1, 0.3, 0.5, 0.7, 0.9, 0.4):
        loop.observe({"x": x}, {"a": x, "b": x * x})
    with pytest.warns(UserWarning, match=r"No setting keeps all limits now with probability 0\.9"):
        loop.recommend()
    assert "b <= -5 (0.00)" in loop.describe()
    assert loop.ask().keeps is not None
    loop.limit("b", 5)
    assert loop.open[0].keeps is loop.open[0].safe is None  # it was chosen for the old bound
    assert Loop(RANGES).ask().safe is True
    assert "b <= 5 (1.00)" in loop.describe()
    assert loop.importance() == {"x": 1.0}


def test_before_predictions_limits_count_by_what_was_measured():
    loop = Loop(RANGES, objective="y", constraints=["p <= 5", "q >= 0"])
    for a, y, p in ((0.9, 9.0, 7.0), (0.3, 3.0, 2.0), (0.6, 6.0, 5.5)):
        loop.observe({"a": a, "b": 0.5}, {"y": y, "p": p})
    assert loop.recommend() == {"a": 0.3, "b": 0.5}
    loop.observe({"a": 0.1, "b": 0.2}, {"y": 1.0, "p": 1.0})
    with pytest.warns(UserWarning, match=r"q >= 0 \(no prediction yet\)"):
        loop.recommend()  # q was never measured
    assert 0 < loop.ask().keeps < 1


def test_points_have_no_contexts_and_formulas_neither():
    loop = Loop(SPACE)
    point = {"heat": 4, "gas": "Ar", "time": 3, "day": "mon"}
    context = {"time": 3, "day": "mon"}
    loop.ask()
    for given in (
        lambda: loop.observe(point, 1.0, context=context),
        lambda: loop.enqueue(point),
        lambda: loop.tell(1.0, at={"time": 3}),
        lambda: loop.posterior(pd.DataFrame([point])),
    ):
        with pytest.raises(InputDataError, match=r"has time(, day)?, a context"):
            given()
    for words, text in (
        ({"objective": "y - time"}, "time is a parameter or context"),
        ({"objective": "y", "constraints": "time <= 3"}, "'time' .* is unknown"),
        ({"objective": "y", "constraints": "y + time <= 3"}, "have outcomes and parameters"),
    ):
        with pytest.raises(ValueError, match=text):
            Loop(SPACE, **words)


def test_undefined_formulas_are_refused():
    loop = Loop(RANGES, objective="y / z")
    loop.ask()
    for y in ({"y": 1.0, "z": 0.0}, {"y": 0.0, "z": 0.0}):
        with pytest.raises(InputDataError, match=r"y / z is (inf|nan) at"):
            loop.tell(y)
    loop.tell({"z": 0.0})  # y is missing


def test_settings_of_numpy_are_saved(tmp_path):
    settings = {"max_step": {"a": np.float32(0.5)}, "move_cost": np.float64(2)}
    for space, more in ((RANGES, settings), ([(0, 1)] * 2, {"max_step": np.array([0.5, 1])})):
        Loop(space, **more).save(tmp_path / "loop.json")
        again = Loop.load(tmp_path / "loop.json")
        assert again._record.max_step in ({"a": 0.5}, [0.5, 1.0])


def test_trade_offs_are_ordered_and_none_is_repeated():
    search = MultiStart(raw_samples=4, restarts=1, evaluations=2)
    loop = Loop(model(), Box({"x": Integer(0, 3)}, search=search), objective="a, -b")
    for x in (0, 1, 2, 3, 1, 2):
        loop.observe({"x": x}, {"a": float(x), "b": float(x * x)})
    xs = [setting.point["x"] for setting in loop.pareto(points=6)]
    assert xs == sorted(set(xs), reverse=True)
    assert "Trade-off: x " in loop.describe()
    assert {setting.keeps for setting in loop.pareto()} == {None}


def test_trade_offs_say_how_surely_they_keep_the_limits():
    loop = Loop(model(), {"x": (0, 1)}, objective="a, -b", constraints="p <= 0.6")
    for x in (0.1, 0.3, 0.5, 0.7, 0.9):
        loop.observe({"x": x}, {"a": x, "b": x * x, "p": x})
    for setting in loop.pareto(now=7):
        X = torch.tensor([setting.point["x"]], dtype=torch.float64)
        made = loop.strategy.suggestion_at(loop.state, X, now=7.0)
        assert setting.keeps == pytest.approx(float(made.keeps.prod()), rel=1e-6)
        assert setting.keeps >= 0.5
        assert f"keeps the limits with probability {setting.keeps:.2f}" in repr(setting)


RANGES = {"a": (0, 1), "b": (0, 1)}


def test_limits_are_kept_more_surely_with_steps_and_in_recommendations():
    words = {"objective": "y", "constraints": "p <= 5"}
    steps = {"max_step": {"a": 0.1}}
    least = [Loop(RANGES, **words, **more).strategy.confidence for more in ({}, steps)]
    assert least == [0.5, 0.9]
    given = Loop(RANGES, **words, **steps, confidence=0.95).strategy
    assert (given.confidence, given.recommended) == (0.95, 0.95)
    assert Loop(RANGES, **words).strategy.recommended == 0.9


HINTS = {
    "outcome limits": (lambda: Loop(RANGES, outcome_constraints=[]), r"constraints=\['pressure <"),
    "parameter limits": (lambda: Loop(RANGES, parameter_constraints=[]), r"'a \+ b <= 1'\]\) sets"),
    "no objective": (lambda: Loop(RANGES, constraints="p <= 5"), "give objective='yield'"),
    "objectives": (lambda: Loop(RANGES, objectives=["y"]), "did you mean objective"),
    "outcomes": (lambda: Loop(RANGES).tell({"y": 1}, suggestion=Loop(RANGES).ask()), "open sug"),
    "context": (lambda: Loop(RANGES).ask(context={"w": 3}), "no context is declared"),
    "fixed": (lambda: Loop(RANGES).ask(fixed_features={"a": 1}), r"ask\(fixed=\{'rate': 0.2\}"),
    "steps": (lambda: Float(0, 1, step_size=0.1), r"step=0.1\) and Integer"),
    "order": (lambda: Choice("a", "b", is_ordered=True), "did you mean ordered"),
    "batch": (lambda: Loop(RANGES).ask(max_trials=4), r"Loop.ask\(n=4\) makes 4"),
    "travel": (lambda: Loop(RANGES, max_travel_distances=[1]), r"max_step=.* limits moves"),
    "space": (lambda: Loop(Box([(0, 1)])).with_space(RANGES), "needs named parameters"),
}


@pytest.mark.parametrize("name", HINTS)
def test_words_of_other_packages_are_answered(name):
    call, message = HINTS[name]
    with pytest.raises((TypeError, ValueError, InputDataError), match=message):
        call()


def test_words_in_the_shell(tmp_path, capsys):
    def call(step, *argv):
        assert command.main(["loop", step, str(tmp_path / "loop.json"), *argv]) == 0
        return capsys.readouterr().out

    words = ["--objective", "yield, -cost", "--constraint", "pressure <= 5", "heat <= 9"]
    words += ["--safe", ".99", "--start", "heat=4", "gas=Ar", "--max-step", "heat=2"]
    call("begin", "heat=0:10:0.5", "gas=Ar,N2", "--context", "out=-10:40", "day=mon,tue", *words)
    asked = json.loads(call("ask", "--context", "out=12.5", "day=tue"))
    assert asked["point"] == {"heat": 4.0, "gas": "Ar"}
    assert asked["context"] == {"out": 12.5, "day": "tue"}
    wrong = ["loop", "tell", str(tmp_path / "loop.json"), "1.5", "yield=81"]
    assert command.main(wrong) != 0
    assert "suggestion is 1.5" in capsys.readouterr().err
    told = call("tell", "1", "yield=81", "pressure=-4.7", "--context", "out=13", "--at", "heat=4.5")
    assert "heat 4.5, gas Ar, out 13, day tue; yield 81, pressure -4.7; time" in told
    assert json.loads(call("ask", "--fixed", "gas=Ar"))["point"]["gas"] == "Ar"
    assert "failed" in call("tell", "--failed")
    said = call("observe", "heat=2", "gas=N2", "out=1", "day=mon", "yield=7", "cost=1")
    assert "yield 7, cost 1" in said
    assert "yield 8, cost 1" in call("amend", "yield=8", "--number", "-1")
    assert json.loads(call("best", "--context", "out=0", "day=mon"))["point"]["heat"] <= 9
    assert {*json.loads(call("pareto").splitlines()[0])} == {"point", "mean", "sd", "keeps"}
    assert json.loads(call("status", "--json"))["failed"] == 1
