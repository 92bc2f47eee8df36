"""The posterior of the mixture at future points, each with its own time.

Given the data, let the function g of a member have the mean z(x) = φ(x)ᵀ a and the covariance
s² P(x, x') = s² (k(x, x') - φ(x)ᵀ M φ(x')), and let its constant m have the mean z_m, the variance
s² P_mm and the covariance s² P_gm(x) with g. For two times τ and τ' >= τ after the newest
measurement,

    E g_τ = c(τ) z,   E g_τ m = c(τ) (s² P_gm + z z_m),
    E g_τ(x) g_τ'(x') = c(τ' - τ) [b(τ) (s² P + z zᵀ) + (1 - b(τ)) s² k](x, x'),

where c(τ) = (1 - h)^τ (1 - ε)^(τ/2) and b(τ) = (1 - h)^τ (1 - ε)^τ are the expected factors on a
function and on its square. All results are differentiable with respect to points and times.

At points with a common time, a sample is drawn in two steps: a member of the mixture, then a
function from the posterior of this member. Let u be independent standard normal variates, and let
g_1 and g_2 be independent functions: g_1 has the covariance P - v vᵀ / s², and g_2 the covariance
k. A sample of the constant m of a member, and of its function g at one time, is

    m = z_m + s √P_mm u_0,
    g = c (z + v u_0) + √b s g_1 + √(1 - b) s g_2 + √(b - c²) (z u_3 + v u_4),

with v = s P_gm / √P_mm. Samples from these formulas have the mean and covariance of the forecast,
up to the error of random Fourier features for g_1 and g_2, and are smooth in X and time. In the
formulas, the scale s² is replaced by its mean.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.gp.mixture.bank import BankPrior
from botorch_tv.gp.mixture.posterior import root_of
from botorch_tv.gp.mixture.running import RunningMixture
from botorch_tv.gp.mixture.span import FREQUENCIES, gaussian, waves

COMMON = 4
"""Number of normal variates for the member and for u_0, u_3 and u_4."""
SMALLEST = 1e-10
"""Lower limit of P_mm."""


class Places(NamedTuple):
    """N sets of q points of T trials, each point with its time."""

    U: Tensor
    """Points of the unit cube, `T x N x q x d`."""
    phi: Tensor
    """Coordinates in the span of the measured points, `T x L x N x q x n`."""
    gap: Tensor
    """The time since the newest measurement in units of the clock, at least 0, `T x N x q`."""


class Forecast:
    """The mixture of L lengthscales with K members each, P pairs of rate and hazard, and T trials.

    Args:
        prior: The prior of the candidate processes on a box.
        running: The posterior of the candidate processes in T trials.

    Attributes:
        weight: Weights of the members, `T x L x K`.
        scale: Mean scale E s² of the members, `T x L x K`.
        totals: For each lengthscale and each pair of rate and hazard, the sum of w s² M over the
            members with this pair, where w is the weight of a member;
            `T x L x P x (n + 1) x (n + 1)`, with the constant first.
        worth: For each lengthscale and each pair of rate and hazard, the sum of w s² over the
            members with this pair, `T x L x P`, where w is the weight of a member.
        pair: For each member, the index of its pair (rate, hazard), `K`, int64.
        first: For each pair of rate ε and hazard h, -ln c(1) = -ln(1 - h) - ln(1 - ε) / 2, `P`.
        second: For each pair of rate ε and hazard h, -ln b(1) = -ln(1 - h) - ln(1 - ε), `P`.
        jumps: For each pair of rate ε and hazard h, -ln(1 - h), `P`.
        normals: Number of normal variates of a sample.
    """

    def __init__(self, prior: BankPrior, running: RunningMixture) -> None:
        self.prior, self.running = prior, running
        self.weight, self.scale = running.now.weights, running.now.variances
        both = torch.stack([prior.rate, prior.hazard], -1)
        pairs, self.pair = torch.unique(both, dim=0, return_inverse=True)
        number = torch.arange(len(pairs), device=both.device)
        of_pair = self.pair == number[:, None]
        by_pair = of_pair * (self.weight * self.scale).unsqueeze(-2)  # T x L x P x K
        self.totals = running.total(by_pair, by_pair, by_pair)
        self.worth = by_pair.sum(-1)
        lasts, stay = torch.log1p(-pairs).unbind(-1)
        self.first, self.second, self.jumps = -(stay + 0.5 * lasts), -(stay + lasts), -stay
        self._slots, self._lengthscales = prior.slots, prior.lengthscales.unsqueeze(1)
        self.normals = COMMON + self._slots + 4 * FREQUENCIES
        self._drawn: dict[tuple[int, ...], tuple[Tensor, Tensor, Tensor]] = {}

    def places(self, X: Tensor, time: Tensor) -> Places:
        """Convert points and times to ``Places``, which the other methods take as ``at``.

        Args:
            X: Points, `T x N x q x (d + c)`.
            time: Times, no earlier than the newest measurement, `T x N x q`.
        """
        T, N, q, _ = X.shape
        units, running = self.running.units, self.running
        U = self.prior.at(X.reshape(T, N * q, -1), units).view(T, N, q, -1)
        phi = running.now.span.at(U.view(T, 1, N * q, -1), self.prior.lengthscales)
        gap = (time - running.now.time[:, None, None]) / units.clock[:, None, None]
        return Places(U, phi.view(*phi.shape[:2], N, q, -1), gap)

    def mean(self, at: Places) -> Tensor:
        """The mean, `T x N x q`."""
        return self._mixed([own for own, _ in self._means(at)])

    def variance(self, at: Places) -> Tensor:
        """The variance, `T x N x q`."""
        return self._spread(at, at.gap, torch.zeros_like(at.gap), joint=False)

    def covariance(self, at: Places) -> Tensor:
        """The covariance within each set, `T x N x q x q`."""
        rows, columns = at.gap.unsqueeze(-1), at.gap.unsqueeze(-2)
        earlier, between = torch.minimum(rows, columns), (rows - columns).abs()
        return self._spread(at, earlier, between, joint=True)

    def remaining(self, gap: Tensor) -> tuple[Tensor, Tensor]:
        """The factors c and b for all pairs of rate and hazard, `T x N x q x P` each."""
        wide = gap.unsqueeze(-1)
        return torch.exp(-self.first * wide), torch.exp(-self.second * wide)

    def jumped(self, gap: Tensor) -> Tensor:
        """The value b - c² for each pair of rate and hazard, `T x N x q x P`.

        Jumps add b - c² times the squared mean to the variance.
        """
        wide = gap.unsqueeze(-1)
        return torch.exp(-self.second * wide) * -torch.expm1(-self.jumps * wide)

    def _spread(self, at: Places, earlier: Tensor, between: Tensor, *, joint: bool) -> Tensor:
        """Variances, `T x N x q`, or covariances, `T x N x q x q`.

        Args:
            at: Points and times.
            earlier: The earlier of the two points' times, in the shape of the result.
            between: The time between the two points, in the shape of the result.
            joint: Whether to compute covariances.
        """

        def inner(first: Tensor, second: Tensor) -> Tensor:
            return first @ second.mT if joint else (first * second).sum(-1)

        (c, _), means, total = self.remaining(at.gap), self._means(at), torch.zeros_like(earlier)
        mean = self._mixed([own for own, _ in means])
        for number, phi in enumerate(at.phi.unbind(1)):
            own, static = means[number]
            weight = _wide(self.weight[:, number])
            spatial = gaussian(at.U, at.U, self._lengthscales[number]) if joint else 1.0
            for pair, whole in enumerate(self.totals[:, number].unbind(1)):
                lasts = torch.exp(-self.first[pair] * between)
                b = torch.exp(-self.second[pair] * earlier)
                block, edge = whole[:, None, 1:, 1:], whole[:, None, 1:, :1]
                corner, worth = (
                    part.view(-1, *[1] * (earlier.dim() - 1))
                    for part in (whole[:, 0, 0], self.worth[:, number, pair])
                )
                beside = c[..., pair] * (phi @ edge).squeeze(-1)
                rows, columns = beside, beside
                if joint:
                    rows, columns = beside.unsqueeze(-1), beside.unsqueeze(-2)
                moved = lasts * (worth * spatial - b * inner(phi @ block, phi))
                jumped = lasts * b * -torch.expm1(-self.jumps[pair] * earlier)
                these = static * (weight * (self.pair == pair))
                total = total + moved - rows - columns + worth - corner
                total = total + jumped * inner(these, static)
            apart = own - mean.unsqueeze(-1)
            total = total + inner(apart * weight, apart)
        return total

    def _mixed(self, means: list[Tensor]) -> Tensor:
        """The mean of the mixture, `T x N x q`, from the members' means per lengthscale."""
        weights = self.weight.unbind(-2)
        return torch.stack([(_wide(w) * own).sum(-1) for w, own in zip(weights, means)]).sum(0)

    def _means(self, at: Places) -> list[tuple[Tensor, Tensor]]:
        """Per lengthscale, members' means, and means without decay and without the constant.

        Both tensors of a lengthscale are `T x N x q x K`.
        """
        c, _ = self.remaining(at.gap)
        found = []
        for mean, phi in zip(self.running.now.mean.unbind(1), at.phi.unbind(1)):
            static = phi @ mean[..., 1:].mT.unsqueeze(1)
            found.append((c[..., self.pair] * static + _wide(mean[..., 0]), static))
        return found

    def model_noise(self) -> Tensor:
        """Variance of a new observation's noise, `T`."""
        return (self.weight * self.scale * self.prior.noise).sum((-2, -1))

    def functions(self, normal: Tensor, at: Places, *, noise: bool) -> tuple[Tensor, Tensor]:
        """Two results, `T x N x q x M` each: values of M sampled functions; and noise variances.

        Args:
            normal: Standard normal variates, `T x N' x M x normals`; N' is N, or 1 if all sets
                share samples.
            at: Points and times.
            noise: Whether to add the noise variance of a new observation.
        """
        (T, sets, M, _), now = normal.shape, self.running.now
        (_, N, q), K = at.gap.shape, self.weight.shape[-1]
        flat = normal.reshape(T, sets * M, -1)
        cumulative = self.weight.flatten(-2).cumsum(-1)
        uniform = torch.special.ndtr(flat[..., 0]) * cumulative[:, -1:]
        # The first member whose cumulative weight reaches the uniform number.
        number = torch.searchsorted(cumulative, uniform.contiguous())
        number = number.clamp_max(cumulative.shape[-1] - 1)
        place, member = number // K, number % K
        trial = torch.arange(T, device=number.device).unsqueeze(-1).expand_as(number)
        # In g, the factors c, √b, √(1 - b) and √(b - c²) multiply four functions, whose coordinates
        # are those in the span, padded with zeros, and weights of random Fourier features.
        size, F = self._slots, 2 * FREQUENCIES
        vectors = flat.new_zeros(*number.shape, 4, size + F)
        constant = flat.new_zeros(number.shape)
        pairs = torch.unique(torch.stack([trial, number], -1).flatten(0, 1), dim=0)
        for n, pick in pairs.tolist():
            l, k = pick // K, pick % K
            here = ((trial == n) & (number == pick)).nonzero(as_tuple=True)
            u, s = flat[here], self.scale[n, l, k].sqrt()
            z, (spread, v, root) = now.mean[n, l, k], self._root(n, l, k)
            v, slots = s * v, len(v)
            ends = [COMMON, COMMON + slots, COMMON + size, COMMON + size + F]
            own, first, second = u[:, slice(*ends[:2])], u[:, slice(*ends[2:])], u[:, ends[3] :]
            before = waves(now.span.points[n, l], self._lengthscales[l, 0])
            corrected = own @ root.mT - (first @ before.mT) @ now.span.root[n, l].mT
            nothing = u.new_zeros(len(u), F)
            parts = [
                torch.cat([_padded(z[1:] + u[:, 1:2] * v, size), nothing], -1),
                torch.cat([_padded(s * corrected, size), s * first], -1),
                torch.cat([u.new_zeros(len(u), size), s * second], -1),
                torch.cat([_padded(u[:, 2:3] * z[1:] + u[:, 3:4] * v, size), nothing], -1),
            ]
            vectors[here] = torch.stack(parts, 1)
            constant[here] = z[0] + s * spread * u[:, 1]
        vectors = vectors.view(T, sets, M, 4, size + F).movedim(3, 2)
        every = (constant, place, self.pair[member], self.scale[trial, place, member])
        total, lengthscale, pair, scale = (part.view(T, sets, 1, M) for part in every)
        c, b = self.remaining(at.gap)
        fresh = -torch.expm1(-self.second * at.gap.unsqueeze(-1))
        factors = torch.stack([c, _root(b), _root(fresh), _root(self.jumped(at.gap))], -2)
        own = factors.gather(-1, pair.unsqueeze(-2).expand(T, N, q, 4, M))
        total = total.expand(T, N, q, M)
        for n, phi in enumerate(at.phi.unbind(1)):
            mine = (lengthscale == n).flatten(0, 2).any(0)
            if not bool(mine.any()):
                continue
            wave, some = waves(at.U, self._lengthscales[n]), vectors[..., mine, :]
            phi = torch.cat([_padded(phi, size), wave], -1)
            if sets == 1:  # one product suffices, because all N sets of points share samples
                value = phi.reshape(T, N * q, -1) @ some.flatten(1, 3).mT
            else:
                value = phi @ some.flatten(2, 3).mT
            value = (own[..., mine] * value.view(T, N, q, 4, -1)).sum(-2)
            value = torch.where((lengthscale == n)[..., mine], value, 0.0)
            total = total.index_add(-1, mine.nonzero().squeeze(-1), value)
        variance = noise * self.prior.noise[member].view(T, sets, 1, M) * scale
        return total, variance.expand_as(total)

    def _root(self, *key: int) -> tuple[Tensor, Tensor, Tensor]:
        """Three results for a member, given the indices of its trial, lengthscale and history.

        They are √P_mm, the coordinates of v / s, and a root of the covariance of g_1's coordinates.
        """
        if key not in self._drawn:
            at = torch.tensor(key, device=self.weight.device).unsqueeze(-1)
            M = self.running.matrix(*at)
            spread = (1 - M[0, 0, 0]).clamp_min(SMALLEST).sqrt()
            v = -M[0, 1:, 0] / spread
            M[0, 1:, 1:] += v.unsqueeze(-1) * v
            M[0, 0], M[0, :, 0] = 0.0, 0.0
            self._drawn[key] = spread, v, root_of(M)[0, 1:, 1:]
        return self._drawn[key]


def _padded(rows: Tensor, size: int) -> Tensor:
    """Rows with zeros appended, `* x n -> * x size`."""
    return torch.nn.functional.pad(rows, (0, size - rows.shape[-1]))


def _wide(tensor: Tensor) -> Tensor:
    """Insert two dimensions of size 1, `T x K -> T x 1 x 1 x K`."""
    return tensor[:, None, None, :]


def _root(value: Tensor) -> Tensor:
    """Square root; 0 with derivative 0 for values that are not positive."""
    positive = value > 0
    return torch.where(positive, torch.where(positive, value, 1.0).sqrt(), 0.0)
