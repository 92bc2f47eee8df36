"""Play the chunks of a study through an executor of the user, on this machine or others."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from threading import Event
from typing import TYPE_CHECKING, Any, Protocol

from botorch_tv.simulation.cut import Chunk, Cut
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.tasks import (
    OWN_NOTE,
    Played,
    SharedFolder,
    Task,
    libraries,
    play_task,
)
from botorch_tv.simulation.turns import wait_until
from botorch_tv.validation import require

if TYPE_CHECKING:
    from botorch_tv.simulation.folder import StudyFolder
    from botorch_tv.simulation.records import Take


class Future(Protocol):
    """The future of a task; ``done()`` and ``cancel()``, as in Python's futures, are optional."""

    def result(self) -> Any:
        """Wait for the function; return what it returned, or raise what it raised."""


class Executor(Protocol):
    """Runs functions elsewhere, as the executors of ``concurrent.futures`` do.

    A method ``batch()`` is used if there is one: a context manager that submits together all tasks
    submitted within it.
    """

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Schedule a function call."""


def require_executor(executor: Executor | None) -> None:
    """Check that an executor has a method ``submit``.

    Raises:
        ValueError: If it has none.
    """
    require(
        executor is None
        or (callable(getattr(executor, "submit", None)) and not isinstance(executor, type)),
        f"run_study: executor is {executor!r}; give an instance with submit(function, *arguments) "
        "that returns something with result(), such as ProcessPoolExecutor().",
    )


@dataclass(frozen=True)
class Elsewhere:
    """Plays the chunks of a study through an executor.

    Workers that can see the folder of the study save their chunks there, so that they survive the
    death of the calling process. Other workers send their chunks back, and this process saves them.

    Args:
        executor: Its workers play.
        settings: The study.
        cut: How it is computed.
        take: Called once with every chunk.
        folder: Where chunks are kept; None if nowhere.
    """

    executor: Executor
    settings: StudySettings
    cut: Cut
    take: Take
    folder: StudyFolder | None

    def play(self, chunks: Sequence[Chunk]) -> set[str]:
        """Let workers play some chunks.

        Returns:
            Versions, as JSON, of the libraries that computed the chunks sent back.

        Raises:
            Exception: The first error of a task or of the executor, with a note on what to do.
                Pending tasks are then cancelled, as they are on a keyboard interrupt, and finished
                chunks are kept.
        """
        made_with: set[str] = set()
        bring, missing = False, list(chunks)
        while missing:
            left: list[Chunk] = []

            def receive(chunk: Chunk, played: Played | None, left: list[Chunk] = left) -> None:
                if played is not None:
                    made_with.add(played.made_with)
                if not self._taken(chunk, played):
                    left.append(chunk)

            self._gather(missing, receive, bring=bring)
            missing = [chunk for chunk in left if not self._finished_elsewhere(chunk)]
            bring = True  # network file systems may show a worker's files late
        return made_with

    def _taken(self, chunk: Chunk, played: Played | None) -> bool:
        """Take the result of a chunk; False if it has not been found yet."""
        arrays = None if played is None else played.arrays
        if self.folder is not None:
            if played is None:
                arrays = self.folder.find(chunk)
            else:
                with self.folder.claim(chunk):
                    self.folder.keep(chunk, *played)
        if arrays is not None:
            self.take(chunk, arrays)
        return arrays is not None

    def _finished_elsewhere(self, chunk: Chunk) -> bool:
        """Wait while another process computes a chunk; whether it has then been found."""
        folder, found = self.folder, False
        assert folder is not None  # without a folder, every chunk is sent back

        def settled() -> bool:
            nonlocal found
            with folder.claim(chunk) as free:
                found = self._taken(chunk, None)
            return found or free

        wait_until(settled, chunk, folder, Event())
        return found

    def _gather(
        self,
        chunks: Sequence[Chunk],
        receive: Callable[[Chunk, Played | None], None],
        *,
        bring: bool,
    ) -> None:
        """Submit all chunks, and pass on each result as soon as it is there."""
        waiting: dict[Chunk, Future] = {}
        shared = None if self.folder is None else SharedFolder.of(self.folder)
        known = libraries()
        try:
            batch = getattr(self.executor, "batch", nullcontext)
            with self._explained(chunks[0], chunks[-1]), batch():
                for chunk in chunks:
                    task = Task(self.settings, self.cut, chunk, shared, bring, known)
                    waiting[chunk] = self.executor.submit(play_task, task)
            while waiting:
                # If none is done, or futures have no done(), wait for the first.
                done = [chunk for chunk, one in waiting.items() if _is_done(one)]
                for chunk in done or list(waiting)[:1]:
                    with self._explained(chunk, chunk):
                        played = waiting.pop(chunk).result()
                    receive(chunk, _checked(played))
        except BaseException:
            self._abandon(waiting)
            raise

    def _abandon(self, waiting: dict[Chunk, Future]) -> None:
        """Cancel pending tasks, and keep finished chunks."""
        done = {chunk: one for chunk, one in waiting.items() if _is_done(one)}
        for chunk, one in waiting.items():
            if chunk not in done and callable(getattr(one, "cancel", None)):
                with suppress(Exception):
                    one.cancel()  # type: ignore[attr-defined]
        if self.folder is not None:
            for chunk, one in done.items():
                with suppress(Exception):  # the first error is the one reported
                    self._taken(chunk, _checked(one.result()))

    @contextmanager
    def _explained(self, first: Chunk, last: Chunk) -> Iterator[None]:
        """Add advice to errors that come from the executor and not from the study."""
        try:
            yield
        except Exception as error:
            # Some executors raise an error of their own, with the worker's error as text.
            texts = [str(error), *getattr(error, "__notes__", [])]
            if not any(OWN_NOTE in text for text in texts):
                trials = Chunk(first.first, last.first + last.trials - first.first)
                error.add_note(f"run_study: no result of {trials} came back. {self._advice(error)}")
            raise

    def _advice(self, error: Exception) -> str:
        if isinstance(error, pickle.PicklingError) or "pickle" in str(error):
            return (
                "If it could not be pickled: define worlds, strategies, recorders and their "
                "functions at the top level of a module, or give an executor that also sends code, "
                "such as loky's."
            )
        kept = (
            "give save_to=FOLDER as well, which keeps finished trials for another call."
            if self.folder is None
            else f"finished trials are kept in {self.folder.path} and not played again."
        )
        return (
            "If a worker was lost, or could not import the classes of the study, fix that and run "
            "the same call again, with a new executor if this one is broken; " + kept
        )


def _is_done(future: Future) -> bool:
    done = getattr(future, "done", None)
    return callable(done) and bool(done())


def _checked(played: object) -> Played | None:
    if played is not None and not isinstance(played, Played):
        raise TypeError(
            f"run_study: the executor returned a {type(played).__name__} instead of the result of "
            "play_task; its submit(function, *arguments) must return an object whose result() is "
            "function(*arguments)."
        )
    return played
