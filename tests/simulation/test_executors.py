import pickle
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.child_study import CHUNK, CHUNKS, FILES, KERNEL, files, players, prepared, study
from simulation.strange_executors import (
    DeadlyWorld,
    Interrupted,
    PeculiarWorld,
    PlainWorld,
    Queue,
    Remote,
    StumblingWorld,
)
from torch import Tensor

from botorch_tv.forgetting import EventTrigger
from botorch_tv.identity import libraries
from botorch_tv.simulation import StudyResult, World, executors
from botorch_tv.simulation.store import Store
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import Objective, OnArms
from botorch_tv.strategies import GPStrategy, Grid, Strategy, gp_ucb

EXECUTORS = {"remote": Remote, "queue": Queue, "threads": partial(ThreadPoolExecutor, 2)}


def processes(workers: int) -> ProcessPoolExecutor:
    """Workers that start in milliseconds."""
    return ProcessPoolExecutor(workers, mp_context=prepared())


def identical(first: StudyResult, second: StudyResult) -> bool:
    return bool(first.data.drop_attrs().identical(second.data.drop_attrs()))


def first(result: StudyResult, trials: int) -> StudyResult:
    return StudyResult(result.data.isel(trial=slice(trials)))


@pytest.fixture(scope="module")
def whole() -> StudyResult:
    return study()


@pytest.fixture(scope="module")
def spawned() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as executor:
        yield executor


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that do not see the folder of the study."""
    monkeypatch.setattr(Store, "is_here", lambda self: False)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", EXECUTORS)
def test_results_are_those_of_a_single_process(whole, tmp_path, name) -> None:
    threads = torch.get_num_threads()
    assert identical(study(executor=EXECUTORS[name](), trials=20), first(whole, 20))
    assert identical(study(tmp_path, executor=EXECUTORS[name](), trials=20), first(whole, 20))
    assert torch.get_num_threads() == threads
    before = files(tmp_path)
    assert len(before) == 9
    again = study(tmp_path, trials=20)  # in this process: it is the same study
    assert identical(again, first(whole, 20))
    assert again.data.attrs["trials_found"] == 20
    assert files(tmp_path) == before


@pytest.mark.full
def test_spawned_processes(whole, spawned, tmp_path) -> None:
    assert identical(study(executor=spawned), whole)
    assert identical(study(tmp_path, executor=spawned), whole)
    assert spawned.submit(abs, -1).result() == 1  # open as before


@pytest.mark.full
def test_studies_resume(whole, tmp_path) -> None:
    study(tmp_path, trials=2 * CHUNK, executor=Remote())
    executor = Queue()
    assert identical(study(tmp_path, executor=executor), whole)
    assert executor.arrays == [CHUNKS - 2]
    assert identical(study(tmp_path, executor=executor), whole)
    assert executor.arrays == [CHUNKS - 2]  # nothing to do


@pytest.mark.full
def test_blocks_sent_by_workers_are_saved(whole, tmp_path, monkeypatch, apart) -> None:
    monkeypatch.setattr(executors, "libraries", lambda: libraries() | {"torch": "2.99"})
    result = study(tmp_path, executor=Remote())
    assert identical(result, whole)
    assert len(files(tmp_path)) == FILES
    assert not (tmp_path / ".locks").exists()
    assert result.data.attrs["torch"] == "2.99"
    assert study(tmp_path).data.attrs["torch"] == "2.99"


def test_a_folder_with_the_same_name_elsewhere(tmp_path, monkeypatch) -> None:
    stores, is_here = [], Store.is_here
    monkeypatch.setattr(Store, "is_here", lambda self: stores.append(self) or is_here(self))
    study(tmp_path, executor=Remote(), trials=CHUNK)
    (store,) = stores
    assert is_here(store)
    description = tmp_path / "study.json"
    description.write_text(description.read_text() + " ")
    assert not is_here(store)
    description.unlink()
    assert not is_here(store)


@pytest.mark.full
def test_blocks_that_appear_late_are_computed_again(whole, tmp_path, monkeypatch) -> None:
    find, receiving, executor = Store.find, False, Queue()
    fetch = executor.fetch

    def late(self: Store, *arguments: Any, **settings: Any) -> Any:
        return {} if receiving else find(self, *arguments, **settings)

    def at_work(order: bytes) -> Any:
        nonlocal receiving
        receiving = False
        answer = fetch(order)
        receiving = True  # no file is visible until the next task
        return answer

    monkeypatch.setattr(Store, "find", late)
    monkeypatch.setattr(executor, "fetch", at_work)
    assert identical(study(tmp_path, executor=executor), whole)
    assert executor.arrays == [CHUNKS, CHUNKS]


@pytest.mark.parametrize("name", EXECUTORS)
def test_errors_say_where_they_occurred(name) -> None:
    where = "run_study: in round 3 of trials 8 to 15, as the world makes its objective."
    for run in ({"executor": EXECUTORS[name]()}, {"workers": 2}):
        with pytest.raises(KeyError) as error:
            study(world=StumblingWorld(), trials=16, **run)
        assert error.value.__notes__[0] == where


def test_errors_that_cannot_be_pickled_become_text() -> None:
    with pytest.raises(RuntimeError, match=r"^Peculiar: this and that\n") as error:
        study(world=PeculiarWorld(), executor=Remote())
    assert "in round 1 of trials 8 to 15, as the world makes its objective." in str(error.value)


def test_notes_name_the_cause() -> None:
    class Broken:
        def submit(self, function: Any, /, *arguments: Any) -> Any:
            raise OSError("no node is free")

    class Local(PlainWorld):
        pass

    with pytest.raises(OSError, match="no node is free") as error:
        study(executor=Broken())
    assert "give save_to=FOLDER to save finished trials" in error.value.__notes__[0]
    with pytest.raises((pickle.PicklingError, AttributeError)) as error:
        study(world=Local(), executor=Remote())
    assert "at the top level of a module" in error.value.__notes__[0]


@pytest.mark.full
def test_a_worker_that_dies_loses_only_its_block(whole, tmp_path) -> None:
    trap, folder = tmp_path / "trap", tmp_path / "study"
    trap.touch()
    with processes(2) as executor:
        for _ in range(2):
            with pytest.raises(BrokenProcessPool) as error:
                study(folder, world=DeadlyWorld(trap), executor=executor)
            assert f"finished trials are saved in {folder}" in error.value.__notes__[0]
    before = files(folder)
    assert len(before) < FILES
    with processes(2) as executor:
        result = study(folder, world=DeadlyWorld(trap), executor=executor)
    assert identical(result, whole)
    assert before.items() <= files(folder).items()
    blocks = Counter(Path(name).stem for name in before)
    found = sum(int(block.partition("-")[2]) for block, count in blocks.items() if count == 3)
    assert result.data.attrs["trials_found"] == found


@pytest.mark.full
@pytest.mark.parametrize("done", [0, 3])
def test_an_interrupt_cancels_pending_tasks_and_saves_finished_blocks(
    whole, tmp_path, apart, done
) -> None:
    executor = Interrupted(done)
    with pytest.raises(KeyboardInterrupt, match="pressed"):
        study(tmp_path, executor=executor)
    assert [future.cancelled() for future in executor.futures] == [False] * (done + 1) + [True] * (
        CHUNKS - done - 1
    )
    assert len(files(tmp_path)) == 3 * done
    assert identical(study(tmp_path, executor=Remote()), whole)


def test_workers_with_another_version_of_pytorch_are_refused(monkeypatch) -> None:
    found: list[dict[str, str]] = [{"torch": "2.13"}, {"torch": "2.14"}]
    monkeypatch.setattr(executors, "study_versions", lambda: found.pop(0))
    with pytest.raises(RuntimeError, match=r"torch is '2.13' there and '2.14' here; .* the same"):
        study(executor=Remote(), trials=1)


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_missing_devices(tmp_path) -> None:
    for save_to, executor in ((tmp_path / "study", None), (None, Remote())):
        with pytest.raises(ValueError, match="PyTorch sees 0 CUDA devices"):
            study(save_to, executor=executor, device="cuda")
    assert not (tmp_path / "study").exists()


class Undefined(PlainWorld):
    """Has an invalid value on one arm in one round."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        for t, values in enumerate(super().rounds(stream), start=1):
            if t == 3 and stream.first >= 8:
                values[1, 7] = self.value
            yield values


class Modest(OnArms):
    """Reports its second best value as the best."""

    def best(self, maximize: bool) -> Tensor:
        return self.values.sort(-1, descending=maximize).values[..., 1]


class Misjudged(World):
    """Reports a wrong best value from one round on."""

    def __init__(self, at: int) -> None:
        super().__init__(Grid.regular(5, 2), 0.02)
        self.at, self.values = at, PlainWorld()

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        for t, right in enumerate(self.values.objectives(stream), start=1):
            yield Modest(right.values.clone()) if t >= self.at else right


def stumbling(y: Tensor, mean: Tensor, sd: Tensor, noise: Any, since: Tensor, delta: float) -> Any:
    if bool((since >= 4).any()):
        raise ZeroDivisionError("of the user")
    return torch.zeros_like(since, dtype=torch.bool)


def triggered() -> Strategy:
    retention = EventTrigger(0.1, rule=stumbling)
    return GPStrategy(kernel=KERNEL, noise=0.02, retention=retention)


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_invalid_values_of_a_world(value: float) -> None:
    with pytest.raises(ValueError, match=f"trial 9 is {value}, but it") as found:
        study(world=Undefined(value), trials=16)
    assert "in round 3 of trials 8 to 15, as regret is checked" in found.value.__notes__[0]


@pytest.mark.parametrize("maximize", [True, False])
def test_wrong_best_values(maximize: bool) -> None:
    player = {"GP": gp_ucb(kernel=KERNEL, noise=0.02, maximize=maximize)}
    side = "above" if maximize else "below"
    with pytest.raises(ValueError, match=f"Misjudged has .* values is {side} the best"):
        study(world=Misjudged(4), strategies=player, trials=16, horizon=40)
    study(world=Misjudged(1000), strategies=player, trials=16, horizon=40)


@pytest.mark.parametrize("workers", [1, 2])
def test_errors_of_rules(workers: int) -> None:
    with pytest.raises(ZeroDivisionError) as error:
        study(strategies=players() | {"mine": triggered()}, trials=8, workers=workers)
    where = "run_study: in round 4 of trials 0 to 7, as the strategy 'mine' observes."
    assert error.value.__notes__ == [where]


@pytest.mark.full
def test_labels_and_seeds_that_no_file_can_store() -> None:
    for label in ("a\0b", "\ud800", "  ", "a\nb"):
        with pytest.raises(ValueError, match="cannot be printed or stored in a file; give text"):
            study(strategies={label: gp_ucb(kernel=KERNEL, noise=0.02)}, trials=1)
    with pytest.raises(ValueError, match=r"seed is 18446744073709551616, but .* below 2\^64; give"):
        study(seed=2**64, trials=1)
