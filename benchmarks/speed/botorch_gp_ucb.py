"""GP-UCB on a finite set of arms, written with BoTorch alone.

Three loops, each for a single trial with fixed hyperparameters in float64:

* `JointRebuild`: a new `SingleTaskGP` every round, ``model.posterior(X)`` on all M arms jointly;
* `UnsqueezedRebuild`: the same with ``X.unsqueeze(-2)``, M posteriors of a single arm, which
  avoids the M x M covariance;
* `Conditioned`: a single model, extended by ``condition_on_observations`` every round; arms are
  predicted as in `UnsqueezedRebuild`.

With ``epsilon`` the model is that of TV-GP-UCB [B16]: time is a further column of the inputs and
``(1-ε)^{|t-t'|/2}`` a further factor of the kernel, which is GPyTorch's Matérn-1/2 kernel with
lengthscale ``-2 / ln(1-ε)``.

No gradients, no outcome transform, fixed noise through ``train_Yvar``. GPyTorch factors up to 800
rows by Cholesky by default, so nothing is approximated.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from botorch.models import SingleTaskGP
from gpytorch.kernels import Kernel, MaternKernel, RBFKernel, ScaleKernel
from torch import Tensor

TIE = 1e-7  # for kernels with k(x, x) = 1


@dataclass(frozen=True)
class Problem:
    """A finite-armed GP bandit with given hyperparameters.

    Args:
        X: The arms, `M x d`, float64.
        lengthscale: Lengthscale of the squared exponential kernel (outputscale 1).
        noise: Variance of the observation noise.
        c1: Factor of the multiplier ``√(c1 ln(c2 t))`` of the standard deviation ([B16] §5).
        c2: Factor inside its logarithm.
        epsilon: Rate of change of [B16], strictly between 0 and 1; None for plain GP-UCB.
    """

    X: Tensor
    lengthscale: float = 0.2
    noise: float = 0.02
    c1: float = 0.4
    c2: float = 4.0
    epsilon: float | None = None

    def kernel(self) -> Kernel:
        """A new kernel of the model, over arms or over arms and time."""
        spatial = ScaleKernel(RBFKernel(active_dims=list(range(self.X.shape[-1]))))
        spatial.outputscale = 1.0
        spatial.base_kernel.lengthscale = torch.tensor(self.lengthscale, dtype=torch.float64)
        if self.epsilon is None:
            return spatial.to(torch.float64)
        temporal = MaternKernel(nu=0.5, active_dims=[self.X.shape[-1]])
        rate = -2 / math.log1p(-self.epsilon)
        temporal.lengthscale = torch.tensor(rate, dtype=torch.float64)
        return (spatial * temporal).to(torch.float64)

    def inputs(self, X: Tensor, time: float) -> Tensor:
        """Points `q x d` at a time, as the model takes them: `q x d`, or `q x (d + 1)`."""
        if self.epsilon is None:
            return X
        return torch.cat([X, X.new_full((*X.shape[:-1], 1), time)], dim=-1)


def lowest_best(mean: Tensor, variance: Tensor, sqrt_beta: float) -> int:
    """The lowest index whose ``mean + √beta · sd`` is within `TIE` of the maximum.

    Args:
        mean: Posterior means, `M`.
        variance: Posterior variances, `M`.
        sqrt_beta: √beta, the multiplier of the standard deviation.
    """
    score = mean + sqrt_beta * variance.clamp_min(0).sqrt()
    return int((score >= score.max() - TIE).to(torch.uint8).argmax())


class Loop(ABC):
    """A trial: `ask` for the arm of this round, `tell` its observation.

    Args:
        problem: The arms and the model.
    """

    name: str

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.round = 1

    def ask(self) -> int:
        """The index of the arm to play in this round."""
        if self.round == 1:  # no data: every arm ties
            return 0
        mean, variance = self._predict()
        sqrt_beta = math.sqrt(self.problem.c1 * math.log(self.problem.c2 * self.round))
        return lowest_best(mean, variance, sqrt_beta)

    def tell(self, index: int, y: float) -> None:
        """Record the observation ``y`` of arm ``index`` and advance to the next round."""
        arm = self.problem.X[index : index + 1]
        x = self.problem.inputs(arm, float(self.round))  # 1 x d, or 1 x (d + 1)
        with torch.no_grad():
            self._append(x, arm.new_tensor([[y]]))
        self.round += 1

    def _predict(self) -> tuple[Tensor, Tensor]:
        """Mean and variance of every arm now, `M` each."""
        with torch.no_grad():
            posterior = self._model().posterior(self._arms())
            return posterior.mean.flatten(), posterior.variance.flatten()

    @abstractmethod
    def _arms(self) -> Tensor:
        """The arms as the posterior takes them: jointly `M x d`, or singly `M x 1 x d`."""

    @abstractmethod
    def _model(self) -> SingleTaskGP: ...

    @abstractmethod
    def _append(self, x: Tensor, y: Tensor) -> None: ...

    def _new_model(self, train_X: Tensor, train_Y: Tensor) -> SingleTaskGP:
        return SingleTaskGP(
            train_X,
            train_Y,
            torch.full_like(train_Y, self.problem.noise),
            covar_module=self.problem.kernel(),
            outcome_transform=None,
        )


class JointRebuild(Loop):
    """A new model every round and a joint posterior over all arms."""

    name = "joint rebuild"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        columns = problem.inputs(problem.X[:1], 0.0).shape[-1]
        self._train_X = problem.X.new_empty(0, columns)
        self._train_Y = problem.X.new_empty(0, 1)

    def _arms(self) -> Tensor:
        return self.problem.inputs(self.problem.X, float(self.round))

    def _model(self) -> SingleTaskGP:
        return self._new_model(self._train_X, self._train_Y)

    def _append(self, x: Tensor, y: Tensor) -> None:
        self._train_X = torch.cat([self._train_X, x])
        self._train_Y = torch.cat([self._train_Y, y])


class UnsqueezedRebuild(JointRebuild):
    """A new model every round and a posterior per arm."""

    name = "unsqueezed rebuild"

    def _arms(self) -> Tensor:
        return super()._arms().unsqueeze(-2)


class Conditioned(Loop):
    """A model conditioned on each new observation, and a posterior per arm."""

    name = "conditioned"

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        self._current: SingleTaskGP | None = None

    def _arms(self) -> Tensor:
        return self.problem.inputs(self.problem.X, float(self.round)).unsqueeze(-2)

    def _model(self) -> SingleTaskGP:
        return self._current

    def _append(self, x: Tensor, y: Tensor) -> None:
        if self._current is None:
            self._current = self._new_model(x, y)
            # Conditioning extends the caches of a first prediction and fails without them.
            self._current.posterior(x)
            return
        noise = torch.full_like(y, self.problem.noise)
        self._current = self._current.condition_on_observations(x, y, noise=noise)


LOOPS: tuple[type[Loop], ...] = (JointRebuild, UnsqueezedRebuild, Conditioned)
