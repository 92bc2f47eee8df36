"""Removal of observations whose effect on future predictions is small in Wasserstein distance."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from botorch.exceptions import InputDataError
from torch import Size, Tensor

from botorch_tv.forgetting.base import Log, Retained, Retention
from botorch_tv.validation import require, require_number, settle_number, shown

AT_ONCE = 8
"""Maximum number of rows removed per round. The limit is fixed, because a GPU must synchronise
before a limit that depends on the data can be read."""
FEWEST = 2
"""Minimum number of rows retained."""
NEAR = 1e-5
"""Smallest scaled distance at which a Matérn covariance is computed; the result rounds to 1.

Smaller distances are replaced by this distance.
"""


@dataclass(frozen=True)
class WassersteinRemoval(Retention):
    """Forget the observations that matter least to future predictions, as W-DBO does.

    The worth of an observation is a ratio of two distances: the distance between the posteriors
    with and without the observation, divided by the distance between the posterior and the prior.
    The squared distance between two Gaussian processes is (mean - mean')² + |var - var'|,
    integrated over the future t > now and over space. This integral is an upper bound on the
    squared 2-Wasserstein distance between predictions [Bardou, Thiran, Ranieri, NeurIPS 2024].

    Let K be the covariance matrix of the observations, N the diagonal matrix of their noise
    variances, P = (K + N)⁻¹, w = P (y - mean), and C_ij the integral of k(x, x_i) k(x, x_j) over
    future and space. Let P_i be the i-th column of P. If observation i is removed, the vector w
    changes by P_i w_i / P_ii, and the matrix P changes by P_i P_iᵀ / P_ii. Hence

        worth_i² = (w_i² / P_ii² + 1 / P_ii) (P C P)_ii / (wᵀ C w + Σ_ij P_ij C_ij).

    A budget, which starts at 1, limits the removals. During every time interval of length
    l_T = -2 / ln(1 - ε), the budget grows by the factor 1 + alpha. If the least worth of all
    observations is below the budget minus 1 after a round, the observation with this worth is
    removed, and the budget is divided by 1 + worth. Removals are repeated until the least worth is
    at least the budget minus 1. At most 8 rows are removed per round, and at least 2 rows remain.

    The objective is assumed to be a Markov process with rate of change ε. The paper describes the
    Markov process by a Matérn-1/2 kernel of time with lengthscale l_T. The integrals are over
    unbounded space, as in the paper's closed forms; the authors' package limits each integral to 1,
    the volume of their domain.

    The memory consists of two tensors: the sum of ln(1 + worth) over all removed rows,
    `batch_shape`, and a mask of the rows to remove before the next choice, `batch_shape x n`, bool.

    Args:
        epsilon: Rate of change ε per unit of time, in (0, 1).
        lengthscale: The kernel's lengthscale, positive; a number, or a tuple with a number per
            column.
        nu: Smoothness of a Matérn kernel, 0.5, 1.5 or 2.5; infinite for the squared exponential.
        variance: The kernel's variance.
        alpha: Relative growth of the budget, at least 0, during each time interval of length
            l_T = -2 / ln(1 - ε). With alpha = 0, no observation is removed. The default 0.25 is the
            value in the authors' package.
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
        settle_number(self, "epsilon", "(0, 1)", "on a static objective, no data become obsolete.")
        settle_number(self, "variance", "(0, inf)", "1 is usual.")
        settle_number(self, "alpha", "[0, 1e3]", "0.25 is usual.")
        settle_number(self, "mean", "(-inf, inf)", "0 is usual.")
        require(
            self.nu in (0.5, 1.5, 2.5, math.inf),
            f"WassersteinRemoval: nu is {shown(self.nu)}; choose 0.5, 1.5, 2.5 or math.inf.",
        )
        lengthscale = self.lengthscale
        for each in lengthscale if isinstance(lengthscale, tuple) else (lengthscale,):
            require_number("WassersteinRemoval: lengthscale", each, "(0, inf)", "use the kernel's.")

    def init(self, batch_shape: Size) -> tuple[Tensor, Tensor]:
        none = torch.zeros((*batch_shape, 0), dtype=torch.bool, device="cpu")
        return torch.zeros(batch_shape, device="cpu"), none

    def keep(self, log: Log) -> Retained:
        _, removed = log.memory
        settled = log.newest is not None or removed.shape[-1] != log.time.shape[-1]
        if settled or (removed.device.type == "cpu" and not bool(removed.any())):
            return Retained()
        return Retained(rows=~removed)

    def update(self, log: Log) -> tuple[Tensor, Tensor]:
        (P, w, live), together = self._regression(log), self.overlap(log)
        (spent, _), removed = log.memory, torch.zeros_like(live)
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
            removed = removed | gone
            P, w, live = _without(P, w, live, row, goes, gone)
        return spent, removed

    def worth(self, log: Log) -> Tensor:
        """The worth of each row, `batch_shape x n`; infinite for failed or dropped rows.

        Args:
            log: The log, including the newest observation.
        """
        return _worth(*self._regression(log), self.overlap(log))

    def overlap(self, log: Log) -> Tensor:
        """The matrix C of integrals, up to a common factor, `batch_shape x n x n`.

        The integral over time, ∫ exp(-r (t - t_i) - r (t - t_j)) dt over t > now, is proportional
        to exp(-r (now - t_i) - r (now - t_j)), with r = 1 / l_T.

        Args:
            log: The log, including the newest observation.
        """
        faded = torch.exp(-self._decay * (log.now.unsqueeze(-1) - log.time)).to(log.y)
        in_space = self._space(log.X, convolved=True)
        return in_space * faded.unsqueeze(-1) * faded.unsqueeze(-2)

    @property
    def _decay(self) -> float:
        """The rate 1 / l_T."""
        return -0.5 * math.log1p(-self.epsilon)

    def _regression(self, log: Log) -> tuple[Tensor, Tensor, Tensor]:
        """P, w, and a mask of the rows with finite noise; all other rows of P and w are zero."""
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
        """Matrix of the kernel of variance 1, or of its scaled self-convolution, `n x n`."""
        lengthscale = self.lengthscale
        if isinstance(lengthscale, tuple) and len(lengthscale) != X.shape[-1]:
            raise InputDataError(
                f"WassersteinRemoval: lengthscale is {lengthscale}, but points have {X.shape[-1]} "
                "columns; give one number per column, or a single number."
            )
        # The lengthscales stay numbers, because copying a tensor to a GPU would synchronise the
        # GPU.
        scaled = (
            torch.stack([X[..., j] / value for j, value in enumerate(lengthscale)], -1)
            if isinstance(lengthscale, tuple)
            else X / lengthscale
        )
        squared = (scaled.unsqueeze(-2) - scaled.unsqueeze(-3)).square().sum(-1)
        if self.nu == math.inf:
            return torch.exp(-squared / (4 if convolved else 2))
        # The squared spectral density of a Matérn kernel belongs to a smoother Matérn kernel.
        order = 2 * self.nu + X.shape[-1] / 2 if convolved else self.nu
        return matern(order, math.sqrt(2 * self.nu) * squared.sqrt())


def matern(order: float, x: Tensor) -> Tensor:
    """2^(1 - ν) / Γ(ν) x^ν K_ν(x) for an integer or half-integer order ν >= 1/2, shape of ``x``."""
    x = x.clamp_min(NEAR)
    if order % 1 == 0.5:
        below = above = torch.sqrt(math.pi / (2 * x)) * torch.exp(-x)  # K_(-1/2) equals K_(1/2)
        start = 0.5
    else:
        below = torch.special.modified_bessel_k0(x)
        above, start = torch.special.modified_bessel_k1(x), 1.0
    while start < order:
        below, above = above, below + 2 * start / x * above
        start += 1
    return torch.exp((1 - order) * math.log(2) - math.lgamma(order) + order * x.log()) * above


def _worth(P: Tensor, w: Tensor, live: Tensor, C: Tensor) -> Tensor:
    """The worth of each row, `batch_shape x n`; infinite for rows that are not ``live``."""
    own = torch.where(live, P.diagonal(dim1=-2, dim2=-1), 1.0)
    apart = ((w / own).square() + 1 / own) * ((P @ C) * P).sum(-1)
    whole = ((w.unsqueeze(-2) @ C).squeeze(-2) * w).sum(-1) + (P * C).sum((-2, -1))
    return (apart / whole.unsqueeze(-1)).clamp_min(0).sqrt().masked_fill(~live, math.inf)


def _without(
    P: Tensor, w: Tensor, live: Tensor, row: Tensor, goes: Tensor, gone: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """P, w and ``live`` after the removal of at most one row per trial."""
    index = row.unsqueeze(-1)
    column = P.gather(-1, index.unsqueeze(-2).expand(*P.shape[:-1], 1)).squeeze(-1)
    own = torch.where(goes.unsqueeze(-1), column.gather(-1, index), 1.0)
    column = column * goes.unsqueeze(-1)
    P = P - column.unsqueeze(-1) * column.unsqueeze(-2) / own.unsqueeze(-1)
    w = w - column * w.gather(-1, index) / own
    live = live & ~gone
    return P.masked_fill(~(live.unsqueeze(-1) & live.unsqueeze(-2)), 0.0), w * live, live
