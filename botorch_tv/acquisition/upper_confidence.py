"""The widths of the papers as the beta of BoTorch's upper confidence bound."""

from __future__ import annotations

import torch
from botorch.acquisition import AcquisitionFunction, UpperConfidenceBound
from botorch.acquisition.objective import PosteriorTransform
from torch import Tensor

from botorch_tv.acquisition.gains import DoublyWeighted, WidthContext
from botorch_tv.acquisition.placement import Placement
from botorch_tv.acquisition.present import AtPresent
from botorch_tv.acquisition.widths import Width
from botorch_tv.kernels.batching import like
from botorch_tv.models.aging_gp import AgingGP
from botorch_tv.validation import require_integer


def upper_confidence_bound(
    model: AgingGP,
    width: Width,
    t: int,
    *,
    now: float | Tensor | None = None,
    posterior_transform: PosteriorTransform | None = None,
    maximize: bool = True,
) -> AcquisitionFunction:
    """BoTorch's ``UpperConfidenceBound`` at the present, with the width of a theorem.

    The score is mean + √beta · sd, where beta is the *square* of the width's ``sqrt_beta``.
    Information gains are those of the model's data. Guarantees of widths for known hyperparameters
    do not hold once these are learned.

    Args:
        model: A model with one output.
        width: The confidence schedule.
        t: The round being decided, counted from 1.
        now: The present, a number or `batch_shape`; the model's ``now`` if None.
        posterior_transform: As in ``UpperConfidenceBound``.
        maximize: Whether larger is better.

    Raises:
        InputDataError: See :func:`botorch_tv.acquisition.present.at_present`.
        ValueError: If ``t`` is below 1 or the width has no value in that round.

    Example:
        >>> ucb = upper_confidence_bound(model, Logarithmic(c1=0.4, c2=4.0), t=len(train_Y) + 1)
        >>> x, _ = optimize_acqf(ucb, bounds[:, :-1], q=1, num_restarts=4, raw_samples=64)
    """
    t = require_integer("upper_confidence_bound: t", t, 1, "it counts rounds from 1.")
    place = Placement.of(model, now, None)
    beta = like(width.beta(_context(model, width, t, place.columns - 1)), place.now)
    plain = UpperConfidenceBound(
        model, beta=beta, posterior_transform=posterior_transform, maximize=maximize
    )
    return AtPresent(plain, place)


def _context(model: AgingGP, width: Width, t: int, dim: int) -> WidthContext:
    """The context of the width, with only the gain that it needs."""
    if width.gain is None:
        return WidthContext(t, dim)
    with torch.no_grad():
        if isinstance(width.gain, DoublyWeighted):
            return WidthContext(t, dim, weighted_information_gain=model.weighted_information_gain())
        return WidthContext(t, dim, information_gain=model.information_gain())
