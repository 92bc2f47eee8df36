import numpy as np
import pytest
from botorch.exceptions import InputDataError
from oracles.panels import dense_log_likelihood

from botorch_tv.simulation.panels import fit_epsilon, log_likelihood, make_panel


def line_covariance(arms: int, reach: float = 2.0) -> np.ndarray:
    place = np.arange(arms)
    return np.exp(-((place[:, None] - place) ** 2) / (2 * reach**2))


def plane_covariance(coordinates: np.ndarray) -> np.ndarray:
    apart = ((coordinates[:, None] - coordinates[None]) ** 2).sum(-1)
    return np.exp(-apart / (2 * 0.3**2))


RATES = [0.0, 1e-6, 0.01, 0.3, 0.97, 1.0]


@pytest.mark.parametrize("labels", [None, np.arange(10) // 3])
def test_likelihood_by_dense_formula(labels):
    values = np.random.default_rng(1).standard_normal((10, 6))
    values[[4, 7]] = np.nan  # rows without readings
    covariance = line_covariance(6)
    curve = log_likelihood(values, covariance, 0.05, RATES, groups=None if labels is None else 3)
    dense = [dense_log_likelihood(values, covariance, 0.05, e, labels) for e in RATES]
    np.testing.assert_allclose(curve, dense, rtol=1e-9)


def test_singular_covariance_and_rows_per_group():
    random = np.random.default_rng(2)
    features = random.standard_normal((7, 2))
    values = random.standard_normal((9, 7))
    labels = np.arange(9) // 4
    curve = log_likelihood(values, features @ features.T, 0.1, RATES, groups=4)
    dense = [dense_log_likelihood(values, features @ features.T, 0.1, e, labels) for e in RATES]
    np.testing.assert_allclose(curve, dense, rtol=1e-9)


def test_maximum_by_dense_likelihood():
    panel = make_panel(25, 6, epsilon=0.2, cycle=0.0, gaps=0.0, seed=3)
    covariance = plane_covariance(panel.coordinates)
    fit = fit_epsilon(panel.values, covariance, 0.05)
    near = fit.epsilon * np.array([0.999, 1.0, 1.001])
    below, there, above = (dense_log_likelihood(panel.values, covariance, 0.05, e) for e in near)
    assert there >= max(below, above)
    assert fit.log_likelihood == pytest.approx(there, rel=1e-9)
    scan = np.linspace(0, 1, 101)
    assert max(dense_log_likelihood(panel.values, covariance, 0.05, e) for e in scan) <= there


def estimates(epsilon: float, gaps: float = 0.0) -> np.ndarray:
    found = []
    for seed in range(10):
        panel = make_panel(300, 20, epsilon=epsilon, cycle=0.0, gaps=gaps, seed=seed)
        found.append(fit_epsilon(panel.values, plane_covariance(panel.coordinates), 0.05).epsilon)
    return np.array(found)


@pytest.mark.parametrize("epsilon", [0.01, 0.1])
def test_recovers_the_rate_of_simulated_panels(epsilon):
    found = estimates(epsilon)
    error = found.std(ddof=1) / np.sqrt(len(found))
    assert error < 0.1 * epsilon
    assert abs(found.mean() - epsilon) < 3 * error


def test_static_white_and_gapped_records():
    assert estimates(0.0).max() < 1e-5
    assert 0.01 < estimates(0.01, gaps=0.1).mean() < 0.015
    root = np.linalg.cholesky(line_covariance(5) + 0.05 * np.eye(5))
    white = root @ np.random.default_rng(0).standard_normal((5, 2000))
    assert fit_epsilon(white.T, line_covariance(5), 0.05).epsilon > 0.9


def test_groups_are_independent():
    day = make_panel(40, 10, epsilon=0.02, cycle=0.0, gaps=0.0, seed=7).values
    values = np.concatenate([day * sign for sign in (1, -1, 1, -1, 1, -1)])
    covariance = plane_covariance(make_panel(40, 10, seed=7).coordinates)
    apart = fit_epsilon(values, covariance, 0.05, groups=40)
    alone = fit_epsilon(day, covariance, 0.05)
    assert apart.epsilon == pytest.approx(alone.epsilon, rel=1e-4)
    assert fit_epsilon(values, covariance, 0.05).epsilon > 1.5 * alone.epsilon


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"noise": 0.0}, "noise is 0.0"),
        ({"noise": float("nan")}, "noise is nan"),
        ({"values": np.zeros(5)}, r"values have shape \(5,\)"),
        ({"values": np.zeros((5, 2))}, r"values have shape \(5, 2\), but the covariance is of 3"),
        ({"values": np.full((5, 3), np.nan)}, "none of the 1 groups has two rows"),
        ({"groups": 0}, "groups is 0"),
        ({"groups": 1}, "none of the 5 groups has two rows"),
    ],
)
def test_bad_input(change, message):
    given = {"values": np.ones((5, 3)), "covariance": np.eye(3), "noise": 0.1, **change}
    with pytest.raises(ValueError, match=message):
        fit_epsilon(**given)


def test_indefinite_covariance_and_rates_out_of_range():
    with pytest.raises(InputDataError, match="indefinite"):
        fit_epsilon(np.ones((5, 2)), np.diag([1.0, -1e-7]), 0.1)
    fit_epsilon(np.ones((5, 2)), np.diag([1.0, -1e-9]), 0.1)
    with pytest.raises(ValueError, match=r"epsilon is \[1.5\]"):
        log_likelihood(np.ones((5, 2)), np.eye(2), 0.1, [1.5])
