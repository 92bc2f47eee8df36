"""Cholesky factors of regressions on a box, grown with the log.

Of A = I + S (K ∘ D) S the rows of L and of L⁻¹ that belong to old observations do not change when
new ones follow, unless noise ages or a row is left out. So whole blocks of rows are kept, and a
round on n observations costs O(n²) instead of O(n³).

A block is computed by the same operations whether its turn comes while a log grows or when a long
one is read, by forward substitution in the factor itself, which is backward stable: it is the
Cholesky factorisation by blocks of rows, of which rounding does not pile up, and what is found
depends on the log, never on what was asked before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

import torch
from torch import Tensor

from botorch_tv.inference.costs import FACTOR_BLOCK, FACTOR_GROWTH, STRIP
from botorch_tv.inference.tensors import OfTrials, without_gradients

Gram = Callable[[int, int], Tensor]
"""Rows ``first`` to ``last`` of S (K ∘ D) S up to their own column, `trials x q x last`."""


@dataclass(frozen=True)
class Factor(OfTrials):
    """L with L Lᵀ = I + S (K ∘ D) S, `trials x n x n`, and its inverse.

    Attributes:
        base: L⁻¹ of the first b rows, whole blocks, `trials x b x b`.
        rows: L⁻¹ of the other m, `trials x m x n`.
        diagonal: Of L, `trials x n`.
    """

    base: Tensor
    rows: Tensor
    diagonal: Tensor

    def whitened(self, columns: Tensor) -> Tensor:
        """L⁻¹ times some columns, given and returned as rows, `trials x q x n`."""
        parts = []
        for first in range(0, self.base.shape[-1], self._strip):
            last = min(first + self._strip, self.base.shape[-1])
            parts.append(columns[..., :last] @ self.base[:, first:last, :last].mT)
        if self.rows.shape[-2]:
            parts.append(columns @ self.rows.mT)
        if not parts:
            return columns
        return parts[0] if len(parts) == 1 else torch.cat(parts, -1)

    def returned(self, columns: Tensor) -> Tensor:
        """L⁻ᵀ times some columns, given and returned as rows, `trials x q x n`."""
        known = self.base.shape[-1]
        total = columns[..., known:] @ self.rows
        for first in range(0, known, self._strip):
            last = min(first + self._strip, known)
            total[..., :last] += columns[..., first:last] @ self.base[:, first:last, :last]
        return total

    @property
    def log_diagonal(self) -> Tensor:
        """Logarithm of det L, `trials`."""
        return self.diagonal.log().sum(-1)

    @property
    def _strip(self) -> int:
        """Rows multiplied at a time, so that few of the zeros above the diagonal are."""
        whole = self.base.shape[-1]
        return STRIP if self.base.device.type == "cpu" and whole >= 2 * STRIP else max(1, whole)


class Log(NamedTuple):
    """The data that determine a factor together with the kernel."""

    prior: object
    """Kernel, and decay where it is learned: what it is, not what it is like."""
    choice: Tensor
    """`trials x n x d`."""
    root: Tensor
    """S, `trials x n`."""
    elapsed: Tensor | None
    """Times, `trials x n`; None where D is 1."""

    def agreeing(self, other: Log) -> int:
        """How many of the first rows are the same in all trials."""
        common = min(self.root.shape[-1], other.root.shape[-1])
        moves = self.elapsed is not None
        if other.prior is not self.prior or moves != (other.elapsed is not None):
            return 0
        if self.choice[:, :0].shape != other.choice[:, :0].shape or not common:
            return 0
        same = (self.choice[:, :common] == other.choice[:, :common]).all(-1)
        same &= self.root[:, :common] == other.root[:, :common]
        if self.elapsed is not None and other.elapsed is not None:
            same &= self.elapsed[:, :common] == other.elapsed[:, :common]
        rows = same.all(0)
        return common if bool(rows.all()) else int(rows.to(torch.uint8).argmin())

    def first(self, rows: int) -> Log:
        """The first rows."""
        elapsed = None if self.elapsed is None else self.elapsed[:, :rows]
        return Log(self.prior, self.choice[:, :rows], self.root[:, :rows], elapsed)


class _Held(NamedTuple):
    """Whole blocks, in memory with room for more; what is written is never written again."""

    log: Log
    lower: Tensor  # L, trials x capacity x capacity
    inverse: Tensor  # L⁻¹

    @property
    def rows(self) -> int:
        return self.log.root.shape[-1]


class GrowingFactor:
    """Whole blocks of the newest factor asked for, shared by the states of a history.

    It is a cache: states that have parted find what is true of both, a copy and a file begin with
    nothing, and what is answered is the same in any case. Threads take turns, since two that grow
    would write in the same room.
    """

    def __init__(self) -> None:
        self._held: _Held | None = None
        self._turn = Lock()

    def __reduce__(self) -> tuple[object, tuple[()]]:
        return GrowingFactor, ()

    @without_gradients
    def factor(self, log: Log, gram: Gram) -> Factor:
        """The factor for a log.

        Args:
            log: What was observed.
            gram: The rest of what it is computed from.
        """
        trials, n = log.root.shape
        whole = n - n % FACTOR_BLOCK
        if not whole:
            lower, inverse = log.root.new_zeros(2, trials, 0, 0)
            return _last(lower, inverse, gram, n)
        with self._turn:
            held = self._held = self._with(log, whole, gram)
        return _last(held.lower[:, :whole, :whole], held.inverse[:, :whole, :whole], gram, n)

    def _with(self, log: Log, whole: int, gram: Gram) -> _Held:
        """The factor held, with a number of rows of a log in it."""
        held, agreeing = self._held, 0
        if held is not None and held.log.root.dtype == log.root.dtype:
            agreeing = log.agreeing(held.log)
            agreeing -= agreeing % FACTOR_BLOCK
        agreeing = min(agreeing, whole)
        if held is None or whole > agreeing or held.lower.shape[-1] != _room(whole):
            return _grown(held, agreeing, log.first(whole), gram)
        return held


def numbers_of_factor(rows: int) -> int:
    """Numbers per trial that a factor of so many rows takes at most, those of a block aside."""
    whole = rows - rows % FACTOR_BLOCK
    if not whole:
        return 0
    room = _room(whole)
    needed = [one for one in range(FACTOR_BLOCK, whole, FACTOR_BLOCK) if _room(one) < room]
    # Two triangles, and two smaller ones that they have grown from, or a copy that is solved with.
    return 2 * room**2 + max(2 * _room(needed[-1]) ** 2 if needed else 0, whole**2)


def _room(whole: int) -> int:
    """Rows for which there is room, the same whatever came before, since rounding depends on it."""
    room = FACTOR_BLOCK
    while room < whole:
        room += FACTOR_BLOCK * max(1, int((FACTOR_GROWTH - 1) * room / FACTOR_BLOCK))
    return room


def factor_of(gram: Gram, like: Tensor) -> Factor:
    """The factor for rows as many as ``like`` has, `trials x n`, of which nothing is kept."""
    return GrowingFactor().factor(Log(None, like.unsqueeze(-1), like, None), gram)


def _grown(held: _Held | None, agreeing: int, log: Log, gram: Gram) -> _Held:
    """Blocks for all rows of a log, of which the first agree with those held."""
    trials, whole = log.root.shape
    room = _room(whole)
    if held is None or agreeing < min(held.rows, whole) or held.lower.shape[-1] != room:
        lower, inverse = (log.root.new_zeros(trials, room, room) for _ in range(2))
        if held is not None:
            lower[:, :agreeing, :agreeing] = held.lower[:, :agreeing, :agreeing]
            inverse[:, :agreeing, :agreeing] = held.inverse[:, :agreeing, :agreeing]
    else:
        lower, inverse = held.lower, held.inverse
    for first in range(agreeing, whole, FACTOR_BLOCK):
        last = first + FACTOR_BLOCK
        left = lower[:, :first, :first], inverse[:, :first, :first]
        lower[:, first:last, :last], inverse[:, first:last, :last] = _block(*left, gram, last)
    return _Held(log, lower, inverse)


def _last(lower: Tensor, inverse: Tensor, gram: Gram, n: int) -> Factor:
    """The factor for n rows, of which all whole blocks are known."""
    diagonal = lower.diagonal(dim1=-2, dim2=-1)
    beside, rows = _block(lower, inverse, gram, n)
    corner = beside[..., lower.shape[-1] :].diagonal(dim1=-2, dim2=-1)
    return Factor(inverse, rows, torch.cat([diagonal, corner], -1))


def _block(lower: Tensor, inverse: Tensor, gram: Gram, last: int) -> tuple[Tensor, Tensor]:
    """Further rows of L and of L⁻¹, `trials x q x last`, below those known."""
    first = lower.shape[-1]
    if first == last:
        none = lower.new_zeros(len(lower), 0, last)
        return none, none
    rows = gram(first, last)
    beside, own = rows[..., :first], rows[..., first:]
    own.diagonal(dim1=-2, dim2=-1).add_(1)
    if first:
        beside = torch.linalg.solve_triangular(lower, beside.mT, upper=False).mT
        own = own - beside @ beside.mT
    # Eigenvalues are at least 1 up to rounding, so the factorisation cannot fail on finite input.
    corner = torch.linalg.cholesky_ex(own).L
    identity = torch.eye(last - first, dtype=own.dtype, device=own.device).expand_as(corner)
    below = torch.linalg.solve_triangular(corner, identity, upper=False)
    if not first:
        return corner, below
    return torch.cat([beside, corner], -1), torch.cat([-below @ (beside @ inverse), below], -1)
