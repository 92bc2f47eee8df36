"""Confidence widths as tables over rounds."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from botorch_tv.acquisition.widths import (
    ClosedForm,
    Fixed,
    GainWidth,
    Greedy,
    Realized,
    Width,
    WidthContext,
)


class WidthTables(NamedTuple):
    """√beta = sqrt_beta + √(gain_root + gain_slope g) by round, with the information gain g.

    The tables of the root are empty if √beta does not depend on the observations.
    """

    sqrt_beta: np.ndarray
    gain_root: np.ndarray
    gain_slope: np.ndarray


def knows_width(width: Width, horizon: int) -> bool:
    """Whether a width can be tabulated for this many rounds."""
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
        width: A width that :func:`knows_width` accepts.
        dim: Dimension of the domain.
        horizon: Rounds T.
    """
    rounds, none = range(1, horizon + 1), np.empty(0)
    if not (isinstance(width, GainWidth) and isinstance(width.gain, Realized)):
        every = [width.sqrt_beta(WidthContext(t=t, dim=dim)) for t in rounds]
        return WidthTables(np.array([float(one) for one in every]), none, none)
    offset, scale, constant, slope = np.array([width.terms(t) for t in rounds]).T
    return WidthTables(offset.copy(), scale**2 * constant, scale**2 * slope)
