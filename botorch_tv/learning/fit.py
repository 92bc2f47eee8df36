"""Hyperparameters of many independent loops by their posterior density, within a strategy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.forgetting import Decay
from botorch_tv.forgetting.base import median_gap
from botorch_tv.forgetting.claims import require_learnable
from botorch_tv.forgetting.decay import PerTrial
from botorch_tv.inference.quasi_newton import Minimum, minimize
from botorch_tv.kernels.stationary import LearnableKernel
from botorch_tv.learning.layout import ParameterLayout, layout
from botorch_tv.learning.objective import NegativeLogPosterior, TrainingData, prepare
from botorch_tv.learning.refit import Refit

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
        InputDataError: If the kernel is of another kind, or shapes do not fit.
        ValueError: If parameters lie outside the bounds of ``refit``, or the decay is not a formula
            of those it declares.
    """
    parts = LearnableKernel.of(kernel)
    d = X.shape[-1]
    sides = torch.ones(d, dtype=torch.float64, device="cpu") if extent is None else extent.detach()
    ordered = layout(refit, parts, decay, noise, parts.columns(sides.unsqueeze(0))[0]).to(X.device)
    rows = {"times": times, "y": y, "live": live}
    rows["relative_noise"] = torch.ones_like(y) if relative_noise is None else relative_noise
    if inflation is not None:
        rows["inflation"] = inflation
    for name, one in rows.items():
        if one.shape != X.shape[:-1]:
            raise InputDataError(
                f"{name} has shape {tuple(one.shape)}, but X has {tuple(X.shape)}; every row of X "
                "needs one."
            )
    if start is None and ordered.learns_decay:
        require_learnable(decay)
    problem = _Problem(refit, parts, decay, ordered, estimates_mean)
    packed = _packed(X, rows)
    unit = problem.unit(packed)
    ends = problem.solve(packed, problem.starts(unit, start), unit)
    return problem.learned(ends, unit, y)


@dataclass(frozen=True)
class _Problem:
    """The part of the problem that all loops share."""

    refit: Refit
    kernel: LearnableKernel
    decay: Decay
    layout: ParameterLayout
    estimates_mean: bool

    def unit(self, rows: dict[str, Tensor]) -> Tensor:
        """The unit of time: the median gap, or the user's unit for a fixed decay, `b`."""
        gap = median_gap(rows["times"].double(), rows["live"])
        return gap if self.layout.learns_decay else torch.ones_like(gap)

    def starts(self, unit: Tensor, last: Tensor | None) -> Tensor:
        """Where the two searches of every loop begin, `b x 2 x p`.

        Without a last result the second assumes a high rate of change: data of a few rounds often
        have two explanations, one slow and one fast.
        """
        given = self.layout.given.expand(len(unit), -1)
        if last is None:
            return torch.stack([given, self.layout.fast_start(unit)], 1)
        return torch.stack([last.to(given).reshape(given.shape), given], 1)

    def learned(self, ends: Minimum, unit: Tensor, y: Tensor) -> Learned:
        """The hyperparameters found, in the batch shape and dtype of the observations ``y``."""
        shape = y.shape[:-1]
        lengthscale, variance, noise, natural, _ = (
            one.reshape((*shape, *one.shape[1:])) for one in self.layout.values(ends.x)
        )
        return Learned(
            vector=self.layout.kept(ends.x, unit).reshape((*shape, self.layout.size)),
            kernel=self.kernel.with_parameters(lengthscale.to(y), variance.to(y)),
            noise=noise.to(y),
            decay=PerTrial(self.decay, self.layout.named(natural), unit.reshape(shape)),
            log_posterior=-ends.value.reshape(shape),
            evaluations=ends.evaluations,
        )

    def solve(self, rows: dict[str, Tensor], starts: Tensor, unit: Tensor) -> Minimum:
        """The best end of every loop's searches, as many loops at a time as memory allows.

        Args:
            rows: Observations, `b x n`, and inputs, `b x n x d`.
            starts: Where to search from, the parameters a loop has first, `b x s x p`, as kept.
            unit: To count time in, `b`.

        Returns:
            `b x p`.
        """
        n = rows["y"].shape[-1]
        matrices = starts.shape[1] * (self.kernel.lengthscales + _MATRICES)
        size = max(1, NUMBERS // max(1, matrices * n * n))
        names, parts = (*rows, "unit"), (*rows.values(), unit, starts)
        ends = [
            self._solve(prepare(self.kernel, self.decay, **dict(zip(names, piece))), one)
            for *piece, one in zip(*(torch.split(one, size) for one in parts))
        ]
        return Minimum(
            torch.cat([one.x for one in ends]),
            torch.cat([one.value for one in ends]),
            sum(one.evaluations for one in ends),
        )

    def _solve(self, data: TrainingData, starts: Tensor) -> Minimum:
        b, s, p = starts.shape
        # Loops with too few observations stay where they are: their bounds leave no room.
        few = ((data.root > 0).sum(-1) < self.refit.least)[:, None, None]
        starts = self.layout.searched(starts, data.unit.unsqueeze(-1))
        stay = starts[:, :1]
        least, most = (end.unsqueeze(1) for end in self.layout.bounds(data.unit))
        lower = torch.where(few, stay, least).expand(b, s, p)
        upper = torch.where(few, stay, most).expand(b, s, p)
        ends = minimize(
            NegativeLogPosterior(
                self.kernel,
                self.decay,
                self.layout,
                data,
                torch.arange(b, device=starts.device).repeat_interleave(s),
                estimates_mean=self.estimates_mean,
            ),
            starts.reshape(-1, p),
            lower.reshape(-1, p),
            upper.reshape(-1, p),
            evaluations=self.refit.evaluations,
            value_tolerance=_VALUE_TOLERANCE,
            gradient_tolerance=_GRADIENT_TOLERANCE,
        )
        value, best = ends.value.view(b, s).min(-1)
        x = ends.x.view(b, s, p)[torch.arange(b, device=best.device), best]
        return Minimum(x, value, ends.evaluations)


def _packed(X: Tensor, rows: dict[str, Tensor]) -> dict[str, Tensor]:
    """Flat loops, rows in use first, with as few others as the fullest loop leaves room for."""
    loops, (n, d) = X.shape[:-2].numel(), X.shape[-2:]
    flat = {name: one.reshape(loops, n) for name, one in rows.items()}
    live = flat["live"]
    most = min(n, max(1, int(live.sum(-1).max())))
    order = live.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[:, :most]
    packed = {name: one.gather(1, order) for name, one in flat.items()}
    return packed | {"X": X.reshape(loops, n, d).gather(1, order.unsqueeze(-1).expand(-1, -1, d))}
