"""The importance of each parameter for the objective at present."""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.even_points import even_points
from botorch_tv.gp.tensors import without_gradients
from botorch_tv.strategies.box import Box
from botorch_tv.strategies.domains import Grid
from botorch_tv.strategies.protocol import Strategy
from botorch_tv.strategies.state import State

LEVELS = 16
"""Largest number of values of a parameter that are compared."""
OTHERS = 64
"""Number of points of the other parameters, over which means are taken."""


@without_gradients
def importance(strategy: Strategy, state: State, *, now: float | Tensor | None = None) -> Tensor:
    """The share of each parameter in the variation of the posterior mean, `batch_shape x p`.

    The share of a parameter is proportional to its first-order Sobol index: the variance, over the
    values of the parameter, of the posterior mean averaged over all other parameters. Effects of
    several parameters together do not count. The shares sum to 1; they are equal if the posterior
    mean is constant, for example before the first measurement.

    On a box there is a share for each parameter, in the given order (for each coordinate if the
    parameters have no names), followed by one for each coordinate of the context, which is averaged
    over the measured contexts. On a grid there is a share for each column of the arms; if a column
    has more than 16 values, neighbouring values are compared together.

    Args:
        strategy: Any strategy.
        state: Its state.
        now: Time, a scalar or `batch_shape`, as in :meth:`Strategy.ask`.
    """
    domain, like = state.domain, state.basis.variance

    def mean(X: Tensor) -> Tensor:
        """Posterior means at points, `n x batch_shape x columns -> batch_shape x n`."""
        return strategy.posterior(state, X.unsqueeze(-2), now=now).mean[..., 0, 0].movedim(0, -1)

    if isinstance(domain, Grid):
        arms = domain.X.to(like)
        value = mean(arms.view(len(arms), *[1] * state.time.dim(), -1))
        ranks = [column.unique(return_inverse=True)[1] for column in arms.unbind(-1)]
        levels = [rank * LEVELS // (rank.max() + 1).clamp_min(LEVELS) for rank in ranks]
        bins = [torch.nn.functional.one_hot(level).to(value) for level in levels]
        bins = [each[:, each.any(0)] for each in bins]
        effects = [_variance(value @ (each / each.sum(0)), each.mean(0)) for each in bins]
    else:
        assert isinstance(domain, Box)
        U = even_points(OTHERS, _parameters(domain)).to(like)
        effects = []
        for number in range(U.shape[-1]):
            every = U.repeat(LEVELS, 1, 1)
            every[..., number] = (torch.arange(LEVELS).to(U) + 0.5).unsqueeze(-1) / LEVELS
            value = mean(_points(domain, state, every.flatten(0, 1)))
            effects.append(_variance(value.unflatten(-1, (LEVELS, OTHERS)).mean(-1)))
    found = torch.stack(effects, -1)
    total, size = found.sum(-1, keepdim=True), value.square().amax(-1, keepdim=True)
    constant = total <= torch.finfo(total.dtype).eps * size
    return torch.where(constant, 1 / found.shape[-1], found / total)


def _parameters(box: Box) -> int:
    """Number of parameters, context included."""
    chosen = box.dim if box.parameters is None else len(box.parameters)
    return chosen + box.context_dim


def _points(box: Box, state: State, U: Tensor) -> Tensor:
    """Points of a box from a cube with a coordinate per parameter, `n x batch_shape x columns`.

    Coordinates of the context become quantiles of the measured contexts.
    """
    parameters, shape = box.parameters, state.time.shape
    chosen, ranks = U.split([U.shape[-1] - box.context_dim, box.context_dim], -1)
    X = box.from_unit(chosen) if parameters is None else parameters.spread(chosen)
    X = X.view(len(X), *[1] * len(shape), -1).expand(len(X), *shape, -1)
    if not box.context_dim:
        return X
    context = state.history.choice.tensor()[..., box.dim :].sort(dim=-2).values
    if not context.shape[-2]:
        context = context.new_zeros(*shape, 1, box.context_dim)
    rows = (ranks * context.shape[-2]).long().view(len(X), *[1] * len(shape), -1)
    context = context.movedim(-2, 0).take_along_dim(rows.expand(len(X), *shape, -1), 0)
    return torch.cat([X, context], -1)


def _variance(value: Tensor, share: Tensor | None = None) -> Tensor:
    """Variances over the last dimension, with equal weights or given shares."""
    if share is None:
        return value.var(-1, correction=0)
    centre = (share * value).sum(-1, keepdim=True)
    return (share * (value - centre).square()).sum(-1)
