"""The Kalman recursion over arms: constant noise, one rank-one step per observation.

A running posterior holds the mean and variance of all arms, and the reduction of their
covariance, D = prior - posterior. Written this way forgetting is arithmetic on one factor per
trial: moving time multiplies D by a², a reset makes it 0, and leaving out an observation subtracts
a term. So a batch of trials that reset at different moments needs no branch.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.linalg import clear_
from botorch_tv.inference.reductions import Reduction, RowReduction
from botorch_tv.inference.regression import Observations, Trend, regress
from botorch_tv.inference.rows import Rows


class RunningPosterior(NamedTuple):
    """Posterior over all arms at the time of the newest observation."""

    mean: Tensor
    """Posterior mean for the prior mean 0, `batch_shape x M`."""
    variance: Tensor
    """`batch_shape x M`; rounding may take it just below 0."""
    reduction: Reduction
    """Prior less posterior covariance."""
    information_gain: Tensor
    """½ Σ ln(1 + var / noise) of the observations kept, `batch_shape`."""
    trend: Trend | None = None
    """For estimating the prior mean; None where it is known."""


def running_prior(
    basis: Basis,
    batch_shape: Size,
    variance: Tensor,
    *,
    form: type[Reduction],
    trend: bool,
    read_only: bool = False,
) -> RunningPosterior:
    """The posterior before any observation.

    Args:
        basis: Coordinates of the kernel.
        batch_shape: Shape of the trials.
        variance: Of the prior at the origin of time, `M`.
        form: How the reduction is held.
        trend: Whether the prior mean is to be estimated.
        read_only: Whether trials may share memory, since nothing will be written to it.
    """
    none = basis.variance.new_zeros(batch_shape)
    over_arms = (*batch_shape, basis.arms)
    mean = none.new_zeros(()).expand(over_arms) if read_only else none.new_zeros(over_arms)
    return RunningPosterior(
        mean=mean,
        variance=variance.expand(over_arms) if read_only else variance.repeat(*batch_shape, 1),
        reduction=form.none(basis, batch_shape),
        information_gain=none,
        trend=Trend(mean.clone(), none, none) if trend else None,
    )


def copied(running: RunningPosterior) -> RunningPosterior:
    """A copy in its own memory."""
    trend = running.trend
    return running._replace(
        mean=running.mean.clone(),
        variance=running.variance.clone(),
        reduction=running.reduction.copied(),
        trend=None if trend is None else trend._replace(response=trend.response.clone()),
    )


def moved_(
    running: RunningPosterior, basis: Basis, attenuation: Tensor, grown: Tensor
) -> RunningPosterior:
    """Let time pass over a moving objective: mean a m, reduction a² D.

    Args:
        running: The posterior so far; its vectors are written to.
        basis: Coordinates of the kernel.
        attenuation: Factor a on the covariance between then and now, `batch_shape`.
        grown: What the prior variance now has beyond a² times that of then, as a share of the
            kernel's, `batch_shape`.

    Returns:
        The posterior now, in the memory of ``running``.
    """
    square = attenuation.square()
    trend = running.trend
    if trend is not None:
        trend.response.mul_(attenuation.unsqueeze(-1))
    return running._replace(
        mean=running.mean.mul_(attenuation.unsqueeze(-1)),
        variance=running.variance.mul_(square.unsqueeze(-1)).addcmul_(
            grown.unsqueeze(-1), basis.variance
        ),
        reduction=running.reduction.decayed(square),
    )


def cleared_(running: RunningPosterior, variance: Tensor, trials: Tensor) -> RunningPosterior:
    """Forget everything in some trials, `batch_shape`, in the memory of ``running``.

    The variance becomes that of the prior at the origin, `M`, where the clock counts anew.
    """
    trend = running.trend
    if trend is not None:
        clear_(trend.response, trials)
        cross, weight = trend.cross.masked_fill(trials, 0), trend.weight.masked_fill(trials, 0)
        trend = trend._replace(cross=cross, weight=weight)
    return running._replace(
        mean=clear_(running.mean, trials),
        variance=clear_(running.variance, trials, variance),
        reduction=running.reduction.cleared(trials),
        information_gain=running.information_gain.masked_fill(trials, 0),
        trend=trend,
    )


def observe_(
    running: RunningPosterior,
    basis: Basis,
    index: Tensor,
    y: Tensor,
    noise: Tensor,
    prior_factor: Tensor | None,
    *,
    leave_out: bool = False,
) -> RunningPosterior:
    """Take one observation, [C17] eq. (19)-(21), or leave an earlier one out again.

    A second observation of the same value with noise -n cancels one with noise n exactly, since
    precisions add. An observation of infinite noise changes nothing.

    Args:
        running: The posterior at the time of the observation; its vectors are written to.
        basis: Coordinates of the kernel.
        index: Arm measured, `batch_shape`.
        y: Observation, `batch_shape`.
        noise: Noise variance, positive, `batch_shape`.
        prior_factor: Factor on the prior covariance, `batch_shape`; None for 1.
        leave_out: Whether the observation is taken back.

    Returns:
        The posterior after it, in the memory of ``running``.
    """
    sign = -1 if leave_out else 1
    signed = -noise if leave_out else noise
    variance, take = running.reduction.meet(basis, index, prior_factor)
    # Positive for an observation; negative for one left out, whose noise exceeds the variance.
    total = variance + signed
    root = (total.abs_() if leave_out else total).rsqrt()
    out = basis.scratch.take("arms", running.mean.shape, running.mean)
    step, reduction = take(root, sign, out)
    surprise = (y - basis.value(running.mean, index)).mul_(root)
    running.mean.addcmul_(step, surprise.unsqueeze(-1), value=sign)
    running.variance.addcmul_(step, step, value=-sign)
    return running._replace(
        reduction=reduction.compact(basis),
        information_gain=running.information_gain.add(torch.log1p(variance / signed), alpha=0.5),
        trend=_trend_observed(running.trend, basis, step, index, surprise, root, sign),
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


def from_observations(basis: Basis, observations: Observations) -> RunningPosterior:
    """The posterior by one regression on all that is kept, at the time the observations are for.

    Args:
        basis: Coordinates of the kernel.
        observations: Those kept and how much each is worth.

    Returns:
        The same as observing them one by one, free of accumulated rounding.
    """
    posterior = regress(basis, observations)
    root, prior = observations.precision_root, basis.variance
    if posterior.is_posterior:
        identity = torch.eye(basis.size, dtype=root.dtype, device=root.device)
        reduction = RowReduction.of_matrix(basis, identity - posterior.rows.mT @ posterior.rows)
    else:
        rows = Rows.of(posterior.rows, batch_dim=root.dim() - 1)
        reduction = RowReduction.none(basis, root.shape[:-1])
        reduction = replace(reduction, rows=rows, weights=torch.ones_like(root))
        if observations.prior_factor is not None:
            prior = prior * observations.prior_factor.unsqueeze(-1)
    mean, trend = basis.expand(posterior.coordinates), None
    if posterior.trend is not None:
        trend = posterior.trend._replace(response=basis.expand(posterior.trend.response))
        mean = mean + trend.constant.unsqueeze(-1) * trend.response
    return RunningPosterior(
        mean=mean,
        variance=prior - posterior.variance_reduction(basis),
        reduction=reduction.compact(basis),
        information_gain=posterior.information_gain,
        trend=trend,
    )
