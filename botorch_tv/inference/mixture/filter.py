"""The posterior of the members that share a lengthscale, and what an observation does to it.

Coordinates are whitened features and, behind them, one more for the constant m, which neither
decays nor jumps. Everything is in units of the scale s, which is integrated out.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class Group(NamedTuple):
    """What members of one lengthscale believe, K of them, of T trials."""

    mean: Tensor
    """z, `T x K x (r + 1)`."""
    covariance: Tensor
    """P, in units of s², `T x K x (r + 1) x (r + 1)`."""
    scale: Tensor
    """B of the inverse gamma on s², `T x K`."""
    log_weight: Tensor
    """Logarithm of the marginal likelihood times the prior weight, `T x K`."""
    jump: Tensor
    """Chance that the newest observation came after a jump, `T x K`."""


class Passage(NamedTuple):
    """What may have happened since the last observation."""

    attenuation: Tensor
    """a, `T x K`."""
    jump: Tensor
    """H, `T x K`."""


class Told(NamedTuple):
    """An observation."""

    features: Tensor
    """φ, the constant's behind, `T x (r + 1)`."""
    residual: Tensor
    """Prior variance that the features leave out, `T`."""
    y: Tensor
    """In units of the starts, `T`."""
    noise: Tensor
    """ρ times what it was told with, `T x K`."""
    good: Tensor
    """Whether there is anything to learn from, `T`, bool."""


def moved(factor: Tensor, vector: Tensor) -> Tensor:
    """A vector whose features decay, and whose constant does not, `T x K x (r + 1)`."""
    decayed = vector * factor.unsqueeze(-1)
    return torch.cat([decayed[..., :-1], vector[..., -1:].expand_as(decayed[..., -1:])], -1)


def observed(group: Group, passage: Passage, told: Told, shape: Tensor) -> tuple[Group, Tensor]:
    """The group after time has passed and an observation was made.

    Args:
        group: Before.
        passage: Since the observation before.
        told: The new one.
        shape: A of the inverse gamma on s² before it, `T`.

    Returns:
        The group, and what the observation told, ½ ln(S / noise) in nats, `T x K`.
    """
    good, phi, A = told.good.unsqueeze(-1), told.features.unsqueeze(-2), shape.unsqueeze(-1)
    a = torch.where(good, passage.attenuation, 1.0)
    H = torch.where(good, passage.jump, 0.0)
    own = told.residual.unsqueeze(-1) + torch.where(good, told.noise, 1.0)
    grown = 1 - a.square()
    z = moved(a, group.mean)
    P = group.covariance
    # Drift: P of now times φ, without P of now.
    g = moved(a, (P @ moved(a, phi.expand_as(z)).unsqueeze(-1)).squeeze(-1))
    g = g + torch.nn.functional.pad(grown.unsqueeze(-1) * phi[..., :-1], (0, 1))
    S, e = (g * phi).sum(-1) + own, told.y.unsqueeze(-1) - (z * phi).sum(-1)
    # Jump: all but the constant is forgotten, and so is what it had to do with the constant.
    constant = P[..., -1, -1]
    g_J = torch.cat(
        [phi[..., :-1].expand(*z.shape[:-1], -1), (constant * phi[..., -1]).unsqueeze(-1)], -1
    )
    z_J = torch.nn.functional.pad(z[..., -1:], (z.shape[-1] - 1, 0))
    S_J, e_J = (g_J * phi).sum(-1) + own, told.y.unsqueeze(-1) - (z_J * phi).sum(-1)

    drift = torch.log1p(-H) + log_student(e, S, A, group.scale)
    jump = H.log() + log_student(e_J, S_J, A, group.scale)
    total = torch.logaddexp(drift, jump)
    p = torch.where(good, torch.exp(jump - total), 0.0)
    q = 1 - p
    learned = good.to(e)
    B = group.scale + 0.5 * learned * (q * e.square() / S + p * e_J.square() / S_J)
    z_D = z + g * (learned * e / S).unsqueeze(-1)
    z_J = z_J + g_J * (e_J / S_J).unsqueeze(-1)
    apart = z_D - z_J
    spread = p * q * (A + 0.5) / B
    weights = torch.stack([-q * learned / S, -p / S_J, spread], -1)
    rows = torch.stack([g, g_J, apart], -2)
    covariance = _scaled(P, q * a.square(), q * a, q * grown + p)
    square, weighted = covariance.shape[-1], rows * weights.unsqueeze(-1)
    # In place: of a covariance every pass over memory counts.
    covariance.view(-1, square, square).baddbmm_(
        weighted.view(-1, 3, square).mT, rows.view(-1, 3, square)
    )
    return (
        Group(
            mean=q.unsqueeze(-1) * z_D + p.unsqueeze(-1) * z_J,
            covariance=covariance,
            scale=B,
            log_weight=group.log_weight + torch.where(good, total, 0.0),
            jump=torch.where(good, p, group.jump),
        ),
        0.5 * torch.where(good, S / told.noise, 1.0).log(),
    )


def log_student(e: Tensor, S: Tensor, A: Tensor, B: Tensor) -> Tensor:
    """Log density at e of Student's t with 2A degrees of freedom and squared scale (B / A) S."""
    normaliser = torch.lgamma(A + 0.5) - torch.lgamma(A) - 0.5 * torch.log(2 * torch.pi * B * S)
    return normaliser - (A + 0.5) * torch.log1p(e.square() / (2 * B * S))


def _scaled(P: Tensor, features: Tensor, cross: Tensor, added: Tensor) -> Tensor:
    """P with a factor per block, the constant's aside, and a multiple of I added to the features'.

    Args:
        P: `T x K x (r + 1) x (r + 1)`.
        features: Factor on the block of the features, `T x K`.
        cross: Factor between these and the constant, `T x K`.
        added: `T x K`.
    """
    out = P * features[..., None, None]
    out[..., :-1, -1] = P[..., :-1, -1] * cross.unsqueeze(-1)
    out[..., -1, :-1] = P[..., -1, :-1] * cross.unsqueeze(-1)
    out[..., -1, -1] = P[..., -1, -1]
    out.diagonal(dim1=-2, dim2=-1)[..., :-1].add_(added.unsqueeze(-1))
    return out
