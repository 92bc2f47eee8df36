"""Factor a kernel over a domain once, for all trials and rounds that follow."""

from __future__ import annotations

from typing import Literal

import torch
from botorch.exceptions import InputDataError
from torch import Tensor

from botorch_tv.inference.basis import ArmBasis, Basis, FeatureBasis, ProductBasis
from botorch_tv.inference.linalg import compressed, pivoted_cholesky

Inference = Literal["auto", "exact", "features"]

RANK_TOLERANCE = 1e-13
"""Eigenvalues below this share of the largest are not features.

At 1e-12 the kernel is off by 1e-11, which data far outside the model lift above 1e-8 in the mean.
"""
INDEFINITE_TOLERANCE = 1e-8
"""A matrix is refused when its lowest eigenvalue is below minus this share of its largest."""
RANK_SHARE = 0.25
"""Features pay up to this rank, as a share of the arms.

A term costs r memory-bound numbers and a product of M r multiplications in features, M memory-bound
numbers over the arms; a product does at least four multiplications while one number is fetched.
"""


def factor(
    covariance: Tensor, grid_shape: tuple[int, ...] = (), inference: Inference = "auto"
) -> Basis:
    """The cheapest basis for a kernel over finitely many arms.

    Args:
        covariance: The kernel on all pairs of arms, symmetric positive semi-definite, `M x M`.
        grid_shape: Points per dimension where the arms are a regular grid.
        inference: ``"exact"`` keeps the arms themselves, ``"features"`` insists on features
            whatever their rank, ``"auto"`` takes them where they pay.

    Returns:
        A basis in the dtype and on the device of ``covariance``.
    """
    if inference == "exact":
        return ArmBasis(covariance)
    if len(grid_shape) > 1:
        product = _product_basis(covariance, grid_shape)
        if product is not None:
            return product
    return _feature_basis(covariance, any_rank=inference == "features")


def _feature_basis(covariance: Tensor, any_rank: bool) -> Basis:
    arms = len(covariance)
    most = arms if any_rank else int(RANK_SHARE * arms) + 1
    # Pivots beyond a half mean that no low rank exists; an ordinary factorisation is faster then.
    columns, residual = pivoted_cholesky(
        covariance, min(most, arms // 2 + 1), RANK_TOLERANCE * float(covariance.diagonal().max())
    )
    if float(residual.max()) <= RANK_TOLERANCE * float(covariance.diagonal().max()):
        features = compressed(columns, RANK_TOLERANCE)
        if any_rank or features.shape[-1] <= RANK_SHARE * arms:
            return FeatureBasis(features)
    if not any_rank:
        return ArmBasis(covariance)
    eigenvalues, vectors = torch.linalg.eigh(covariance)
    kept = eigenvalues > RANK_TOLERANCE * eigenvalues[-1]
    return FeatureBasis(vectors[:, kept] * eigenvalues[kept].sqrt())


def _product_basis(covariance: Tensor, grid_shape: tuple[int, ...]) -> ProductBasis | None:
    """Features per dimension, or None where the kernel is no product over dimensions."""
    corner = covariance[0, 0]
    if float(corner) <= 0:
        return None
    axes, stride = [], len(covariance)
    for points in grid_shape:
        stride //= points
        along = torch.arange(points, device=covariance.device) * stride
        axes.append(covariance[along[:, None], along] / corner)
    product = corner * axes[0]
    for axis in axes[1:]:
        product = torch.kron(product, axis)
    rounding = 64 * torch.finfo(covariance.dtype).eps * float(corner)
    if float((product - covariance).abs().max()) > rounding:
        return None
    spectra = [torch.linalg.eigh(axis) for axis in axes]
    eigenvalues = corner * spectra[0].eigenvalues
    for spectrum in spectra[1:]:
        eigenvalues = torch.kron(eigenvalues, spectrum.eigenvalues)
    kept = eigenvalues > RANK_TOLERANCE * eigenvalues.max()
    if int(kept.sum()) > RANK_SHARE * len(covariance):
        return None
    # Per dimension only the columns that some kept product uses.
    used = [
        kept.view(grid_shape).transpose(0, dim).flatten(1).any(1) for dim in range(len(grid_shape))
    ]
    factors = [
        (spectrum.eigenvectors * spectrum.eigenvalues.clamp_min(0).sqrt())[:, use].contiguous()
        for spectrum, use in zip(spectra, used)
    ]
    factors[0] = factors[0] * corner.sqrt()
    selected = kept.view(grid_shape)
    for dim, use in enumerate(used):
        selected = selected.index_select(dim, use.nonzero().squeeze(-1))
    return ProductBasis(factors, selected.flatten().nonzero().squeeze(-1))


def checked(covariance: Tensor) -> Tensor:
    """The matrix itself, once it has proved to be a covariance up to rounding.

    Args:
        covariance: `M x M`.

    Raises:
        InputDataError: If it is not square, not finite, not symmetric, or indefinite beyond -1e-8
            of its largest eigenvalue.
    """
    if covariance.dim() != 2 or covariance.shape[0] != covariance.shape[1]:
        raise InputDataError(
            f"the kernel matrix has shape {tuple(covariance.shape)}; it must be M x M, one row and "
            "one column per arm."
        )
    if not bool(covariance.isfinite().all()):
        raise InputDataError(
            "the kernel matrix has entries that are NaN or infinite; it must be finite."
        )
    asymmetry = float((covariance - covariance.T).abs().max())
    limit = INDEFINITE_TOLERANCE * float(covariance.abs().max())
    if asymmetry > limit:
        raise InputDataError(
            f"the kernel matrix is not symmetric: entries differ by {asymmetry:.3g}, the limit is "
            f"{limit:.3g}; pass (K + K.T) / 2."
        )
    eigenvalues = torch.linalg.eigvalsh(covariance)
    lowest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
    if largest <= 0 or lowest < -INDEFINITE_TOLERANCE * largest:
        raise InputDataError(
            f"the kernel matrix is indefinite: its eigenvalues run from {lowest:.3g} to "
            f"{largest:.3g}, the limit is -1e-8 of the largest; clip the negative ones at zero."
        )
    return covariance
