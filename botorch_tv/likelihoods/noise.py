"""The noise of observations, growing with their age."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from botorch.exceptions import InputDataError
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.likelihoods.noise_models import Noise
from gpytorch.priors import LogNormalPrior, Prior
from gpytorch.settings import min_fixed_noise
from linear_operator.operators import DiagLinearOperator
from torch import Tensor

from botorch_tv.forgetting.base import is_static
from botorch_tv.kernels.batching import like
from botorch_tv.likelihoods.aging import Aging, FixedAging
from botorch_tv.likelihoods.rows import joined
from botorch_tv.validation import largest, require_bounds

SMALLEST_LEARNED_NOISE = 1e-4
"""BoTorch's lower bound on an inferred noise variance."""


class AgeNoise(Noise):  # type: ignore[misc]
    """Noise variances of observations by their age at ``now``.

    Three kinds of rows are told apart by what is known of them: those of the training data, whose
    times (and variances at lag 0, where known) are kept; any others with their times; and those
    whose variance the caller names.

    Args:
        aging: How noise grows with the lag.
        time_dim: Column of the input that holds time.
        batch_shape: Batch shape of the learned variance.
        noise: Known variance of each training observation at lag 0, `batch_shape x n`; NaN where
            the learned one applies. None learns one for all.
        noise_prior: Prior of the learned variance, None for none; BoTorch's log-normal by default.
        noise_constraint: Bounds of the learned variance; BoTorch's where None.
    """

    def __init__(
        self,
        aging: Aging,
        time_dim: int,
        batch_shape: torch.Size,
        noise: Tensor | None,
        noise_prior: Prior | _DefaultType | None,
        noise_constraint: Interval | None,
    ) -> None:
        super().__init__()
        self.aging = aging
        self.time_dim = time_dim
        self.now: Tensor | None = None
        self.train_X: Tensor | None = None
        self.row_noise: Tensor | None = None
        self.learned = noise is None or bool(noise.isnan().any())
        if noise is not None:
            self.row_noise = noise.clamp_min(min_fixed_noise.value(noise.dtype))
        if self.learned:
            self._register_noise(batch_shape, noise_prior, noise_constraint)

    def _register_noise(
        self,
        batch_shape: torch.Size,
        prior: Prior | _DefaultType | None,
        constraint: Interval | None,
    ) -> None:
        if prior == DEFAULT:
            prior = LogNormalPrior(loc=-4.0, scale=1.0)
        if constraint is None:
            start = math.exp(-4.0) if prior is None else None
            if isinstance(prior, LogNormalPrior):
                start = prior.mode
            constraint = GreaterThan(SMALLEST_LEARNED_NOISE, transform=None, initial_value=start)
        raw = torch.full((*batch_shape, 1), 1e-2)
        self.register_parameter("raw_noise", torch.nn.Parameter(raw))
        self.register_constraint("raw_noise", constraint)
        if prior is not None:
            self.register_prior(
                "noise_prior", prior, type(self)._get_learned, type(self)._set_learned
            )

    @property
    def noise(self) -> Tensor:
        """Variance at lag 0: learned, `batch_shape x 1`, or as known, `batch_shape x n`."""
        if self.learned:
            return self._get_learned()
        assert self.row_noise is not None
        return self.row_noise

    @noise.setter
    def noise(self, value: Tensor | float) -> None:
        if self.learned:
            self._set_learned(value)
        else:
            assert self.row_noise is not None
            value, least = like(value, self.row_noise), self.row_noise.new_zeros(())
            fix = "a known variance is positive and finite."
            require_bounds("AgeNoise: noise", value, least, least + largest(value.dtype), fix)
            self.row_noise = value

    def _get_learned(self) -> Tensor:
        return self.raw_noise_constraint.transform(self.raw_noise)  # type: ignore[no-any-return]

    def _set_learned(self, value: Tensor | float) -> None:
        value = like(value, self.raw_noise)
        bounds = self.raw_noise_constraint
        require_bounds(
            "AgeNoise: noise",
            value,
            bounds.lower_bound,
            bounds.upper_bound,
            "give noise_constraint for other bounds, or known variances as noise.",
        )
        self.initialize(raw_noise=self.raw_noise_constraint.inverse_transform(value))

    @property
    def fresh(self) -> Tensor:
        """Variance of a new observation, `batch_shape x 1`: the mean where all are known."""
        if self.learned:
            return self._get_learned()
        assert self.row_noise is not None
        return self.row_noise.mean(-1, keepdim=True)

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> AgeNoise:
        # Plain attributes, not buffers: a state dict must load onto another number of rows.
        for name in ("now", "train_X", "row_noise"):
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, fn(value))
        return super()._apply(fn)  # type: ignore[no-any-return]

    def forward(
        self,
        *params: Tensor | Sequence[Tensor],
        shape: torch.Size | None = None,
        noise: Tensor | None = None,
    ) -> DiagLinearOperator:
        """Noise covariance of observations.

        Args:
            params: The inputs of the observations, `... x n x d`, bare or in a list; none stands
                for the training data, as BoTorch's pathwise sampling and cross-validation have it.
            shape: Shape of the observations, `... x n`.
            noise: Their variances, where the caller knows better, `... x n`.

        Raises:
            InputDataError: If no inputs are given and ``shape`` is not that of the training data,
                or there is none.
        """
        if noise is not None:
            return DiagLinearOperator(noise if shape is None else noise.expand(shape))
        X = next((p if isinstance(p, Tensor) else p[0] for p in params), None)
        if X is None and self.train_X is None:
            # Without a time there is no age; taken for new, old observations would count in full.
            if not self._constant:
                raise InputDataError(
                    "AgeNoise: observations without inputs, and no training data that they could "
                    "stand for, have no time to age from; pass their inputs, as in "
                    "likelihood(model(X), X), or tell the data by set_training_data."
                )
            if shape is None:
                raise InputDataError("AgeNoise: without inputs the shape is needed.")
            return DiagLinearOperator(self.fresh.expand(self._joint(self.fresh.shape, shape)))
        variance = self.of_training() if X is None or self._is_training(X) else self.of(X)
        if shape is not None:
            if X is None and shape[-1] not in (variance.shape[-1], 1):
                raise InputDataError(
                    f"AgeNoise: {shape[-1]} observations without inputs, which would stand for the "
                    f"{variance.shape[-1]} of the training data; pass their inputs, as in "
                    "likelihood(model(X), X)."
                )
            variance = variance.expand(self._joint(variance.shape, shape))
        return DiagLinearOperator(variance)

    @property
    def _constant(self) -> bool:
        """Whether nothing ages."""
        return isinstance(self.aging, FixedAging) and is_static(self.aging.inflation)

    @staticmethod
    def _joint(variance: torch.Size, shape: torch.Size) -> torch.Size:
        return torch.broadcast_shapes(variance, shape)  # type: ignore[no-any-return, no-untyped-call]

    def _is_training(self, X: Tensor) -> bool:
        """Whether these are the training inputs; only matters where their variances are known."""
        if self.row_noise is None or self.train_X is None:
            return False
        if X.shape[-2] != self.train_X.shape[-2]:
            return False
        # In training mode only the training data is ever shown, transformed or not.
        return self.training or X is self.train_X or torch.equal(X, self.train_X)

    def of_training(self, power: float = 1.0) -> Tensor:
        """Variances of the training data at ``now``, `... x n`.

        Args:
            power: Power of the factor by which noise grows with the lag.
        """
        assert self.train_X is not None
        base = self._get_learned() if self.learned else None
        if self.row_noise is not None:
            known = self.row_noise
            base = known if base is None else torch.where(known.isnan(), base, known)
        assert base is not None
        return self._aged(base, self.train_X, power)

    def of(self, X: Tensor, noise: Tensor | None = None) -> Tensor:
        """Variances `... x n` of observations at ``X`` other than the training data's.

        Args:
            X: Their inputs, `... x n x d`.
            noise: Their variances at lag 0, `... x n`; those of a new observation where None.
        """
        return self._aged(self.fresh if noise is None else noise, X)

    def grow(self, before: AgeNoise, inputs: Tensor, X: Tensor, noise: Tensor | None) -> None:
        """Know the variances at lag 0 of more training data than another had.

        Args:
            before: The noise of the data without the new.
            inputs: All training inputs, `... x n x d`, the new ones last.
            X: The new ones, `... x q x d`.
            noise: Their variances at lag 0, `... x q`; as :attr:`fresh` where None.
        """
        old, q = before.row_noise, X.shape[-2]
        if noise is None and old is not None and not self.learned:
            noise = before.fresh.expand(*old.shape[:-1], q)
        self.row_noise = joined(old, noise, inputs.shape[-2] - q, q, inputs)

    def _aged(self, base: Tensor, X: Tensor, power: float = 1.0) -> Tensor:
        """Variances `... x n` from those at lag 0; lags count back from ``now``.

        Weights below the square root of the smallest number are as good as zero in any sum with
        the newest observation's; the cap keeps their inverses finite.
        """
        times = X[..., self.time_dim]
        reference = times.amax(-1) if self.now is None else like(self.now, times)
        lag = (reference.unsqueeze(-1) - times).clamp_min(0.0)
        largest = 0.45 * math.log(torch.finfo(times.dtype).max)
        return base * torch.exp((power * self.aging.log_factor(lag)).clamp_max(largest))
