"""Markov objectives on a 50 x 50 grid, the setting shared by [B16] and [ET]."""

from __future__ import annotations

from gpytorch.kernels import Kernel

from botorch_tv.simulation import MarkovWorld
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid

POINTS = 50


def spatial_kernel(name: str = "se") -> Kernel:
    """A kernel with lengthscale 0.2 and variance 1."""
    return unit_kernel(name, 0.2)


def markov_world(epsilon: float, noise: float, kernel: str = "se") -> MarkovWorld:
    """Objectives on [0,1]² that change at rate ε, on 50 x 50 equally spaced arms."""
    grid = Grid.regular(points=POINTS, dim=2)
    return MarkovWorld(grid, kernel=spatial_kernel(kernel), epsilon=epsilon, noise=noise)
