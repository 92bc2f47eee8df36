"""Which parameters have a dimension of outputs, and where."""

from __future__ import annotations

import torch
from gpytorch.kernels import Kernel

from botorch_tv.models.aging_gp import AgingGP


def batched_parameters(model: AgingGP, own_mean: bool) -> dict[str, int]:
    """Names of the parameters and buffers with a dimension of outputs, and that dimension.

    Args:
        model: The model; whatever has its batch shape has the outputs last in it.
        own_mean: Whether the mean is the caller's, whose parameters are not known.
    """
    outputs = model._aug_batch_shape
    found: dict[str, int] = {} if own_mean else {"mean_module.raw_constant": -1}
    for name, tensor in (
        *model.covar_module.named_parameters(prefix="covar_module"),
        *model.covar_module.named_buffers(prefix="covar_module"),
    ):
        if not name.endswith("active_dims") and tensor.shape[: len(outputs)] == outputs:
            found[name] = len(outputs) - 1 - tensor.dim()
    for name, tensor in (
        *model.likelihood.named_parameters(prefix="likelihood"),
        *model.likelihood.named_buffers(prefix="likelihood"),
    ):
        if tensor.dim() and tensor.shape[:-1] == outputs:
            found[name] = -2
    return found


def subset_batch_shapes(old: AgingGP, new: AgingGP) -> None:
    """Set the batch shapes of the kernels of a model to those of fewer outputs.

    BoTorch shortens a batch shape once for each of a kernel's parameters.

    Args:
        old: The model of all outputs.
        new: The model of some of them, whose parameters are chosen already.
    """
    for before, after in zip(old.covar_module.modules(), new.covar_module.modules()):
        if isinstance(before, Kernel) and before._batch_shape == old._aug_batch_shape:
            after.batch_shape = torch.Size(new._aug_batch_shape)
