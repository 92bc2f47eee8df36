"""Squared prediction errors of the trials of a study, gathered into a map per strategy.

When a strategy chooses x_t it holds a posterior mean over all arms. Its prediction error on an arm
is (mean_t(x) - f_t(x))², [M] Figure 4, averaged over rounds and trials. Only sums over rounds are
held while trials run, and of a finished chunk of trials only two numbers per arm, which merge.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from botorch_tv.simulation.records import MAPS, Arrays
from botorch_tv.simulation.worlds.objective import Objective, OnArms
from botorch_tv.strategies.arms import ArmEngine, per_trial
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.state import State

MAP, SCATTER = MAPS


class RunningMaps:
    """The squared errors of the strategies in the trials of one chunk, summed over rounds.

    Args:
        strategies: How many.
        trials: How many.
        arms: Number M of arms.
        dtype: Of the sums.
        device: Where the chunk runs.
    """

    def __init__(
        self, strategies: int, trials: int, arms: int, *, dtype: torch.dtype, device: torch.device
    ) -> None:
        self._sums = torch.zeros(strategies, trials, arms, dtype=dtype, device=device)

    def add(self, number: int, player: Strategy, state: State, objective: Objective) -> Tensor:
        """Take in what a strategy believes about the round it is to choose in.

        Args:
            number: Of the strategy.
            player: The strategy.
            state: What it knows, before the observation of the round.
            objective: Of the round.

        Returns:
            Squared error of the round, averaged over the arms, `trials`.
        """
        error = (posterior_mean(player, state) - on_all_arms(objective, state)).square_()
        self._sums[number] += error
        return error.mean(-1)

    def finished(self, rounds: int) -> dict[str, np.ndarray]:
        """The maps of the chunk, each `strategies x M`, float64.

        Args:
            rounds: How many were added.

        Returns:
            The mean over rounds and trials, and over trials the sum of squared deviations of a
            trial's own mean from it.
        """
        means, scatters = [], []
        for sums in self._sums:  # one by one, as copies of all would not always fit
            of_trials = sums.double() / rounds
            means.append(of_trials.mean(0))
            scatters.append(of_trials.sub_(means[-1]).square_().sum(0))
        maps = {MAP: means, SCATTER: scatters}
        return {name: torch.stack(rows).cpu().numpy() for name, rows in maps.items()}


def posterior_mean(player: Strategy, state: State) -> Tensor:
    """The mean of f_now on all arms of a grid, one round after the newest time told.

    Args:
        player: A strategy; how it explores makes no difference.
        state: All that has been told to it.

    Returns:
        `batch_shape x M`, the prior mean included.
    """
    engine = player.engine_for(state.domain)
    assert isinstance(engine, ArmEngine)
    prediction = engine.predict(state, state.time + 1, state.time)
    return prediction.mean + per_trial(prediction.offset)


def on_all_arms(objective: Objective, state: State) -> Tensor:
    """The objective on all arms, `trials x M`."""
    if isinstance(objective, OnArms):
        return objective.values
    arms = torch.arange(len(state.domain), device=state.time.device)  # type: ignore[arg-type]
    return objective.at(arms.expand(*state.time.shape, -1))


def merged(parts: Sequence[Arrays]) -> tuple[np.ndarray, np.ndarray]:
    """The maps of a whole study from those of its chunks.

    Scatters add up to what lies within chunks; what lies between them is weighted as in the
    analysis of variance. So the maps do not depend on the cut, up to rounding.

    Args:
        parts: Finished chunks.

    Returns:
        The mean over rounds and trials, and its standard error over trials, NaN for a single
        trial; both `strategies x M`.
    """
    trials = np.array([part["regret"].shape[1] for part in parts], dtype=np.float64)
    weights = trials[:, None, None]
    means = np.stack([part[MAP] for part in parts])
    total = trials.sum()
    mean = (weights * means).sum(0) / total
    scatter = sum(part[SCATTER] for part in parts) + (weights * (means - mean) ** 2).sum(0)
    if total < 2:
        return mean, np.full_like(mean, np.nan)
    return mean, np.sqrt(scatter / (total - 1) / total)
