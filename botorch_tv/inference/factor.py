"""Factor a kernel over a domain once, for all trials and rounds that follow."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from botorch_tv.inference.basis import ArmBasis, Basis, FeatureBasis, Frame, ProductBasis
from botorch_tv.inference.costs import RANK_SHARE
from botorch_tv.inference.definite import (
    INDEFINITE_TOLERANCE,
    require_semidefinite,
    require_spectrum,
)
from botorch_tv.inference.linalg import compressed, mirrored_eigh, pivoted_cholesky, ramp

Inference = Literal["auto", "exact", "features"]

RANK_TOLERANCE = 1e-13
"""Eigenvalues below this share of the largest are not features.

At 1e-12 the kernel is off by 1e-11, which data far outside the model lift above 1e-8 in the mean.
"""
DRAWN_PIVOTS = (1e-10, 4e-10)
"""Shares of the largest variance between which a pivot's direction fades out of what is drawn.

Rounding puts a pivot off by some 1e-15, far less than it takes to choose another one. What is not
drawn adds no more than the second number to a covariance.
"""
DRAWN_EIGENVALUES = (1e-12, 1e-11)
"""The same for eigenvalues, as shares of the largest: far above where features are cut off."""


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

    Raises:
        InputDataError: If the covariance is indefinite, which the factors tell as they are found.
    """
    if inference == "exact":
        require_semidefinite(covariance)
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
    diagonal = covariance.diagonal()
    largest = float(diagonal.max())
    columns, pivots, residual, _ = pivoted_cholesky(
        diagonal, covariance.__getitem__, min(most, arms // 2 + 1), RANK_TOLERANCE * largest
    )
    if float(residual.max()) <= RANK_TOLERANCE * largest:
        _require_factored(covariance, columns)
        features, rotation = compressed(columns, RANK_TOLERANCE)
        if any_rank or features.shape[-1] <= RANK_SHARE * arms:
            # C = Φ Vᵀ for features Φ = C V.
            eigenvalues = features.square().sum(0)
            return FeatureBasis(features, _pivot_frame(rotation.T, eigenvalues, pivots / largest))
    if not any_rank:
        require_semidefinite(covariance)
        return ArmBasis(covariance)
    eigenvalues, vectors = torch.linalg.eigh(covariance)
    require_spectrum(eigenvalues)
    kept = eigenvalues > RANK_TOLERANCE * eigenvalues[-1]
    eigenvalues, vectors = eigenvalues[kept], vectors[:, kept]
    root = eigenvalues.sqrt()
    if eigenvalues[0] >= DRAWN_EIGENVALUES[1] * eigenvalues[-1] and len(eigenvalues) == arms:
        # The symmetric root of the matrix: it does not depend on the choice of eigenvectors.
        return FeatureBasis((vectors * root) @ vectors.T)
    if float(residual.max()) <= DRAWN_PIVOTS[0] * largest:
        rotation = (vectors.T @ columns) / root.unsqueeze(-1)
        frame = _pivot_frame(rotation, eigenvalues, pivots / largest)
    else:
        # The same, in which eigenvalues that are too small fade out.
        frame = Frame(_faded(vectors.T, eigenvalues), root.new_ones(arms))
    return FeatureBasis(vectors * root, frame)


def _faded(rotation: Tensor, eigenvalues: Tensor) -> Tensor:
    """Rows, one per eigenvalue, so that none is cut off at once."""
    return rotation * ramp(eigenvalues / eigenvalues.max(), *DRAWN_EIGENVALUES).unsqueeze(-1)


def _pivot_frame(rotation: Tensor, eigenvalues: Tensor, pivots: Tensor) -> Frame:
    """Columns of a pivoted Cholesky factor as coordinates of draws.

    Args:
        rotation: The columns in coordinates of the features, `r x p`.
        eigenvalues: Of the features, `r`.
        pivots: As shares of the largest variance, `p`.
    """
    weights = ramp(pivots, *DRAWN_PIVOTS)
    # Ties let pivots rise a little from one to the next.
    used = len(pivots) - int((weights > 0).flip(0).to(torch.uint8).argmax())
    return Frame(_faded(rotation[:, :used], eigenvalues), weights[:used])


def _require_factored(covariance: Tensor, columns: Tensor) -> None:
    """Raise if a covariance is indefinite, though its diagonal was met by C Cᵀ.

    What the columns leave over has no eigenvalue larger in size than its largest row sum.
    """
    left = (covariance - columns @ columns.T).abs().sum(-1).max()
    largest = float(covariance.diagonal().max())
    if not (largest > 0 and float(left) <= INDEFINITE_TOLERANCE * largest):
        require_semidefinite(covariance)


def _axes(covariance: Tensor, grid_shape: tuple[int, ...]) -> list[Tensor] | None:
    """Correlation along each dimension; None where the kernel is no product of these.

    If it is one, what lies on the axes through the first point says all of it.
    """
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
    return None if float((product - covariance).abs().max()) > rounding else axes


def _product_basis(covariance: Tensor, grid_shape: tuple[int, ...]) -> ProductBasis | None:
    """Features per dimension, or None where the kernel is no product over dimensions."""
    axes = _axes(covariance, grid_shape)
    if axes is None:
        return None
    corner = covariance[0, 0]
    spectra = [mirrored_eigh(axis) for axis in axes]
    eigenvalues = corner * spectra[0].eigenvalues
    for spectrum in spectra[1:]:
        eigenvalues = torch.kron(eigenvalues, spectrum.eigenvalues)
    require_spectrum(eigenvalues)
    kept = eigenvalues > RANK_TOLERANCE * eigenvalues.max()
    if int(kept.sum()) > RANK_SHARE * len(covariance):
        return None
    # Per dimension only the columns that some kept product uses.
    used = [
        kept.view(grid_shape).transpose(0, dim).flatten(1).any(1) for dim in range(len(grid_shape))
    ]
    scaled = [one.eigenvectors * one.eigenvalues.clamp_min(0).sqrt() for one in spectra]
    factors = [along[:, use].contiguous() for along, use in zip(scaled, used)]
    factors[0] = factors[0] * corner.sqrt()
    selected = kept.view(grid_shape)
    for dim, use in enumerate(used):
        selected = selected.index_select(dim, use.nonzero().squeeze(-1))
    places = selected.flatten().nonzero().squeeze(-1)
    columns, pivots, _, _ = pivoted_cholesky(
        covariance.diagonal(),
        covariance.__getitem__,
        len(covariance),
        DRAWN_PIVOTS[0] * float(corner),
    )
    # Φᵀ C, one dimension after the other; every product sends a dimension to the end.
    turned = columns.reshape(*grid_shape, len(pivots))
    for along in factors:
        turned = torch.tensordot(turned, along, dims=([0], [0]))
    eigenvalues = eigenvalues[kept]
    rotation = turned.flatten(1)[:, places].T / eigenvalues.unsqueeze(-1)
    return ProductBasis(factors, places, _pivot_frame(rotation, eigenvalues, pivots / corner))
