"""A factor that grows is that of dense algebra, whatever was computed before."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest
import torch
from gp.kernels import made
from oracles.dense import regression, squared_exponential
from torch.testing import assert_close

from botorch_tv.forgetting import (
    ExponentialWeights,
    Markov,
    PeriodicReset,
    SlidingWindow,
    WassersteinRemoval,
    Wiener,
)
from botorch_tv.gp import cholesky, points
from botorch_tv.gp.cholesky import Factor, GrowingFactor, factor_of
from botorch_tv.gp.data import Present
from botorch_tv.strategies import Box, MultiStart, State, Strategy, et_gp_ucb, gp_ucb

D = torch.float64
SQUARE = Box(
    torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D),
    search=MultiStart(raw_samples=16, restarts=2, evaluations=5),
)
LENGTHSCALE, NOISE, TRIALS = 0.4, 0.02, 2
QUERY = torch.rand(5, 2, dtype=D, generator=torch.Generator().manual_seed(9))


COMMON = {"kernel": made("rbf", LENGTHSCALE), "noise": NOISE, "inference": "exact"}
BASE = gp_ucb(**COMMON)
MOVING = replace(BASE, decay=Markov(0.05))
TRIGGER = et_gp_ucb(**COMMON)
STAYS, MOVES, WALKS = {}, {"decay": ("markov", 0.05)}, {"decay": ("wiener", 0.1)}
REMOVAL = WassersteinRemoval(0.05, LENGTHSCALE, alpha=2.0)
WALK, AGES = Wiener(0.1), ExponentialWeights(0.97)
CASES = {
    "static": (BASE, STAYS),
    "markov": (MOVING, MOVES),
    "wiener": (replace(BASE, decay=WALK), WALKS),
    "estimated mean": (replace(BASE, mean="estimated"), {"mean": "estimated"}),
    "aged": (replace(BASE, inflation=AGES), {"inflation": ("exponential", 0.97)}),
    "window": (replace(BASE, retention=SlidingWindow(11)), STAYS),
    "window by time": (replace(MOVING, retention=SlidingWindow(9.5, by="time")), MOVES),
    "periods": (replace(BASE, decay=WALK, retention=PeriodicReset(13)), WALKS),
    "trigger": (TRIGGER, STAYS),
    "removal": (replace(MOVING, retention=REMOVAL), MOVES),
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks and strips that short logs have many of."""
    monkeypatch.setattr(cholesky, "FACTOR_BLOCK", 4)
    monkeypatch.setattr(cholesky, "STRIP", 8)
    monkeypatch.setattr(points, "FACTOR_BLOCK", 4)


def played(strategy: Strategy, state: State, rounds: int, seed: int = 0, *, asks: bool) -> State:
    """A state after measurements at random points; the objective jumps, one measurement fails."""
    draw = torch.Generator().manual_seed(seed)
    for _ in range(rounds):
        X = torch.rand(TRIALS, 2, dtype=D, generator=draw)
        now = state.time + 1.0 + 0.5 * (state.rounds % 2)
        suggestion = strategy.suggestion_at(state, X, now=now)
        if asks:
            strategy.ask(state)
        y = torch.sin(5 * X.sum(-1)) + 4.0 * (state.rounds > torch.tensor([17, 9]))
        ok = torch.tensor([state.rounds != 6, True])
        state, _ = strategy.tell(state, suggestion, y, ok=ok)
    return state


@pytest.mark.few(3)
@pytest.mark.parametrize("name", CASES)
def test_rounds_by_the_textbook_and_as_if_computed_anew(name: str) -> None:
    strategy, parts = CASES[name]
    state, rest = strategy.init(SQUARE, batch_shape=(TRIALS,)), []
    for third in range(9):
        state = played(strategy, state, 3, third, asks=True)
        now = state.time + 0.7
        found = strategy.posterior(state, QUERY, now=now)
        fresh = strategy.posterior(copy.deepcopy(state), QUERY, now=now)
        assert_close(found.mean, fresh.mean, rtol=0, atol=1e-13)
        assert_close(found.variance, fresh.variance, rtol=0, atol=1e-13)
        data = strategy.decision(state, now).data
        for trial in range(TRIALS):
            retained = data.retained[trial].nonzero().squeeze(-1) + data.dropped
            X, y, noise, time = (item.tensor()[trial, retained].numpy() for item in data.history)
            rest.append(len(y))
            K = squared_exponential(np.concatenate([X, QUERY.numpy()]), LENGTHSCALE)
            mean, variance = regression(
                K, range(len(y)), time, y, float(now[trial]), noise=noise,
                reference=float(now[trial]), origin=float(data.origin[trial]), **parts,
            )  # fmt: skip
            gap = found.mean[trial, :, 0].numpy() - mean[len(y) :]
            assert np.abs(gap).max() < 1e-10
            assert np.abs(found.variance[trial, :, 0].numpy() - variance[len(y) :]).max() < 1e-10
    assert max(rest) >= 8  # two whole blocks
    assert (min(rest[-2:]) < 27) == bool(strategy.process.retention)


def test_histories_that_part_do_not_meet_again() -> None:
    strategy = MOVING
    root = played(strategy, strategy.init(SQUARE, batch_shape=(TRIALS,)), 9, asks=True)
    early = strategy.inference_for(SQUARE, root.basis).predict(
        root.data, Present(root.time, root.time)
    )
    X = QUERY.expand(TRIALS, -1, -1)
    before = [item.clone() for item in early.at(X)]
    futures = [played(strategy, root, 11, seed, asks=True) for seed in (1, 2, 3)]
    futures += [played(strategy, futures[0], 5, 7, asks=True)]
    for state in (*futures, root, *reversed(futures)):
        found, fresh = (strategy.posterior(item, QUERY) for item in (state, copy.deepcopy(state)))
        assert_close(found.mean, fresh.mean, rtol=0, atol=1e-13)
        assert_close(found.variance, fresh.variance, rtol=0, atol=1e-13)
    assert all(torch.equal(*pair) for pair in zip(before, early.at(X)))


class Log(NamedTuple):
    """Inputs of a factor other than the kernel's values."""

    prior: object
    root: torch.Tensor
    beside: torch.Tensor


def problem(n: int, trials: int = 3) -> tuple[torch.Tensor, Log]:
    """S K S, `trials x n x n`, and a log that it belongs to."""
    draw = torch.Generator().manual_seed(n)
    X = torch.rand(trials, n, 2, dtype=D, generator=draw)
    root = 5 * torch.rand(trials, n, dtype=D, generator=draw)
    K = torch.exp(-torch.cdist(X, X).square())
    return root.unsqueeze(-1) * K * root.unsqueeze(-2), Log("prior", root, X)


def rows_of(matrix: torch.Tensor, firsts: list[int] | None = None):
    def gram(first: int, last: int) -> torch.Tensor:
        if firsts is not None:
            firsts.append(first)
        return matrix[:, first:last, :last].clone()

    return gram


@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 17, 40, 43])
def test_products_are_those_of_the_inverse(n: int) -> None:
    matrix, log = problem(n)
    factor = factor_of(rows_of(matrix), log.root)
    dense = torch.linalg.cholesky(matrix + torch.eye(n, dtype=D))
    inverse = torch.linalg.inv(dense)
    columns = torch.rand(3, 6, n, dtype=D)
    close = {"rtol": 1e-11, "atol": 1e-12}
    assert_close(factor.whitened(columns), columns @ inverse.mT, **close)
    assert_close(factor.returned(columns), columns @ inverse, **close)
    gain = dense.diagonal(dim1=-2, dim2=-1).log().sum(-1)
    assert_close(factor.log_diagonal, gain, **close)
    some = factor.select(torch.tensor([2, 0]))
    assert_close(some.whitened(columns[[2, 0]]), (columns @ inverse.mT)[[2, 0]], **close)


@pytest.mark.parametrize("changed", ["prior", "root", "beside"])
def test_another_log_is_another_factor(changed: str) -> None:
    matrix, log = problem(20)
    other = matrix.clone()
    other[1, 13], other[1, :, 13] = 0.5 * other[1, 13], 0.5 * other[1, :, 13]
    if changed == "prior":
        other, second = 0.5 * matrix, log._replace(prior="other")
    else:
        part = getattr(log, changed).clone()
        part[1, 13] += 0.25
        second = log._replace(**{changed: part})
    growing, firsts = GrowingFactor(), []
    growing.factor(*log, rows_of(matrix))
    found = growing.factor(*second, rows_of(other, firsts))
    assert min(firsts) == (0 if changed == "prior" else 12)
    assert torch.equal(found.base, factor_of(rows_of(other), log.root).base)


def test_threads_that_grow_at_once_do_not_write_over_each_other() -> None:
    """The second of two futures is requested while the first is computed."""
    n, past = 40, 36
    matrix, log = problem(n)
    others = matrix.clone()
    others[:, past:], others[..., past:] = 0.5 * others[:, past:], 0.5 * others[..., past:]
    second = log._replace(root=log.root.clone())
    second.root[:, past:] *= 0.5
    growing, begun, done = GrowingFactor(), threading.Event(), threading.Event()
    growing.factor("prior", log.root[:, :past], log.beside[:, :past], rows_of(matrix))

    def slow(first: int, last: int) -> torch.Tensor:
        begun.set()
        done.wait(0.2)  # times out where threads take turns
        return matrix[:, first:last, :last].clone()

    def beside() -> Factor:
        begun.wait()
        found = growing.factor(*second, rows_of(others))
        done.set()
        return found

    with ThreadPoolExecutor(1) as pool:
        other = pool.submit(beside)
        found = growing.factor(*log, slow)
    for factor, of in ((found, matrix), (other.result(), others)):
        assert torch.equal(factor.base, factor_of(rows_of(of), log.root).base)
