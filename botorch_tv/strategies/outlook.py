"""A strategy's posterior, as its exploration sees it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from botorch_tv.acquisition.exploration import Outlook
from botorch_tv.strategies.draws import Draws
from botorch_tv.strategies.state import State

if TYPE_CHECKING:
    from botorch_tv.strategies.arms import ArmEngine, Prediction


class View(Outlook):
    """What is predicted for one round of one strategy.

    Args:
        engine: Who predicts.
        state: All that has been told.
        prediction: The posterior on all arms.
        multiplier: √beta, a number or `batch_shape`.
        now: The present, `batch_shape`.
        reference: Time from which lags are counted, `batch_shape`.
        draws: Random numbers; None where none are needed.
    """

    def __init__(
        self,
        engine: ArmEngine,
        state: State,
        prediction: Prediction,
        multiplier: float | Tensor,
        now: Tensor,
        reference: Tensor,
        draws: Draws | None,
    ) -> None:
        self.mean, self.sd = prediction.mean, prediction.sd
        self.sign = 1 if engine.strategy.maximize else -1
        self.scale, self.scratch = state.basis.scale, state.basis.scratch
        self._engine, self._state, self._prediction = engine, state, prediction
        self._multiplier, self._clock, self._draws = multiplier, (now, reference), draws

    def multiplier(self) -> float | Tensor:
        return self._multiplier

    def incumbent(self) -> Tensor:
        observed = self._engine.observed(self._state, *self._clock)
        best = torch.where(observed, self.sign * self.mean, -math.inf).amax(-1)
        # Without data any finite number will do: the choice does not depend on it then.
        return self.sign * torch.where(self.has_data(), best, 0.0)

    def sample(self) -> Tensor:
        assert self._prediction.sample is not None
        return self._prediction.sample

    def uniform(self) -> Tensor:
        assert self._draws is not None
        return self._draws.uniform()

    def has_data(self) -> Tensor:
        return self._prediction.has_data
