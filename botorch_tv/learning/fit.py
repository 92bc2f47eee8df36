"""Hyperparameters of many independent loops by their posterior density, and its gradient.

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
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.forgetting import Decay
from botorch_tv.forgetting.base import is_static, median_gap, with_values
from botorch_tv.forgetting.claims import require_learnable
from botorch_tv.forgetting.decay import PerTrial
from botorch_tv.gp.quasi_newton import minimize
from botorch_tv.kernels.stationary import LearnableKernel, profile, profile_slope
from botorch_tv.learning.layout import ParameterLayout
from botorch_tv.learning.refit import Refit


class NegativeLogPosterior:
    """The negative logarithm of the posterior density of hyperparameters of b loops.

    A row whose age noise makes it count w times contributes its likelihood to the power w, as a
    Gaussian of noise σ² ρ / w with the normalisation of w observations. That noise was never in y;
    taken for noise, it would drive the estimate of σ² to 0.

    Args:
        kernel: The spatial kernel.
        decay: How covariance falls with time.
        layout: What a vector of hyperparameters means.
        X: Inputs, `b x n x d`.
        times: `b x n`, counted from the origin.
        y: Observations less the prior mean, `b x n`.
        live: Which rows are in use, `b x n`; the others may hold anything.
        relative_noise: ρ, variances of observations relative to σ², positive, `b x n`.
        inflation: Factor 1 / w >= 1 by which age has inflated the noise of each besides, `b x n`.
        unit: To count time in, `b`; as it is told unless given.
        searches: Problems of each loop, which follow one another.
        estimates_mean: Whether the prior mean is the constant of generalised least squares,
            1ᵀA⁻¹y / 1ᵀA⁻¹1, at every vector anew.
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
        times, y = (torch.where(live, one.double(), 0.0) for one in (times, y))
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
        self._held: tuple[Tensor, ...] = self._data

    def __call__(self, vector: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Value and gradient.

        Args:
            vector: Hyperparameters, `m x p`.
            rows: Numbers of the problems they belong to, `m`.

        Returns:
            `m`, infinite where the covariance has no Cholesky factor, and `m x p`.
        """
        if rows is not self._rows:  # the search leaves out problems now and then only
            loops = rows // self._searches
            self._rows, self._held = rows, tuple(part[loops] for part in self._data)
        value, gradient = self._negative_log_likelihood(vector)
        log, slope = self._layout.log_prior(vector, self._held[-1])
        value, gradient = value - log, gradient - slope
        good = value.isfinite() & gradient.isfinite().all(-1)
        return torch.where(good, value, math.inf), torch.where(good.unsqueeze(-1), gradient, 0.0)

    def _negative_log_likelihood(self, vector: Tensor) -> tuple[Tensor, Tensor]:
        """-ln p(y) and its derivatives by the vector."""
        squares, times, y, relative_root, weight, constant, _ = self._held
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
        inverse = torch.cholesky_inverse(factor).mT  # symmetric; transposed it lies in rows
        observed = (root * y).unsqueeze(-1)
        if self._estimates_mean:
            # S (y - μ 1) at the mean of generalised least squares; 0 without data.
            weights = inverse @ root.unsqueeze(-1)
            information = (root.unsqueeze(-1) * weights).sum(-2, keepdim=True).clamp_min(1e-300)
            mean = (observed * weights).sum(-2, keepdim=True) / information
            observed = observed - mean * root.unsqueeze(-1)
        fitted = inverse @ observed  # β
        quadratic = (observed * fitted).sum((-2, -1))
        log_det = 2 * factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)
        value = 0.5 * (log_det + quadratic + weight * noise.log()) + constant
        value = torch.where(failed == 0, value, math.inf)

        half = 0.5 * (inverse - fitted @ fitted.mT)  # derivative by M
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
        """Natural values `m x k` that D depends on, and D, `m x n x n`; None where it is static.

        Automatic differentiation spares a decay its derivatives, and takes little beside the rest.
        """
        if is_static(self._decay):
            return natural, None
        first, second = times.unsqueeze(-1), times.unsqueeze(-2)
        with torch.enable_grad():
            natural = natural.detach().requires_grad_(self._layout.learns_decay)
            values = self._layout.named(natural)
            decay = with_values(
                self._decay, {name: one[:, None, None] for name, one in values.items()}
            )
            return natural, decay.covariance(first, second)


NUMBERS = 2**25
"""Matrix entries worked on at a time (256 MB); more loops are taken one part after another."""
_MATRICES = 10  # n x n matrices that an evaluation holds besides the squared differences
_VALUE_TOLERANCE = 1e-7
_GRADIENT_TOLERANCE = 1e-3


class Learned(NamedTuple):
    """Hyperparameters of every loop, in the dtype of its observations.

    Attributes:
        vector: As one vector, to start the next search from, `batch_shape x p`, float64.
        kernel: The spatial kernel with parameters of batch shape ``batch_shape``.
        noise: Variance σ² of a new observation, `batch_shape`.
        decay: The decay with values of every loop.
        log_posterior: Logarithm of the marginal likelihood times the prior densities,
            `batch_shape`.
        evaluations: How often the posterior was evaluated, for all loops together.
    """

    vector: Tensor
    kernel: Kernel
    noise: Tensor
    decay: PerTrial
    log_posterior: Tensor
    evaluations: int


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
    """Learn the hyperparameters of every loop from its own observations.

    A loop's result depends on its own data alone, whatever the batch, and not on the unit in which
    time is told: a search counts it in the median gap between the loop's observations. Computed in
    float64.

    Args:
        refit: What is learned, and under which priors.
        kernel: The spatial kernel, without batch shape: squared exponential or Matérn, possibly
            scaled. Its parameters are where the first search starts.
        decay: How covariance falls with time; its parameter likewise.
        noise: Variance σ² of a new observation, likewise.
        X: Inputs, `batch_shape x n x d`.
        times: When they were observed, `batch_shape x n`, counted from the origin of the decay.
        y: Observations less a known prior mean, `batch_shape x n`.
        live: Which rows are in use, bool, `batch_shape x n`; the others may hold anything.
        relative_noise: Variances of the observations relative to σ², `batch_shape x n`; 1 unless
            given, infinite where one failed.
        start: The vector of the last result, `batch_shape x p`; what the user gave unless given.
        inflation: Factor by which age has inflated the noise of each observation, at least 1,
            `batch_shape x n`. Such a row counts 1 / inflation times; see ``prepare``.
        estimates_mean: Whether the prior mean is estimated by generalised least squares.
        extent: Sides of the domain, `d`, in which default priors measure lengthscales; a unit cube
            unless given.

    Raises:
        InputDataError: If the kernel is of another kind.
        ValueError: If parameters lie outside the bounds of ``refit``, or the decay is not a formula
            of those it declares.
    """
    parts = LearnableKernel(kernel)
    sides = torch.ones(X.shape[-1], dtype=torch.float64, device="cpu") if extent is None else extent
    sides = parts.columns(sides.detach().unsqueeze(0))[0]
    layout = ParameterLayout(refit, parts, decay, noise, sides, X.device)
    rows = {"times": times, "y": y, "live": live}
    rows["relative_noise"] = torch.ones_like(y) if relative_noise is None else relative_noise
    if inflation is not None:
        rows["inflation"] = inflation
    if start is None and layout.learns_decay:
        require_learnable(decay)
    packed = _packed(X, rows)
    gap = median_gap(packed["times"].double(), packed["live"])
    # The user's unit for a fixed decay.
    unit = gap if layout.learns_decay else torch.ones_like(gap)
    given = layout.given.expand(len(unit), -1)
    # Data of a few rounds often have two explanations, one slow and one fast: without a last result
    # the second search assumes a high rate of change.
    if start is None:
        first, second = given, layout.fast_start(unit)
    else:
        first, second = start.to(given).reshape(given.shape), given
    starts = torch.stack([first, second], 1)
    matrices = starts.shape[1] * (parts.lengthscales + _MATRICES)
    size = max(1, NUMBERS // max(1, matrices * packed["y"].shape[-1] ** 2))
    ends = []
    for *piece, some in zip(*(torch.split(one, size) for one in (*packed.values(), unit, starts))):
        data = dict(zip((*packed, "unit"), piece))
        ends.append(_search(refit, parts, decay, layout, data, some, estimates_mean))
    found, values, evaluations = zip(*ends)
    x, value = torch.cat(found), torch.cat(values)
    shape = y.shape[:-1]
    lengthscale, variance, noise_found, natural, _ = (
        one.reshape((*shape, *one.shape[1:])) for one in layout.values(x)
    )
    return Learned(
        vector=layout.retained(x, unit).reshape((*shape, layout.size)),
        kernel=parts.with_parameters(lengthscale.to(y), variance.to(y)),
        noise=noise_found.to(y),
        decay=PerTrial(decay, layout.named(natural), unit.reshape(shape)),
        log_posterior=-value.reshape(shape),
        evaluations=sum(evaluations),
    )


def _search(
    refit: Refit,
    kernel: LearnableKernel,
    decay: Decay,
    layout: ParameterLayout,
    data: dict[str, Tensor],
    starts: Tensor,
    estimates_mean: bool,
) -> tuple[Tensor, Tensor, int]:
    """The best end of every loop's searches from ``starts``, `b x s x p`, as kept: `b x p`.

    With it its value, `b`, and how often the function was evaluated.
    """
    b, s, p = starts.shape
    objective = NegativeLogPosterior(
        kernel, decay, layout, **data, searches=s, estimates_mean=estimates_mean
    )
    # Loops with too few observations stay where they are: their bounds leave no room.
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
    return best_x, value, ends.evaluations


def _packed(X: Tensor, rows: dict[str, Tensor]) -> dict[str, Tensor]:
    """Flat loops, rows in use first, with as few others as the fullest loop leaves room for."""
    loops, (n, d) = X.shape[:-2].numel(), X.shape[-2:]
    flat = {name: one.reshape(loops, n) for name, one in rows.items()}
    live = flat["live"]
    most = min(n, max(1, int(live.sum(-1).max())))
    order = live.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[:, :most]
    packed = {name: one.gather(1, order) for name, one in flat.items()}
    return packed | {"X": X.reshape(loops, n, d).gather(1, order.unsqueeze(-1).expand(-1, -1, d))}
