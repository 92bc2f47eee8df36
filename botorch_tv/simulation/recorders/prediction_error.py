"""Record the squared prediction error, arm by arm.

When a strategy chooses x_t, it has a posterior mean over all arms. Its squared prediction error at
an arm is (mean_t(x) - f_t(x))², [M] Figure 4.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from botorch_tv.simulation.recorders.recorder import Recorder, Seen, Variable, require_recorded
from botorch_tv.simulation.worlds.objective import Objective, OnArms
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State
from botorch_tv.validation import require

MAP, MAP_ERROR = "prediction_error", "prediction_error_standard_error"
"""Average over rounds and trials, and its standard error, `strategy x arm`."""
SQUARED_ERROR = "squared_error"
"""Average over the arms, `strategy x trial x round`."""
PLACE = "position"
"""Coordinates of the arms, `arm x coordinate`."""


@dataclass(frozen=True)
class PredictionError(Recorder):
    """Records the error of the posterior mean at every arm of a grid.

    A study takes up to twice the time. Its result then has :attr:`~StudyResult.prediction_error`
    and :attr:`~StudyResult.squared_error`.
    """

    def variables(self, domain: Domain) -> Mapping[str, Variable]:
        arms = _arms(domain)
        return {
            SQUARED_ERROR: Variable(),
            MAP: Variable({"arm": len(arms)}, averaged=True),
        }

    def before(self, seen: Seen) -> Mapping[str, Tensor]:
        mean = seen.strategy.arm_means(seen.state)
        error = (mean - on_all_arms(seen.objective, seen.state)).square_()
        return {SQUARED_ERROR: error.mean(-1), MAP: error}

    def labels(self, domain: Domain, strategies: Mapping[str, Strategy]) -> xr.Dataset:
        places = _arms(domain).X.detach().cpu().numpy().astype(np.float64)
        return xr.Dataset(
            coords={"arm": np.arange(len(places)), PLACE: (("arm", "coordinate"), places)}
        )


def require_maps(data: xr.Dataset) -> None:
    """Check that a study recorded maps of prediction errors.

    Raises:
        ValueError: If it did not, with how to record them.
    """
    names = (MAP, MAP_ERROR, PLACE, SQUARED_ERROR)
    require_recorded(data, names, "PredictionError", "--prediction-error")


def on_all_arms(objective: Objective, state: State) -> Tensor:
    """The objective on all arms, `trials x M`."""
    if isinstance(objective, OnArms):
        return objective.values
    arms = torch.arange(len(state.domain), device=state.time.device)  # type: ignore[arg-type]
    return objective.at(arms.expand(*state.time.shape, -1))


def _arms(domain: Domain) -> Grid:
    require(
        isinstance(domain, Grid),
        f"run_study: record has PredictionError(), but {domain!r} has no arms; use a Grid, or "
        "Diagnosis() for the predictions at the points chosen.",
    )
    assert isinstance(domain, Grid)
    return domain
