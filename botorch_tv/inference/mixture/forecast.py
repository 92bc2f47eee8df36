"""The mixture from its newest measurement on, where every point has a time of its own.

Of a member, with θ and m given the data of mean (z, z_m) and covariance s² P, and for two points τ
and τ' >= τ after the newest measurement,

    E θ_τ = c(τ) z,   E θ_τ m = c(τ) (s² P_θm + z z_m),
    E θ_τ θ_τ'ᵀ = c(τ' - τ) [b(τ) (s² P_θθ + z zᵀ) + (1 - b(τ)) s² I],

where c(τ) = (1 - h)^τ (1 - ε)^(τ/2) and b(τ) = (1 - h)^τ (1 - ε)^τ are what is left of a function
and of its square, jumps or none. Gradients flow to points and times.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.mixture.advance import features_at
from botorch_tv.inference.mixture.moments import scales, weights
from botorch_tv.inference.mixture.prior import BankPrior
from botorch_tv.inference.mixture.running import RunningMixture


class Places(NamedTuple):
    """Points and times asked about, of T trials: N sets of q."""

    features: tuple[Tensor, ...]
    """Per lengthscale, without the constant, `T x N x q x r`."""
    residual: tuple[Tensor, ...]
    """Prior variance that these leave out, `T x N x q`."""
    gap: Tensor
    """Time since the newest measurement in units of the clock, 0 or more, `T x N x q`."""


class Share(NamedTuple):
    """Members of one lengthscale, K of them, P pairs of rate and hazard, of T trials."""

    weight: Tensor
    """`T x K`."""
    scale: Tensor
    """E s², `T x K`."""
    mean: Tensor
    """z, `T x K x r`."""
    constant: Tensor
    """z_m, `T x K`."""
    block: Tensor
    """Σ w s² P over the members of a pair, `T x P x r x r`."""
    edge: Tensor
    """The same for the covariance with the constant, `T x P x r`."""
    corner: Tensor
    """The same for the constant's variance, `T x P`."""
    worth: Tensor
    """Σ w s² over the members of a pair, `T x P`."""


class Forecast(NamedTuple):
    """Mean and covariance of the mixture, in units of the starts."""

    shares: tuple[Share, ...]
    """Per lengthscale."""
    pair: Tensor
    """Which pair of rate and hazard a member has, `K`, int64."""
    first: Tensor
    """-ln c(1) of the pairs, `P`."""
    second: Tensor
    """-ln b(1) of the pairs, `P`."""
    jumps: Tensor
    """-ln(1 - h) of the pairs, `P`."""

    def mean(self, at: Places) -> Tensor:
        """`T x N x q`."""
        means = [
            (_wide(share.weight) * self._means(share, phi, at.gap)).sum(-1)
            for share, phi in zip(self.shares, at.features)
        ]
        return torch.stack(means).sum(0)

    def variance(self, at: Places) -> Tensor:
        """`T x N x q`."""
        (c, b), jumped = self.left(at.gap), self.jumped(at.gap)
        mean, total = self.mean(at), torch.zeros_like(at.gap)
        for share, phi, residual in zip(self.shares, at.features, at.residual):
            own = self._means(share, phi, at.gap)
            square = phi.square().sum(-1)
            for pair in range(len(self.first)):
                worth, corner = (one[:, pair, None, None] for one in (share.worth, share.corner))
                quadratic = ((phi @ share.block[:, pair].unsqueeze(1)) * phi).sum(-1)
                beside = (phi @ share.edge[:, pair, None, :, None]).squeeze(-1)
                kept = b[..., pair] * quadratic + (1 - b[..., pair]) * worth * square
                beside = 2 * c[..., pair] * beside
                total = total + kept + beside + corner + worth * residual
            either = jumped[..., self.pair] * self._static(share, phi).square()
            apart = (own - mean.unsqueeze(-1)).square()
            total = total + (_wide(share.weight) * (either + apart)).sum(-1)
        return total

    def covariance(self, at: Places) -> Tensor:
        """`T x N x q x q`."""
        earlier = torch.minimum(at.gap.unsqueeze(-1), at.gap.unsqueeze(-2))
        between = (at.gap.unsqueeze(-1) - at.gap.unsqueeze(-2)).abs()
        c, _ = self.left(at.gap)
        mean, total = self.mean(at), torch.zeros_like(earlier)
        for share, phi, residual in zip(self.shares, at.features, at.residual):
            own, static = self._means(share, phi, at.gap), self._static(share, phi)
            product, left = phi @ phi.mT, torch.zeros_like(at.gap)
            for pair in range(len(self.first)):
                worth, corner = (
                    one[:, pair, None, None, None] for one in (share.worth, share.corner)
                )
                kept = torch.exp(-self.first[pair] * between)
                b = torch.exp(-self.second[pair] * earlier)
                beside = c[..., pair] * (phi @ share.edge[:, pair, None, :, None]).squeeze(-1)
                quadratic = phi @ share.block[:, pair].unsqueeze(1) @ phi.mT
                total = total + (
                    kept * (b * quadratic + (1 - b) * worth * product)
                    + beside.unsqueeze(-1)
                    + beside.unsqueeze(-2)
                    + corner
                )
                left = left + worth.squeeze(-1) * residual
                jumped = static * _wide(share.weight * (self.pair == pair))
                either = kept * b * -torch.expm1(-self.jumps[pair] * earlier)
                total = total + either * (jumped @ static.mT)
            apart = own - mean.unsqueeze(-1)
            total = total + (apart * _wide(share.weight)) @ apart.mT + torch.diag_embed(left)
        return total

    def left(self, gap: Tensor) -> tuple[Tensor, Tensor]:
        """C and b of the pairs, `T x N x q x P`."""
        wide = gap.unsqueeze(-1)
        return torch.exp(-self.first * wide), torch.exp(-self.second * wide)

    def jumped(self, gap: Tensor) -> Tensor:
        """B - c² of the pairs, what a jump adds to the square of a mean, `T x N x q x P`."""
        wide = gap.unsqueeze(-1)
        return torch.exp(-self.second * wide) * -torch.expm1(-self.jumps * wide)

    def _means(self, share: Share, phi: Tensor, gap: Tensor) -> Tensor:
        """The members' means, `T x N x q x K`."""
        c, _ = self.left(gap)
        return c[..., self.pair] * self._static(share, phi) + _wide(share.constant)

    def _static(self, share: Share, phi: Tensor) -> Tensor:
        """Means as they were with the newest measurement, without the constant's."""
        return phi @ share.mean.mT.unsqueeze(1)


def forecast(prior: BankPrior, running: RunningMixture) -> Forecast:
    """What a bank of flat trials expects.

    Args:
        prior: Of the bank.
        running: Its posterior.
    """
    rate, hazard = prior.members.rate, prior.members.hazard
    stay, still = torch.log1p(-hazard), torch.log1p(-rate)
    pairs, pair = torch.unique(torch.stack([rate, hazard], -1), dim=0, return_inverse=True)
    every, shares = weights(running.groups), []
    member = (pair.unsqueeze(0) == torch.arange(len(pairs), device=pair.device)[:, None]).to(rate)
    for number, group in enumerate(running.groups):
        weight, s2 = every[:, number], scales(group, running.shape)
        by_pair = member * (weight * s2).unsqueeze(-2)  # T x P x K
        P = group.covariance
        total = (by_pair @ P.flatten(-2)).view(*by_pair.shape[:2], *P.shape[-2:])
        shares.append(
            Share(
                weight=weight,
                scale=s2,
                mean=group.mean[..., :-1],
                constant=group.mean[..., -1],
                block=total[..., :-1, :-1],
                edge=total[..., :-1, -1],
                corner=total[..., -1, -1],
                worth=by_pair.sum(-1),
            )
        )
    one = torch.zeros(len(pairs), dtype=torch.int64, device=pair.device).scatter(
        0, pair, torch.arange(len(pair), device=pair.device)
    )
    first, second = (-(stay + share * still)[one] for share in (0.5, 1.0))
    return Forecast(tuple(shares), pair, first, second, -stay[one])


def places(prior: BankPrior, running: RunningMixture, X: Tensor, time: Tensor) -> Places:
    """Points and times as the forecast sees them.

    Args:
        prior: Of the bank, on a box.
        running: Its posterior, of flat trials.
        X: Points, `T x N x q x (d + c)`.
        time: When, no earlier than what was learned from, `T x N x q`.
    """
    T, N, q, _ = X.shape
    units, flat = running.units, X.reshape(T, N * q, -1)
    both = [features_at(prior, units, place, flat) for place in range(len(running.groups))]
    gap = (time - running.time[:, None, None]) / units.clock[:, None, None]
    return Places(
        features=tuple(phi[..., :-1].reshape(T, N, q, -1) for phi, _ in both),
        residual=tuple(left.reshape(T, N, q) for _, left in both),
        gap=gap,
    )


def _wide(tensor: Tensor) -> Tensor:
    """`T x K -> T x 1 x 1 x K`."""
    return tensor[:, None, None, :]
