"""The posterior density of hyperparameters, of many loops at once, with its gradient.

Observations have covariance A = K ∘ D + N with N = σ² diag(ρ). With S = N^(-½), a row that is not
in use has S = 0, and

    -ln p(y) = ½ ln det(I + S (K ∘ D) S) + ½ yᵀS (I + S (K ∘ D) S)⁻¹ S y + ½ Σ ln(2π N_ii)

over the rows in use: rows that are not leave nothing behind, so loops of a batch may have different
numbers of them. Gradients come from M = I + S (K ∘ D) S by H = ½ (M⁻¹ - ββᵀ), β = M⁻¹ S y.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.forgetting import Decay
from botorch_tv.forgetting.base import is_static, with_values
from botorch_tv.kernels.stationary import LearnableKernel, profile, profile_slope
from botorch_tv.learning.layout import ParameterLayout


class TrainingData(NamedTuple):
    """Observations of b loops, prepared for many evaluations."""

    squares: Tensor
    """Squared differences of inputs per lengthscale, `b x lengthscales x n x n`."""
    times: Tensor | None
    """Since the origin, `b x n`; None where time is idle."""
    y: Tensor
    """Observations less the prior mean, 0 where a row is not in use, `b x n`."""
    root: Tensor
    """ρ^(-½), 0 where a row is not in use, `b x n`."""
    weight: Tensor
    """How many observations there are, those of inflated noise counted in part, `b`."""
    constant: Tensor
    """The terms of -ln p(y) that do not depend on hyperparameters, `b`."""
    unit: Tensor
    """The unit in which time is counted, in units of the user's, `b`."""

    def of(self, loops: Tensor) -> TrainingData:
        """The data of some loops, `m`."""
        return TrainingData(*(part if part is None else part[loops] for part in self))  # type: ignore[arg-type]


def prepare(
    kernel: LearnableKernel,
    decay: Decay,
    X: Tensor,
    times: Tensor,
    y: Tensor,
    live: Tensor,
    relative_noise: Tensor,
    inflation: Tensor | None = None,
    unit: Tensor | None = None,
) -> TrainingData:
    """What of the data enters the posterior.

    Args:
        kernel: The spatial kernel.
        decay: How covariance falls with time.
        X: Inputs, `b x n x d`.
        times: `b x n`, counted from the origin.
        y: Observations less the prior mean, `b x n`.
        live: Which rows are in use, `b x n`; the others may hold anything.
        relative_noise: ρ, variances of observations relative to σ², positive, `b x n`.
        inflation: Factor w⁻¹ >= 1 by which age has inflated the noise of each besides, `b x n`.
            That noise was never in y; it says that the row counts w times, as in a likelihood
            raised to the power w. Taken for noise, it would drive the estimate of σ² to 0.
        unit: To count time in, `b`; as it is told unless given.
    """
    unit = torch.ones_like(y[:, 0], dtype=torch.float64) if unit is None else unit
    live = live & relative_noise.isfinite()
    weight = live.double()
    if inflation is not None:
        live = live & inflation.isfinite()
        weight = torch.where(live, 1 / inflation.double(), 0.0)
    X = torch.where(live.unsqueeze(-1), X.double(), 0.0)
    times, y = (torch.where(live, one.double(), 0.0) for one in (times, y))
    noise = torch.where(live, relative_noise.double(), 1.0)
    return TrainingData(
        squares=kernel.squares(kernel.columns(X)),
        times=None if is_static(decay) else times.clamp_min(0) / unit.unsqueeze(-1),
        y=y,
        root=(weight / noise).sqrt() * live,
        weight=weight.sum(-1),
        constant=0.5 * (weight * (math.log(2 * math.pi) + noise.log())).sum(-1),
        unit=unit,
    )


class NegativeLogPosterior:
    """The negative logarithm of the posterior density of hyperparameters.

    A row whose age noise makes it count w times contributes its likelihood to the power w, as a
    Gaussian of noise σ² ρ / w with the normalisation of w observations.

    Args:
        kernel: The spatial kernel.
        decay: How covariance falls with time.
        layout: What a vector of hyperparameters means.
        data: Observations of b loops.
        loops: The loop that each problem belongs to, `problems`.
        estimates_mean: Whether the prior mean is the constant of generalised least squares,
            1ᵀA⁻¹y / 1ᵀA⁻¹1, at every vector anew.
    """

    def __init__(
        self,
        kernel: LearnableKernel,
        decay: Decay,
        layout: ParameterLayout,
        data: TrainingData,
        loops: Tensor,
        *,
        estimates_mean: bool = False,
    ) -> None:
        self._kernel, self._decay, self._layout = kernel, decay, layout
        self._data, self._loops, self._estimates_mean = data, loops, estimates_mean
        self._rows: Tensor | None = None
        self._held = data

    def __call__(self, vector: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Value and gradient.

        Args:
            vector: Hyperparameters, `m x p`.
            rows: Numbers of the problems they belong to, `m`.

        Returns:
            `m`, infinite where the covariance has no Cholesky factor, and `m x p`.
        """
        if rows is not self._rows:  # the search leaves out problems now and then only
            self._rows, self._held = rows, self._data.of(self._loops[rows])
        value, gradient = self._negative_log_likelihood(vector, self._held)
        log, slope = self._layout.log_prior(vector, self._held.unit)
        value, gradient = value - log, gradient - slope
        good = value.isfinite() & gradient.isfinite().all(-1)
        return torch.where(good, value, math.inf), torch.where(good.unsqueeze(-1), gradient, 0.0)

    def _negative_log_likelihood(self, vector: Tensor, data: TrainingData) -> tuple[Tensor, Tensor]:
        """-ln p(y) and its derivatives by the vector."""
        lengthscale, variance, noise, of_decay, decay_slope = self._layout.values(vector)
        m, lengthscales, n = data.squares.shape[:3]
        flat = data.squares.view(m, lengthscales, n * n)
        inverse_squares = lengthscale**-2  # m x lengthscales
        squared = (inverse_squares.unsqueeze(-2) @ flat).view(m, n, n)
        correlation = profile(squared, self._kernel.smoothness)
        slope = profile_slope(squared, self._kernel.smoothness)
        root = data.root * noise.rsqrt().unsqueeze(-1)
        scale = root.unsqueeze(-1) * root.unsqueeze(-2)
        if self._kernel.scaled:
            scale = scale * variance[:, None, None]
        undecayed = scale * correlation
        natural, decayed = self._decayed(of_decay, data)
        if decayed is not None:
            scale = scale * decayed.detach()
        signal = scale * correlation  # S (K ∘ D) S

        matrix = signal.clone()
        matrix.diagonal(dim1=-2, dim2=-1).add_(1.0)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        inverse = torch.cholesky_inverse(factor).mT  # symmetric; transposed it lies in rows
        observed = (root * data.y).unsqueeze(-1)
        if self._estimates_mean:
            # S (y - μ 1) at the mean of generalised least squares; 0 without data.
            weights = inverse @ root.unsqueeze(-1)
            information = (root.unsqueeze(-1) * weights).sum(-2, keepdim=True).clamp_min(1e-300)
            mean = (observed * weights).sum(-2, keepdim=True) / information
            observed = observed - mean * root.unsqueeze(-1)
        fitted = inverse @ observed  # β
        quadratic = (observed * fitted).sum((-2, -1))
        log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value = 0.5 * (log_det + quadratic + data.weight * noise.log()) + data.constant
        value = torch.where(failed == 0, value, math.inf)

        half = 0.5 * (inverse - fitted @ fitted.mT)  # derivative by M
        trace = inverse.diagonal(dim1=-2, dim2=-1).sum(-1)
        size = fitted.square().sum((-2, -1))
        by_noise = 0.5 * (trace - n + data.weight - size)
        by_variance = 0.5 * (n - quadratic - trace + size) * self._kernel.scaled
        by_squared = (half * scale * slope).reshape(m, n * n, 1)
        by_lengthscale = -2 * inverse_squares * (flat @ by_squared).squeeze(-1)
        by_decay = torch.zeros_like(of_decay)
        if decayed is not None and decayed.requires_grad:
            (by_decay,) = torch.autograd.grad(decayed, natural, half * undecayed)
        gradient = torch.stack([by_variance, by_noise], -1)
        return value, torch.cat([by_lengthscale, gradient, by_decay * decay_slope], -1)

    def _decayed(self, natural: Tensor, data: TrainingData) -> tuple[Tensor, Tensor | None]:
        """Natural values `m x k` that D depends on, and D, `m x n x n`; None where time is idle.

        Automatic differentiation spares a decay its derivatives, and takes little beside the rest.
        """
        if data.times is None:
            return natural, None
        first, second = data.times.unsqueeze(-1), data.times.unsqueeze(-2)
        with torch.enable_grad():
            natural = natural.detach().requires_grad_(self._layout.learns_decay)
            values = self._layout.named(natural)
            decay = with_values(
                self._decay, {name: one[:, None, None] for name, one in values.items()}
            )
            return natural, decay.covariance(first, second)
