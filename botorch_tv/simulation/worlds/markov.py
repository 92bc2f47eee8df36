"""Objectives that drift by the Markov model."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.inference.basis import FeatureBasis, ProductBasis
from botorch_tv.inference.covariance import describe_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.base import GridWorld
from botorch_tv.simulation.worlds.functions import GaussianDraw
from botorch_tv.simulation.worlds.objective import InFeatures, Objective
from botorch_tv.strategies.domains import Grid
from botorch_tv.validation import require_number


class MarkovWorld(GridWorld):
    """Draws from a Gaussian process that drifts by the Markov model, [B16] §2.

    f_1 = g_1 and f_{t+1} = sqrt(1 - ε) f_t + sqrt(ε) g_{t+1} with independent draws g from the
    kernel's Gaussian process. Each round uses one normal variate per feature of the kernel.

    Args:
        domain: The arms.
        kernel: A GPyTorch kernel, or a covariance matrix over the arms, `M x M`.
        epsilon: Rate of change ε, in [0, 1].
        noise: Variance of the observation noise.

    Raises:
        ValueError: If ``epsilon`` lies outside [0, 1] or ``noise`` is negative.
    """

    def __init__(
        self, domain: Grid, *, kernel: Kernel | Tensor, epsilon: float, noise: float
    ) -> None:
        super().__init__(domain, noise)
        epsilon = require_number(
            "MarkovWorld: epsilon", epsilon, "[0, 1]", "0 keeps the objective still."
        )
        self._draw = GaussianDraw(kernel)
        self.kernel = self._draw.kernel
        self.epsilon = epsilon

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        basis = self._draw.basis(self.domain, stream.dtype, stream.device)
        values = basis.variance.new_empty(stream.trials, basis.arms)
        for position in self._positions(basis, stream):
            yield basis.expand(position, out=values)

    def objectives(self, stream: Stream) -> Iterator[Objective]:
        basis = self._draw.basis(self.domain, stream.dtype, stream.device)
        if type(self).rounds is not MarkovWorld.rounds or not isinstance(basis, ProductBasis):
            return super().objectives(stream)
        values = basis.variance.new_empty(stream.trials, basis.arms)
        return (InFeatures(basis, one, values) for one in self._positions(basis, stream))

    def _positions(self, basis: FeatureBasis, stream: Stream) -> Iterator[Tensor]:
        """Coordinates of the objective in features at rounds 1, 2, ..., `trials x r`."""
        position = self._draw.coordinates(basis, stream)
        stay, move = math.sqrt(1 - self.epsilon), math.sqrt(self.epsilon)
        while True:
            # Converting many draws to features at once is cheaper.
            steps = self._draw.coordinates_ahead(basis, stream).mul_(move)
            for step in steps.unbind(1):
                yield position
                position = torch.add(step, position, alpha=stay)

    def __repr__(self) -> str:
        return (
            f"MarkovWorld({self.domain!r}, kernel={describe_kernel(self.kernel)}, "
            f"epsilon={self.epsilon}, noise={self.noise})"
        )
