"""Kernels with given parameters, in float64 and without gradients."""

import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel


def made(kind, *lengthscale, scale=None, **options):
    """A kernel of a kind, "rbf" or ν of a Matérn kernel, with one or several lengthscales."""
    options["ard_num_dims"] = len(lengthscale) if len(lengthscale) > 1 else None
    kernel = RBFKernel(**options) if kind == "rbf" else MaternKernel(nu=kind, **options)
    kernel.double().lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    return kernel.requires_grad_(False) if scale is None else scaled(kernel, scale)


def scaled(kernel, scale, **options):
    kernel = ScaleKernel(kernel, **options).double()
    kernel.outputscale = torch.tensor(scale, dtype=torch.float64)
    return kernel.requires_grad_(False)
