"""Players of one trial of :mod:`benchmarks.statistics.box_worlds`."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch
from botorch.acquisition import UpperConfidenceBound
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.utils.gpytorch_modules import get_covar_module_with_dim_scaled_prior
from botorch.optim import optimize_acqf
from gpytorch.kernels import MaternKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from gpytorch.priors import LogNormalPrior
from torch import Tensor

from benchmarks.statistics.box_worlds import Trial
from benchmarks.statistics.paired import ADAPTIVE
from botorch_tv.acquisition import Logarithmic
from botorch_tv.forgetting import EventTrigger
from botorch_tv.gp.mixture.bank import FIRST
from botorch_tv.learning import Refit
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import (
    Box,
    DiscreteSearch,
    Grid,
    Strategy,
    adaptive_gp_ucb,
    et_gp_ucb,
    gp_ucb,
    tv_gp_ucb,
)

WIDTH = Logarithmic(0.8, 4.0)
"""Of the BoTorch loop."""
DELTA = 0.01
RANDOM_STARTS = FIRST
"""Of the BoTorch loop and of loops that estimate their units, as of the adaptive strategy."""
EVERY = 5
"""Rounds between fits of the learning loops."""


class Player(Protocol):
    """A player of one trial."""

    def ask(self, t: int) -> Tensor:
        """A point of the unit cube, `d`."""

    def tell(self, t: int, y: float) -> None:
        """Record the measurement at that point."""


class OfLibrary:
    """A strategy of the library.

    Args:
        strategy: The strategy.
        trial: The trial.
        given: Whether mean and scale are given.
        box: Whether arms are points of a box, as learning a kernel needs.
    """

    def __init__(self, strategy: Strategy, trial: Trial, *, given: bool, box: bool) -> None:
        cube = torch.tensor([[0.0] * trial.dim, [1.0] * trial.dim]).double()
        if trial.arms is None:
            domain: Box | Grid = Box(cube)
        else:
            domain = Box(cube, search=DiscreteSearch(trial.arms)) if box else Grid(trial.arms)
        self.strategy, self.state = strategy, strategy.init(domain)
        self.mean, self.scale = (trial.mean, trial.scale) if given else (0.0, 1.0)

    def ask(self, t: int) -> Tensor:
        self.suggestion = self.strategy.ask(self.state)
        return self.suggestion.X

    def tell(self, t: int, y: float) -> None:
        scaled = torch.tensor((y - self.mean) / self.scale, dtype=torch.float64)
        self.state, _ = self.strategy.tell(self.state, self.suggestion, scaled, consume=True)


class InOwnUnits(OfLibrary):
    """A strategy that estimates mean and scale from random points, then observes these as well."""

    def __init__(self, strategy: Strategy, trial: Trial, seed: int) -> None:
        super().__init__(strategy, trial, given=False, box=True)
        self.trial, self.generator = trial, torch.Generator().manual_seed(seed)
        self.first: list[tuple[Tensor, float]] = []

    def ask(self, t: int) -> Tensor:
        if t > RANDOM_STARTS:
            return super().ask(t)
        self.point = _anywhere(self.trial, self.generator)
        return self.point

    def tell(self, t: int, y: float) -> None:
        if t > RANDOM_STARTS:
            super().tell(t, y)
            return
        self.first.append((self.point, y))
        if t == RANDOM_STARTS:
            values = torch.tensor([value for _, value in self.first], dtype=torch.float64)
            self.mean, self.scale = float(values.mean()), float(values.std())
            for point, value in self.first:
                self.suggestion = self.strategy.suggestion_at(self.state, point)
                super().tell(t, value)


class OfBoTorch:
    """A loop with a ``SingleTaskGP`` on (x, t), fitted in every round, and UCB at the present."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self.trial, self.generator = trial, torch.Generator().manual_seed(seed)
        self.X = torch.empty(0, trial.dim + 1, dtype=torch.float64)
        self.Y = torch.empty(0, 1, dtype=torch.float64)
        torch.manual_seed(seed)

    def ask(self, t: int) -> Tensor:
        if len(self.X) < RANDOM_STARTS:
            self.point = _anywhere(self.trial, self.generator)
        else:
            self.point = self.best(t / self.trial.horizon, t)
        return self.point

    def best(self, now: float, t: int) -> Tensor:
        """The point of the largest upper confidence bound at time ``now``, `d`."""
        dim, arms = self.trial.dim, self.trial.arms
        in_space = get_covar_module_with_dim_scaled_prior(
            ard_num_dims=dim, active_dims=list(range(dim))
        )
        in_time = MaternKernel(
            nu=0.5, active_dims=[dim], lengthscale_prior=LogNormalPrior(2**0.5, 3**0.5)
        )
        model = SingleTaskGP(self.X, self.Y, covar_module=in_space * in_time)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        score = UpperConfidenceBound(model, beta=float(WIDTH.c1 * np.log(WIDTH.c2 * t)))
        if arms is not None:
            timed = torch.cat([arms, arms.new_full((len(arms), 1), now)], -1)
            with torch.no_grad():
                return arms[score(timed.unsqueeze(-2)).argmax()]
        found, _ = optimize_acqf(
            score,
            bounds=torch.tensor([[0.0], [1.0]]).double().expand(-1, dim + 1),
            q=1,
            num_restarts=5,
            raw_samples=128,
            fixed_features={dim: now},
        )
        chosen: Tensor = found[0, :dim].detach()
        return chosen

    def tell(self, t: int, y: float) -> None:
        row = torch.cat([self.point, self.point.new_tensor([t / self.trial.horizon])])
        self.X = torch.cat([self.X, row.unsqueeze(0)])
        self.Y = torch.cat([self.Y, self.Y.new_tensor([[y]])])


class Random:
    """Random search."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self.trial, self.generator = trial, torch.Generator().manual_seed(seed)

    def ask(self, t: int) -> Tensor:
        return _anywhere(self.trial, self.generator)

    def tell(self, t: int, y: float) -> None:
        pass


def _anywhere(trial: Trial, generator: torch.Generator) -> Tensor:
    if trial.arms is None:
        return torch.rand(trial.dim, generator=generator, dtype=torch.float64)
    return trial.arms[torch.randint(len(trial.arms), (), generator=generator)]


def _learning(trial: Trial, *, drifts: bool) -> Strategy:
    """A strategy that starts from wrong hyperparameters and learns them."""
    given: dict[str, Any] = {
        "kernel": unit_kernel("se", 0.2 * math.sqrt(trial.dim)),
        "noise": 0.1,
        "width": adaptive_gp_ucb().width,
    }
    refit = Refit(every=EVERY)
    if not drifts:
        return dataclasses.replace(gp_ucb(**given), learning=refit)
    drifting = tv_gp_ucb(epsilon=0.01, **given)
    return dataclasses.replace(drifting, learning=refit, retention=EventTrigger(DELTA))


def _adaptive(trial: Trial, **parts: Any) -> Player:
    return OfLibrary(adaptive_gp_ucb(**parts), trial, given=False, box=False)


def _given(trial: Trial, preset: Callable[..., Strategy], **rate: float) -> Player:
    strategy = preset(
        kernel=trial.kernel, noise=trial.variance, width=adaptive_gp_ucb().width, **rate
    )
    return OfLibrary(strategy, trial, given=True, box=False)


def _in_given_units(trial: Trial, *, drifts: bool) -> Player:
    return OfLibrary(_learning(trial, drifts=drifts), trial, given=True, box=True)


PLAYERS: dict[str, Callable[[Trial, int], Player]] = {
    ADAPTIVE: lambda trial, seed: _adaptive(trial),
    "adaptive, half of beta": lambda trial, seed: _adaptive(
        trial, width=Logarithmic(c1=0.5 * Logarithmic().c1)
    ),
    "random": Random,
    "BoTorch on (x, t)": OfBoTorch,
    "learning, drifting": lambda trial, seed: InOwnUnits(
        _learning(trial, drifts=True), trial, seed
    ),
    "learning, static": lambda trial, seed: InOwnUnits(_learning(trial, drifts=False), trial, seed),
    "learning, drifting, given mean and scale": lambda trial, seed: _in_given_units(
        trial, drifts=True
    ),
    "learning, static, given mean and scale": lambda trial, seed: _in_given_units(
        trial, drifts=False
    ),
    "TV-GP-UCB given all": lambda trial, seed: _given(trial, tv_gp_ucb, epsilon=trial.epsilon),
    "ET-GP-UCB given all": lambda trial, seed: _given(trial, et_gp_ucb),
    "GP-UCB given all": lambda trial, seed: _given(trial, gp_ucb),
}
"""Players by label, made for a trial and a seed."""
