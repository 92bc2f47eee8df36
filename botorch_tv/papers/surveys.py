"""Properties of all functions of a study, from which settings of the papers are derived.

The widths of [C17] and [W22] depend on a bound on the norms of the objectives, their windows on the
variation budget, and the noise of [C17] on the range. These numbers hold for a study as a whole.
They are computed from the functions drawn by the default study on a CPU, with seed 0 and the
paper's number of trials. They do not depend on the requested seed, device or number of trials, so
that a study can be resumed and extended.
"""

from __future__ import annotations

from itertools import islice, pairwise

import torch
from torch import Tensor

from botorch_tv.simulation import GridWorld
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds.drawn import DrawnWorld


def largest_norm(world: DrawnWorld, trials: int) -> float:
    """The largest norm of any function of any trial, a bound B for the widths.

    Linear interpolation between two functions does not exceed the larger norm.

    Args:
        world: A world whose functions have known norms.
        trials: Trials of the default study.
    """
    squared = [drawn.squared_norm for drawn in world.draw(_stream(trials))]
    known = torch.stack([one for one in squared if one is not None])
    return float(known.max().sqrt())


def mean_range(world: DrawnWorld, trials: int) -> float:
    """Mean range (highest minus lowest value) over all functions of all trials.

    Args:
        world: A world made of functions.
        trials: Trials of the default study.
    """
    values = torch.stack([drawn.values for drawn in world.draw(_stream(trials))])
    return float((values.amax(-1) - values.amin(-1)).mean())


def variation(world: GridWorld, trials: int, horizon: int) -> float:
    """Mean over trials of the variation budget B_T = Σ_{t < T} max_x |f_{t+1}(x) - f_t(x)|.

    Args:
        world: Any world on a grid.
        trials: Trials of the default study.
        horizon: Rounds T.
    """
    total = torch.zeros(trials, dtype=torch.float64, device="cpu")
    rounds = (f.clone() for f in islice(world.rounds(_stream(trials)), horizon))
    for before, after in pairwise(rounds):
        total += _distance(before, after)
    return float(total.mean())


def _distance(before: Tensor, after: Tensor) -> Tensor:
    return (after - before).abs().amax(-1)


def _stream(trials: int) -> Stream:
    return Stream(0, "world", 0, trials, dtype=torch.float64, device=torch.device("cpu"))
