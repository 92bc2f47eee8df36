"""A function drawn from the mixture: a member first, then its scale's mean and its function."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.mixture.filter import Group, Passage
from botorch_tv.inference.mixture.moments import scales, weights


class MemberDraw(NamedTuple):
    """Weights of features, per lengthscale; zero for the lengthscales not drawn."""

    weights: tuple[Tensor, ...]
    """`T x (r + 1)`."""

    def of(self, number: int, phi: Tensor) -> Tensor:
        """Share of one lengthscale in the function, `T x q`, at features `T x q x (r + 1)`."""
        return (phi @ self.weights[number].unsqueeze(-1)).squeeze(-1)


def drawn(groups: tuple[Group, ...], passage: Passage, shape: Tensor, normal: Tensor) -> MemberDraw:
    """A function per trial.

    Whether a jump has come since the last observation is drawn as it is predicted: by the mean and
    the variance of both cases.

    Args:
        groups: What members believe after the newest observation.
        passage: Since then.
        shape: A of the inverse gamma, `T`.
        normal: Standard normal variates, `T x (1 + r + 1)`.
    """
    share = weights(groups)
    cumulative = share.flatten(-2).cumsum(-1)
    uniform = torch.special.ndtr(normal[:, :1]) * cumulative[:, -1:]
    member = (cumulative < uniform).sum(-1).clamp_max(cumulative.shape[-1] - 1)
    members = share.shape[-1]
    trial = torch.arange(len(normal), device=normal.device)
    place = member % members
    parts = []
    for number, group in enumerate(groups):
        a, H = (part.expand(len(normal), members)[trial, place].unsqueeze(-1) for part in passage)
        P, z = group.covariance[trial, place], group.mean[trial, place]
        s = scales(group, shape)[trial, place].sqrt().unsqueeze(-1)
        decay = torch.ones_like(z)
        decay[:, :-1] = a
        z = z * decay
        kept = torch.ones_like(z)
        kept[:, :-1] = 1 - H
        P = P * (decay.unsqueeze(-1) * decay.unsqueeze(-2))
        apart = torch.nn.functional.pad(z[:, :-1], (0, 1))
        P = P * torch.minimum(kept.unsqueeze(-1), kept.unsqueeze(-2))
        P = P + (H * (1 - H) / s.square()).unsqueeze(-1) * (
            apart.unsqueeze(-1) * apart.unsqueeze(-2)
        )
        fresh = ((1 - H) * (1 - a.square()) + H).expand(-1, z.shape[-1] - 1)
        P.diagonal(dim1=-2, dim2=-1)[:, :-1].add_(fresh)
        # Where much was measured the covariance is singular to rounding.
        P.diagonal(dim1=-2, dim2=-1).add_(1e-10)
        root = torch.linalg.cholesky_ex(P).L
        noise = (root @ normal[:, 1 : 1 + z.shape[-1]].unsqueeze(-1)).squeeze(-1)
        is_drawn = (member // members == number).unsqueeze(-1)
        parts.append(torch.where(is_drawn, kept * z + s * noise, 0.0))
    return MemberDraw(tuple(parts))
