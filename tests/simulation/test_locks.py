"""Who is at work on a chunk, without locks of the operating system."""

import json
import os
import time
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from lasting import CHUNK, TRIALS, Child, die_while_claiming, files, same, study

from botorch_tv.files import this_host
from botorch_tv.simulation import locks, turns
from botorch_tv.simulation.folder import StudyFolder
from botorch_tv.simulation.locks import Holder, WorkLock
from botorch_tv.simulation.settings import Chunk

GONE = 2**22 + 1  # no process has so high a number


def held_by(path: Path, host: str, process: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    since = "2026-01-01 12:00:00+00:00"
    path.write_text(json.dumps({"host": host, "process": process, "since": since, "token": "1"}))


def test_one_at_a_time(tmp_path: Path) -> None:
    mine, other = WorkLock(tmp_path / "lock"), WorkLock(tmp_path / "lock")
    assert mine.claim()
    assert not other.claim()
    assert f"process {os.getpid()} on {this_host()}, at work since" in str(other.holder())
    mine.release()
    assert other.claim()
    mine.release()  # no longer its own
    assert other.path.exists()
    other.release()
    assert list(tmp_path.iterdir()) == []


def test_that_of_a_process_that_died_here_is_taken_over_at_once(tmp_path: Path) -> None:
    held_by(tmp_path / "lock", this_host(), GONE)
    assert WorkLock(tmp_path / "lock").claim()


def test_whoever_dies_while_claiming_is_not_waited_for(tmp_path: Path) -> None:
    """A lock is whole or not there, and nothing else stays."""
    child = Child(die_while_claiming, tmp_path / "lock")
    died_before, died_after = 0, 0
    with suppress(EOFError):
        while True:
            holder, claimed = child.told()
            assert claimed, f"{holder} is waited for"
            died_before += holder is None
            died_after += holder is not None
    assert died_before > 5
    assert died_after > 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("content", ["elsewhere", "", "[", '{"host": 1}', "[" * 100_000])
def test_that_of_another_machine_only_without_sign_of_life(
    tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(locks, "time", SimpleNamespace(monotonic=lambda: now))
    path = tmp_path / "lock"
    held_by(path, "elsewhere", os.getpid())
    if content != "elsewhere":
        path.write_text(content)
    lock = WorkLock(path)
    for beat in range(8):  # signs of life, for longer than a silence may last
        now += locks.LIFELESS_SECONDS / 6
        os.utime(path, (beat, beat))
        assert not lock.claim()
    now += locks.LIFELESS_SECONDS
    assert not lock.claim()
    now += 1.0
    assert lock.claim()


def test_the_holder_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "BEAT_SECONDS", 0.02)
    lock = WorkLock(tmp_path / "lock")
    lock.claim()
    os.utime(lock.path, (0, 0))
    deadline = time.monotonic() + 20
    while lock.path.stat().st_mtime == 0:
        assert time.monotonic() < deadline, "no sign of life"
        time.sleep(0.02)
    lock.release()


def test_a_study_needs_no_locks_of_the_operating_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    for name in ("flock", "lockf"):
        monkeypatch.setattr(fcntl, name, unsupported)
    assert same(study(tmp_path, trials=CHUNK), study(trials=CHUNK))


def test_a_study_says_what_it_waits_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "PATIENCE_SECONDS", 0.1)
    file = tmp_path / "locks" / "chunk-00001.lock"
    held_by(file, "elsewhere", 7)
    honest = StudyFolder.waited_for

    def deleted(folder: StudyFolder, chunk: Chunk) -> str:
        words = honest(folder, chunk)
        file.unlink()  # as the words advise
        return words

    monkeypatch.setattr(StudyFolder, "waited_for", deleted)
    with pytest.warns(UserWarning, match="waiting for trials 8 to 15") as told:
        result = study(tmp_path)
    assert len(told) == 1
    message = str(told[0].message)
    assert "computed by process 7 on elsewhere, at work since 2026-01-01 12:00:00+00:00" in message
    assert "no sign of life for 120 s, they are computed here" in message
    assert f"if you know that it has ended, delete {file}" in message
    assert same(result, study())
    assert len(files(tmp_path)) == -(-TRIALS // CHUNK)
    assert list((tmp_path / "locks").iterdir()) == []


def test_a_study_goes_on_without_one_that_is_silent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locks, "LIFELESS_SECONDS", 0.1)
    held_by(tmp_path / "locks" / "chunk-00001.lock", "elsewhere", 7)
    assert same(study(tmp_path), study())


def test_what_is_known_of_a_holder() -> None:
    assert str(Holder()) == "process 0 on an unknown machine, at work since an unknown time"
