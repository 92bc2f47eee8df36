import numpy as np
import pytest

from botorch_tv.simulation.panels.temporal import (
    carried_forward,
    filled_from_row,
    sample_covariance,
    sample_spectrum,
    scaling,
    spectrum,
)


def gapped(rounds: int, arms: int, share: float, seed: int = 0) -> np.ndarray:
    random = np.random.default_rng(seed)
    values = random.standard_normal((rounds, arms)) + random.standard_normal((rounds, 1))
    values[random.random((rounds, arms)) < share] = np.nan
    return values


def test_scaling_of_all_readings_together():
    readings = 280 + 5 * gapped(50, 4, 0.2)
    mean, scale = scaling(readings, "all", True)
    values = (readings - mean) / scale
    present = values[~np.isnan(values)]
    assert present.mean() == pytest.approx(0, abs=1e-12)
    assert (present**2).mean() == pytest.approx(1)


def test_scaling_of_each_arm_and_without_a_unit():
    readings = np.array([[1.0, 10.0], [3.0, 30.0], [np.nan, 20.0]])
    mean, scale = scaling(readings, "arm", True)
    np.testing.assert_allclose(mean, [2, 20])
    assert scale == pytest.approx(np.sqrt((1 + 1 + 100 + 100 + 0) / 5))
    assert scaling(readings, "all", False) == (pytest.approx(12.8), 1.0)


def test_constant_readings_are_refused():
    with pytest.raises(ValueError, match="standard deviation of the training rows is 0"):
        scaling(np.full((4, 3), 7.0), "all", True)


def test_covariance_of_whole_rows():
    values = gapped(30, 5, 0.0)
    expected = sum(np.outer(row, row) for row in values) / 30
    np.testing.assert_allclose(sample_covariance(values), expected, atol=1e-12)
    eigenvalues, vectors = sample_spectrum(values)
    np.testing.assert_allclose(vectors * eigenvalues @ vectors.T, expected, atol=1e-12)


def test_covariance_from_the_rows_a_pair_shares():
    values = gapped(400, 5, 0.3)
    expected = np.empty((5, 5))
    for i in range(5):
        for j in range(5):
            both = ~np.isnan(values[:, i]) & ~np.isnan(values[:, j])
            expected[i, j] = (values[both, i] * values[both, j]).mean()
    np.testing.assert_allclose(sample_covariance(values), expected, atol=1e-12)


def test_negative_eigenvalues_are_clipped():
    values = gapped(12, 8, 0.5, seed=4)
    present, read = np.nan_to_num(values), ~np.isnan(values)
    raw = present.T @ present / np.maximum(read.T.astype(float) @ read, 1)
    eigenvalues, vectors = np.linalg.eigh(raw)
    assert eigenvalues[0] < -0.1
    nearest = vectors @ np.diag(eigenvalues.clip(0)) @ vectors.T
    np.testing.assert_allclose(sample_covariance(values), nearest, atol=1e-12)


def test_arms_without_common_rows_are_uncorrelated():
    values = np.array([[1.0, np.nan], [2.0, np.nan], [np.nan, 3.0], [np.nan, -1.0]])
    np.testing.assert_allclose(sample_covariance(values), [[2.5, 0], [0, 5]])


def test_fewer_rows_than_arms():
    values = gapped(6, 20, 0.0)
    eigenvalues, vectors = sample_spectrum(values)
    assert eigenvalues.shape == (6,)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(6), atol=1e-12)
    again, _ = spectrum(sample_covariance(values))
    np.testing.assert_allclose(np.sort(again), np.sort(eigenvalues))


def test_gaps_by_their_conditional_mean():
    random = np.random.default_rng(0)
    features = random.standard_normal((6, 4))
    covariance, noise = features @ features.T, 0.1
    values = random.standard_normal((4, 6))
    values[0, 2] = values[1, 1:] = values[2] = np.nan
    filled = filled_from_row(values, spectrum(covariance), noise)
    total = covariance + noise * np.eye(6)
    for row, gaps in ((0, [2]), (1, [1, 2, 3, 4, 5])):
        read = [arm for arm in range(6) if arm not in gaps]
        weights = np.linalg.solve(total[np.ix_(read, read)], values[row, read])
        np.testing.assert_allclose(filled[row, gaps], covariance[np.ix_(gaps, read)] @ weights)
        np.testing.assert_array_equal(filled[row, read], values[row, read])
    assert np.isnan(filled[2]).all()
    np.testing.assert_array_equal(filled[3], values[3])
    assert np.isnan(values[0, 2])


def test_gaps_by_the_previous_or_first_reading():
    gap = np.nan
    values = np.array([[gap, 1.0], [2.0, gap], [gap, gap], [5.0, 3.0]])
    expected = [[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [5.0, 3.0]]
    np.testing.assert_array_equal(carried_forward(values), expected)
