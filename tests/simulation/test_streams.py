import itertools
import math
from functools import cache

import numpy as np
import pytest
import torch
from scipy import stats

from botorch_tv.simulation import streams
from botorch_tv.simulation.streams import Stream

CPU = {"dtype": torch.float64, "device": torch.device("cpu")}
DEVICES = ["cpu", "cuda"] if torch.cuda.is_available() else ["cpu"]


@pytest.mark.parametrize(("first", "trials"), [(0, 1), (1, 1), (31, 9), (63, 2), (132, 1)])
def test_draws_of_a_trial_do_not_depend_on_other_trials(first: int, trials: int) -> None:
    whole, part = Stream(7, "world", 0, 133, **CPU), Stream(7, "world", first, trials, **CPU)
    own = slice(first, first + trials)
    for shape in ((4,), (), (3, 5), (4,), (0,), (200,)):
        assert torch.equal(whole.uniform(*shape)[own], part.uniform(*shape))
        expected = whole.normal(*shape)[own]
        torch.testing.assert_close(part.normal(*shape), expected, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("ahead", [1, 64, 2**20])
def test_numbers_do_not_depend_on_how_many_are_drawn_ahead(ahead, monkeypatch) -> None:
    whole = Stream(1, "a", 5, 3, **CPU)
    z, u = whole.normal(60), whole.uniform(60)
    monkeypatch.setattr(streams, "AHEAD", ahead)
    part = Stream(1, "a", 5, 3, **CPU)
    sizes = (1, 1, 2, 3, 1, 7, 20, 1, 1, 1, 22)
    assert sum(sizes) == 60
    normals, uniforms = zip(*((part.normal(size), part.uniform(size)) for size in sizes))
    torch.testing.assert_close(torch.cat(normals, 1), z, rtol=1e-14, atol=1e-15)
    assert torch.equal(torch.cat(uniforms, 1), u)


@pytest.mark.parametrize("count", [1, 4, 7, 8])
def test_leading_normals(count: int) -> None:
    whole, part = Stream(1, "a", 5, 3, **CPU), Stream(1, "a", 5, 3, **CPU)
    close = {"rtol": 1e-14, "atol": 1e-15}
    for room in (8, 8, 8, 8, 8, 9, 9, 20, 8):
        expected = whole.normal(room + room % 2)[:, :count]
        torch.testing.assert_close(part.leading_normals(count, room), expected, **close)
    torch.testing.assert_close(part.normal(3), whole.normal(3), **close)
    whole.normal(1)  # variates come in pairs
    for _ in range(4):
        torch.testing.assert_close(part.leading_normals(count, 8), whole.normal(8)[:, :count])
    assert torch.equal(part.uniform(2), whole.uniform(2))


def test_callers_may_overwrite_draws() -> None:
    retained, changed = Stream(0, "a", 0, 4, **CPU), Stream(0, "a", 0, 4, **CPU)
    for _ in range(20):
        changed.uniform(3).zero_()
        retained.uniform(3)
        assert torch.equal(retained.uniform(3), changed.uniform(3))


def test_float32_runs_see_the_float64_numbers() -> None:
    single = Stream(0, "a", 0, 8, **CPU | {"dtype": torch.float32})
    double = Stream(0, "a", 0, 8, **CPU)
    for _ in range(3):
        z, u = single.normal(3), single.uniform(3)
        assert z.dtype == u.dtype == torch.float32
        assert torch.equal(z, double.normal(3).float())
        assert torch.equal(u, double.uniform(3).float())


def test_uniform_variates_are_below_one_in_float32() -> None:
    """In this trial the first variate rounds to 1 in float32; the probability is 1 / (3 * 10^7)."""
    trial = 77_607_813
    double = Stream(0, "a", trial, 1, **CPU).uniform()
    assert float(double) < 1 == float(double.float())
    single = Stream(0, "a", trial, 1, **CPU | {"dtype": torch.float32}).uniform()
    assert float(single) == 1 - 2.0**-24


@pytest.mark.skipif("cuda" not in DEVICES, reason="needs a GPU")
def test_a_gpu_draws_the_same() -> None:
    here, there = (
        Stream(3, "a", 40, 500, dtype=torch.float64, device=torch.device(name)) for name in DEVICES
    )
    for _ in range(3):
        assert torch.equal(here.uniform(7), there.uniform(7).cpu())
        torch.testing.assert_close(here.normal(7), there.normal(7).cpu(), rtol=1e-13, atol=1e-14)


SEEDS = (0, 1, 2, 3, 2**32, 2**64 - 1, 2**64, 2**64 + 1)
PURPOSES = ("world", "noise", "expert A", "expert B")
MANY, ROUNDS = 80, 64
AXES = {"seed": 0, "purpose": 1, "trial": 2, "round": 3}
KINDS = ("uniform", "normal")
ERROR = 1e-6
each_kind = pytest.mark.parametrize("kind", KINDS)
each_axis = pytest.mark.parametrize("axis", AXES.values(), ids=list(AXES))


@cache
def drawn(kind: str) -> np.ndarray:
    """Round by round, `seeds x purposes x trials x rounds`."""

    def sequence(seed: int, purpose: str) -> np.ndarray:
        stream = Stream(seed, purpose, 0, MANY, **CPU)
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
    length, sources = 640, itertools.product(SEEDS, PURPOSES)
    streams = [Stream(seed, purpose, 60, 8, **CPU) for seed, purpose in sources]
    rows = torch.cat([getattr(stream, kind)(length) for stream in streams]).numpy()
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
@each_axis
@pytest.mark.parametrize("lag", [1, 2])
def test_neighbours_are_independent(draws, kind, axis, lag) -> None:
    cells = (np.moveaxis(draws[kind], axis, 0) * 32).astype(int)
    # Pairs do not overlap, so their counts are independent.
    places = [i for i in range(len(cells) - lag) if i // lag % 2 == 0]
    pairs = np.concatenate([(32 * cells[i] + cells[i + lag]).ravel() for i in places])
    assert_likely(stats.chisquare(np.bincount(pairs, minlength=1024)).statistic, 1024)
