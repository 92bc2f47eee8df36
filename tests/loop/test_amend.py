"""What was observed is amended or removed: as if the loop had never had the wrong reading."""

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from loop.loops import BOX, GRID, NOISE, PLACES, STRATEGIES, fired, kernel, measured

from botorch_tv.experts import sparq_gp_ucb
from botorch_tv.loop import Loop
from botorch_tv.strategies import Strategy, adaptive_gp_ucb, et_gp_ucb

ROUNDS, WRONG = 11, 4
"""Suggestion ``WRONG`` gets a reading so wrong that triggers fire."""
KINDS: dict[str, Callable[[], Strategy]] = {**STRATEGIES, "adaptive": adaptive_gp_ucb}
CASES = [("adaptive", "grid"), ("adaptive", "box"), ("trigger", "grid"), ("trigger", "candidates")]
CASES += [("trigger", "box"), ("window", "grid"), ("window", "box"), ("ratio", "grid")]
CASES += [("learning", "box"), ("Thompson", "grid")]


def loop_of(case: tuple[str, str], pending: int) -> Loop:
    return Loop(KINDS[case[0]](), PLACES[case[1]], pending=pending, seed=5)


def night(
    loop: Loop, wrong: float | None, points: list[Any] | None = None
) -> tuple[list[Any], float]:
    """Rounds of which every third answer comes late; ``wrong`` of None discards the suggestion.

    Returns the points of the suggestions, which ``points`` dictates, and the right reading.
    """
    asked: list[Any] = []
    right = math.nan
    with pytest.MonkeyPatch.context() as patch:
        kind, plain = type(loop.strategy), type(loop.strategy).ask

        def dictated(self: Any, state: Any, **given: Any) -> Any:
            choice = plain(self, state, **given)  # which draws the numbers it draws
            if points is None:
                return choice
            X = torch.tensor(points[len(asked)], dtype=torch.float64)
            return self.suggestion_at(state, X, now=given["now"])

        patch.setattr(kind, "ask", dictated)
        for t in range(1, ROUNDS + 1):
            while len(loop.open) < loop.pending:
                asked.append(loop.ask(now=float(t)).point)
            one = loop.open[-1 if t % 3 == 0 else 0]
            y: float | None = measured(one.point, t)
            if one.number == WRONG:
                right, y = measured(one.point, t), wrong
            if y is None:
                loop.discard(one)
            else:
                loop.tell(y, suggestion=one, time=t + 0.5 - 1.75 * (t % 4 == 0))
            if t % 5 == 0:
                loop.observe(GRID.X[t], 0.3, time=t - 1.2)
    return asked, right


def choices(loop: Loop) -> list[Any]:
    """The open suggestions, and the next rounds."""
    made = [loop.recommend(now=20.0)]
    for t in (20.0, 21.0, 22.0):
        while len(loop.open) < loop.pending:
            loop.ask(now=t)
        made += [(one.number, one.point, one.time) for one in loop.open]
        loop.tell(measured(loop.open[0].point, t), suggestion=loop.open[0])
        made.append(fired(loop))
    return made


@pytest.mark.parametrize("what", ["amend", "remove"])
@pytest.mark.parametrize("pending", [1, 2])
@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_as_if_the_wrong_reading_had_never_been(
    case: tuple[str, str], pending: int, what: str, tmp_path: Path
) -> None:
    loop, never = loop_of(case, pending), loop_of(case, pending)
    points, right = night(loop, -4.0)
    answered = loop.history.number.tolist().index(WRONG)
    if case[0] in ("trigger", "ratio"):
        assert loop.history.reset[answered]
    night(never, right if what == "amend" else None, points)
    if what == "amend":
        loop.amend(WRONG, right)
    else:
        loop.remove(WRONG)
    file = tmp_path / "loop.json"
    loop.save(file)
    for one in (loop, Loop.load(file, loop.strategy)):
        for ours, theirs in zip(one.history[:7], never.history[:7], strict=True):
            assert torch.equal(ours.nan_to_num(), theirs.nan_to_num())
        if one.strategy.compares:  # others keep the predictions made with suggestions
            assert [(o.mean, o.sd) for o in one.open] == [(o.mean, o.sd) for o in never.open]
    expected = choices(never)
    assert choices(Loop.load(file, loop.strategy)) == expected
    assert choices(loop) == expected
    assert repr(loop.history) == repr(never.history)


def test_an_amended_trigger_no_longer_fires() -> None:
    """Nor do the answers that the wrong model had predicted."""
    loop = Loop(et_gp_ucb(kernel=torch.ones(36, 36).double(), noise=NOISE), GRID)
    for _ in range(5):
        loop.ask()
        loop.tell(1.0)
    loop.ask()
    loop.tell(-3.0)
    for _ in range(2):  # agree with the others, not with the wrong one
        loop.ask()
        loop.tell(1.0)
    assert loop.history.reset.tolist()[5:] == [True, True, False]
    loop.amend(6, 1.0)
    assert not loop.history.reset.any()
    assert loop.last == (8, False)


def test_of_a_failure_and_back() -> None:
    loop = Loop(STRATEGIES["static"](), GRID)
    loop.observe(GRID.X[3], 0.5, time=1.0)
    loop.ask()
    loop.tell(ok=False)
    loop.amend(1, 0.25)
    assert loop.history.y.tolist() == [0.5, 0.25]
    loop.amend(-1, ok=False)
    assert loop.table()["ok"].tolist() == [False, True]
    loop.amend(-1, 0.75, ok=True, time=9.0)
    assert loop.history.number.tolist() == [1, -1]
    assert loop.history.y.tolist() == [0.25, 0.75]
    wrong = [(one.number, one.y, one.time, one.became) for one in loop.superseded]
    assert math.isnan(wrong[0][1])
    assert math.isnan(wrong[2][1])
    assert [one[0] for one in wrong] == [1, -1, -1]
    assert wrong[1] == (-1, 0.5, 1.0, "amended")
    assert loop.superseded[1].point == GRID.X[3].tolist()
    assert "2 measurements from time 2 to 9; 3 amended" in loop.describe()


def test_numbers_are_not_used_again(tmp_path: Path) -> None:
    loop = Loop(STRATEGIES["static"](), GRID)
    for y in (0.1, 0.2, 0.3):
        loop.observe(GRID.X[0], y)
    loop.remove(-3)
    loop.remove(-1)
    loop.save(tmp_path / "loop.json")
    for one in (loop, Loop.load(tmp_path / "loop.json", loop.strategy)):
        one.observe(GRID.X[1], 0.4, time=0.5)
        assert one.history.number.tolist() == [-4, -2]
        assert [(old.number, old.became) for old in one.superseded] == [
            (-3, "removed"),
            (-1, "removed"),
        ]
        one.remove(-2)
        one.remove(-4)
        assert one.last is None
        assert "No measurements yet; 4 removed." in one.describe()
        assert len(one.table()) == 0
        assert one.ask().number == 1


REFUSED: dict[str, tuple[Callable[[Loop], object], str]] = {
    "nothing": (lambda loop: loop.amend(1), r"measurement 1 is 0.5 already"),
    "the same": (
        lambda loop: loop.amend(1, 0.5, time=1.0),
        "is 0.5 already; give another y",
    ),
    "failed already": (lambda loop: loop.amend(2, ok=False), "measurement 2 is failed already"),
    "no value": (lambda loop: loop.amend(2, ok=True), "y is None.*ok=False"),
    "not finite": (lambda loop: loop.amend(1, math.nan), "y is nan, but it must be finite"),
    "text": (lambda loop: loop.amend(1, "0,5"), "y is '0,5'"),
    "time": (lambda loop: loop.amend(1, time=math.inf), "time is inf"),
    "truth": (lambda loop: loop.amend(1, ok="no"), "give True or False"),  # type: ignore[arg-type]
    "open": (lambda loop: loop.amend(3, 1.0), "no measurement 3: give the number .*table"),
    "removed": (lambda loop: loop.amend(4, 1.0), "no measurement 4: give the number"),
    "unknown": (lambda loop: loop.remove(0), "no measurement 0: give the number .*table"),
    "twice": (lambda loop: loop.remove(4), "no measurement 4: give the number"),
    "text number": (lambda loop: loop.remove("1"), "no measurement '1'"),  # type: ignore[arg-type]
    "told again": (
        lambda loop: loop.tell(1.0, suggestion=1),
        "suggestion is 1, .*amend an answer",
    ),
    "told removed": (
        lambda loop: loop.tell(1.0, suggestion=4),
        "suggestion is 4, .*observe",
    ),
    "too large": (lambda loop: loop.amend(1, 1e300), "too large"),
}


@pytest.mark.parametrize("strategy", ["static", "trigger"])
@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_nothing_changed(name: str, strategy: str, tmp_path: Path) -> None:
    loop = Loop(STRATEGIES[strategy](), GRID, pending=2)
    for _ in range(2):
        loop.ask()
    loop.tell(0.5, suggestion=1)
    loop.tell(ok=False)
    for _ in range(2):
        loop.ask()
    loop.tell(0.1, suggestion=4)
    loop.remove(4)
    loop.save(tmp_path / "before")
    call, words = REFUSED[name]
    with pytest.raises(InputDataError, match=words):
        call(loop)
    loop.save(tmp_path / "after")
    assert (tmp_path / "after").read_text() == (tmp_path / "before").read_text()


def test_dates_and_names() -> None:
    start = datetime(2026, 3, 1, 8, tzinfo=UTC)
    loop = Loop({"temperature": (20, 80)})
    for hour in range(6):
        loop.observe({"temperature": 30 + hour}, 0.1 * hour, time=start + timedelta(hours=hour))
    loop.amend(-1, time=start + timedelta(hours=7))
    assert loop.table()["temperature"].tolist() == pytest.approx([31, 32, 33, 34, 35, 30])
    assert loop.superseded[0].time == start
    assert loop.superseded[0].point == pytest.approx({"temperature": 30})
    never = Loop({"temperature": (20, 80)})
    never._units.clock = never._units.clock.begin(start)  # from which times are counted
    for hour in range(1, 6):
        never.observe({"temperature": 30 + hour}, 0.1 * hour, time=start + timedelta(hours=hour))
    never.observe({"temperature": 30}, 0.0, time=start + timedelta(hours=7))
    later = start + timedelta(hours=8)
    assert loop.ask(now=later).point == never.ask(now=later).point


@pytest.mark.parametrize("what", ["amend", "remove"])
def test_what_an_expert_answered_stays(what: str, tmp_path: Path) -> None:
    """Replies set aside what was measured before them, with the wrong reading or without."""

    def rounds(fifth: float) -> Loop:
        loop = Loop(sparq_gp_ucb(kernel=kernel(), noise=NOISE), BOX)
        for t in range(1, 8):
            X = [0.1 * t, 0.5 - 0.1 * t]
            loop.observe(X, fifth if t == 5 else 0.1 * t, time=float(t))
            if t in (3, 6):
                asked = loop.consult()
                if asked is not None:
                    loop.absorb(asked, [0.2 + 0.1 * one for one in range(len(asked))])
        return loop

    def replies() -> list[object]:
        loop.save(tmp_path / "loop.json")
        found = json.loads((tmp_path / "loop.json").read_text())["replies"]
        return [(one["number"], one["points"], one["time"], one["y"]) for one in found]

    loop = rounds(-3.0)
    before = replies()
    assert before
    if what == "amend":
        loop.amend(-5, 0.5)
    else:
        loop.remove(-5)
    assert replies() == before
    # Without a round, the expert would have been asked at another time: the file alone tells.
    again = Loop.load(tmp_path / "loop.json", loop.strategy)
    for other in [again, *([rounds(0.5)] if what == "amend" else [])]:
        actual, expected = loop.ask(now=9.0), other.ask(now=9.0)
        assert actual.point == expected.point
        assert (actual.mean, actual.sd) == (expected.mean, expected.sd)
        loop.discard()


def test_numbers_are_those_of_the_tables() -> None:
    loop = Loop(STRATEGIES["static"](), GRID)
    for y in (0.1, 0.2, 0.3):
        loop.observe(GRID.X[0], y)
    loop.amend(loop.table()["number"][1], 0.5)
    loop.remove(loop.history.number[0])  # type: ignore[arg-type]
    assert loop.history.y.tolist() == [0.5, 0.3]


def test_the_clock_goes_on_when_all_was_removed() -> None:
    start = datetime(2026, 3, 1, 8, tzinfo=UTC)
    loop = Loop({"x": (0, 1)})
    loop.observe({"x": 0.5}, 1.0, time=start)
    loop.remove(-1)
    loop.observe({"x": 0.5}, 1.0, time=start + timedelta(hours=5))
    assert loop.superseded[0].time == start
    assert list(loop.history.times) == [start + timedelta(hours=5)]


def test_a_typing_error_of_the_newest_is_cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not all is told again, which takes long under the adaptive strategy."""
    loop = Loop(STRATEGIES["Markov"](), GRID)
    for number in range(40):
        loop.observe(GRID.X[number % 36], 0.1)
    tells, plain = [], type(loop.strategy).tell

    def counted(*given: Any, **more: Any) -> Any:
        tells.append(1)
        return plain(*given, **more)

    monkeypatch.setattr(type(loop.strategy), "tell", counted)
    loop.amend(-40, 0.2)
    loop.remove(-40)
    assert len(tells) <= 2
