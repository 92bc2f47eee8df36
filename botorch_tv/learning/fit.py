"""The posterior density of hyperparameters, its gradient and maximum, for many separate loops.

The covariance matrix of the observations is A = K ∘ D + N with N = σ² diag(ρ). With S = N^(-½), and
S = 0 for rows not in use,

    -ln p(y) = ½ ln det(I + S (K ∘ D) S) + ½ yᵀS (I + S (K ∘ D) S)⁻¹ S y + ½ Σ ln(2π N_ii),

where the sum is over rows in use. Rows not in use have no effect, so loops of a batch may have
different numbers of rows. Gradients use H = ½ (M⁻¹ - ββᵀ) with M = I + S (K ∘ D) S and β = M⁻¹ S y.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.forgetting import Decay
from botorch_tv.forgetting.base import median_gap, with_values
from botorch_tv.forgetting.decay import PerTrial
from botorch_tv.forgetting.formulas import require_learnable
from botorch_tv.gp.quasi_newton import minimize
from botorch_tv.kernels.stationary import LearnableKernel, profile, profile_slope
from botorch_tv.learning.layout import ParameterLayout
from botorch_tv.learning.refit import Refit


class NegativeLogPosterior:
    """The negative logarithm of the posterior density of hyperparameters, for b loops.

    If age noise is used, each row has a weight w <= 1, and the likelihood of the row is raised to
    the power w. The likelihood to the power w is a Gaussian density with noise variance σ² ρ / w,
    except that its normalising factor is (2π σ² ρ)^(-w/2). Age noise is not noise in the data: if
    it counted as observation noise, the estimate of σ² would tend to 0.

    Args:
        kernel: The spatial kernel.
        decay: Decay of the covariance with time.
        layout: Layout of the vectors of hyperparameters.
        X: Inputs, `b x n x d`.
        times: Times of the observations, relative to the start time of the decay, `b x n`.
        y: Observations minus the prior mean, `b x n`.
        live: Which rows are in use, `b x n`, bool; rows not in use may contain any values.
        relative_noise: ρ, noise variances of the observations divided by σ², positive, `b x n`.
        inflation: Factor 1 / w >= 1 by which age inflates the noise of each row, `b x n`.
        unit: Unit of time of the vectors, `b`; the user's unit by default.
        searches: Number of searches per loop. Each search is a separate problem; the problems of a
            loop have consecutive indices.
        estimates_mean: Whether a constant prior mean is estimated for every vector of
            hyperparameters, by generalised least squares: 1ᵀA⁻¹y / 1ᵀA⁻¹1.
    """

    def __init__(
        self,
        kernel: LearnableKernel,
        decay: Decay,
        layout: ParameterLayout,
        X: Tensor,
        times: Tensor,
        y: Tensor,
        live: Tensor,
        relative_noise: Tensor,
        inflation: Tensor | None = None,
        unit: Tensor | None = None,
        searches: int = 1,
        estimates_mean: bool = False,
    ) -> None:
        self._kernel, self._decay, self._layout = kernel, decay, layout
        self._searches, self._estimates_mean = searches, estimates_mean
        live = live & relative_noise.isfinite()
        weight = live.double()
        if inflation is not None:
            live = live & inflation.isfinite()
            weight = torch.where(live, 1 / inflation.double(), 0.0)
        X = torch.where(live.unsqueeze(-1), X.double(), 0.0)
        times, y = (torch.where(live, value.double(), 0.0) for value in (times, y))
        noise = torch.where(live, relative_noise.double(), 1.0)
        self.unit = torch.ones_like(y[:, 0]) if unit is None else unit
        self.rows_in_use = live.sum(-1)
        self._data = (
            kernel.squares(kernel.columns(X)),
            times.clamp_min(0) / self.unit.unsqueeze(-1),
            y,
            (weight / noise).sqrt() * live,  # ρ^(-½)
            weight.sum(-1),
            # The terms of -ln p(y) that do not depend on hyperparameters.
            0.5 * (weight * (math.log(2 * math.pi) + noise.log())).sum(-1),
            self.unit,
        )
        self._rows: Tensor | None = None
        self._selected: tuple[Tensor, ...] = self._data

    def __call__(self, vector: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The value and the gradient at m vectors of hyperparameters.

        Args:
            vector: Hyperparameters, `m x p`.
            rows: Index of the search (of all loops) to which each vector belongs, `m`.

        Returns:
            The value, `m`, and the gradient, `m x p`. The value is infinite where the covariance
            has no Cholesky factor.
        """
        if rows is not self._rows:  # at the first call, and after finished searches were removed
            loops = rows // self._searches
            self._rows, self._selected = rows, tuple(part[loops] for part in self._data)
        value, gradient = self._negative_log_likelihood(vector)
        log, slope = self._layout.log_prior(vector, self._selected[-1])
        value, gradient = value - log, gradient - slope
        good = value.isfinite() & gradient.isfinite().all(-1)
        return torch.where(good, value, math.inf), torch.where(good.unsqueeze(-1), gradient, 0.0)

    def _negative_log_likelihood(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """The value -ln p(y) and its derivatives with respect to the vector."""
        squares, times, y, relative_root, weight, constant, _ = self._selected
        lengthscale, variance, noise, of_decay, decay_slope = self._layout.values(vector)
        m, lengthscales, n = squares.shape[:3]
        flat = squares.view(m, lengthscales, n * n)
        inverse_squares = lengthscale**-2  # m x lengthscales
        squared = (inverse_squares.unsqueeze(-2) @ flat).view(m, n, n)
        correlation = profile(squared, self._kernel.smoothness)
        slope = profile_slope(squared, self._kernel.smoothness)
        root = relative_root * noise.rsqrt().unsqueeze(-1)
        scale = root.unsqueeze(-1) * root.unsqueeze(-2)
        if self._kernel.scaled:
            scale = scale * variance[:, None, None]
        undecayed = scale * correlation
        natural, decayed = self._decayed(of_decay, times)
        if decayed is not None:
            scale = scale * decayed.detach()
        signal = scale * correlation  # S (K ∘ D) S

        matrix = signal.clone()
        matrix.diagonal(dim1=-2, dim2=-1).add_(1.0)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        inverse = torch.cholesky_inverse(factor).mT  # symmetric; transposed to be row-major
        observed = (root * y).unsqueeze(-1)
        if self._estimates_mean:
            # S (y - μ 1) with the generalised least squares estimate of μ, which is 0 without data.
            weights = inverse @ root.unsqueeze(-1)
            information = (root.unsqueeze(-1) * weights).sum(-2, keepdim=True).clamp_min(1e-300)
            mean = (observed * weights).sum(-2, keepdim=True) / information
            observed = observed - mean * root.unsqueeze(-1)
        fitted = inverse @ observed  # β
        quadratic = (observed * fitted).sum((-2, -1))
        log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value = 0.5 * (log_det + quadratic + weight * noise.log()) + constant
        value = torch.where(failed == 0, value, math.inf)

        half = 0.5 * (inverse - fitted @ fitted.mT)  # d(-ln p(y)) / dM
        trace = inverse.diagonal(dim1=-2, dim2=-1).sum(-1)
        size = fitted.square().sum((-2, -1))
        by_noise = 0.5 * (trace - n + weight - size)
        by_variance = 0.5 * (n - quadratic - trace + size) * self._kernel.scaled
        by_squared = (half * scale * slope).reshape(m, n * n, 1)
        by_lengthscale = -2 * inverse_squares * (flat @ by_squared).squeeze(-1)
        by_decay = torch.zeros_like(of_decay)
        if decayed is not None and decayed.requires_grad:
            (by_decay,) = torch.autograd.grad(decayed, natural, half * undecayed)
        gradient = torch.stack([by_variance, by_noise], -1)
        return value, torch.cat([by_lengthscale, gradient, by_decay * decay_slope], -1)

    def _decayed(self, natural: Tensor, times: Tensor) -> tuple[Tensor, Tensor | None]:
        """Natural values of the decay's parameters, `m x k`, and D, `m x n x n` (None if D = 1)."""
        if self._decay.is_static:
            return natural, None
        first, second = times.unsqueeze(-1), times.unsqueeze(-2)
        with torch.enable_grad():
            natural = natural.detach().requires_grad_(self._layout.learns_decay)
            values = self._layout.named(natural)
            decay = with_values(
                self._decay, {name: value[:, None, None] for name, value in values.items()}
            )
            return natural, decay.covariance(first, second)


NUMBERS = 2**25
"""Largest number of matrix entries in memory (256 MB); larger batches are processed in pieces."""
# Number of n x n matrices in memory during an evaluation, not counting squared differences.
_MATRICES = 10
_VALUE_TOLERANCE = 1e-7
_GRADIENT_TOLERANCE = 1e-3


class Learned(NamedTuple):
    """Hyperparameters of every loop, in the dtype of its observations.

    Attributes:
        vector: All hyperparameters as one vector, from which the next search may start,
            `batch_shape x p`, float64.
        kernel: The spatial kernel with learned parameters, of batch shape `batch_shape`.
        noise: Noise variance σ² of a new observation, `batch_shape`.
        decay: The decay, with the learned values of every loop.
        log_posterior: Logarithm of the product of marginal likelihood and prior densities,
            `batch_shape`.
    """

    vector: Tensor
    kernel: Kernel
    noise: Tensor
    decay: PerTrial
    log_posterior: Tensor


@torch.no_grad()
def learn(
    refit: Refit,
    kernel: Kernel,
    decay: Decay,
    noise: float,
    X: Tensor,
    times: Tensor,
    y: Tensor,
    live: Tensor,
    relative_noise: Tensor | None = None,
    start: Tensor | None = None,
    *,
    inflation: Tensor | None = None,
    estimates_mean: bool = False,
    extent: Tensor | None = None,
) -> Learned:
    """Learn the hyperparameters of every loop from its own observations, in float64.

    The result of a loop does not depend on other loops of the batch, nor on the unit of time.

    Args:
        refit: The hyperparameters that are learned, with their priors.
        kernel: The spatial kernel, without batch shape: squared exponential or Matérn, possibly
            scaled. The kernel's parameters are initial values.
        decay: Decay of the covariance with time; its parameters are initial values.
        noise: Initial value of the noise variance σ² of a new observation.
        X: Inputs, `batch_shape x n x d`.
        times: Times of the observations, relative to the start time of the decay,
            `batch_shape x n`.
        y: Observations minus a given prior mean, `batch_shape x n`.
        live: Which rows are in use, bool, `batch_shape x n`; rows not in use may contain any
            values.
        relative_noise: Noise variances of the observations divided by σ², `batch_shape x n`,
            infinite for failed measurements; 1 by default.
        start: The vector that the last fit returned, `batch_shape x p`; by default the user's
            values.
        inflation: Factor by which age inflates the noise of each observation, at least 1,
            `batch_shape x n`; a row has the weight 1 / inflation.
        estimates_mean: Whether to estimate a constant prior mean by generalised least squares.
        extent: Ranges of the domain, `d`; default priors of lengthscales are relative to these
            ranges. By default, the domain is the unit cube.

    Raises:
        InputDataError: If the class of the kernel is not supported, or if the kernel has a batch
            shape.
        ValueError: If an initial value lies outside the bounds of ``refit``, or if the decay is not
            a function of its declared parameters.
    """
    parts = LearnableKernel(kernel)
    cube = torch.ones(X.shape[-1], dtype=torch.float64, device="cpu")
    ranges = parts.columns((cube if extent is None else extent).detach().unsqueeze(0))[0]
    layout = ParameterLayout(refit, parts, decay, noise, ranges, X.device)
    rows = {"times": times, "y": y, "live": live}
    rows["relative_noise"] = torch.ones_like(y) if relative_noise is None else relative_noise
    if inflation is not None:
        rows["inflation"] = inflation
    if start is None and layout.learns_decay:
        require_learnable(decay)
    packed = _packed(X, rows)
    gap = median_gap(packed["times"].double(), packed["live"])
    # For a fixed decay, the unit of time is the user's.
    unit = gap if layout.learns_decay else torch.ones_like(gap)
    given = layout.given.expand(len(unit), -1)
    # A few observations are often consistent both with slow and with fast change. Without an
    # earlier fit, the second search starts from a high rate of change.
    if start is None:
        first, second = given, layout.fast_start(unit)
    else:
        first, second = start.to(given).reshape(given.shape), given
    starts = torch.stack([first, second], 1)
    matrices = starts.shape[1] * (parts.lengthscales + _MATRICES)
    size = max(1, NUMBERS // max(1, matrices * packed["y"].shape[-1] ** 2))
    ends = []
    inputs = (*packed.values(), unit, starts)
    for *piece, some in zip(*(torch.split(value, size) for value in inputs)):
        data = dict(zip((*packed, "unit"), piece))
        ends.append(_search(refit, parts, decay, layout, data, some, estimates_mean))
    found, values = zip(*ends)
    x, value = torch.cat(found), torch.cat(values)
    shape = y.shape[:-1]
    lengthscale, variance, noise_found, natural, _ = (
        value.reshape((*shape, *value.shape[1:])) for value in layout.values(x)
    )
    return Learned(
        vector=layout.retained(x, unit).reshape((*shape, layout.size)),
        kernel=parts.with_parameters(lengthscale.to(y), variance.to(y)),
        noise=noise_found.to(y),
        decay=PerTrial(decay, layout.named(natural), unit.reshape(shape)),
        log_posterior=-value.reshape(shape),
    )


def _search(
    refit: Refit,
    kernel: LearnableKernel,
    decay: Decay,
    layout: ParameterLayout,
    data: dict[str, Tensor],
    starts: Tensor,
    estimates_mean: bool,
) -> tuple[Tensor, Tensor]:
    """For each of b loops, the best result of the s searches from ``starts``, `b x s x p`.

    Returns:
        Two results: the best vector of each loop, `b x p`; and its value, `b`.
    """
    b, s, p = starts.shape
    objective = NegativeLogPosterior(
        kernel, decay, layout, **data, searches=s, estimates_mean=estimates_mean
    )
    # If a loop has too few observations, its hyperparameters do not change, because their lower and
    # upper bounds equal the starting values.
    few = (objective.rows_in_use < refit.least)[:, None, None]
    starts = layout.searched(starts, objective.unit.unsqueeze(-1))
    lower, upper = (
        torch.where(few, starts[:, :1], end.unsqueeze(1)).expand(b, s, p).reshape(-1, p)
        for end in layout.bounds(objective.unit)
    )
    ends = minimize(
        objective,
        starts.reshape(-1, p),
        lower,
        upper,
        evaluations=refit.evaluations,
        value_tolerance=_VALUE_TOLERANCE,
        gradient_tolerance=_GRADIENT_TOLERANCE,
    )
    value, best = ends.value.view(b, s).min(-1)
    best_x = ends.x.view(b, s, p)[torch.arange(b, device=starts.device), best]
    return best_x, value


def _packed(X: Tensor, rows: dict[str, Tensor]) -> dict[str, Tensor]:
    """The loops in one batch dimension; rows in use come first, and surplus rows are cut off."""
    loops, (n, d) = X.shape[:-2].numel(), X.shape[-2:]
    flat = {name: value.reshape(loops, n) for name, value in rows.items()}
    live = flat["live"]
    most = min(n, max(1, int(live.sum(-1).max())))
    order = live.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[:, :most]
    packed = {name: value.gather(1, order) for name, value in flat.items()}
    return packed | {"X": X.reshape(loops, n, d).gather(1, order.unsqueeze(-1).expand(-1, -1, d))}
