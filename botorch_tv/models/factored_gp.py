"""A ``SingleTaskGP`` that predicts from one Cholesky factor."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import torch
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from gpytorch.utils.warnings import GPInputWarning
from linear_operator import to_dense, to_linear_operator
from linear_operator.operators import LinearOperator, MatmulLinearOperator, ZeroLinearOperator
from torch import Tensor

from botorch_tv.models.checks import check_batches, check_honoured
from botorch_tv.models.regression import GrowingRegression
from botorch_tv.models.shared_inputs import SharedInputsGP
from botorch_tv.models.snapshot import ParameterSnapshot


class FactoredGP(SharedInputsGP):
    """Exact regression whose factor serves means, variances and gains alike."""

    prediction_strategy: GrowingRegression | None
    _row_noise: Tensor | None = None
    """Variances given with single observations to a likelihood that learns one for all, NaN for
    the others; `... x n`."""

    def __call__(self, *args: Tensor, **kwargs: Any) -> MultivariateNormal:
        """The prior in training mode, the posterior of f else, at inputs `... x q x d`."""
        no_data = self.train_inputs is None or self.train_targets is None
        if self.training or no_data or settings.prior_mode.on():
            prior: MultivariateNormal = super().__call__(*args, **kwargs)
            return self._with_known_noise(prior) if self.training else prior
        (X,) = args
        if settings.debug.on() and X.shape == self.train_inputs[0].shape:
            _warn_of_training_data(X, self.train_inputs[0])
        return self._posterior_at(X.unsqueeze(-1) if X.dim() == 1 else X)

    def _posterior_at(self, X: Tensor) -> MultivariateNormal:
        """Posterior of f at transformed inputs `... x q x d`."""
        check_batches(X, self.train_targets.shape[:-1])
        regression = self._regression()
        explained = self._explained(regression, X)  # ... x n x q
        shift = explained.mT @ regression.whitened.unsqueeze(-1)
        mean: Tensor = self.mean_module(X) + shift.squeeze(-1)
        if settings.skip_posterior_variances.on():
            return MultivariateNormal(mean, ZeroLinearOperator(*mean.shape, mean.shape[-1]))
        covariance = self._less(X, explained)
        batch = torch.broadcast_shapes(mean.shape[:-1], covariance.shape[:-2])  # type: ignore[no-untyped-call]
        return MultivariateNormal(
            mean.expand(*batch, mean.shape[-1]), covariance.expand(*batch, *covariance.shape[-2:])
        )

    def information_gain(self) -> Tensor:
        """½ ln det(I + N^(-½) K N^(-½)) of the training data, in nats, `batch_shape`."""
        self.eval()
        gain: Tensor = self._regression().triangle.diagonal(dim1=-1, dim2=-2).log().sum(-1)
        return gain

    def _explained(self, regression: GrowingRegression, X: Tensor) -> Tensor:
        """L⁻¹ S k at transformed test points `... x q x d`: `... x n x q`."""
        inputs = regression.inputs
        if inputs.dim() > 2 or len(self.covar_module.batch_shape):
            return regression.explained(self._covariance(inputs, X))
        # One set of observations for all test points: a single solve with all their columns.
        points = X.reshape(-1, X.shape[-1])
        flat = regression.explained(self._covariance(inputs, points))
        return flat.mT.reshape(*X.shape[:-1], flat.shape[-2]).mT

    def _less(self, X: Tensor, explained: Tensor) -> LinearOperator:
        """Prior covariance at ``X`` less what the data explains, `... x q x q`."""
        if X.shape[-2] == 1:
            prior = self.covar_module(X, diag=True).unsqueeze(-1)  # ... x 1 x 1
            length = torch.linalg.vector_norm(explained, dim=-2, keepdim=True)
            return to_linear_operator(prior - length.square())
        if X.shape[-2] <= settings.max_eager_kernel_size.value():
            return to_linear_operator(self._covariance(X, X) - explained.mT @ explained)
        # Left lazy: many test points are usually asked for their variances alone.
        return self.covar_module(X) + MatmulLinearOperator(explained.mT, -explained)

    def _covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """Prior covariance between inputs, `... x n x q`."""
        with settings.lazily_evaluate_kernels(False):
            dense: Tensor = to_dense(self.covar_module(first, second))
        return dense

    def _regression(self) -> GrowingRegression:
        """The regression on the training data, computed where it is not at hand."""
        attached = settings.detach_test_caches.off()
        cached = self.prediction_strategy
        if cached is not None and not self._made_as_now(cached):
            cached = None
        if cached is None or (attached and not cached.attached):
            with torch.set_grad_enabled(attached and torch.is_grad_enabled()):
                cached = self._fit_regression(self.train_inputs[0], attached)
            self.prediction_strategy = self._stamped(cached)
        return self.prediction_strategy  # type: ignore[return-value]

    def _stamped(self, regression: GrowingRegression) -> GrowingRegression:
        """The same, knowing which parameters it was computed from."""
        return replace(regression, made_from=ParameterSnapshot.take(*self._ingredients()))

    def _made_as_now(self, regression: GrowingRegression) -> bool:
        """Whether parameters are what they were when a regression was computed."""
        made_from = regression.made_from
        return made_from is None or made_from.holds(*self._ingredients())

    def _ingredients(self) -> tuple[list[Tensor], list[Tensor]]:
        """Parameters and buffers; tensors of the size of the data."""
        return [*self.parameters(), *self.buffers()], self._data_elsewhere()

    def _data_elsewhere(self) -> list[Tensor]:
        """Tensors of the size of the data, besides inputs and targets, that copies set anew."""
        held = [self._row_noise]
        if isinstance(self.likelihood, FixedNoiseGaussianLikelihood):
            held.append(self.likelihood.noise_covar.noise)
        return [tensor for tensor in held if tensor is not None]

    def _fit_regression(self, inputs: Tensor, attached: bool) -> GrowingRegression:
        return GrowingRegression.fit(
            inputs,
            self._covariance(inputs, inputs),
            self._training_noise(inputs),
            self.train_targets - self.mean_module(inputs),
            attached,
        )

    def _training_noise(self, inputs: Tensor) -> Tensor:
        """Noise variances of the training data, `... x n`."""
        check_honoured(self)
        noise: Tensor = self.likelihood._shaped_noise_covar(inputs.shape[:-1], [inputs]).diagonal(
            dim1=-1, dim2=-2
        )
        if self._row_noise is None:
            return noise
        return torch.where(self._row_noise.isnan(), noise, self._row_noise)

    def _with_known_noise(self, prior: MultivariateNormal) -> MultivariateNormal:
        """The prior of the training data, ready for a marginal likelihood, which adds one noise.

        Where variances of single rows are known their difference from that one is added here.
        """
        if self._row_noise is None:
            return prior
        (inputs,) = self.train_inputs
        added = self.likelihood._shaped_noise_covar(inputs.shape[:-1], [inputs])
        difference = self._training_noise(inputs) - added.diagonal(dim1=-1, dim2=-2)
        covariance = prior.lazy_covariance_matrix.add_diagonal(difference)
        return MultivariateNormal(prior.mean, covariance)

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Self:
        # Analytic acquisition functions send their model to the device of X in every call.
        if fn(self.train_targets) is not self.train_targets:
            self.prediction_strategy = None
        if self._row_noise is not None:
            self._row_noise = fn(self._row_noise)
        return super()._apply(fn)  # type: ignore[no-any-return]


def _warn_of_training_data(X: Tensor, inputs: Tensor) -> None:
    """As GPyTorch does where a posterior is asked for that a loss would take for the prior."""
    if torch.equal(X, inputs):
        warnings.warn(
            "The input matches the stored training data. Did you forget to call model.train()?",
            GPInputWarning,
            stacklevel=4,
        )
