"""The importance of each parameter for the objective at present."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from botorch_tv.gp.tensors import without_gradients
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State

BINS = 16
"""Largest number of values, or of intervals of values, of a parameter that are compared."""
GOLDEN = 0.6180339887498949
POINTS = 2048
"""Number of points of a box over which means are taken."""


@without_gradients
def importance(strategy: Strategy, state: State, *, now: float | Tensor | None = None) -> Tensor:
    """The share of each parameter in the variation of the posterior mean, `batch_shape x p`.

    The share of a parameter is proportional to its first-order Sobol index: the variance, over the
    values of the parameter, of the posterior mean averaged over all other parameters. Effects of
    several parameters together do not count. The shares sum to 1; they are equal if the posterior
    mean is constant, for example before the first measurement.

    On a box there is a share for each named parameter (for each coordinate without names), followed
    by one for each context, over the measured contexts. A point of the box counts if it is
    feasible. On a grid there is a share for each column of the arms.

    Args:
        strategy: Any strategy.
        state: Its state.
        now: Time, a scalar or `batch_shape`, as in :meth:`Strategy.ask`.
    """
    X = _points(state)
    mean = strategy.posterior(state, X.unsqueeze(-2), now=now).mean[..., 0].squeeze(-1)
    sampled = isinstance(state.domain, Box)
    effects = torch.stack([_effect(mean, part, sampled) for part in _parts(state.domain, X)], -1)
    total, size = effects.sum(-1, keepdim=True), mean.square().amax(0).unsqueeze(-1)
    constant = total <= torch.finfo(total.dtype).eps * size
    return torch.where(constant, 1 / effects.shape[-1], effects / total)


def _points(state: State) -> Tensor:
    """Arms of a grid, or points that fill a box, with contexts, `n x batch_shape x columns`."""
    domain, shape, like = state.domain, state.time.shape, state.basis.variance
    if isinstance(domain, Grid):
        X = domain.X.to(like)
    else:
        assert isinstance(domain, Box)
        X = domain.search.filling(domain, POINTS, 0, like)
    X = X.view(len(X), *[1] * len(shape), -1).expand(len(X), *shape, -1)
    if isinstance(domain, Grid) or not domain.context_dim:
        return X
    context = state.history.choice.tensor()[..., domain.dim :].movedim(-2, 0)
    if not len(context):
        context = torch.zeros_like(X[:1, ..., :1]).expand(1, *shape, domain.context_dim)
    # A sequence of another kind, because Sobol sequences of different seeds are correlated.
    rows = torch.arange(len(X), device=context.device) * GOLDEN % 1 * len(context)
    return torch.cat([X, context[rows.long()]], -1)


def _parts(domain: Domain, X: Tensor) -> list[Tensor]:
    """The columns of each parameter and of each context."""
    return list(torch.split(X, domain.sizes if isinstance(domain, Box) else 1, -1))


def _effect(mean: Tensor, part: Tensor, sampled: bool) -> Tensor:
    """Variance of the means in intervals of a parameter's values, `batch_shape`.

    Args:
        mean: Means at n points, `n x batch_shape`.
        part: The columns of the parameter, `n x batch_shape x k`.
        sampled: Whether the points are few of all points, so that means differ by chance. The part
            of the variance that is expected by chance is subtracted.
    """
    rows = part.reshape(-1, part.shape[-1])
    level: Tensor = torch.unique(rows, dim=0, return_inverse=True)[1]
    count = int(level.max()) + 1
    if part.shape[-1] < 2:
        level, count = level * BINS // max(BINS, count), min(BINS, count)
    inside = one_hot(level.view(mean.shape), count).to(mean)
    number = inside.sum(0)
    own = (inside * mean.unsqueeze(-1)).sum(0) / number.clamp_min(1)
    effect = (number * (own - mean.mean(0).unsqueeze(-1)).square()).sum(-1) / len(mean)
    levels = (number > 0).sum(-1) if sampled else torch.ones_like(effect)  # 1 subtracts nothing
    within = (mean.var(0, correction=0) - effect) / (len(mean) - levels).clamp_min(1)
    return (effect - (levels - 1) * within).clamp_min(0)
