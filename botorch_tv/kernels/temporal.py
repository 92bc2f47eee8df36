"""Temporal factors of the covariance, with the rate of change as a parameter to learn."""

from __future__ import annotations

import math

import torch
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.priors import Prior
from torch import Tensor

from botorch_tv.forgetting.rate_prior import RatePrior
from botorch_tv.kernels.batching import like
from botorch_tv.kernels.rate import DEAF, RESTLESS, RateKernel
from botorch_tv.validation import require, require_bounds, require_number

LARGEST_EPSILON = 1.0 - 1e-6
"""Above it the gradient of (1 - ε)^(Δt/2) is lost to rounding."""
LARGEST_DECAY = 13.0
"""The largest -ln(1 - ε) that a unit of time is chosen for; e^(-13) is above 1e-6."""


class MarkovKernel(RateKernel):
    r"""The decay of an objective redrawn a little each round, [B16] eq. (7)-(8).

    .. math:: k(t, t') = (1 - \varepsilon)^{|t - t'| / 2}

    Computed as exp(log1p(-ε) |t - t'| / 2), with ε its own raw parameter: exact at ε = 0, where
    the gradient is -|t - t'| / 2, and finite up to the upper bound of ε. Optimisers that know
    bounds (BoTorch's fitting does) keep ε inside. Several columns count by their Euclidean
    distance.

    A ``TimeVaryingGP`` learns ε in the data's own unit of time, see :meth:`measure`; ``epsilon``
    is per unit of the input all the same. Where that unit is long, ε is 1 to all digits: ask
    :meth:`epsilon_per` for a shorter one.

    ε = 1 redraws the objective at every instant: k is 1 at Δt = 0 and 0 elsewhere. There is no
    slope to learn from there, so ε then is fixed and has no prior.

    Args:
        epsilon: Rate of change per unit of time to start from, in [0, 1 - 1e-6], or 1.
        batch_shape: Batch shape of the parameter.
        active_dims: Columns of the input to use; all of them where None.
        epsilon_prior: Prior of ε per unit of the input, None for none. By default a
            :class:`RatePrior` of ε in the unit it is learned in.
        epsilon_constraint: Bounds of ε per unit of the input, in which it then is learned;
            [0, 1 - 1e-6] in a unit of the data's own, without a transform, where None.

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
        self._measurable = epsilon_constraint is None and epsilon < 1
        self.register_constraint(
            "raw_epsilon", epsilon_constraint or Interval(0.0, largest, transform=None)
        )
        self._reaches_one = float(self.raw_epsilon_constraint.upper_bound) >= 1
        own = type(self)
        if epsilon_prior == DEFAULT and epsilon < 1:
            self.register_prior(
                "epsilon_prior", RatePrior(upper=1.0), own._get_learned, own._set_learned
            )
        elif epsilon_prior != DEFAULT and epsilon_prior is not None:
            self.register_prior("epsilon_prior", epsilon_prior, own._get_epsilon, own._set_epsilon)
        self._set_epsilon(epsilon)
        self.raw_epsilon.requires_grad_(epsilon < 1)

    @property
    def epsilon(self) -> Tensor:
        """Rate of change ε per unit of time, `batch_shape x 1 x 1`."""
        learned = self._get_learned()
        return torch.where(self.unit == 1, learned, -torch.expm1(self.log_kept))

    @epsilon.setter
    def epsilon(self, value: Tensor | float) -> None:
        self._set_epsilon(value)

    @property
    def log_kept(self) -> Tensor:
        """ln(1 - ε) per unit of time, `batch_shape x 1 x 1`; exact where ε rounds to 1."""
        learned = self._get_learned()
        if not self._reaches_one:
            return torch.log1p(-learned) / self.unit
        redrawn = learned == 1
        kept = torch.log1p(-torch.where(redrawn, 0.0, learned))
        return torch.where(redrawn, -torch.inf, kept) / self.unit

    def epsilon_per(self, duration: float) -> Tensor:
        """Rate of change ε over a duration of time, 1 - (1 - ε)^duration.

        Args:
            duration: In units of the input.
        """
        return -torch.expm1(self.log_kept * duration)

    def set_epsilon_per(self, duration: float | Tensor, value: float | Tensor) -> None:
        """Set the rate of change by what it is over a duration of time.

        Args:
            duration: In units of the input, positive, a number or `batch_shape x 1 x 1`.
            value: ε over it, in [0, 1).
        """
        kept = torch.log1p(-like(value, self.raw_epsilon)) / like(duration, self.raw_epsilon)
        if self._measurable:
            self._decay_by(-kept, self.unit)
        else:
            self.epsilon = -torch.expm1(kept)

    def measure(self, unit: Tensor) -> None:
        if self._measurable:
            self._decay_by(-self.log_kept.detach(), self._fitting(unit))

    def listen(self, unit: Tensor) -> None:
        if not self._measurable:
            return
        step = self._fitting(unit)
        kept = self.log_kept.detach()
        deaf = -torch.expm1(kept * step) > DEAF
        self._decay_by(torch.where(deaf, -math.log1p(-RESTLESS) / step, -kept), step)

    def _decay_by(self, decay: Tensor, unit: Tensor) -> None:
        """Set -ln(1 - ε) per unit of the input, to be learned in another unit.

        An ε so large that it would be 1 in that unit is learned in a shorter one.
        """
        decay = decay.abs()  # a limit over -0 would be negative
        self.unit = torch.minimum(unit, LARGEST_DECAY / decay).expand_as(self.unit).clone()
        self.initialize(raw_epsilon=-torch.expm1(-decay * self.unit))

    def _get_learned(self) -> Tensor:
        """ε in the unit it is learned in."""
        return self.raw_epsilon_constraint.transform(self.raw_epsilon)  # type: ignore[no-any-return]

    def _set_learned(self, value: Tensor | float) -> None:
        value = like(value, self.raw_epsilon).clamp(*self._ends("raw_epsilon"))
        self.initialize(raw_epsilon=self.raw_epsilon_constraint.inverse_transform(value))

    def _get_epsilon(self) -> Tensor:
        return self.epsilon

    def _set_epsilon(self, value: Tensor | float) -> None:
        value = like(value, self.raw_epsilon)
        low, high = self._ends("raw_epsilon")
        fix = "0 keeps the objective still; give epsilon_constraint for other bounds."
        require_bounds("MarkovKernel: epsilon", value, low, high, fix)
        if bool((self.unit == 1).all()):
            self._set_learned(value)
        else:
            self._decay_by(-torch.log1p(-value), self.unit)

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
        learned, unit = self._get_learned(), self.unit  # batch_shape x 1 x 1
        if last_dim_is_batch:
            x1, x2 = _columns_as_batch(x1), _columns_as_batch(x2)
            learned, unit = learned.unsqueeze(-3), unit.unsqueeze(-3)
        if diag:
            learned, unit = learned.squeeze(-1), unit.squeeze(-1)
        # Steps of the data first: these are the same numbers in whatever unit time is told.
        steps = (_distance(x1, x2) if diag else _distances(x1, x2)) / unit
        if not self._reaches_one:
            return torch.exp(0.5 * torch.log1p(-learned) * steps)
        redrawn = learned == 1
        kept = torch.exp(0.5 * torch.log1p(-torch.where(redrawn, 0.0, learned)) * steps)
        return torch.where(redrawn, (steps == 0).to(kept), kept)


class WienerKernel(RateKernel):
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
        sigma_w2_prior: Prior of σ_w² per unit of the input, None for none. By default a
            :class:`RatePrior` of σ_w² in the unit it is learned in, see :meth:`measure`.
        sigma_w2_constraint: Bounds of σ_w² per unit of the input, in which it then is learned; at
            least 0 without a transform where None.

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
        self._measurable = sigma_w2_constraint is None
        own = type(self)
        if sigma_w2_prior == DEFAULT:
            self.register_prior("sigma_w2_prior", RatePrior(), own._get_learned, own._set_learned)
        elif sigma_w2_prior is not None:
            self.register_prior(
                "sigma_w2_prior", sigma_w2_prior, own._get_sigma_w2, own._set_sigma_w2
            )
        self._set_sigma_w2(sigma_w2)

    @property
    def sigma_w2(self) -> Tensor:
        """Variance σ_w² gained per unit of time, `batch_shape x 1 x 1`."""
        return self._get_learned() / self.unit

    @sigma_w2.setter
    def sigma_w2(self, value: Tensor | float) -> None:
        self._set_sigma_w2(value)

    def measure(self, unit: Tensor) -> None:
        if self._measurable:
            gain = self.sigma_w2.detach()
            self.unit = self._fitting(unit)
            self._set_sigma_w2(gain)

    def listen(self, unit: Tensor) -> None:
        if not self._measurable:
            return
        step = self._fitting(unit)
        gain = self.sigma_w2.detach() * step
        self.unit = step
        # So large a variance is gained that at the next observation DEAF of it would be new.
        self._set_learned(torch.where(gain > DEAF / (1 - DEAF), RESTLESS, gain))

    def _get_learned(self) -> Tensor:
        """σ_w² in the unit it is learned in."""
        return self.raw_sigma_w2_constraint.transform(self.raw_sigma_w2)  # type: ignore[no-any-return]

    def _set_learned(self, value: Tensor | float) -> None:
        value = like(value, self.raw_sigma_w2).clamp(*self._ends("raw_sigma_w2"))
        self.initialize(raw_sigma_w2=self.raw_sigma_w2_constraint.inverse_transform(value))

    def _get_sigma_w2(self) -> Tensor:
        return self.sigma_w2

    def _set_sigma_w2(self, value: Tensor | float) -> None:
        value = like(value, self.raw_sigma_w2)
        low, high = self._ends("raw_sigma_w2")
        fix = "0 keeps the objective still; give sigma_w2_constraint for other bounds."
        require_bounds("WienerKernel: sigma_w2", value, low, high, fix)
        self._set_learned(value * self.unit)

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
        gain, unit, origin = self._get_learned(), self.unit, self.origin  # batch_shape x 1 x 1
        if last_dim_is_batch:
            x1, x2 = _columns_as_batch(x1), _columns_as_batch(x2)
            gain, unit, origin = (one.unsqueeze(-3) for one in (gain, unit, origin))
        first, second = ((x - origin).clamp_min(0.0) / unit for x in (x1, x2))
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
