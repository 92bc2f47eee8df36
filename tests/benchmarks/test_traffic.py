"""Bytes and flops of operations, counted by hand."""

import pytest
import torch

from benchmarks.speed.traffic import Traffic

N, M, K = 3, 5, 7


def count(work):
    with Traffic() as traffic:
        work()
    return traffic


def ones(*shape, dtype=torch.float64):
    return torch.ones(shape, dtype=dtype)


A, B = ones(N, M), ones(N, M)
OUT = torch.empty(N, M, dtype=torch.float64)


@pytest.mark.parametrize(
    ("work", "numbers"),
    [
        (lambda: A + B, 3 * N * M),
        (lambda: torch.add(A, B, out=OUT), 3 * N * M),
        (lambda: OUT.add_(B), 3 * N * M),
        (lambda: OUT.addcmul_(A, B), 4 * N * M),
        (lambda: OUT.zero_(), N * M),
        (lambda: OUT.copy_(A), 2 * N * M),
        (lambda: A.amax(-1), N * M + N),
        (lambda: A + ones(M).expand(N, M), 2 * N * M + 2 * M),  # made, then read once
        (lambda: A.view(M, N).T.unsqueeze(0)[:, 1:].expand(4, -1, -1), 0),
        (lambda: torch.empty(N, M), 0),
        (lambda: torch.cat([A, B]), 4 * N * M),
        (lambda: A.gather(-1, INDEX), 3 * N),  # int64 indices are as wide as the numbers
        (lambda: A[INDEX.flatten()], N + 2 * N * M),
        (lambda: OUT.scatter_add_(-1, INDEX, A[:, :1]), 4 * N),
        (lambda: A @ ones(M, K), N * M + 2 * M * K + N * K),
    ],
)
def test_bytes(work, numbers):
    assert count(work).bytes == 8 * numbers


INDEX = torch.zeros(N, 1, dtype=torch.int64)


def test_bytes_of_float32_are_half():
    assert count(lambda: A.float()).bytes == (8 + 4) * N * M


@pytest.mark.parametrize(
    ("work", "multiplications"),
    [
        (lambda: A @ ones(M, K), N * M * K),
        (lambda: ones(4, N, M) @ ones(4, M, K), 4 * N * M * K),
        (lambda: torch.addmm(ones(N, K), A, ones(M, K)), N * M * K),
        (lambda: torch.einsum("nm,mk->nk", A, ones(M, K)), N * M * K),
        (lambda: A * B, 0),
    ],
)
def test_flops(work, multiplications):
    assert count(work).flops == 2 * multiplications


def test_waits_and_operations_add_up_over_entries():
    traffic = Traffic()
    for _ in range(2):
        with traffic:
            float((A + B).sum())
    A.sum().item()  # outside
    assert (traffic.waits, traffic.operations) == (2, 4)
