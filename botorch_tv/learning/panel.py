"""The marginal likelihood of a panel: many sensors, all read at every time, [B16] (24)-(25).

The covariance is K_time ⊗ K_sensors + σ² I. With K_time = V diag(μ) Vᵀ and K_sensors =
U diag(λ) Uᵀ, its eigenvalues are λ_a μ_t + σ², so 20 sensors and 300 times cost two small
eigendecompositions instead of one factorisation of a 6000 x 6000 matrix.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from botorch.exceptions import InputDataError
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.mlls import ExactMarginalLogLikelihood
from linear_operator import to_dense
from torch import Tensor

from botorch_tv.kernels import SpatioTemporalKernel
from botorch_tv.models import TimeVaryingGP


class PanelMarginalLogLikelihood(ExactMarginalLogLikelihood):  # type: ignore[misc]
    """The exact marginal log-likelihood of a ``TimeVaryingGP`` on a complete panel.

    The same number as GPyTorch's, in O(times³ + sensors³) instead of O(times³ sensors³), with
    gradients that stay finite where eigenvalues coincide. Batches of panels work too, each with its
    own sensors and times.

    Args:
        likelihood: That of the model: one noise variance, learned or known.
        model: A model whose covariance is a ``SpatioTemporalKernel`` and whose training data hold
            every sensor at every time, the sensors in the same order.

    Raises:
        InputDataError: If the model or its data are not of this kind.

    Example:
        >>> model = TimeVaryingGP(X, Y, forgetting=Markov(epsilon=0.03))
        >>> fit_gpytorch_mll(PanelMarginalLogLikelihood(model.likelihood, model))
    """

    def __init__(self, likelihood: GaussianLikelihood, model: TimeVaryingGP) -> None:
        super().__init__(likelihood, model)
        if type(getattr(model, "covar_module", None)) is not SpatioTemporalKernel:
            raise InputDataError(
                "the model's covariance is no SpatioTemporalKernel, so it is no product over "
                "sensors and time; make the model without covar_module, or pass such a kernel."
            )
        if type(likelihood) not in (GaussianLikelihood, FixedNoiseGaussianLikelihood):
            raise InputDataError(
                f"the likelihood is {type(likelihood).__name__}, but the noise of a panel is one "
                "variance for all readings; use GaussianLikelihood, or one number in train_Yvar."
            )
        self._noise()
        _read(model.covar_module, model.train_inputs[0])

    def forward(
        self, function_dist: MultivariateNormal, target: Tensor, *params: Any, **kwargs: Any
    ) -> Tensor:
        """The log-likelihood and log-priors per reading, `batch_shape`.

        Args:
            function_dist: The prior at the training inputs, of which the mean is used.
            target: The readings, `batch_shape x n`.
            params: The inputs, as BoTorch's fitting passes them.
            kwargs: None.
        """
        kernel, inputs = self.model.covar_module, self.model.train_inputs[0]
        order = _read(kernel, inputs)
        if self.training:  # else they have been transformed when training ended
            inputs = self.model.transform_inputs(inputs)
        sensors, times = kernel.split(inputs.gather(-2, order.rows.unsqueeze(-1).expand_as(inputs)))
        sensors, times = sensors[..., : order.sensors, :], times[..., :: order.sensors, :]
        across = to_dense(kernel.spatial(sensors))
        along = torch.ones_like(times) @ torch.ones_like(times).mT
        if kernel.temporal is not None:
            along = to_dense(kernel.temporal(times))
        error = (target - function_dist.mean).gather(-1, order.rows.expand_as(target))
        readings = error.reshape(*error.shape[:-1], -1, order.sensors)
        log = kronecker_log_likelihood(along, across, self._noise(), readings)
        total: Tensor = self._add_other_terms(log, params)
        return total / target.shape[-1]

    def _noise(self) -> Tensor:
        """The variance of every reading, `batch_shape`."""
        noise: Tensor = self.likelihood.noise
        first = noise[..., 0]
        if bool((noise != first.unsqueeze(-1)).any()):
            raise InputDataError(
                f"train_Yvar goes from {float(noise.min())} to {float(noise.max())}, but the "
                "noise of a panel is one variance for all readings; give one number, or fit with "
                "ExactMarginalLogLikelihood."
            )
        return first


def kronecker_log_likelihood(
    along: Tensor, across: Tensor, noise: Tensor, readings: Tensor
) -> Tensor:
    """Log-likelihood ln N(vec(Y); 0, K_time ⊗ K_sensors + σ² I), differentiable once.

    Args:
        along: K_time, `... x times x times`.
        across: K_sensors, `... x sensors x sensors`.
        noise: σ², positive, `...`.
        readings: Y, `... x times x sensors`.

    Returns:
        `...`.
    """
    batch = torch.broadcast_shapes(  # type: ignore[no-untyped-call]
        along.shape[:-2], across.shape[:-2], noise.shape, readings.shape[:-2]
    )
    log: Tensor = _LogMarginalLikelihood.apply(  # type: ignore[no-untyped-call]
        along.expand(*batch, *along.shape[-2:]),
        across.expand(*batch, *across.shape[-2:]),
        noise.expand(batch),
        readings.expand(*batch, *readings.shape[-2:]),
    )
    return log


class _LogMarginalLikelihood(torch.autograd.Function):
    """By eigendecompositions; backwards by dA, never through the eigenvectors.

    Their own derivatives divide by differences of eigenvalues, of which a smooth kernel has many
    that agree to rounding.
    """

    @staticmethod
    def forward(ctx: Any, along: Tensor, across: Tensor, noise: Tensor, readings: Tensor) -> Tensor:
        # A search may try a lengthscale of 0; what is no number there must not stop the others.
        finite = along.isfinite().all(-1).all(-1) & across.isfinite().all(-1).all(-1)
        along, across = (torch.where(finite[..., None, None], one, 0.0) for one in (along, across))
        mu, V = torch.linalg.eigh(along)
        lam, U = torch.linalg.eigh(across)
        mu, lam = mu.clamp_min(0), lam.clamp_min(0)
        spread = mu.unsqueeze(-1) * lam.unsqueeze(-2) + noise[..., None, None]
        rotated = V.mT @ readings @ U
        solved = rotated / spread
        weights = V @ solved @ U.mT  # (K_time ⊗ K_sensors + σ² I)⁻¹ y
        ctx.save_for_backward(along, across, mu, V, lam, U, spread, solved, weights)
        terms = spread.log() + rotated * solved + math.log(2 * math.pi)
        log = -0.5 * terms.sum((-2, -1))
        return torch.where(finite, log, math.nan)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        along, across, mu, V, lam, U, spread, solved, weights = ctx.saved_tensors
        traced_along = (lam.unsqueeze(-2) / spread).sum(-1)
        traced_across = (mu.unsqueeze(-1) / spread).sum(-2)
        by_along = weights @ across @ weights.mT - (V * traced_along.unsqueeze(-2)) @ V.mT
        by_across = weights.mT @ along @ weights - (U * traced_across.unsqueeze(-2)) @ U.mT
        by_noise = (solved.square() - 1 / spread).sum((-2, -1))
        half = 0.5 * grad
        wide = grad[..., None, None]
        by_readings: Tensor = -wide * weights
        return 0.5 * wide * by_along, 0.5 * wide * by_across, half * by_noise, by_readings


class _Order(NamedTuple):
    """How rows become a panel."""

    rows: Tensor
    """Row numbers, time by time, `... x n`."""
    sensors: int
    """Rows per time."""


def _read(kernel: SpatioTemporalKernel, inputs: Tensor) -> _Order:
    """The order of rows `... x n x d` in which they are a panel.

    Raises:
        InputDataError: If they are none.
    """
    places, times = kernel.split(inputs.detach())
    times = times.squeeze(-1)
    rows = times.argsort(dim=-1, stable=True)
    times = times.gather(-1, rows)
    n = times.shape[-1]
    sensors = int((times[..., :1] == times).sum(-1).max()) if n else 1
    good = n > 0 and n % sensors == 0
    if good:
        places = places.gather(-2, rows.unsqueeze(-1).expand_as(places))
        places = places.reshape(*places.shape[:-2], -1, sensors, places.shape[-1])
        times = times.reshape(*times.shape[:-1], -1, sensors)
        good = (
            bool((times == times[..., :1]).all())
            and bool((times[..., 1:, 0] > times[..., :-1, 0]).all())
            and bool((places == places[..., :1, :, :]).all())
        )
    if not good:
        raise InputDataError(
            f"the {n} rows are no panel of {sensors} sensors: every sensor needs one reading at "
            "every time, and the sensors the same order. Leave out times with gaps, or fit with "
            "ExactMarginalLogLikelihood."
        )
    return _Order(rows, sensors)
