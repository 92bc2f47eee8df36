"""Damaged files and files changed by hand load with a warning or raise an error with the path."""

import json
import re

import pytest
from loop.damaged_json import survivors
from loop.loops import BOX, FEW, GRID, NOISE, STRATEGIES, choices, kernel, measured

from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.loop import Loop
from botorch_tv.strategies import gp_ts

DAMAGED = {
    "expert": lambda: sparq_gp_ucb(kernel=kernel(), noise=NOISE),
    "chance": lambda: gp_ts(kernel=kernel(), noise=NOISE, B=0.5, R=0.1),
}
PLACES = {"expert": BOX, "chance": GRID}


@pytest.fixture(params=DAMAGED)
def saved(request, tmp_path):
    strategy = DAMAGED[request.param]()
    loop = Loop(strategy, PLACES[request.param], pending=2)
    for t in range(3):
        loop.tell(measured(loop.ask().point, t), noise=0.02 if t else None)
        asked = loop.consult() if strategy.consults else None
        if asked is not None and t == 1:
            loop.absorb(asked, [0.5] * len(asked))
    loop.ask()
    file = tmp_path / "loop.json"
    loop.save(file)
    file.write_text(re.sub(r',\n  "digests": [^\n]*', "", file.read_text()))
    assert repr(Loop.load(file, strategy)) == repr(loop)
    return file, strategy


@pytest.mark.few(1)
@pytest.mark.filterwarnings("ignore")
def test_every_place_of_a_file(saved):
    file, strategy = saved
    text = file.read_text()
    wrong = survivors(
        text, file.write_text, lambda: Loop.load(file, strategy), names=str(file), many=200
    )
    assert wrong == []


def test_pieces_of_a_file(saved):
    file, strategy = saved
    content = file.read_bytes()
    for length in range(97, len(content) - 3, 197):
        for piece in (content[:length], content[length:] + b" ", content[:length] + b"\xff\x00"):
            file.write_bytes(piece)
            with pytest.raises(ValueError, match=r"loop\.json .*load a"):
                Loop.load(file, strategy)


REFUSED = {
    "outside": (
        lambda c: c["answers"][1].update(point=[0.2, 9.0], arm=None),
        "is not a point of Grid",
    ),
    "no such arm": (lambda c: c["answers"][0].update(arm=99), r"are not the points of arms \[99\]"),
    "another arm": (lambda c: c["answers"][1].update(arm=0), r"are not the points of arms \[0\]"),
    "fraction": (lambda c: c["answers"][1].update(arm=0.5), "0.5, not an integer"),
    "text": (lambda c: c["answers"][1].update(y="0.5"), 'y is "0.5", not a finite number'),
    "infinite": (lambda c: c["answers"][1].update(time=float("inf")), "time is Infinity, not"),
    "noise": (
        lambda c: c["answers"][1].update(noise=-1.0),
        "-1.0 as noise variance is not positive",
    ),
    "backwards": (lambda c: c["answers"].reverse(), "not in order of time"),
    "twice": (lambda c: c["open"].append(c["open"][0]), "has duplicates"),
    "too many": (lambda c: c.update(asked=2), "1, 2, 3, 4. must lie between 1 and 2"),
    "arrivals": (lambda c: c["answers"][2].update(arrival=1), "arrivals of 3 answers"),
    "none at once": (lambda c: c.update(pending=0), "pending is 0, but it must be an integer"),
    "no randomness": (lambda c: c.update(generator=None), "random numbers are missing"),
    "other randomness": (lambda c: c.update(generator="AAAA"), "damaged.*Generator"),
    "no strategy": (lambda c: c.pop("strategy"), r"damaged, .*KeyError: 'strategy'\); load a copy"),
    "strategy": (lambda c: c.update(strategy=None), '"strategy" does not describe a strategy'),
    "queue": (lambda c: c.update(queue=[[0.2, 9.0]]), "is not a point of Grid"),
    "lost_after": (lambda c: c.update(lost_after=0), "lost_after is 0, but it must be an integer"),
    "device": (lambda c: c.update(device="nowhere"), "the device cannot be used .*='cpu'"),
    "overflow": (lambda c: c["answers"][1].update(y=10**400), "damaged, .*OverflowError"),
    "huge grid": (
        lambda c: c["domain"].update(axes=[c["domain"]["axes"][0]] * 14),
        "the grid has 78,364,164,096 arms",
    ),
}


@pytest.mark.parametrize("saved", ["chance"], indirect=True)
@pytest.mark.parametrize("name", REFUSED)
def test_numbers_that_contradict_each_other(name, saved):
    change, message = REFUSED[name]
    file, strategy = saved
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=rf"loop\.json.*{message}"):
        Loop.load(file, strategy)


@pytest.mark.parametrize("saved", ["expert"], indirect=True)
def test_points_outside_the_box(saved):
    file, strategy = saved
    for rows in ("answers", "open", "replies", "consultations"):
        content = json.loads(file.read_text())
        row = content[rows][0]
        (row["points"][0] if "points" in row else row["point"])[1] = 7.0
        damaged = file.with_name(f"{rows}.json")
        damaged.write_text(json.dumps(content))
        with pytest.raises(ValueError, match=rf"{rows}\.json is damaged, .*outside Box.*load a co"):
            Loop.load(damaged, strategy)


KINDS = {name: STRATEGIES[name] for name in ("trigger", "window")} | FEW


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


@pytest.mark.few(5)
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
