"""A Gaussian likelihood whose noise grows with the age of an observation."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from botorch.exceptions import InputDataError
from botorch.utils.types import DEFAULT, _DefaultType
from gpytorch.constraints import GreaterThan, Interval
from gpytorch.likelihoods.gaussian_likelihood import _GaussianLikelihoodBase
from gpytorch.likelihoods.noise_models import HomoskedasticNoise, Noise
from gpytorch.priors import LogNormalPrior, Prior
from gpytorch.settings import min_fixed_noise
from linear_operator.operators import DiagLinearOperator
from torch import Size, Tensor

from botorch_tv.forgetting import Inflation
from botorch_tv.forgetting.base import with_values
from botorch_tv.forgetting.formulas import require_inflating
from botorch_tv.kernels.declared import Declared, Priors, like
from botorch_tv.validation import require

NO_BATCH = Size()


class Aging(Declared):
    """An inflation of noise as a PyTorch module; its declared parameters can be learned.

    Args:
        inflation: The inflation; its parameters are initial values.
        batch_shape: Batch shape of the parameters.
        priors: Priors by parameter name, None for no prior; other parameters have their declared
            priors. A prior is a distribution of the parameter, with time in the unit of the inputs.
            For a share that is retained per unit of time, such as γ, the prior is a distribution of
            1 - γ.
        learn: Whether the parameters of the inflation are learned; if False, they keep their
            initial values.

    Raises:
        ValueError: If ``inflation`` is not an inflation, or not a function of its declared
            parameters.
    """

    def __init__(
        self,
        inflation: Inflation,
        batch_shape: Size = NO_BATCH,
        priors: Priors | None = None,
        learn: bool = True,
    ) -> None:
        require_inflating(inflation)
        super().__init__()
        self.declare(inflation, batch_shape, 1, priors or {}, {}, learn=learn)

    @property
    def inflation(self) -> Inflation:
        """The inflation with the initial values of its parameters."""
        return self.part

    def log_factor(self, lag: Tensor) -> Tensor:
        """Logarithm of the factor by which the noise variance grows, `... x n`; 0 at lag 0.

        Args:
            lag: Lags, `... x n`, at least 0; the leading dimensions broadcast with the batch.
        """
        return with_values(self.inflation, self.learned()).log_factor(lag / self.unit)


def learnable(inflation: Inflation, batch_shape: Size) -> Aging:
    """An inflation with learnable parameters and default priors.

    Args:
        inflation: The inflation with the initial values.
        batch_shape: Batch shape of the parameters.

    Raises:
        ValueError: If the inflation depends on age but declares no parameters.
    """
    if inflation.is_static:
        return Aging(inflation, learn=False)
    require(
        bool(inflation.parameters),
        f"{inflation!r} declares no parameters, so none can be learned; declare parameters in its "
        "class, or give Aging(inflation, learn=False) to fix the inflation.",
    )
    return Aging(inflation, batch_shape)


# The likelihood.


def stacked(first: Tensor, second: Tensor, dim: int) -> Tensor:
    """Two tensors concatenated along ``dim``; the dimensions before ``dim`` broadcast.

    Args:
        first: The first tensor, `batch_shape x n x ...`.
        second: The second tensor, `batch_shape' x q x ...`.
        dim: Negative index of the dimension to concatenate, of size n in ``first`` and q in
            ``second``.
    """
    shape = torch.broadcast_shapes(first.shape[:dim], second.shape[:dim])  # type: ignore[no-untyped-call]
    return torch.cat(
        [first.expand(shape + first.shape[dim:]), second.expand(shape + second.shape[dim:])], dim
    )


def joined(
    old: Tensor | None, new: Tensor | None, rows: int, added: int, like: Tensor
) -> Tensor | None:
    """Noise variances of all rows, NaN for learned variances; None if no variances are given.

    Args:
        old: Variances of the old rows, `batch_shape x rows`; None if their variance is learned.
        new: Variances of the new rows, `batch_shape x added`; None if their variance is learned.
        rows: Number of old rows.
        added: Number of new rows.
        like: A tensor with the dtype and the device of the result.
    """
    if old is None and new is None:
        return None
    unknown = like.new_full((), torch.nan)
    old = unknown.expand(rows) if old is None else old
    return stacked(old, unknown.expand(added) if new is None else new, -1)


SMALLEST_LEARNED_NOISE = 1e-4
"""BoTorch's lower bound on an inferred noise variance."""


class AgeNoise(HomoskedasticNoise):  # type: ignore[misc]
    """Noise variances of observations, computed from their ages at ``now``.

    There are three cases. For training data, this object stores the times and, if they are given,
    the noise variances at lag 0. For inputs that are not training data, the times come from these
    inputs. If a call passes variances, these variances are used unchanged.

    Args:
        aging: How noise grows with the lag.
        time_dim: Index of the column of time.
        batch_shape: Batch shape of the learned variance.
        noise: The noise variance of each training observation when its lag is 0, `batch_shape x n`.
            NaN marks an observation with the learned variance; if None, all observations have the
            learned variance.
        noise_prior: Prior of the learned variance, None for no prior; by default BoTorch's
            log-normal prior.
        noise_constraint: Bounds of the learned variance; None for BoTorch's bounds.
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
        learned = noise is None or bool(noise.isnan().any())
        if not learned:
            Noise.__init__(self)
        else:
            if noise_prior == DEFAULT:
                noise_prior = LogNormalPrior(loc=-4.0, scale=1.0)
            # BoTorch's bounds and initial value.
            usual = GreaterThan(
                SMALLEST_LEARNED_NOISE, transform=None, initial_value=math.exp(-5.0)
            )
            super().__init__(noise_prior, noise_constraint or usual, batch_shape)
        self.aging, self.time_dim, self.learned = aging, time_dim, learned
        self.now: Tensor | None = None
        self.train_X: Tensor | None = None
        self.row_noise: Tensor | None = None
        if noise is not None:
            self.row_noise = noise.clamp_min(min_fixed_noise.value(noise.dtype))

    @property
    def noise(self) -> Tensor:
        """Variance at lag 0: learned, `batch_shape x 1`, or given, `batch_shape x n`."""
        if self.learned:
            return self.raw_noise_constraint.transform(self.raw_noise)
        assert self.row_noise is not None
        return self.row_noise

    @noise.setter
    def noise(self, value: Tensor | float) -> None:
        self._set_noise(value)

    def _set_noise(self, value: Tensor | float) -> None:
        if self.learned:
            super()._set_noise(like(value, self.raw_noise))
        else:
            self.row_noise = like(value, self.noise)

    @property
    def fresh(self) -> Tensor:
        """The learned variance, or the mean of the given variances, `batch_shape x 1`."""
        return self.noise if self.learned else self.noise.mean(-1, keepdim=True)

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> AgeNoise:
        # These are plain attributes, not buffers, because a state dict must load for any number of
        # rows.
        for name in ("now", "train_X", "row_noise"):
            value = getattr(self, name)
            if value is not None:
                setattr(self, name, fn(value))
        return super()._apply(fn)

    def forward(
        self,
        *params: Tensor | Sequence[Tensor],
        shape: torch.Size | None = None,
        noise: Tensor | None = None,
    ) -> DiagLinearOperator:
        """Noise covariance of observations.

        Args:
            params: The inputs of the observations, `... x n x d`, as a tensor or in a list. A call
                without inputs refers to the training data, as in BoTorch's pathwise sampling and
                cross-validation.
            shape: Shape of the observations, `... x n`.
            noise: Variances of the observations, `... x n`; None to compute the variances from the
                ages of the observations.

        Raises:
            InputDataError: If there are neither inputs nor training data.
        """
        if noise is not None:
            return DiagLinearOperator(noise if shape is None else noise.expand(shape))
        X = next((p if isinstance(p, Tensor) else p[0] for p in params), None)
        if X is None and self.train_X is None:
            # Without a time there is no age, and old observations would count as new.
            if not self.aging.inflation.is_static:
                raise InputDataError(
                    "AgeNoise: observations without inputs or training data have no age; pass "
                    "inputs, likelihood(model(X), X), or call set_training_data(X)."
                )
            variance = self.fresh
        else:
            variance = self.of_training() if X is None or self._is_training(X) else self.of(X)
        if shape is not None:
            joint = torch.broadcast_shapes(variance.shape, shape)  # type: ignore[no-untyped-call]
            variance = variance.expand(joint)
        return DiagLinearOperator(variance)

    def _is_training(self, X: Tensor) -> bool:
        """Whether ``X`` equals the training inputs; False if no variances are given."""
        if self.row_noise is None or self.train_X is None:
            return False
        if X.shape[-2] != self.train_X.shape[-2]:
            return False
        # In training mode all inputs are the training data, possibly transformed.
        return self.training or X is self.train_X or torch.equal(X, self.train_X)

    def of_training(self, power: float = 1.0) -> Tensor:
        """Variances of the training data at ``now``, `... x n`.

        Args:
            power: Power to which the growth factor of the noise is raised.
        """
        assert self.train_X is not None
        base = self.noise
        if self.learned and self.row_noise is not None:
            base = torch.where(self.row_noise.isnan(), base, self.row_noise)
        return self._aged(base, self.train_X, power)

    def of(self, X: Tensor, noise: Tensor | None = None) -> Tensor:
        """Variances, `... x n`, of observations that are not training data.

        Args:
            X: Inputs, `... x n x d`.
            noise: Variances at lag 0, `... x n`; None for the variance of a new observation.
        """
        return self._aged(self.fresh if noise is None else noise, X)

    def grow(self, before: AgeNoise, inputs: Tensor, X: Tensor, noise: Tensor | None) -> None:
        """Set the variances at lag 0 after new rows were added to the training data.

        Args:
            before: The noise of the training data before the new rows were added.
            inputs: All training inputs, `... x n x d`, the new rows last.
            X: The new inputs, `... x q x d`.
            noise: The noise variance of each new row when its lag is 0, `... x q`; None for the
                variance :attr:`fresh`.
        """
        old, q = before.row_noise, X.shape[-2]
        if noise is None and old is not None and not self.learned:
            noise = before.fresh.expand(*old.shape[:-1], q)
        self.row_noise = joined(old, noise, inputs.shape[-2] - q, q, inputs)

    def _aged(self, base: Tensor, X: Tensor, power: float = 1.0) -> Tensor:
        """Variances, `... x n`, from variances at lag 0; lags count back from ``now``.

        The growth factor of the noise has a cap, so variances are finite. The cap is reached only
        for observations whose weight is negligible next to the weight of the newest observation.
        """
        times = X[..., self.time_dim]
        reference = times.amax(-1) if self.now is None else like(self.now, times)
        lag = (reference.unsqueeze(-1) - times).clamp_min(0.0)
        largest = 0.45 * math.log(torch.finfo(times.dtype).max)
        return base * torch.exp((power * self.aging.log_factor(lag)).clamp_max(largest))


class AgeNoiseLikelihood(_GaussianLikelihoodBase):  # type: ignore[misc]
    r"""A Gaussian likelihood whose noise grows with age: λ · inflation(now - t).

    .. math:: p(y \mid f, t) = N(f, \lambda\, n(\text{now} - t))

    with n(lag) = γ^(-lag) ([W22] eq. (2)-(3)) or 1 + κ lag^α ([M] eq. (8)-(10)). Ages come from the
    column of time of the inputs; an observation at ``now`` or later has lag 0. A call without
    inputs refers to the training data, which :class:`TimeVaryingGP` sets. For other data,
    pass the inputs too: ``likelihood(model(X), X)``.

    Age noise depends on ``now``, so there is no joint prior over all times; the marginal likelihood
    uses the noise variances at ``now``.

    Args:
        inflation: An inflation; its parameters (γ, or α and κ) are initial values and are learned
            under default priors. Pass an :class:`Aging` for other priors, or with ``learn=False``
            for parameters that are not learned.
        time_dim: Index of the column of time, which input transforms must not change.
        now: The time at which lags are 0, a number or `batch_shape`; None for the time of the
            newest given input.
        noise: The noise variance of each training observation when its lag is 0, `batch_shape x n`.
            NaN marks an observation with the learned variance λ. If no entry is NaN, the variance
            of a new observation is the mean of the given variances. If None, all observations have
            the learned variance λ.
        batch_shape: Batch shape of the learned parameters.
        noise_prior: Prior of λ, None for no prior; by default BoTorch's log-normal prior.
        noise_constraint: Bounds of λ; None for BoTorch's lower bound, 1e-4.

    Raises:
        ValueError: If ``inflation`` depends on age but declares no parameters, or if
            :class:`Aging` rejects it.

    Example:
        >>> likelihood = AgeNoiseLikelihood(ExponentialWeights(gamma=0.97), now=100.0)
        >>> likelihood(model(X), X)  # X carries time in its last column
    """

    def __init__(
        self,
        inflation: Inflation | Aging,
        time_dim: int = -1,
        now: float | Tensor | None = None,
        noise: Tensor | None = None,
        batch_shape: torch.Size = torch.Size(),  # noqa: B008 (immutable)
        noise_prior: Prior | _DefaultType | None = DEFAULT,
        noise_constraint: Interval | None = None,
    ) -> None:
        aging = inflation if isinstance(inflation, Aging) else learnable(inflation, batch_shape)
        covar = AgeNoise(aging, time_dim, batch_shape, noise, noise_prior, noise_constraint)
        super().__init__(covar)
        self.set_now(now)

    @property
    def noise(self) -> Tensor:
        """Variance at lag 0: learned, `batch_shape x 1`, or given, `batch_shape x n`."""
        return self.noise_covar.noise

    @noise.setter
    def noise(self, value: Tensor | float) -> None:
        self.noise_covar.noise = value

    @property
    def aging(self) -> Aging:
        """How noise grows with the lag."""
        return self.noise_covar.aging

    @property
    def now(self) -> Tensor | None:
        """The time at which lags are 0; None for the newest input's time. See :meth:`set_now`."""
        return self.noise_covar.now

    def set_now(self, now: float | Tensor | None) -> None:
        """Set the present. A model with cached predictions must be updated too, by its ``set_now``.

        Args:
            now: The time at which lags are 0, a number or broadcastable with `batch_shape`; None
                for the time of the newest given input.
        """
        if isinstance(now, Tensor):
            now = now.clone()  # the caller's tensor may change in place
        elif now is not None:
            now = torch.tensor(now, dtype=torch.float64, device="cpu")
        self.noise_covar.now = now

    def set_training_data(self, X: Tensor) -> None:
        """Set the training inputs, which calls without inputs use.

        The noise variances that were given for the training data belong to these inputs.

        Args:
            X: Training inputs, `... x n x d`.
        """
        self.noise_covar.train_X = X
