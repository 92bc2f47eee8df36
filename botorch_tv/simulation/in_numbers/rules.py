"""The parts of a strategy, in numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Rules(NamedTuple):
    """The parts of a strategy, in numbers; tables are indexed by round or by elapsed time."""

    variance: np.ndarray
    """Prior variance of the arms, `M`."""
    noise: float
    mean: float
    tie: float
    """Largest difference between two scores that counts as a tie."""
    sign: float
    """1 to maximise, -1 to minimise."""
    sqrt_beta: np.ndarray
    """√beta by round, or its part that does not depend on the information gain."""
    gain_root: np.ndarray
    """With an information gain g, √(gain_root + gain_slope g) is added to √beta, by round. Empty if
    √beta does not depend on g."""
    gain_slope: np.ndarray
    moves: bool
    attenuation: np.ndarray
    """Factor on covariances in a unit of time, by time since the origin."""
    prior: np.ndarray
    """Factor on the prior variance, by time since the origin."""
    period: int
    """Rounds between resets; 0 for none."""
    window: int
    """Rounds kept; 0 for all."""
    band_sd: np.ndarray
    """Multiple of the standard deviation in the trigger's band, by rounds since the reset; empty
    without a trigger."""
    band_noise: np.ndarray
    """The part of the trigger's band due to noise, by rounds since the reset."""
