"""A kernel over the arms of a domain: its covariance matrix, checks, and the cheapest basis.

Each kernel is factored only once; all trials and all rounds use the same factor.
"""

from __future__ import annotations

import copy
import warnings
from math import isqrt
from typing import Literal

import torch
from botorch.exceptions import InputDataError
from botorch.exceptions.warnings import InputDataWarning
from gpytorch.kernels import AdditiveKernel, Kernel, MaternKernel, ProductKernel, ScaleKernel
from torch import Tensor

from botorch_tv.gp.basis import ArmBasis, Basis, FeatureBasis, Frame, ProductBasis
from botorch_tv.gp.cholesky import pivoted_cholesky
from botorch_tv.gp.linalg import ramp
from botorch_tv.memory import bytes_text, free_bytes

RANK_SHARE = 0.25
"""Largest number r of features that are used, as a share of the number M of arms.

In features, a term of a posterior costs r numbers from memory and M r multiplications. Over the
arms, it costs M numbers from memory. Fetching a number takes at least as long as four
multiplications.
"""


def covariance_matrix(kernel: Kernel | Tensor, X: Tensor) -> Tensor:
    """The covariances of all pairs of arms.

    Args:
        kernel: A GPyTorch kernel without batch shape, or the matrix itself, `M x M`.
        X: The arms, `M x d`.

    Returns:
        The covariances, `M x M`, float64, on the device of ``X``.

    Raises:
        InputDataError: In four cases: the matrix does not fit the arms; the kernel cannot be
            evaluated on the arms; memory is too small; or the matrix is not finite or not
            symmetric. An indefinite matrix is not detected here, but in
            :func:`~botorch_tv.gp.covariance.factor`.
    """
    arms = len(X)
    if isinstance(kernel, Tensor):
        if kernel.shape != (arms, arms):
            raise InputDataError(
                f"the kernel matrix has shape {tuple(kernel.shape)}, but the domain has {arms} "
                f"arms; it must be {arms} x {arms}."
            )
        matrix = kernel.detach().to(device=X.device, dtype=torch.float64)
        require_symmetric(matrix)
        return matrix
    # Bytes of three matrices: the covariance, an intermediate result and the symmetric part.
    needed, free = 3 * 8 * arms**2, free_bytes(torch.device("cpu"))
    if needed > free:
        raise InputDataError(
            f"the domain has {arms:,} arms, whose covariance takes {bytes_text(needed)} to "
            f"compute, but {bytes_text(free)} of memory are free; give at most "
            f"{isqrt(free // 24):,} arms, or a Box, which needs no covariance of all its points."
        )
    matrix = evaluated(kernel, X.double())
    require_symmetric(matrix, EVALUATED_TOLERANCE)
    return 0.5 * (matrix + matrix.T)


def evaluated(kernel: Kernel, points: Tensor) -> Tensor:
    """The covariances of all pairs of points under a GPyTorch kernel.

    Args:
        kernel: The kernel, in any dtype and on any device.
        points: The points, `q x d`.

    Returns:
        The covariances, `q x q`.

    Raises:
        InputDataError: If ``kernel`` is no kernel, if it has a batch shape or several outputs, if
            its number of lengthscales is wrong, or if its evaluation fails.
    """
    _require_kernel(kernel)
    name, columns, number = describe_kernel(kernel), points.shape[-1], len(points)
    _require_columns(kernel, columns)
    try:
        with torch.no_grad():
            # Copies, because ``to`` changes a module in place and a kernel may change its inputs.
            matrix: Tensor = copy.deepcopy(kernel).to(points)(points.clone()).to_dense()
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise InputDataError(
            f"the kernel {name} cannot be evaluated on points of {columns} coordinates (domain and "
            f"context): {error}; give a kernel for {columns} columns."
        ) from error
    if matrix.numel() != number**2:
        raise InputDataError(
            f"the kernel {name} returns shape {tuple(matrix.shape)} for {number} points; all "
            "trials share one kernel, so give a kernel with one output and without batch shape."
        )
    return matrix.reshape(number, number)


def _require_kernel(kernel: object) -> None:
    if not isinstance(kernel, (Kernel, Tensor)):
        raise InputDataError(f"kernel is {kernel!r}; give a GPyTorch kernel, or a matrix, M x M.")


def _require_columns(kernel: Kernel, columns: int, picks: bool = True) -> None:
    """Raise unless every ARD kernel has one lengthscale per column.

    Args:
        kernel: The kernel; its parts are also checked.
        columns: Number of columns.
        picks: Whether the kernel selects its ``active_dims`` from these columns.
    """
    if picks and kernel.active_dims is not None:
        columns = len(kernel.active_dims)
    if kernel.ard_num_dims not in (None, columns):
        raise InputDataError(
            f"the kernel {describe_kernel(kernel)} has {kernel.ard_num_dims} lengthscales for "
            f"{columns} columns; give ard_num_dims={columns}, or None for a shared lengthscale."
        )
    if isinstance(kernel, ScaleKernel):
        # A ScaleKernel copies the active_dims of its base kernel; only the ScaleKernel selects
        # columns.
        _require_columns(kernel.base_kernel, columns, picks=False)
    elif isinstance(kernel, (AdditiveKernel, ProductKernel)):
        for part in kernel.kernels:
            _require_columns(part, columns)


def warn_of_rounded_parameters(kernel: Kernel | Tensor, dtype: torch.dtype) -> None:
    """Warn if hyperparameters have a lower precision than the computation."""
    _require_kernel(kernel)
    tensors = [kernel] if isinstance(kernel, Tensor) else list(kernel.parameters())
    if dtype == torch.float64 and any(tensor.dtype == torch.float32 for tensor in tensors):
        warnings.warn(
            "the kernel's parameters are float32 in a float64 run: a lengthscale of 0.2 becomes "
            "0.20000000298. Call torch.set_default_dtype(torch.float64) before creating a kernel.",
            InputDataWarning,
            stacklevel=5,
        )


def part_text(part: object) -> str:
    """A part of a strategy on one line: a kernel with its hyperparameters, or a ``repr``."""
    return describe_kernel(part) if isinstance(part, (Kernel, Tensor)) else repr(part)


def describe_kernel(kernel: Kernel | Tensor) -> str:
    """A kernel with its hyperparameters on one line, such as ``RBFKernel(lengthscale=0.2)``."""
    if isinstance(kernel, Tensor):
        return f"covariance matrix of {len(kernel)} arms"
    parts = [f"nu={kernel.nu}"] if isinstance(kernel, MaternKernel) else []
    for raw, parameter in kernel.named_parameters(recurse=False):
        name = raw.removeprefix("raw_")
        numbers = getattr(kernel, name, parameter).detach().flatten().tolist()
        shown = ", ".join(f"{number:.10g}" for number in numbers)
        parts.append(f"{name}={shown}" if len(numbers) == 1 else f"{name}=[{shown}]")
    for name, child in kernel.named_children():
        if isinstance(child, Kernel):
            parts.append(f"{name}={describe_kernel(child)}")
        elif isinstance(child, torch.nn.ModuleList):
            parts += [describe_kernel(part) for part in child if isinstance(part, Kernel)]
    return f"{type(kernel).__name__}({', '.join(parts)})"


INDEFINITE_TOLERANCE = 1e-8
"""Largest absolute value of a negative eigenvalue that is accepted as rounding error, as a share of
the largest eigenvalue."""
EVALUATED_TOLERANCE = 1e-6
"""Largest asymmetry of an evaluated kernel, as a share of its largest entry. Kernels compute a
distance as the root of its square. For equal points, an error δ of the square becomes an error √δ
of the distance."""


def checked(covariance: Tensor) -> Tensor:
    """Check that a matrix is a covariance up to rounding, and return it.

    Args:
        covariance: The matrix, `M x M`.

    Raises:
        InputDataError: If the matrix is not finite or not symmetric, or if it has an eigenvalue
            below -1e-8 times its largest eigenvalue.
    """
    require_symmetric(covariance)
    require_semidefinite(covariance)
    return covariance


def require_symmetric(covariance: Tensor, tolerance: float = INDEFINITE_TOLERANCE) -> None:
    """Raise an ``InputDataError`` unless a square matrix, `M x M`, is finite and symmetric.

    Args:
        covariance: The matrix, `M x M`.
        tolerance: Largest allowed difference between mirrored entries, as a share of the largest
            entry.
    """
    wrong = (~covariance.isfinite()).nonzero()
    if len(wrong):
        raise InputDataError(
            f"the kernel matrix has {len(wrong)} entries that are NaN or infinite, the first at "
            f"{wrong[0].tolist()}; check the kernel's parameters and the points."
        )
    asymmetry = float((covariance - covariance.T).abs().max())
    limit = tolerance * float(covariance.abs().max())
    if asymmetry > limit:
        raise InputDataError(
            f"the kernel matrix is not symmetric: mirrored entries differ by {asymmetry:.3g}, more "
            f"than {limit:.3g}; pass (K + K.T) / 2."
        )


def require_semidefinite(covariance: Tensor) -> None:
    """Raise an ``InputDataError`` if a symmetric matrix has a clearly negative eigenvalue.

    A matrix passes if its Cholesky factorisation succeeds after slightly less than the tolerance
    was added to its diagonal. The Cholesky factorisation is four times as fast as an
    eigendecomposition. If the factorisation fails, the eigenvalues are computed and checked.

    Args:
        covariance: The matrix, `M x M`, finite.

    Raises:
        InputDataError: If the eigenvalues fail :func:`require_spectrum`.
    """
    largest = float(covariance.diagonal().max())  # at most the largest eigenvalue
    if largest > 0:
        raised = covariance.clone()
        raised.diagonal().add_(INDEFINITE_TOLERANCE * largest)
        if not bool(torch.linalg.cholesky_ex(raised).info):
            return
    require_spectrum(torch.linalg.eigvalsh(covariance))


def require_spectrum(eigenvalues: Tensor) -> None:
    """Raise an ``InputDataError`` if eigenvalues show that a matrix is not a covariance.

    Args:
        eigenvalues: The eigenvalues, `M`.

    Raises:
        InputDataError: If no eigenvalue is positive, or if the lowest is below -1e-8 times the
            largest.
    """
    lowest, largest = float(eigenvalues.min()), float(eigenvalues.max())
    if largest <= 0 or lowest < -INDEFINITE_TOLERANCE * largest:
        raise InputDataError(
            f"the kernel matrix is indefinite: its eigenvalues run from {lowest:.3g} to "
            f"{largest:.3g}, but the lowest must be at least -1e-8 times the largest; clip "
            "negative eigenvalues at zero."
        )


Inference = Literal["auto", "exact", "features"]

RANK_TOLERANCE = 1e-13
"""Smallest eigenvalue whose feature is retained, as a share of the largest eigenvalue.

A larger share would visibly change the mean for data that are very improbable under the model.
"""
DRAWN_PIVOTS = (1e-10, 4e-10)
"""Two shares of the largest variance; for pivots between them, the weight of the direction of the
pivot in draws grows from 0 to 1.

Rounding changes a pivot by about 1e-15, which is far too little to change the order of pivots.
Directions that are missing in a draw contribute at most the second share to a covariance.
"""
DRAWN_EIGENVALUES = (1e-12, 1e-11)
"""Two shares of the largest eigenvalue; for eigenvalues between them, the weight of the eigenvector
in draws grows from 0 to 1. Both shares are far above :data:`RANK_TOLERANCE`."""


def factor(
    covariance: Tensor, grid_shape: tuple[int, ...] = (), inference: Inference = "auto"
) -> Basis:
    """The cheapest basis for a kernel over finitely many arms.

    Args:
        covariance: The kernel on all pairs of arms, symmetric positive semi-definite, `M x M`.
        grid_shape: Number of points per dimension if the arms are a regular grid; else empty.
        inference: ``"exact"`` uses the arms, ``"features"`` uses features of any rank, and
            ``"auto"`` uses features if they are cheaper.

    Returns:
        A basis in the dtype and on the device of ``covariance``.

    Raises:
        InputDataError: If the covariance is indefinite.
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
    # At most half the arms become pivots: for a larger rank, an eigendecomposition is faster.
    diagonal = covariance.diagonal()
    largest = float(diagonal.max())
    columns, pivots, residual, _ = pivoted_cholesky(
        diagonal, covariance.__getitem__, min(most, arms // 2 + 1), RANK_TOLERANCE * largest
    )
    if float(residual.max()) <= RANK_TOLERANCE * largest:
        # No eigenvalue of the residual exceeds its largest absolute row sum.
        remainder = float((covariance - columns @ columns.T).abs().sum(-1).max())
        if not (largest > 0 and remainder <= INDEFINITE_TOLERANCE * largest):
            require_semidefinite(covariance)
        features, rotation = compressed(columns, RANK_TOLERANCE)
        if any_rank or features.shape[-1] <= RANK_SHARE * arms:
            # The columns of the pivoted factor are C = Φ Vᵀ, with features Φ = C V and rotation V.
            eigenvalues = features.square().sum(0)
            return FeatureBasis(features, _pivot_frame(rotation.T, eigenvalues, pivots / largest))
    if not any_rank:
        require_semidefinite(covariance)
        return ArmBasis(covariance)
    eigenvalues, vectors = torch.linalg.eigh(covariance)
    require_spectrum(eigenvalues)
    retained = eigenvalues > RANK_TOLERANCE * eigenvalues[-1]
    eigenvalues, vectors = eigenvalues[retained], vectors[:, retained]
    root = eigenvalues.sqrt()
    if eigenvalues[0] >= DRAWN_EIGENVALUES[1] * eigenvalues[-1] and len(eigenvalues) == arms:
        # The features are the symmetric root of the covariance. The symmetric root does not depend
        # on the choice of eigenvectors.
        return FeatureBasis((vectors * root) @ vectors.T)
    if float(residual.max()) <= DRAWN_PIVOTS[0] * largest:
        rotation = (vectors.T @ columns) / root.unsqueeze(-1)
        frame = _pivot_frame(rotation, eigenvalues, pivots / largest)
    else:
        # Draws use the symmetric root, in which small eigenvalues fade out.
        frame = _faded(vectors.T, eigenvalues), root.new_ones(arms)
    return FeatureBasis(vectors * root, frame)


def _faded(rotation: Tensor, eigenvalues: Tensor) -> Tensor:
    """Multiply each row by a weight that fades to 0 if the eigenvalue of the row is small."""
    return rotation * ramp(eigenvalues / eigenvalues.max(), *DRAWN_EIGENVALUES).unsqueeze(-1)


def _pivot_frame(rotation: Tensor, eigenvalues: Tensor, pivots: Tensor) -> Frame:
    """The coordinates in which samples are drawn: the columns of a pivoted Cholesky factor.

    Args:
        rotation: The columns of the Cholesky factor in coordinates of the features, `r x p`.
        eigenvalues: Eigenvalues of the features, `r`.
        pivots: Pivots as shares of the largest variance, `p`.
    """
    weights = ramp(pivots, *DRAWN_PIVOTS)
    # Find the last pivot with positive weight. If pivots tie, a later pivot may be the larger.
    used = len(pivots) - int((weights > 0).flip(0).to(torch.uint8).argmax())
    return _faded(rotation[:, :used], eigenvalues), weights[:used]


def _product_basis(covariance: Tensor, grid_shape: tuple[int, ...]) -> ProductBasis | None:
    """Features per dimension, or None if the kernel is not a product over dimensions."""
    # A product kernel is determined by the covariances along the axes through the first point.
    corner, axes, stride = covariance[0, 0], [], len(covariance)
    for points in grid_shape:
        stride //= points
        along = torch.arange(points, device=covariance.device) * stride
        axes.append(covariance[along[:, None], along] / corner)
    product = corner * axes[0]
    for axis in axes[1:]:
        product = torch.kron(product, axis)
    rounding = 64 * torch.finfo(covariance.dtype).eps * float(corner)
    if not float((product - covariance).abs().max()) <= rounding:
        return None
    spectra = [mirrored_eigh(axis) for axis in axes]
    eigenvalues = corner * spectra[0][0]
    for along, _ in spectra[1:]:
        eigenvalues = torch.kron(eigenvalues, along)
    require_spectrum(eigenvalues)
    retained = eigenvalues > RANK_TOLERANCE * eigenvalues.max()
    if int(retained.sum()) > RANK_SHARE * len(covariance):
        return None
    # In each dimension, retain only the columns that occur in a retained product.
    used = [
        retained.view(grid_shape).transpose(0, dim).flatten(1).any(1)
        for dim in range(len(grid_shape))
    ]
    scaled = [vectors * values.clamp_min(0).sqrt() for values, vectors in spectra]
    factors = [along[:, use].contiguous() for along, use in zip(scaled, used)]
    factors[0] = factors[0] * corner.sqrt()
    selected = retained.view(grid_shape)
    for dim, use in enumerate(used):
        selected = selected.index_select(dim, use.nonzero().squeeze(-1))
    places = selected.flatten().nonzero().squeeze(-1)
    diagonal, least = covariance.diagonal(), DRAWN_PIVOTS[0] * float(corner)
    columns, pivots, _, _ = pivoted_cholesky(
        diagonal, covariance.__getitem__, len(covariance), least
    )
    # Compute Φᵀ C one dimension at a time; each product moves its dimension to the end.
    turned = columns.reshape(*grid_shape, len(pivots))
    for along in factors:
        turned = torch.tensordot(turned, along, dims=([0], [0]))
    eigenvalues = eigenvalues[retained]
    rotation = turned.flatten(1)[:, places].T / eigenvalues.unsqueeze(-1)
    return ProductBasis(factors, places, _pivot_frame(rotation, eigenvalues, pivots / corner))


def compressed(factor: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """Rotate a factor F of a matrix F Fᵀ to orthogonal columns, and drop small eigenvalues.

    Args:
        factor: F, `M x r`.
        tolerance: Eigenvalues of F Fᵀ up to this share of the largest eigenvalue are dropped.

    Returns:
        Two tensors: the new factor F V, `M x r'` with r' <= r; and the rotation V, `r x r'`, with
        orthonormal columns.
    """
    eigenvalues, vectors = torch.linalg.eigh(factor.T @ factor)
    rotation = vectors[:, eigenvalues > tolerance * eigenvalues[-1]]
    return (factor @ rotation).contiguous(), rotation


def mirrored_eigh(matrix: Tensor) -> tuple[Tensor, Tensor]:
    """Ascending eigenvalues and the eigenvectors of a symmetric matrix, centrosymmetric or not.

    A matrix is centrosymmetric if reversing the order of its rows and of its columns does not
    change it; an example is a stationary kernel on equidistant points. If the matrix is
    centrosymmetric up to rounding, even and odd eigenvectors are computed separately, so every
    eigenvector is exactly even or odd, even if some eigenvalues are equal up to rounding.

    Args:
        matrix: The matrix, symmetric, `n x n`.
    """
    rounding = 64 * torch.finfo(matrix.dtype).eps * matrix.abs().max()
    if bool((matrix - matrix.flip(0, 1)).abs().max() > rounding):
        return torch.linalg.eigh(matrix)
    n, eye = len(matrix), torch.eye(len(matrix), dtype=matrix.dtype, device=matrix.device)
    found = []
    for sign, count in ((1, n - n // 2), (-1, n // 2)):
        vectors = (eye + sign * eye.flip(0))[:, :count]
        vectors = vectors / torch.linalg.vector_norm(vectors, dim=0)
        values, turned = torch.linalg.eigh(vectors.T @ matrix @ vectors)
        found.append((values, vectors @ turned))
    eigenvalues, order = torch.cat([values for values, _ in found]).sort()
    return eigenvalues, torch.cat([vectors for _, vectors in found], -1)[:, order]
