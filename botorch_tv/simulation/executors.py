"""Chunks of a study played by workers that somebody else provides, here or on other machines."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
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
    """What comes of a task; it may have ``done()`` and ``cancel()`` as those of Python have."""

    def result(self) -> Any:
        """What the function returned, once it has; raises what it raised."""


class Executor(Protocol):
    """Somebody who lets functions run elsewhere, as those of ``concurrent.futures`` do.

    Nothing else is asked of it; a method ``batch()``, which makes one of all that is submitted
    within a ``with`` statement, is used.
    """

    def submit(self, function: Callable[..., Any], /, *arguments: Any) -> Future:
        """Let a function run."""


def require_executor(executor: Executor | None) -> None:
    """Refuse what is no executor.

    Raises:
        ValueError: If it cannot be given anything to do.
    """
    require(
        executor is None
        or (callable(getattr(executor, "submit", None)) and not isinstance(executor, type)),
        f"run_study: executor is {executor!r}; give an instance with submit(function, *arguments) "
        "that returns something with result(), such as ProcessPoolExecutor().",
    )


@dataclass(frozen=True)
class Elsewhere:
    """Plays the chunks of a study by an executor.

    Workers that see the folder of the study keep what they play there, so that it stays whatever
    becomes of the process that asked; others send it back, and it is kept here.

    Args:
        executor: Whose workers play.
        settings: The study.
        cut: How it is computed.
        take: Is given every chunk once.
        folder: Where they are kept, if anywhere.
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
            Exception: The first of a task, or of the executor, with a note on what to do; tasks not
                begun are then cancelled, as they are on an interrupt from the keyboard, and chunks
                that are finished are kept.
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
            bring = True  # what a worker has kept may stay unseen here for a while
        return made_with

    def _taken(self, chunk: Chunk, played: Played | None) -> bool:
        """Take in what came of a chunk; whether that is all of it."""
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
        """Wait for a chunk as long as another process is at work on it; whether it is there."""
        folder, found = self.folder, False
        assert folder is not None  # without one, nothing is left to others

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
        """Hand out chunks, and on what comes of each, those first that are done first."""
        waiting: dict[Chunk, Future] = {}
        shared = None if self.folder is None else SharedFolder.of(self.folder)
        known = libraries()
        try:
            with self._told(chunks[0], chunks[-1]), self._batch():
                for chunk in chunks:
                    task = Task(self.settings, self.cut, chunk, shared, bring, known)
                    waiting[chunk] = self.executor.submit(play_task, task)
            while waiting:
                # Of futures that do not say, or none of which is, the first is waited for.
                done = [chunk for chunk, one in waiting.items() if _is_done(one)]
                for chunk in done or list(waiting)[:1]:
                    with self._told(chunk, chunk):
                        played = waiting.pop(chunk).result()
                    receive(chunk, _checked(played))
        except BaseException:
            self._leave(waiting)
            raise

    def _batch(self) -> AbstractContextManager[Any]:
        batch: Callable[[], AbstractContextManager[Any]] = getattr(
            self.executor, "batch", nullcontext
        )
        return batch()

    def _leave(self, waiting: dict[Chunk, Future]) -> None:
        """Cancel what has not begun, and keep what is finished."""
        done = {chunk: one for chunk, one in waiting.items() if _is_done(one)}
        for chunk, one in waiting.items():
            if chunk not in done and callable(getattr(one, "cancel", None)):
                with suppress(Exception):
                    one.cancel()  # type: ignore[attr-defined]
        if self.folder is not None:
            for chunk, one in done.items():
                with suppress(Exception):  # the first error is the one to be told
                    self._taken(chunk, _checked(one.result()))

    @contextmanager
    def _told(self, first: Chunk, last: Chunk) -> Iterator[None]:
        """Say what to do about errors that come from an executor and not from the study."""
        try:
            yield
        except Exception as error:
            # Some executors raise an error of their own, with that of the worker as text.
            told = [str(error), *getattr(error, "__notes__", [])]
            if not any(OWN_NOTE in one for one in told):
                trials = Chunk(first.first, last.first + last.trials - first.first)
                error.add_note(f"run_study: no result of {trials} came back. {self._cure(error)}")
            raise

    def _cure(self, error: Exception) -> str:
        if isinstance(error, pickle.PicklingError) or "pickle" in str(error):
            return (
                "If it could not be pickled: define worlds, strategies, recorders and their "
                "functions at the top level of a module, or give an executor that sends code too, "
                "such as loky's."
            )
        kept = (
            "give save_to=FOLDER as well, which keeps finished trials for another call."
            if self.folder is None
            else f"what is finished is kept in {self.folder.path} and not played again."
        )
        return (
            "If a worker was lost, or could not import what the study is made of, mend that and "
            "run the same call again, with a new executor if this one is broken; " + kept
        )


def _is_done(future: Future) -> bool:
    done = getattr(future, "done", None)
    return callable(done) and bool(done())


def _checked(played: object) -> Played | None:
    if played is not None and not isinstance(played, Played):
        raise TypeError(
            f"run_study: the executor returned a {type(played).__name__} in place of what "
            "play_task returns; its submit(function, *arguments) must give back something whose "
            "result() is function(*arguments)."
        )
    return played
