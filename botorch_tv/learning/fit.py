"""Hyperparameters of many independent loops by their posterior density, within a strategy."""

from __future__ import annotations

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
    packed = _packed(X, rows)
    gap = median_gap(packed["times"].double(), packed["live"])
    # The user's unit for a fixed decay.
    unit = gap if ordered.learns_decay else torch.ones_like(gap)
    given = ordered.given.expand(len(unit), -1)
    # Data of a few rounds often have two explanations, one slow and one fast: without a last result
    # the second search assumes a high rate of change.
    if start is None:
        first, second = given, ordered.fast_start(unit)
    else:
        first, second = start.to(given).reshape(given.shape), given
    starts = torch.stack([first, second], 1)
    matrices = starts.shape[1] * (parts.lengthscales + _MATRICES)
    size = max(1, NUMBERS // max(1, matrices * packed["y"].shape[-1] ** 2))
    ends = []
    for *piece, some in zip(*(torch.split(one, size) for one in (*packed.values(), unit, starts))):
        data = prepare(parts, decay, **dict(zip((*packed, "unit"), piece)))
        ends.append(_search(refit, parts, decay, ordered, data, some, estimates_mean))
    x, value = (torch.cat([getattr(end, name) for end in ends]) for name in ("x", "value"))
    shape = y.shape[:-1]
    lengthscale, variance, noise_found, natural, _ = (
        one.reshape((*shape, *one.shape[1:])) for one in ordered.values(x)
    )
    return Learned(
        vector=ordered.kept(x, unit).reshape((*shape, ordered.size)),
        kernel=parts.with_parameters(lengthscale.to(y), variance.to(y)),
        noise=noise_found.to(y),
        decay=PerTrial(decay, ordered.named(natural), unit.reshape(shape)),
        log_posterior=-value.reshape(shape),
        evaluations=sum(end.evaluations for end in ends),
    )


def _search(
    refit: Refit,
    kernel: LearnableKernel,
    decay: Decay,
    layout: ParameterLayout,
    data: TrainingData,
    starts: Tensor,
    estimates_mean: bool,
) -> Minimum:
    """The best end of every loop's searches from ``starts``, `b x s x p`, as kept: `b x p`."""
    b, s, p = starts.shape
    # Loops with too few observations stay where they are: their bounds leave no room.
    few = ((data.root > 0).sum(-1) < refit.least)[:, None, None]
    starts = layout.searched(starts, data.unit.unsqueeze(-1))
    stay = starts[:, :1]
    lower, upper = (
        torch.where(few, stay, end.unsqueeze(1)).expand(b, s, p).reshape(-1, p)
        for end in layout.bounds(data.unit)
    )
    loops = torch.arange(b, device=starts.device)
    problems = loops.repeat_interleave(s)
    ends = minimize(
        NegativeLogPosterior(kernel, decay, layout, data, problems, estimates_mean=estimates_mean),
        starts.reshape(-1, p),
        lower,
        upper,
        evaluations=refit.evaluations,
        value_tolerance=_VALUE_TOLERANCE,
        gradient_tolerance=_GRADIENT_TOLERANCE,
    )
    value, best = ends.value.view(b, s).min(-1)
    return Minimum(ends.x.view(b, s, p)[loops, best], value, ends.evaluations)


def _packed(X: Tensor, rows: dict[str, Tensor]) -> dict[str, Tensor]:
    """Flat loops, rows in use first, with as few others as the fullest loop leaves room for."""
    loops, (n, d) = X.shape[:-2].numel(), X.shape[-2:]
    flat = {name: one.reshape(loops, n) for name, one in rows.items()}
    live = flat["live"]
    most = min(n, max(1, int(live.sum(-1).max())))
    order = live.to(torch.uint8).argsort(dim=-1, descending=True, stable=True)[:, :most]
    packed = {name: one.gather(1, order) for name, one in flat.items()}
    return packed | {"X": X.reshape(loops, n, d).gather(1, order.unsqueeze(-1).expand(-1, -1, d))}
