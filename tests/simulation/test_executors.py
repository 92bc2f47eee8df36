import pickle
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack
from functools import partial
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from lasting import CHUNK, CHUNKS, FILES, Child, files, hold_lock, prepared, study
from simulation.strange_executors import (
    DeadlyWorld,
    Interrupted,
    Lazy,
    PeculiarWorld,
    PlainWorld,
    Promise,
    Queue,
    Remote,
    StumblingWorld,
)

from botorch_tv.identity import libraries
from botorch_tv.simulation import PredictionError, StudyResult, executors
from botorch_tv.simulation.settings import device_of_worker
from botorch_tv.simulation.store import Store

EXECUTORS = {
    "lazy": Lazy,
    "remote": Remote,
    "queue": Queue,
    "threads": partial(ThreadPoolExecutor, 2),
}


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


# ------------------------------------------------------------------ the same results


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


def test_spawned_processes(whole, spawned, tmp_path) -> None:
    assert identical(study(executor=spawned), whole)
    assert identical(study(tmp_path, executor=spawned), whole)
    assert spawned.submit(abs, -1).result() == 1  # open as before


@pytest.mark.parametrize("library", ["loky", "submitit", "distributed"])
def test_executors_of_libraries(whole, tmp_path, library) -> None:
    module = pytest.importorskip(library)
    with ExitStack() as stack:
        executor: Any
        if library == "loky":
            executor = stack.enter_context(module.ProcessPoolExecutor(1))
        elif library == "submitit":
            executor = module.AutoExecutor(folder=tmp_path / "logs", cluster="debug")
        else:
            local = {"n_workers": 1, "processes": False, "dashboard_address": None}
            executor = stack.enter_context(module.Client(**local)).get_executor()
        assert identical(study(executor=executor), whole)
        assert identical(study(tmp_path / "study", executor=executor), whole)


def test_averages_are_those_of_a_single_process() -> None:
    settings: dict[str, Any] = {"record": (PredictionError(),), "trials": 20}
    assert identical(study(executor=Remote(), **settings), study(**settings))


def test_studies_resume(whole, tmp_path) -> None:
    study(tmp_path, trials=2 * CHUNK, executor=Remote())
    executor = Queue()
    assert identical(study(tmp_path, executor=executor), whole)
    assert executor.arrays == [CHUNKS - 2]
    assert identical(study(tmp_path, executor=executor), whole)
    assert executor.arrays == [CHUNKS - 2]  # nothing to do


def test_tasks_are_small() -> None:
    executor, world = Remote(), PlainWorld()
    for _ in range(2):  # the second time its grid has cached kernels
        study(executor=executor, world=world, chunk=1, trials=2, horizon=1)
    assert len(executor.sent) == 4
    assert max(executor.sent) < 1.01 * min(executor.sent)
    assert max(executor.sent) < 40_000


# ------------------------------------------------------------------ storage


def test_workers_save_their_blocks(whole, tmp_path, monkeypatch) -> None:
    executor = Remote()
    answers = []
    fetch = executor.fetch
    monkeypatch.setattr(executor, "fetch", lambda order: answers.append(fetch(order)))
    assert identical(study(tmp_path, executor=executor), whole)
    assert answers == [None] * CHUNKS


def test_blocks_sent_by_workers_are_saved(whole, tmp_path, monkeypatch, apart) -> None:
    here, calls = libraries(), 0

    def sometimes_other() -> dict[str, str]:
        """Equal versions for the check, and different versions for the notes of blocks."""
        nonlocal calls
        calls += 1
        return here | {"torch": "2.99"} if calls % 2 == 1 < calls else here

    monkeypatch.setattr(executors, "libraries", sometimes_other)
    result = study(tmp_path, executor=Remote())
    assert identical(result, whole)
    assert len(files(tmp_path)) == FILES
    assert not (tmp_path / ".locks").exists()
    assert result.data.attrs["torch"] == "2.99"
    assert study(tmp_path).data.attrs["torch"] == "2.99"


def test_finished_blocks_are_saved_first(whole, tmp_path, apart) -> None:
    retained = []

    class Backwards:
        begun = 0

        def submit(self, function: Any, /, *arguments: Any) -> Any:
            self.begun += 1
            if self.begun > 1:
                done: Future[Any] = Future()
                done.set_result(function(*arguments))
                return done
            return Promise(lambda: retained.append(len(files(tmp_path))) or function(*arguments))

    assert identical(study(tmp_path, executor=Backwards()), whole)
    assert retained == [FILES - 3]


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


def test_waiting_for_blocks_of_other_processes(whole, tmp_path) -> None:
    child = Child(hold_lock, tmp_path, number=2)
    child.received()
    executor = Queue()
    fetch = executor.fetch

    def killing(order: bytes) -> Any:
        if len(files(tmp_path)) == FILES - 3:
            child.kill()
        return fetch(order)

    executor.fetch = killing  # type: ignore[method-assign]
    assert identical(study(tmp_path, executor=executor), whole)
    assert executor.arrays == [CHUNKS, 1]


# ------------------------------------------------------------------ errors


@pytest.mark.parametrize("name", EXECUTORS)
def test_errors_say_where_they_occurred(name) -> None:
    with pytest.raises(KeyError) as error:
        study(world=StumblingWorld(), trials=16, executor=EXECUTORS[name]())
    assert error.value.__notes__[0] == (
        "run_study: in round 3 of trials 8 to 15, as the world makes its objective."
    )


@pytest.mark.parametrize("kind", [Lazy, Remote])
def test_errors_that_cannot_be_pickled_become_text(kind) -> None:
    with pytest.raises(RuntimeError, match=r"^Peculiar: this and that\n") as error:
        study(world=PeculiarWorld(), executor=kind())
    assert "in round 1 of trials 8 to 15, as the world makes its objective." in str(error.value)


def test_notes_name_the_cause() -> None:
    class AsText(Lazy):
        def submit(self, function: Any, /, *arguments: Any) -> Promise:
            def run() -> Any:
                try:
                    return function(*arguments)
                except Exception:
                    raise RuntimeError(traceback.format_exc()) from None

            return Promise(run)

    class Broken:
        def submit(self, function: Any, /, *arguments: Any) -> Any:
            raise OSError("no node is free")

    class Local(PlainWorld):
        pass

    with pytest.raises(RuntimeError, match="in round 3 of trials 8 to 15") as error:
        study(world=StumblingWorld(), trials=16, executor=AsText())
    assert not hasattr(error.value, "__notes__")
    with pytest.raises(OSError, match="no node is free") as error:
        study(executor=Broken())
    assert "no result came back" in error.value.__notes__[0]
    assert "give save_to=FOLDER to save finished trials" in error.value.__notes__[0]
    with pytest.raises((pickle.PicklingError, AttributeError)) as error:
        study(world=Local(), executor=Remote())
    assert "at the top level of a module" in error.value.__notes__[0]


def test_a_worker_that_dies_loses_only_its_block(whole, tmp_path) -> None:
    trap, folder = tmp_path / "trap", tmp_path / "study"
    trap.touch()
    with processes(2) as executor:
        for _ in range(2):
            with pytest.raises(BrokenProcessPool) as error:
                study(folder, world=DeadlyWorld(trap), executor=executor)
            (note,) = error.value.__notes__
            assert "repeat the call, with a new executor if the old executor is broken" in note
            assert f"finished trials are saved in {folder}" in note
    before = files(folder)
    assert len(before) < FILES
    with processes(2) as executor:
        result = study(folder, world=DeadlyWorld(trap), executor=executor)
    assert identical(result, whole)
    assert before.items() <= files(folder).items()
    found = sum(int(name.rpartition("-")[2].partition(".")[0]) for name in before) // 3
    assert result.data.attrs["trials_found"] == found


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
    assert identical(study(tmp_path, executor=Lazy()), whole)


def test_other_versions_of_libraries_are_refused(monkeypatch) -> None:
    here = libraries() | {"torch": "2.13.0+cpu"}
    found: list[dict[str, str]] = []
    monkeypatch.setattr(executors, "libraries", lambda: found.pop(0))
    found += [here, here | {"torch": "2.13.0"}, here | {"torch": "2.13.0"}]
    study(executor=Lazy(), trials=1)  # builds for other devices are the same version
    found += [here, here | {"torch": "2.14.0"}, here | {"torch": "2.14.0"}]
    with pytest.raises(RuntimeError, match=r"has torch 2.14.0 instead of .* the same versions"):
        study(executor=Lazy(), trials=1)


# ------------------------------------------------------------------ devices of workers


def test_tasks_are_distributed_over_gpus(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    gpu = torch.device("cuda")
    assert [str(device_of_worker(gpu, task)) for task in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert device_of_worker(torch.device("cuda:1"), 2) == torch.device("cuda:1")
    assert device_of_worker(torch.device("cpu"), 1) == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
def test_only_workers_need_a_gpu() -> None:
    with pytest.raises(ValueError, match="PyTorch sees 0 CUDA devices") as error:
        study(executor=Remote(), device="cuda")
    assert error.value.__notes__[0].startswith("run_study: in trials 0 to 7, on ")
    with pytest.raises(ValueError, match="'gpu', but PyTorch has no such device"):
        study(executor=Remote(), device="gpu")
