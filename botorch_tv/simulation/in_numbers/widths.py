"""Confidence schedules in numbers, round by round."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from botorch_tv.acquisition.gains import ClosedForm, Fixed, Greedy, Realized, WidthContext
from botorch_tv.acquisition.widths import GainWidth, Width


class WidthTables(NamedTuple):
    """√beta = sqrt_beta + √(gain_root + gain_slope g), g being the information gain, by round.

    The root is left out, and its tables are empty, where nothing depends on what is observed.
    """

    sqrt_beta: np.ndarray
    gain_root: np.ndarray
    gain_slope: np.ndarray


def knows_width(width: Width, horizon: int) -> bool:
    """Whether there are tables of a width for so many rounds."""
    gain = width.gain
    if gain is None or type(gain) in (Fixed, ClosedForm):
        return True
    if type(gain) is Greedy:
        return len(gain.values) >= horizon
    own = type(width).sqrt_beta is not GainWidth.sqrt_beta
    return type(gain) is Realized and isinstance(width, GainWidth) and not own


def width_tables(width: Width, dim: int, horizon: int) -> WidthTables:
    """The tables of a width.

    Args:
        width: One that is known.
        dim: Of the domain.
        horizon: Rounds T.
    """
    rounds, none = range(1, horizon + 1), np.empty(0)
    if not (isinstance(width, GainWidth) and isinstance(width.gain, Realized)):
        every = [width.sqrt_beta(WidthContext(t=t, dim=dim)) for t in rounds]
        return WidthTables(np.array([float(one) for one in every]), none, none)
    terms = [width.terms(t) for t in rounds]
    square = np.array([one.scale**2 for one in terms])
    return WidthTables(
        np.array([one.offset for one in terms]),
        square * np.array([one.constant for one in terms]),
        square * np.array([one.slope for one in terms]),
    )
