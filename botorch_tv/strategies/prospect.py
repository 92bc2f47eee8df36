"""What is predicted at candidate points of a box, as an exploration sees it."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from botorch_tv.acquisition.exploration import Outlook
from botorch_tv.inference.point_posterior import PointPosterior
from botorch_tv.inference.scratch import Scratch


@dataclass(frozen=True)
class Prospect:
    """All that scores of candidates depend on; trials are flattened to one dimension.

    Attributes:
        posterior: Of each trial.
        sign: 1 where the largest value is wanted, -1 where the smallest is.
        scale: Prior standard deviation.
        multiplier: √beta, a number or `trials`.
        incumbent: Best posterior mean among points observed, under the context of now, `trials`;
            None where not needed.
        context: What is known before the choice, `trials x c`; None where nothing is.
    """

    posterior: PointPosterior
    sign: int
    scale: float
    multiplier: float | Tensor
    incumbent: Tensor | None
    context: Tensor | None

    def at(self, X: Tensor) -> Candidate:
        """Predictions at points, `trials x q x d`."""
        return Candidate(self, with_context(X, self.context))

    def mean_at(self, X: Tensor) -> Tensor:
        """How good the mean alone is at points, `trials x q x d -> trials x q`."""
        return self.sign * self.posterior.mean_at(with_context(X, self.context))

    def select(self, trials: Tensor) -> Prospect:
        """That of some trials."""

        def some(part: Tensor | None) -> Tensor | None:
            return None if part is None else part[trials]

        multiplier = self.multiplier
        return replace(
            self,
            posterior=self.posterior.select(trials),
            multiplier=multiplier[trials] if isinstance(multiplier, Tensor) else multiplier,
            incumbent=some(self.incumbent),
            context=some(self.context),
        )


class Candidate(Outlook):
    """The posterior at some points.

    Args:
        prospect: Of the trials.
        X: Points, context included, `trials x q x (d + c)`.
    """

    def __init__(self, prospect: Prospect, X: Tensor) -> None:
        self.mean, self.sd = prospect.posterior.at(X)
        self.sign, self.scale = prospect.sign, prospect.scale
        self.scratch = Scratch()
        self._prospect, self._X = prospect, X

    def multiplier(self) -> float | Tensor:
        return self._prospect.multiplier

    def incumbent(self) -> Tensor:
        assert self._prospect.incumbent is not None
        return self._prospect.incumbent

    def sample(self) -> Tensor:
        return self._prospect.posterior.sample_at(self._X)

    def uniform(self) -> Tensor:
        raise NotImplementedError("on a box, chance needs no candidates.")

    def has_data(self) -> Tensor:
        return self._prospect.posterior.live.any(-1)


def best_observed(posterior: PointPosterior, sign: int, context: Tensor | None = None) -> Tensor:
    """Best posterior mean, in the sense of ``sign``, among points in use, `trials`.

    Where there is a context, `trials x c`, the points are put into this one: what was reached in
    another is no measure of what can be gained now. 0 without any: a finite number will do, since
    the choice does not depend on it then.
    """
    live = posterior.live
    if live.shape[-1] == 0:
        return posterior.weights.new_zeros(len(live))
    X = posterior.X
    if context is not None:
        X = with_context(X[..., : X.shape[-1] - context.shape[-1]], context)
    values = (sign * posterior.mean_at(X)).masked_fill(~live, -math.inf)
    return sign * torch.where(live.any(-1), values.amax(-1), 0.0)


def with_context(X: Tensor, context: Tensor | None) -> Tensor:
    """Points with what is known beside them, `trials x q x d -> trials x q x (d + c)`."""
    if context is None:
        return X
    return torch.cat([X, context.unsqueeze(-2).expand(*X.shape[:-1], -1)], -1)
