"""Damaged files load or raise an error with the path."""

import json
import re

import pytest
from loop.loops import BOX, GRID, NOISE, kernel, measured
from mutations import survivors

from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.loop import Loop
from botorch_tv.strategies import gp_ei, gp_ts

STRATEGIES = {
    "expert": lambda: sparq_gp_ucb(kernel=kernel(), noise=NOISE),
    "chance": lambda: gp_ts(kernel=kernel(), noise=NOISE, B=0.5, R=0.1),
    "improvement": lambda: gp_ei(kernel=kernel(), noise=NOISE),
}
PLACES = {"expert": BOX, "chance": GRID, "improvement": GRID}


@pytest.fixture(params=STRATEGIES)
def saved(request, tmp_path):
    strategy = STRATEGIES[request.param]()
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
    again = Loop.load(file, strategy)
    assert repr(again) == repr(loop)
    return file, strategy


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
    "no such arm": (lambda c: c["answers"][0].update(arm=99), r"are not arms \[99\]"),
    "another arm": (lambda c: c["answers"][1].update(arm=0), r"are not arms \[0\]"),
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
    "device": (lambda c: c.update(device="nowhere"), "the device cannot be used .*='cpu'"),
    "overflow": (lambda c: c["answers"][1].update(y=10**400), "damaged .*OverflowError"),
    "huge grid": (
        lambda c: c["domain"].update(axes=[c["domain"]["axes"][0]] * 14),
        "the axes have 78,364,164,096 arms",
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
