"""Rates of a device: bytes per second from memory, flops per second of matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.speed.engine_runs import now

SHORTEST = 0.05  # seconds of a timing; launches and the clock are negligible
MEBIBYTE = 2**20
BEYOND_CACHE = {"cpu": 128 * MEBIBYTE, "cuda": 512 * MEBIBYTE}
"""Bytes of a tensor that exceeds every cache."""


class Timed(NamedTuple):
    """A rate with its operation and size."""

    operation: str
    size: tuple[int, ...]
    per_second: float


def bandwidths(device: torch.device, sizes: Sequence[int], *, repeats: int = 5) -> list[Timed]:
    """Bytes read and written per second by a copy and by ``a = b + s c``, per size of a tensor.

    Args:
        device: The device; a CPU with the threads of torch.
        sizes: Bytes of one tensor.
        repeats: Timings; the fastest counts.
    """
    found = []
    for size in sizes:
        a, b, c = (torch.ones(size // 8, dtype=torch.float64, device=device) for _ in range(3))

        def copy(a: Tensor = a, b: Tensor = b) -> None:
            a.copy_(b)

        def triad(a: Tensor = a, b: Tensor = b, c: Tensor = c) -> None:
            torch.add(b, c, alpha=0.5, out=a)

        for operation, work, tensors in (("copy", copy, 2), ("triad", triad, 3)):
            seconds = fastest(work, device, repeats=repeats)
            found.append(Timed(operation, (size,), tensors * a.nbytes / seconds))
    return found


def matmul_rates(
    device: torch.device,
    dtype: torch.dtype,
    shapes: Sequence[tuple[int, int, int]],
    *,
    repeats: int = 5,
) -> list[Timed]:
    """Flops per second of products `m x k` by `k x n`, two flops per multiplication.

    Args:
        device: The device; a CPU with the threads of torch.
        dtype: Of the factors. On a CUDA device float32 keeps torch's default precision.
        shapes: (m, k, n) each.
        repeats: Timings; the fastest counts.
    """
    found = []
    for m, k, n in shapes:
        left = torch.rand(m, k, dtype=dtype, device=device)
        right = torch.rand(k, n, dtype=dtype, device=device)
        out = torch.empty(m, n, dtype=dtype, device=device)

        def product(left: Tensor = left, right: Tensor = right, out: Tensor = out) -> None:
            torch.mm(left, right, out=out)

        seconds = fastest(product, device, repeats=repeats)
        found.append(Timed("matmul", (m, k, n), 2 * m * k * n / seconds))
    return found


def fastest(work: Callable[[], None], device: torch.device, *, repeats: int) -> float:
    """Seconds of a call: the fastest of ``repeats`` rows of calls that each take `SHORTEST`."""
    work()
    calls = 1
    while (seconds := _row(work, device, calls)) < SHORTEST:
        calls = max(2 * calls, int(1.2 * calls * SHORTEST / max(seconds, 1e-9)))
    return min([seconds, *(_row(work, device, calls) for _ in range(repeats - 1))]) / calls


def _row(work: Callable[[], None], device: torch.device, calls: int) -> float:
    begin = now(device)
    for _ in range(calls):
        work()
    return now(device) - begin
