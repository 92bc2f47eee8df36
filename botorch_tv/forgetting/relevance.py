"""Removal of observations irrelevant to future predictions, by Wasserstein distance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.forgetting.base import Log, Retained, Retention
from botorch_tv.validation import require, require_number, settle_number, shown

AT_ONCE = 8
"""Maximum number of rows removed per round; checking for more would synchronise the device."""
FEWEST = 2
"""Number of rows that are never removed."""
NEAR = 1e-5
"""Scaled distances below it are this one, where a Matérn covariance is 1 to rounding."""


@dataclass(frozen=True)
class WassersteinRemoval(Retention):
    """Forget the observations that matter least to future predictions, as W-DBO does.

    The worth of an observation is the distance between the posteriors with and without it, relative
    to the distance between the posterior given all data and the prior. The distance is a bound on
    the 2-Wasserstein distance between predictions, (mean - mean')² + |var - var'|, integrated over
    the future t > now and over space [Bardou, Thiran, Ranieri, NeurIPS 2024]. With P = (K + N)⁻¹,
    w = P (y - mean), and C_ij the integral of k(x, x_i) k(x, x_j) over future and space, removing
    row i changes the weights by P_i w_i / P_ii and the inverse by P_i P_iᵀ / P_ii, so that

        worth_i² = (w_i² / P_ii² + 1 / P_ii) (P C P)_ii / (wᵀ C w + Σ P ∘ C).

    The budget b starts at 1 and grows by the factor (1 + alpha)^(Δt / l_T). After every round the
    row of least worth is removed while 1 + worth < b, and b is divided by 1 + worth. The objective
    is the Markov process of rate ε, in the paper's terms a Matérn-1/2 kernel of time with
    l_T = -2 / ln(1 - ε). Integrals are over unbounded space, as in the paper's closed forms; the
    authors' package caps them at 1, the volume of their domain. At most 8 rows are removed per
    round, and 2 are always kept. The memory holds Σ ln(1 + worth) of all rows removed,
    `batch_shape`, and which rows leave before the next choice, `batch_shape x n`, bool.

    Args:
        epsilon: Rate of change ε per unit of time, in (0, 1).
        lengthscale: The kernel's lengthscale, or one for each coordinate, positive.
        nu: Smoothness of a Matérn kernel, 0.5, 1.5 or 2.5; infinite for the squared exponential.
        variance: The kernel's variance.
        alpha: Growth rate of the budget per l_T, at least 0, which removes nothing; 0.25 in the
            authors' package.
        mean: Prior mean of the objective.

    Raises:
        ValueError: If a number is out of range.
    """

    epsilon: float
    lengthscale: float | tuple[float, ...]
    nu: float = math.inf
    variance: float = 1.0
    alpha: float = 0.25
    mean: float = 0.0

    def __post_init__(self) -> None:
        settle_number(self, "epsilon", "(0, 1)", "without drift nothing becomes worthless.")
        settle_number(self, "variance", "(0, inf)", "1 is usual.")
        settle_number(self, "alpha", "[0, 1e3]", "0.25 is usual.")
        settle_number(self, "mean", "(-inf, inf)", "0 is usual.")
        require(
            self.nu in (0.5, 1.5, 2.5, math.inf),
            f"WassersteinRemoval: nu is {shown(self.nu)}; choose 0.5, 1.5, 2.5 or math.inf.",
        )
        own = self.lengthscale
        for one in own if isinstance(own, tuple) else (own,):
            require_number("WassersteinRemoval: lengthscale", one, "(0, inf)", "it is a kernel's.")

    def init(self, batch_shape: Size) -> tuple[Tensor, Tensor]:
        none = torch.zeros((*batch_shape, 0), dtype=torch.bool, device="cpu")
        return torch.zeros(batch_shape, device="cpu"), none

    def keep(self, log: Log) -> Retained:
        _, leaves = log.memory
        settled = log.newest is not None or leaves.shape[-1] != log.time.shape[-1]
        if settled or (leaves.device.type == "cpu" and not bool(leaves.any())):
            return Retained()
        return Retained(rows=~leaves)

    def update(self, log: Log) -> tuple[Tensor, Tensor]:
        (P, w, live), together = self._regression(log), self.overlap(log)
        (spent, _), leaves = log.memory, torch.zeros_like(live)
        grown = self._decay * (log.now - log.first_time) * math.log1p(self.alpha)
        for _ in range(min(AT_ONCE, log.time.shape[-1] - FEWEST)):
            worth = _worth(P, w, live, together)
            least, row = worth.min(-1)
            cost = torch.log1p(least)
            goes = (cost < grown - spent) & (live.sum(-1) > FEWEST)
            if goes.device.type == "cpu" and not bool(goes.any()):
                break
            spent = torch.where(goes, spent + cost, spent)
            gone = torch.nn.functional.one_hot(row, worth.shape[-1]).bool() & goes.unsqueeze(-1)
            leaves = leaves | gone
            P, w, live = _without(P, w, live, row, goes, gone)
        return spent, leaves

    def worth(self, log: Log) -> Tensor:
        """How much each observation is worth, `batch_shape x n`; infinite where there is none."""
        return _worth(*self._regression(log), self.overlap(log))

    def overlap(self, log: Log) -> Tensor:
        """C but for a factor that is the same for all, `batch_shape x n x n`.

        In time it is ∫ exp(-r (t - t_i) - r (t - t_j)) dt over t > now, which is proportional to
        exp(-r (now - t_i) - r (now - t_j)), r = 1 / l_T.
        """
        faded = torch.exp(-self._decay * (log.now.unsqueeze(-1) - log.time)).to(log.y)
        in_space = self._space(log.X, convolved=True)
        return in_space * faded.unsqueeze(-1) * faded.unsqueeze(-2)

    @property
    def _decay(self) -> float:
        """1 / l_T."""
        return -0.5 * math.log1p(-self.epsilon)

    def _regression(self, log: Log) -> tuple[Tensor, Tensor, Tensor]:
        """P, w and which rows count, a regression on these alone; dead rows are zeros."""
        noise = log.noise
        live = noise.isfinite()
        apart = (log.time.unsqueeze(-1) - log.time.unsqueeze(-2)).abs()
        K = self.variance * self._space(log.X, convolved=False)
        K = K * torch.exp(-self._decay * apart).to(K)
        both = live.unsqueeze(-1) & live.unsqueeze(-2)
        K = K.masked_fill(~both, 0.0) + torch.diag_embed(torch.where(live, noise, 1.0))
        inverse = torch.cholesky_inverse(torch.linalg.cholesky_ex(K).L).masked_fill(~both, 0.0)
        y = torch.where(live, log.y - self.mean, 0.0)
        return inverse, (inverse @ y.unsqueeze(-1)).squeeze(-1), live

    def _space(self, X: Tensor, *, convolved: bool) -> Tensor:
        """The kernel of variance 1, or its convolution with itself but for a factor, `n x n`."""
        own = self.lengthscale
        if isinstance(own, tuple) and len(own) != X.shape[-1]:
            raise InputDataError(
                f"WassersteinRemoval: lengthscale is {own}, but points have {X.shape[-1]} columns; "
                "give one for each, or one for all."
            )
        # Numbers travel with an operation; a tensor of them would be copied, and waited for.
        scaled = (
            torch.stack([X[..., j] / one for j, one in enumerate(own)], -1)
            if isinstance(own, tuple)
            else X / own
        )
        squared = (scaled.unsqueeze(-2) - scaled.unsqueeze(-3)).square().sum(-1)
        if self.nu == math.inf:
            return torch.exp(-squared / (4 if convolved else 2))
        # The spectral density of a Matérn kernel, squared, is that of a smoother one.
        order = 2 * self.nu + X.shape[-1] / 2 if convolved else self.nu
        return matern(order, math.sqrt(2 * self.nu) * squared.sqrt())


def matern(order: float, x: Tensor) -> Tensor:
    """2^(1 - ν) / Γ(ν) x^ν K_ν(x), of a whole or half order ν >= 1/2, any shape."""
    x = x.clamp_min(NEAR)
    if order % 1 == 0.5:
        below = above = torch.sqrt(math.pi / (2 * x)) * torch.exp(-x)  # K_(-1/2) = K_(1/2)
        start = 0.5
    else:
        below = torch.special.modified_bessel_k0(x)
        above, start = torch.special.modified_bessel_k1(x), 1.0
    while start < order:
        below, above = above, below + 2 * start / x * above
        start += 1
    return torch.exp((1 - order) * math.log(2) - math.lgamma(order) + order * x.log()) * above


def _worth(P: Tensor, w: Tensor, live: Tensor, C: Tensor) -> Tensor:
    """What each row is worth, `batch_shape x n`; infinite where there is none."""
    own = torch.where(live, P.diagonal(dim1=-2, dim2=-1), 1.0)
    apart = ((w / own).square() + 1 / own) * ((P @ C) * P).sum(-1)
    known = ((w.unsqueeze(-2) @ C).squeeze(-2) * w).sum(-1) + (P * C).sum((-2, -1))
    return (apart / known.unsqueeze(-1)).clamp_min(0).sqrt().masked_fill(~live, math.inf)


def _without(
    P: Tensor, w: Tensor, live: Tensor, row: Tensor, goes: Tensor, gone: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The regression without one row of each trial in which a row is removed."""
    index = row.unsqueeze(-1)
    column = P.gather(-1, index.unsqueeze(-2).expand(*P.shape[:-1], 1)).squeeze(-1)
    own = torch.where(goes.unsqueeze(-1), column.gather(-1, index), 1.0)
    column = column * goes.unsqueeze(-1)
    P = P - column.unsqueeze(-1) * column.unsqueeze(-2) / own.unsqueeze(-1)
    w = w - column * w.gather(-1, index) / own
    live = live & ~gone
    return P.masked_fill(~(live.unsqueeze(-1) & live.unsqueeze(-2)), 0.0), w * live, live
