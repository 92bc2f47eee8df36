"""What a strategy on a box holds its objective to be: kernel, noise and decay, learned or given."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field
from functools import cached_property

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.forgetting import Decay
from botorch_tv.inference.covariance import describe_kernel, evaluated
from botorch_tv.inference.definite import (
    EVALUATED_TOLERANCE,
    require_semidefinite,
    require_symmetric,
)
from botorch_tv.inference.point_kernel import General, PointKernel, point_kernel
from botorch_tv.inference.tensors import Scratch


@dataclass(frozen=True, eq=False)
class BoxPrior:
    """A prior over functions on a box.

    Attributes:
        kernel: The spatial covariance, one for all trials or, where it is learned, with a batch of
            one member per trial.
        variance: Largest prior variance in the middle of the box, in two corners and at some
            points between, a 0-dimensional tensor; its dtype and device are those of all that is
            computed.
        decay: Learned decay, which takes the strategy's place; None where it is given.
        noise_factor: Learned noise variance as a multiple of the strategy's, `trials`; None for 1.
        given: The prior before anything was learned; None where this is it.
        parameters: What was learned, for starting from it the next time, `trials x p`.
    """

    kernel: Kernel
    variance: Tensor
    decay: Decay | None = None
    noise_factor: Tensor | None = None
    given: BoxPrior | None = None
    parameters: Tensor | None = None
    scratch: Scratch = field(default_factory=Scratch)

    @cached_property
    def scale(self) -> float:
        """Prior standard deviation, the unit of the tie rule."""
        return math.sqrt(float(self.variance))

    def unlearned(self) -> BoxPrior:
        """The prior before anything was learned."""
        return self if self.given is None else self.given

    @property
    def points(self) -> PointKernel:
        """The kernel, ready for evaluation."""
        return point_kernel(self.kernel)


def box_prior_at(points: Tensor, kernel: Kernel | Tensor) -> BoxPrior:
    """The prior before anything is learned.

    Args:
        points: Some points of the box with their context, `q x (d + c)`.
        kernel: Of the strategy.

    Raises:
        InputDataError: If the kernel is a matrix, has a batch shape, cannot be evaluated, is not
            finite and symmetric, has no positive variance or a negative eigenvalue, or answers
            otherwise when it is asked for trials together or for variances alone.
    """
    if isinstance(kernel, Tensor):
        raise InputDataError(
            f"the kernel is a matrix over {len(kernel)} arms, but a box has more points than that; "
            "pass a GPyTorch kernel, or use a Grid."
        )
    own = copy.deepcopy(kernel).to(points).requires_grad_(False)
    matrix = evaluated(kernel, points.double())
    require_symmetric(matrix, EVALUATED_TOLERANCE)
    _require_one_formula(kernel, points.double(), matrix)
    variance = matrix.diagonal().amax().to(points)
    if not float(variance) > 0:
        raise InputDataError(
            f"the kernel's largest variance is {float(variance)} in the middle, in corners and "
            "elsewhere in the box, but it must be positive; check its parameters."
        )
    require_semidefinite(0.5 * (matrix + matrix.T))
    return BoxPrior(own, variance)


@torch.no_grad()
def _require_one_formula(kernel: Kernel, points: Tensor, matrix: Tensor) -> None:
    """Raise where a kernel of one's own says another thing when it is asked in another way.

    A round asks it for trials together, for rectangles, and for variances alone.
    """
    asked = point_kernel(copy.deepcopy(kernel).to(points).requires_grad_(False))
    if not isinstance(asked, General):
        return
    trials, first = points.expand(2, -1, -1), points[:1].expand(2, -1, -1)
    name, limit = describe_kernel(kernel), EVALUATED_TOLERANCE * float(matrix.abs().max())
    fix = (
        "compute elementwise over x1 `... x n x d` and x2 `... x m x d`, the diagonal where "
        "diag=True, and change nothing that is given or kept."
    )
    try:
        variance, covariance = asked.variance(trials), asked.covariance(trials, first)
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise InputDataError(
            f"the kernel {name} cannot be evaluated for two trials together: {error}; {fix}"
        ) from error
    for what, found, wanted in (
        ("covariances of trials together", covariance, matrix[:, :1]),
        ("variances, with diag=True,", variance, matrix.diagonal()),
    ):
        if found.shape != (2, *wanted.shape) or not bool((found - wanted).abs().max() <= limit):
            raise InputDataError(
                f"the kernel {name} gives {what} that are not those of its matrix of the same "
                f"points; {fix}"
            )
