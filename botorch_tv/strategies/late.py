"""Which earlier states are kept, so that what comes late is told at its place.

States may be large, so few are kept, and the fewer the older: one after a multiple of 2^j rounds
until it is 2^(j + 1) rounds old. What comes L rounds late then finds one that is at most
L - 1 + 2^j rounds old, for the least 2^j from L - 1 on, which is less than 3 L.
"""

from __future__ import annotations


def is_kept(told: int, newest: int, oldest: int) -> bool:
    """Whether a state is kept.

    Args:
        told: Rounds that it has been told.
        newest: Rounds that have been told.
        oldest: Age beyond which none is, in rounds.
    """
    lasts = 2 * (told & -told) if told else oldest
    return newest - told <= min(lasts, oldest)


def oldest_for(late: int) -> int:
    """The greatest age at which a state is of use to what comes up to so many rounds late."""
    before = max(late - 1, 1)
    return late - 1 + (1 << (before - 1).bit_length())
