"""Where a play is, for what is said of an error."""

from __future__ import annotations

from botorch_tv.simulation.cut import Chunk


class Place:
    """Where the play is, which is told of errors within.

    Args:
        chunk: The trials.
    """

    def __init__(self, chunk: Chunk) -> None:
        self.chunk = chunk
        self.reach(0, "they are begun")

    def reach(self, number: int, doing: str, *who: object) -> None:
        """Go on to another round, counted from 1, or another part of it.

        Args:
            number: Of the round.
            doing: What is done, with `{!r}` for each of those who do it: put into words only once
                there is an error, since a round has many parts.
            who: They.
        """
        self._round, self._doing, self._who = number, doing, who

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, Exception):
            number = f"round {self._round} of " if self._round else ""
            doing = self._doing.format(*self._who)
            error.add_note(f"run_study: in {number}{self.chunk}, as {doing}.")
