"""Functions drawn from the mixture, at points that share a time: a member first, then its function.

Written out in independent normal variates, a member's θ at a time and its constant m are

    m = z_m + s √P_mm u_0,
    θ = c (z + v u_0) + √b s L u_1 + √(1 - b) s u_2 + √(b - c²) (z u_3 + v u_4),

with v = s P_θm / √P_mm, L Lᵀ = P_θθ - v vᵀ / s², and c and b as in :mod:`.forecast`. These have the
mean and the covariance of the forecast, and follow X and time smoothly. The scale s² is its mean.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.mixture.filter import Group
from botorch_tv.inference.mixture.forecast import Forecast, Places

COMMON = 4
"""Normal variates that choose the member, and u_0, u_3 and u_4."""
JITTER = 1e-10
"""Added to what is factored, which is singular to rounding where much was measured."""


class Functions(NamedTuple):
    """M functions of T trials, in each of N' sets, in units of the starts."""

    vectors: Tensor
    """What stands beside c, √b, √(1 - b) and √(b - c²), `T x N' x 4 x M x r`; behind the features
    of a lengthscale there are zeros."""
    constant: Tensor
    """m, `T x N' x M`."""
    pair: Tensor
    """Which pair of rate and hazard, `T x N' x M`, int64."""
    scale: Tensor
    """s², `T x N' x M`."""
    lengthscale: Tensor
    """Which, `T x N' x M`, int64."""
    ratio: Tensor
    """ρ, `T x N' x M`."""

    def at(self, ahead: Forecast, places: Places) -> Tensor:
        """Values without what features leave out, `T x N x q x M`."""
        c, b = ahead.left(places.gap)
        fresh = -torch.expm1(-ahead.second * places.gap.unsqueeze(-1))
        jumped = ahead.jumped(places.gap)
        factors = torch.stack([c, b.sqrt(), _root(fresh), _root(jumped)], -2)
        T, N, q = places.gap.shape
        pair = self.pair.expand(T, N, -1)[:, :, None, None, :].expand(-1, -1, q, 4, -1)
        own = factors.gather(-1, pair)  # T x N x q x 4 x M
        total = self.constant.unsqueeze(-2).expand(T, N, q, -1)
        for number, phi in enumerate(places.features):
            mine = (self.lengthscale == number).any(0).any(0)
            vectors = self.vectors[..., mine, : phi.shape[-1]]
            if vectors.shape[1] == 1:  # one function for all sets: a single product
                flat = phi.reshape(T, N * q, -1) @ vectors.flatten(1, 3).mT
            else:
                flat = phi @ vectors.flatten(2, 3).mT
            value = (own[..., mine] * flat.view(T, N, q, 4, -1)).sum(-2)
            ours = (self.lengthscale == number)[..., mine].unsqueeze(-2)
            total = total.index_add(-1, mine.nonzero().squeeze(-1), torch.where(ours, value, 0.0))
        return total

    def unexplained(self, places: Places) -> Tensor:
        """Variance that features leave out, `T x N x q x M`."""
        residual = torch.stack(places.residual, -1)
        chosen = self.lengthscale.unsqueeze(-2).expand(*places.gap.shape, -1)
        return residual.gather(-1, chosen) * self.scale.unsqueeze(-2)


@dataclass(frozen=True, eq=False)
class Drawing:
    """Draws functions; roots of covariances are kept.

    Attributes:
        ahead: The forecast.
        groups: The members, of flat trials.
        noise: Their noise ratios, `K`.
    """

    ahead: Forecast
    groups: tuple[Group, ...]
    noise: Tensor
    _roots: dict[tuple[int, int, int], Tensor] = field(default_factory=dict)

    @property
    def normals(self) -> int:
        """Variates that a function takes."""
        return COMMON + 2 * max(share.mean.shape[-1] for share in self.ahead.shares)

    def believed_noise(self) -> Tensor:
        """Variance of a new observation's noise, `T`."""
        own = [(one.weight * one.scale * self.noise).sum(-1) for one in self.ahead.shares]
        return torch.stack(own).sum(0)

    def functions(self, normal: Tensor) -> Functions:
        """Functions from standard normal variates, `T x N' x M x normals`."""
        T, sets, M, _ = normal.shape
        shares, flat = self.ahead.shares, normal.reshape(T, sets * M, -1)
        weight = torch.stack([share.weight for share in shares], -2)
        cumulative = weight.flatten(-2).cumsum(-1)
        uniform = torch.special.ndtr(flat[..., 0]) * cumulative[:, -1:]
        # The first with as much behind it; one of weight 0 is never drawn.
        number = torch.searchsorted(cumulative, uniform.contiguous())
        number = number.clamp_max(cumulative.shape[-1] - 1)
        K = weight.shape[-1]
        own, member = number // K, number % K
        size = max(share.mean.shape[-1] for share in shares)
        trial = torch.arange(T, device=number.device).unsqueeze(-1).expand_as(number)
        where, drawn, levels, scales = [], [], [], []
        for n, one in torch.unique(torch.stack([trial, number], -1).flatten(0, 1), dim=0).tolist():
            place, k = divmod(one, K)
            share, here = shares[place], ((trial == n) & (number == one)).nonzero(as_tuple=True)
            u, r = flat[here], share.mean.shape[-1]
            z, s = share.mean[n, k], share.scale[n, k].sqrt()
            column = self.groups[place].covariance[n, k, :, -1]
            spread = column[-1].clamp_min(JITTER).sqrt()
            v = s * column[:-1] / spread
            first, second = u[:, COMMON : COMMON + r], u[:, COMMON + r : COMMON + 2 * r]
            parts = [
                z + u[:, 1:2] * v,
                s * first @ self._root(place, n, k).mT,
                s * second,
                u[:, 2:3] * z + u[:, 3:4] * v,
            ]
            drawn.append(torch.nn.functional.pad(torch.stack(parts, 1), (0, size - r)))
            levels.append(share.constant[n, k] + s * spread * u[:, 1])
            scales.append(s.square().expand(len(u)))
            where.append(here)
        order = tuple(torch.cat(part) for part in zip(*where))
        back = torch.empty_like(number).index_put(
            order, torch.arange(number.numel(), device=number.device)
        )
        vectors = torch.cat(drawn)[back].view(T, sets, M, 4, size).movedim(3, 2)

        def shaped(tensor: Tensor) -> Tensor:
            return tensor.view(T, sets, M)

        return Functions(
            vectors=vectors,
            constant=shaped(torch.cat(levels)[back]),
            pair=shaped(self.ahead.pair[member]),
            scale=shaped(torch.cat(scales)[back]),
            lengthscale=shaped(own),
            ratio=shaped(self.noise[member]),
        )

    def _root(self, place: int, trial: int, member: int) -> Tensor:
        """L of a member."""
        key = place, trial, member
        if key not in self._roots:
            P = self.groups[place].covariance[trial, member]
            edge = P[:-1, -1] / P[-1, -1].clamp_min(JITTER).sqrt()
            rest = P[:-1, :-1] - edge.unsqueeze(-1) * edge
            rest = rest + JITTER * torch.eye(len(rest), dtype=rest.dtype, device=rest.device)
            self._roots[key] = torch.linalg.cholesky(rest)
        return self._roots[key]


def _root(value: Tensor) -> Tensor:
    """Square root, 0 with derivative 0 where nothing is left."""
    positive = value > 0
    return torch.where(positive, torch.where(positive, value, 1.0).sqrt(), 0.0)
