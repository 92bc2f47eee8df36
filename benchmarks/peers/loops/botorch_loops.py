"""Loops as people write them with BoTorch: static, with time as an input, with a fitted decay."""

from __future__ import annotations

import math
from abc import abstractmethod

import numpy as np
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    FixedFeatureAcquisitionFunction,
    LogExpectedImprovement,
    UpperConfidenceBound,
    qLogNoisyExpectedImprovement,
)
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from benchmarks.peers.protocol import Peer

torch.set_default_dtype(torch.float64)
FIRST = 5
"""Random points before there is a model."""


class Fitted(Peer):
    """A model fitted every round, whose acquisition function is climbed at the present."""

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        torch.manual_seed(seed)
        self.X, self.Y = torch.empty(0, dim + 1), torch.empty(0, 1)

    @abstractmethod
    def acquisition(self, now: float) -> AcquisitionFunction:
        """What is climbed over points of the unit cube, `d`."""

    def ask(self, now: float) -> np.ndarray:
        if len(self.Y) < FIRST:
            return torch.rand(self.dim).numpy()
        bounds = torch.tensor([[0.0] * self.dim, [1.0] * self.dim])
        X, _ = optimize_acqf(self.acquisition(now), bounds, q=1, num_restarts=4, raw_samples=128)
        return np.asarray(X[0])

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        row = torch.cat([torch.as_tensor(x), torch.tensor([now])])
        self.X, self.Y = torch.cat([self.X, row[None]]), torch.cat([self.Y, torch.tensor([[y]])])

    def fit(self, model: SingleTaskGP) -> SingleTaskGP:
        """By marginal likelihood."""
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return model


class Static(Fitted):
    """What takes no notice of time."""

    def acquisition(self, now: float) -> AcquisitionFunction:
        X = self.X[:, : self.dim]
        model = self.fit(SingleTaskGP(X, self.Y, outcome_transform=Standardize(m=1)))
        return qLogNoisyExpectedImprovement(model, X, prune_baseline=True)


class TimeAsInput(Fitted):
    """A product of kernels in x and t with priors of BoTorch's, UCB of the usual width."""

    def acquisition(self, now: float) -> AcquisitionFunction:
        scale = max(float(self.X[:, -1].max() - self.X[:, -1].min()), 1.0)
        bounds = torch.zeros(2, self.dim + 1)
        bounds[1], bounds[1, -1] = 1.0, scale
        model = SingleTaskGP(
            self.X,
            self.Y,
            input_transform=Normalize(self.dim + 1, bounds=bounds),
            outcome_transform=Standardize(m=1),
        )
        beta = 0.8 * math.log(4 * (len(self.Y) + 1))
        above = UpperConfidenceBound(self.fit(model), beta=beta)
        return FixedFeatureAcquisitionFunction(above, self.dim + 1, [self.dim], [now])


class FittedDecay(Fitted):
    """exp(-|Δt| / τ) times a squared exponential, both fitted, and expected improvement now."""

    def acquisition(self, now: float) -> AcquisitionFunction:
        decay = MaternKernel(nu=0.5, active_dims=(self.dim,))
        space = RBFKernel(ard_num_dims=self.dim, active_dims=tuple(range(self.dim)))
        model = SingleTaskGP(
            self.X,
            self.Y,
            covar_module=ScaleKernel(space * decay),
            outcome_transform=Standardize(m=1),
        )
        decay.lengthscale = 30.0
        space.lengthscale = 0.2
        best = self._best_now(self.fit(model), now)
        improves = LogExpectedImprovement(model, best_f=best)
        return FixedFeatureAcquisitionFunction(improves, self.dim + 1, [self.dim], [now])

    def _best_now(self, model: SingleTaskGP, now: float) -> Tensor:
        """The best posterior mean at points measured, put into the present."""
        X = self.X.clone()
        X[:, -1] = now
        with torch.no_grad():
            best: Tensor = model.posterior(X).mean.max()
        return best
