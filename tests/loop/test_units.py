"""Loops in the names, units and times of people: tables, texts and plots."""

import json
import math
from datetime import UTC, datetime, timedelta, timezone
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
    QUICK,
    STRATEGIES,
    WITH_CONTEXT,
    assert_refused,
    kernel,
    made,
)
from loop.loops import measured as answered
from matplotlib.figure import Figure

from botorch_tv.drawing import GREEN
from botorch_tv.forgetting import ExponentialWeights, Markov, Static, UncertaintyInjection, Wiener
from botorch_tv.loop import Loop, clock
from botorch_tv.loop.table import forgetting_text
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, Float, Integer
from botorch_tv.strategies.presets import sparq_gp_ucb, tv_gp_ucb

MACHINE = {"temperature": (20, 80), "rate": Float(1e-4, 1.0, log=True), "layers": Integer(1, 6)}
START = datetime(2026, 3, 28, 20, 0, tzinfo=UTC)
HOUR = timedelta(hours=1)


def strategy(name="Markov"):
    return STRATEGIES[name]()


def machine(**settings):
    return Loop(strategy(), Box(MACHINE, search=QUICK), **settings)


def measured(point, hours):
    warm = (point["temperature"] - 50 - hours) / 20
    return -(warm**2) - (math.log10(point["rate"]) + 2) ** 2 - (point["layers"] - 3) ** 2 / 9


def test_points_go_in_and_out_by_name():
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
    torch.testing.assert_close(loop.posterior(best).mean[0], values[0])
    torch.testing.assert_close(loop.posterior(pd.DataFrame([best, best])).mean[1], values[0])


def test_datetimes_are_counted_in_the_unit():
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


def test_durations_across_a_change_to_summer_time():
    zone = ZoneInfo("Europe/Berlin")
    evening, morning = (datetime(2026, 3, day, 12, tzinfo=zone) for day in (28, 29))
    loop = machine()
    loop.tell(0.5, suggestion=loop.ask(now=evening).number)
    suggestion = loop.ask(now=morning)
    assert suggestion.row.planned_for == 23.0
    assert suggestion.time == morning
    assert suggestion.time.utcoffset() == 2 * HOUR


def test_now_is_by_the_clock_of_the_computer():
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


def test_other_libraries_datetimes():
    points = [{"temperature": 30 + t, "rate": 0.1, "layers": 2} for t in range(3)]
    when = [datetime(2026, 1, 1) + t * HOUR for t in (2, 0, 1)]
    box, y = Box(MACHINE, search=QUICK), [0.0, 1.0, 2.0]
    for times in (when, pd.Series(when), pd.DatetimeIndex(when), np.array(when, "datetime64[ns]")):
        loop = Loop.from_table(strategy(), box, points, y, time=times)
        assert loop.history.time.tolist() == [0.0, 1.0, 2.0]
        assert loop.history.y.tolist() == [1.0, 2.0, 0.0]
    frame = pd.DataFrame(points)
    loop = Loop.from_table(strategy(), MACHINE, frame, pd.Series(y))
    assert loop.history.time.tolist() == [1.0, 2.0, 3.0]


def test_a_saved_loop_goes_on_and_can_be_read(tmp_path):
    file = tmp_path / "loop.json"
    loop = machine(pending=2, dtype=torch.float32)
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
    assert [item.row for item in again.open] == [item.row for item in loop.open]
    assert repr(again) == repr(loop)
    assert repr(again.history) == repr(loop.history)
    for ours, theirs in zip(loop.history[:7], again.history[:7]):
        assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())
    content = json.loads(file.read_text())
    assert content["clock"] == {"start": "2026-03-28T20:00:00+00:00", "unit": "hours"}
    rate = {"type": "Float", "low": 1e-4, "high": 1.0, "log": True}
    assert content["domain"]["parameters"]["rate"] == rate
    first = content["answers"][0]
    assert first["time"] == "2026-03-28T20:00:00+00:00"
    assert first["point"] == {"temperature": 50.0, "rate": 0.01, "layers": first["point"]["layers"]}
    loop.discard(loop.open[-1])
    again.save(file)
    assert json.loads(file.read_text())["answers"] == content["answers"]


def test_contexts_with_named_parameters(tmp_path):
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


def test_experts_are_asked_by_name(tmp_path):
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
            loop.absorb(consultation, [measured(point, t) for point in consultation.points])
    assert asked
    loop.save(tmp_path / "loop.json")
    again = Loop.load(tmp_path / "loop.json", loop.strategy)
    assert again.ask(now=START + 9 * HOUR).row == loop.ask(now=START + 9 * HOUR).row


NAIVE = START.replace(tzinfo=None)
PLACE = {"temperature": 99, "rate": 0.1, "layers": 2}
TABLE = {"x": (0, 1)}, [{"x": 0.5}, {"x": 0.2}]
REFUSED = {
    "unknown": (lambda it: it.observe({"temp": 3}, 1.0), "'temp'.*, but .* each of .* temperature"),
    "outside": (lambda it: it.observe(PLACE, 1.0, time=START), "temperature is 99, .* 20 to 80"),
    "tensor": (
        lambda it: it.observe(torch.tensor([60.0, 0.1, 2.0]), 1.0, time=START),
        "points of the unit cube, from 0 to 1; give values of temperature, rate, layers as a dict",
    ),
    "column too many": (
        lambda it: Loop.from_table({"rate": (0, 1)}, [{"rate": 0.5, "rates": 1}], [1.0]),
        r"X\[0\] is .*'rates'.*, but it must have a value for each of .* rate, and no other; give",
    ),
    "commas": (lambda it: Loop.from_table(*TABLE, ["12", "12,3"]), "(?s)^y is '12', .*In row 0"),
    "no names": (lambda it: it.observe([30, 0.1, 2], 1.0), "must have a value for each"),
    "number": (lambda it: it.ask(now=3.0), "now is 3.0, but the times .* are datetimes"),
    "no zone": (lambda it: it.ask(now=NAIVE), "datetimes with a zone; give a time of this k"),
    "answer": (lambda it: it.tell(1.0, suggestion=2, time=5.0), "time is 5.0, but the times"),
    "room": (lambda it: it.ask(), "at temperature .*, layers ., time 2026-03-29"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_the_users_units_without_change(name, tmp_path):
    loop = machine(pending=2 if name in ("number", "no zone") else 1)
    loop.ask(now=START)
    loop.tell(0.5, time=START + HOUR)
    loop.ask(now=START + 5 * HOUR)
    assert_refused(loop, *REFUSED[name], tmp_path)


def test_numbers_and_datetimes_do_not_mix():
    loop = machine()
    loop.ask()
    with pytest.raises(InputDataError, match="the times of this loop are numbers"):
        loop.tell(0.5, time=START)
    zoned = machine()
    zoned.ask(now=NAIVE)
    with pytest.raises(InputDataError, match="the times of this loop are datetimes without a zone"):
        zoned.tell(0.5, time=START)
    with pytest.raises(InputDataError, match="rows with a zone and rows without"):
        Loop.from_table(strategy(), [(0, 1)], [[0.1], [0.2]], [1.0, 2.0], time=[NAIVE, START])
    with pytest.raises(InputDataError, match="NaT"):
        machine().ask(now=pd.NaT)


@pytest.mark.parametrize("zone", [UTC, timezone(-7 * HOUR), ZoneInfo("America/New_York"), None])
def test_datetimes_come_back_to_the_microsecond(zone):
    generator = np.random.default_rng(0)
    own = clock.LoopClock("hours").begin(datetime(2026, 1, 1, tzinfo=zone))
    for seconds in generator.uniform(-1e9, 1e9, 300):
        when = datetime(2026, 1, 1, tzinfo=zone) + timedelta(microseconds=round(seconds * 1e6))
        number = own.number("time", when, "")
        assert own.number("time", own.shown(number), "") == number
        if zone is None or zone is UTC:
            assert own.shown(number) == when


DAMAGE = {
    "unknown parameter": lambda c: c["answers"][0]["point"].update(other=1.0),
    "outside": lambda c: c["answers"][0]["point"].update(temperature=900.0),
    "a list": lambda c: c["answers"][0].update(point=[0.5, 0.5, 0.5]),
    "a number for a date": lambda c: c["answers"][0].update(time=3.0),
    "zone": lambda c: c["answers"][0].update(time="2026-03-28T20:00:00"),
    "clock": lambda c: c.update(clock={"start": "2026", "unit": "fortnights"}),
    "no clock": lambda c: c.update(clock=None),
    "parameters": lambda c: c["domain"]["parameters"]["rate"].update(type="Complex"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damaged_names_and_dates(name, tmp_path):
    file, loop = tmp_path / "loop.json", machine()
    loop.tell(0.5, suggestion=loop.ask(now=START).number)
    loop.save(file)
    content = json.loads(file.read_text())
    del content["digests"]
    file.write_text(json.dumps(content))
    Loop.load(file, loop.strategy)  # so that the damage is all that is wrong
    DAMAGE[name](content)
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"damaged|not the file"):
        Loop.load(file, loop.strategy)


LATER = START + 8 * HOUR


def night():
    """A night with a failure, and a measurement that nobody suggested."""
    loop = machine(pending=2)
    for t in range(6):
        suggestion = loop.ask(now=START + t * HOUR)
        loop.tell(measured(suggestion.point, t), ok=t != 3, noise=0.04 if t == 2 else None)
    loop.observe({"temperature": 41, "rate": 0.01, "layers": 3}, 0.75, time=START + HOUR / 2)
    return loop


def test_the_table_is_the_log_in_its_own_units():
    loop = night()
    frame = loop.table()
    names = ["number", *MACHINE, "time", "y", "ok", "noise", "mean", "sd", "reset"]
    assert list(frame.columns) == names
    assert frame["number"].tolist() == [1, -1, 2, 3, 4, 5, 6]
    assert frame["time"][1] == START + timedelta(minutes=30)
    own = frame.iloc[1]
    assert (own["temperature"], own["rate"], own["layers"], own["y"]) == (41, 0.01, 3, 0.75)
    assert math.isnan(own["mean"])
    assert frame["ok"].tolist() == [True] * 4 + [False] + [True] * 2
    assert frame["y"].isna().tolist() == (~frame["ok"]).tolist()
    assert frame["noise"].tolist() == [0.01] * 3 + [0.04] + [0.01] * 3
    np.testing.assert_array_equal(frame["y"], loop.history.y.numpy())
    suggestion = loop.ask(now=LATER)
    loop.tell(0.5)
    newest = loop.table().iloc[-1]
    assert (newest["mean"], newest["sd"]) == (suggestion.mean, suggestion.sd)


def test_tables_without_names():
    loop = made(("trigger", "grid"))
    assert list(loop.table().columns) == ["number", "x0", "x1", *loop.table().columns[3:]]
    assert len(loop.table()) == 0
    for t in range(16):
        loop.tell(answered(loop.ask().point, t))
    frame = loop.table()
    np.testing.assert_array_equal(frame[["x0", "x1"]], loop.history.X.numpy())
    np.testing.assert_array_equal(frame["reset"], loop.history.reset.numpy())
    assert frame["reset"].any()
    last = frame[frame["reset"]]["time"].iloc[-1]
    assert f"the last at time {last:g}" in loop.describe()
    there = Loop(STRATEGIES["Markov"](), WITH_CONTEXT)
    there.observe([0.5, 0.5], 1.0, context=[0.25])
    assert there.table()["context0"].tolist() == [0.25]
    assert there.describe() == there.describe(context=[0.25])  # the newest context


def test_the_text_of_the_best_point_matches_the_posterior():
    loop = night()
    loop.ask(now=LATER)
    best = loop.recommend(now=LATER)
    posterior = loop.posterior(best, now=LATER)
    mean, sd = float(posterior.mean), float(posterior.variance.sqrt())
    text = loop.describe(now=LATER)
    assert f"temperature {best['temperature']:.6g}" in text
    low, high = f"{mean - 2 * sd:#.4g}", f"{mean + 2 * sd:#.4g}"
    assert f"posterior mean {mean:#.4g}, ± 2 sd: {low} to {high}." in text
    assert "7 measurements from time 2026-03-28 20:00:00+00:00 to 2026-03-29 01:00" in text
    assert "1 failed; open: 7 at temperature" in text
    assert "No measurements yet." in machine().describe()


def test_how_fast_it_forgets_is_the_textbooks():
    """(1 - ε)^(age/2) = 1/2; 1/√(1 + σ² age) = 1/2; γ^age = 1/2; (1 + age)^-α ..."""

    def half_life(age):
        return f"{age:.3g} h"

    markov = forgetting_text(Markov(0.05), Static(), "hours")
    assert half_life(2 * math.log(0.5) / math.log(0.95)) in markov
    assert half_life(3 / 0.2) in forgetting_text(Wiener(0.2), Static(), "hours")
    weights = forgetting_text(Static(), ExponentialWeights(0.9), "hours")
    assert half_life(math.log(0.5) / math.log(0.9)) in weights
    assert "noise doubling time" in forgetting_text(Static(), UncertaintyInjection(1.0), "")
    slow = UncertaintyInjection(alpha=1e-3, kappa=0.5)  # 1 + age^0.001 / 2 = 2 after 2^1000
    assert forgetting_text(Static(), slow, "").endswith("more than 1.1e+12 units of time.")
    assert forgetting_text(Static(), Static(), "") == ""


@pytest.mark.full
def test_the_picture_shows_measurements_and_slices(tmp_path):
    loop = night()
    figure = loop.plot(tmp_path / "night.png", now=LATER)
    assert (tmp_path / "night.png").stat().st_size > 10_000
    assert len(figure.axes) == 1 + 2 * len(MACHINE)
    best = loop.recommend(now=LATER)
    slices = {axes.get_xlabel(): axes for axes in figure.axes if axes.get_xlabel()}
    assert list(slices) == list(MACHINE)
    assert slices["rate"].get_xscale() == "log"
    assert slices["layers"].lines[0].get_xdata().tolist() == [1, 2, 3, 4, 5, 6]
    ticks = slices["layers"].get_xticks()
    assert len(ticks) >= 3
    assert all(tick.is_integer() for tick in ticks)  # there is no half a layer
    for name, axes in slices.items():
        line = axes.lines[0]
        points = [best | {name: value} for value in line.get_xdata()]
        want = loop.posterior(points, now=LATER).mean.squeeze(-1)
        got = torch.as_tensor(np.asarray(line.get_ydata()))
        torch.testing.assert_close(got, want, rtol=0, atol=1e-6)


def test_the_picture_of_one_measurement_shows_whole_ranges_and_open_suggestions():
    loop = Loop(MACHINE, unit="minutes")
    middle = {"temperature": 47.0, "rate": 0.003, "layers": 2}
    loop.observe(middle, 1.0, time=START)
    values, *settings = loop.plot(ylabel="strength, MPa").axes
    assert values.get_ylabel() == "strength, MPa"
    assert [text.get_text() for text in values.get_legend().get_texts()] == ["measured"]
    for axes, kind in zip(settings, loop.parameters.values()):
        low, high = axes.get_ylim()
        assert low < kind.low < kind.high < high
        days = np.diff(axes.get_xlim())
        assert days == pytest.approx(2 / (24 * 60))  # a minute on either side
    suggestion = loop.ask(now=START + HOUR)
    for axes, value in zip(loop.plot().axes[1:], suggestion.point.values()):
        (hollow,) = (line for line in axes.lines if line.get_fillstyle() == "none")
        assert hollow.get_ydata().tolist() == [value]
        assert axes.get_xlim()[1] > axes.convert_xunits(START + HOUR)


@pytest.mark.full
def test_the_picture_marks_the_recommended_setting_everywhere():
    loop = night()
    best, (_, *panels) = loop.recommend(now=LATER), loop.plot(now=LATER).axes
    for number, value in enumerate(best.values()):
        chosen, posterior = panels[2 * number : 2 * number + 2]
        dotted = [line for axes in (chosen, posterior) for line in axes.lines if is_dotted(line)]
        assert [line.get_color() for line in dotted] == [GREEN] * 2
        assert [*dotted[0].get_ydata(), *dotted[1].get_xdata()] == [value] * 4


def test_a_replay_shows_what_was_recommended_after_each_measurement():
    strategy = tv_gp_ucb(kernel=unit_kernel("se", 0.3), noise=0.01, epsilon=0.05)
    loop, growing = (Loop(strategy, {"x": (0.0, 4.0)}) for _ in range(2))
    times, wanted = [0.0, 1.0, 2.5, 3.0, 7.0], []
    for time, x in zip(times, (0.5, 3.0, 1.0, 1.1, 3.5)):
        for each in (loop, growing):
            each.observe({"x": x}, math.sin(x), time=time, ok=x != 1.0)
        wanted.append(growing.recommend(now=time)["x"])
    (line,) = (
        line
        for line in loop.plot(now=9.0, replay=True).axes[1].lines
        if line.get_color() == GREEN and not is_dotted(line)
    )
    assert line.get_xdata().tolist() == times
    assert line.get_ydata().tolist() == pytest.approx(wanted, abs=1e-6)


def is_dotted(line):
    return line.get_linestyle() == ":"


@pytest.mark.full
def test_plots_of_grids_contexts_and_given_axes():
    loop = made(("Markov", "grid"))
    with pytest.raises(InputDataError, match="no measurements to draw"):
        loop.plot()
    for t in range(4):
        loop.tell(answered(loop.ask().point, t))
    assert len(loop.plot().axes[2].lines[0].get_xdata()) == 6
    assert len(GRID) == 36
    there = Loop(STRATEGIES["Markov"](), WITH_CONTEXT)
    there.observe([0.5, 0.5], 1.0, context=[0.25])
    assert len(there.plot().axes) == 5  # with the newest context
    assert len(there.plot(context=[0.25]).axes) == 5
    own = Figure()
    assert loop.plot(ax=own.add_subplot()) is own
    assert len(own.axes) == 1
    named = Loop(STRATEGIES["Markov"](), Box({"a": (0, 1)}, search=QUICK))
    named.observe({"a": 0.5}, 1.0)
    assert len(named.plot().axes) == 3
    assert BOX.dim == 2
