"""A joint Gaussian whose variances may be as small as the unit of y makes them."""

from __future__ import annotations

import torch
from gpytorch.distributions import MultivariateNormal
from torch import Tensor


class Gaussian(MultivariateNormal):  # type: ignore[misc]
    """As GPyTorch's, whose variances end at 1e-10.

    That is rounding where y is of size 1, and far too much where y is measured in metres or amperes
    and differs by millionths.
    """

    @property
    def variance(self) -> Tensor:
        """Variances, `... x q`, positive also where rounding leaves none."""
        diagonal: Tensor = self.lazy_covariance_matrix.diagonal(dim1=-1, dim2=-2)
        variance = diagonal.expand(self.batch_shape + self.event_shape)
        return variance.clamp_min(torch.finfo(variance.dtype).tiny)
