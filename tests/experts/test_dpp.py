"""k-DPP sampling against enumerated determinants and the transition matrix of the swap chain."""

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from numpy.typing import NDArray
from torch import Tensor

from botorch_tv.experts import default_steps, greedy_map, k_dpp
from botorch_tv.strategies import dpp
from botorch_tv.strategies.dpp import (
    draw_keys,
    log_elementary_polynomials,
    sample_by_eigenvalues,
    swap_chain,
)

Array = NDArray[np.float64]


class Numbers:
    """Draws for a batch of trials, each from a generator of its own."""

    def __init__(self, shape: tuple[int, ...], seeds: list[int] | None = None) -> None:
        self.shape = shape
        seeds = list(range(math.prod(shape))) if seeds is None else seeds
        self.generators = [np.random.default_rng([7, seed]) for seed in seeds]

    def uniform(self, *event: int) -> Tensor:
        rows = np.stack([item.random(event) for item in self.generators])
        return torch.from_numpy(rows.reshape(*self.shape, *event))

    normal = uniform


def line(points: int, lengthscale: float) -> Array:
    x = np.linspace(0.0, 1.0, points)
    return np.exp(-0.5 * ((x[:, None] - x) / lengthscale) ** 2)


def det(K: Array, rows: Sequence[int]) -> float:
    return float(np.linalg.det(K[np.ix_(rows, rows)])) if rows else 1.0


def law(K: Array, size: int) -> tuple[list[tuple[int, ...]], Array]:
    """All subsets and their probabilities."""
    subsets = list(itertools.combinations(range(len(K)), size))
    weights = np.array([max(0.0, det(K, z)) for z in subsets])
    return subsets, weights / weights.sum()


def chain_law(K: Array, start: tuple[int, ...], steps: int) -> Array:
    """Distribution over all subsets after so many proposals, by the transition matrix."""
    size, n = len(start), len(K)
    subsets, weight = law(K, size)
    number = {z: i for i, z in enumerate(subsets)}
    P = np.zeros((len(subsets), len(subsets)))
    for i, z in enumerate(subsets):
        for out, into in itertools.product(z, set(range(n)) - set(z)):
            j = number[tuple(sorted({*z, into} - {out}))]
            P[i, j] += min(1.0, weight[j] / weight[i]) / (size * (n - size)) if weight[i] else 0.0
        P[i, i] = 1.0 - P[i].sum()
    at = np.zeros(len(subsets))
    at[number[tuple(sorted(start))]] = 1.0
    return at @ np.linalg.matrix_power(P, steps)


def brute_greedy(K: Array, count: int) -> list[int]:
    """One point after the other, each making the determinant as large as it can be."""
    chosen: list[int] = []
    for _ in range(count):
        rest = [i for i in range(len(K)) if i not in chosen]
        values = [det(K, [*chosen, i]) for i in rest]
        best = max(values)
        chosen.append(next(i for i, v in zip(rest, values) if v >= best * (1 - 1e-9)))
    return chosen


def frequencies(index: Tensor, subsets: list[tuple[int, ...]]) -> Array:
    number = {z: i for i, z in enumerate(subsets)}
    seen = [number[tuple(sorted(row))] for row in index.tolist()]
    return np.bincount(seen, minlength=len(subsets)) / len(seen)


class Fast(Numbers):
    """Numbers from a common generator, for very many trials."""

    def __init__(self, trials: int) -> None:
        self.shape, self.generator = (trials,), np.random.default_rng(11)

    def uniform(self, *event: int) -> Tensor:
        return torch.from_numpy(self.generator.random((*self.shape, *event)))


def sampled(K: Array, size: int, draws: int, steps: int | str | None, subsets: list) -> Array:
    batch = torch.from_numpy(K).expand(draws, *K.shape)
    return frequencies(k_dpp(batch, size, Fast(draws), steps=steps)[0], subsets)


def variation(first: Array, second: Array) -> float:
    return 0.5 * float(np.abs(first - second).sum())


def expected_variation(p: Array, draws: int) -> float:
    """Of the frequencies of so many exact draws, about."""
    return 0.5 * float(np.sqrt(2 / np.pi * p * (1 - p) / draws).sum())


@pytest.mark.parametrize("steps", [1, 3, 12])
def test_chain_follows_its_transition_matrix(steps: int) -> None:
    """Far from equilibrium, where a wrong proposal or ratio shows most."""
    K, size, draws = line(8, 0.2) * 0.7, 3, 8000
    subsets, _ = law(K, size)
    expected = chain_law(K, tuple(brute_greedy(K, size)), steps)
    f = sampled(K, size, draws, steps, subsets)
    assert variation(f, expected) < 1.6 * expected_variation(expected, draws)


@pytest.mark.parametrize("steps", [None, "exact"])
def test_batch_is_a_loop_of_singles(steps: str | None) -> None:
    """With different points, numbers of points and sizes in each trial."""
    random = np.random.default_rng(3)
    n, sizes = 14, [14, 3, 9, 1]
    K = np.stack([line(n, scale) for scale in (0.05, 0.1, 0.3, 0.2)])
    there = np.zeros((4, n), dtype=bool)
    for trial, number in enumerate(sizes):
        there[trial, random.permutation(n)[:number]] = True
    points, options = torch.from_numpy(there).view(2, 2, n), {"steps": steps, "clip": True}
    batch = torch.from_numpy(K).view(2, 2, n, n)
    together = k_dpp(batch, 6, Numbers((2, 2)), points=points, **options)
    assert together[0].shape == together[1].shape == (2, 2, 6)
    for trial in range(4):
        places = np.flatnonzero(there[trial])
        single = torch.from_numpy(K[trial][np.ix_(places, places)])
        alone = k_dpp(single, 6, Numbers((), [trial]), **options)
        index = together[0].view(4, 6)[trial][together[1].view(4, 6)[trial]]
        assert len(index) == min(6, sizes[trial])
        assert set(index.tolist()) <= set(places.tolist())
        assert index.tolist() == [places[i] for i in alone[0][alone[1]].tolist()]


def test_greedy_start() -> None:
    random = np.random.default_rng(5)
    for _ in range(5):
        root = random.standard_normal((9, 9))
        K = root @ root.T
        greedy = greedy_map(torch.from_numpy(K), 5)
        expected = brute_greedy(K, 5)
        assert greedy[0].tolist() == expected
        growth = [det(K, expected[:q]) for q in range(6)]
        np.testing.assert_allclose(greedy[1], np.divide(growth[1:], growth[:-1]))
    assert greedy_map(torch.eye(4).double(), 3)[0].tolist() == [0, 1, 2]  # ties: lowest first
    # Also where they were computed in float32, with the rounding of any processor.
    rounded = torch.diag(torch.tensor([1.0, 1.0 + 2.0**-23, 1.0 - 2.0**-24, 1.0 + 2.0**-22]))
    assert greedy_map(rounded, 3)[0].tolist() == [0, 1, 2]
    assert k_dpp(rounded, 3, Numbers(()), steps=0)[0].tolist() == [0, 1, 2]
    assert greedy_map(rounded.double(), 1)[0].tolist() == [3]
    # Beyond the number of points.
    more = greedy_map(torch.tensor([[2.0, 1.0], [1.0, 2.0]], dtype=torch.float64), 4)
    assert more[1].tolist() == pytest.approx([2.0, 1.5, 0.0, 0.0])
    assert not more[2][:, 2:].any()


def test_elementary_polynomials() -> None:
    """Against sums of products, and where plain numbers would overflow or vanish."""
    values = np.array([[1e-3, 0.2, 0.0, 3.0, 0.7]])
    with np.errstate(divide="ignore"):
        ours = log_elementary_polynomials(torch.from_numpy(np.log(values)), 3)[0].exp()
    for upto in range(6):
        for k in range(4):
            terms = itertools.combinations(values[0, :upto], k)
            assert ours[upto, k] == pytest.approx(sum(math.prod(item) for item in terms), abs=1e-14)
    tiny = torch.full((1, 400), -50.0, dtype=torch.float64)
    assert log_elementary_polynomials(tiny, 200)[0, 400, 200] == pytest.approx(
        200 * -50 + math.lgamma(401) - 2 * math.lgamma(201)
    )


@pytest.mark.parametrize("steps", [None, "exact"])
def test_a_singular_kernel(steps: str | None) -> None:
    """Rank 3 on 7 points, two of them the same: no subset ever has determinant 0."""
    features = np.random.default_rng(8).standard_normal((7, 3))
    features[6] = features[0]
    K = features @ features.T
    subsets, p = law(K, 3)
    f = sampled(K, 3, 5000, steps, subsets)
    assert f[p < 1e-12].sum() == 0
    assert variation(f, p) < 1.6 * expected_variation(p, 5000)
    clipped = k_dpp(torch.from_numpy(K).expand(9, 7, 7), 5, Numbers((9,)), steps=steps, clip=True)
    assert clipped[1].sum(-1).tolist() == [3] * 9


@pytest.mark.parametrize(("lengthscale", "steps"), [(0.3, 400), (3.0, 400), (3.0, "exact")])
def test_nearly_singular_kernels(lengthscale: float, steps: int | str) -> None:
    """Smooth kernels on a fine line: subsets of full numerical rank, all points distinct."""
    K = torch.from_numpy(line(60, lengthscale)).expand(4, 60, 60)
    drawn = k_dpp(K, 60, Numbers((4,)), steps=steps, clip=True)
    rank = drawn[1].sum(-1)
    values = np.linalg.eigvalsh(line(60, lengthscale))
    assert bool((rank <= (values > 1e-13 * values[-1]).sum()).all())
    assert bool((rank >= (values > 1e-8 * values[-1]).sum()).all())
    for index, mask in zip(*drawn):
        assert len(set(index[mask].tolist())) == int(mask.sum())


@pytest.mark.parametrize("steps", [None, "exact"])
def test_small_variances_above_rounding_count(steps: str | None) -> None:
    """A conditional variance of 1e-9 counts, a variance of 1e-12 is rounding."""
    K = torch.diag(torch.tensor([1.0, 1e-12, 1e-9], dtype=torch.float64))
    generator = torch.Generator().manual_seed(0)
    assert k_dpp(K, 2, generator, steps=steps)[0].sort().values.tolist() == [0, 2]
    with pytest.raises(InputDataError, match="2 is the numerical rank"):
        k_dpp(K, 3, generator, steps=steps)


def test_single_precision() -> None:
    """K in float32 has a lower numerical rank; draws within this rank are equal."""
    scale = torch.linspace(1.0, 1.5, 12, dtype=torch.float64)
    K = (scale.outer(scale) * torch.from_numpy(line(12, 0.1))).expand(6, 12, 12)
    double, single = (k_dpp(item, 4, Numbers((6,)), steps=40) for item in (K, K.float()))
    assert torch.equal(double[0], single[0])
    wide = torch.from_numpy(line(40, 0.3))
    ranks = [
        int(k_dpp(item, 40, Numbers(()), steps=9, clip=True)[1].sum())
        for item in (wide, wide.float())
    ]
    assert ranks[1] < ranks[0]


@pytest.mark.parametrize("steps", [None, 1, 7])
def test_two_equal_points(steps: int | None) -> None:
    """Every proposal swaps them, so a chain of fixed length would be deterministic."""
    K = torch.tensor([[1.0, 0.3], [0.3, 1.0]], dtype=torch.float64).expand(2000, 2, 2)
    taken = k_dpp(K, 1, Numbers((2000,)), steps=steps)[0][:, 0]
    assert abs(float(taken.double().mean()) - 0.5) < 4 * 0.5 / 2000**0.5


def test_default_length() -> None:
    n = torch.tensor([0, 1, 8, 600, 600])
    size = torch.tensor([0, 1, 4, 3, 40])
    long = math.ceil(8 * 600 * math.log(600))
    short = math.ceil(3 * 600 * math.log(600))
    assert default_steps(n, size).tolist() == [0, 0, 134, short if long > 2**15 else long, long]


def test_chain_does_not_depend_on_lookahead_nor_on_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU checks for the end every 32 turns; further turns change nothing."""
    K = torch.from_numpy(line(30, 0.1)).expand(5, 30, 30)
    start = greedy_map(K, 8)[0]
    arguments = (
        K,
        start,
        torch.tensor([8, 3, 5, 8, 1]),
        torch.ones(5, 30, dtype=torch.bool),
        torch.tensor([150, 10, 77, 0, 40]),
        draw_keys(Numbers((5,))),
    )
    expected = swap_chain(*arguments)
    assert torch.equal(expected[3], start[3])
    assert not torch.equal(expected[0], start[0])
    for together, turns in ((1, 1), (300, 1), (2, 32)):
        monkeypatch.setattr(dpp, "MOST_TOGETHER", together)
        monkeypatch.setitem(dpp.GLANCE_TURNS, "cpu", turns)
        assert torch.equal(swap_chain(*arguments), expected)


LINE = torch.from_numpy(line(8, 0.2))
LOW_RANK = torch.ones(8, 8).double() + torch.diag(torch.arange(8).double() < 1).double()


@pytest.mark.parametrize(
    ("K", "size", "options", "message"),
    [
        (LINE, 9, {}, r"^8 is the numerical rank .* below the size = 9"),
        (LOW_RANK, 3, {}, r"^2 is the numerical rank .* below the size = 3"),
        (LINE, 4, {"points": torch.arange(8) < 3}, r"^3 is the numerical rank"),
        (LINE.masked_fill(torch.eye(8).bool(), math.nan), 3, {}, "not finite"),
        (LINE, 0, {}, "size is 0"),
        *((LINE, 3, {"steps": steps}, "steps is") for steps in (-1, 2.5, "fast")),
    ],
)
def test_bad_input(K: Tensor, size: int, options: dict, message: str) -> None:
    with pytest.raises((InputDataError, ValueError), match=message):
        k_dpp(K, size, Numbers(()), **options)


NET = 2**14


def net(dim: int) -> torch.Tensor:
    engine = torch.quasirandom.SobolEngine(dim, scramble=True, seed=4)
    return engine.draw(NET, dtype=torch.float64)


@pytest.mark.few("3-3", "3-6")
@pytest.mark.parametrize(("size", "columns"), [(1, 3), (3, 3), (3, 6)])
def test_points_come_in_every_order_as_determinants(size: int, columns: int) -> None:
    """P(z_1, ..., z_k) = det K_Z / k! Σ det K_Z': in any order, also where k is K's rank."""
    factor = np.random.default_rng(2).standard_normal((6, columns))
    whole, kernel = torch.from_numpy(factor).expand(NET, 6, columns), factor @ factor.T
    item = torch.ones(NET, dtype=torch.int64)
    drawn = sample_by_eigenvalues(whole, columns * item, size * item, net(size + columns))
    seen = Counter(tuple(row) for row in drawn.tolist())
    orders = list(itertools.permutations(range(6), size))
    assert set(seen) <= set(orders)
    weights = {order: det(kernel, order) for order in orders}
    for order, weight in weights.items():
        wanted = weight / sum(weights.values())
        assert seen[order] / NET == pytest.approx(wanted, abs=2e-3)


def test_numbers_lie_inside_0_and_1_and_as_far_from_both(monkeypatch):
    bits = torch.tensor([0, -1, 2**62, ~(2**62), 12345 << 12, ~(12345 << 12)])
    monkeypatch.setattr(dpp, "mixed", lambda word: bits)
    numbers = dpp.uniforms(torch.zeros(6, dtype=torch.int64), torch.arange(6))
    assert numbers[:2].tolist() == [2.0**-53, 1 - 2.0**-53]
    assert torch.equal(numbers[::2] + numbers[1::2], torch.ones(3, dtype=torch.float64))


def test_equal_eigenvalues_do_not_leave_draws_to_the_processor() -> None:
    """Factors L and L Q of the same K, with eigenvalues that are equal in pairs."""
    ring = torch.arange(12) - torch.arange(12).unsqueeze(-1)
    K = torch.exp(torch.cos(2 * math.pi * ring.double() / 12))
    factor = torch.linalg.cholesky(K)
    rotation = torch.linalg.qr(torch.from_numpy(np.random.default_rng(6).random((12, 12)))).Q
    most, item = 5, torch.ones(40, dtype=torch.int64)
    uniform = torch.from_numpy(np.random.default_rng(7).random((40, most + 12)))
    drawn = [
        sample_by_eigenvalues(each.expand(40, 12, 12), 12 * item, most * item, uniform)
        for each in (factor, factor @ rotation)
    ]
    assert torch.equal(drawn[0], drawn[1])
