"""Candidates of a round, as an exploration sees them on grids and boxes alike."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.acquisition.candidates import Candidates
from botorch_tv.identity.source import is_ours
from botorch_tv.inference.data import Data
from botorch_tv.inference.tensors import Scratch
from botorch_tv.strategies.draws import Draws
from botorch_tv.validation import shown

Score = Callable[[Candidates], Tensor]


@dataclass(frozen=True, kw_only=True)
class Round:
    """What is the same for all candidates of a round.

    Attributes:
        data: The observations in use.
        number: The round t to decide, from 1.
        sign: 1 when maximising, -1 when minimising.
        noise: Returns the noise variance of an observation, `batch_shape`.
        sqrt_beta: √beta, a number or `batch_shape`.
        offset: The prior mean, a number or `batch_shape`.
        unit: Unit of predictions, `batch_shape`; None for 1.
        memory: Memory of the exploration.
        draws: Random numbers.
    """

    data: Data
    number: int
    sign: int
    noise: Callable[[], Tensor]
    sqrt_beta: float | Tensor
    offset: float | Tensor
    unit: Tensor | None
    memory: Any
    draws: Draws

    @property
    def scale(self) -> float:
        """Largest prior standard deviation."""
        return self.data.prior.scale


class RoundCandidates(Candidates, ABC):
    """Candidates of a round."""

    def __init__(self, of: Round, scratch: Scratch) -> None:
        self.of, self.scratch = of, scratch
        self.sign, self.scale, self.memory = of.sign, of.scale, of.memory
        self.round = of.number

    @property
    def noise(self) -> Tensor:
        return self.of.noise().unsqueeze(-1)

    @property
    def sqrt_beta(self) -> float | Tensor:
        return _beside(self.of.sqrt_beta)

    @abstractmethod
    def predicted(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation at a choice, each `batch_shape`."""

    @cached_property
    def incumbent(self) -> Tensor:
        return self._incumbent().unsqueeze(-1)

    @abstractmethod
    def _incumbent(self) -> Tensor:
        """As :attr:`incumbent`, `batch_shape`."""

    @cached_property
    def best_observation(self) -> Tensor:
        data, of = self.of.data, self.of
        y, use = data.history.y.tensor(data.dropped), data.good
        best = best_of(self.sign * y, use, self.sign) - of.offset
        if of.unit is not None:
            best = best / of.unit
        return torch.where(use.any(-1), best, 0.0).unsqueeze(-1)

    def uniform(self) -> Tensor:
        return self.of.draws.uniform()


def best_of(values: Tensor, use: Tensor, sign: int) -> Tensor:
    """The largest of the values in use, times the sign; 0 if none is in use."""
    values = torch.nn.functional.pad(values.masked_fill(~use, -math.inf), (0, 1), value=-math.inf)
    return sign * torch.where(use.any(-1), values.amax(-1), 0.0)


def _beside(value: float | Tensor) -> float | Tensor:
    """A number per trial as `batch_shape x 1`, to be used with tensors `batch_shape x M`."""
    return value.unsqueeze(-1) if isinstance(value, Tensor) else value


def checked_scores(score: Score, values: Tensor, wanted: tuple[int, ...]) -> Tensor:
    """Scores, after checking their shape and dtype; on a CPU also that none is NaN."""
    if is_ours(score):
        return values
    if not isinstance(values, Tensor) or tuple(values.shape) != tuple(wanted):
        given = tuple(values.shape) if isinstance(values, Tensor) else shown(values)
        raise InputDataError(
            f"a score is {given}, but there must be one for each candidate, {tuple(wanted)}; "
            "what is known per trial is batch_shape x 1 beside at.mean and at.sd."
        )
    if not values.is_floating_point():
        raise InputDataError(
            f"a score is {values.dtype}, but scores are floating-point numbers like at.mean; "
            "use .to(at.mean)."
        )
    if values.device.type == "cpu" and bool(values.isnan().any()):
        raise InputDataError(
            "a score is NaN for some candidates, which can then be no maximum; clamp what is "
            "divided by, or what a root or logarithm is taken of."
        )
    return values
