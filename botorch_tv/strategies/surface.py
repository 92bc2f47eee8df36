"""What a strategy on a box holds its objective to be: kernel, noise and decay, learned or given."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import cached_property

from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.forgetting import Decay
from botorch_tv.inference.point_kernel import PointKernel, point_kernel
from botorch_tv.inference.scratch import Scratch


@dataclass(frozen=True, eq=False)
class Surface:
    """A prior over functions on a box.

    Attributes:
        kernel: The spatial covariance, one for all trials or, where it is learned, with a batch of
            one member per trial.
        variance: Largest prior variance in the middle of the box and in two corners, a
            0-dimensional tensor; its dtype and device are those of all that is computed.
        decay: Learned decay, which takes the strategy's place; None where it is given.
        noise_factor: Learned noise variance as a multiple of the strategy's, `trials`; None for 1.
        given: The prior before anything was learned; None where this is it.
        parameters: What was learned, for starting from it the next time, `trials x p`.
    """

    kernel: Kernel
    variance: Tensor
    decay: Decay | None = None
    noise_factor: Tensor | None = None
    given: Surface | None = None
    parameters: Tensor | None = None
    scratch: Scratch = field(default_factory=Scratch)

    @cached_property
    def scale(self) -> float:
        """Prior standard deviation, the unit of the tie rule."""
        return math.sqrt(float(self.variance))

    def unlearned(self) -> Surface:
        """The prior before anything was learned."""
        return self if self.given is None else self.given

    @property
    def points(self) -> PointKernel:
        """The kernel, ready for evaluation."""
        return point_kernel(self.kernel)


def surface_at(points: Tensor, kernel: Kernel | Tensor) -> Surface:
    """The prior before anything is learned.

    Args:
        points: Some points of the box with their context, `1 x q x (d + c)`.
        kernel: Of the strategy.

    Raises:
        InputDataError: If the kernel is a matrix, has a batch shape, cannot be evaluated, or has no
            positive and finite variance.
    """
    if isinstance(kernel, Tensor):
        raise InputDataError(
            f"the kernel is a matrix over {len(kernel)} arms, but a box has more points than that; "
            "pass a GPyTorch kernel, or use a Grid."
        )
    if kernel.batch_shape.numel() != 1:
        raise InputDataError(
            f"the kernel has batch shape {tuple(kernel.batch_shape)}; give one kernel, all trials "
            "start from it."
        )
    own = copy.deepcopy(kernel).to(points).requires_grad_(False)
    try:
        ready = point_kernel(own)
        ready.check(points.shape[-1])
        variance = ready.covariance(points, points).diagonal(dim1=-2, dim2=-1).amax()
    except (RuntimeError, ValueError, IndexError) as error:
        raise InputDataError(
            f"the kernel cannot be evaluated on points of {points.shape[-1]} coordinates, those of "
            f"the box and of the context: {error}"
        ) from error
    if not 0 < float(variance) < math.inf:
        raise InputDataError(
            f"the kernel's variance is {float(variance)} in the middle and in corners of the box, "
            "but it must be positive and finite; check its parameters."
        )
    return Surface(own, variance)
