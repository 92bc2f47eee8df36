"""The least work of a round: the numbers and flops that a fused program would need.

Everything is per trial and round, on M arms, with a kernel of r features and n observations live.

*Vectors over the arms.* A posterior is a mean and a variance, M numbers each. A matrix product
computes the covariance of the measured arm with all arms from r coordinates and writes it. A pass
then reads it, reads and writes both vectors, and finds the next choice: 6 M numbers.

*Coordinates of that covariance.* There are three forms; the cheapest counts:

========  ==========================================  ===========  =================
form      reads                                       numbers      multiplications
========  ==========================================  ===========  =================
rows      the n live rows; writes a row               (n + 1) r    2 n r
matrix    the r x r covariance                        r²           r²
arms      of a static objective: (K_AA + N)⁻¹ of the  2 a²         2 a² + a r
          a arms that the live observations are of,
          read and written
========  ==========================================  ===========  =================

A program may apply many rank-one steps to the matrix at once, so it need not write the matrix in
every round.

*Product over the arms.* M r multiplications with all features. On a grid the features are a
product, and the dimensions are multiplied in turn.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from botorch_tv.gp.basis import Basis, FeatureBasis, ProductBasis

ENGINE_VECTORS = 6


class Count(NamedTuple):
    """Work per trial and round."""

    numbers: float
    """Numbers read and written."""
    flops: float
    """Flops of matrix products, two for every multiplication."""

    def seconds(self, bandwidth: float, rate: float, element_size: int) -> float:
        """Least time on a device of some bytes per second and flops per second of products."""
        return max(self.numbers * element_size / bandwidth, self.flops / rate)


def round_count(basis: Basis, live: float, played: float | None) -> Count:
    """The least work of `ask` and `tell`.

    Args:
        basis: The kernel over the arms.
        live: Observations in use, n.
        played: Distinct arms among them, a, if the objective is static between resets; None if it
            moves.
    """
    r = basis.size
    forms = [Count((live + 1) * r, 4 * live * r), Count(r**2, 2 * r**2)]
    if played is not None:
        forms.append(Count(2 * played**2, 4 * played**2 + 2 * played * r))
    cheapest = min(forms)
    return Count(
        ENGINE_VECTORS * basis.arms + cheapest.numbers, product_flops(basis) + cheapest.flops
    )


def product_flops(basis: Basis) -> int:
    """Flops of the cheapest product of r coordinates with the features of all arms."""
    if not isinstance(basis, FeatureBasis):
        return 0
    whole = 2 * basis.arms * basis.size
    if not isinstance(basis, ProductBasis):
        return whole
    # The dimensions in turn: an array r_1 x ... x r_d becomes an array n_1 x ... x n_d.
    shape = [factor.shape[1] for factor in basis.factors]
    flops = 0
    for dim, factor in enumerate(basis.factors):
        flops += 2 * len(factor) * math.prod(shape)
        shape[dim] = len(factor)
    return min(whole, flops)
