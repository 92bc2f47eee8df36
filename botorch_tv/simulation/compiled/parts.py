"""What compiled rounds are given and fill in: arrays and numbers alone."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

SLOTS, NUMBER, SINCE, ELAPSED = range(4)
"""Columns of the counts: slots used, observations kept, rounds since the reset, time since the
origin."""


class Sides(NamedTuple):
    """Features of two groups of dimensions, which bring coordinates C to the arms as Φ₁ C Φ₂ᵀ.

    They are padded with zeros to a multiple of three, the first ones to a multiple of six.
    """

    left: np.ndarray
    """Φ₁, `n_1 x r_1`; unless mirrored, of an even number of rows."""
    right: np.ndarray
    """Φ₂ᵀ, `r_2 x n_2`."""
    mirrored: bool
    """Whether Φ₁ read upwards is the same in the first half of its columns, and the negative of
    itself in the others: half of a product says all of it."""


class Factors(NamedTuple):
    """A covariance over the arms as a product over two groups of dimensions, K = K₁ ⊗ K₂.

    A matrix that is no product is its own K₂, and its rows need not be brought to the arms.
    """

    sides: Sides
    rows: np.ndarray
    """What an arm adds to a sum of rows of K, beside its row of Φ₁: Φ₂ or K₂, `n_2 x r_2`."""
    first: np.ndarray
    """K₁."""
    second: np.ndarray
    """K₂."""
    product: bool


class Scene(NamedTuple):
    """Where the objective of a round comes from."""

    given: np.ndarray
    """Values on the arms, or coordinates in features, `rounds x trials x M or r`."""
    sides: Sides
    """Of the features."""
    places: np.ndarray
    """Where coordinates belong in `r_1 x r_2`; none where values are given."""
    noise: np.ndarray
    """Errors of measurement, `rounds x trials`."""


class Trials(NamedTuple):
    """What is known in each trial."""

    mean: np.ndarray
    """`trials x M`."""
    variance: np.ndarray
    """`trials x M`."""
    places: np.ndarray
    """Arms played, by their places in both groups of dimensions, `trials x 2 x slots`."""
    inverse: np.ndarray
    """P, `trials x slots x slots`."""
    counts: np.ndarray
    """`trials x 4`, by column as named above."""
    gain: np.ndarray
    """Information gain of the observations kept, `trials`."""
    y: np.ndarray
    """Observations, `trials x rounds`; of no round where all are kept."""


class Played(NamedTuple):
    """What is recorded, each `trials x rounds`."""

    arm: np.ndarray
    regret: np.ndarray
    resets: np.ndarray
