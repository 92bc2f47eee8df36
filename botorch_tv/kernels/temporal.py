"""Temporal factors of the covariance: decays as GPyTorch kernels with learnable parameters."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import Interval
from gpytorch.priors import Prior
from torch import Size, Tensor

from botorch_tv.forgetting import Decay, Markov, Wiener
from botorch_tv.forgetting.base import with_values
from botorch_tv.forgetting.decay import LARGEST_EPSILON
from botorch_tv.forgetting.formulas import require_sound
from botorch_tv.kernels.declared import BatchedKernel, Declared, Priors, like
from botorch_tv.validation import require, require_number


class DecayKernel(Declared, BatchedKernel):
    """A decay as a kernel over time; the declared parameters of the decay can be learned.

    A ``TimeVaryingGP`` learns the parameters in a unit of time taken from the data, see
    :meth:`measure`; bounds and priors declared by a decay apply in that unit. If the
    input has several columns of time, a stationary decay uses their Euclidean distance.

    Args:
        decay: The formula, with the initial values of its parameters.
        origin: Origin of time of a decay that is not stationary: the time of the first observation
            or the last reset, a number or a tensor of ``batch_shape``. Times before the origin
            count as the origin.
        batch_shape: Batch shape of the parameters.
        active_dims: Columns of the input to use; None for all.
        priors: Priors by parameter name, for values in the input's unit of time; None for no prior.
            Parameters without an entry have their declared priors.
        bounds: Bounds by parameter name, for values in the input's unit of time; parameters without
            an entry have their declared bounds. If bounds are given here, all parameters are
            learned in the input's unit of time.
        unit: Initial unit of time in which parameters are learned, `batch_shape`, see
            :meth:`measure`.
        learn: Whether to learn the parameters; otherwise the decay is fixed.

    Raises:
        ValueError: If the decay is not a covariance, or not a function of its declared parameters.

    Example:
        >>> kernel = DecayKernel(Markov(epsilon=0.03))
        >>> kernel(torch.arange(4.0).unsqueeze(-1)).to_dense()
    """

    def __init__(
        self,
        decay: Decay,
        origin: float | Tensor = 0.0,
        batch_shape: Size | None = None,
        active_dims: tuple[int, ...] | None = None,
        priors: Priors | None = None,
        bounds: Mapping[str, Interval | None] | None = None,
        unit: Tensor | None = None,
        learn: bool = True,
    ) -> None:
        require_sound(decay)
        super().__init__(batch_shape=batch_shape, active_dims=active_dims)
        if not decay.stationary:
            shape = Size([*self.batch_shape, 1, 1])
            start = origin if isinstance(origin, Tensor) else torch.tensor(float(origin))
            self.register_buffer("origin", start[..., None, None].expand(shape).clone())
        self.declare(decay, self.batch_shape, 2, priors or {}, bounds or {}, unit=unit, learn=learn)

    @property
    def is_stationary(self) -> bool:
        return bool(self.part.stationary)

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, last_dim_is_batch: bool = False
    ) -> Tensor:
        """Decay between two lists of times, `... x n x m`, or `... x n` with ``diag``.

        Args:
            x1: Times, `... x n x d`, d usually 1.
            x2: Times, `... x m x d`.
            diag: Whether to compute only the pairs of times with the same index.
            last_dim_is_batch: Whether each column is a separate time, `... x d x n x m`.

        Raises:
            RuntimeError: If a decay that is not stationary has several columns of time.
        """
        values, unit = self.learned(), self.unit  # batch_shape x 1 x 1
        if not self.is_stationary:
            x1, x2 = ((x - self.origin).clamp_min(0.0) for x in (x1, x2))
        if last_dim_is_batch:
            x1, x2 = (x.transpose(-1, -2).unsqueeze(-1) for x in (x1, x2))
            values = {name: value.unsqueeze(-3) for name, value in values.items()}
            unit = unit.unsqueeze(-3)
        if diag:
            values = {name: value.squeeze(-1) for name, value in values.items()}
            unit = unit.squeeze(-1)
        else:
            x1, x2 = x1.unsqueeze(-2), x2.unsqueeze(-3)  # ... x n x 1 x d, ... x 1 x m x d
        return self._covariance(with_values(self.part, values), x1, x2, unit)

    def _covariance(self, decay: Decay, x1: Tensor, x2: Tensor, unit: Tensor) -> Tensor:
        """Values of a decay between two tensors of times, `... x d` each, which broadcast."""
        # Subtract times first, then divide by the unit of learning: the quotient does not depend on
        # the unit of the input.
        if self.is_stationary:
            apart = x1 - x2
            distance = apart.abs().squeeze(-1) if apart.shape[-1] == 1 else apart.norm(dim=-1)
            return decay.attenuation(distance / unit)
        if x1.shape[-1] != 1:
            raise RuntimeError(
                f"{type(self).__name__}: {x1.shape[-1]} columns of time have no distance from an "
                "origin; select the column of time by active_dims."
            )
        return decay.covariance(x1.squeeze(-1) / unit, x2.squeeze(-1) / unit)


class MarkovKernel(DecayKernel):
    r"""The temporal kernel of the Markov model, [B16] eq. (7)-(8).

    .. math:: k(t, t') = (1 - \varepsilon)^{|t - t'| / 2}

    The kernel is computed as exp(log1p(-ε) |t - t'| / 2), and ε is learned without a transform. The
    formula is exact at ε = 0, with the derivative -|t - t'| / 2 with respect to ε. Formula and
    derivative are finite up to the upper bound of ε. Optimisers with bounds, such as BoTorch's
    fitting, stay within the bounds of ε.

    The attribute ``epsilon`` is in the input's unit of time, even if ε is learned in another unit.
    If the input's unit is long, ε rounds to 1; :meth:`epsilon_per` returns the rate over a shorter
    duration.

    With ε = 1 the objective is redrawn at every instant: k is 1 at t = t' and 0 elsewhere. Because
    the gradient with respect to ε is 0 at ε = 1, such an ε is fixed and by default has no prior.

    Args:
        epsilon: Initial rate of change per unit of time, in [0, 1 - 1e-6], or 1.
        batch_shape: Batch shape of the parameter.
        active_dims: Columns of the input to use; None for all.
        epsilon_prior: Prior of ε in the input's unit of time; None for no prior. The default is a
            ``RatePrior`` of ε in the unit of time that :meth:`measure` sets.
        epsilon_constraint: Bounds of ε in the input's unit of time; if bounds are given, ε is also
            learned in this unit. If None, ε is learned within [0, 1 - 1e-6], without a transform,
            in a unit of time taken from the data.

    Raises:
        ValueError: If ``epsilon`` lies outside [0, 1 - 1e-6] and is not 1.

    Example:
        >>> kernel = MarkovKernel(epsilon=0.03)
        >>> kernel(torch.arange(4.0).unsqueeze(-1)).to_dense()
    """

    def __init__(
        self,
        epsilon: float = 0.01,
        batch_shape: Size | None = None,
        active_dims: tuple[int, ...] | None = None,
        epsilon_prior: Prior | _DefaultType | None = DEFAULT,
        epsilon_constraint: Interval | None = None,
    ) -> None:
        fix = "0 is static, 1 redraws the objective all the time; else give 1 - 1e-6 at most."
        epsilon = require_number("MarkovKernel: epsilon", epsilon, "[0, 1]", fix)
        require(
            epsilon <= LARGEST_EPSILON or epsilon == 1,
            f"MarkovKernel: epsilon is {epsilon}, too close to 1 to be learned; {fix}",
        )
        if epsilon == 1:
            epsilon_constraint = epsilon_constraint or Interval(0.0, 1.0, transform=None)
            epsilon_prior = None if epsilon_prior == DEFAULT else epsilon_prior
        super().__init__(
            Markov(epsilon),
            batch_shape=batch_shape,
            active_dims=active_dims,
            priors={"epsilon": epsilon_prior},
            bounds={"epsilon": epsilon_constraint},
        )
        self.raw_epsilon.requires_grad_(epsilon < 1)

    @property
    def log_retained(self) -> Tensor:
        """ln(1 - ε) per unit of time, `batch_shape x 1 x 1`; accurate even if ε rounds to 1."""
        return -self.natural("epsilon")

    def epsilon_per(self, duration: float) -> Tensor:
        """Rate of change over a duration, 1 - (1 - ε)^duration, `batch_shape x 1 x 1`.

        Args:
            duration: Duration in the input's unit of time.
        """
        return -torch.expm1(self.log_retained * duration)

    def set_epsilon_per(self, duration: float | Tensor, value: float | Tensor) -> None:
        """Set the rate of change over a duration.

        Args:
            duration: Duration in the input's unit of time, positive, a number or `batch_shape x 1 x
                1`.
            value: Rate of change ε over the given duration, in [0, 1), a number or
                `batch_shape x 1 x 1`.

        Raises:
            OutOfBoundsError: If the value lies outside its bounds.
        """
        duration, value = (like(number, self.unit) for number in (duration, value))
        self._set_over("epsilon", duration, value)


class WienerKernel(DecayKernel):
    r"""The temporal kernel of a random walk, the model of UI-TVBO in [ET].

    .. math:: k(t, t') = 1 + \sigma_w^2 \min(t - t_0, t' - t_0)

    Times before the origin t₀ count as the origin, where the walk starts.

    Args:
        sigma_w2: Initial value of σ_w², the variance gained per unit of time as a share of the
            variance at the origin; at least 0.
        origin: Time t₀ of the first observation or the last reset, a number or a tensor of
            ``batch_shape``.
        batch_shape: Batch shape of the parameter.
        active_dims: Columns of the input to use; None for all.
        sigma_w2_prior: Prior of σ_w² in the input's unit of time; None for no prior. The default is
            a ``RatePrior`` of σ_w² in the unit of time that :meth:`measure` sets.
        sigma_w2_constraint: Bounds of σ_w² in the input's unit of time; if bounds are given, σ_w²
            is also learned in this unit. If None, σ_w² is learned without a transform, and its
            lower bound is 0.

    Raises:
        ValueError: If ``sigma_w2`` is negative or not finite.
    """

    def __init__(
        self,
        sigma_w2: float = 0.01,
        origin: float | Tensor = 0.0,
        batch_shape: Size | None = None,
        active_dims: tuple[int, ...] | None = None,
        sigma_w2_prior: Prior | _DefaultType | None = DEFAULT,
        sigma_w2_constraint: Interval | None = None,
    ) -> None:
        sigma_w2 = require_number("WienerKernel: sigma_w2", sigma_w2, "[0, 1e100]", "0 is static.")
        super().__init__(
            Wiener(sigma_w2),
            origin,
            batch_shape,
            active_dims,
            priors={"sigma_w2": sigma_w2_prior},
            bounds={"sigma_w2": sigma_w2_constraint},
        )

    def _covariance(self, decay: Decay, x1: Tensor, x2: Tensor, unit: Tensor) -> Tensor:
        unit = unit.unsqueeze(-1)
        return decay.prior_variance(torch.minimum(x1 / unit, x2 / unit).sum(-1))
