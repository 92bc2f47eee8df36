"""Domains: the sets of points that strategies choose from."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Size, Tensor

from botorch_tv.gp.basis import Basis
from botorch_tv.gp.box import BoxPrior
from botorch_tv.gp.covariance import Inference, covariance_matrix, factor
from botorch_tv.gp.point_kernel import formula
from botorch_tv.gp.tensors import DeviceCopies, Rows
from botorch_tv.validation import real, require_integer, shown

GRID_TOLERANCE = 1e-9
"""Distance within which a point is a grid point, relative to the extent of the grid."""


class Domain(ABC):
    """The set of points that a strategy chooses from."""

    dim: int
    """Dimension d of the points chosen."""
    columns: int
    """Number of coordinates of a kernel's input: d plus the number of context coordinates."""
    device: torch.device
    """The device of the domain's tensors."""

    @abstractmethod
    def prior(
        self, kernel: Kernel | Tensor, inference: Inference, like: Tensor
    ) -> Basis | BoxPrior:
        """The prior that a kernel defines over functions on this domain.

        Args:
            kernel: A GPyTorch kernel, or a matrix over the arms, `M x M`.
            inference: The method that computes the posterior.
            like: A tensor of any shape with the dtype and the device of the prior.

        Raises:
            InputDataError: If the kernel does not fit the domain or is indefinite.
        """

    @abstractmethod
    def no_choices(self, batch_shape: Size, like: Tensor) -> Rows:
        """An empty log of choices.

        Args:
            batch_shape: Shape of the trials.
            like: A tensor of any shape on the device of the log; if the domain is a box, the dtype
                of the tensor is the dtype of the log.
        """

    @abstractmethod
    def locate(self, X: Tensor) -> Tensor:
        """Points as the log stores them: indices of arms, `*`, or points, `* x columns`.

        Args:
            X: Points, `* x columns`.

        Raises:
            InputDataError: If a point is not in the domain.
        """

    @abstractmethod
    def points(self, choice: Tensor, like: Tensor) -> Tensor:
        """The points of choices in the log, `* x columns`.

        Args:
            choice: Indices of arms, `*`, or points, `* x columns`.
            like: A tensor of any shape with the dtype and the device of the result.
        """

    @property
    def listed(self) -> Tensor | None:
        """All points that can be chosen, `M x d`, without context; None if they are too many."""
        return None


class Grid(Domain):
    """A finite domain: a set of arms.

    Args:
        X: The arms, `M x d`, one point per row.

    Attributes:
        X: The arms, `M x d`.
        dim: Dimension d of the points.
        columns: Equal to ``dim``, because a grid has no context.
        shape: Points per dimension of a regular grid; ``(M,)`` for any other grid.

    Raises:
        InputDataError: If ``X`` is not a finite floating-point `M x d` tensor with M, d >= 1.
    """

    def __init__(self, X: Tensor) -> None:
        shaped = isinstance(X, Tensor) and X.dim() == 2 and X.numel() and X.is_floating_point()
        if not shaped or not bool(X.isfinite().all()):
            raise InputDataError(
                f"Grid: X is {X}, but arms must be a finite floating-point tensor of shape M x d "
                "with "
                "M, d >= 1; give torch.tensor(X) with a row for each arm, X.unsqueeze(-1) for "
                "points on a line, X.double() for integers."
            )
        self.X = X.detach().clone()
        self.dim, self.columns, self.device = X.shape[1], X.shape[1], X.device
        self.shape: tuple[int, ...] = (len(X),)
        self._factored: dict[tuple[object, ...], Basis] = {}

    @classmethod
    def regular(
        cls, points: int, dim: int, bounds: Sequence[tuple[float, float]] | Tensor | None = None
    ) -> Grid:
        """A regular grid: its points are equally spaced, and its last dimension varies fastest.

        Args:
            points: Points per dimension, at least 1; both ends of each range are included.
            dim: Dimension d, at least 1.
            bounds: The range of each dimension, ``[(low, high), ...]``, or the lower and the upper
                corner as a tensor, `2 x d`, as for :class:`Box`; the unit cube by default.

        Returns:
            A grid of ``points ** dim`` arms in float64, on the device of ``bounds`` if it is a
            tensor. In two dimensions the position of arm ``points * i + j``, as fractions of the
            ranges, is (i, j) / (points - 1).

        Raises:
            ValueError: If ``points`` or ``dim`` is below 1.
            InputDataError: If ``bounds`` are not d ranges whose lower end is below the upper end,
                or are two lists that could be either ranges or corners.
        """
        points = require_integer("Grid.regular: points", points, 1, "give points per dimension.")
        dim = require_integer("Grid.regular: dim", dim, 1, "give the dimension of the points.")
        ends = corners("Grid.regular: bounds", [(0, 1)] * dim if bounds is None else bounds)
        if ends.shape[1] != dim:
            raise InputDataError(
                f"Grid.regular: bounds is {shown(bounds)}, but dim is {dim}; give (low, high) "
                f"for each dimension, or a tensor of shape 2 x {dim}."
            )
        steps = torch.arange(points, dtype=torch.float64, device="cpu") / max(points - 1, 1)
        axes = [low + (high - low) * steps for low, high in ends.T.tolist()]
        X = torch.stack(torch.meshgrid(*axes, indexing="ij"), dim=-1).view(-1, dim)
        grid = cls(X.to(bounds.device) if isinstance(bounds, Tensor) else X)
        grid.shape = (points,) * dim
        return grid

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        regular = f", regular {' x '.join(map(str, self.shape))}" if len(self.shape) > 1 else ""
        return f"Grid({len(self)} arms in {self.dim}-d{regular})"

    def basis(
        self,
        kernel: Kernel | Tensor,
        inference: Inference = "auto",
        *,
        dtype: torch.dtype,
        device: torch.device,
    ) -> Basis:
        """The kernel factored over the arms; computed once, then cached by this grid.

        Args:
            kernel: A GPyTorch kernel, or a matrix over the arms, `M x M`.
            inference: Which basis to compute; see :func:`botorch_tv.gp.covariance.factor`.
            dtype: Dtype of the basis; the factorisation itself is done in float64, on the CPU.
            device: Device of the basis.

        Raises:
            InputDataError: If the kernel does not fit the arms or is indefinite.
        """
        settings = (inference, dtype, device)
        # Strategies and worlds use the same kernel many times. The kernel's formula, if available,
        # serves as the key of the cache, so the kernel need not be evaluated and hashed.
        text = formula(kernel) if isinstance(kernel, Kernel) else None
        if text is not None and (text, *settings) in self._factored:
            return self._factored[text, *settings]
        # The kernel is always factored on the CPU. A GPU would compute different eigenvectors, and
        # thus different simulated functions and samples.
        covariance = covariance_matrix(kernel, self.X.cpu())
        key = text or hashlib.sha256(covariance.numpy().tobytes()).digest()
        if (key, *settings) not in self._factored:
            self._factored[key, *settings] = factor(covariance, self.shape, inference).to(
                dtype, device
            )
        return self._factored[key, *settings]

    def prior(self, kernel: Kernel | Tensor, inference: Inference, like: Tensor) -> Basis:
        self._arms.like(like)  # copies the arms to the device now, instead of during a round
        return self.basis(kernel, inference, dtype=like.dtype, device=like.device)

    def no_choices(self, batch_shape: Size, like: Tensor) -> Rows:
        return Rows.empty(batch_shape, dtype=torch.int64, device=like.device)

    def locate(self, X: Tensor) -> Tensor:
        return self.index_of(X)

    def points(self, choice: Tensor, like: Tensor) -> Tensor:
        points = self._arms.like(like)[choice]
        return points if choice.dim() else points.clone()  # a scalar index gives a view, not a copy

    @property
    def listed(self) -> Tensor:
        return self.X

    @cached_property
    def _arms(self) -> DeviceCopies:
        return DeviceCopies(self.X)

    def __getstate__(self) -> dict[str, object]:
        retained = {name: part for name, part in self.__dict__.items() if name != "_arms"}
        return {**retained, "_factored": {}}

    def index_of(self, X: Tensor) -> Tensor:
        """Indices of the arms at given points, `* x d -> *`, int64.

        Args:
            X: Points, `* x d`.

        Raises:
            InputDataError: If the last dimension is not d, or if a point is not on the grid.
        """
        if X.shape[-1:] != (self.dim,):
            raise InputDataError(f"X has shape {tuple(X.shape)}, but this grid has d = {self.dim}.")
        arms = self._arms.like(X)
        flat = X.reshape(-1, self.dim)
        nearest = [torch.cdist(block, arms).min(-1).indices for block in torch.split(flat, 1024)]
        index = torch.cat(nearest) if nearest else flat.new_zeros(0, dtype=torch.int64)
        extent = float((self.X.max() - self.X.min()).clamp_min(1))
        rounding = max(GRID_TOLERANCE, 8 * torch.finfo(X.dtype).eps)
        apart = (arms[index] - flat).abs().amax(-1)
        off = ~(apart <= rounding * extent)
        if bool(off.any()):
            first = int(off.nonzero()[0])
            raise InputDataError(
                f"point {flat[first].tolist()} (number {first}) is not a point of {self!r}; the "
                f"nearest is {arms[index[first]].tolist()}. Choose from domain.X."
            )
        return index.view(X.shape[:-1])


def require_grid(domain: Domain, name: str) -> None:
    """Check that a domain is a grid, for a strategy that needs a list of arms.

    Args:
        domain: The domain.
        name: Name of the strategy in the error message.

    Raises:
        InputDataError: If the domain is not a grid.
    """
    if not isinstance(domain, Grid):
        raise InputDataError(
            f"{name} needs a list of arms, but {domain!r} has none; use "
            "Grid.regular(points=50, dim=2)."
        )


def corners(name: str, bounds: object) -> Tensor:
    """The corners, `2 x d`, of a box that is given by corners or by ranges ``[(low, high), ...]``.

    Args:
        name: Name of the argument in the error message.
        bounds: Corners as a tensor, `2 x d`, or ranges, which are converted to float64. The list
            ``[(0, 5), (10, 50)]`` contains the ranges 0 to 5 and 10 to 50. The tensor ``[[0, 5],
            [10, 50]]`` contains two corners, of the ranges 0 to 10 and 5 to 50.

    Raises:
        InputDataError: If ``bounds`` has another form, if a range is empty or infinite, or if two
            lists of two numbers could be either ranges or corners.
    """
    made = bounds
    if isinstance(bounds, (list, tuple)):
        try:
            ranges: list[Any] = [(real(low), real(high)) for low, high in bounds]
            made = torch.tensor(ranges, dtype=torch.float64, device="cpu").view(-1, 2).T
        except (TypeError, ValueError):
            ranges = []
        if len(ranges) == 2 and all(isinstance(part, list) for part in bounds):
            (low, high), (lower, upper) = ranges
            if low < lower and high < upper and high != lower:
                raise InputDataError(
                    f"{name} is {bounds!r}, but two lists of two may be ranges or corners; give "
                    f"the ranges as tuples, {[tuple(part) for part in bounds]}, or corners as a "
                    "tensor 2 x d."
                )
    if (
        not isinstance(made, Tensor)
        or not made.is_floating_point()
        or made.dim() != 2
        or len(made) != 2
        or not made.numel()
        or not bool((made.isfinite().all(0) & (made[0] < made[1])).all())
    ):
        given = made.tolist() if isinstance(made, Tensor) and made.numel() else shown(bounds)
        raise InputDataError(
            f"{name} is {given}, but it must be a floating-point tensor of shape 2 x d whose lower "
            "bounds, in the first row, are finite and below the upper; or give [(low, high), ...], "
            "or {name: (low, high), ...} to a Box, and omit coordinates that are fixed."
        )
    return made
