"""A ``SingleTaskGP`` whose outputs share their inputs, also under a transform of each member.

BoTorch keeps the inputs of m outputs m times over, in a dimension of their own that it hands to
the input transform with the rest. A transform with a batch shape takes that dimension for the
batch: with as many outputs as members it mixes them up without a word.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from botorch.models import SingleTaskGP
from gpytorch.distributions import MultivariateNormal
from torch import Tensor, nn


class SharedInputsGP(SingleTaskGP):  # type: ignore[misc]
    """Transforms training inputs once for all outputs."""

    _has_transformed_inputs: bool

    def forward(self, x: Tensor) -> MultivariateNormal:
        """The prior at inputs `... x q x d`, which training mode transforms first."""
        if self.training and x.shape == self.train_inputs[0].shape:
            x = self._for_each_output(self.transform_inputs, x)
        elif self.training:
            x = self.transform_inputs(x)
        return MultivariateNormal(self.mean_module(x), self.covar_module(x))

    def transform_inputs(self, X: Tensor, input_transform: nn.Module | None = None) -> Tensor:
        """As BoTorch's; the training inputs of several outputs are transformed once for all."""
        known = getattr(self, "train_inputs", None)
        if input_transform is None and known is not None and X is known[0]:
            return self._for_each_output(super().transform_inputs, X)
        return super().transform_inputs(X, input_transform)  # type: ignore[no-any-return]

    def _for_each_output(self, transform: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
        """Training inputs `... x (m) x n x d` transformed, once for all outputs.

        A transform knows nothing of outputs, and with a batch shape of its own would take them
        for the batch.
        """
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
