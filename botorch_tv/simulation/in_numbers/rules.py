"""What a strategy is made of, in numbers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Rules(NamedTuple):
    """What a strategy is made of, in numbers; tables are by rounds, or by elapsed time."""

    variance: np.ndarray
    """Prior variance of the arms, `M`."""
    noise: float
    mean: float
    tie: float
    """Largest difference of two scores that tie."""
    sign: float
    """1 where large values are good, -1 where small ones are."""
    sqrt_beta: np.ndarray
    """√beta by round, or what does not depend on the information gain."""
    gain_root: np.ndarray
    """What is added for an information gain g, √(gain_root + gain_slope g), by round; or none."""
    gain_slope: np.ndarray
    moves: bool
    attenuation: np.ndarray
    """Factor on a covariance from a time since the origin to the next."""
    prior: np.ndarray
    """Factor on the prior variance by the time since the origin."""
    period: int
    """Rounds between resets; 0 for none."""
    window: int
    """Rounds kept; 0 for all."""
    band_sd: np.ndarray
    """Standard deviations that an observation may be off by rounds since the reset; or none."""
    band_noise: np.ndarray
    """What it may be off besides."""
