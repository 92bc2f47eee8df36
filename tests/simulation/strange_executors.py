"""Executors of others, which do no more than they must, and worlds that harm their workers."""

import os
import pickle
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from helpers.child_study import KERNEL
from torch import Tensor

from botorch_tv.simulation import MarkovWorld
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid


class Promise:
    """Runs a task when its result is requested."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.work = work

    def result(self) -> Any:
        return self.work()


class Remote:
    """Sends everything as bytes, errors included, and counts them."""

    def __init__(self) -> None:
        self.sent: list[int] = []

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Promise:
        order = pickle.dumps((function, arguments))
        self.sent.append(len(order))
        return Promise(lambda: self.fetch(order))

    def fetch(self, order: bytes) -> Any:
        function, arguments = pickle.loads(order)
        try:
            answer = pickle.dumps(function(*arguments))
        except Exception as error:
            raise pickle.loads(pickle.dumps(error)) from None
        return pickle.loads(answer)


class Queue(Remote):
    """Runs tasks once all are submitted, as an array of jobs."""

    def __init__(self) -> None:
        super().__init__()
        self.arrays: list[int] = []
        self._open = False

    @contextmanager
    def batch(self) -> Iterator[None]:
        self._open, before = True, len(self.sent)
        yield
        self._open = False
        self.arrays.append(len(self.sent) - before)

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Promise:
        assert self._open
        return super().submit(function, *arguments)

    def fetch(self, order: bytes) -> Any:
        assert not self._open
        return super().fetch(order)


class Interrupted:
    """Has some tasks done when a key is pressed, and others not begun."""

    def __init__(self, done: int) -> None:
        self.done, self.futures = done, list[Future[Any]]()

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        if len(self.futures) == 0:
            future.set_exception(KeyboardInterrupt("pressed"))
        elif len(self.futures) <= self.done:
            future.set_result(function(*arguments))
        self.futures.append(future)
        return future


class PlainWorld(MarkovWorld):
    """That of the study in :mod:`helpers.child_study`."""

    def __init__(self) -> None:
        super().__init__(Grid.regular(5, 2), kernel=KERNEL, epsilon=0.05, noise=0.02)


class DeadlyWorld(PlainWorld):
    """Kills its process in the middle of a chunk, once, while a file is there."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._trap = file

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        for number, values in enumerate(super().rounds(stream)):
            if number == 5 and stream.first >= 16 and self._trap.exists():
                self._trap.unlink(missing_ok=True)
                os.kill(os.getpid(), signal.SIGKILL)
            yield values


class StumblingWorld(PlainWorld):
    """Yields an error in one round."""

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        for number, values in enumerate(super().rounds(stream), start=1):
            if number == 3 and stream.first == 8:
                raise KeyError("of the user's")
            yield values


class Peculiar(Exception):
    """Cannot be pickled."""

    def __init__(self, item: str, two: str) -> None:
        super().__init__(f"{item} and {two}")


class PeculiarWorld(PlainWorld):
    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        if stream.first == 8:
            raise Peculiar("this", "that")
        return super().rounds(stream)
