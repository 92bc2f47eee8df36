"""When a posterior on a box is represented by features, and how accurate this is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.inference.box import BoxPrior, PointBasis, point_basis
from botorch_tv.inference.costs import KERNEL_SHARE, LEAST_SHARE, NOISE_SHARE
from botorch_tv.inference.process import Process
from botorch_tv.inference.recursion import Recursion
from botorch_tv.validation import settle_number


@dataclass(frozen=True)
class Features:
    """Constant cost per round: the kernel approximated by few features, with rank-one updates.

    On a grid features are exact up to rounding. On a box their accuracy is set by the tolerance,
    and a coarser one needs fewer of them: for a kernel of lengthscale 0.2 on the unit square 195 by
    default, and 108 for 1e-2.

    Args:
        tolerance: Largest error of a posterior mean or standard deviation on a box, relative to the
            largest prior standard deviation, for observations within the range of the prior; beyond
            it the error of the mean grows in proportion to them.
    """

    tolerance: float = 1e-6

    def __post_init__(self) -> None:
        settle_number(self, "tolerance", "(0, 1)", "it must be between 0 and 1; use 1e-6.")


def refusal(process: Process, dtype: torch.dtype, context: int) -> str | None:
    """Why rank-one steps in few functions do not serve a process on a box; None where they do.

    Args:
        process: Whose posterior is wanted.
        dtype: Of all that is computed.
        context: Coordinates that the kernel sees besides those of the box.
    """
    if dtype != torch.float64:
        return f"{dtype} is too coarse for them; use float64."
    if context:
        return "its context has no bounds; make it coordinates of the box where it has some."
    if not Recursion.serves(process):
        return (
            "noise that ages, a decay that is not markovian, and rows that leave by time, or out "
            "of a window while the objective moves, change more than a row in a round."
        )
    return None


def in_features(
    process: Process, box_prior: BoxPrior, corners: Tensor, *, tolerance: float, most: int
) -> PointBasis | str:
    """A prior on a box in as few functions as a tolerance allows.

    Args:
        process: Whose posterior is wanted.
        box_prior: Its kernel on the box.
        corners: Of the box, `2 x d`.
        tolerance: Of means and standard deviations, see :class:`Features`.
        most: Functions, at most.

    Returns:
        The prior, or why it takes more than that.
    """
    share = (
        tolerance * KERNEL_SHARE * math.sqrt(min(1.0, process.noise / float(box_prior.variance)))
    )
    if share < LEAST_SHARE:
        return (
            f"an error of {tolerance:g} of the prior standard deviation takes a kernel known to "
            f"{share:.1g}, as the noise is so small; allow more, Features(tolerance=...)."
        )
    least = process.noise * NOISE_SHARE
    basis = point_basis(box_prior, corners, tolerance=share, least_noise=least, most=most)
    if isinstance(basis, PointBasis):
        return basis
    return (
        f"an error of {tolerance:g} of the prior standard deviation takes more than {basis} "
        "functions of its kernel; allow more, Features(tolerance=...)."
    )
