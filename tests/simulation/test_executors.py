"""Studies played by workers of others: the same results, and nothing lost when they are."""

import pickle
import traceback
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, nullcontext
from functools import partial
from multiprocessing import get_context
from typing import Any

import pytest
import torch
from lasting import CHUNK, CHUNKS, FILES, TRIALS, Child, files, hold_lock, prepared, same, study
from strange_executors import (
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
    """The study in one process."""
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
def test_results_are_those_of_one_process(whole, tmp_path, name) -> None:
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
def test_those_of_libraries(whole, tmp_path, library) -> None:
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
        assert identical(study(tmp_path / "kept", executor=executor), whole)


@pytest.mark.parametrize("chunk", [1, 7, TRIALS, None])
def test_whatever_the_blocks(whole, chunk) -> None:
    assert same(study(executor=Remote(), chunk=chunk, trials=12), first(whole, 12))


def test_averages_are_those_of_one_process() -> None:
    settings: dict[str, Any] = {"record": (PredictionError(),), "trials": 20}
    assert identical(study(executor=Remote(), **settings), study(**settings))


def test_studies_go_on(whole, tmp_path) -> None:
    study(tmp_path, trials=2 * CHUNK, executor=Remote())
    executor = Queue()
    assert identical(study(tmp_path, executor=executor), whole)
    assert executor.arrays == [CHUNKS - 2]
    assert identical(study(tmp_path, executor=executor), whole)
    assert executor.arrays == [CHUNKS - 2]  # nothing to do


def test_tasks_are_small() -> None:
    executor, world = Remote(), PlainWorld()
    for _ in range(2):  # the second time its grid remembers kernels
        study(executor=executor, world=world, chunk=1, trials=2, horizon=1)
    assert len(executor.sent) == 4
    assert max(executor.sent) < 1.01 * min(executor.sent)
    assert max(executor.sent) < 40_000


# ------------------------------------------------------------------ who keeps what


def test_workers_keep_what_they_play(whole, tmp_path, monkeypatch) -> None:
    executor = Remote()
    answers = []
    fetch = executor.fetch
    monkeypatch.setattr(executor, "fetch", lambda order: answers.append(fetch(order)))
    assert identical(study(tmp_path, executor=executor), whole)
    assert answers == [None] * CHUNKS


def test_what_workers_elsewhere_send_back_is_kept(whole, tmp_path, monkeypatch, apart) -> None:
    here, calls = libraries(), 0

    def sometimes_other() -> dict[str, str]:
        """The same to the check that versions agree, and other ones to what is noted of blocks."""
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


def test_what_is_done_first_is_kept_first(whole, tmp_path, apart) -> None:
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


def test_a_folder_of_that_name_elsewhere_is_another(tmp_path, monkeypatch) -> None:
    seen = []
    is_here = Store.is_here

    def watched(self: Store) -> bool:
        seen.append((self, is_here(self)))
        return seen[-1][1]

    monkeypatch.setattr(Store, "is_here", watched)
    study(tmp_path, executor=Remote(), trials=CHUNK)
    ((store, here),) = seen
    assert here
    description = tmp_path / "study.json"
    description.write_text(description.read_text() + " ")
    assert not is_here(store)
    description.unlink()
    assert not is_here(store)


def test_a_block_that_is_not_seen_here_is_brought(whole, tmp_path, monkeypatch) -> None:
    """Network file systems may show the files of workers late."""
    find, receiving, executor = Store.find, False, Queue()
    fetch = executor.fetch

    def late(self: Store, *arguments: Any, **settings: Any) -> Any:
        return {} if receiving else find(self, *arguments, **settings)

    def at_work(order: bytes) -> Any:
        nonlocal receiving
        receiving = False
        answer = fetch(order)
        receiving = True  # and blind, until a worker is at work again
        return answer

    monkeypatch.setattr(Store, "find", late)
    monkeypatch.setattr(executor, "fetch", at_work)
    assert identical(study(tmp_path, executor=executor), whole)
    assert executor.arrays == [CHUNKS, CHUNKS]


def test_blocks_of_other_processes_are_waited_for(whole, tmp_path) -> None:
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
def test_errors_say_where_they_came_up(name) -> None:
    with pytest.raises(KeyError) as error:
        study(world=StumblingWorld(), trials=16, executor=EXECUTORS[name]())
    assert error.value.__notes__[0] == (
        "run_study: in round 3 of trials 8 to 15, as the world makes its objective."
    )


@pytest.mark.parametrize("kind", [Lazy, Remote])
def test_errors_that_cannot_be_sent_are_put_into_words(kind) -> None:
    with pytest.raises(RuntimeError, match=r"^Peculiar: this and that\n") as error:
        study(world=PeculiarWorld(), executor=kind())
    assert "in round 1 of trials 8 to 15, as the world makes its objective." in str(error.value)


def test_errors_that_an_executor_tells_as_text_are_no_lost_workers() -> None:
    class Telling(Lazy):
        def submit(self, function: Any, /, *arguments: Any) -> Promise:
            def told() -> Any:
                try:
                    return function(*arguments)
                except Exception:
                    raise RuntimeError(traceback.format_exc()) from None

            return Promise(told)

    with pytest.raises(RuntimeError, match="in round 3 of trials 8 to 15") as error:
        study(world=StumblingWorld(), trials=16, executor=Telling())
    assert not hasattr(error.value, "__notes__")


def test_errors_before_the_first_round_say_where(monkeypatch) -> None:
    def unable(self: Any, labels: Any) -> Any:
        raise ZeroDivisionError

    monkeypatch.setattr("botorch_tv.simulation.settings.StudySettings.states", unable)
    with pytest.raises(ZeroDivisionError) as error:
        study(executor=Remote())
    assert error.value.__notes__[0] == "run_study: in trials 0 to 7, as they are begun."
    assert error.value.__notes__[1].startswith("run_study: in trials 0 to 7, on ")


def test_a_worker_that_dies_loses_nothing_else(whole, tmp_path) -> None:
    trap = tmp_path / "trap"
    trap.touch()
    with processes(2) as executor:
        with pytest.raises(BrokenProcessPool) as error:
            study(tmp_path / "it", world=DeadlyWorld(trap), executor=executor)
        (note,) = error.value.__notes__
        assert note.startswith("run_study: no result came back")
        assert "run the same call again, with a new executor if this one is broken" in note
        assert f"finished trials are kept in {tmp_path / 'it'}" in note
        with pytest.raises(BrokenProcessPool) as error:
            study(tmp_path / "it", world=DeadlyWorld(trap), executor=executor)
        assert "run the same call again" in error.value.__notes__[0]
    before = files(tmp_path / "it")
    assert len(before) < FILES
    with processes(2) as executor:
        result = study(tmp_path / "it", world=DeadlyWorld(trap), executor=executor)
    assert identical(result, whole)
    assert before.items() <= files(tmp_path / "it").items()
    found = sum(int(name.rpartition("-")[2].partition(".")[0]) for name in before) // 3
    assert result.data.attrs["trials_found"] == found


def test_without_a_folder_the_cure_is_one(tmp_path) -> None:
    class Broken:
        def submit(self, function: Any, /, *arguments: Any) -> Any:
            raise OSError("no node is free")

    with pytest.raises(OSError, match="no node is free") as error:
        study(executor=Broken())
    (note,) = error.value.__notes__
    assert note.startswith("run_study: no result came back.")
    assert "give save_to=FOLDER, which keeps finished trials" in note


@pytest.mark.parametrize("done", [0, 3])
def test_an_interrupt_cancels_what_has_not_begun_and_keeps_the_rest(
    whole, tmp_path, apart, done
) -> None:
    executor = Interrupted(done)
    with pytest.raises(KeyboardInterrupt, match="pressed"):
        study(tmp_path, executor=executor)
    assert [one.cancelled() for one in executor.futures] == [False] * (done + 1) + [True] * (
        CHUNKS - done - 1
    )
    assert len(files(tmp_path)) == 3 * done
    assert identical(study(tmp_path, executor=Lazy()), whole)


def test_what_cannot_be_pickled_is_told_with_a_cure() -> None:
    class Local(PlainWorld):
        pass

    with pytest.raises((pickle.PicklingError, AttributeError)) as error:
        study(world=Local(), executor=Remote())
    assert "at the top level of a module" in error.value.__notes__[0]


@pytest.mark.parametrize("refused", [True, False])
def test_other_libraries_are_refused(monkeypatch, refused) -> None:
    """Builds for a device are one version."""
    here = libraries() | {"torch": "2.13.0+cpu"}
    there = here | {"torch": "2.14.0" if refused else "2.13.0"}
    found = iter([here, there, there])
    monkeypatch.setattr(executors, "libraries", lambda: next(found))
    with (
        pytest.raises(
            RuntimeError, match=r"has torch 2.14.0 instead of .*; a study needs the same versions"
        )
        if refused
        else nullcontext()
    ):
        study(executor=Lazy(), trials=1)


# ------------------------------------------------------------------ devices of workers


def test_tasks_take_turns_at_the_gpus_of_a_machine(monkeypatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    gpu = torch.device("cuda")
    assert [str(device_of_worker(gpu, one)) for one in range(3)] == ["cuda:0", "cuda:1", "cuda:0"]
    assert device_of_worker(torch.device("cuda:1"), 2) == torch.device("cuda:1")
    assert device_of_worker(torch.device("cpu"), 1) == torch.device("cpu")


@pytest.mark.skipif(torch.cuda.is_available(), reason="wants a machine without a GPU")
def test_a_gpu_is_wanted_of_workers_alone() -> None:
    with pytest.raises(ValueError, match="PyTorch sees 0 CUDA devices") as error:
        study(executor=Remote(), device="cuda")
    assert error.value.__notes__[0].startswith("run_study: in trials 0 to 7, on ")
    with pytest.raises(ValueError, match="'gpu', but PyTorch knows no such device"):
        study(executor=Remote(), device="gpu")
