"""What the functions of a study have in common, for settings that are derived from them.

The widths of [C17] and [W22] know a bound on the norms of the objectives, their windows the
variation budget, and [C17]'s noise the range. Such numbers hold for a study as a whole. They are
taken from the functions that the default study draws on a CPU, with seed 0 and the paper's number
of trials: so they do not change with the seed, the device, or the number of trials asked for, and
a study can be resumed and extended.
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

    Functions between two others on a straight line have no larger norm than both.

    Args:
        world: Its functions must know their norm.
        trials: Trials of the default study.
    """
    squared = [drawn.squared_norm for drawn in world.draw(_stream(trials))]
    known = torch.stack([one for one in squared if one is not None])
    return float(known.max().sqrt())


def mean_range(world: DrawnWorld, trials: int) -> float:
    """Mean over all functions of all trials of their highest less their lowest value.

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
