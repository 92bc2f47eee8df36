"""All arms of a grid, as an exploration sees them."""

from __future__ import annotations

from functools import cached_property

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.acquisition.candidates import Candidates, Ties
from botorch_tv.acquisition.exploration import TIE_TOLERANCE
from botorch_tv.inference.arms import ArmPosterior
from botorch_tv.inference.basis import Basis
from botorch_tv.inference.linalg import at_index, first_maximum, random_maximum
from botorch_tv.inference.mixture.prior import BankPrior
from botorch_tv.inference.tensors import writes
from botorch_tv.strategies.candidates.round import (
    Round,
    RoundCandidates,
    Score,
    best_of,
    checked_scores,
)
from botorch_tv.strategies.draws import leading_normals


class ArmCandidates(RoundCandidates):
    """All arms of a grid.

    Args:
        of: The round.
        posterior: On all arms.
        drawn: Numbers for the first function drawn, where it is sure to be asked for,
            `batch_shape x p`.
    """

    def __init__(self, of: Round, posterior: ArmPosterior, drawn: Tensor | None) -> None:
        super().__init__(of, of.data.prior.scratch)
        self._mean, self._sd = posterior.mean, posterior.sd
        self._posterior, self._normals = posterior, [] if drawn is None else [drawn]
        self._functions: list[Tensor] = []

    @property
    def mean(self) -> Tensor:
        return self._mean

    @property
    def sd(self) -> Tensor:
        return self._sd

    def _incumbent(self) -> Tensor:
        data = self.of.data
        values = self.sign * self.mean.gather(-1, data.history.choice.tensor(data.dropped))
        return best_of(values, data.good, self.sign)

    @cached_property
    def has_data(self) -> Tensor:
        data = self.of.data
        return torch.ones_like(data.time, dtype=torch.bool) if data.empty is None else ~data.empty

    def sample(self, n: int = 1) -> Tensor:
        while len(self._functions) < n:
            if len(self._normals) == len(self._functions):
                prior = self.of.data.prior
                assert isinstance(prior, (Basis, BankPrior))
                room = max(prior.arms, prior.normals)
                self._normals.append(leading_normals(self.of.draws, prior.normals, room))
            self._functions.append(self._posterior.draw(self._normals[len(self._functions)]))
        return torch.stack(self._functions[:n]) if n != 1 else self._functions[0].unsqueeze(0)

    def argmax(
        self,
        score: Score,
        *,
        unit: float | None = None,
        first_without_data: bool = False,
        ties: Ties = "first",
    ) -> Tensor:
        tolerance = TIE_TOLERANCE * (self.scale if unit is None else unit)
        before = self._writes()
        values = score(self)
        if self._writes() != before:
            raise InputDataError(
                "a score writes into the mean or sd of its candidates, which are what is predicted "
                "of a choice; compute without in-place operations, or on candidates.mean.clone()."
            )
        values = checked_scores(score, values, self.mean.shape)
        empty = self.of.data.empty if first_without_data else None
        if ties == "random":
            if empty is not None:
                values = values.masked_fill(empty.unsqueeze(-1), 0.0)
            return random_maximum(values, tolerance, self.uniform())
        winner = first_maximum(values, tolerance, self.scratch)
        return winner if empty is None else winner.masked_fill(empty, 0)

    def _writes(self) -> int:
        """How often anybody has written into what is predicted."""
        return writes(self.mean, self.sd)

    def at(self, choice: Tensor) -> Candidates:
        return _Arm(self, choice)

    def predicted(self, choice: Tensor) -> tuple[Tensor, Tensor]:
        return at_index(self.mean, choice), at_index(self.sd, choice)

    def anywhere(self) -> Tensor:
        arms = self.mean.shape[-1]
        # In single precision a number just below 1 may have been rounded to 1.
        return (self.uniform() * arms).long().clamp_max(arms - 1)

    def where(self, condition: Tensor, first: Tensor, second: Tensor) -> Tensor:
        return torch.where(condition, first, second)


class _Arm(ArmCandidates):
    """One arm of every trial."""

    def __init__(self, arms: ArmCandidates, choice: Tensor) -> None:
        RoundCandidates.__init__(self, arms.of, arms.scratch)
        self._mean = at_index(arms.mean, choice).unsqueeze(-1)
        self._sd = at_index(arms.sd, choice).unsqueeze(-1)
        self._arms, self._choice = arms, choice

    def _incumbent(self) -> Tensor:
        return self._arms._incumbent()

    @cached_property
    def has_data(self) -> Tensor:
        return self._arms.has_data

    def sample(self, n: int = 1) -> Tensor:
        drawn = self._arms.sample(n)
        return drawn.gather(-1, self._choice.expand(drawn.shape[:-1]).unsqueeze(-1))
