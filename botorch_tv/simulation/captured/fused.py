"""The passes of a captured round in three kernels, which Triton compiles.

An operation of PyTorch reads its arguments from memory and writes its result there; here numbers
stay in registers between a mean, a variance and a choice. Numbers moved per trial, in units of M:

==========================================  ==================  =====
pass                                        operation by        fused
                                            operation
==========================================  ==================  =====
choice                                      11                  2
choice, of an objective that moves          17                  4
observation                                 6                   5
observation, where trials may forget        10                  5
==========================================  ==================  =====

Of the matrix that a trial keeps for all pairs of slots, numbers of the arms held are read and
written once; operations read and write all of it, twice where it shrinks.
"""

from __future__ import annotations

from functools import cached_property

import torch
import triton
import triton.language as tl
from torch import Tensor

from botorch_tv.simulation.captured.passes import Elapsed, Passes

TOGETHER = 1024
"""Arms that one program takes an observation in for."""
TILE = (16, 64)
"""Rows and columns of a matrix that one program works on."""
FEWEST = 32
"""Arms of one program, so that each is written by one thread alone."""
PER_WARP = 256
"""Arms of one warp of a program that chooses: 8 a thread, whose scores stay in registers."""


@triton.jit  # type: ignore[untyped-decorator]
def _choose(  # type: ignore[no-untyped-def]
    mean,
    variance,
    prior,
    sqrt_beta,
    kept,
    square,
    grown,
    tie,
    chosen,
    arms,
    between_betas,
    MOVES: tl.constexpr,
    MAXIMIZE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One trial: the score of all arms, and the first of those that tie with the best."""
    trial = tl.program_id(0).to(tl.int64)
    arm = tl.arange(0, BLOCK)
    there = arm < arms
    place = trial * arms + arm
    m = tl.load(mean + place, mask=there, other=0.0)
    v = tl.load(variance + place, mask=there, other=0.0)
    if MOVES:
        m = m * tl.load(kept + trial)
        v = v * tl.load(square + trial)
        v += tl.load(grown + trial) * tl.load(prior + arm, mask=there, other=0.0)
        tl.store(mean + place, m, mask=there)
        tl.store(variance + place, v, mask=there)
    score = tl.sqrt(tl.maximum(v, 0.0)) * tl.load(sqrt_beta + trial * between_betas)
    if MAXIMIZE:
        score += m
    else:
        score -= m
    score = tl.where(there, score, -float("inf"))
    # The tie is read from memory: a number of Python's would be rounded to single precision.
    near = score >= tl.max(score, axis=0) - tl.load(tie)
    first = tl.min(tl.where(near & there, arm, BLOCK), axis=0)
    # No score is near the best where that is no number, which a study refuses later.
    tl.store(chosen + trial, tl.where(first < arms, first, 0).to(tl.int64))


@triton.jit  # type: ignore[untyped-decorator]
def _take_in(  # type: ignore[no-untyped-def]
    mean,
    variance,
    step,
    surprise,
    forgotten,
    first,
    arms,
    FORGETS: tl.constexpr,
    LEAVES_OUT: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Some arms of one trial."""
    trial = tl.program_id(0).to(tl.int64)
    arm = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    there = arm < arms
    place = trial * arms + arm
    m = tl.load(mean + place, mask=there, other=0.0)
    v = tl.load(variance + place, mask=there, other=0.0)
    if FORGETS:
        anew = tl.load(forgotten + trial) != 0
        m = tl.where(anew, 0.0, m)
        v = tl.where(anew, tl.load(first + arm, mask=there, other=0.0), v)
    s = tl.load(step + place, mask=there, other=0.0)
    moved = s * tl.load(surprise + trial)
    if LEAVES_OUT:
        m -= moved
        v += s * s
    else:
        m += moved
        v -= s * s
    tl.store(mean + place, m, mask=there)
    tl.store(variance + place, v, mask=there)


@triton.jit  # type: ignore[untyped-decorator]
def _absorb(  # type: ignore[no-untyped-def]
    inverse,
    direction,
    square,
    reach,
    slots,
    SHRINKS: tl.constexpr,
    LEAVES_OUT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Some rows and columns of the matrix of one trial."""
    trial = tl.program_id(0).to(tl.int64)
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    held = tl.load(reach + trial)
    there = (row < held)[:, None] & (column < held)[None, :]
    place = (trial * slots + row[:, None]) * slots + column[None, :]
    p = tl.load(inverse + place, mask=there, other=0.0)
    if SHRINKS:
        p = p * tl.load(square + trial)
    left = tl.load(direction + trial * slots + row, mask=row < held, other=0.0)
    right = tl.load(direction + trial * slots + column, mask=column < held, other=0.0)
    product = left[:, None] * right[None, :]
    if LEAVES_OUT:
        p -= product
    else:
        p += product
    tl.store(inverse + place, p, mask=there)


class FusedPasses(Passes):
    """As :class:`~botorch_tv.simulation.captured.passes.Passes`, each a kernel of its own.

    All that is given is contiguous.
    """

    @cached_property
    def _tie(self) -> Tensor:
        """Made by the first choice, which nobody records."""
        return self.mean.new_full((1,), self.tie)

    def choose(self, sqrt_beta: Tensor, elapsed: Elapsed | None) -> Tensor:
        trials, arms = self.mean.shape
        chosen = torch.empty(trials, dtype=torch.int64, device=self.mean.device)
        block = max(FEWEST, triton.next_power_of_2(arms))
        with torch.cuda.device(
            self.mean.get_device()
        ):  # on the current device Triton starts kernels
            _choose[(trials,)](
                self.mean,
                self.variance,
                self.prior,
                sqrt_beta,
                *(elapsed or 3 * (self.prior,)),  # which are not read
                self._tie,
                chosen,
                arms,
                int(len(sqrt_beta) > 1),
                MOVES=elapsed is not None,
                MAXIMIZE=self.sign > 0,
                BLOCK=block,
                num_warps=min(32, max(1, block // PER_WARP)),
            )
        return chosen

    def take_in(
        self, step: Tensor, surprise: Tensor, forgotten: Tensor | None, *, sign: int
    ) -> None:
        trials, arms = self.mean.shape
        with torch.cuda.device(self.mean.get_device()):
            _take_in[(trials, triton.cdiv(arms, TOGETHER))](
                self.mean,
                self.variance,
                step.contiguous(),
                surprise,
                self.first if forgotten is None else forgotten.view(torch.uint8),
                self.first,
                arms,
                FORGETS=forgotten is not None,
                LEAVES_OUT=sign < 0,
                BLOCK=TOGETHER,
            )

    def absorb(
        self,
        inverse: Tensor,
        direction: Tensor,
        square: Tensor | None,
        reach: Tensor,
        *,
        sign: int,
    ) -> None:
        trials, slots = direction.shape
        rows, columns = TILE
        with torch.cuda.device(self.mean.get_device()):
            _absorb[(trials, triton.cdiv(slots, rows), triton.cdiv(slots, columns))](
                inverse,
                direction.contiguous(),
                self.prior if square is None else square,  # which is not read
                reach,
                slots,
                SHRINKS=square is not None,
                LEAVES_OUT=sign < 0,
                ROWS=rows,
                COLUMNS=columns,
            )
