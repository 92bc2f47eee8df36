"""Files changed by hand are loaded with a warning that lists the changes."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from loop.loops import BOX, GRID, STRATEGIES, fired, measured

from botorch_tv.loop import Loop
from botorch_tv.strategies import adaptive_gp_ucb

Content = dict[str, Any]
KINDS = {
    "trigger": STRATEGIES["trigger"],
    "window": STRATEGIES["window"],
    "adaptive": adaptive_gp_ucb,
}


def night(strategy):
    """Suggestions 1 to 8 are answered, 3 of them late, and -1 was not suggested; 9 is open."""
    loop = Loop(strategy, GRID, pending=2)
    for t in range(1, 9):
        while len(loop.open) < 2:
            loop.ask(now=float(t))
        y = measured(loop.open[0].point, t) if t != 4 else -4.0
        loop.tell(y, suggestion=loop.open[0], time=t + 0.5 - 1.75 * (t % 3 == 0))
        if t == 5:
            loop.observe(GRID.X[7], 0.25, time=2.1)
    return loop


def edited(loop, file, change):
    file.unlink(missing_ok=True)  # a loop does not overwrite an edited file
    loop.save(file)
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))


def row(content, number, rows="answers"):
    return next(row for row in content[rows] if row["number"] == number)


def without(content, number):
    content["answers"].remove(row(content, number))


def choices(loop):
    made = [loop.recommend(now=20.0)]
    for t in (20.0, 21.0, 22.0):
        suggestion = loop.ask(now=t)
        loop.tell(measured(suggestion.point, t), suggestion=suggestion)
        made += [suggestion.number, suggestion.point, fired(loop)]
    return made


SAME = {
    "value": (
        lambda c: row(c, 4).update(y=0.5),
        lambda loop: loop.amend(4, 0.5),
        r"measurement 4 was changed\.",
    ),
    "time": (
        lambda c: row(c, 4).update(time=7.9),
        lambda loop: loop.amend(4, time=7.9),
        r"measurement 4 was changed\.",
    ),
    "gone": (lambda c: without(c, 4), lambda loop: loop.remove(4), "measurement 4 was deleted"),
    "several": (
        lambda c: (without(c, -1), row(c, 2).update(y=1.0), c.update(pending=3)),
        lambda loop: (loop.remove(-1), loop.amend(2, 1.0), setattr(loop, "pending", 3)),
        r"pending was changed; measurement 2 was changed; measurement -1 was deleted\.",
    ),
    "open gone": (
        lambda c: c["open"].clear(),
        lambda loop: loop.discard(9),
        "open suggestion 9 was deleted",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", SAME)
def test_as_if_it_had_been_amended(kind, name, tmp_path):
    by_hand, by_call, message = SAME[name]
    loop = night(KINDS[kind]())
    edited(loop, tmp_path / "loop.json", by_hand)
    with pytest.warns(
        UserWarning, match=rf"loop\.json was changed by hand .*: {message}"
    ) as caught:
        again = Loop.load(tmp_path / "loop.json", loop.strategy)
    assert caught[0].filename == __file__
    by_call(loop)
    assert repr(again.history) == repr(loop.history)
    again.save(tmp_path / "loop.json")  # no warning after that
    for item in (Loop.load(tmp_path / "loop.json", loop.strategy), again):
        assert [(o.number, o.mean, o.sd) for o in item.open] == [
            (o.number, o.mean, o.sd) for o in loop.open
        ]
    assert choices(again) == choices(loop)


@pytest.mark.parametrize("number", [-3, -7])
def test_a_row_may_be_added(number, tmp_path):
    """As a copy of another; the trigger compares it with a prediction of its own."""
    loop = Loop(STRATEGIES["trigger"](), BOX)
    loop.observe([0.5, 0.5], 0.25, time=1.0)
    loop.observe([0.5, 0.4], 0.5, time=2.0)
    loop.save(tmp_path / "short.json")

    def added(content):
        own = {"number": number, "point": [0.1, 0.9], "y": -3.0, "time": 3.0, "planned_for": 3.0}
        content["answers"].insert(0, {**row(content, -1), **own, "arrival": 2, "known": 2})

    edited(loop, tmp_path / "loop.json", added)
    with pytest.warns(UserWarning, match=f"measurement {number} was added"):
        again = Loop.load(tmp_path / "loop.json", loop.strategy)
    loop.observe([0.1, 0.9], -3.0, time=3.0)
    assert again.history.y.tolist() == loop.history.y.tolist()
    assert again.history.number.tolist() == [-1, -2, number]
    assert choices(again) == choices(loop)


def test_names_units_and_dates(tmp_path):
    start = datetime(2026, 3, 1, 8, tzinfo=UTC)
    loop = Loop({"temperature": (20.0, 80.0), "n": (1.0, 9.0)})
    for hour in range(3):
        loop.observe({"temperature": 30.0, "n": 1.0}, 0.5, time=start + timedelta(hours=hour))

    def change(content):
        row(content, -2)["point"]["temperature"] = 50.0
        row(content, -3)["time"] = "2026-03-01T08:30:00+00:00"

    edited(loop, tmp_path / "loop.json", change)
    with pytest.warns(UserWarning, match="changed by hand") as caught:
        again = Loop.load(tmp_path / "loop.json")
    text = str(caught[0].message)
    assert "measurement -2 was changed; measurement -3 was changed" in text
    assert again.table()["number"].tolist() == [-1, -3, -2]
    assert again.table()["temperature"].tolist() == [30, 30, 50]


def test_many_changes_and_spaces_alone(tmp_path):
    loop = Loop(STRATEGIES["static"](), GRID)
    for arm in range(12):
        loop.observe(GRID.X[arm], 0.5)
    edited(loop, tmp_path / "loop.json", lambda content: None)
    Loop.load(tmp_path / "loop.json", loop.strategy)
    edited(
        loop, tmp_path / "loop.json", lambda c: [answer.update(y=2.0) for answer in c["answers"]]
    )
    with pytest.warns(UserWarning, match=r"measurement -8 was changed; and 4 more\. The loop"):
        again = Loop.load(tmp_path / "loop.json", loop.strategy)
    assert again.history.y.tolist() == [2.0] * 12


REFUSED = {
    "twice": (lambda c: c["answers"].append(row(c, 2)), "not in order of time"),
    "unknown": (lambda c: row(c, 2).update(number=99), "99.* must lie between 1 and 9"),
    "outside": (lambda c: row(c, 2).update(point=[7.0, 7.0]), "is not a point of Grid|not arm"),
    "text": (lambda c: row(c, 2).update(y="0,5"), 'y is "0,5", not a finite number'),
    "no number": (lambda c: row(c, 2).pop("number"), "KeyError: 'number'"),
    "digests": (lambda c: c.update(digests=[1]), "TypeError"),
}


@pytest.mark.filterwarnings("ignore:.*changed by hand")
@pytest.mark.parametrize("name", REFUSED)
def test_invalid_edits_are_refused(name, tmp_path):
    loop = night(STRATEGIES["window"]())
    change, message = REFUSED[name]
    edited(loop, tmp_path / "loop.json", change)
    with pytest.raises(ValueError, match=rf"(?s)loop\.json .*({message}).*; load a"):
        Loop.load(tmp_path / "loop.json", loop.strategy)
