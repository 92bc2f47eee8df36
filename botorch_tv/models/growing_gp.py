"""A ``SingleTaskGP`` with cheap updates by new observations."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, Self

import torch
from botorch import settings as botorch_settings
from botorch.models.utils.assorted import fantasize as for_fantasies
from gpytorch.likelihoods import FixedNoiseGaussianLikelihood
from torch import Tensor

from botorch_tv.likelihoods.rows import joined, stacked
from botorch_tv.models.checks import check_honoured, check_new_outputs
from botorch_tv.models.factored_gp import FactoredGP
from botorch_tv.models.regression import GrowingRegression


class GrowingGP(FactoredGP):
    """Exact regression by one Cholesky factor that grows with the data.

    GPyTorch's fantasy models solve for their mean again after every update, and chains of them grow
    without bound. Here an update costs O(n²), predictions equal those after a refit, and only the
    data and their factor are stored.
    """

    def _new_noise(self, X: Tensor, noise: Tensor | None) -> Tensor:
        """Noise variances of new observations at ``X``, `... x q`; those given, if any."""
        check_honoured(self)
        if isinstance(self.likelihood, FixedNoiseGaussianLikelihood):
            # Noise learned in addition to the known variances is common to all rows.
            total: Tensor = self._known_noise(X, noise) + self.likelihood.second_noise
            return total
        if noise is not None:
            return noise
        diagonal: Tensor = self.likelihood._shaped_noise_covar(X.shape[:-1], [X]).diagonal(
            dim1=-1, dim2=-2
        )
        return diagonal

    def _known_noise(self, X: Tensor, noise: Tensor | None) -> Tensor:
        """The known part of the noise, `... x q`: as given, or the mean of the other rows'."""
        if noise is not None:
            return noise
        known: Tensor = self.likelihood.noise_covar.noise
        return known.mean(-1, keepdim=True).expand(*known.shape[:-1], X.shape[-2])

    def condition_on_observations(self, X: Tensor, Y: Tensor, noise: Tensor | None = None) -> Self:
        """The model conditioned on q more observations, in O(n² q).

        Args:
            X: Inputs, `batch_shape x q x d`.
            Y: Observations, `batch_shape' x q x m`, in the units of ``train_Y``; with more batch
                dimensions than ``X`` they are alternatives at the same inputs.
            noise: Their variances, shape of ``Y``, in the units of the outcome transform. By
                default the likelihood's noise or, if all variances are known, their mean. The
                noise that a ``FixedNoiseGaussianLikelihood`` learns in addition
                (``learn_additional_noise``) is added.

        Returns:
            A new model; this one is unchanged.

        Raises:
            BotorchTensorDimensionError: If rows, columns or batch shapes do not fit.
            InputDataError: If dtypes differ or a value is NaN.
        """
        strict = for_fantasies.off()
        check_new_outputs(self, X, Y, noise, strict=strict)
        self.eval()
        if hasattr(self, "outcome_transform"):
            Y, _ = self.outcome_transform(Y, X=X)
        if strict:
            self._validate_tensor_args(X=X, Y=Y, Yvar=noise, strict=False)
        fixed = isinstance(self.likelihood, FixedNoiseGaussianLikelihood)
        if not strict and fixed and noise is not None:
            # The noise given to fantasies is the total, including the learned part.
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
        """As :meth:`condition_on_observations`, on transformed inputs and targets.

        Args:
            inputs: `... x q x d`.
            targets: `... x q`.
            kwargs: ``noise``, `... x q`, where the variances are known.
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
        new = self._copy_without_data()
        new.train_inputs = (inputs.expand(*batch, *inputs.shape[-2:]),)
        new.train_targets = observations.expand(*batch, -1)
        variance = new._learn_rows(self, inputs, X, noise)
        attached = torch.is_grad_enabled()
        if variance is None:
            regression = new._fit_regression(inputs, attached)
        else:
            regression = old.extend(
                inputs=X,
                across=self._covariance(old.inputs, X),
                among=self._covariance(X, X),
                noise=variance,
                residual=targets - self.mean_module(X),
                attached=attached,
            )
        new.prediction_strategy = new._stamped(regression)
        return new

    def _learn_rows(
        self, old: Self, inputs: Tensor, X: Tensor, noise: Tensor | None
    ) -> Tensor | None:
        """Add new rows to the likelihood of a model grown from ``old``.

        Args:
            old: The model from which this one is grown.
            inputs: All inputs, `... x n x d`, the new ones last.
            X: The new inputs, `... x q x d`.
            noise: Their variances if given, `... x q`.

        Returns:
            The variances of the new rows, `... x q`; None if those of the old rows changed too.
        """
        variance = old._new_noise(X, noise)
        if isinstance(self.likelihood, FixedNoiseGaussianLikelihood):
            fixed = self.likelihood.noise_covar
            known = old._known_noise(X, noise)
            fixed.noise = stacked(old.likelihood.noise_covar.noise, known, -1)
        else:
            q = X.shape[-2]
            self._row_noise = joined(old._row_noise, noise, inputs.shape[-2] - q, q, variance)
        return variance

    def _copy_without_data(self) -> Self:
        """A copy of the model whose training data is still to be set."""
        data = (*self.train_inputs, self.train_targets, *self._data_elsewhere())
        return deepcopy(self, {id(tensor): tensor.new_empty(0) for tensor in data})
