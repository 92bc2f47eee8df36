"""What a loop refuses: it says why, and is as it was."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from loop.loops import BOX, GRID, STRATEGIES, WITH_CONTEXT, made, measured

from botorch_tv.loop import Loop

nan, inf = float("nan"), float("inf")


@pytest.fixture
def loop() -> Loop:
    """Suggestions 4 and 5 are open, 3 was discarded, the newest measurement is of time 2."""
    loop = made(("trigger", "box"), pending=2)
    for t in range(2):
        loop.tell(measured(loop.ask().point, t))
    loop.ask()
    loop.discard()
    loop.ask()
    loop.ask()
    return loop


def content(loop: Loop, folder: Path) -> str:
    loop.save(folder / "loop.json")
    return (folder / "loop.json").read_text()


REFUSED: dict[str, tuple[Callable[[Loop], Any], str]] = {
    "one too many": (
        lambda loop: loop.ask(),
        r"pending is 2, and open are 4 at .* 5 at .*; tell or discard one .* to 3",
    ),
    "which": (
        lambda loop: loop.tell(1.0),
        r"open \(4 .*; 5 .*; give its number",
    ),
    "which discarded": (
        lambda loop: loop.discard(),
        "suggestion is None, but it must",
    ),
    "answered": (
        lambda loop: loop.tell(1.0, suggestion=1),
        "suggestion is 1, but it must be one that is open .*amend an answer, or observe",
    ),
    "discarded": (
        lambda loop: loop.tell(1.0, suggestion=3),
        "suggestion is 3, .* open .*observe",
    ),
    "discarded twice": (lambda loop: loop.discard(3), "suggestion is 3, but"),
    "unknown": (lambda loop: loop.tell(1.0, suggestion=6), "suggestion is 6, .* open .4 at"),
    "zero": (lambda loop: loop.tell(1.0, suggestion=0), "suggestion is 0, but"),
    "a point": (
        lambda loop: loop.discard([0.1, 0.2]),
        r"suggestion is \[0.1, 0.2\].*give its",
    ),
    "of another loop": (
        lambda loop: loop.tell(1.0, suggestion=other_loop().open[3]),
        r"suggestion is Suggestion 4: \[.* open .4 at",
    ),
    "NaN": (lambda loop: loop.tell(nan, suggestion=4), "y is nan.*ok=False, --failed in a shell"),
    "infinite": (lambda loop: loop.tell(inf, suggestion=4), "y is inf.*ok=False, --failed"),
    "ok no": (lambda loop: loop.tell(1.0, suggestion=4, ok="no"), "ok is 'no'; give True or False"),
    "ok NaN": (lambda loop: loop.tell(1.0, suggestion=4, ok=nan), "ok is nan; give True or False"),
    "no y": (lambda loop: loop.tell(suggestion=4), r"y is None, but it must be one number"),
    "two": (lambda loop: loop.tell(torch.ones(2), suggestion=4), "y is .* must be one number"),
    "text": (lambda loop: loop.tell("0.3", suggestion=4), "y is '0.3', but it must be one number"),
    "comma": (lambda loop: loop.tell("0,3", suggestion=4), "y is '0,3', but it must be one number"),
    "no time": (lambda loop: loop.tell(1.0, suggestion=4, time=nan), "time is nan"),
    "noise": (lambda loop: loop.tell(1.0, suggestion=4, noise=-1.0), "-1.0 as noise variance"),
    "no noise": (lambda loop: loop.tell(1.0, suggestion=4, noise=0.0), "0.0 as noise variance"),
    "late noise": (
        lambda loop: loop.tell(1.0, suggestion=4, time=0.5, noise=-1.0),
        "-1.0 as noise variance",
    ),
    "outside": (lambda loop: loop.observe([0.5, 3.0], 1.0), "X is .*3.0.* lies outside Box"),
    "outside early": (lambda loop: loop.observe([0.5, 3.0], 1.0, time=0.5), "lies outside Box"),
    "short": (lambda loop: loop.observe([0.5], 1.0), "points here have 2 coordinates"),
    "words": (
        lambda loop: loop.observe("here", 1.0),
        "X is 'here', but points here have 2 c",
    ),
    "several": (
        lambda loop: loop.observe([[0.5, 0.5]] * 2, 1.0),
        "one after the other, or begin a loop with their table",
    ),
    "time in words": (
        lambda loop: loop.recommend(now="2026-03-01"),
        "now is '2026-03-01', but it must be one number",
    ),
    "a day": (
        lambda loop: loop.recommend(now=date(2026, 3, 1)),
        "now is datetime.date",
    ),
    "nothing seen": (lambda loop: loop.observe([0.5, 0.5], nan), "y is nan.*ok=False"),
    "no context": (
        lambda loop: loop.observe([0.5, 0.5], 1.0, context=[1.0]),
        "takes 0 numbers; see Box",
    ),
    "backwards": (
        lambda loop: loop.recommend(now=1.0),
        "now is 1, but the newest measurement was made at 2; .*observe an old measurement",
    ),
    "posterior": (lambda loop: loop.posterior([[0.5, 0.5, 0.5]]), "points here have 2 coordinates"),
}


def other_loop() -> Loop:
    loop = made(("static", "box"), pending=4)
    for _ in range(4):
        loop.ask(now=20.0)
    return loop


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_nothing_changed(name: str, loop: Loop, tmp_path: Path) -> None:
    call, message = REFUSED[name]
    before, state = content(loop, tmp_path), loop.state
    with pytest.raises(InputDataError, match=message):
        call(loop)
    assert content(loop, tmp_path) == before
    assert loop.state is state


def test_time_runs_forward_for_questions(tmp_path: Path) -> None:
    loop = made(("Thompson", "grid"), pending=3)
    loop.ask()
    loop.tell(1.0, time=5.0)
    before = content(loop, tmp_path)
    with pytest.raises(InputDataError, match="now is 4, but the newest measurement was made at 5"):
        loop.ask(now=4.0)
    with pytest.raises(InputDataError, match="now is nan"):
        loop.ask(now=nan)
    assert content(loop, tmp_path) == before  # no random number is used up
    assert loop.ask(now=5.0).time == 5.0


def test_nothing_open() -> None:
    loop = made(("static", "grid"))
    for call in (lambda: loop.tell(1.0), loop.discard):
        with pytest.raises(InputDataError, match=r"open \(none is\); .* ask for one"):
            call()


def test_context_is_needed_where_there_is_one(tmp_path: Path) -> None:
    loop = Loop(STRATEGIES["static"](), WITH_CONTEXT)
    before = content(loop, tmp_path)
    for call in (loop.ask, loop.recommend, lambda: loop.observe([0.1, 0.2], 1.0)):
        with pytest.raises(InputDataError, match=r"context is None, but Box.* takes 1 num"):
            call()
    for context in ([1.0, 2.0], torch.ones(1, 3), "rain"):
        with pytest.raises(InputDataError, match=r"context (is|has)"):
            loop.ask(context=context)  # type: ignore[arg-type]
    with pytest.raises(InputDataError, match="is no valid context"):
        loop.ask(context=nan)
    assert content(loop, tmp_path) == before


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("y", [1.0, nan, 2.0], "(?s)y is nan, .*In row 1 of the table"),
        ("y", [1.0, 2.0], "y has 2 rows, but there are 3 points"),
        ("y", [[1.0, 2.0, 3.0]] * 2, "y has 2 rows"),
        ("time", [1.0, 2.0, inf], "time in row 2 is inf"),
        ("noise", [1.0, -1.0, 1.0], "-1.0 as noise variance"),
        ("X", [[0.1, 0.2], [0.3, 4.0], [0.1, 0.1]], "lies outside Box"),
        ("X", [[0.1, 0.2, 0.3]] * 3, "points here have 2 coordinates"),
        ("context", [1.0, 2.0, 3.0], "takes 0 numbers"),
    ],
)
def test_tables_that_do_not_fit(column: str, value: Any, message: str) -> None:
    table: dict[str, Any] = {"X": [[0.1, 0.2]] * 3, "y": [1.0, 2.0, 3.0]} | {column: value}
    with pytest.raises(InputDataError, match=message):
        Loop.from_table(STRATEGIES["static"](), BOX, **table)


def test_contexts_of_a_table() -> None:
    table: dict[str, Any] = {"X": [[0.1, 0.2]] * 3, "y": [1.0, 2.0, 3.0]}
    for context, message in (
        ([1.0, 2.0], "context has 2 rows, but there are 3 points"),
        (None, "is None"),
    ):
        with pytest.raises(InputDataError, match=message):
            Loop.from_table(STRATEGIES["static"](), WITH_CONTEXT, context=context, **table)


@pytest.mark.parametrize("pending", [0, -1, 1.5, "2"])
def test_pending_is_a_number_of_suggestions(pending: Any) -> None:
    with pytest.raises(ValueError, match=r"pending is .* must be an integer of at least 1"):
        made(("static", "grid"), pending=pending)
    loop = made(("static", "grid"))
    with pytest.raises(ValueError, match="pending is"):
        loop.pending = pending
    assert loop.pending == 1


def test_more_pending_are_allowed_later() -> None:
    loop = made(("static", "grid"))
    loop.ask()
    with pytest.raises(InputDataError, match="pending is 1, and open are 1"):
        loop.ask()
    loop.pending += 1
    assert loop.ask().number == 2


def test_arms_that_are_none() -> None:
    with pytest.raises(InputDataError, match="is no point of Grid"):
        made(("trigger", "grid")).observe(GRID.X[3] + 0.01, 1.0)


def test_a_value_may_be_a_row_of_one() -> None:
    """As functions of NumPy and PyTorch give them back."""
    loop = Loop([(0.0, 1.0)])
    for y in (np.array([0.5]), np.array([[0.5]]), torch.tensor([0.5]), np.float32(0.5)):
        loop.ask()
        loop.tell(y, ok=np.bool_(True))
    assert loop.history.y.tolist() == [0.5] * 4


def test_a_number_for_a_point_is_refused_with_the_names_of_its_parameters() -> None:
    one, two = Loop({"x": (0.0, 1.0)}), Loop({"x": (0.0, 1.0), "y": (0.0, 1.0)})
    with pytest.raises(
        InputDataError, match=r"a value for each of the parameters x; give \{'x': ...\}"
    ):
        one.observe(0.5, 1.0)
    with pytest.raises(InputDataError, match=r"give \{'x': \.\.\., 'y': \.\.\.\}"):
        two.observe(0.5, 1.0)
