"""Loops in the names, units and times of people."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
import torch
from botorch.exceptions import InputDataError
from loop.loops import NOISE, QUICK, STRATEGIES, kernel

from botorch_tv.loop import Loop, clock
from botorch_tv.strategies import Box, Float, Integer, tv_gp_ucb
from botorch_tv.strategies.presets import sparq_gp_ucb

MACHINE: dict[str, Any] = {
    "temperature": (20, 80),
    "rate": Float(1e-4, 1.0, log=True),
    "layers": Integer(1, 6),
}
START = datetime(2026, 3, 28, 20, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def strategy(name: str = "Markov") -> Any:
    return STRATEGIES[name]()


def machine(**settings: Any) -> Loop:
    return Loop(strategy(), Box(MACHINE, search=QUICK), **settings)


def measured(point: dict[str, float], hours: float) -> float:
    warm = (point["temperature"] - 50 - hours) / 20
    return -(warm**2) - (math.log10(point["rate"]) + 2) ** 2 - (point["layers"] - 3) ** 2 / 9


def test_points_go_in_and_out_by_name() -> None:
    loop = machine()
    for t in range(6):
        suggestion = loop.ask()
        point = suggestion.point
        assert list(point) == list(MACHINE)
        assert 20 <= point["temperature"] <= 80
        assert 1e-4 <= point["rate"] <= 1
        assert type(point["layers"]) is int
        assert {name: suggestion[name] for name in MACHINE} == point
        loop.tell(measured(point, t))
    best = loop.recommend()
    loop.observe(best, 0.5)
    values = loop.posterior([best, {"temperature": 20, "rate": 1, "layers": 6}]).mean
    assert values.shape == (2, 1)
    one = loop.posterior(best).mean
    torch.testing.assert_close(one[0], values[0])
    frame = pd.DataFrame([best, best])
    torch.testing.assert_close(loop.posterior(frame).mean[1], values[0])


def test_a_loop_of_names_is_a_loop_on_the_unit_cube() -> None:
    named, plain = machine(), Loop(strategy(), Box([(0, 1)] * 3, search=QUICK))
    X = [[0.25, 0.5, 0.2], [0.75, 0.125, 1.0]]
    points = [
        {"temperature": 35, "rate": 1e-2, "layers": 2},
        {"temperature": 65, "rate": 10 ** (-3.5), "layers": 6},
    ]
    for place, point, y in zip(X, points, (0.5, -0.25)):
        named.observe(point, y)
        plain.observe(place, y)
    torch.testing.assert_close(named.history.X, plain.history.X, rtol=0, atol=1e-8)
    there, here = named.posterior(points).mean, plain.posterior(X).mean
    torch.testing.assert_close(there, here, rtol=0, atol=1e-7)


def test_bounds_alone_are_enough() -> None:
    """No strategy, no hyperparameter, no tensor."""
    for bounds in (MACHINE, [(20, 80), (0, 1)]):
        loop = Loop(bounds)
        for t in range(5):
            point = loop.ask().point
            assert isinstance(point, dict) == (bounds is MACHINE)
            loop.tell(100.0 + t)
        assert len(loop.history.y) == 5


def test_datetimes_are_counted_in_the_unit() -> None:
    """The same numbers as a loop whose times are hours."""
    dates, hours = machine(), machine()
    for t in (0.0, 0.5, 2.25, 7.0):
        now = START + t * HOUR
        suggestion, twin = dates.ask(now=now), hours.ask(now=t)
        assert suggestion.time == now
        assert suggestion.point == twin.point
        y = measured(suggestion.point, t)
        dates.tell(y, time=now + HOUR / 4)
        hours.tell(y, time=t + 0.25)
    assert dates.history.time.tolist() == hours.history.time.tolist()
    assert dates.recommend(now=START + 9 * HOUR) == hours.recommend(now=9)
    days = machine(unit="days")
    days.observe({"temperature": 30, "rate": 0.1, "layers": 2}, 1.0, time=START)
    days.observe({"temperature": 30, "rate": 0.1, "layers": 2}, 1.0, time=START + 36 * HOUR)
    assert days.history.time.tolist() == [0.0, 1.5]


def test_a_night_in_which_clocks_change_is_as_long_as_it_is() -> None:
    """Python subtracts two times of one zone as clocks show them."""
    zone = ZoneInfo("Europe/Berlin")
    evening, morning = (datetime(2026, 3, day, 12, tzinfo=zone) for day in (28, 29))
    loop = machine()
    loop.tell(0.5, suggestion=loop.ask(now=evening).number)
    suggestion = loop.ask(now=morning)
    assert suggestion.row.planned_for == 23.0
    assert suggestion.time == morning
    assert suggestion.time.utcoffset() == 2 * HOUR


def test_times_without_a_zone_stay_so() -> None:
    loop = machine()
    when = datetime(2026, 5, 1, 12)
    assert loop.ask(now=when).time == when
    loop.tell(0.5, time=when + HOUR)
    assert loop.state.time == 1.0
    assert abs(loop.ask(now=datetime(2026, 5, 2)).time - datetime(2026, 5, 2)) < HOUR / 1e6


def test_now_is_by_the_clock_of_the_computer() -> None:
    begun = datetime.now(UTC)
    loop = machine(unit="minutes")
    first = loop.ask()
    loop.tell(0.5)
    loop.observe(first.point, 0.25)
    assert first.row.planned_for == 0
    assert begun <= first.time <= loop.ask().time <= datetime.now(UTC)
    ahead = first.time + 8 * HOUR
    loop.tell(0.25, time=ahead)  # by a clock that runs ahead
    assert loop.ask().row.planned_for == 480
    assert loop.open[0].time == ahead


def test_other_libraries_datetimes() -> None:
    points = [{"temperature": 30 + t, "rate": 0.1, "layers": 2} for t in range(3)]
    naive = [datetime(2026, 1, 1) + t * HOUR for t in (2, 0, 1)]
    for times in (
        naive,
        pd.Series(naive),
        pd.DatetimeIndex(naive),
        np.array(naive, "datetime64[ns]"),
    ):
        loop = Loop.from_table(
            strategy(), Box(MACHINE, search=QUICK), points, [0.0, 1.0, 2.0], time=times
        )
        assert loop.history.time.tolist() == [0.0, 1.0, 2.0]
        assert loop.history.y.tolist() == [1.0, 2.0, 0.0]
    frame = pd.DataFrame(points)
    loop = Loop.from_table(strategy(), MACHINE, frame, pd.Series([0.0, 1.0, 2.0]))
    assert loop.history.time.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("name", ["y", "time", "noise"])
def test_rows_that_pandas_would_pair_otherwise_are_refused(name: str) -> None:
    """A column sorted by itself has the labels of other rows."""
    points = pd.DataFrame([{"temperature": 30 + t, "rate": 0.1, "layers": 2} for t in range(3)])
    column = pd.Series([0.3, 0.1, 0.2])
    table = {"y": [1.0, 2.0, 3.0], name: column.sort_values()}
    with pytest.raises(InputDataError, match=rf"{name}\.loc\[X\.index\], or {name}\.to_numpy"):
        Loop.from_table(strategy(), MACHINE, points, **table)
    for right in (column, column.sort_values().loc[points.index], column.to_numpy()):
        loop = Loop.from_table(strategy(), MACHINE, points, **{**table, name: right})
        wanted = loop.table().sort_values("temperature")[name]
        assert wanted.tolist() == pytest.approx([0.3, 0.1, 0.2])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_saved_loop_goes_on_and_can_be_read(dtype: torch.dtype, tmp_path: Path) -> None:
    file = tmp_path / "loop.json"
    loop = machine(pending=2, dtype=dtype)
    for t in range(7):
        suggestion = loop.ask(now=START + t * HOUR / 3)
        loop.tell(measured(suggestion.point, t), suggestion=suggestion, ok=t != 3)
        loop.ask(now=START + t * HOUR / 3)
        loop.discard()
    point = {"temperature": 41.123456789123, "rate": 1 / 3, "layers": 3}
    loop.observe(point, 0.1, time=START + HOUR / 7)
    loop.ask(now=START + 5 * HOUR)
    loop.save(file)
    again = Loop.load(file, loop.strategy)
    assert [one.row for one in again.open] == [one.row for one in loop.open]
    assert repr(again) == repr(loop)
    assert repr(again.history) == repr(loop.history)
    for ours, theirs in zip(loop.history[:7], again.history[:7]):
        assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())
    later = START + 6 * HOUR
    assert again.ask(now=later).row == loop.ask(now=later).row
    content = json.loads(file.read_text())
    assert content["clock"] == {"start": "2026-03-28T20:00:00+00:00", "unit": "hours"}
    assert content["domain"]["parameters"]["rate"] == {
        "type": "Float",
        "low": 1e-4,
        "high": 1.0,
        "log": True,
    }
    first = content["answers"][0]
    assert first["time"] == "2026-03-28T20:00:00+00:00"
    assert first["point"] == {"temperature": 50.0, "rate": 0.01, "layers": first["point"]["layers"]}
    loop.discard(loop.open[-1])
    again.save(file)
    assert json.loads(file.read_text())["answers"] == content["answers"]


def test_contexts_stand_beside_names(tmp_path: Path) -> None:
    box = Box({"a": (0, 10), "n": Integer(1, 3)}, context_dim=2, search=QUICK)
    loop = Loop(strategy(), box)
    for t in range(3):
        suggestion = loop.ask(context=[0.1 * t, 0.7])
        assert set(suggestion.point) == {"a", "n"}
        loop.tell(suggestion.point["a"])
    loop.save(tmp_path / "loop.json")
    content = json.loads((tmp_path / "loop.json").read_text())
    assert content["answers"][1]["point"]["(context)"] == [0.1, 0.7]
    again = Loop.load(tmp_path / "loop.json", loop.strategy)
    assert torch.equal(again.history.context, loop.history.context)


def test_experts_are_asked_by_name(tmp_path: Path) -> None:
    loop = Loop(sparq_gp_ucb(kernel=kernel(), noise=NOISE), Box(MACHINE, search=QUICK))
    asked = 0
    for t in range(8):
        suggestion = loop.ask(now=START + t * HOUR)
        loop.tell(measured(suggestion.point, t))
        consultation = loop.consult()
        if consultation is not None:
            asked += 1
            assert set(consultation.points[0]) == set(MACHINE)
            assert consultation.time == START + t * HOUR
            loop.absorb(consultation, [measured(one, t) for one in consultation.points])
    assert asked
    loop.save(tmp_path / "loop.json")
    again = Loop.load(tmp_path / "loop.json", loop.strategy)
    assert again.ask(now=START + 9 * HOUR).row == loop.ask(now=START + 9 * HOUR).row


NAIVE = START.replace(tzinfo=None)
REFUSED: dict[str, tuple[Callable[[Loop], object], str]] = {
    "unknown name": (
        lambda loop: loop.observe({"temp": 3}, 1.0),
        "the point is .*'temp'.*, but it must have a value for each of .* temperature",
    ),
    "outside": (
        lambda loop: loop.observe({"temperature": 99, "rate": 0.1, "layers": 2}, 1.0, time=START),
        "temperature is 99, but it must be a number from 20 to 80",
    ),
    "tensor of values": (
        lambda loop: loop.observe(torch.tensor([60.0, 0.1, 2.0]), 1.0, time=START),
        "places in the unit cube, from 0 to 1; give values of temperature, rate, layers as a dict",
    ),
    "tensor of others": (
        lambda loop: loop.posterior(torch.rand(2, 4)),
        "points here have 3 coordinates",
    ),
    "times in words": (
        lambda loop: Loop.from_table([(0, 1)], [[0.5]], [1.0], time=["2026-03-01"]),
        "time in row 0 is '2026-03-01', but it must be one number",
    ),
    "days first": (
        lambda loop: Loop.from_table([(0, 1)], [[0.5]], [1.0], time=["01.03.2026 08:00"]),
        "time in row 0 is '01.03.2026 08:00', but it must be one number",
    ),
    "column too many": (
        lambda loop: Loop.from_table({"rate": (0, 1)}, [{"rate": 0.5, "rates": 1}], [1.0]),
        r"X\[0\] is .*'rates'.*, but it must have a value for each of the parameters rate; give",
    ),
    "table of more than parameters": (
        lambda loop: Loop.from_table({"x": (0, 1)}, pd.DataFrame({"x": [0.5], "gain": 1}), [1.0]),
        r"X\[0\] is .*'gain'.*, but it must have a value for each of the parameters x; give",
    ),
    "table of a loop": (
        lambda loop: loop.posterior(loop.table()),
        r"X\[0\] is .*'number'.*, but it must have a value for each",
    ),
    "decimal comma": (
        lambda loop: Loop.from_table({"x": (0, 1)}, [{"x": "0,5"}], [1.0]),
        "x is '0,5', but it must be a number",
    ),
    "values with commas": (
        lambda loop: Loop.from_table({"x": (0, 1)}, [{"x": 0.5}, {"x": 0.2}], ["12", "12,3"]),
        r"(?s)^y is '12', but it must be one number; .*In row 0",
    ),
    "value with a comma": (
        lambda loop: Loop.from_table({"x": (0, 1)}, [{"x": 0.5}], pd.Series(["-12,3"])),
        r"^y is '-12,3', but it must be one number",
    ),
    "row of a table": (
        lambda loop: Loop.from_table({"x": (0, 1)}, [{"x": 0.5}, {"z": 1}], [1.0, 2.0]),
        r"X\[1\] is .*'z'.*, but it must have a value for each of the parameters x; give",
    ),
    "no names": (lambda loop: loop.observe([30, 0.1, 2], 1.0), "must have a value for each"),
    "number": (lambda loop: loop.ask(now=3.0), "now is 3.0, but the times .* are datetimes"),
    "no zone": (
        lambda loop: loop.ask(now=NAIVE),
        "but the times of this loop are datetimes with a zone; give one of these, such as 2026",
    ),
    "past": (lambda loop: loop.ask(now=START), "newest measurement was made at 2026-03-28 21:00"),
    "answer": (lambda loop: loop.tell(1.0, suggestion=2, time=5.0), "time is 5.0, but the times"),
    "closed": (
        lambda loop: loop.tell(1.0, suggestion=1),
        r"must be one that is open \(2 at",
    ),
    "room": (lambda loop: loop.ask(), "at temperature .*, layers ., time 2026-03-29"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_words_of_people_and_nothing_changed(name: str) -> None:
    loop = machine(pending=2 if name in ("number", "no zone", "past") else 1)
    loop.ask(now=START)
    loop.tell(0.5, time=START + HOUR)
    loop.ask(now=START + 5 * HOUR)
    before = repr(loop)
    call, message = REFUSED[name]
    with pytest.raises(InputDataError, match=message):
        call(loop)
    assert repr(loop) == before


def test_numbers_and_datetimes_do_not_mix() -> None:
    loop = machine()
    loop.ask()
    with pytest.raises(InputDataError, match="the times of this loop are numbers"):
        loop.tell(0.5, time=START)
    zoned = machine()
    zoned.ask(now=NAIVE)
    with pytest.raises(InputDataError, match="the times of this loop are datetimes without a zone"):
        zoned.tell(0.5, time=START)
    with pytest.raises(ValueError, match="unit is 'fortnights'"):
        machine(unit="fortnights")
    with pytest.raises(InputDataError, match="rows with a zone and others without"):
        Loop.from_table(strategy(), [(0, 1)], [[0.1], [0.2]], [1.0, 2.0], time=[NAIVE, START])
    with pytest.raises(InputDataError, match="NaT"):
        machine().ask(now=pd.NaT)


def test_what_failed_to_begin_leaves_the_kind_of_time_open() -> None:
    loop = Loop(strategy(), Box({"a": (0, 1)}, context_dim=1, search=QUICK))
    with pytest.raises(InputDataError, match="context is None, but"):
        loop.ask(now=START)
    assert loop.ask(now=2.0, context=[0.1]).time == 2.0


@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=-7)), ZoneInfo("America/New_York"), None]
)
def test_datetimes_come_back_to_the_microsecond(zone: Any) -> None:
    generator = np.random.default_rng(0)
    own = clock.LoopClock("hours").begin(datetime(2026, 1, 1, tzinfo=zone))
    for seconds in generator.uniform(-1e9, 1e9, 300):
        when = datetime(2026, 1, 1, tzinfo=zone) + timedelta(microseconds=round(seconds * 1e6))
        number = own.number("time", when, "")
        assert own.number("time", own.shown(number), "") == number
        if zone is None or zone is UTC:
            assert own.shown(number) == when


DAMAGE: dict[str, Callable[[dict[str, Any]], object]] = {
    "unknown parameter": lambda c: c["answers"][0]["point"].update(other=1.0),
    "missing": lambda c: c["answers"][0]["point"].pop("rate"),
    "outside": lambda c: c["answers"][0]["point"].update(temperature=900.0),
    "a list": lambda c: c["answers"][0].update(point=[0.5, 0.5, 0.5]),
    "a number for a date": lambda c: c["answers"][0].update(time=3.0),
    "no date": lambda c: c["answers"][0].update(time="yesterday"),
    "zone": lambda c: c["answers"][0].update(time="2026-03-28T20:00:00"),
    "clock": lambda c: c.update(clock={"start": "2026", "unit": "fortnights"}),
    "no clock": lambda c: c.update(clock=None),
    "parameters": lambda c: c["domain"]["parameters"]["rate"].update(type="Complex"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_names_and_dates(name: str, tmp_path: Path) -> None:
    file, loop = tmp_path / "loop.json", machine()
    loop.tell(0.5, suggestion=loop.ask(now=START).number)
    loop.save(file)
    content = json.loads(file.read_text())
    del content["digests"]
    file.write_text(json.dumps(content))
    Loop.load(file, loop.strategy)  # so that the damage is all that is wrong
    DAMAGE[name](content)
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"damaged|holds no loop"):
        Loop.load(file, loop.strategy)


def test_other_parameters_are_another_domain(tmp_path: Path) -> None:
    loop = machine()
    loop.save(tmp_path / "loop.json")
    other = MACHINE | {"temperature": (20, 90)}
    with pytest.raises(ValueError, match=r"parameters\.temperature\.high is 80.0 there and 90.0"):
        Loop.load(tmp_path / "loop.json", loop.strategy, Box(other, search=QUICK))


def test_it_runs_whatever_forgets() -> None:
    for name in ("trigger", "weights", "Thompson", "learning"):
        loop = Loop(strategy(name), Box(MACHINE, search=QUICK))
        for t in range(5):
            point = loop.ask(now=START + t * HOUR).point
            loop.tell(measured(point, t))
    assert len(Loop(tv_gp_ucb(kernel=kernel(), noise=1.0, epsilon=0.1), [(0, 1)]).open) == 0
