"""The current step of a study, for error messages."""

from __future__ import annotations

from botorch_tv.simulation.cut import Chunk


class Place:
    """A context manager that adds the current step of a study to errors, as a note.

    Args:
        chunk: The trials being played.
    """

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.reach(0, "they are begun")

    def reach(self, number: int, doing: str, *who: object) -> None:
        """Record the current step.

        Args:
            number: The round, from 1; 0 before the first.
            doing: What happens in this step, a format string. It is formatted only on an error,
                because a round has many steps.
            who: The arguments of the format string.
        """
        self._round, self._doing, self._who = number, doing, who

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            number = f"round {self._round} of " if self._round else ""
            doing = self._doing.format(*self._who)
            error.add_note(f"run_study: in {number}{self.chunk}, as {doing}.")
