"""The Kalman recursion over arms: constant noise, one rank-one step per observation.

A belief holds the posterior mean and the variance it lost on all arms, and the covariance lost,
D = prior - posterior. Written this way forgetting is arithmetic on one factor per trial: moving
time multiplies D by a², a reset multiplies it by 0, and leaving out an observation subtracts a
term. So a batch of trials that reset at different moments needs no branch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.linalg import at_index
from botorch_tv.inference.losses import ArmLoss, Loss, RowLoss
from botorch_tv.inference.regression import Evidence, regress
from botorch_tv.inference.rows import Rows


class Belief(NamedTuple):
    """Posterior over all arms at the time of the newest observation."""

    mean: Tensor
    """`batch_shape x M`."""
    variance_lost: Tensor
    """Prior less posterior variance, `batch_shape x M`."""
    loss: Loss
    """Prior less posterior covariance."""
    information_gain: Tensor
    """½ Σ ln(1 + var / noise) of the observations kept, `batch_shape`."""


def prior_belief(basis: Basis, batch_shape: Size, *, static: bool) -> Belief:
    """The belief before any observation.

    Args:
        basis: Coordinates of the kernel.
        batch_shape: Shape of the trials.
        static: Whether the objective stands still between resets.
    """
    form = ArmLoss if static else RowLoss
    return Belief(
        mean=basis.variance.new_zeros(*batch_shape, basis.arms),
        variance_lost=basis.variance.new_zeros(*batch_shape, basis.arms),
        loss=form.none(basis, batch_shape),
        information_gain=basis.variance.new_zeros(batch_shape),
    )


def forgotten(
    belief: Belief, attenuation: Tensor | None, kept: Tensor | None, *, consume: bool
) -> Belief:
    """Let time pass and forget: mean a m and covariance lost a² D, or none of either.

    Args:
        belief: The belief so far.
        attenuation: Factor a on the covariance between then and now, `batch_shape`; None for 1.
        kept: False for trials that forget everything, `batch_shape`; None where none does.
        consume: Whether the memory of ``belief`` becomes that of the result.

    Returns:
        The belief now, in memory of its own or in that of ``belief``.
    """
    mean, lost, loss = belief.mean, belief.variance_lost, belief.loss
    if not consume:
        mean, lost, loss = mean.clone(), lost.clone(), loss.copied()
    if attenuation is None and kept is None:
        return belief._replace(mean=mean, variance_lost=lost, loss=loss)
    factor = torch.ones_like(belief.information_gain) if attenuation is None else attenuation
    gain = belief.information_gain
    if kept is not None:
        factor, gain = factor * kept, gain * kept
    square = factor.square()
    return belief._replace(
        mean=mean.mul_(factor.unsqueeze(-1)),
        variance_lost=lost.mul_(square.unsqueeze(-1)),
        loss=loss.forgotten(square),
        information_gain=gain,
    )


def observe_(
    belief: Belief,
    basis: Basis,
    index: Tensor,
    y: Tensor,
    noise: float,
    prior_variance: Tensor | None,
) -> Belief:
    """Take one observation, [C17] eq. (19)-(21); with ``-noise``, leave an earlier one out again.

    A second observation of the same value with noise -n cancels one with noise n exactly, since
    precisions add.

    Args:
        belief: The belief at the time of the observation; its vectors are written to.
        basis: Coordinates of the kernel.
        index: Arm measured, `batch_shape`.
        y: Observation, `batch_shape`.
        noise: Noise variance, negative to leave out.
        prior_variance: Factor on the prior covariance, `batch_shape`; None for 1.

    Returns:
        The belief after it, in the memory of ``belief``.
    """
    buffer = basis.scratch.take("covariance", belief.mean.shape, belief.mean)
    covariance, complete = belief.loss.meet(basis, index, prior_variance, buffer)
    # Positive for an observation; negative for one left out, whose noise exceeds the variance.
    total = at_index(covariance, index) + noise
    sign = 1 if noise > 0 else -1
    gain = (y - at_index(belief.mean, index)) / total
    belief.mean.addcmul_(covariance, gain.unsqueeze(-1))
    loss = complete(total, sign)
    step = torch.mul(covariance, total.abs().rsqrt().unsqueeze(-1), out=buffer)
    belief.variance_lost.addcmul_(step, step, value=sign)
    return belief._replace(
        loss=loss.compact(basis),
        information_gain=belief.information_gain + 0.5 * torch.log(total / noise),
    )


def refreshed(basis: Basis, index: Tensor, y: Tensor, noise: float) -> Belief:
    """The belief computed anew from the observations it keeps, all of one static objective.

    Args:
        basis: Coordinates of the kernel.
        index: Arms, `batch_shape x n`.
        y: Observations, `batch_shape x n`.
        noise: Noise variance.

    Returns:
        The same belief as observing them one by one, free of accumulated rounding.
    """
    posterior = regress(basis, Evidence(index, y, torch.full_like(y, noise**-0.5)))
    if posterior.is_posterior:
        identity = torch.eye(basis.size, dtype=y.dtype, device=y.device)
        loss = RowLoss.of_matrix(basis, identity - posterior.rows.mT @ posterior.rows)
    else:
        rows = Rows.of(posterior.rows, batch_dim=y.dim() - 1)
        loss = replace(RowLoss.none(basis, y.shape[:-1]), rows=rows, weights=torch.ones_like(y))
    return Belief(
        mean=basis.expand(posterior.coordinates),
        variance_lost=posterior.variance_lost(basis),
        loss=loss.compact(basis),
        information_gain=posterior.information_gain,
    )
