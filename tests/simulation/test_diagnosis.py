import math
from statistics import NormalDist

import numpy as np
import pytest
from helpers.synthetic_results import make_diagnosed, make_result

from botorch_tv.simulation import Diagnosis, MarkovWorld, run_study
from botorch_tv.simulation.diagnosis import typical_trial
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, adaptive_gp_ucb, et_gp_ucb, gp_ucb, r_gp_ucb

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


@pytest.mark.parametrize(
    ("name", "arguments", "message"),
    [
        *[("calibration", ([p],), rf"level is {p}.*between 0 and 1") for p in (0.0, 1.0, math.nan)],
        ("calibration", ([],), "levels is empty"),
        ("calibration_by_round", (1.0,), "between 0 and 1"),
        ("calibration_by_round", (0.9, 0), "block is 0"),
    ],
)
def test_bad_input(name, arguments, message):
    result = make_diagnosed({"A": {"mean": [[0.0]]}})
    with pytest.raises(ValueError, match=message):
        getattr(result, name)(*arguments)
    with pytest.raises(ValueError, match=r"did not record model_noise.*Diagnosis"):
        type(result)(result.data.drop_vars("model_noise")).calibration()


def test_rounds_without_predictions_are_ignored():
    kernel = unit_kernel("se", 0.2)
    world = MarkovWorld(Grid.regular(12, 1), kernel=kernel, epsilon=0.01, noise=0.04)
    players = {"adaptive": adaptive_gp_ucb(), "GP": gp_ucb(kernel=kernel, noise=0.04)}
    result = run_study(world, players, trials=3, horizon=9, record=(Diagnosis(),))
    own = result.data.sel(strategy="adaptive")
    for name in ("mean", "sd", "sqrt_beta", "model_noise"):
        np.testing.assert_array_equal(own[name].isnull(), [[True] * 4 + [False] * 5] * 3)
        assert result.data[name].sel(strategy="GP").notnull().all()
    assert result.data["simple_regret"].notnull().all()
    by_round = result.calibration_by_round(0.9)["observation"].sel(strategy="adaptive")
    np.testing.assert_array_equal(by_round.isnull(), [True] * 4 + [False] * 5)
    own = own.isel(round=slice(4, None))
    bound = NORMAL.inv_cdf(0.95) * np.sqrt(own["sd"] ** 2 + own["model_noise"])
    inside = abs(own["observation"] - own["mean"]) <= bound
    found = result.calibration([0.9])["observation"].sel(strategy="adaptive", level=0.9)
    assert float(found) == pytest.approx(float(inside.mean()))


NONE = np.zeros((2, 4), dtype=bool)


@pytest.fixture
def result():
    """Two resets in the first trial and one in the second; σ = 0.5, so the band 2 (sd + σ) is 3.

    The part of sd = 1 is 2 and the part of the noise is 1.
    """
    fired = NONE.copy()
    fired[0, [1, 3]] = fired[1, 2] = True
    observation, objective = np.zeros((2, 4)), np.zeros((2, 4))
    observation[0, 1], objective[0, 1] = 3.5, 2.5  # model 2.5 > 2, noise 1.0 not > 1
    observation[0, 3], objective[0, 3] = -3.25, -1.75  # model 1.75, noise 1.5 > 1, downwards
    observation[1, 2], objective[1, 2] = 4.0, 2.5  # model 2.5 > 2, noise 1.5 > 1
    armed = {"observation": observation, "objective": objective, "band": np.full((2, 4), 3.0)}
    armed["simple_regret"] = np.arange(8.0).reshape(2, 4) - 1
    return make_diagnosed({"R": {"mean": np.ones((2, 4))}, "ET": armed}, {"R": ~NONE, "ET": fired})


def test_table_by_hand(result):
    table = result.triggers()
    wanted = {
        "strategy": ["ET"] * 3,  # R resets periodically
        "trial": [0, 0, 1],
        "round": [2, 4, 3],
        "rounds_since_reset": [2, 2, 3],
        "mean": [0.0] * 3,
        "sd": [1.0] * 3,
        "observation": [3.5, -3.25, 4.0],
        "objective": [2.5, -1.75, 2.5],
        "band": [3.0] * 3,
        "error": [3.5, 3.25, 4.0],
        "error_of_model": [2.5, 1.75, 2.5],
        "error_of_noise": [1.0, 1.5, 1.5],
        "cause": ["objective", "noise", "both"],
    }
    assert {name: list(column) for name, column in table.items()} == wanted
    quiet = make_diagnosed({"ET": {"band": np.ones((2, 3))}}).triggers()
    assert quiet.empty
    assert list(quiet.columns) == list(wanted)


@pytest.mark.parametrize(
    ("observation", "objective", "noise"),
    [
        (3.5, 5.5, -2.0),  # the noise pulls the observation back and exceeds its own part 1
        (3.0, 2.0, 1.0),  # the error is the band up to rounding
    ],
)
def test_the_objective_is_the_cause(observation, objective, noise):
    values = {"observation": [[observation]], "objective": [[objective]], "band": [[3.0]]}
    (row,) = make_diagnosed({"ET": values}, {"ET": [[True]]}).triggers().to_dict("records")
    assert (row["cause"], row["error_of_noise"]) == ("objective", noise)


def test_typical_trial():
    fired = np.zeros((4, 6), dtype=bool)
    fired[1, :5] = fired[2, :2] = fired[3, :1] = True
    data = make_result({"ET": np.zeros((4, 6))}, {"ET": fired}).data
    assert typical_trial(data, "ET") == 2  # the median of 5, 2 and 1
    assert typical_trial(make_result({"ET": np.zeros((4, 6))}).data, "ET") == 0


def test_triggers_of_a_study_are_those_of_the_paper():
    """Band, resets and t' of a real study, from the recorded predictions by [ET] (10)-(11)."""
    kernel, noise, delta = unit_kernel("se", 0.2), 0.02, 0.1
    world = MarkovWorld(Grid.regular(7, 2), kernel=kernel, epsilon=0.1, noise=noise)
    players = {
        "R": r_gp_ucb(kernel=kernel, noise=noise, period=9),
        "ET": et_gp_ucb(kernel=kernel, noise=noise, delta=delta),
    }
    result = run_study(world, players, trials=6, horizon=60, seed=3, record=(Diagnosis(),))
    own = result.data.sel(strategy="ET")
    error = abs(own["observation"] - own["mean"]).values
    assert result.data["band"].sel(strategy="R").isnull().all()
    fired = []
    for trial in range(6):
        since = 1
        for step in range(60):
            log_term = np.log(2 * np.pi**2 * since**2 / 6 / delta)
            band = np.sqrt(2 * log_term) * float(own["sd"][trial, step])
            band += np.sqrt(2 * noise * log_term)
            assert float(own["band"][trial, step]) == pytest.approx(band, rel=1e-12)
            assert bool(own["resets"][trial, step]) == (error[trial, step] > band)
            if error[trial, step] > band:
                fired.append((trial, step + 1, since))
                since = 0
            since += 1
    found = result.triggers()[["trial", "round", "rounds_since_reset"]]
    assert list(found.itertuples(index=False, name=None)) == fired
    assert len(fired) > 6
