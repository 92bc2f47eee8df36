"""The timings: bytes and flops by hand, live observations, and small runs of the scripts."""

import json
from multiprocessing import dummy
from types import SimpleNamespace

import pytest
import torch

from benchmarks.speed import limits, rates
from benchmarks.speed.least_work import product_flops, round_count
from benchmarks.speed.shares_of_limits import distinct
from benchmarks.speed.traffic import Traffic
from botorch_tv.gp.basis import FeatureBasis, ProductBasis

N, M, K = 3, 5, 7
A, B, C = (torch.ones(shape, dtype=torch.float64) for shape in ((N, M), (N, M), (M, K)))
OUT, INDEX = torch.empty(N, M, dtype=torch.float64), torch.zeros(N, 1, dtype=torch.int64)


@pytest.mark.full
@pytest.mark.parametrize(
    ("work", "numbers", "multiplications"),
    [
        (lambda: A + B, 3 * N * M, 0),
        (lambda: OUT.addcmul_(A, B), 4 * N * M, 0),
        (lambda: OUT.copy_(A), 2 * N * M, 0),
        (lambda: A.view(M, N).T.unsqueeze(0)[:, 1:].expand(4, -1, -1), 0, 0),
        (lambda: A.gather(-1, INDEX), 3 * N, 0),  # int64 indices are as wide as the numbers
        (lambda: OUT.scatter_add_(-1, INDEX, A[:, :1]), 4 * N, 0),
        (lambda: A @ C, N * M + M * K + N * K, N * M * K),
        (lambda: torch.einsum("nm,mk->nk", A, C), N * M + M * K + N * K, N * M * K),
    ],
)
def test_traffic(work, numbers, multiplications):
    with Traffic() as traffic:
        work()
    assert (traffic.bytes, traffic.flops) == (8 * numbers, 2 * multiplications)


def test_least_work_of_a_round():
    basis = FeatureBasis(torch.randn(100, 8, dtype=torch.float64))
    vectors, product = 6 * 100, 2 * 100 * 8
    assert round_count(basis, 3, None) == (vectors + 4 * 8, product + 4 * 3 * 8)  # rows
    assert round_count(basis, 50, None) == (vectors + 64, product + 128)  # matrix
    assert round_count(basis, 50, 2) == (vectors + 8, product + 16 + 32)  # arms
    assert round_count(basis, 3, None).seconds(8 * (vectors + 32), 1e12, 8) == 1
    factors = [torch.randn(20, 3, dtype=torch.float64), torch.randn(10, 4, dtype=torch.float64)]
    assert product_flops(ProductBasis(factors, torch.arange(12))) == 2 * (20 * 3 * 4 + 20 * 4 * 10)


def test_different_arms_of_live_observations():
    indices = torch.tensor([[1, 4], [1, 4], [2, 5], [3, 4]])
    assert distinct(indices, torch.tensor([[0, 0], [1, 1], [2, 1], [1, 3]])) == [0, 1, 1, 1.5]


@pytest.mark.full
def test_limits(tmp_path, monkeypatch):
    monkeypatch.setattr(rates, "SHORTEST", 1e-4)
    monkeypatch.setattr(rates, "BEYOND_CACHE", {"cpu": 8000})
    monkeypatch.setattr(limits, "LARGE", 16)
    threads = SimpleNamespace(get_context=lambda method: dummy)  # in place of processes
    monkeypatch.setattr(limits, "multiprocessing", threads)
    path = tmp_path / "limits.json"
    small = "--trials 2 --horizon 3 --points 5 --repeats 1 --rounds 2 4 --late-trials 2 --window 1"
    small += f" --largest 8000 --strategies TV-GP-UCB --devices cpu --threads 1 --out {path}"
    limits.main(small.split())
    found = json.loads(path.read_text())["devices"]["cpu"]
    shares = found["strategies"]["TV-GP-UCB"]
    assert shares["live"] == 1  # 0, 1 and 2
    assert shares["engine_bytes"] > shares["count_bytes"] > 6 * 25 * 8
    early, late = found["late"]["TV-GP-UCB"]
    assert (early["round"], late["round"]) == (2, 4)
    assert late["log_bytes_per_trial"] == 2 * early["log_bytes_per_trial"]
