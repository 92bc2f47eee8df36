"""A ``SingleTaskGP`` that predicts from a Cholesky factor; new observations extend the factor.

With prior covariance K, noise variances N and S = N^(-1/2), the factored matrix is I + S K S. The
eigenvalues of I + S K S are at least 1 for any noise and any points, so no jitter is needed. If
an observation has infinite noise variance, its entry of S = N^(-1/2) is 0, and the likelihood does
not depend on the observation.

BoTorch repeats the inputs for each of m outputs, along a dimension of size m, and passes these
repeated inputs to the input transform. If the input transform has a batch shape, it would confuse
the dimension of the outputs with its own batch dimension. Therefore this model transforms the
inputs only once for all outputs.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import Any, Self

import torch
from botorch import settings as botorch_settings
from botorch.models import SingleTaskGP
from botorch.models.utils.assorted import fantasize as for_fantasies
from gpytorch import settings
from gpytorch.distributions import MultivariateNormal
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood, GaussianLikelihood
from gpytorch.likelihoods.gaussian_likelihood import _GaussianLikelihoodBase
from gpytorch.utils.warnings import GPInputWarning
from linear_operator import to_dense, to_linear_operator
from linear_operator.operators import LinearOperator, MatmulLinearOperator, ZeroLinearOperator
from torch import Tensor, nn

from botorch_tv.gp.cholesky import cholesky, correlation, further_rows, log_diagonal, solved
from botorch_tv.likelihoods.age_noise import joined, stacked
from botorch_tv.models.training_data import check_data, check_rows, check_values
from botorch_tv.validation import require


class GrowingRegression:
    """A Gaussian-process posterior that further observations can extend.

    Args:
        inputs: New transformed inputs, `batch_shape x q x d`; batch shapes broadcast.
        covariance: Prior covariance K of the new observations, `batch_shape x q x q`.
        noise: Noise variances of the new observations, `batch_shape x q`.
        residual: New observations minus their prior mean, `target_batch_shape x q`.
        attached: Whether to retain the autograd graph, which gradients need.
        before: The regression on n earlier observations, to which the q new observations are added
            in O(n² q); None if there are no earlier observations.
        across: Prior covariance between earlier and new observations, `batch_shape x n x q`.

    Attributes:
        scale: S = N^(-1/2) of all observations, `batch_shape x (n + q)`.
        triangle: Lower Cholesky factor L of I + S K S, `batch_shape x (n + q) x (n + q)`.
        whitened: L⁻¹ S (y - m) of observations y with prior mean m, `target_batch_shape x (n + q)`.
    """

    def __init__(
        self,
        inputs: Tensor,
        covariance: Tensor,
        noise: Tensor,
        residual: Tensor,
        attached: bool,
        before: GrowingRegression | None = None,
        across: Tensor | None = None,
    ) -> None:
        self.attached, scale = attached, noise.rsqrt()
        if before is None or across is None:
            self.inputs, self.scale = inputs, scale
            self.triangle = cholesky(covariance, scale, checked=True)
            self.whitened = solved(self.triangle, (scale * residual).unsqueeze(-1)).squeeze(-1)
            return
        beside = (before.scale.unsqueeze(-1) * across * scale.unsqueeze(-2)).mT
        own = correlation(covariance, scale)
        below, last = further_rows(before.triangle, beside, own, checked=True)
        right = scale * residual - (below @ before.whitened.unsqueeze(-1)).squeeze(-1)
        above = nn.functional.pad(before.triangle, (0, last.shape[-1]))
        self.inputs = stacked(before.inputs, inputs, -2)
        self.scale = stacked(before.scale, scale, -1)
        self.triangle = stacked(above, stacked(below.mT, last.mT, -2).mT, -2)
        self.whitened = stacked(before.whitened, solved(last, right.unsqueeze(-1)).squeeze(-1), -1)

    def explained(self, across: Tensor) -> Tensor:
        """L⁻¹ S k, the whitened covariance with test points, `... x n x q`.

        Args:
            across: Prior covariance between observations and test points, `... x n x q`.
        """
        return solved(self.triangle, self.scale.unsqueeze(-1) * across)

    def __deepcopy__(self, memo: dict[int, Any]) -> None:
        """Return None: the copy of a model has no regression until it predicts, as in GPyTorch."""


class GrowingGP(SingleTaskGP):  # type: ignore[misc]
    """Exact regression by a Cholesky factor that grows with the data.

    An update costs O(n²). Predictions equal the predictions of a model built from all data. The
    model stores only the data and the factor. As in GPyTorch, the factor is cached; it is
    recomputed after ``train()``, ``set_train_data()`` and ``load_state_dict()``.
    """

    prediction_strategy: GrowingRegression | None
    _row_noise: Tensor | None = None
    """Noise variances given for some observations, NaN for the others, `... x n`.

    The likelihood learns one variance for all other observations.
    """
    _has_transformed_inputs: bool

    @staticmethod
    def _validate_tensor_args(X: Tensor, Y: Tensor, Yvar: Any = None, strict: Any = True) -> None:
        # BoTorch calls this method before and after it transforms the data of a new model.
        check_values("X, as transformed,", X)
        check_values("Y, as transformed,", Y)
        if Yvar is not None:  # may be infinite
            check_values("Yvar", Yvar.clamp_max(0))
        SingleTaskGP._validate_tensor_args(X, Y, Yvar, strict)

    def forward(self, x: Tensor) -> MultivariateNormal:
        """The prior at given inputs; in training mode, the inputs are transformed first.

        Args:
            x: Inputs, `... x q x d`.
        """
        if self.training and x.shape == self.train_inputs[0].shape:
            x = self._for_each_output(self.transform_inputs, x)
        elif self.training:
            x = self.transform_inputs(x)
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def transform_inputs(self, X: Tensor, input_transform: nn.Module | None = None) -> Tensor:
        """Transform inputs as BoTorch does; training inputs are transformed once for all outputs.

        Args:
            X: Inputs, `... x q x d`.
            input_transform: The input transform; None for the input transform of the model.

        Returns:
            Transformed inputs, `... x q x d'`.
        """
        training = getattr(self, "train_inputs", None)
        if input_transform is None and training is not None and X is training[0]:
            return self._for_each_output(super().transform_inputs, X)
        return super().transform_inputs(X, input_transform)

    def _for_each_output(self, transform: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
        """Transform training inputs `... x (m) x n x d` once for all m outputs."""
        if self.num_outputs == 1:
            return transform(inputs)
        shared = transform(inputs.select(-3, 0))
        return shared.unsqueeze(-3).expand(*inputs.shape[:-2], *shared.shape[-2:])

    def _set_transformed_inputs(self) -> None:
        if hasattr(self, "input_transform") and not self._has_transformed_inputs:
            original = self.train_inputs[0]
            with torch.no_grad():
                preprocess = self.input_transform.preprocess_transform
                transformed = self._for_each_output(preprocess, original)
            self._original_train_inputs = original
            self.set_train_data(transformed, strict=False)
            self._has_transformed_inputs = True

    def __call__(self, *args: Tensor, **kwargs: Any) -> MultivariateNormal:
        """The prior in training mode, else the posterior of f, at inputs `... x q x d`."""
        no_data = self.train_inputs is None or self.train_targets is None
        if self.training or no_data or settings.prior_mode.on():
            prior: MultivariateNormal = super().__call__(*args, **kwargs)
            return self._with_given_noise(prior) if self.training else prior
        (X,) = args
        if settings.debug.on() and torch.equal(X, self.train_inputs[0]):
            # GPyTorch's own warning: a loss needs the prior, which requires training mode.
            message = (
                "The input matches the stored training data. Did you forget to call model.train()?"
            )
            warnings.warn(message, GPInputWarning, stacklevel=2)
        return self._posterior_at(X.unsqueeze(-1) if X.dim() == 1 else X)

    def _posterior_at(self, X: Tensor) -> MultivariateNormal:
        """Posterior of f at transformed inputs `... x q x d`."""
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
        """Information gain ½ ln det(I + N^(-½) K N^(-½)) of the data in nats, `batch_shape`."""
        self.eval()
        return log_diagonal(self._regression().triangle)

    def _explained(self, regression: GrowingRegression, X: Tensor) -> Tensor:
        """L⁻¹ S k at transformed test points `... x q x d`: `... x n x q`."""
        inputs = regression.inputs
        if inputs.dim() > 2 or len(self.covar_module.batch_shape):
            return regression.explained(self._covariance(inputs, X))
        # All test points share the observations, so a single linear solve serves all of them.
        points = X.reshape(-1, X.shape[-1])
        flat = regression.explained(self._covariance(inputs, points))
        return flat.mT.reshape(*X.shape[:-1], flat.shape[-2]).mT

    def _less(self, X: Tensor, explained: Tensor) -> LinearOperator:
        """Posterior covariance: the prior at ``X`` minus the explained part, `... x q x q`."""
        if X.shape[-2] == 1:
            prior = self.covar_module(X, diag=True).unsqueeze(-1)  # ... x 1 x 1
            length = torch.linalg.vector_norm(explained, dim=-2, keepdim=True)
            return to_linear_operator(prior - length.square())
        if X.shape[-2] <= settings.max_eager_kernel_size.value():
            return to_linear_operator(self._covariance(X, X) - explained.mT @ explained)
        # The result is lazy, because callers usually need only the variances of many test points.
        return self.covar_module(X) + MatmulLinearOperator(explained.mT, -explained)

    def _covariance(self, first: Tensor, second: Tensor) -> Tensor:
        """Prior covariance between inputs, `... x n x q`."""
        with settings.lazily_evaluate_kernels(False):
            dense: Tensor = to_dense(self.covar_module(first, second))
        return dense

    def _regression(self) -> GrowingRegression:
        """The regression on the training data, from the cache if possible."""
        attached = settings.detach_test_caches.off()
        cached = self.prediction_strategy
        if cached is None or (attached and not cached.attached):
            with torch.set_grad_enabled(attached and torch.is_grad_enabled()):
                cached = self._fit_regression(self.train_inputs[0], attached)
            self.prediction_strategy = cached
        return cached

    def _load_from_state_dict(self, *args: Any, **kwargs: Any) -> None:
        self.prediction_strategy = None
        super()._load_from_state_dict(*args, **kwargs)

    def _fit_regression(self, inputs: Tensor, attached: bool) -> GrowingRegression:
        return GrowingRegression(
            inputs,
            self._covariance(inputs, inputs),
            self._training_noise(inputs),
            self.train_targets - self.mean_module(inputs),
            attached,
        )

    def _training_noise(self, inputs: Tensor) -> Tensor:
        """Noise variances of the training data, `... x n`."""
        check_honoured(self)
        noise = self._added_noise(inputs)
        if self._row_noise is None:
            return noise
        return torch.where(self._row_noise.isnan(), noise, self._row_noise)

    def _added_noise(self, X: Tensor) -> Tensor:
        """Noise variances that the likelihood adds at ``X``, `... x q`."""
        added = self.likelihood._shaped_noise_covar(X.shape[:-1], [X])
        return added.diagonal(dim1=-1, dim2=-2)

    def _with_given_noise(self, prior: MultivariateNormal) -> MultivariateNormal:
        """The prior of the training data, corrected for given noise variances.

        A marginal likelihood adds the learned noise variance to the prior variance of every row.
        Therefore this method adds the difference between the given and the learned noise variance.
        """
        if self._row_noise is None:
            return prior
        (inputs,) = self.train_inputs
        difference = self._training_noise(inputs) - self._added_noise(inputs)
        covariance = prior.lazy_covariance_matrix.add_diagonal(difference)
        return MultivariateNormal(prior.mean, covariance)

    def _apply(self, fn: Callable[[Tensor], Tensor]) -> Self:
        # Analytic acquisition functions call this method for every X, usually on the same device.
        if fn(self.train_targets) is not self.train_targets:
            self.prediction_strategy = None
        if self._row_noise is not None:
            self._row_noise = fn(self._row_noise)
        return super()._apply(fn)

    def _new_noise(self, X: Tensor, noise: Tensor | None) -> Tensor:
        """Noise variances of new observations at ``X``, `... x q`: as given, or learned."""
        if isinstance(self.likelihood, FixedNoiseGaussianLikelihood):
            # The noise that is learned in addition to the given variances is the same for all rows.
            return self._given_noise(X, noise) + self.likelihood.second_noise
        return self._added_noise(X) if noise is None else noise

    def _given_noise(self, X: Tensor, noise: Tensor | None) -> Tensor:
        """The fixed part of the noise, `... x q`: as given, or the mean over the training rows."""
        if noise is not None:
            return noise
        fixed: Tensor = self.likelihood.noise_covar.noise
        return fixed.mean(-1, keepdim=True).expand(*fixed.shape[:-1], X.shape[-2])

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None) -> Self:
        """A model conditioned on q more observations, in O(n² q).

        Args:
            X: Inputs, `batch_shape x q x d`.
            Y: Observations, `batch_shape' x q x m`, in the units of ``train_Y``. If ``Y`` has more
                batch dimensions than ``X``, the additional dimensions contain alternative
                observations at the same inputs.
            noise: Noise variances of the observations after the outcome transform, shape of ``Y``.
                By default, the noise variance of the likelihood; if the likelihood has fixed
                variances, their mean. A ``FixedNoiseGaussianLikelihood`` adds its ``second_noise``
                to the variances.

        Returns:
            A new model; ``self`` is unchanged.

        Raises:
            BotorchTensorDimensionError: If ``X``, ``Y`` and ``noise`` have different numbers of
                rows, or numbers of columns that differ from the training data.
            InputDataError: If dtypes differ or a value is NaN.
            RuntimeError: If batch shapes do not broadcast.
        """
        check_data(X, Y, columns=self.train_inputs[0].shape[-1])
        check_rows(X, Y, noise, outputs=self.num_outputs)
        self.eval()
        if hasattr(self, "outcome_transform"):
            Y, _ = self.outcome_transform(Y, X=X)
            check_values("Y, as transformed,", Y)
        fixed = isinstance(self.likelihood, FixedNoiseGaussianLikelihood)
        if for_fantasies.on() and fixed and noise is not None:
            # BoTorch passes the total noise of fantasies; the learned part is added again later.
            noise = noise - self.likelihood.second_noise
        original, *_ = self._transform_tensor_args(X, Y)
        inputs, targets, variance = self._transform_tensor_args(self.transform_inputs(X), Y, noise)
        grown = self.get_fantasy_model(inputs, targets, noise=variance)
        grown._aug_batch_shape = grown.train_targets.shape[:-1]
        grown._input_batch_shape = grown._aug_batch_shape
        if self.num_outputs > 1:
            grown._input_batch_shape = grown._aug_batch_shape[:-1]
        if hasattr(grown, "input_transform"):
            before = grown._original_train_inputs
            grown._original_train_inputs = stacked(before, original, -2).detach()
        return grown

    def get_fantasy_model(
        self, inputs: Tensor | Sequence[Tensor], targets: Tensor, **kwargs: Any
    ) -> Self:
        """A model conditioned on transformed observations; see :meth:`condition_on_observations`.

        Args:
            inputs: Transformed inputs, `... x q x d`, or a sequence that starts with them.
            targets: Transformed observations, `... x q`.
            kwargs: ``noise``: noise variances of the observations, `... x q`.
        """
        X = inputs if isinstance(inputs, Tensor) else inputs[0]
        noise: Tensor | None = kwargs.pop("noise", None)
        old = self._regression()
        graph = old.attached or X.requires_grad or targets.requires_grad
        graph |= botorch_settings.propagate_grads.on()
        with torch.set_grad_enabled(graph and torch.is_grad_enabled()):
            return self._grown(old, X, targets, noise)

    def _grown(
        self, old: GrowingRegression, X: Tensor, targets: Tensor, noise: Tensor | None
    ) -> Self:
        observations = stacked(self.train_targets, targets, -1)
        inputs = stacked(old.inputs, X, -2)
        batch = torch.broadcast_shapes(observations.shape[:-1], inputs.shape[:-2])  # type: ignore[no-untyped-call]
        # The copy shares plain tensors; the data are replaced below and by _learn_rows.
        attributes = (value for part in self.modules() for value in vars(part).values())
        data = [*self.train_inputs, *(value for value in attributes if isinstance(value, Tensor))]
        new = deepcopy(self, {id(value): value for value in data})
        new.train_inputs = (inputs.expand(*batch, *inputs.shape[-2:]),)
        new.train_targets = observations.expand(*batch, -1)
        variance = new._learn_rows(self, inputs, X, noise)
        attached = torch.is_grad_enabled()
        if variance is None:
            regression = new._fit_regression(inputs, attached)
        else:
            regression = GrowingRegression(
                X,
                self._covariance(X, X),
                variance,
                targets - self.mean_module(X),
                attached,
                before=old,
                across=self._covariance(old.inputs, X),
            )
        new.prediction_strategy = regression
        return new

    def _learn_rows(
        self, old: Self, inputs: Tensor, X: Tensor, noise: Tensor | None
    ) -> Tensor | None:
        """Add new rows to the likelihood of a model that extends ``old``.

        Args:
            old: The model before the new rows.
            inputs: All inputs, `... x n x d`, with the new rows last.
            X: The new inputs, `... x q x d`.
            noise: Noise variances of the new rows, `... x q`; None if they are not given.

        Returns:
            The variances of the new rows, `... x q`; None if variances of old rows changed too.
        """
        variance = old._new_noise(X, noise)
        if isinstance(self.likelihood, FixedNoiseGaussianLikelihood):
            fixed = self.likelihood.noise_covar
            given = old._given_noise(X, noise)
            fixed.noise = stacked(old.likelihood.noise_covar.noise, given, -1)
        else:
            q = X.shape[-2]
            self._row_noise = joined(old._row_noise, noise, inputs.shape[-2] - q, q, variance)
        return variance


NOISE_ALONE = {
    getattr(kind, name)
    for kind in (_GaussianLikelihoodBase, GaussianLikelihood, FixedNoiseGaussianLikelihood)
    for name in ("__call__", "marginal")
}
"""Methods ``__call__`` and ``marginal`` of likelihoods that only add independent noise."""


def check_honoured(model: GrowingGP) -> None:
    """Raise if a subclass overrides a method that predictions do not use.

    Predictions are computed from a stored Cholesky factor. Predictions take the noise from the
    likelihood's ``_shaped_noise_covar``, and the prior from ``mean_module`` and ``covar_module``.

    Raises:
        ValueError: If the class of the model or of the likelihood overrides a method that
            predictions do not use.
    """
    kind = type(model.likelihood)
    for owner, name, honoured in (
        (kind, "__call__", kind.__call__ in NOISE_ALONE),
        (kind, "marginal", kind.marginal in NOISE_ALONE),
        (type(model), "forward", type(model).forward is GrowingGP.forward),
    ):
        require(
            honoured,
            f"{owner.__name__} overrides {name}, but predictions do not use this method. "
            "Define noise by _shaped_noise_covar or noise_covar of the likelihood, and the prior "
            "by mean_module and covar_module, or use SingleTaskGP.",
        )
