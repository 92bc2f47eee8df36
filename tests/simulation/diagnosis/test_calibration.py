import math
from statistics import NormalDist

import numpy as np
import pytest
from synthetic_results import drawn_diagnosis, make_diagnosed, make_result

from botorch_tv.simulation import Diagnosis, MarkovWorld, run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, adaptive_gp_ucb, gp_ucb

NORMAL = NormalDist()


def test_coverage_by_hand():
    """The sd is 1, σ² = 0.25; z is 0.674 at 0.5 and 1.645 at 0.9, the band played ± 1 sd."""
    values = {
        "objective": [[0.6, 0.7, 1.6, 1.7], [0.0, 0.0, 0.9, 5.0]],
        # divided by sqrt(1.25) = 1.118: 0.63, 0.72, 1.61, 1.79 and 0, 0, 0, 0
        "observation": [[0.70, -0.80, 1.80, -2.00], [0.0, 0.0, 0.0, 0.0]],
    }
    bands = make_diagnosed({"A": values}).calibration([0.5, 0.9]).sel(strategy="A")
    # Inside, trial by trial: objective 1/4, 2/4 and 3/4, 3/4; observation 1/4, 4/4 and 3/4, 4/4.
    np.testing.assert_allclose(bands["objective"], [3 / 8, 3 / 4])
    np.testing.assert_allclose(bands["objective_error"], [1 / 8, 0])
    np.testing.assert_allclose(bands["observation"], [5 / 8, 7 / 8])
    np.testing.assert_allclose(bands["observation_error"], [3 / 8, 1 / 8])
    assert float(bands["played"]) == pytest.approx(5 / 8)  # 2/4 and 3/4
    assert float(bands["played_error"]) == pytest.approx(1 / 8)
    assert float(bands["played_level"]) == pytest.approx(0.6827, abs=1e-4)
    assert float(bands["throughout"]) == 0


def test_throughout_counts_trials():
    objective = [[0.5, 0.9], [0.5, 1.1], [0.0, 0.0]]
    bands = make_diagnosed({"A": {"objective": objective}}).calibration()
    assert float(bands["throughout"].item()) == pytest.approx(2 / 3)
    assert float(bands["throughout_error"].item()) == pytest.approx(1 / 3)  # sqrt(1/3) / sqrt(3)


@pytest.mark.parametrize("width", [0.5, 1.0, 2.0])
def test_coverage_of_drawn_errors(width):
    trials, rounds, noise, sqrt_beta = 40, 50, 0.25, 1.5
    result = drawn_diagnosis({"A": width}, trials, rounds, noise=noise, sqrt_beta=sqrt_beta)
    bands = result.calibration().sel(strategy="A")
    for level in bands["level"].values:
        z = NORMAL.inv_cdf((1 + level) / 2)
        expected = 2 * NORMAL.cdf(z / width) - 1
        binomial = math.sqrt(expected * (1 - expected) / (trials * rounds))
        assert float(bands["objective"].sel(level=level)) == pytest.approx(
            expected, abs=4 * binomial
        )
        if expected * (1 - expected) * trials * rounds > 50:  # else too rare for a standard error
            error = float(bands["objective_error"].sel(level=level))
            assert error == pytest.approx(binomial, rel=0.5)  # of 40 trials, with an error of 11 %
    expected = 2 * NORMAL.cdf(sqrt_beta / width) - 1
    binomial = math.sqrt(expected * (1 - expected) / (trials * rounds))
    assert float(bands["played"]) == pytest.approx(expected, abs=4 * binomial)
    if width == 1.0:
        share = float(bands["observation"].sel(level=0.9))
        assert share == pytest.approx(0.9, abs=4 * math.sqrt(0.09 / (trials * rounds)))


def test_failed_measurements_are_ignored():
    observation = [[0.0, np.nan, np.nan, 9.0], [np.nan] * 4]
    bands = make_diagnosed({"A": {"observation": observation}}).calibration([0.9])
    assert float(bands["observation"].item()) == 0.5
    by_round = make_diagnosed({"A": {"observation": observation}}).calibration_by_round()
    np.testing.assert_array_equal(by_round["observation"][0], [1, np.nan, np.nan, 0])


def test_exact_predictions_are_inside_and_missing_predictions_are_ignored():
    values = {"sd": [[0.0, 0.0]], "objective": [[0.0, 1e-3]]}
    bands = make_diagnosed({"A": values}).calibration([0.1])
    assert float(bands["objective"].item()) == 0.5
    bands = make_diagnosed({"A": {"mean": np.full((2, 3), np.nan)}}).calibration([0.5])
    for name in ("objective", "observation", "played", "throughout"):
        assert bands[name].isnull().all()


def test_by_round_and_in_blocks():
    objective = [[0.0, 9.0, 9.0, 0.0, 0.0], [0.0, 0.0, 9.0, 0.0, 9.0]]
    result = make_diagnosed({"A": {"objective": objective}})
    single = result.calibration_by_round(0.9)
    assert single["objective"].dims == ("strategy", "round")
    np.testing.assert_allclose(single["objective"][0], [1, 0.5, 0, 1, 0.5])
    np.testing.assert_allclose(single["objective_error"][0], [0, 0.5, 0, 0, 0.5])
    np.testing.assert_allclose(single["played"][0], single["objective"][0])
    np.testing.assert_array_equal(single["round"], [1, 2, 3, 4, 5])
    blocks = result.calibration_by_round(0.9, block=2)
    np.testing.assert_allclose(blocks["objective"][0], [0.75, 0.5, 0.5])
    np.testing.assert_allclose(blocks["objective_error"][0], [0.25, 0, 0.5])
    np.testing.assert_allclose(blocks["round"], [1.5, 3.5, 5])


def test_bad_input():
    result = make_diagnosed({"A": {"mean": [[0.0]]}})
    for level in (0.0, 1.0, 90, math.nan):
        with pytest.raises(ValueError, match=rf"level is {level}.*between 0 and 1"):
            result.calibration([level])
    with pytest.raises(ValueError, match="between 0 and 1"):
        result.calibration_by_round(1.0)
    with pytest.raises(ValueError, match="levels is empty"):
        result.calibration([])
    with pytest.raises(ValueError, match="block is 0"):
        result.calibration_by_round(block=0)
    with pytest.raises(ValueError, match=r"did not record model_noise.*Diagnosis"):
        type(result)(result.data.drop_vars("model_noise")).calibration()
    with pytest.raises(ValueError, match="did not record observation, objective, mean, sd"):
        make_result({"A": [[1.0]]}).calibration()


def test_rounds_without_predictions_are_ignored():
    grid, kernel = Grid.regular(points=12, dim=1), unit_kernel("se", 0.2)
    world = MarkovWorld(grid, kernel=kernel, epsilon=0.01, noise=0.04)
    players = {"adaptive": adaptive_gp_ucb(), "GP": gp_ucb(kernel=kernel, noise=0.04)}
    result = run_study(world, players, trials=3, horizon=9, record=(Diagnosis(),))
    predicted = ["mean", "sd", "sqrt_beta", "model_noise"]
    first, later = (result.data[predicted].isel(round=part) for part in (slice(4), slice(4, None)))
    assert first.sel(strategy="adaptive").isnull().all().to_array().all()
    assert first.sel(strategy="GP").notnull().all().to_array().all()
    assert later.notnull().all().to_array().all()
    assert result.data["simple_regret"].notnull().all()
    by_round = result.calibration_by_round(0.9)["observation"].sel(strategy="adaptive")
    np.testing.assert_array_equal(by_round.isnull(), [True] * 4 + [False] * 5)
    y, mean, sd, noise = (
        result.data[name].sel(strategy="adaptive").isel(round=slice(4, None)).values
        for name in ("observation", "mean", "sd", "model_noise")
    )
    inside = np.abs(y - mean) <= NORMAL.inv_cdf(0.95) * np.sqrt(sd**2 + noise)
    found = result.calibration([0.9])["observation"].sel(strategy="adaptive", level=0.9)
    assert float(found) == pytest.approx(inside.mean(-1).mean())
