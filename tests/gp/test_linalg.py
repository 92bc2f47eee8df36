"""Factors, maxima, memory and rows; 64-bit words against SplittableRandom in exact integers."""

import math

import numpy as np
import torch
from torch.testing import assert_close

from botorch_tv.gp.cholesky import pivoted_cholesky
from botorch_tv.gp.linalg import first_maximum
from botorch_tv.gp.random import GOLDEN, normals, signed, trial_keys, uniforms, words
from botorch_tv.gp.tensors import Scratch


def test_the_first_score_within_the_tolerance_wins() -> None:
    score = torch.tensor([[0.0, 1.0 - 5e-8, 1.0], [0.0, 1.0 - 2e-7, 1.0]], dtype=torch.float64)
    assert first_maximum(score, 1e-7, Scratch()).tolist() == [1, 2]


def test_same_tolerance_where_arms_are_many() -> None:
    score = torch.zeros(2, 40_000, dtype=torch.float64)
    score[:, 30_000] = 1.0
    score[0, 20_000], score[1, 20_000] = 1.0 - 0.9e-7, 1.0 - 1.1e-7
    assert first_maximum(score, 1e-7, Scratch()).tolist() == [20_000, 30_000]
    assert first_maximum(score[:, :32_000], 1e-7, Scratch()).tolist() == [20_000, 30_000]
    assert first_maximum(score, 0.0, Scratch()).tolist() == [30_000, 30_000]
    score[:] = 0
    score[0, 39_999] = 1
    assert first_maximum(score, 1e-7, Scratch()).tolist() == [39_999, 0]


def factored(covariance: torch.Tensor, max_rank: int, tolerance: float) -> tuple:
    return pivoted_cholesky(covariance.diagonal(), covariance.__getitem__, max_rank, tolerance)


def test_pivoted_cholesky_stops_at_the_rank() -> None:
    root = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)).double()
    columns, _, residual, _ = factored(root @ root.T, 12, 1e-12)
    assert columns.shape == (12, 4)
    assert columns.isfinite().all()
    assert_close(columns @ columns.T, root @ root.T, rtol=0, atol=1e-12)
    assert float(residual.max()) <= 1e-12


def test_pivots_that_are_nearly_equal_are_taken_in_order() -> None:
    for rounding in (-1e-15, 1e-15):
        equal = torch.diag(torch.tensor([1.0, 2.0, 2.0 + rounding, 1.95], dtype=torch.float64))
        columns, pivots, _, places = factored(equal, 4, 0.0)
        assert columns.argmax(0).tolist() == places == [1, 2, 3, 0]
        assert_close(pivots, equal.diagonal()[[1, 2, 3, 0]])
    other = torch.diag(torch.tensor([1.8, 2.0], dtype=torch.float64))
    assert factored(other, 2, 0.0)[0].argmax(0).tolist() == [1, 0]


LEAST, MOST = -(2**63), 2**63 - 1
FULL = 2**64


def mix(word: int, rounds: tuple[tuple[int, int], ...]) -> int:
    for shift, factor in rounds:
        word = (word ^ (word >> shift)) * factor % FULL
    return word


def mix64(word: int) -> int:
    """Stafford's variant 13, as in SplittableRandom.mix64."""
    rounds = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1))
    return mix(word, rounds)


def odd(word: int) -> int:
    return mix(word, ((33, 0xFF51AFD7ED558CCD), (33, 0xC4CEB9FE1A85EC53), (33, 1))) | 1


def mix_gamma(word: int) -> int:
    """SplittableRandom.mixGamma."""
    word = odd(word)
    return word ^ 0xAAAAAAAAAAAAAAAA if (word ^ (word >> 1)).bit_count() < 24 else word


def test_the_published_sequence() -> None:
    found = words(torch.tensor(1234567), torch.tensor(GOLDEN), torch.arange(3))
    expected = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    assert [word % FULL for word in found.tolist()] == expected


def test_keys_and_words_are_those_of_exact_integers() -> None:
    first, second = signed(0xFEDCBA9876543210), 0x0123456789ABCDEF
    trials = torch.arange(995, 2000)
    start, step = trial_keys(first, second, trials)
    golden = 0x9E3779B97F4A7C15
    starts = [mix64((first + (t + 1) * golden) % FULL) for t in trials.tolist()]
    steps = [mix_gamma((second + (t + 1) * golden) % FULL) for t in trials.tolist()]
    assert [item % FULL for item in start.tolist()] == starts
    assert [item % FULL for item in step.tolist()] == steps
    uncorrected = [odd((second + (t + 1) * golden) % FULL) for t in trials.tolist()]
    assert 0 < sum(item != other for item, other in zip(steps, uncorrected)) < 100
    numbers = torch.tensor([0, 1, 2, 10**12])
    found = words(start[:, None], step[:, None], numbers)
    for row, item, by in zip(found.tolist(), starts, steps):
        wanted = [mix64((item + (n + 1) * by) % FULL) for n in numbers.tolist()]
        assert [word % FULL for word in row] == wanted


def test_uniforms_lie_below_1() -> None:
    found = uniforms(torch.tensor([0, 2**11 - 1, 2**11, LEAST, MOST, -1]))
    assert found.tolist() == [0, 0, 2.0**-53, 0.5, 0.5 - 2.0**-53, 1 - 2.0**-53]


def test_normals_are_those_of_box_and_muller() -> None:
    generator = torch.Generator().manual_seed(0)
    radius, angle = torch.randint(LEAST, MOST, (2, 1000), generator=generator)
    found = normals(radius, angle)
    for r, a, pair in zip(radius.tolist(), angle.tolist(), found.tolist()):
        length = math.sqrt(-2 * math.log((r + 2**63 + 2**11) / 2**64))
        turn = 2 * math.pi * a / 2**64
        expected = [length * math.cos(turn), length * math.sin(turn)]
        np.testing.assert_allclose(pair, expected, rtol=1e-12, atol=1e-12)


def test_extreme_words_make_finite_normals() -> None:
    ends = torch.tensor([LEAST, LEAST + 1, -1, 0, 1, MOST - 1, MOST])
    pairs = normals(ends[:, None].expand(7, 7), ends.expand(7, 7))
    assert bool(pairs.isfinite().all())
    assert 8.5 < float(pairs.abs().max()) < 8.6
    assert float(pairs[-1].abs().max()) == 0
