import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from botorch_tv.simulation.streams import Stream

SEEDS = (0, 1, 2, 3, 2**32, 2**64 - 1, 2**64, 2**64 + 1)
PURPOSES = ("world", "noise", "expert A", "expert B")
TRIALS, ROUNDS = 80, 64
AXES = {"seed": 0, "purpose": 1, "trial": 2, "round": 3}
KINDS = ("uniform", "normal")
ERROR = 1e-6

each_kind = pytest.mark.parametrize("kind", KINDS)
each_axis = pytest.mark.parametrize("axis", AXES.values(), ids=list(AXES))


@cache
def drawn(kind: str) -> np.ndarray:
    """Round by round, `seeds x purposes x trials x rounds`."""

    def sequence(seed: int, purpose: str) -> np.ndarray:
        place = {"dtype": torch.float64, "device": torch.device("cpu")}
        stream = Stream(seed, purpose, 0, TRIALS, **place)
        return torch.stack([getattr(stream, kind)() for _ in range(ROUNDS)], -1).numpy()

    return np.array([[sequence(seed, purpose) for purpose in PURPOSES] for seed in SEEDS])


@pytest.fixture(scope="module")
def draws() -> dict[str, np.ndarray]:
    """All numbers on the unit interval."""
    return {"uniform": drawn("uniform"), "normal": stats.norm.cdf(drawn("normal"))}


def assert_likely(statistic: float, cells: int) -> None:
    """A two-sided chi-squared test."""
    p = stats.chi2.sf(statistic, cells - 1)
    assert ERROR / 2 < p < 1 - ERROR / 2


def test_all_numbers_differ(draws: dict[str, np.ndarray]) -> None:
    """163,840 numbers out of 2^53 are all different but with probability 1.5e-6; twice likewise.

    Trials shared by neighbouring seeds, purposes or blocks fail here, at whatever lag.
    """
    for kind in KINDS:
        assert len(np.unique(draws[kind])) == draws[kind].size
    assert not np.isin(draws["uniform"], draws["normal"]).any()


@each_kind
def test_sequences_are_not_correlated(kind: str) -> None:
    trials, length = 8, 640
    place = {"dtype": torch.float64, "device": torch.device("cpu")}
    rows = torch.cat(
        [
            getattr(Stream(seed, purpose, 60, trials, **place), kind)(length)
            for seed, purpose in itertools.product(SEEDS, PURPOSES)
        ]
    ).numpy()
    z = stats.norm.ppf(rows) if kind == "uniform" else rows
    pairs = len(z) * (len(z) - 1) / 2
    t = stats.t.isf(ERROR / 2 / pairs, length - 2)
    bound = t / math.sqrt(length - 2 + t**2)
    for left, right in ((z, z), (z[:, 1:], z[:, :-1])):
        r = np.corrcoef(left, right)[: len(z), len(z) :]
        if left is z:
            np.testing.assert_allclose(np.diag(r), 1)
            np.fill_diagonal(r, 0)
        assert np.abs(r).max() < bound < 0.3


@each_kind
def test_sums_along_every_axis(draws: dict[str, np.ndarray], kind: str) -> None:
    z = stats.norm.ppf(draws[kind])
    subsets = [s for n in (1, 2, 3) for s in itertools.combinations(range(4), n)]
    for axes in subsets:
        sums = z.sum(axes) / math.sqrt(np.prod([z.shape[axis] for axis in axes]))
        assert_likely(float((sums**2).sum()), sums.size + 1)
        assert stats.kstest(sums.ravel(), "norm").pvalue > ERROR


@each_kind
def test_numbers_are_uniform(draws: dict[str, np.ndarray], kind: str) -> None:
    found = draws[kind].ravel()
    assert stats.kstest(found, "uniform").pvalue > ERROR
    counts = np.bincount((found * 1024).astype(int), minlength=1024)
    assert_likely(stats.chisquare(counts).statistic, 1024)


@each_kind
@each_axis
@pytest.mark.parametrize("lag", [1, 2])
def test_neighbours_are_independent(
    draws: dict[str, np.ndarray], kind: str, axis: int, lag: int
) -> None:
    cells = (np.moveaxis(draws[kind], axis, 0) * 32).astype(int)
    # Pairs do not overlap, so their counts are independent.
    places = [i for i in range(len(cells) - lag) if i // lag % 2 == 0]
    pairs = np.concatenate([(32 * cells[i] + cells[i + lag]).ravel() for i in places])
    assert_likely(stats.chisquare(np.bincount(pairs, minlength=1024)).statistic, 1024)


@each_axis
def test_bits_are_balanced(draws: dict[str, np.ndarray], axis: int) -> None:
    word = (np.moveaxis(draws["uniform"], axis, 0) * 2.0**53).astype(np.uint64)
    agree = word[1::2] ^ word[: len(word) // 2 * 2 : 2]
    for words in (word, agree):
        bits = (words.ravel()[:, None] >> np.arange(53, dtype=np.uint64)) & np.uint64(1)
        ones = bits.sum(0)
        bound = math.sqrt(words.size * math.log(2 * 53 / ERROR) / 2)  # Hoeffding
        assert np.abs(ones - words.size / 2).max() < bound


def test_pairs_of_normal_variates_are_independent() -> None:
    z = drawn("normal").reshape(-1, 2)
    squares = (z**2).sum(1) / 2
    angles = np.arctan2(z[:, 1], z[:, 0]) / (2 * math.pi) % 1
    assert stats.kstest(squares, "expon").pvalue > ERROR
    assert stats.kstest(angles, "uniform").pvalue > ERROR
    cells = (stats.expon.cdf(squares) * 32).astype(int) * 32 + (angles * 32).astype(int)
    assert_likely(stats.chisquare(np.bincount(cells, minlength=1024)).statistic, 1024)


def test_uniform_and_normal_variates_are_independent(draws: dict[str, np.ndarray]) -> None:
    z = stats.norm.ppf(draws["normal"]).reshape(-1, 2)
    radius = np.exp(-(z**2).sum(1) / 2)
    angle = np.arctan2(z[:, 1], z[:, 0]) / (2 * math.pi) % 1
    uniform = draws["uniform"].reshape(-1, 2)
    for normal, column in itertools.product((radius, angle), uniform.T):
        cells = np.minimum(normal * 32, 31).astype(int) * 32 + (column * 32).astype(int)
        assert_likely(stats.chisquare(np.bincount(cells, minlength=1024)).statistic, 1024)


def test_tails_of_normal_variates() -> None:
    z = np.abs(drawn("normal").ravel())
    for beyond in (2, 3, 4):
        expected = 2 * stats.norm.sf(beyond)
        found = int((z > beyond).sum())
        assert stats.binomtest(found, z.size, expected).pvalue > ERROR
