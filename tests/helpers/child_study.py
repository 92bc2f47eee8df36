"""A small study that children of the tests run, and how they die."""

import json
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from io import StringIO
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock
from torch import Tensor
from xarray.testing import assert_allclose

from botorch_tv import files as whole_files
from botorch_tv.cli import command as cli
from botorch_tv.simulation import MarkovWorld, StudyResult, executors, run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid, Strategy, et_gp_ucb, gp_ts, tv_gp_ucb

CHUNK, TRIALS, HORIZON = 8, 44, 10
CHUNKS = -(-TRIALS // CHUNK)
FILES = 3 * CHUNKS
"""A block of each of three strategies."""
KERNEL = unit_kernel("se", 0.25)


class StumblingWorld(MarkovWorld):
    """A world that fails at the start of a chunk, which is not part of its identity."""

    def __init__(self, stumble_at: int, error: type[BaseException]) -> None:
        super().__init__(Grid.regular(5, 2), kernel=KERNEL, epsilon=0.05, noise=0.02)
        self._left, self._error = stumble_at, error

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        if self._left == 0:
            raise self._error("stumbled")
        self._left -= 1
        return super().rounds(stream)


def players() -> dict[str, Strategy]:
    return {
        "ET": et_gp_ucb(kernel=KERNEL, noise=0.02),
        "TS": gp_ts(kernel=KERNEL, noise=0.02),
        "TV": tv_gp_ucb(kernel=KERNEL, noise=0.02, epsilon=0.05),
    }


def study(save_to: Path | None = None, **changes: Any) -> StudyResult:
    settings: dict[str, Any] = {
        "world": MarkovWorld(Grid.regular(5, 2), kernel=KERNEL, epsilon=0.05, noise=0.02),
        "strategies": players(),
        "trials": TRIALS,
        "horizon": HORIZON,
        "chunk": CHUNK,
        "workers": 1,
        "progress": False,
        "save_to": save_to,
    }
    return run_study(**{**settings, **changes})


def same(first: StudyResult, second: StudyResult) -> bool:
    """Whether two results agree: choices and resets exactly, numbers up to rounding."""
    item, other = first.data.drop_attrs(), second.data.drop_attrs()
    try:
        assert_allclose(item, other, rtol=0, atol=1e-10)  # also of whole numbers: equal
    except AssertionError:
        return False
    return True


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    """When the file of each finished block was written, and its bytes."""
    found = sorted(folder.glob("*/*.npz"))
    return {
        f"{file.parent.name}/{file.name}": (file.stat().st_mtime_ns, file.read_bytes())
        for file in found
    }


# ------------------------------------------------------------------ work of child processes


def run_through(pipe: Connection, folder: Path, settings: dict[str, Any]) -> None:
    """Run the study; tell the result, and how many chunks were played."""
    torch.set_num_threads(1)
    played = 0
    play = executors.play_block

    def counted(*arguments: Any) -> Any:
        nonlocal played
        played += 1
        return play(*arguments)

    executors.play_block = counted
    pipe.send("started")
    try:
        pipe.send((study(folder, **settings), played))
    except (OSError, ValueError) as error:
        pipe.send(error)


def run_beside_another(pipe: Connection, folder: Path, settings: dict[str, Any]) -> None:
    """As :func:`run_through`, but nobody is through with a chunk before two have been begun."""
    play = executors.play_block

    def beside(*arguments: Any) -> Any:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if len(list(folder.glob(".locks/*.lock"))) + len(files(folder)) // 3 >= 2:
                break
            time.sleep(0.001)
        return play(*arguments)

    executors.play_block = beside
    run_through(pipe, folder, settings)


def run_into_full_disk(pipe: Connection, folder: Path, settings: dict[str, Any]) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
    run_through(pipe, folder, settings)


def die_while_writing(pipe: Connection, folder: Path, settings: dict[str, Any]) -> None:
    """Die at a step of writing a file, after two blocks and a third of the next."""
    step = settings.pop("step")
    where, name = {
        "write": (os, "fsync"),
        "rename": (os, "replace"),
        "synchronise": (whole_files, "_sync_folder"),
    }[step]
    honest = getattr(where, name)

    def deadly(*arguments: Any) -> Any:
        writing = step == "synchronise" or bool(list(folder.glob("*/.*.npz.*.part")))
        if writing and len(files(folder)) >= 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return honest(*arguments)

    setattr(where, name, deadly)
    run_through(pipe, folder, settings)


def hold_lock(pipe: Connection, folder: Path, settings: dict[str, Any]) -> None:
    """Hold the lock of a block until killed."""
    (folder / ".locks").mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".locks" / f"{CHUNK * settings['number']:07}.lock")
    lock.acquire(timeout=0)
    pipe.send("started")
    signal.pause()


def write_again_and_again(pipe: Connection, file: Path, settings: dict[str, Any]) -> None:
    """Write a file until killed."""
    size = settings["size"]
    content = bytes([65 + size % 7]) * size
    whole_files.write_whole(file, lambda opened: opened.write(content))
    pipe.send("started")
    while True:
        whole_files.write_whole(file, lambda opened: opened.write(content))


def ask_and_tell(pipe: Connection, file: Path, settings: dict[str, Any]) -> None:
    """Ask and tell a loop from the command line until killed, and note the answers.

    One measurement in ``fails`` fails, as in an hour of so many.
    """
    while True:
        out = StringIO()
        with redirect_stdout(out):
            assert cli.main(["loop", "ask", str(file)]) == 0
            asked = json.loads(out.getvalue())
            point, number = asked["point"], asked["number"]
            y = str(-((point["rate"] - 0.3) ** 2) - 0.01 * abs(point["layers"] - 3))
            answer = y if number % settings["fails"] else "--failed"
            assert cli.main(["loop", "tell", str(file), answer, "--number", str(number)]) == 0
        with settings["done"].open("a") as notes:
            print(number, answer, file=notes, flush=True)


def play_without_netcdf(pipe: Connection, folder: Path, settings: dict[str, Any]) -> None:
    """Compare studies without netCDF; report errors."""
    assert not {"h5netcdf", "h5py"} & sys.modules.keys(), "imported before it is asked for"
    sys.modules.update(dict.fromkeys(("h5netcdf", "h5py")))
    from benchmarks.gpu import choices

    sizes = ["--points", "4", "--trials", "2", "--horizon", "3", "--presets", "ET-GP-UCB"]
    with redirect_stdout(StringIO()):
        choices.main(["--device", "cpu", *sizes, "--out", str(folder / "found.json")])
    result = study(folder / "study", trials=2)
    result.summary()
    result.plot(folder / "regret.png")
    try:
        result.save(folder / "study.nc")
    except ImportError as error:
        pipe.send(str(error))


# ------------------------------------------------------------------ starting them

Work = Callable[[Connection, Any, dict[str, Any]], None]


def prepared() -> ForkServerContext:
    """A server for processes that start in milliseconds."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["helpers.child_imports"])
    with pytest.MonkeyPatch.context() as patched:  # the server needs the path of pytest
        patched.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        ensure_running()
    return context


class Child:
    """A child process."""

    def __init__(self, work: Work, place: Path | str, **settings: Any) -> None:
        context = prepared()
        self.pipe, other = context.Pipe()
        self.process: BaseProcess = context.Process(
            target=work, args=(other, place, settings), daemon=True
        )
        self.process.start()
        other.close()

    def received(self, seconds: float = 60) -> Any:
        """The next thing that the child says."""
        assert self.pipe.poll(seconds), "the child is silent"
        return self.pipe.recv()

    def kill(self) -> None:
        self.process.kill()
        self.process.join(60)

    def end(self) -> None:
        self.process.join(60)
        assert self.process.exitcode == 0
