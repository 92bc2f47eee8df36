import errno
import os
import random
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from filelock import FileLock
from helpers.child_study import (
    CHUNK,
    CHUNKS,
    FILES,
    HORIZON,
    KERNEL,
    TRIALS,
    Child,
    StumblingWorld,
    die_while_writing,
    files,
    hold_lock,
    players,
    run_beside_another,
    run_into_full_disk,
    run_through,
    same,
    study,
)

from botorch_tv.simulation import Diagnosis, MarkovWorld, StudyResult, executors
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.store import Store, discard
from botorch_tv.strategies import Grid, tv_gp_ucb


@pytest.fixture(scope="module")
def whole() -> StudyResult:
    return study()


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the finished study, for copies."""
    folder = tmp_path_factory.mktemp("study") / "study"
    study(folder)
    return folder


@pytest.fixture
def finished(template: Path, tmp_path: Path) -> Path:
    return shutil.copytree(template, tmp_path / "study")


@pytest.mark.full
def test_a_stored_study_is_the_same_and_is_not_computed_again(whole, tmp_path) -> None:
    first = study(tmp_path, trials=CHUNK, workers=1)
    assert first.data.attrs["trials_found"] == 0
    assert same(study(tmp_path, workers=2), whole)
    before = files(tmp_path)
    again = study(tmp_path, chunk=None)
    assert same(again, whole)
    assert files(tmp_path) == before
    assert len(before) == FILES
    assert again.data.attrs["trials_found"] == TRIALS


@pytest.mark.full
def test_more_trials_extend_and_fewer_are_the_first(whole, tmp_path) -> None:
    study(tmp_path, trials=2 * CHUNK + 3)
    before = files(tmp_path)
    assert same(study(tmp_path), whole)
    after = files(tmp_path)
    assert before.items() <= after.items()
    assert len(after) == FILES + 3
    fewer = study(tmp_path, trials=2 * CHUNK + 5)
    assert same(fewer, StudyResult(whole.data.isel(trial=slice(2 * CHUNK + 5))))
    assert files(tmp_path) == after


@pytest.mark.few(1)
@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("workers", [1, 2])
def test_finished_chunks_survive_an_error(whole, tmp_path, error, workers) -> None:
    with pytest.raises(error, match="stumbled"):
        study(tmp_path, world=StumblingWorld(3, error), workers=workers)
    before = files(tmp_path)
    assert 3 <= len(before) <= 9
    if workers == 1:
        assert len(before) == 9
    assert not list(tmp_path.glob("*.part"))
    result = study(tmp_path, world=StumblingWorld(99, error))
    assert same(result, whole)
    assert result.data.attrs["trials_found"] == CHUNK * (len(before) // 3)
    assert before.items() <= files(tmp_path).items()


@pytest.mark.slow
def test_kills_at_random_moments(whole, tmp_path) -> None:
    """Only the chunk in progress is lost, and the result is the same to the bit."""
    kills = 40
    child = Child(run_through, tmp_path / "timed")
    assert child.received() == "started"
    began = time.perf_counter()
    assert same(child.received()[0], whole)
    duration = time.perf_counter() - began
    moments, finished = random.Random(0), []
    for kill in range(kills):
        folder = tmp_path / str(kill)
        child = Child(run_through, folder)
        assert child.received() == "started"
        deadline = time.perf_counter() + 60
        while len(files(folder)) < kill * FILES // kills and time.perf_counter() < deadline:
            time.sleep(0.001)
        time.sleep(moments.uniform(0, 1) / CHUNKS * duration)
        child.kill()
        assert child.process.exitcode in (-signal.SIGKILL, 0)
        before = files(folder)
        result = study(folder)
        assert same(result, whole)
        assert before.items() <= files(folder).items()
        assert result.data.attrs["trials_found"] == min(CHUNK * (len(before) // 3), TRIALS)
        finished.append(len(before))
    assert len(set(finished)) > 2, "the kills all hit the same chunk"


@pytest.mark.full
@pytest.mark.parametrize("step", ["write", "rename", "synchronise"])
def test_a_kill_while_a_chunk_is_written(whole, tmp_path, step) -> None:
    child = Child(die_while_writing, tmp_path, step=step)
    assert child.received() == "started"
    child.process.join(60)
    assert child.process.exitcode == -signal.SIGKILL
    before = files(tmp_path)
    assert len(before) == 7
    result = study(tmp_path)
    assert result.data.attrs["trials_found"] == 2 * CHUNK
    assert same(result, whole)
    assert before.items() <= files(tmp_path).items()
    assert not list(tmp_path.glob("*/.*.part"))


@pytest.mark.full
def test_processes_share_the_work(whole, tmp_path) -> None:
    children = [Child(run_beside_another, tmp_path) for _ in range(3)]
    assert [child.received() for child in children] == ["started"] * 3
    results, played = zip(*(child.received() for child in children))
    for child in children:
        child.end()
    assert all(same(result, whole) for result in results)
    assert sum(played) == CHUNKS
    assert sum(count > 0 for count in played) > 1, "one process played all chunks"


@pytest.mark.full
def test_the_chunk_of_a_process_that_dies_is_computed_by_another(whole, tmp_path) -> None:
    study(tmp_path, trials=CHUNK)
    holder = Child(hold_lock, tmp_path, number=3)
    assert holder.received() == "started"
    worker = Child(run_through, tmp_path)
    assert worker.received() == "started"
    deadline = time.perf_counter() + 60
    while len(files(tmp_path)) < FILES - 3 and time.perf_counter() < deadline:
        time.sleep(0.02)
    assert not worker.pipe.poll(0.5), "it did not wait for another process"
    assert "ET/0000024-8.npz" not in files(tmp_path)
    holder.kill()
    result, _ = worker.received()
    assert same(result, whole)


@pytest.mark.few("0")
@pytest.mark.parametrize("length", [1500, 0])
def test_a_truncated_chunk_is_named_and_computed_again(whole, finished, length) -> None:
    file = finished / "ET" / "0000016-8.npz"
    file.write_bytes(file.read_bytes()[:length])
    before = files(finished)
    with pytest.warns(UserWarning, match=r"0000016-8\.npz is damaged .* computed again"):
        again = study(finished)
    assert same(again, whole)
    assert again.data.attrs["trials_found"] == TRIALS - CHUNK
    changed = {name for name, content in files(finished).items() if before[name] != content}
    assert changed == {"ET/0000016-8.npz"}


@pytest.mark.full
def test_blocks_with_flipped_bits_are_refused_or_unchanged(finished) -> None:
    store = Store(finished, settings(), CHUNK, lambda: CHUNK)
    chunk, file = range(8, 8 + CHUNK), finished / "ET" / "0000008-8.npz"
    arrays = store.find(["ET"], chunk)["ET"]
    content, refused = file.read_bytes(), 0
    places = range(0, len(content), 7)
    for place in places:
        file.write_bytes(content[:place] + bytes([content[place] ^ 0x11]) + content[place + 1 :])
        found = store.find(["ET"], chunk)
        refused += not found
        for block in found.values():
            assert block.keys() == arrays.keys()
            for name, array in arrays.items():
                np.testing.assert_array_equal(block[name], array)
    assert refused > len(places) / 2


def test_a_block_under_the_name_of_another_is_damaged(whole, finished) -> None:
    shutil.copy(finished / "ET" / "0000016-8.npz", finished / "ET" / "0000008-8.npz")
    with pytest.warns(UserWarning, match="the file has 8 trials from number 16 on"):
        assert same(study(finished), whole)


@pytest.mark.few("strategy")
@pytest.mark.parametrize("other", ["seed", "strategy"])
def test_a_block_of_another_study_is_not_overwritten(finished, tmp_path, other) -> None:
    source = finished / "TV" / "0000008-8.npz"
    if other == "seed":
        study(tmp_path / "other", seed=1)
        source = tmp_path / "other" / "ET" / "0000008-8.npz"
    shutil.copy(source, finished / "ET" / "0000008-8.npz")
    before = files(finished)
    with pytest.raises(ValueError, match=r"0000008-8\.npz belongs to another study"):
        study(finished)
    assert files(finished) == before


@pytest.mark.few(2)
@pytest.mark.parametrize("name", ["study.json", "TV/strategy.json"])
@pytest.mark.parametrize("content", ["", "[]", "{}"])
def test_a_damaged_description(finished, name, content) -> None:
    file = finished / name
    text, before = file.read_text(), files(finished)
    file.write_text(content)
    with pytest.raises(ValueError, match=r"\.json is damaged"):
        study(finished)
    assert files(finished) == before
    file.write_text(text)
    assert study(finished).data.attrs["trials_found"] == TRIALS


def settings() -> StudySettings:
    return StudySettings(world(), players(), HORIZON, 0, torch.float64, torch.device("cpu"))


def test_a_missing_description(whole, finished) -> None:
    (finished / "study.json").unlink()
    with pytest.raises(ValueError, match="belongs to another study"):
        study(finished, seed=1)
    (finished / "study.json").unlink()
    assert study(finished).data.attrs["trials_found"] == TRIALS


def world(epsilon: float = 0.05) -> MarkovWorld:
    return MarkovWorld(Grid.regular(5, 2), kernel=KERNEL, epsilon=epsilon, noise=0.02)


FASTER = {"TV": tv_gp_ucb(kernel=KERNEL, noise=0.02, epsilon=0.03)}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("changes", "differences"),
    [
        ({"horizon": 11, "seed": 2}, ["horizon is 10 there and 11 here", "seed is 0 there and 2"]),
        ({"dtype": torch.float32}, ["dtype is 'float64' there and 'float32' here"]),
        ({"record": (Diagnosis(),)}, ["record is [] there and [Diagnosis] here"]),
        ({"chunk": 9}, ["chunk is 8 there and 9 here"]),
        ({"world": world(epsilon=0.06)}, ["world.epsilon is 0.05 there and 0.06 here"]),
        ({"strategies": players() | FASTER}, ["TV.decay.epsilon is 0.05 there and 0.03 here"]),
    ],
)
def test_another_study_is_refused_with_every_difference(tmp_path, changes, differences) -> None:
    study(tmp_path, trials=3)
    before = files(tmp_path)
    with pytest.raises(ValueError, match="holds another study") as refused:
        study(tmp_path, trials=3, **changes)
    for phrase in [*differences, str(tmp_path)]:
        assert phrase in str(refused.value)
    assert files(tmp_path) == before


@pytest.mark.full
def test_a_full_disk(whole, tmp_path) -> None:
    study(tmp_path, trials=2 * CHUNK)
    before = files(tmp_path)
    child = Child(run_into_full_disk, tmp_path)
    assert child.received() == "started"
    error = child.received()
    child.end()
    assert isinstance(error, OSError)
    assert "File too large" in str(error)
    assert "0000016-8.npz could not be written. Blocks finished" in error.__notes__[0]
    assert files(tmp_path) == before
    assert not list(tmp_path.glob("*/.*.part"))
    assert same(study(tmp_path), whole)


def test_a_finished_study_is_read_where_nothing_can_be_written(finished, monkeypatch) -> None:
    def refused(*_, **__):
        raise PermissionError("read-only")

    for name in ("replace", "fsync"):
        monkeypatch.setattr(os, name, refused)
    monkeypatch.setattr("filelock.FileLock.acquire", refused)
    assert study(finished).data.attrs["trials_found"] == TRIALS
    with pytest.raises(OSError, match="read-only"):
        study(finished, trials=TRIALS + CHUNK)


def test_discard_removes_only_files_of_studies(finished) -> None:
    (finished / "ET" / ".0000008-8.npz.part").touch()
    (finished / "notes.txt").write_text("mine")
    discard(finished, TRIALS - CHUNK)
    assert len(files(finished)) == FILES
    discard(finished, TRIALS)
    assert [path.name for path in finished.iterdir()] == ["notes.txt"]
    (finished / "notes.txt").unlink()
    discard(finished, TRIALS)
    assert not finished.exists()
    discard(finished, TRIALS)


@pytest.mark.full
@pytest.mark.parametrize("number", [errno.ENOSYS, errno.ENOLCK, errno.EOPNOTSUPP])
def test_file_systems_without_locks(tmp_path, monkeypatch, number) -> None:
    def unsupported(*_: object, **__: object) -> None:
        raise OSError(number, "Function not implemented")

    monkeypatch.setattr(FileLock, "acquire", unsupported)
    assert same(study(tmp_path, trials=CHUNK), study(trials=CHUNK))


@pytest.mark.full
def test_patience_with_a_lock_is_limited(whole, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(executors, "PATIENCE_SECONDS", 0.5)
    holder = Child(hold_lock, tmp_path, number=1)
    assert holder.received() == "started"
    assert same(study(tmp_path), whole)
    assert len(files(tmp_path)) == FILES
    holder.kill()


@pytest.mark.full
def test_an_interrupt_ends_the_wait_for_a_lock(tmp_path, monkeypatch) -> None:
    holder = Child(hold_lock, tmp_path, number=1)
    assert holder.received() == "started"
    claim = executors.Store.claim

    def interrupted(*arguments: Any) -> Any:
        if arguments[2] > 0:  # the others are played
            raise KeyboardInterrupt
        return claim(*arguments)

    monkeypatch.setattr(executors.Store, "claim", interrupted)
    with pytest.raises(KeyboardInterrupt):
        study(tmp_path, workers=2)
    assert len(files(tmp_path)) == FILES - 3
    holder.kill()
