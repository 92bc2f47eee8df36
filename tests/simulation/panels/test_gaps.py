import numpy as np

from botorch_tv.simulation.panels.temporal import carried_forward, filled_from_row, spectrum

GAP = np.nan


def test_gaps_by_their_conditional_mean():
    random = np.random.default_rng(0)
    features = random.standard_normal((6, 4))
    covariance, noise = features @ features.T, 0.1
    values = random.standard_normal((4, 6))
    values[0, 2] = values[1, 1:] = values[2] = GAP
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


def test_last_reading_before_or_the_first_one():
    values = np.array([[GAP, 1.0], [2.0, GAP], [GAP, GAP], [5.0, 3.0]])
    np.testing.assert_array_equal(
        carried_forward(values), [[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [5.0, 3.0]]
    )
