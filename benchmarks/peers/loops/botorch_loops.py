"""Loops written with BoTorch: static, with time as an input, with a fitted decay."""

from __future__ import annotations

import math
from abc import abstractmethod
from copy import deepcopy

import numpy as np
import torch
from botorch.acquisition import (
    AcquisitionFunction,
    FixedFeatureAcquisitionFunction,
    LogExpectedImprovement,
    PosteriorMean,
    UpperConfidenceBound,
    qLogNoisyExpectedImprovement,
)
from botorch.exceptions import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from botorch.optim import optimize_acqf
from gpytorch.constraints import GreaterThan, Positive
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.likelihoods import GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from torch import Tensor

from benchmarks.peers.protocol import Peer

FIRST = 5
"""Random points before there is a model."""


class Fitted(Peer):
    """A model fitted every round; its acquisition function is maximised at the present."""

    @staticmethod
    def prepare() -> None:
        torch.set_default_dtype(torch.float64)

    def __init__(self, dim: int, seed: int) -> None:
        super().__init__(dim, seed)
        torch.manual_seed(seed)
        self.X, self.Y = torch.empty(0, dim + 1), torch.empty(0, 1)

    @abstractmethod
    def acquisition(self, now: float) -> AcquisitionFunction:
        """The acquisition function over points of the unit cube, `d`."""

    def ask(self, now: float) -> np.ndarray:
        if len(self.Y) < FIRST:
            return torch.rand(self.dim).numpy()
        return np.asarray(self.climb(self.acquisition(now))[0][0])

    def climb(self, function: AcquisitionFunction) -> tuple[Tensor, Tensor]:
        """The best point found in the unit cube, `1 x d`, and its value."""
        bounds = torch.tensor([[0.0] * self.dim, [1.0] * self.dim])
        found: tuple[Tensor, Tensor] = optimize_acqf(
            function, bounds, q=1, num_restarts=4, raw_samples=128
        )
        return found

    def tell(self, x: np.ndarray, now: float, y: float) -> None:
        row = torch.cat([torch.as_tensor(x), torch.tensor([now])])
        self.X, self.Y = torch.cat([self.X, row[None]]), torch.cat([self.Y, torch.tensor([[y]])])

    def fit(self, model: SingleTaskGP) -> SingleTaskGP:
        """By marginal likelihood."""
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        return model


class Static(Fitted):
    """A model without time."""

    def acquisition(self, now: float) -> AcquisitionFunction:
        X = self.X[:, : self.dim]
        model = self.fit(SingleTaskGP(X, self.Y, outcome_transform=Standardize(m=1)))
        return qLogNoisyExpectedImprovement(model, X, prune_baseline=True)


class TimeAsInput(Fitted):
    """A product of kernels in x and t with BoTorch's priors, UCB of the usual width."""

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
    """exp(-|Δt| / τ) times a squared exponential, all fitted, and expected improvement now.

    The defaults of dbo-torch: maximum likelihood without priors, the best of three starts, and the
    best posterior mean of the present as the incumbent. Points are scored for the time of their
    measurement (``acquisition_time_offset=1``). Its guard against exploitation is omitted.
    """

    def acquisition(self, now: float) -> AcquisitionFunction:
        model = max((self._from(start) for start in (1.0, 0.5, 0.25)), key=self._likelihood)
        improves = LogExpectedImprovement(model, best_f=self._best(model, now))
        return FixedFeatureAcquisitionFunction(improves, self.dim + 1, [self.dim], [now])

    def _from(self, start: float) -> SingleTaskGP:
        """A fit from this multiple of GPyTorch's lengthscale; the start itself if the fit fails."""
        decay = MaternKernel(
            nu=0.5,
            active_dims=(self.dim,),
            lengthscale_constraint=Positive(transform=torch.exp, inv_transform=torch.log),
        )
        space = RBFKernel(ard_num_dims=self.dim, active_dims=tuple(range(self.dim)))
        space.lengthscale = space.lengthscale.detach() * start
        decay.lengthscale = 100.0  # its decay of 0.99 a round
        model = SingleTaskGP(
            self.X,
            self.Y,
            likelihood=GaussianLikelihood(noise_constraint=GreaterThan(1e-8)),
            covar_module=ScaleKernel(space) * decay,
            outcome_transform=Standardize(m=1),
        )
        before = deepcopy(model.state_dict())
        try:
            return self.fit(model)
        except ModelFittingError:
            model.load_state_dict(before)
            model.eval()
            return model

    def _likelihood(self, model: SingleTaskGP) -> float:
        """The logarithm of the marginal likelihood, per observation."""
        model.train()
        with torch.no_grad():
            marginal = ExactMarginalLogLikelihood(model.likelihood, model)
            found = float(marginal(model(*model.train_inputs), model.train_targets))
        model.eval()
        return found

    def _best(self, model: SingleTaskGP, now: float) -> float:
        """The largest posterior mean of the present."""
        X = self.X.clone()
        X[:, -1] = now
        with torch.no_grad():
            measured = float(model.posterior(X).mean.max())
        mean = FixedFeatureAcquisitionFunction(
            PosteriorMean(model), self.dim + 1, [self.dim], [now]
        )
        return max(measured, float(self.climb(mean)[1]))
