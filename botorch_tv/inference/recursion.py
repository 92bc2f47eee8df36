"""The Kalman recursion over arms: constant noise, one rank-one step per observation.

A belief holds the posterior mean and the variance it lost on all arms, and the covariance lost,

    D = prior - posterior = Σᵢ wᵢ hᵢ hᵢᵀ + w_b B,

as rows h in coordinates of a basis and, once there are many, a matrix B that has absorbed the older
ones. Written this way forgetting is arithmetic on scalars: moving time multiplies the weights by
a², a reset multiplies them by 0, and leaving out an observation is a row of negative weight. So a
batch of trials that reset at different moments needs no branch.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Size, Tensor

from botorch_tv.inference.basis import Basis
from botorch_tv.inference.linalg import at_index
from botorch_tv.inference.regression import Evidence, regress
from botorch_tv.inference.rows import Rows

FEWEST_ROWS = 32
"""Rows are not absorbed before there are this many, so that touching all of B stays rare."""


def most_rows(basis: Basis) -> int:
    """Number of rows at which they are absorbed for the first time.

    A step reads the rows twice, 2 n r numbers, or B once, r² numbers: from n = r / 2 on the matrix
    is the cheaper of the two.
    """
    return max(FEWEST_ROWS, basis.size // 2)


class Belief(NamedTuple):
    """Posterior over all arms at the time of the newest observation."""

    mean: Tensor
    """`batch_shape x M`."""
    variance_lost: Tensor
    """Prior less posterior variance, `batch_shape x M`."""
    rows: Rows
    """h, `batch_shape x n x r`."""
    weights: Tensor
    """w, `batch_shape x n`."""
    absorbed: Tensor | None
    """B, `batch_shape x r x r`; None while nothing has been absorbed."""
    absorbed_weight: Tensor
    """w_b, `batch_shape`."""
    information_gain: Tensor
    """½ Σ ln(1 + var / noise) of the observations kept, `batch_shape`."""


def prior_belief(basis: Basis, batch_shape: Size) -> Belief:
    """The belief before any observation."""
    zeros = basis.variance.new_zeros(batch_shape)
    return Belief(
        mean=zeros.new_zeros(*batch_shape, basis.arms),
        variance_lost=zeros.new_zeros(*batch_shape, basis.arms),
        rows=Rows.empty(
            batch_shape,
            (basis.size,),
            dtype=zeros.dtype,
            device=zeros.device,
            capacity=min(most_rows(basis), 128),
        ),
        weights=zeros.new_zeros(*batch_shape, 0),
        absorbed=None,
        absorbed_weight=zeros,
        information_gain=zeros,
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
    mean, lost = belief.mean, belief.variance_lost
    if not consume:
        mean, lost = mean.clone(), lost.clone()
    if attenuation is None and kept is None:
        return belief._replace(mean=mean, variance_lost=lost)
    factor = torch.ones_like(belief.absorbed_weight) if attenuation is None else attenuation
    gain = belief.information_gain
    if kept is not None:
        factor, gain = factor * kept, gain * kept
    square = factor.square()
    return belief._replace(
        mean=mean.mul_(factor.unsqueeze(-1)),
        variance_lost=lost.mul_(square.unsqueeze(-1)),
        weights=belief.weights * square.unsqueeze(-1),
        absorbed_weight=belief.absorbed_weight * square,
        information_gain=gain,
    )


def lost_coordinates(belief: Belief, basis: Basis, index: Tensor) -> Tensor:
    """Coordinates of the covariance lost between some arms and all arms.

    Args:
        belief: The belief.
        basis: Coordinates of the kernel.
        index: Arms, `batch_shape x q`.

    Returns:
        `batch_shape x q x r`.
    """
    rows = belief.rows.tensor()
    lost = (basis.inner(rows, index) * belief.weights.unsqueeze(-2)) @ rows
    if belief.absorbed is not None:
        absorbed = basis.inner(belief.absorbed, index)  # B is symmetric: its rows are its columns
        lost = lost + belief.absorbed_weight[..., None, None] * absorbed
    return lost


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
    prior = basis.row(index)
    if prior_variance is not None:
        prior = prior * prior_variance.unsqueeze(-1)
    lost = lost_coordinates(belief, basis, index.unsqueeze(-1)).squeeze(-2)
    coordinates = prior - lost
    buffer = basis.scratch.take("covariance", belief.mean.shape, belief.mean)
    covariance = basis.expand(coordinates, out=buffer)
    # Positive for an observation; negative for one left out, whose noise exceeds the variance.
    total = at_index(covariance, index) + noise
    sign = 1 if noise > 0 else -1
    gain = (y - at_index(belief.mean, index)) / total
    inverse_root = total.abs().rsqrt().unsqueeze(-1)
    row = coordinates * inverse_root
    belief.mean.addcmul_(covariance, gain.unsqueeze(-1))
    step = torch.mul(covariance, inverse_root, out=buffer)
    belief.variance_lost.addcmul_(step, step, value=sign)
    return belief._replace(
        rows=belief.rows.append(row),
        weights=torch.cat([belief.weights, torch.full_like(inverse_root, sign)], dim=-1),
        information_gain=belief.information_gain + 0.5 * torch.log(total / noise),
    )


def absorb(belief: Belief, basis: Basis) -> Belief:
    """Fold the rows into the matrix B once they are many; the belief does not change.

    Which form is kept depends on the number of rows alone, so all trials share it.
    """
    many = most_rows(basis) if belief.absorbed is None else FEWEST_ROWS
    if len(belief.rows) < many:
        return belief
    rows = belief.rows.tensor()
    lost = rows.mT @ (belief.weights.unsqueeze(-1) * rows)
    if belief.absorbed is not None:
        lost = torch.addcmul(lost, belief.absorbed, belief.absorbed_weight[..., None, None])
    empty = prior_belief(basis, belief.weights.shape[:-1])
    return belief._replace(
        rows=empty.rows,
        weights=empty.weights,
        absorbed=lost,
        absorbed_weight=torch.ones_like(belief.absorbed_weight),
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
    belief = prior_belief(basis, y.shape[:-1])
    if posterior.is_posterior:
        identity = torch.eye(basis.size, dtype=y.dtype, device=y.device)
        belief = belief._replace(
            absorbed=identity - posterior.rows.mT @ posterior.rows,
            absorbed_weight=torch.ones_like(belief.absorbed_weight),
        )
    else:
        belief = belief._replace(
            rows=Rows.of(posterior.rows, batch_dim=y.dim() - 1),
            weights=torch.ones_like(y),
        )
    return belief._replace(
        mean=basis.expand(posterior.coordinates),
        variance_lost=posterior.variance_lost(basis),
        information_gain=posterior.information_gain,
    )
