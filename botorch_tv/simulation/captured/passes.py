"""What of a captured round passes over all arms, or pairs of those held.

All else in a round is small, or a product of matrices.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.linalg import first_maximum
from botorch_tv.inference.scratch import Scratch


class Elapsed(NamedTuple):
    """What the passing of a round makes of what is known, each `trials`."""

    kept: Tensor
    """Factor on the mean."""
    square: Tensor
    """Factor on the variance."""
    grown: Tensor
    """Share of the prior variance that is added."""


class Passes:
    """Passes over the mean and the variance of some trials, which are written to.

    Args:
        mean: Less that of the prior, `trials x M`.
        variance: `trials x M`.
        prior: Prior variance, `M`.
        first: The same at the origin of time, `M`.
        sign: 1 where large values are good, -1 where small ones are.
        tie: Largest difference of two scores that tie.
    """

    def __init__(
        self,
        mean: Tensor,
        variance: Tensor,
        prior: Tensor,
        first: Tensor,
        *,
        sign: float,
        tie: float,
    ) -> None:
        self.mean, self.variance, self.prior, self.first = mean, variance, prior, first
        self.sign, self.tie = sign, tie
        self._scratch = Scratch()

    def choose(self, sqrt_beta: Tensor, elapsed: Elapsed | None) -> Tensor:
        """Let a round pass; then the first arm of those whose upper bound is highest.

        Args:
            sqrt_beta: Standard deviations that are added, `trials`, or `1` where it is that of all.
            elapsed: What the round makes of what is known; None for nothing.

        Returns:
            `trials`, int64.
        """
        if elapsed is not None:
            self.mean.mul_(elapsed.kept.unsqueeze(-1))
            self.variance.mul_(elapsed.square.unsqueeze(-1))
            self.variance.addcmul_(elapsed.grown.unsqueeze(-1), self.prior)
        score = self._scratch.take("score", self.mean.shape, self.mean)
        torch.clamp(self.variance, min=0, out=score).sqrt_()
        score.mul_(sqrt_beta.unsqueeze(-1))
        score.add_(self.mean, alpha=self.sign)
        return first_maximum(score, self.tie, self._scratch)

    def take_in(
        self, step: Tensor, surprise: Tensor, forgotten: Tensor | None, *, sign: int
    ) -> None:
        """Take in an observation, or leave one out again.

        Args:
            step: Posterior covariance of its arm with all arms, in units of its own standard
                deviation, `trials x M`.
            surprise: What the observation is off by, in the same units, `trials`.
            forgotten: Where nothing that came before is known any more, `trials`; None for nowhere.
            sign: -1 to leave it out.
        """
        if forgotten is not None:
            some = forgotten.unsqueeze(-1)
            self.mean.masked_fill_(some, 0)
            torch.where(some, self.first, self.variance, out=self.variance)
        self.mean.addcmul_(step, surprise.unsqueeze(-1), value=sign)
        self.variance.addcmul_(step, step, value=-sign)

    def absorb(
        self,
        inverse: Tensor,
        direction: Tensor,
        square: Tensor | None,
        *,
        sign: int,
    ) -> None:
        """Add ± the outer product of a direction to matrices that have shrunk, in their memory.

        Args:
            inverse: `trials x slots x slots`.
            direction: `trials x slots`.
            square: Factor on the matrices, `trials`; None for 1.
            sign: That of the product.
        """
        if square is not None:
            inverse.mul_(square[:, None, None])
        inverse.addcmul_(direction.unsqueeze(-1), direction.unsqueeze(-2), value=sign)
