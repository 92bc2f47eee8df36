"""The generator of gest-api chooses as a loop does, in whatever order and form points return."""

import copy
import math
from datetime import UTC, datetime, timedelta

import pandas as pd
import pytest
from botorch.exceptions import InputDataError

pytest.importorskip("gest_api")
from gest_api.vocs import VOCS, ContextualVariable, ContinuousVariable

from botorch_tv import Choice, Context, Integer, Loop, gp_ucb
from botorch_tv.gest import AdaptiveGenerator
from botorch_tv.simulation.rivals import unit_kernel

X = {"variables": {"x": [-1.0, 3.0]}, "objectives": {"f": "MINIMIZE"}}
ARRAY = {"type": "ContinuousVariable", "domain": [0, 1], "dtype": (float, (2,))}


def model():
    return gp_ucb(kernel=unit_kernel("se", 0.3), noise=0.01)


def made(changed=(), **arguments):
    vocs = VOCS(**(X | dict(changed)))
    return AdaptiveGenerator(vocs, **({"time": "rounds", "strategy": model()} | arguments))


def measured(point):
    return point | {"f": (point["x"] - 1) ** 2}


def test_vocs_become_the_words_of_a_loop():
    vocs = VOCS(
        variables={
            "heat": [0.5, 9],
            "n": ContinuousVariable(domain=[0.5, 4], dtype="int"),
            "size": {10, 1, 2.5},
            "gas": {"N2", "Ar"},
            "only": {7},
            "out": ContextualVariable(domain=[-10, 40]),
        },
        objectives={"flow rate": "MAXIMIZE", "cost": "MINIMIZE"},
        constraints={"p": ["LESS_THAN", -5e-7], "q": ["GREATER_THAN", 2], "r:1": ["BOUNDS", -1, 1]},
        constants={"a": 0.5},
        observables=["seen", "other"],
    )
    generator = AdaptiveGenerator(vocs, constraints=["seen <= 3", "heat + n <= 9"], confidence=0.8)
    space = {
        "heat": (0.5, 9),
        "n": Integer(1, 4),
        "size": Choice(1, 2.5, 10, ordered=True),
        "gas": Choice("Ar", "N2"),
        "out": Context(-10, 40),
    }
    limits = ["p <= -5e-7", "q >= 2", "-1 <= `r:1` <= 1", "seen <= 3", "heat + n <= 9"]
    loop = Loop(space, objective=["`flow rate`", "-cost"], constraints=limits, confidence=0.8)
    assert repr(generator.loop.parameters) == repr(loop.parameters)
    assert generator.loop.parameters.limits == loop.parameters.limits
    assert generator.loop.strategy == loop.strategy
    chosen = {name: value for name, value in loop.ask().point.items() if name != "out"}
    first, second = generator.suggest(2)
    assert first == chosen | {"a": 0.5, "only": 7, "_id": 1}
    assert second["_id"] == 2


@pytest.mark.parametrize(
    ("changed", "arguments", "match"),
    [
        ({"variables": {}}, {}, "at least one variable"),
        ({"objectives": {}}, {}, "at least one objective"),
        ({"objectives": {"f": "EXPLORE"}}, {}, "EXPLORE.*MAXIMIZE"),
        ({"variables": {"x": ARRAY}}, {}, "x is an array"),
        ({}, {"unit": "days"}, "rounds have no unit"),
        ({}, {"constraints": "x + f <= 1"}, "outcomes and parameters"),
    ],
)
def test_other_problems_are_refused(changed, arguments, match):
    with pytest.raises(ValueError, match=match):
        made(changed, **arguments)


def test_points_return_in_any_order_with_or_without_their_id():
    generator, loop = made(strategy=None), Loop({"x": (-1.0, 3.0)}, objective="-f")
    own = {"x": 0.5, "f": 9.0, "seen": 3}
    generator.ingest([own])  # before any suggestion
    loop.observe({"x": 0.5}, {"f": 9.0})
    for turn in range(3):
        points, asked = generator.suggest(3), loop.ask(n=3)
        assert [point["x"] for point in points] == [each["x"] for each in asked]
        returned = [measured(point) for point in reversed(points)]
        if turn % 2:
            returned[1].pop("_id")
        generator.ingest(pd.DataFrame(returned).to_dict("records"))  # its _id is a NaN, or a float
        for point, each in zip(returned, asked[::-1]):
            loop.tell({"f": point["f"]}, suggestion=each)
        generator = copy.deepcopy(generator)
    generator.ingest([returned[0] | {"f": 0.1}])  # a second answer
    loop.observe({"x": returned[0]["x"]}, {"f": 0.1})
    assert generator.suggest(1)[0]["x"] == loop.ask()["x"]
    assert generator.loop.table().equals(loop.table())
    assert generator.suggest(0) == []


def test_values_that_are_missing_or_not_finite_were_not_measured():
    generator = made({"constraints": {"c": ["LESS_THAN", 1]}})
    loop = Loop(model(), {"x": (-1.0, 3.0)}, objective="-f", constraints="c <= 1")
    points = generator.suggest(4)
    failed = {"f": math.nan, "c": None, "xopt_error": True}
    values = {"f": 1.0, "c": math.nan}, {"c": 0.5, "f": math.inf}, failed, {}
    generator.ingest([point | each for point, each in zip(points, values)])
    answers = {"f": 1.0}, {"c": 0.5}, None, None
    for asked, y in zip(loop.ask(n=4), answers):
        loop.tell(y, suggestion=asked, ok=y is not None)
    assert generator.loop.table().equals(loop.table())
    assert generator.suggest()[0]["x"] == loop.ask()["x"]


@pytest.mark.parametrize(
    ("point", "error", "match"),
    [
        ({"x": 0.5, "f": 1.0, "_id": 2}, ValueError, "No suggestion had the _id 2"),
        ({"f": 1.0}, InputDataError, "each of the parameters x"),
        ({"x": "warm", "f": 1.0}, InputDataError, "x is 'warm'"),
    ],
)
def test_a_refused_point_leaves_the_generator_as_it_was(point, error, match):
    generator = made()
    (asked,) = generator.suggest()
    with pytest.raises(error, match=match) as caught:
        generator.ingest([measured(asked), point])
    assert "In results[1]" in caught.value.__notes__[0]
    assert (len(generator.loop.history.y), len(generator.loop.open)) == (0, 1)


def test_points_outside_the_domain_count_where_they_are(tmp_path):
    generator = made({"variables": {"x": [0.0, 1.0], "n": {1, 2}}}, constraints="x + n <= 2.5")
    generator.ingest([{"x": -0.5, "n": 2, "f": 1.0}])
    (asked,) = generator.suggest()
    generator.ingest([asked | {"x": 1.25, "f": 0.0}])  # set to another value
    assert [point["x"] for point in generator.loop.history.points] == [-0.5, 1.25]
    assert 0 <= generator.suggest()[0]["x"] <= 1
    generator.loop.save(tmp_path / "loop.json")
    loop = Loop.load(tmp_path / "loop.json", generator.loop.strategy)
    assert loop.table().equals(generator.loop.table())


def test_times_come_from_a_field_the_clock_or_rounds():
    generator = made(time="when")
    generator.ingest([{"x": x, "f": 1.0, "when": 10 * x} for x in (2, 0, 1)])
    assert [point["x"] for point in generator.loop.history.points] == [0, 1, 2]
    with pytest.raises(ValueError, match="no 'when', which is its time"):
        generator.ingest([{"x": 1.0, "f": 1.0}])
    generator, day = made(time="when", unit="days"), datetime(2026, 3, 1, tzinfo=UTC)
    generator.suggest()
    generator.ingest([{"x": 0.0, "f": 1.0, "when": pd.Timestamp(day) + timedelta(days=3)}])
    assert generator.loop.history.times == [day + timedelta(days=3)]
    generator, before = made(time="clock"), datetime.now(UTC)
    generator.ingest([measured(generator.suggest()[0])])
    assert before < generator.loop.history.times[0] < datetime.now(UTC)


def test_contexts_without_a_domain_have_the_range_of_their_values():
    generator = made({"variables": {"x": [-1.0, 3.0], "out": "CONTEXTUAL"}})
    (late,) = generator.suggest()
    for out in (2e-10, 2.5e-10, 40.0, -3.0):
        (point,) = generator.suggest()
        assert {*point} == {"x", "_id"}
        generator.ingest([measured(point) | {"out": out}])
    axis = generator.loop.parameters.contexts["out"].axis
    assert axis.low < -3 < 40 < axis.high < 100
    contexts = [point["out"] for point in generator.loop.history.points]
    assert contexts == pytest.approx([2e-10, 2.5e-10, 40, -3], abs=1e-7)
    generator.ingest([measured(late) | {"out": 7.0}, {"x": 1.0, "f": math.nan}])
    assert [point["out"] for point in generator.loop.history.points[-2:]] == [7.0, 7.0]


@pytest.mark.parametrize(
    ("values", "expected"), [([0, 1, 2.5, 4], 5.5), ([0, 1, 0, 1], 1), ([3.0], 3), ([3, 4], 4)]
)
def test_the_next_context_is_the_newest_or_on_a_line(values, expected):
    generator = made({"variables": {"x": [-1.0, 3.0], "out": "CONTEXTUAL"}})
    generator.ingest([{"x": 0.1, "f": 1.0, "out": value} for value in values])
    generator.suggest()
    assert generator.loop.open[0].context["out"] == pytest.approx(expected)


def test_xopt_runs_it_and_goes_on_after_errors():
    xopt = pytest.importorskip("xopt")

    def evaluate(inputs):
        if inputs["x"] > 2:
            raise ValueError
        return {"f": (inputs["x"] - 1) ** 2}

    evaluator = xopt.Evaluator(function=evaluate)
    run = xopt.Xopt(generator=made(), evaluator=evaluator, strict=False)
    run.evaluate_data({"x": [-0.5, 0.5, 2.9]})
    for _ in range(6):
        run.step()
    loop = run.generator.loop
    assert (loop.history.number > 0).tolist() == [False] * 3 + [True] * 6
    assert loop.history.y.isnan().tolist() == (run.data["x"] > 2).tolist()
    assert loop.recommend()["x"] == pytest.approx(1, abs=0.1)


def test_moves_are_those_of_a_loop():
    words = {"max_step": {"x": 0.5}, "move_cost": {"x": 1.0}}
    generator, loop = made(**words), Loop(model(), {"x": (-1.0, 3.0)}, objective="-f", **words)
    generator.ingest([{"x": 1.8, "f": 0.64}])
    loop.observe({"x": 1.8}, {"f": 0.64})
    found = generator.suggest(1)[0]["x"]
    assert found == loop.ask()["x"]
    assert abs(found - 1.8) <= 0.5
