"""The posterior of the mixture at future points, each with its own time.

Given the data, let the weights θ and the constant m of a member have mean (z, z_m) and covariance
s² P. For two times τ and τ' >= τ after the newest measurement,

    E θ_τ = c(τ) z,   E θ_τ m = c(τ) (s² P_θm + z z_m),
    E θ_τ θ_τ'ᵀ = c(τ' - τ) [b(τ) (s² P_θθ + z zᵀ) + (1 - b(τ)) s² I],

where c(τ) = (1 - h)^τ (1 - ε)^(τ/2) and b(τ) = (1 - h)^τ (1 - ε)^τ are the expected factors on a
function and on its square. All results are differentiable with respect to points and times.

At points with a common time, a sample is drawn in two steps: a member of the mixture, then a
function from the posterior of this member. Let u be independent standard normal variates. A sample
of the constant m of a member, and of its weights θ at one time, is

    m = z_m + s √P_mm u_0,
    θ = c (z + v u_0) + √b s L u_1 + √(1 - b) s u_2 + √(b - c²) (z u_3 + v u_4),

with v = s P_θm / √P_mm and L Lᵀ = P_θθ - v vᵀ / s². Samples from these formulas have the mean and
covariance of the forecast, and are smooth in X and time. In the formulas, the scale s² is replaced
by its mean.
"""

from __future__ import annotations

import torch
from torch import Tensor

from botorch_tv.gp.mixture.bank import BankPrior
from botorch_tv.gp.mixture.filter import RunningMixture

COMMON = 4
"""Number of normal variates for the member and for u_0, u_3 and u_4."""
JITTER = 1e-10
"""Number added to the diagonal of a covariance before a factorisation, because many measurements
make the covariance singular up to rounding."""


Places = tuple[list[tuple[Tensor, Tensor]], Tensor]
"""N sets of q points of T trials: per lengthscale the features without the constant,
`T x N x q x r`, and the prior variance that these features do not represent, `T x N x q`; and the
time since the newest measurement in units of the clock, at least 0, `T x N x q`."""


class Forecast:
    """The mixture of L lengthscales with K members each, P pairs of rate and hazard, and T trials.

    Args:
        prior: The prior of the candidate processes on a box.
        running: The posterior of the candidate processes in T trials.

    Attributes:
        weight: Weights of the members, `T x L x K`.
        scale: Mean scale E s² of the members, `T x L x K`.
        totals: For each lengthscale and each pair of rate and hazard, the sum of w s² P over the
            members with this pair, where w is the weight of a member; per lengthscale
            `T x P x (r + 1) x (r + 1)`.
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
        self.weight, self.scale = running.weights, running.variances
        both = torch.stack([prior.rate, prior.hazard], -1)
        pairs, self.pair = torch.unique(both, dim=0, return_inverse=True)
        number = torch.arange(len(pairs), device=both.device)
        of_pair = self.pair == number[:, None]
        by_pair = of_pair * (self.weight * self.scale).unsqueeze(-2)  # T x L x P x K
        self.totals = [
            (own @ P.flatten(-2)).view(*own.shape[:2], *P.shape[-2:])
            for own, P in zip(by_pair.unbind(1), running.covariance)
        ]
        self.worth = by_pair.sum(-1)
        lasts, stay = torch.log1p(-pairs).unbind(-1)
        self.first, self.second, self.jumps = -(stay + 0.5 * lasts), -(stay + lasts), -stay
        self.normals = COMMON + 2 * max(part.shape[-1] - 1 for part in running.mean)
        self._roots: dict[tuple[int, int, int], Tensor] = {}

    def places(self, X: Tensor, time: Tensor) -> Places:
        """Convert points and times to ``Places``, which the other methods take as ``at``.

        Args:
            X: Points, `T x N x q x (d + c)`.
            time: Times, no earlier than the newest measurement, `T x N x q`.
        """
        T, N, q, _ = X.shape
        units, flat = self.running.units, X.reshape(T, N * q, -1)
        both = self.prior.at(flat, units.context_centre, units.context_spread)
        gap = (time - self.running.time[:, None, None]) / units.clock[:, None, None]
        return [
            (phi[..., :-1].reshape(T, N, q, -1), missing.reshape(T, N, q)) for phi, missing in both
        ], gap

    def mean(self, at: Places) -> Tensor:
        """The mean, `T x N x q`."""
        return self._mixed([own for own, _ in self._means(at)])

    def variance(self, at: Places) -> Tensor:
        """The variance, `T x N x q`."""
        return self._spread(at, at[1], torch.zeros_like(at[1]), joint=False)

    def covariance(self, at: Places) -> Tensor:
        """The covariance within each set, `T x N x q x q`."""
        rows, columns = at[1].unsqueeze(-1), at[1].unsqueeze(-2)
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

        (c, _), means, total = self.remaining(at[1]), self._means(at), torch.zeros_like(earlier)
        mean = self._mixed([own for own, _ in means])
        for number, (phi, residual) in enumerate(at[0]):
            own, static = means[number]
            weight, square = _wide(self.weight[:, number]), inner(phi, phi)
            for pair, whole in enumerate(self.totals[number].unbind(1)):
                lasts = torch.exp(-self.first[pair] * between)
                b = torch.exp(-self.second[pair] * earlier)
                block, edge = whole[:, None, :-1, :-1], whole[:, None, :-1, -1:]
                corner, worth = (
                    part.view(-1, *[1] * (earlier.dim() - 1))
                    for part in (whole[:, -1, -1], self.worth[:, number, pair])
                )
                beside = c[..., pair] * (phi @ edge).squeeze(-1)
                rows, columns = beside, beside
                if joint:
                    rows, columns = beside.unsqueeze(-1), beside.unsqueeze(-2)
                moved = lasts * (b * inner(phi @ block, phi) + (1 - b) * worth * square)
                jumped = lasts * b * -torch.expm1(-self.jumps[pair] * earlier)
                these = static * (weight * (self.pair == pair))
                total = total + moved + rows + columns + corner + jumped * inner(these, static)
            apart = own - mean.unsqueeze(-1)
            total = total + inner(apart * weight, apart)
            missing = self.worth[:, number].sum(-1)[:, None, None] * residual
            total = total + (torch.diag_embed(missing) if joint else missing)
        return total

    def _mixed(self, means: list[Tensor]) -> Tensor:
        """The mean of the mixture, `T x N x q`, from the members' means per lengthscale."""
        weights = self.weight.unbind(-2)
        return torch.stack([(_wide(w) * own).sum(-1) for w, own in zip(weights, means)]).sum(0)

    def _means(self, at: Places) -> list[tuple[Tensor, Tensor]]:
        """Per lengthscale, members' means, and means without decay and without the constant.

        Both tensors of a lengthscale are `T x N x q x K`.
        """
        c, _ = self.remaining(at[1])
        found = []
        for mean, (phi, _) in zip(self.running.mean, at[0]):
            static = phi @ mean[..., :-1].mT.unsqueeze(1)
            found.append((c[..., self.pair] * static + _wide(mean[..., -1]), static))
        return found

    def model_noise(self) -> Tensor:
        """Variance of a new observation's noise, `T`."""
        return (self.weight * self.scale * self.prior.noise).sum((-2, -1))

    def functions(self, normal: Tensor, at: Places, *, noise: bool) -> tuple[Tensor, Tensor]:
        """Two results, `T x N x q x M` each: values of M sampled functions; and noise variances.

        The noise represents the prior variance that the features do not represent and, if ``noise``
        is True, the noise of a new observation.

        Args:
            normal: Standard normal variates, `T x N' x M x normals`; N' is N, or 1 if all sets
                share samples.
            at: Points and times.
            noise: Whether to add the noise variance of a new observation.
        """
        T, sets, M, _ = normal.shape
        features, gap = at
        (_, N, q), K = gap.shape, self.weight.shape[-1]
        flat = normal.reshape(T, sets * M, -1)
        cumulative = self.weight.flatten(-2).cumsum(-1)
        uniform = torch.special.ndtr(flat[..., 0]) * cumulative[:, -1:]
        # The first member whose cumulative weight reaches the uniform number.
        number = torch.searchsorted(cumulative, uniform.contiguous())
        number = number.clamp_max(cumulative.shape[-1] - 1)
        place, member = number // K, number % K
        trial = torch.arange(T, device=number.device).unsqueeze(-1).expand_as(number)
        # In θ, the factors c, √b, √(1 - b) and √(b - c²) multiply four vectors, padded with zeros.
        size = (self.normals - COMMON) // 2
        vectors = flat.new_zeros(*number.shape, 4, size)
        constant = flat.new_zeros(number.shape)
        pairs = torch.unique(torch.stack([trial, number], -1).flatten(0, 1), dim=0)
        for n, pick in pairs.tolist():
            k = pick % K
            here = ((trial == n) & (number == pick)).nonzero(as_tuple=True)
            u, s = flat[here], self.scale[n, pick // K, k].sqrt()
            whole = self.running.mean[pick // K]
            z, level = whole[n, k, :-1], whole[n, k, -1]
            r, column = len(z), self.running.covariance[pick // K][n, k, :, -1]
            spread = column[-1].clamp_min(JITTER).sqrt()
            v = s * column[:-1] / spread
            first, second = u[:, COMMON : COMMON + r], u[:, COMMON + r : COMMON + 2 * r]
            parts = [
                z + u[:, 1:2] * v,
                s * first @ self._root(pick // K, n, k).mT,
                s * second,
                u[:, 2:3] * z + u[:, 3:4] * v,
            ]
            vectors[here] = torch.nn.functional.pad(torch.stack(parts, 1), (0, size - r))
            constant[here] = level + s * spread * u[:, 1]
        vectors = vectors.view(T, sets, M, 4, size).movedim(3, 2)
        every = (constant, place, self.pair[member], self.scale[trial, place, member])
        total, lengthscale, pair, scale = (part.view(T, sets, 1, M) for part in every)
        c, b = self.remaining(gap)
        fresh = -torch.expm1(-self.second * gap.unsqueeze(-1))
        factors = torch.stack([c, _root(b), _root(fresh), _root(self.jumped(gap))], -2)
        own = factors.gather(-1, pair.unsqueeze(-2).expand(T, N, q, 4, M))
        total = total.expand(T, N, q, M)
        for n, (phi, _) in enumerate(features):
            mine = (lengthscale == n).flatten(0, 2).any(0)
            some = vectors[..., mine, : phi.shape[-1]]
            if sets == 1:  # one product suffices, because all N sets of points share samples
                value = phi.reshape(T, N * q, -1) @ some.flatten(1, 3).mT
            else:
                value = phi @ some.flatten(2, 3).mT
            value = (own[..., mine] * value.view(T, N, q, 4, -1)).sum(-2)
            value = torch.where((lengthscale == n)[..., mine], value, 0.0)
            total = total.index_add(-1, mine.nonzero().squeeze(-1), value)
        residual = torch.stack([missing for _, missing in features], -1)
        variance = residual.gather(-1, lengthscale.expand(T, N, q, M)) * scale
        return total, variance + noise * self.prior.noise[member].view(T, sets, 1, M) * scale

    def _root(self, place: int, trial: int, member: int) -> Tensor:
        """The Cholesky factor L of P_θθ - v vᵀ / s² for a member."""
        key = place, trial, member
        if key not in self._roots:
            P = self.running.covariance[place][trial, member]
            edge = P[:-1, -1] / P[-1, -1].clamp_min(JITTER).sqrt()
            rest = P[:-1, :-1] - edge.unsqueeze(-1) * edge
            rest = rest + JITTER * torch.eye(len(rest), dtype=rest.dtype, device=rest.device)
            self._roots[key] = torch.linalg.cholesky(rest)
        return self._roots[key]


def _wide(tensor: Tensor) -> Tensor:
    """Insert two dimensions of size 1, `T x K -> T x 1 x 1 x K`."""
    return tensor[:, None, None, :]


def _root(value: Tensor) -> Tensor:
    """Square root; 0 with derivative 0 for values that are not positive."""
    positive = value > 0
    return torch.where(positive, torch.where(positive, value, 1.0).sqrt(), 0.0)
