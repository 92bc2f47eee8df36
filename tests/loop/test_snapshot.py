"""A state beside the file changes nothing but time, whatever happened to it or to the file."""

import io
import json
import pickle
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import torch

from botorch_tv.files import beside
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.loop import Loop
from botorch_tv.loop import file as module
from botorch_tv.loop.file import ENDING, EVERY, LATE
from botorch_tv.strategies import Float, Integer, Strategy, adaptive_gp_ucb
from botorch_tv.strategies.adaptive import Adaptive

BANK = Bank(rates=(0.0, 0.03), lengthscales=(0.3,), noise_ratios=(0.01,))
STRATEGY = adaptive_gp_ucb(bank=BANK)
BOX = {"x": (0, 1), "rate": Float(1e-4, 1.0, log=True), "layers": Integer(1, 6)}
COUNT = EVERY + LATE + 3


@cache
def saved():
    """A file of enough answers, one of which failed, with one open; and change lies beside it."""
    loop = Loop(STRATEGY, BOX, pending=2)
    for t in range(COUNT):
        point = {"x": (0.37 * t) % 1, "rate": 10 ** -(t % 4), "layers": 1 + t % 6}
        loop.observe(point, 0.1 * (t % 7) - (t > 20), time=float(t))
    loop.tell(suggestion=loop.ask(), ok=False)
    loop.ask()
    with TemporaryDirectory() as folder:
        path = Path(folder) / "loop.json"
        loop.save(path)
        Loop.load(path, STRATEGY, snapshot=True)
        return path.read_bytes(), beside(path, ENDING).read_bytes()


@cache
def untouched():
    """The loop of the file alone, only to be looked at."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "loop.json"
        path.write_bytes(saved()[0])
        return Loop.load(path, STRATEGY)


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "loop.json"
    for name, content in zip((path, beside(path, ENDING)), saved()):
        name.write_bytes(content)
    return path


@pytest.fixture
def replayed(monkeypatch):
    """Times of the answers replayed."""
    times = []
    plain = Strategy.tell

    def counted(self, state, suggestion, y, **named):
        times.append(float(suggestion.time))
        return plain(self, state, suggestion, y, **named)

    monkeypatch.setattr(Strategy, "tell", counted)
    return times


def require_same_state(first, other):
    """All that two loops know is the same to the last bit."""
    assert first.table().equals(other.table())
    mine, its = first.state.data.running, other.state.data.running
    for part, its_part in zip((*mine.mean, *mine.covariance), (*its.mean, *its.covariance)):
        assert torch.equal(part, its_part)
    for name in ("scale", "log_weight", "since"):
        assert torch.equal(getattr(mine, name), getattr(its, name))


def require_alike(first, other):
    """All that two loops know and will do is the same to the last bit."""
    require_same_state(first, other)
    assert first.describe() == other.describe()
    assert first.ask().point == other.ask().point
    for loop in (first, other):
        loop.observe({"x": 0.5, "rate": 0.01, "layers": 3}, 2.0, time=COUNT - 2.5)  # late
        loop.tell(1.0, suggestion=loop.open[0])
    mine, its = first.ask(), other.ask()
    assert (mine.point, mine.mean, mine.sd) == (its.point, its.mean, its.sd)


@pytest.mark.full
def test_only_the_newest_answers_are_replayed(path, replayed):
    first = Loop.load(path, STRATEGY, snapshot=True)
    assert len(replayed) == LATE
    replayed.clear()
    other = Loop.load(path, STRATEGY)
    assert len(replayed) == COUNT + 1
    require_alike(first, other)


@pytest.mark.few(1)
def test_answers_after_a_snapshot_are_replayed_until_there_is_a_new_snapshot(path, replayed):
    loop = Loop.load(path, STRATEGY, snapshot=True)
    for first, last, count in ((0, 5, LATE + 5), (5, EVERY, LATE)):
        for t in range(first, last):
            loop.observe({"x": 0.01 * t, "rate": 0.5, "layers": 1}, 0.3 * t, time=COUNT + 5.0 + t)
        loop.save(path)
        if last == EVERY:
            Loop.load(path, STRATEGY, snapshot=True)
        replayed.clear()
        again = Loop.load(path, STRATEGY, snapshot=True)
        assert len(replayed) == count
        require_same_state(again, loop)


def edited(path, change):
    content = json.loads(path.read_bytes())
    del content["digests"]
    change(content)
    path.write_text(json.dumps(content))


def swapped(content):
    content["answers"][4]["y"] += 1e-12


def late(content):
    row = dict(content["answers"][5])
    content["answers"].insert(
        6, row | {"number": -99, "time": 5.5, "arrival": len(content["answers"])}
    )


def fewer(content):
    retained = sorted(content["answers"], key=lambda row: row["arrival"])[:20]
    content["answers"], content["open"] = retained, []


@pytest.mark.few(1)
@pytest.mark.parametrize("change", [swapped, late, fewer])
def test_a_snapshot_of_other_answers_is_ignored(change, path, replayed):
    edited(path, change)
    loop = Loop.load(path, STRATEGY, snapshot=True)
    assert len(replayed) == len(json.loads(path.read_bytes())["answers"])
    require_same_state(loop, Loop.load(path, STRATEGY))


class Trap:
    """Runs where it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("code of a snapshot was run",))


def sealed(content):
    return module.hashlib.sha256(content).hexdigest().encode() + content


def changed(**parts):
    content = torch.load(io.BytesIO(saved()[1][64:]), weights_only=True)
    out = io.BytesIO()
    torch.save(content | parts, out)
    return sealed(out.getvalue())


def poorer():
    """Whole, and of these answers, but of another form."""
    content = torch.load(io.BytesIO(saved()[1][64:]), weights_only=True)
    return changed(state=content["state"][:-1])


DAMAGED = {
    "empty": lambda: b"",
    "cut off": lambda: saved()[1][:-100],
    "a bit": lambda: saved()[1][:5000] + bytes([saved()[1][5000] ^ 1]) + saved()[1][5001:],
    "another seal": lambda: b"0" * 64 + saved()[1][64:],
    "no torch": lambda: sealed(b"nothing"),
    "code": lambda: sealed(pickle.dumps(Trap())),
    "parts": poorer,
    "state": lambda: changed(state=[]),
    "count": lambda: changed(count=3),
    "count no number": lambda: changed(count="x"),
    "digest": lambda: changed(digest=""),
}


@pytest.mark.few(2)
@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_snapshot_is_ignored(name, path, replayed):
    beside(path, ENDING).write_bytes(DAMAGED[name]())
    loop = Loop.load(path, STRATEGY, snapshot=True)
    assert len(replayed) == COUNT + 1
    require_same_state(loop, untouched())
    replayed.clear()
    Loop.load(path, STRATEGY, snapshot=True)
    assert len(replayed) == LATE  # written anew


@pytest.mark.parametrize("change", ["format", "libraries", "threads", "processor"])
def test_a_snapshot_of_another_environment_is_ignored(change, path, replayed, monkeypatch):
    if change == "format":
        monkeypatch.setattr(module, "STATE_FORMAT", 99)
    elif change == "libraries":
        monkeypatch.setattr(module, "libraries", lambda: {"torch": "0"})
    elif change == "threads":
        monkeypatch.setattr(torch, "get_num_threads", lambda: 99)
    else:
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "other")
    Loop.load(path, STRATEGY, snapshot=True)
    assert len(replayed) == COUNT + 1


def test_a_snapshot_of_another_strategy_is_ignored(path, replayed):
    other = adaptive_gp_ucb(bank=BANK, maximize=False)
    loop = Loop(other, BOX)
    for t in range(COUNT):
        loop.observe({"x": 0.5, "rate": 0.1, "layers": 2}, float(t % 3), time=float(t))
    loop.save(path)  # change lies beside is of the loop before
    replayed.clear()
    Loop.load(path, other, snapshot=True)
    assert len(replayed) == COUNT


def test_a_folder_that_takes_no_file_is_no_error(path, monkeypatch):
    beside(path, ENDING).unlink()

    def full(*given):
        raise OSError("no space left")

    monkeypatch.setattr(module, "write_whole", full)
    require_same_state(Loop.load(path, STRATEGY, snapshot=True), untouched())


def test_a_strategy_says_whether_its_states_are_restored(path, replayed, monkeypatch):
    monkeypatch.setattr(Adaptive, "restorable", False)
    Loop.load(path, STRATEGY, snapshot=True)
    assert len(replayed) == COUNT + 1
