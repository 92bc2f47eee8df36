"""Play all chunks of a study in parallel, shared with other processes through its folder."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botorch_tv.simulation.chunks import PreparedStudy
from botorch_tv.simulation.cut import Chunk, Cut
from botorch_tv.simulation.executors import Elsewhere, Executor
from botorch_tv.simulation.parallel import side_by_side, torch_threads
from botorch_tv.simulation.progress import Progress, progress_bar
from botorch_tv.simulation.records import Arrays, Take
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.simulation.turns import take_turn, wait_until

if TYPE_CHECKING:
    from botorch_tv.simulation.folder import StudyFolder
    from botorch_tv.simulation.line_ups import LineUp


@dataclass(frozen=True)
class Runner:
    """Plays the missing chunks of a study.

    Chunks that other processes are computing are left to them at first. At the end this process
    waits for them, and computes them itself if those processes die.

    Args:
        trials: Trials of the study.
        workers: Chunks computed at once.
        progress: Whether to show a progress bar.
        besides: Bytes that will be written to the folder's disk in addition to its chunks.
        executor: Plays the chunks instead of this process, unless None.
        made_with: Receives the versions, as JSON, of workers that sent chunks back.
    """

    trials: int
    workers: int
    progress: bool
    besides: int
    executor: Executor | None = None
    made_with: set[str] = field(default_factory=set)

    def play(
        self, settings: StudySettings, cut: Cut, take: Take, folder: StudyFolder | None = None
    ) -> int:
        """Let all strategies play.

        Args:
            settings: The study.
            cut: How it is computed.
            take: Called once with every chunk and its records, in any order and from any thread.
            folder: Where finished chunks are kept; None if nowhere.

        Returns:
            The number of trials that were already finished.
        """
        chunks = cut.chunks(self.trials)
        missing = chunks if folder is None else _missing(folder, chunks, take)
        known = self.trials - sum(chunk.trials for chunk in missing)
        if folder is not None:
            folder.require_room(missing, self.besides)
        bar = progress_bar(self.trials, known, shown=self.progress)
        with torch_threads(cut.threads), bar:
            if self.executor is not None:

                def take_and_count(chunk: Chunk, arrays: Arrays) -> None:
                    take(chunk, arrays)
                    bar.update(chunk.trials)

                elsewhere = Elsewhere(self.executor, settings, cut, take_and_count, folder)
                self.made_with.update(elsewhere.play(missing))
                return known
            study = PreparedStudy(settings, settings.initial_states())
            rounds = Progress(bar, settings.horizon, known)

            def once(chunk: Chunk, stop: threading.Event) -> bool:
                arrays = take_turn(study, chunk, folder, rounds, stop)
                if arrays is not None:
                    take(chunk, arrays)
                return arrays is not None

            def until_done(chunk: Chunk, stop: threading.Event) -> bool:
                return wait_until(lambda: once(chunk, stop), chunk, folder, stop)

            for work in (once, until_done):
                done = side_by_side(work, missing, self.workers)
                missing = [chunk for chunk, finished in zip(missing, done) if not finished]
        return known


def find_all(one: LineUp, chunks: list[Chunk], take: Take) -> None:
    """Read every chunk of a line-up that leaves out strategies, so that none can be played.

    Args:
        one: The line-up.
        chunks: All chunks of the study.
        take: As for :meth:`Runner.play`.

    Raises:
        ValueError: If a chunk is missing.
    """
    left_out = ", ".join(one.left_out)
    for chunk in _missing(one.folder, chunks, take):
        raise ValueError(
            f"{one.folder.path} keeps {', '.join(one.wanted)} together with {left_out}, and has no "
            f"trials from {chunk.first} on; give {left_out} as well"
            + (f", or trials={chunk.first}." if chunk.first else "."),
        )


def _missing(folder: StudyFolder, chunks: list[Chunk], take: Take) -> list[Chunk]:
    """The chunks that the folder lacks; the others are taken."""
    missing = []
    for chunk in chunks:
        arrays = folder.find(chunk)
        if arrays is None:
            missing.append(chunk)
        else:
            take(chunk, arrays)
    return missing
