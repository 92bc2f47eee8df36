"""Studies that last: whatever ends a study, the same call goes on from its finished chunks."""

import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from lasting import (
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
from mutations import survivors

from botorch_tv.simulation import Diagnosis, MarkovWorld, StudyResult
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.store import Store, discard
from botorch_tv.strategies import Grid, Strategy, gp_ucb, sw_gp_ucb, tv_gp_ucb


@pytest.fixture(scope="module")
def whole() -> StudyResult:
    """The study, uninterrupted and nowhere kept."""
    return study()


@pytest.fixture(scope="module")
def retained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the study when it is through, for copies alone."""
    folder = tmp_path_factory.mktemp("study") / "kept"
    study(folder)
    return folder


@pytest.fixture
def finished(retained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(retained, tmp_path / "kept")


# ------------------------------------------------------------------ going on


def test_a_kept_study_is_the_same_and_is_not_computed_again(whole, tmp_path) -> None:
    first = study(tmp_path)
    before = files(tmp_path)
    again = study(tmp_path)
    assert same(first, whole)
    assert same(again, whole)
    assert files(tmp_path) == before
    assert len(before) == FILES
    assert first.data.attrs["trials_found"] == 0
    assert again.data.attrs["trials_found"] == TRIALS


def test_diagnosis_is_kept(tmp_path) -> None:
    first = study(tmp_path, record=(Diagnosis(),), trials=10)
    assert "band" in first.data
    assert same(study(tmp_path, record=(Diagnosis(),), trials=10), first)


def test_workers_may_change(whole, tmp_path) -> None:
    study(tmp_path, trials=CHUNK, workers=1)
    assert same(study(tmp_path, workers=2), whole)


def test_the_folder_remembers_the_chunk(tmp_path) -> None:
    study(tmp_path, chunk=5, trials=10)
    assert study(tmp_path, chunk=None, trials=20).data.sizes["trial"] == 20
    shapes = {np.load(file)["regret"].shape for file in tmp_path.glob("*/*.npz")}
    assert shapes == {(5, HORIZON)}


def test_more_trials_extend_and_fewer_are_the_first(whole, tmp_path) -> None:
    study(tmp_path, trials=2 * CHUNK + 3)
    before = files(tmp_path)
    assert same(study(tmp_path), whole)
    after = files(tmp_path)
    assert before.items() <= after.items()
    assert len(after) == FILES + 3, "the short blocks stay, beside those that contain them"
    fewer = study(tmp_path, trials=2 * CHUNK + 5)
    assert same(fewer, StudyResult(whole.data.isel(trial=slice(2 * CHUNK + 5))))
    assert files(tmp_path) == after


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


def test_the_bar_starts_at_the_trials_found(tmp_path, capsys) -> None:
    study(tmp_path, trials=2 * CHUNK)
    study(tmp_path, trials=3 * CHUNK, progress=True)
    drawn = [line for line in capsys.readouterr().err.split("\r") if line]
    assert f" {2 * CHUNK}/{3 * CHUNK} " in drawn[0]
    assert f" {3 * CHUNK}/{3 * CHUNK} " in drawn[-1]


# ------------------------------------------------------------------ kills


@pytest.mark.parametrize("kills", [6, pytest.param(40, marks=pytest.mark.slow)])
def test_kills_at_random_moments(whole, tmp_path, kills) -> None:
    """Nothing is lost but the chunk under way, and the result never differs in a bit."""
    child = Child(run_through, tmp_path / "timed")
    assert child.received() == "started"
    began = time.perf_counter()
    assert same(child.received()[0], whole)
    duration = time.perf_counter() - began
    moments = random.Random(0)
    left = []
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
        left.append(len(before))
    assert len(set(left)) > 2, "the kills all hit the same chunk"


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


# ------------------------------------------------------------------ several processes


def test_processes_share_the_work(whole, tmp_path) -> None:
    children = [Child(run_beside_another, tmp_path) for _ in range(3)]
    assert [child.received() for child in children] == ["started"] * 3
    results, played = zip(*(child.received() for child in children))
    for child in children:
        child.end()
    assert all(same(result, whole) for result in results)
    assert sum(played) == CHUNKS
    assert sum(count > 0 for count in played) > 1, "one process did everything"


def test_the_chunk_of_a_process_that_dies_is_computed_by_another(whole, tmp_path) -> None:
    study(tmp_path, trials=CHUNK)
    holder = Child(hold_lock, tmp_path, number=3)
    assert holder.received() == "started"
    worker = Child(run_through, tmp_path)
    assert worker.received() == "started"
    deadline = time.perf_counter() + 60
    while len(files(tmp_path)) < FILES - 3 and time.perf_counter() < deadline:
        time.sleep(0.02)
    assert not worker.pipe.poll(0.5), "it did not wait for the chunk that another process holds"
    assert "ET/0000024-8.npz" not in files(tmp_path)
    holder.kill()
    result, _ = worker.received()
    assert same(result, whole)


# ------------------------------------------------------------------ damage


@pytest.mark.parametrize("damage", ["flipped", "truncated", "empty"])
def test_a_damaged_chunk_is_named_and_computed_again(whole, finished, damage) -> None:
    file = finished / "ET" / "0000016-8.npz"
    content = bytearray(file.read_bytes())
    if damage == "flipped":
        content[len(content) // 2] ^= 1
    file.write_bytes(content[: {"flipped": None, "truncated": 1500, "empty": 0}[damage]])
    before = files(finished)
    with pytest.warns(UserWarning, match=r"0000016-8\.npz is damaged .* computed again") as told:
        again = study(finished)
    assert len(told) == 1
    assert same(again, whole)
    assert again.data.attrs["trials_found"] == TRIALS - CHUNK
    changed = {name for name, one in files(finished).items() if before[name] != one}
    assert changed == {"ET/0000016-8.npz"}
    assert study(finished).data.attrs["trials_found"] == TRIALS


def test_no_flipped_bit_goes_unnoticed(finished) -> None:
    """A block with any byte changed is refused, or reads as it was written."""
    store = Store(finished, settings(), CHUNK, lambda: CHUNK)
    chunk, file = range(8, 8 + CHUNK), finished / "ET" / "0000008-8.npz"
    arrays = store.find(["ET"], chunk)["ET"]
    content, refused = file.read_bytes(), 0
    places = range(0, len(content), 3)
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
    with pytest.warns(UserWarning, match="it holds 8 trials from number 16 on"):
        assert same(study(finished), whole)


@pytest.mark.parametrize("other", ["seed", "strategy"])
def test_a_block_of_another_study_is_not_overwritten(finished, tmp_path, other) -> None:
    if other == "seed":
        study(tmp_path / "other", seed=1)
        source = tmp_path / "other" / "ET" / "0000008-8.npz"
    else:
        source = finished / "TV" / "0000008-8.npz"
    shutil.copy(source, finished / "ET" / "0000008-8.npz")
    before = files(finished)
    with pytest.raises(ValueError, match=r"0000008-8\.npz belongs to another study"):
        study(finished)
    assert files(finished) == before


@pytest.mark.parametrize("name", ["study.json", "TV/strategy.json"])
@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": 4, "study": {}}'])
def test_a_damaged_description(finished, name, content) -> None:
    file = finished / name
    retained = file.read_text()
    before = files(finished)
    file.write_text(content)
    with pytest.raises(ValueError, match=r"\.json is damaged, .* Restore it from a copy"):
        study(finished)
    assert files(finished) == before
    file.write_text(retained)
    assert study(finished).data.attrs["trials_found"] == TRIALS


def test_every_place_of_a_description(finished) -> None:
    file = finished / "study.json"
    before, own = files(finished), settings()
    wrong = survivors(
        file.read_text(),
        file.write_text,
        lambda: Store(finished, own, None, lambda: 1),
        names=str(finished),
        many=0,
    )
    assert wrong == []
    assert files(finished) == before


def settings() -> StudySettings:
    made = MarkovWorld(Grid.regular(5, 2), kernel=KERNEL, epsilon=0.05, noise=0.02)
    cpu = torch.device("cpu")
    return StudySettings(made, players(), HORIZON, 0, torch.float64, cpu)


def test_a_missing_description(whole, finished) -> None:
    """It is made again, and blocks are those of the same study or refused."""
    (finished / "study.json").unlink()
    with pytest.raises(ValueError, match="belongs to another study"):
        study(finished, seed=1)
    (finished / "study.json").unlink()
    assert study(finished).data.attrs["trials_found"] == TRIALS


def test_a_folder_of_another_version(finished) -> None:
    file = finished / "study.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"format": 99}))
    with pytest.raises(ValueError, match="written in another format than 4"):
        study(finished)


# ------------------------------------------------------------------ another study

OTHER_WORLD = MarkovWorld(Grid.regular(5, 2), kernel=KERNEL, epsilon=0.06, noise=0.02)
FINER_WORLD = MarkovWorld(Grid.regular(7, 2), kernel=KERNEL, epsilon=0.05, noise=0.02)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"seed": 1}, ["seed is 0 there and 1 here"]),
        ({"horizon": 11, "seed": 2}, ["horizon is 10 there and 11 here", "seed is 0 there and 2"]),
        ({"dtype": torch.float32}, ["dtype is 'float64' there and 'float32' here"]),
        ({"record": (Diagnosis(),)}, ["record.Diagnosis is absent there and Diagnosis here"]),
        ({"chunk": 9}, ["chunk is 8 there and 9 here"]),
        ({"world": OTHER_WORLD}, ["world.epsilon is 0.05 there and 0.06 here"]),
        (
            {"world": FINER_WORLD},
            ["world.domain.X is float64 25 x 2, sha256", "world.domain.shape"],
        ),
        (
            {"strategies": players() | {"TV": tv_gp_ucb(kernel=KERNEL, noise=0.02, epsilon=0.03)}},
            ["strategies.TV.decay.epsilon is 0.05 there and 0.03 here"],
        ),
        (
            {"strategies": players() | {"TV": sw_gp_ucb(kernel=KERNEL, noise=0.02, window=9)}},
            [
                "strategies.TV.decay is Markov there and Static here",
                "strategies.TV.retention is KeepAll there and SlidingWindow here",
            ],
        ),
        (
            {
                "strategies": players()
                | {"TV": tv_gp_ucb(kernel=unit_kernel("se", 0.3), noise=0.02, epsilon=0.05)}
            },
            ["strategies.TV.kernel.kernel is 'RBFKernel(lengthscale=0.25)' there and 'RBFK"],
        ),
    ],
)
def test_another_study_is_refused_and_every_difference_named(tmp_path, changes, told) -> None:
    study(tmp_path, trials=3)
    before = files(tmp_path)
    with pytest.raises(ValueError, match="holds another study") as refused:
        study(tmp_path, trials=3, **changes)
    for phrase in told:
        assert phrase in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    assert files(tmp_path) == before


def test_matrices_that_other_threads_computed(tmp_path) -> None:
    """What differs by rounding is the same study; what differs by more is not."""

    def told(share: float) -> dict[str, Strategy]:
        return {"GP": gp_ucb(kernel=torch.eye(25).double() * share, noise=0.02)}

    study(tmp_path, trials=1, strategies=told(1.0))
    for share in (1.0, 1 + 1e-15):
        again = study(tmp_path, trials=1, strategies=told(share))
        assert again.data.attrs["trials_found"] == 1
    with pytest.raises(ValueError, match=r"kernel is float64 25 x 25, sha256 .* there and"):
        study(tmp_path, trials=1, strategies=told(1 + 1e-8))


# ------------------------------------------------------------------ no room, no right


def test_a_full_disk(whole, tmp_path) -> None:
    study(tmp_path, trials=2 * CHUNK)
    before = files(tmp_path)
    child = Child(run_into_full_disk, tmp_path)
    assert child.received() == "started"
    error = child.received()
    child.end()
    assert isinstance(error, OSError)
    assert "File too large" in str(error)
    assert "0000016-8.npz could not be written. The blocks finished" in error.__notes__[0]
    assert files(tmp_path) == before
    assert not list(tmp_path.glob("*/.*.part"))
    assert same(study(tmp_path), whole)


def test_a_file_in_the_way(tmp_path) -> None:
    (tmp_path / "taken").write_text("mine")
    for path in (tmp_path / "taken", tmp_path / "taken" / "below"):
        with pytest.raises(OSError, match="taken"):
            study(path)
    assert (tmp_path / "taken").read_text() == "mine"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_is_read_only(tmp_path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(OSError, match="Permission denied"):
        study(tmp_path / "kept")
    with pytest.raises(OSError, match="Permission denied"):
        study(tmp_path)


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
def test_a_folder_that_cannot_be_made() -> None:
    with pytest.raises(OSError, match="/proc/self/kept"):
        study(Path("/proc/self/kept"))


def test_a_finished_study_is_read_where_nothing_can_be_written(finished, monkeypatch) -> None:
    def refused(*_, **__):
        raise PermissionError("read-only")

    for name in ("replace", "fsync"):
        monkeypatch.setattr(os, name, refused)
    monkeypatch.setattr("filelock.FileLock.acquire", refused)
    assert study(finished).data.attrs["trials_found"] == TRIALS
    with pytest.raises(OSError, match="read-only"):
        study(finished, trials=TRIALS + CHUNK)


# ------------------------------------------------------------------ putting away


def test_discard_removes_what_studies_wrote_and_nothing_else(finished) -> None:
    (finished / "ET" / ".0000008-8.npz.part").touch()
    (finished / "notes.txt").write_text("mine")
    discard(finished, TRIALS - CHUNK)
    assert len(files(finished)) == FILES, "trials nobody has asked for may still be wanted"
    discard(finished, TRIALS)
    assert [path.name for path in finished.iterdir()] == ["notes.txt"]
    (finished / "notes.txt").unlink()
    discard(finished, TRIALS)
    assert not finished.exists()
    discard(finished, TRIALS)


def test_sizes() -> None:
    assert TRIALS % CHUNK, "the last chunk is to be a short one"
    assert HORIZON > 1
