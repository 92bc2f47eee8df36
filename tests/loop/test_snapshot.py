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
from botorch_tv.loop import snapshot as module
from botorch_tv.loop.snapshot import ENDING, EVERY, LATE
from botorch_tv.strategies import Float, Integer, Strategy, adaptive_gp_ucb

BANK = Bank(rates=(0.0, 0.03), lengthscales=(0.3,), noise_ratios=(0.01,), features=12)
STRATEGY = adaptive_gp_ucb(bank=BANK)
BOX = {"x": (0, 1), "rate": Float(1e-4, 1.0, log=True), "layers": Integer(1, 6)}
TOLD = EVERY + LATE + 3


@cache
def saved() -> tuple[bytes, bytes]:
    """A file of enough answers, one of which failed, with one open; and what lies beside it."""
    loop = Loop(STRATEGY, BOX, pending=2)
    for t in range(TOLD):
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
def untouched() -> Loop:
    """The loop of the file alone, only to be looked at."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "loop.json"
        path.write_bytes(saved()[0])
        return Loop.load(path, STRATEGY)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "loop.json"
    for name, content in zip((path, beside(path, ENDING)), saved()):
        name.write_bytes(content)
    return path


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Times of the answers told."""
    times: list[float] = []
    plain = Strategy.tell

    def counted(self, state, suggestion, y, **named):
        times.append(float(suggestion.time))
        return plain(self, state, suggestion, y, **named)

    monkeypatch.setattr(Strategy, "tell", counted)
    return times


def require_known(one: Loop, other: Loop) -> None:
    """All that two loops know is the same to the last bit."""
    assert one.table().equals(other.table())
    mine, its = one.state.data.running, other.state.data.running
    for part, its_part in zip((*mine.mean, *mine.covariance), (*its.mean, *its.covariance)):
        assert torch.equal(part, its_part)
    for name in ("scale", "log_weight", "since"):
        assert torch.equal(getattr(mine, name), getattr(its, name))


def require_alike(one: Loop, other: Loop) -> None:
    """All that two loops know and will do is the same to the last bit."""
    require_known(one, other)
    assert one.describe() == other.describe()
    assert one.ask().point == other.ask().point
    for loop in (one, other):
        loop.observe({"x": 0.5, "rate": 0.01, "layers": 3}, 2.0, time=TOLD - 2.5)  # late
        loop.tell(1.0, suggestion=loop.open[0])
    mine, its = one.ask(), other.ask()
    assert (mine.point, mine.mean, mine.sd) == (its.point, its.mean, its.sd)


def test_only_the_newest_answers_are_told(path: Path, told: list[float]) -> None:
    Loop.load(path, STRATEGY, snapshot=True)
    assert len(told) == LATE
    told.clear()
    Loop.load(path, STRATEGY)
    assert len(told) == TOLD + 1


def test_it_is_the_same_loop(path: Path) -> None:
    require_alike(Loop.load(path, STRATEGY, snapshot=True), Loop.load(path, STRATEGY))


def test_answers_after_it_are_told(path: Path, told: list[float]) -> None:
    loop = Loop.load(path, STRATEGY, snapshot=True)
    for t in range(5):
        loop.observe({"x": 0.1 * t, "rate": 0.5, "layers": 1}, 0.3 * t, time=TOLD + 5.0 + t)
    loop.save(path)
    told.clear()
    again = Loop.load(path, STRATEGY, snapshot=True)
    assert len(told) == LATE + 5
    require_alike(again, Loop.load(path, STRATEGY))


def test_a_newer_one_is_written_after_enough_answers(path: Path, told: list[float]) -> None:
    loop = Loop.load(path, STRATEGY)
    for t in range(EVERY):
        loop.observe({"x": 0.01 * t, "rate": 0.5, "layers": 1}, 0.3 * t, time=TOLD + 5.0 + t)
    loop.save(path)
    Loop.load(path, STRATEGY, snapshot=True)
    told.clear()
    again = Loop.load(path, STRATEGY, snapshot=True)
    assert len(told) == LATE
    require_alike(again, Loop.load(path, STRATEGY))


def edited(path: Path, change) -> None:
    content = json.loads(path.read_bytes())
    del content["digests"]
    change(content)
    path.write_text(json.dumps(content))


def swapped(content) -> None:
    content["answers"][4]["y"] += 1e-12


def late(content) -> None:
    row = dict(content["answers"][5])
    content["answers"].insert(
        6, row | {"number": -99, "time": 5.5, "arrival": len(content["answers"])}
    )


def fewer(content) -> None:
    retained = sorted(content["answers"], key=lambda row: row["arrival"])[:20]
    content["answers"], content["open"] = retained, []


@pytest.mark.parametrize("change", [swapped, late, fewer])
def test_of_other_answers_it_is_not_looked_at(change, path: Path, told: list[float]) -> None:
    edited(path, change)
    loop = Loop.load(path, STRATEGY, snapshot=True)
    assert len(told) == len(json.loads(path.read_bytes())["answers"])
    require_alike(loop, Loop.load(path, STRATEGY))


class Trap:
    """Runs where it is unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("code of a snapshot was run",))


def sealed(content: bytes) -> bytes:
    return module.hashlib.sha256(content).hexdigest().encode() + content


def changed(**parts) -> bytes:
    content = torch.load(io.BytesIO(saved()[1][64:]), weights_only=True)
    out = io.BytesIO()
    torch.save(content | parts, out)
    return sealed(out.getvalue())


def poorer() -> bytes:
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


@pytest.mark.filterwarnings("ignore:Detected pickle protocol")
@pytest.mark.parametrize("name", DAMAGED)
def test_damaged_it_is_not_looked_at(name: str, path: Path, told: list[float]) -> None:
    beside(path, ENDING).write_bytes(DAMAGED[name]())
    loop = Loop.load(path, STRATEGY, snapshot=True)
    assert len(told) == TOLD + 1
    require_known(loop, untouched())
    told.clear()
    Loop.load(path, STRATEGY, snapshot=True)
    assert len(told) == LATE  # written anew


@pytest.mark.parametrize("what", ["libraries", "threads", "processor"])
def test_computed_by_others_it_is_not_looked_at(
    what: str, path: Path, told: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    if what == "libraries":
        monkeypatch.setattr(module, "libraries", lambda: {"torch": "0"})
    elif what == "threads":
        monkeypatch.setattr(torch, "get_num_threads", lambda: 99)
    else:
        monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "other")
    Loop.load(path, STRATEGY, snapshot=True)
    assert len(told) == TOLD + 1


def test_of_another_strategy_it_is_not_looked_at(path: Path, told: list[float]) -> None:
    other = adaptive_gp_ucb(bank=BANK, maximize=False)
    loop = Loop(other, BOX)
    for t in range(TOLD):
        loop.observe({"x": 0.5, "rate": 0.1, "layers": 2}, float(t % 3), time=float(t))
    loop.save(path)  # what lies beside is of the loop before
    told.clear()
    Loop.load(path, other, snapshot=True)
    assert len(told) == TOLD


def test_a_folder_that_takes_no_file_is_no_error(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    beside(path, ENDING).unlink()

    def full(*given: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(module, "write_whole", full)
    require_alike(Loop.load(path, STRATEGY, snapshot=True), Loop.load(path, STRATEGY))


def test_few_answers_and_other_strategies_have_none(tmp_path: Path) -> None:
    path = tmp_path / "loop.json"
    loop = Loop(STRATEGY, BOX)
    for t in range(EVERY + LATE - 1):
        loop.observe({"x": 0.5, "rate": 0.1, "layers": 2}, float(t % 3), time=float(t))
    loop.save(path)
    Loop.load(path, STRATEGY, snapshot=True)
    assert not beside(path, ENDING).exists()
