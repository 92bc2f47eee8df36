"""The Kalman recursion over arms: constant noise, one rank-one step per observation.

A belief holds the posterior mean and variance of all arms, and the covariance lost, D = prior -
posterior. Written this way forgetting is arithmetic on one factor per trial: moving time
multiplies D by a², a reset makes it 0, and leaving out an observation subtracts a term. So a batch
of trials that reset at different moments needs no branch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.linalg import clear_
from botorch_tv.inference.losses import ArmLoss, Loss, RootLoss, RowLoss
from botorch_tv.inference.regression import Evidence, Trend, constant_mean, regress
from botorch_tv.inference.rows import Rows


class Belief(NamedTuple):
    """Posterior over all arms at the time of the newest observation."""

    mean: Tensor
    """Of the prior mean 0, `batch_shape x M`."""
    variance: Tensor
    """`batch_shape x M`; rounding may take it just below 0."""
    loss: Loss
    """Prior less posterior covariance."""
    information_gain: Tensor
    """½ Σ ln(1 + var / noise) of the observations kept, `batch_shape`."""
    number: Tensor
    """Observations kept, failed ones aside, `batch_shape`, int64."""
    trend: Trend | None = None
    """For estimating the prior mean; None where it is known."""


def prior_belief(
    basis: Basis,
    batch_shape: Size,
    variance: Tensor,
    *,
    form: type[ArmLoss | RowLoss | RootLoss],
    trend: bool,
    read_only: bool = False,
) -> Belief:
    """The belief before any observation.

    Args:
        basis: Coordinates of the kernel.
        batch_shape: Shape of the trials.
        variance: Of the prior at the origin of time, `M`.
        form: How the covariance lost is held.
        trend: Whether the prior mean is to be estimated.
        read_only: Whether trials may share memory, since nothing will be written to it.
    """
    none = basis.variance.new_zeros(batch_shape)
    over_arms = (*batch_shape, basis.arms)
    mean = none.new_zeros(()).expand(over_arms) if read_only else none.new_zeros(over_arms)
    return Belief(
        mean=mean,
        variance=variance.expand(over_arms) if read_only else variance.repeat(*batch_shape, 1),
        loss=form.none(basis, batch_shape),
        information_gain=none,
        number=none.long(),
        trend=Trend(mean.clone(), none, none) if trend else None,
    )


def copied(belief: Belief) -> Belief:
    """The same in memory of its own."""
    trend = belief.trend
    return belief._replace(
        mean=belief.mean.clone(),
        variance=belief.variance.clone(),
        loss=belief.loss.copied(),
        trend=None if trend is None else trend._replace(response=trend.response.clone()),
    )


def moved_(
    belief: Belief, basis: Basis, attenuation: Tensor, before: Tensor, after: Tensor
) -> Belief:
    """Let time pass over a moving objective: mean a m, covariance lost a² D.

    Args:
        belief: The belief so far; its vectors are written to.
        basis: Coordinates of the kernel.
        attenuation: Factor a on the covariance between then and now, `batch_shape`.
        before: Factor on the prior covariance then, `batch_shape`.
        after: Factor on the prior covariance now, `batch_shape`.

    Returns:
        The belief now, in the memory of ``belief``.
    """
    square = attenuation.square()
    grown = (after - square * before).unsqueeze(-1)
    trend = belief.trend
    if trend is not None:
        trend.response.mul_(attenuation.unsqueeze(-1))
    return belief._replace(
        mean=belief.mean.mul_(attenuation.unsqueeze(-1)),
        variance=belief.variance.mul_(square.unsqueeze(-1)).addcmul_(grown, basis.variance),
        loss=belief.loss.decayed(square),
    )


def cleared_(belief: Belief, variance: Tensor, trials: Tensor) -> Belief:
    """Forget everything in some trials, `batch_shape`, in the memory of ``belief``.

    The variance becomes that of the prior at the origin, `M`, where the clock counts anew.
    """
    kept = ~trials
    trend = belief.trend
    if trend is not None:
        clear_(trend.response, trials)
        trend = trend._replace(cross=trend.cross * kept, weight=trend.weight * kept)
    return belief._replace(
        mean=clear_(belief.mean, trials),
        variance=clear_(belief.variance, trials, variance),
        loss=belief.loss.cleared(trials),
        information_gain=belief.information_gain * kept,
        number=belief.number * kept,
        trend=trend,
    )


def observe_(
    belief: Belief,
    basis: Basis,
    index: Tensor,
    y: Tensor,
    noise: Tensor,
    prior_factor: Tensor | None,
    *,
    all_good: bool = False,
    leave_out: bool = False,
) -> Belief:
    """Take one observation, [C17] eq. (19)-(21), or leave an earlier one out again.

    A second observation of the same value with noise -n cancels one with noise n exactly, since
    precisions add. An observation of infinite noise changes nothing.

    Args:
        belief: The belief at the time of the observation; its vectors are written to.
        basis: Coordinates of the kernel.
        index: Arm measured, `batch_shape`.
        y: Observation, `batch_shape`.
        noise: Noise variance, positive, `batch_shape`.
        prior_factor: Factor on the prior covariance, `batch_shape`; None for 1.
        all_good: Whether the noise is known to be finite in all trials.
        leave_out: Whether the observation is taken back.

    Returns:
        The belief after it, in the memory of ``belief``.
    """
    sign = -1 if leave_out else 1
    signed = -noise if leave_out else noise
    variance, take = belief.loss.meet(basis, index, prior_factor)
    # Positive for an observation; negative for one left out, whose noise exceeds the variance.
    total = variance + signed
    root = (total.abs_() if leave_out else total).rsqrt()
    out = basis.scratch.take("arms", belief.mean.shape, belief.mean)
    step, loss = take(root, sign, out)
    surprise = (y - basis.value(belief.mean, index)).mul_(root)
    belief.mean.addcmul_(step, surprise.unsqueeze(-1), value=sign)
    belief.variance.addcmul_(step, step, value=-sign)
    return belief._replace(
        loss=loss.compact(basis),
        information_gain=belief.information_gain + 0.5 * torch.log1p(variance / signed),
        number=belief.number + (sign if all_good else sign * noise.isfinite()),
        trend=_trend_observed(belief.trend, basis, step, index, surprise, root, sign),
    )


def _trend_observed(
    trend: Trend | None,
    basis: Basis,
    step: Tensor,
    index: Tensor,
    surprise: Tensor,
    root: Tensor,
    sign: int,
) -> Trend | None:
    """The trend after an observation: A⁻¹ grows by the outer product of its innovation."""
    if trend is None:
        return None
    ones = (1 - basis.value(trend.response, index)) * root
    trend.response.addcmul_(step, (sign * ones).unsqueeze(-1))
    return trend._replace(
        cross=trend.cross + sign * ones * surprise,
        weight=trend.weight + sign * ones.square(),
    )


def from_evidence(basis: Basis, evidence: Evidence) -> Belief:
    """The belief of one regression on all that is kept, at the time the evidence is for.

    Args:
        basis: Coordinates of the kernel.
        evidence: The observations and how much each is worth.

    Returns:
        The same as observing them one by one, free of accumulated rounding.
    """
    posterior = regress(basis, evidence)
    root, prior = evidence.precision_root, basis.variance
    if posterior.is_posterior:
        identity = torch.eye(basis.size, dtype=root.dtype, device=root.device)
        loss = RowLoss.of_matrix(basis, identity - posterior.rows.mT @ posterior.rows)
    else:
        rows = Rows.of(posterior.rows, batch_dim=root.dim() - 1)
        loss = RowLoss.none(basis, root.shape[:-1])
        loss = replace(loss, rows=rows, weights=torch.ones_like(root))
        if evidence.prior_factor is not None:
            prior = prior * evidence.prior_factor.unsqueeze(-1)
    mean, trend = basis.expand(posterior.coordinates), None
    if posterior.trend is not None:
        response, cross, weight = posterior.trend
        trend = Trend(basis.expand(response), cross, weight)
        mean = mean + constant_mean(cross, weight).unsqueeze(-1) * trend.response
    return Belief(
        mean=mean,
        variance=prior - posterior.variance_lost(basis),
        loss=loss.compact(basis),
        information_gain=posterior.information_gain,
        number=(root > 0).sum(-1),
        trend=trend,
    )
