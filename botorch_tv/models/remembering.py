"""Whether test points are those looked at last, perhaps at another time."""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.kernels import SpatioTemporalKernel
from botorch_tv.models.regression import Seen


def carried(kernel: Kernel, seen: Seen, points: Tensor, inputs: Tensor) -> Tensor | None:
    """Factor on the prior covariance between observations and points seen before.

    A loop asks for the same arms at one present after the other. All that was observed before both
    has then lost the same share of its covariance with every arm.

    Args:
        kernel: The prior covariance.
        seen: The points seen.
        points: Points asked for, `M x d`.
        inputs: All observations, `n x d`, first those that ``seen`` knows.

    Returns:
        The factor, no dimensions; None if these are other points, or there is no such factor.
    """
    before = seen.points
    if before.shape != points.shape or before.dtype != points.dtype:
        return None
    if torch.equal(before, points):
        return points.new_ones(())
    if not isinstance(kernel, SpatioTemporalKernel) or kernel.active_dims is not None:
        return None
    (arms_before, times_before), (arms, times) = kernel.split(before), kernel.split(points)
    start, end = times_before[0, 0], times[0, 0]
    moved = (times_before == start).all() & (times == end).all()
    _, observed = kernel.split(inputs[: seen.explained.shape[-2]])
    moved &= ((observed <= start) & (observed <= end)).all()
    if not bool(moved) or not torch.equal(arms_before, arms):
        return None
    return kernel.carry(start, end)
