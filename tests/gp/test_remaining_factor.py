"""What a window holds, corrected for rows that are still in its factor, against dense algebra."""

import copy
import itertools
import statistics

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel
from torch import Tensor

from botorch_tv.forgetting import EventTrigger, SlidingWindow
from botorch_tv.gp import cholesky, points
from botorch_tv.gp.cholesky import Factor, GrowingFactor, factor_of
from botorch_tv.strategies import Box, GPStrategy, MultiStart, Strategy, gp_ucb

D = torch.float64
BLOCK, TRIALS = 4, 2


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that short logs have many of."""
    monkeypatch.setattr(cholesky, "FACTOR_BLOCK", BLOCK)
    monkeypatch.setattr(points, "FACTOR_BLOCK", BLOCK)
    monkeypatch.setattr(points, "FEWEST_REMAINING", 2 * BLOCK)


def covariance(X: Tensor, Z: Tensor) -> Tensor:
    return torch.exp(-0.5 * torch.cdist(X, Z).square() / 0.3**2)


def inverse(A: Tensor) -> Tensor:
    """A⁻¹ refined in more digits, since that of double precision is off by its condition."""
    exact = A.numpy().astype(np.longdouble)
    found = np.linalg.inv(A.numpy()).astype(np.longdouble)
    for _ in range(3):
        found = found + found @ (np.eye(A.shape[-1]) - exact @ found)
    return torch.from_numpy(found.astype(np.float64))


def product(remaining: Factor, rows: int) -> Tensor:
    """M⁻ᵀ M⁻¹."""
    whitened = remaining.whitened(torch.eye(rows, dtype=D).expand(TRIALS, rows, rows))
    return whitened @ whitened.mT


SIZES, NOISES = (9, 12, 40, 43), (0.5, 1e-2, 1e-4, 1e-6)


def measured(n: int, noise: float) -> tuple[Tensor, Tensor]:
    """Covariances in units of the noise, and roots of weights: with rows that nobody keeps."""
    X = torch.rand(TRIALS, n, 2, dtype=D, generator=torch.Generator().manual_seed(n))
    X[0, 1] = X[0, 0]
    X[1, -1] = X[1, 0] + 1e-9
    root = torch.full((TRIALS, n), noise**-0.5, dtype=D)
    root[1, 2] = root[0, 5] = 0
    return root.unsqueeze(-1) * covariance(X, X) * root.unsqueeze(-2), root


def factor(weighted: Tensor, root: Tensor) -> Factor:
    return factor_of(lambda first, last: weighted[:, first:last, :last].clone(), root)


@pytest.mark.parametrize("leaving", range(1, BLOCK))
@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("n", SIZES)
def test_what_is_left_is_that_of_dense_algebra(leaving: int, noise: float, n: int) -> None:
    """Among rows that nobody keeps, and close ones, to what the condition number allows."""
    weighted, root = measured(n, noise)
    remaining = factor(weighted, root).without(leaving)
    A = (weighted + torch.eye(n, dtype=D))[:, leaving:, leaving:]
    expected, rows = inverse(A), n - leaving
    rounding = torch.finfo(D).eps * float(torch.linalg.cond(A).max())  # of a norm of at most 1
    close = {"rtol": 0, "atol": rounding}
    torch.testing.assert_close(product(remaining, rows), expected, **close)
    vector = A[:, 0] / A[:, 0].norm(dim=-1, keepdim=True)
    twice = remaining.returned(remaining.whitened(vector.unsqueeze(-2))).squeeze(-2)
    solved = (expected @ vector.unsqueeze(-1)).squeeze(-1)
    torch.testing.assert_close(twice, solved, **close)
    determinant = 0.5 * torch.linalg.slogdet(A).logabsdet
    torch.testing.assert_close(remaining.log_diagonal, determinant, rtol=1e-11, atol=1e-11)
    one = remaining.select(torch.tensor([1]))
    draw = torch.Generator().manual_seed(0)
    columns = torch.rand(1, 3, rows, dtype=D, generator=draw)
    both = remaining.whitened(columns.expand(TRIALS, -1, -1))
    torch.testing.assert_close(one.whitened(columns), both[1:], rtol=0, atol=1e-13)


@pytest.mark.parametrize("noise", NOISES)
def test_what_is_left_is_as_near_as_a_factor_computed_anew(noise: float) -> None:
    """By the median of many: how far off single ones are is chance."""
    times = []
    for n, leaving in itertools.product(SIZES, range(1, BLOCK)):
        weighted, root = measured(n, noise)
        left = weighted[:, leaving:, leaving:]
        expected, rows = inverse(left + torch.eye(n - leaving, dtype=D)), n - leaving
        remaining = factor(weighted, root).without(leaving)
        anew = factor(left, root[:, leaving:])
        found, usual = (
            float((product(one, rows) - expected).abs().max()) for one in (remaining, anew)
        )
        times.append(found / max(usual, 1e-16))
    assert statistics.median(times) < 4


def test_two_thousand_rounds_pile_up_no_rounding() -> None:
    window, rounds, noise = 21, 2000, 1e-4
    draw = torch.Generator().manual_seed(0)
    X = torch.rand(1, rounds, 2, dtype=D, generator=draw)
    growing, prior = GrowingFactor(), object()
    worst = 0.0
    for last in range(window, rounds + 1):
        left = last - window
        leaving = left % BLOCK
        rows = X[:, left - leaving : last]
        root = torch.full(rows.shape[:2], noise**-0.5, dtype=D)
        weighted = covariance(rows, rows) / noise
        whole = growing.factor(prior, root, rows, lambda a, b, K=weighted: K[:, a:b, :b].clone())
        if not leaving or (last % 50 and last < rounds - 10):
            continue
        A = (weighted + torch.eye(weighted.shape[-1], dtype=D))[:, leaving:, leaving:]
        whitened = whole.without(leaving).whitened(torch.eye(window, dtype=D).unsqueeze(0))
        difference = whitened @ whitened.mT - torch.linalg.inv(A)
        worst = max(worst, float(difference.abs().max()))
    assert worst < 1e-10


def strategy(**parts: object) -> Strategy:
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.3, dtype=D)
    given = {"retention": SlidingWindow(13)} | parts
    base = gp_ucb(kernel=kernel, noise=0.01, inference="exact")
    return GPStrategy(kernel=kernel, noise=0.01, inference="exact", width=base.width, **given)  # type: ignore[arg-type]


SQUARE = Box(
    torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D),
    search=MultiStart(raw_samples=16, restarts=2, evaluations=5),
)
QUERY = torch.rand(6, 2, dtype=D, generator=torch.Generator().manual_seed(9))


def test_a_window_is_that_of_the_textbook_in_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the correction is what gives it, where rows are still there."""
    corrected = []
    without = Factor.without

    def noted(whole: Factor, leaving: int) -> Factor:
        corrected.append(leaving)
        return without(whole, leaving)

    monkeypatch.setattr(Factor, "without", noted)
    one, draw = strategy(), torch.Generator().manual_seed(1)
    state = one.init(SQUARE, batch_shape=(TRIALS,))
    for told in range(1, 46):
        X = torch.rand(TRIALS, 2, dtype=D, generator=draw)
        y = torch.randn(TRIALS, dtype=D, generator=draw)
        ok = torch.tensor([told != 30, True])
        state, _ = one.tell(state, one.suggestion_at(state, X), y, ok=ok)
        found = one.posterior(state, QUERY)
        for trial in range(TRIALS):
            log = [part.tensor(max(0, told - 13))[trial] for part in state.data.history]
            rows, seen, noise, _ = log
            good = noise < np.inf
            A = covariance(rows[good], rows[good]) + 0.01 * torch.eye(int(good.sum()), dtype=D)
            cross = covariance(QUERY, rows[good])
            mean = cross @ torch.linalg.solve(A, seen[good])
            lost = (cross * torch.linalg.solve(A, cross.mT).mT).sum(-1)
            close = {"rtol": 0, "atol": 1e-10}
            torch.testing.assert_close(found.mean[trial].squeeze(-1), mean, **close)
            torch.testing.assert_close(found.variance[trial].squeeze(-1), 1 - lost, **close)
        fresh = one.posterior(copy.deepcopy(state), QUERY)
        torch.testing.assert_close(found.mean, fresh.mean, rtol=0, atol=0)
    assert set(corrected) == {1, 2, 3}


@pytest.mark.parametrize(
    ("parts", "dtype"),
    [({}, torch.float32), ({"retention": (SlidingWindow(13), EventTrigger(0.9))}, D)],
    ids=["single precision", "rows of single trials"],
)
def test_where_nothing_is_corrected(
    parts: dict, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*given: object) -> None:
        raise AssertionError

    monkeypatch.setattr(Factor, "without", never)
    one, draw = strategy(**parts), torch.Generator().manual_seed(1)
    state = one.init(SQUARE, batch_shape=(TRIALS,), dtype=dtype)
    for _ in range(24):
        X = torch.rand(TRIALS, 2, dtype=D, generator=draw).to(dtype)
        y = (5 * torch.randn(TRIALS, dtype=D, generator=draw)).to(dtype)
        state, _ = one.tell(state, one.suggestion_at(state, X), y)
        assert one.posterior(state, QUERY.to(dtype)).mean.isfinite().all()
    assert state.data.dropped > 0
    assert (state.data.mask is not None) == bool(parts)
