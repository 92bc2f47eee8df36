"""Temporal factors of the covariance, with the rate of change as a parameter to learn."""

from __future__ import annotations

import torch
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.priors import HalfNormalPrior, Prior
from torch import Tensor

from botorch_tv.kernels.batching import BatchedKernel, like
from botorch_tv.validation import require, require_bounds, require_number

LARGEST_EPSILON = 1.0 - 1e-6
"""Above it the gradient of (1 - ε)^(Δt/2) is lost to rounding."""


class MarkovKernel(BatchedKernel):
    r"""The decay of an objective redrawn a little each round, [B16] eq. (7)-(8).

    .. math:: k(t, t') = (1 - \varepsilon)^{|t - t'| / 2}

    Computed as exp(log1p(-ε) |t - t'| / 2), with ε its own raw parameter: exact at ε = 0, where
    the gradient is -|t - t'| / 2, and finite up to the upper bound of ε. Optimisers that know
    bounds (BoTorch's fitting does) keep ε inside. Several columns count by their Euclidean
    distance.

    ε = 1 redraws the objective at every instant: k is 1 at Δt = 0 and 0 elsewhere. There is no
    slope to learn from there, so ε then is fixed and has no prior.

    Args:
        epsilon: Rate of change per unit of time to start from, in [0, 1 - 1e-6], or 1.
        batch_shape: Batch shape of the parameter.
        active_dims: Columns of the input to use; all of them where None.
        epsilon_prior: Prior of ε, None for none. By default half-normal with scale 0.25: flat near
            0, which it does not exclude, and enough to keep a fit of five points from running off.
        epsilon_constraint: Bounds of ε; [0, 1 - 1e-6] without a transform where None.

    Raises:
        ValueError: If ``epsilon`` lies outside [0, 1 - 1e-6] and is not 1.

    Example:
        >>> kernel = MarkovKernel(epsilon=0.03)
        >>> kernel(torch.arange(4.0).unsqueeze(-1)).to_dense()
    """

    is_stationary = True

    def __init__(
        self,
        epsilon: float = 0.01,
        batch_shape: torch.Size | None = None,
        active_dims: tuple[int, ...] | None = None,
        epsilon_prior: Prior | _DefaultType | None = DEFAULT,
        epsilon_constraint: Interval | None = None,
    ) -> None:
        super().__init__(batch_shape=batch_shape, active_dims=active_dims)
        limit = (
            "a rate of change that can be learned lies in [0, 1 - 1e-6]; 0 keeps the objective "
            "still, and 1 redraws it all the time."
        )
        epsilon = require_number("MarkovKernel: epsilon", epsilon, "[0, 1]", limit)
        require(
            epsilon <= LARGEST_EPSILON or epsilon == 1,
            f"MarkovKernel: epsilon is {epsilon}, but {limit}",
        )
        self.register_parameter(
            "raw_epsilon", torch.nn.Parameter(torch.zeros(*self.batch_shape, 1, 1))
        )
        largest = 1.0 if epsilon == 1 else LARGEST_EPSILON
        self.register_constraint(
            "raw_epsilon", epsilon_constraint or Interval(0.0, largest, transform=None)
        )
        self._reaches_one = float(self.raw_epsilon_constraint.upper_bound) >= 1
        if epsilon_prior == DEFAULT:
            epsilon_prior = None if epsilon == 1 else HalfNormalPrior(0.25)
        if epsilon_prior is not None:
            self.register_prior(
                "epsilon_prior", epsilon_prior, type(self)._get_epsilon, type(self)._set_epsilon
            )
        self._set_epsilon(epsilon)
        self.raw_epsilon.requires_grad_(epsilon < 1)

    @property
    def epsilon(self) -> Tensor:
        """Rate of change ε per unit of time, `batch_shape x 1 x 1`."""
        return self.raw_epsilon_constraint.transform(self.raw_epsilon)  # type: ignore[no-any-return]

    @epsilon.setter
    def epsilon(self, value: Tensor | float) -> None:
        self._set_epsilon(value)

    def _get_epsilon(self) -> Tensor:
        return self.epsilon

    def _set_epsilon(self, value: Tensor | float) -> None:
        value = like(value, self.raw_epsilon)
        bounds = self.raw_epsilon_constraint
        require_bounds(
            "MarkovKernel: epsilon",
            value,
            bounds.lower_bound,
            bounds.upper_bound,
            "0 keeps the objective still; give epsilon_constraint for other bounds.",
        )
        self.initialize(raw_epsilon=self.raw_epsilon_constraint.inverse_transform(value))

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False
    ) -> Tensor:
        """Decay between two lists of times, `... x n x m`, or `... x n` with ``diag``.

        Args:
            x1: Times, `... x n x d`, d usually 1.
            x2: Times, `... x m x d`.
            diag: Whether only pairs of the same index are wanted.
            last_dim_is_batch: Whether each column is a time of its own, `... x d x n x m`.
        """
        epsilon = self.epsilon  # batch_shape x 1 x 1
        if last_dim_is_batch:
            x1, x2, epsilon = _columns_as_batch(x1), _columns_as_batch(x2), epsilon.unsqueeze(-3)
        distance = _distance(x1, x2) if diag else _distances(x1, x2)
        epsilon = epsilon.squeeze(-1) if diag else epsilon
        if not self._reaches_one:
            return torch.exp(0.5 * torch.log1p(-epsilon) * distance)
        redrawn = epsilon == 1
        kept = torch.exp(0.5 * torch.log1p(-torch.where(redrawn, 0.0, epsilon)) * distance)
        return torch.where(redrawn, (distance == 0).to(kept), kept)


class WienerKernel(BatchedKernel):
    r"""The growing variance of a random walk, the model of UI-TVBO in [ET].

    .. math:: k(t, t') = 1 + \sigma_w^2 \min(t - t_0, t' - t_0)

    Times before the origin t₀ count as the origin: the walk has not begun. Several columns are
    several walks, whose variances add.

    Args:
        sigma_w2: Variance σ_w² gained per unit of time to start from, as a share of that at the
            origin; at least 0.
        origin: Time t₀ of the first observation or the last reset; a tensor of ``batch_shape``
            where the members of a batch differ.
        batch_shape: Batch shape of the parameter.
        active_dims: Columns of the input to use; all of them where None.
        sigma_w2_prior: Prior of σ_w², None for none; half-normal with scale 0.25 by default.
        sigma_w2_constraint: Bounds of σ_w²; at least 0 without a transform where None.

    Raises:
        ValueError: If ``sigma_w2`` is negative or not finite.
    """

    is_stationary = False

    def __init__(
        self,
        sigma_w2: float = 0.01,
        origin: float | Tensor = 0.0,
        batch_shape: torch.Size | None = None,
        active_dims: tuple[int, ...] | None = None,
        sigma_w2_prior: Prior | _DefaultType | None = DEFAULT,
        sigma_w2_constraint: Interval | None = None,
    ) -> None:
        super().__init__(batch_shape=batch_shape, active_dims=active_dims)
        sigma_w2 = require_number(
            "WienerKernel: sigma_w2",
            sigma_w2,
            "[0, 1e100]",
            "a variance per unit of time lies in [0, 1e100]; 0 keeps the objective still.",
        )
        shape = torch.Size([*self.batch_shape, 1, 1])
        self.register_parameter("raw_sigma_w2", torch.nn.Parameter(torch.zeros(shape)))
        self.register_constraint(
            "raw_sigma_w2", sigma_w2_constraint or GreaterThan(0.0, transform=None)
        )
        start = origin if isinstance(origin, Tensor) else torch.tensor(float(origin))
        self.register_buffer("origin", start[..., None, None].expand(shape).clone())
        if sigma_w2_prior == DEFAULT:
            sigma_w2_prior = HalfNormalPrior(0.25)
        if sigma_w2_prior is not None:
            self.register_prior(
                "sigma_w2_prior", sigma_w2_prior, type(self)._get_sigma_w2, type(self)._set_sigma_w2
            )
        self._set_sigma_w2(sigma_w2)

    @property
    def sigma_w2(self) -> Tensor:
        """Variance σ_w² gained per unit of time, `batch_shape x 1 x 1`."""
        return self.raw_sigma_w2_constraint.transform(self.raw_sigma_w2)  # type: ignore[no-any-return]

    @sigma_w2.setter
    def sigma_w2(self, value: Tensor | float) -> None:
        self._set_sigma_w2(value)

    def _get_sigma_w2(self) -> Tensor:
        return self.sigma_w2

    def _set_sigma_w2(self, value: Tensor | float) -> None:
        value = like(value, self.raw_sigma_w2)
        bounds = self.raw_sigma_w2_constraint
        require_bounds(
            "WienerKernel: sigma_w2",
            value,
            bounds.lower_bound,
            bounds.upper_bound,
            "0 keeps the objective still; give sigma_w2_constraint for other bounds.",
        )
        self.initialize(raw_sigma_w2=self.raw_sigma_w2_constraint.inverse_transform(value))

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False
    ) -> Tensor:
        """Covariance between two lists of times, `... x n x m`, or `... x n` with ``diag``.

        Args:
            x1: Times, `... x n x d`, d usually 1.
            x2: Times, `... x m x d`.
            diag: Whether only pairs of the same index are wanted.
            last_dim_is_batch: Whether each column is a time of its own, `... x d x n x m`.
        """
        gain, origin = self.sigma_w2, self.origin  # batch_shape x 1 x 1
        if last_dim_is_batch:
            x1, x2 = _columns_as_batch(x1), _columns_as_batch(x2)
            gain, origin = gain.unsqueeze(-3), origin.unsqueeze(-3)
        first, second = (x1 - origin).clamp_min(0.0), (x2 - origin).clamp_min(0.0)
        if diag:
            return 1.0 + gain.squeeze(-1) * torch.minimum(first, second).sum(-1)
        elapsed = torch.minimum(first.unsqueeze(-2), second.unsqueeze(-3))  # ... x n x m x d
        return 1.0 + gain * elapsed.sum(-1)


def _columns_as_batch(x: Tensor) -> Tensor:
    """`... x n x d` as `... x d x n x 1`."""
    return x.transpose(-1, -2).unsqueeze(-1)


def _distance(x1: Tensor, x2: Tensor) -> Tensor:
    """Distance between rows of the same index, `... x n`."""
    difference = x1 - x2
    return difference.abs().squeeze(-1) if difference.shape[-1] == 1 else difference.norm(dim=-1)


def _distances(x1: Tensor, x2: Tensor) -> Tensor:
    """Distances between all rows, `... x n x m`.

    By subtraction: the matrix product of ``torch.cdist``'s default mode costs nine digits.
    """
    if x1.shape[-1] == 1:
        return (x1 - x2.transpose(-1, -2)).abs()
    return torch.cdist(x1, x2, compute_mode="donot_use_mm_for_euclid_dist")
