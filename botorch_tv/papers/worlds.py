"""Worlds (simulated objectives) of several papers, and numbers that determine study settings.

[B16] and [ET] use Markov objectives on a 50 x 50 grid. The widths of [C17] and [W22] depend on a
bound on the norms of the objectives, and the windows of [W22] depend on the variation budget. The
noise of [C17] depends on the range of the objectives. The norm bound, the variation budget and the
range are computed once for a whole study, from the functions of the default study on a CPU, with
seed 0 and the paper's number of trials. Therefore the norm bound, the variation budget and
the range do not depend on the requested seed, device or number of trials, and a study can be
resumed and extended.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from itertools import islice, pairwise
from typing import TypeVar

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.papers.experiment import Drawn
from botorch_tv.simulation import FixedFunctions, GridWorld, MarkovWorld
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.grid import DrawnWorld
from botorch_tv.strategies import Grid, Strategy

POINTS = 50

Drawing = TypeVar("Drawing", bound=DrawnWorld)


def spatial_kernel(name: str = "se") -> Kernel:
    """A kernel with lengthscale 0.2 and variance 1."""
    return unit_kernel(name, 0.2)


def markov_world(epsilon: float, noise: float, kernel: str = "se") -> MarkovWorld:
    """Objectives on [0,1]² that change at rate ε, on 50 x 50 equally spaced arms."""
    grid = Grid.regular(points=POINTS, dim=2)
    return MarkovWorld(grid, kernel=spatial_kernel(kernel), epsilon=epsilon, noise=noise)


def markov_case(
    title: str,
    epsilon: float,
    noise: float,
    strategies: Callable[[float], dict[str, Strategy]],
    kernel: str = "se",
) -> Drawn:
    """A case: a study on the objectives of :func:`markov_world`."""
    return Drawn(title, noise, partial(markov_world, epsilon, kernel=kernel), strategies)


def held_fixed(world: Drawing) -> Drawing:
    """A copy of a world in which all trials have the functions of the default study's first trial.

    Args:
        world: A world that draws functions.
    """
    fixed = copy.copy(world)
    fixed.functions = tuple(FixedFunctions(drawn.values[0]) for drawn in world.draw(_stream(1)))
    return fixed


def largest_norm(world: DrawnWorld, trials: int) -> float:
    """The largest norm of any function of any trial, a bound B for the widths.

    The norm of a linear interpolation between two functions is at most the larger of their norms.

    Args:
        world: A world that draws functions together with their norms.
        trials: Number of trials of the default study.
    """
    squared = [drawn.squared_norm for drawn in world.draw(_stream(trials))]
    given = torch.stack([norms for norms in squared if norms is not None])
    return float(given.max().sqrt())


def drawn_values(world: DrawnWorld, trials: int) -> Tensor:
    """Values of all functions of all trials on the arms, `functions x trials x M`.

    Args:
        world: A world that draws functions.
        trials: Number of trials of the default study.
    """
    return torch.stack([drawn.values for drawn in world.draw(_stream(trials))])


def mean_range(world: DrawnWorld, trials: int) -> float:
    """Mean range (highest minus lowest value) over all functions of all trials.

    Args:
        world: A world that draws functions.
        trials: Number of trials of the default study.
    """
    values = drawn_values(world, trials)
    return float((values.amax(-1) - values.amin(-1)).mean())


def variation(world: GridWorld, trials: int, horizon: int) -> float:
    """Mean over trials of the variation budget B_T = Σ_{t < T} max_x |f_{t+1}(x) - f_t(x)|.

    Args:
        world: Any world on a grid.
        trials: Number of trials of the default study.
        horizon: Number of rounds T.
    """
    total = torch.zeros(trials, dtype=torch.float64, device="cpu")
    rounds = (f.clone() for f in islice(world.rounds(_stream(trials)), horizon))
    for before, after in pairwise(rounds):
        total += (after - before).abs().amax(-1)
    return float(total.mean())


def _stream(trials: int) -> Stream:
    return Stream(0, "world", 0, trials, dtype=torch.float64, device=torch.device("cpu"))
