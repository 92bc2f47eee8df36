"""An answer written into a file is what loading, telling and saving make of it."""

import shutil
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from botorch.exceptions import InputDataError
from loop.loops import STRATEGIES

from botorch_tv.inference.mixture.bank import Bank
from botorch_tv.loop import Loop
from botorch_tv.loop.file import answer_in_file
from botorch_tv.strategies import Float, Integer, adaptive_gp_ucb

START, HOUR = datetime(2026, 3, 1, 8, tzinfo=UTC), timedelta(hours=1)
BOX = {"x": (0, 1), "rate": Float(1e-4, 1.0, log=True), "layers": Integer(1, 6)}
BANK = Bank(rates=(0.0, 0.03), lengthscales=(0.3,), noise_ratios=(0.01,), features=12)
ADAPTIVE = adaptive_gp_ucb(bank=BANK)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """The strategy of files without another, with a bank that is told in little time."""
    monkeypatch.setattr("botorch_tv.loop.file.adaptive_gp_ucb", partial(adaptive_gp_ucb, bank=BANK))


@cache
def saved(dated: bool) -> bytes:
    """Ten measurements, one of which failed, and three suggestions open."""
    loop = Loop(ADAPTIVE, BOX, pending=3, unit="hours" if dated else None)
    for t in range(10):
        now = START + t * HOUR if dated else float(t)
        loop.tell(0.1 * t * t, suggestion=loop.ask(now=now), ok=t != 4)
    for t in (10, 11, 11):
        loop.ask(now=START + t * HOUR if dated else float(t))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "loop.json"
        loop.save(path)
        return path.read_bytes()


def begun(path: Path, *, dated: bool) -> None:
    path.write_bytes(saved(dated))


@pytest.mark.parametrize("dated", [True, False])
@pytest.mark.parametrize(
    ("y", "number", "hours"),
    [(0.5, 11, None), (None, 12, None), (-2, 13, 12.5), (0.5, 13, 3.0), (1e3, 12, 3.25)],
)
def test_as_by_a_loop(y, number, hours, dated, tmp_path):
    short, whole = tmp_path / "short.json", tmp_path / "whole.json"
    begun(short, dated=dated)
    shutil.copy(short, whole)
    time = None if hours is None else (START + hours * HOUR if dated else hours)
    answer_in_file(short, y, suggestion=number, time=time)
    loop = Loop.load(whole, ADAPTIVE)
    loop.tell(y, suggestion=number, time=time, ok=y is not None)
    loop.save(whole)
    assert short.read_bytes() == whole.read_bytes()


REFUSED = {
    "which": ({"suggestion": None}, InputDataError, "3 suggestions are open.*suggestion=11"),
    "answered": ({"suggestion": 2}, InputDataError, "suggestion 2 has been answered already"),
    "unknown": ({"suggestion": 14}, InputDataError, "there is no suggestion 14"),
    "NaN": ({"y": float("nan")}, InputDataError, "y is nan, but it must be finite"),
    "large": ({"y": 1e200}, InputDataError, r"y is 1e\+200, but in size at most 1e\+150"),
    "number for a date": ({"time": 3.0}, InputDataError, "the times of this loop are datetimes"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_and_the_file_is_as_it_was(name, tmp_path):
    wrong, error, message = REFUSED[name]
    path = tmp_path / "loop.json"
    begun(path, dated=True)
    before = path.read_bytes()
    given = {"y": 0.5, "suggestion": 11} | wrong
    with pytest.raises(error, match=message):
        answer_in_file(path, **given)
    assert path.read_bytes() == before


def test_the_file_of_another_strategy_is_refused(tmp_path):
    path = tmp_path / "loop.json"
    loop = Loop(STRATEGIES["trigger"](), BOX)
    loop.ask(now=0.0)
    loop.save(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match="another strategy"):
        answer_in_file(path, 0.5, suggestion=1)
    assert path.read_bytes() == before


def test_no_other_answer_is_told(tmp_path, monkeypatch):
    """So that it takes as long as reading and writing, however many there are."""
    path = tmp_path / "loop.json"
    begun(path, dated=False)

    def told(*given, **named):
        raise AssertionError("told anew")

    monkeypatch.setattr(type(ADAPTIVE), "tell", told)
    monkeypatch.setattr(type(ADAPTIVE), "init", told)
    answer_in_file(path, 0.5, suggestion=11)
