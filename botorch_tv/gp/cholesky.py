"""The Cholesky factor of I + S (K ∘ D) S for a growing log, and a pivoted factor of a kernel.

Here K is the prior covariance of the observations, D contains the temporal factors, N is the noise
covariance, and S = N^(-1/2). All eigenvalues of I + S (K ∘ D) S are at least 1, so no jitter is
needed. An observation with S = 0 has no effect.

New observations do not change the older rows of L and L⁻¹, unless noise grows with age or a row is
dropped. Whole blocks of rows are cached, so a round on n observations costs O(n²) instead of O(n³).
A block is computed by the same operations for a growing log and for a long stored log, so the
factor L depends only on the log, not on the rounds in which the rows of L were computed. Blocks are
computed by forward substitutions in the factor; forward substitutions are backward stable.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

import torch
from linear_operator.utils.cholesky import psd_safe_cholesky
from torch import Tensor

from botorch_tv.gp.tensors import OfTrials, without_gradients

FACTOR_BLOCK = 64
"""Number of observations in a block of rows of a Cholesky factor."""
FACTOR_GROWTH = 1.25
"""Number of rows for which a growing factor has memory, as a multiple of the rows in use."""
STRIP = 256
"""Number of rows of a triangular matrix in one strip; every strip is multiplied separately. Larger
strips multiply more zeros, smaller strips are slower."""

Gram = Callable[[int, int], Tensor]
"""A function that returns rows ``first`` to ``last`` of S (K ∘ D) S up to column ``last``,
`trials x q x last`."""

PIVOT_TIE = 1 / 16
"""Largest difference of pivots that count as equal, as a share of the largest pivot."""


def cholesky(covariance: Tensor, root: Tensor, *, checked: bool = False) -> Tensor:
    """The Cholesky factor L of I + S C S, `... x n x n`, for a covariance C and a diagonal S.

    Args:
        covariance: C, `... x n x n`.
        root: The diagonal of S, `... x n`.
        checked: Whether to check that C is a covariance; the check waits for the device.
    """
    return _root(correlation(covariance, root), checked)


def correlation(covariance: Tensor, root: Tensor) -> Tensor:
    """The matrix I + S C S, `... x n x n`, for a covariance C and a diagonal matrix S."""
    scaled = root.unsqueeze(-1) * covariance * root.unsqueeze(-2)
    scaled.diagonal(dim1=-2, dim2=-1).add_(1)
    return scaled


def further_rows(
    lower: Tensor, beside: Tensor, own: Tensor, *, checked: bool = False
) -> tuple[Tensor, Tensor]:
    """New rows of a factor L: the part below L, `... x q x n`, and the corner, `... x q x q`.

    Args:
        lower: L, `... x n x n`.
        beside: Part of the factored matrix: new rows and old columns, `... x q x n`.
        own: Part of the factored matrix: new rows and new columns, `... x q x q`.
        checked: Whether to check that the matrix is a covariance, as for :func:`cholesky`.
    """
    if lower.shape[-1]:
        beside = solved(lower, beside.mT).mT
        own = own - beside @ beside.mT
    return beside, _root(own, checked)


def _root(matrix: Tensor, checked: bool) -> Tensor:
    if checked:
        return psd_safe_cholesky(matrix)
    # Eigenvalues are at least 1 up to rounding, so the factorisation cannot fail on finite input.
    return torch.linalg.cholesky_ex(matrix).L


def solved(lower: Tensor, right: Tensor) -> Tensor:
    """L⁻¹ B; additional batch dimensions of B become columns, so L is not repeated.

    Args:
        lower: L, `batch_shape x n x n`.
        right: B, `... x batch_shape x n x q`.
    """
    extra = right.dim() - lower.dim()
    if extra <= 0:
        return torch.linalg.solve_triangular(lower, right, upper=False)
    lead, columns = right.shape[:extra], right.shape[-1]
    front, back = tuple(range(extra)), tuple(range(-extra, 0))
    wide = right.movedim(front, back).flatten(-extra - 1)
    solution = torch.linalg.solve_triangular(lower, wide, upper=False)
    return solution.reshape(*solution.shape[:-1], columns, *lead).movedim(back, front)


def inverted(lower: Tensor) -> Tensor:
    """L⁻¹, `... x n x n`."""
    identity = torch.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    return torch.linalg.solve_triangular(lower, identity.expand_as(lower), upper=False)


def log_diagonal(lower: Tensor) -> Tensor:
    """Logarithm of det L, `...`."""
    return lower.diagonal(dim1=-2, dim2=-1).log().sum(-1)


@dataclass(frozen=True)
class Factor(OfTrials):
    """The Cholesky factor L of I + S (K ∘ D) S, `trials x n x n`, stored as its inverse.

    Attributes:
        base: The first b rows of L⁻¹, which form whole blocks, `trials x b x b`.
        rows: The last m = n - b rows of L⁻¹, `trials x m x n`.
        diagonal: The diagonal of L, `trials x n`.
    """

    base: Tensor
    rows: Tensor
    diagonal: Tensor

    @property
    def log_diagonal(self) -> Tensor:
        """Logarithm of det L, `trials`."""
        return self.diagonal.log().sum(-1)

    def whitened(self, columns: Tensor) -> Tensor:
        """L⁻¹ times vectors; the vectors and the result are rows, `trials x q x n`."""
        beyond = columns @ self.rows.mT
        parts = [columns[..., :b] @ self.base[:, a:b, :b].mT for a, b in self._strips()]
        return torch.cat([*parts, beyond], -1) if parts else beyond

    def returned(self, columns: Tensor) -> Tensor:
        """L⁻ᵀ times vectors; the vectors and the result are rows, `trials x q x n`."""
        total = columns[..., self.base.shape[-1] :] @ self.rows
        for first, last in self._strips():
            total[..., :last] += columns[..., first:last] @ self.base[:, first:last, :last]
        return total

    def _strips(self) -> list[tuple[int, int]]:
        """Ranges of rows; one product per range skips most of the zeros above the diagonal."""
        whole = self.base.shape[-1]
        on_cpu = self.base.device.type == "cpu"
        step = STRIP if on_cpu and whole >= 2 * STRIP else max(1, whole)
        return [(first, min(first + step, whole)) for first in range(0, whole, step)]


class GrowingFactor:
    """A cache of the whole blocks of the newest factor; the successive states of a run share it.

    The cache never changes a result. If two states continue the same earlier state, they share the
    blocks of their common rows. A copied or loaded state starts with an empty cache. A lock
    protects the shared memory between threads.
    """

    def __init__(self) -> None:
        # The cached tuple: prior, S, inputs, and the whole blocks of L and of L⁻¹, with spare
        # capacity. Rows are only appended, never overwritten.
        self._held: tuple[object, Tensor, Tensor, Tensor, Tensor] | None = None
        self._turn = Lock()

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return GrowingFactor, ()

    @without_gradients
    def factor(self, prior: object, root: Tensor, beside: Tensor, gram: Gram) -> Factor:
        """The factor for the observations of a log.

        Args:
            prior: The prior. Cached rows are reused only if they were computed with the same prior
                object.
            root: S, `trials x n`.
            beside: For each row, the inputs other than S, such as the point and the time of the
                row, `trials x n x c`.
            gram: A function that returns rows of S (K ∘ D) S.
        """
        trials, n = root.shape
        whole = n - n % FACTOR_BLOCK
        lower, inverse = root.new_zeros(2, trials, 0, 0)
        if whole:
            with self._turn:
                held = self._held = self._with(prior, root, beside, whole, gram)
            lower, inverse = (part[:, :whole, :whole] for part in held[3:])
        beyond, rows = _block(lower, inverse, gram, n)
        diagonals = [part.diagonal(dim1=-2, dim2=-1) for part in (lower, beyond[..., whole:])]
        return Factor(inverse, rows, torch.cat(diagonals, -1))

    def _with(
        self, prior: object, root: Tensor, beside: Tensor, whole: int, gram: Gram
    ) -> tuple[object, Tensor, Tensor, Tensor, Tensor]:
        """The cached tuple, extended to ``whole`` rows of a log."""
        held, capacity = self._held, _capacity(whole)
        agreeing = self._agreeing(prior, root, beside)
        agreeing = min(agreeing - agreeing % FACTOR_BLOCK, whole)
        fits = held is not None and held[3].shape[-1] == capacity
        if held is not None and fits and agreeing == whole:
            return held
        if held is not None and fits and agreeing == held[1].shape[-1]:
            lower, inverse = held[3:]
        else:
            lower, inverse = (root.new_zeros(len(root), capacity, capacity) for _ in range(2))
            if held is not None and agreeing:
                for new, old in zip((lower, inverse), held[3:]):
                    new[:, :agreeing, :agreeing] = old[:, :agreeing, :agreeing]
        for first in range(agreeing, whole, FACTOR_BLOCK):
            last = first + FACTOR_BLOCK
            above = lower[:, :first, :first], inverse[:, :first, :first]
            lower[:, first:last, :last], inverse[:, first:last, :last] = _block(*above, gram, last)
        return prior, root[:, :whole], beside[:, :whole], lower, inverse

    def _agreeing(self, prior: object, root: Tensor, beside: Tensor) -> int:
        """Number of leading rows that equal the cached rows in all trials."""
        if self._held is None:
            return 0
        own, held_root, held_beside, *_ = self._held
        common = min(root.shape[-1], held_root.shape[-1])
        alike = own is prior and root.dtype == held_root.dtype
        if not common or not alike or beside[:, :0].shape != held_beside[:, :0].shape:
            return 0
        same = (beside[:, :common] == held_beside[:, :common]).all(-1)
        rows = (same & (root[:, :common] == held_root[:, :common])).all(0)
        return common if bool(rows.all()) else int(rows.to(torch.uint8).argmin())


def factor_of(gram: Gram, like: Tensor) -> Factor:
    """Compute the factor of n rows without a cache; ``like``, `trials x n`, defines the dtype."""
    return GrowingFactor().factor(None, like, like.unsqueeze(-1), gram)


def numbers_of_factor(rows: int) -> int:
    """Upper bound of the number of values per trial in memory for the whole blocks of a factor."""
    whole = rows - rows % FACTOR_BLOCK
    # Two triangles; and two older, smaller triangles while they are copied, or a copy for a solve.
    return 2 * (_capacity(whole) ** 2 + whole**2) if whole else 0


def _capacity(whole: int) -> int:
    """Number of rows to allocate for ``whole`` rows; it depends only on ``whole``.

    The rounding errors of a factor depend on its capacity.
    """
    capacity = FACTOR_BLOCK
    while capacity < whole:
        capacity += FACTOR_BLOCK * max(1, int((FACTOR_GROWTH - 1) * capacity / FACTOR_BLOCK))
    return capacity


def _block(lower: Tensor, inverse: Tensor, gram: Gram, last: int) -> tuple[Tensor, Tensor]:
    """Further rows of L and of L⁻¹, `trials x q x last`, below the given rows."""
    first = lower.shape[-1]
    if first == last:
        none = lower.new_zeros(len(lower), 0, last)
        return none, none
    beside, own = gram(first, last).tensor_split([first], -1)
    own.diagonal(dim1=-2, dim2=-1).add_(1)
    beside, corner = further_rows(lower, beside, own)
    below = inverted(corner)
    if not first:
        return corner, below
    return torch.cat([beside, corner], -1), torch.cat([-below @ (beside @ inverse), below], -1)


def pivoted_cholesky(
    diagonal: Tensor, row: Callable[[int], Tensor], max_rank: int, tolerance: float
) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """Partial Cholesky factor C of a matrix, by complete pivoting.

    A pivot is the first diagonal entry of the residual that equals the largest diagonal entry up to
    :data:`PIVOT_TIE`.
    Symmetries make many entries equal up to rounding, and rounding differs between processors.
    Columns are the same on all processors as long as rounding errors, relative to the pivot, stay
    far below :data:`PIVOT_TIE`.

    Args:
        diagonal: Diagonal of a symmetric positive semi-definite matrix K, `M`.
        row: A function that computes a row of K, `M`; called only for the rows of pivots.
        max_rank: Largest number of columns.
        tolerance: The factorisation stops if no diagonal entry of the residual exceeds this number.

    Returns:
        Four results: the factor C, `M x r`, with columns in the order of their pivots; the pivots,
        `r`; the diagonal of the final residual K - C Cᵀ, `M`; and the indices of the pivots, a list
        of r numbers. A pivot is a diagonal entry of the residual before the column of this pivot is
        added to C.
    """
    residual = diagonal.clone()
    factor = residual.new_empty(max_rank, len(residual))
    pivots: list[float] = []
    places: list[int] = []
    while len(pivots) < max_rank:
        rank, largest = len(pivots), float(residual.max())
        if largest <= tolerance:
            break
        place = int((residual >= (1 - PIVOT_TIE) * largest).view(torch.uint8).argmax())
        places.append(place)
        pivots.append(float(residual[place]))
        column = row(place) - factor[:rank, place] @ factor[:rank]
        column = column / pivots[-1] ** 0.5
        factor[rank] = column
        residual = residual - column.square()
        residual[place] = 0
    return factor[: len(pivots)].T, residual.new_tensor(pivots), residual, places
