from dataclasses import dataclass

import numpy as np
import pytest
from synthetic_results import make_diagnosed, make_result

from botorch_tv.forgetting import Retained, Retention
from botorch_tv.simulation import Diagnosis, MarkovWorld, run_study
from botorch_tv.simulation.diagnosis import typical_trial
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import GPStrategy, Grid, et_gp_ucb, r_gp_ucb

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
    return make_diagnosed({"R": {"mean": np.ones((2, 4))}, "ET": armed}, {"R": ~NONE, "ET": fired})


def test_table_by_hand(result):
    table = result.triggers()
    assert list(table.columns) == [
        "strategy",
        "trial",
        "round",
        "rounds_since_reset",
        "mean",
        "sd",
        "observation",
        "objective",
        "band",
        "error",
        "error_of_model",
        "error_of_noise",
        "cause",
    ]
    assert list(table["strategy"]) == ["ET"] * 3  # R resets periodically
    assert list(zip(table["trial"], table["round"])) == [(0, 2), (0, 4), (1, 3)]
    assert list(table["rounds_since_reset"]) == [2, 2, 3]
    assert list(table["error"]) == [3.5, 3.25, 4.0]
    assert list(table["error_of_model"]) == [2.5, 1.75, 2.5]
    assert list(table["error_of_noise"]) == [1.0, 1.5, 1.5]
    assert list(table["cause"]) == ["objective", "noise", "both"]


def test_noise_against_the_deviation_is_no_cause():
    # The model is off by 5.5; noise of -2 pulls the observation back and exceeds its own part 1.
    values = {"observation": [[3.5]], "objective": [[5.5]], "band": [[3.0]]}
    (row,) = make_diagnosed({"ET": values}, {"ET": [[True]]}).triggers().to_dict("records")
    assert row["cause"] == "objective"
    assert row["error_of_noise"] == -2


def test_error_at_the_band_to_rounding_has_a_cause():
    values = {"observation": [[3.0]], "objective": [[2.0]], "band": [[3.0]]}
    table = make_diagnosed({"ET": values}, {"ET": [[True]]}).triggers()
    assert list(table["cause"]) == ["objective"]


def test_columns_without_resets(result):
    with_trigger = make_diagnosed({"ET": {"band": np.ones((2, 3))}}).triggers()
    without = make_diagnosed({"GP": {"mean": np.ones((2, 3))}}).triggers()
    for table in (with_trigger, without):
        assert table.empty
        assert list(table.columns) == list(result.triggers().columns)


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
    result = run_study(
        world, players, trials=6, horizon=60, seed=3, record=(Diagnosis(),), progress=False
    )
    own = {name: result.data[name].sel(strategy="ET").values for name in result.data}
    assert result.data["band"].sel(strategy="R").isnull().all()
    count = 0
    for trial in range(6):
        since = 1
        for step in range(60):
            log_term = np.log(2 * np.pi**2 * since**2 / 6 / delta)
            band = np.sqrt(2 * log_term) * own["sd"][trial, step] + np.sqrt(2 * noise * log_term)
            assert own["band"][trial, step] == pytest.approx(band, rel=1e-12)
            error = abs(own["observation"][trial, step] - own["mean"][trial, step])
            assert bool(own["resets"][trial, step]) == (error > band)
            if error > band:
                row = result.triggers().iloc[count]
                assert (row["trial"], row["round"]) == (trial, step + 1)
                assert row["rounds_since_reset"] == since
                count += 1
            since = 1 if error > band else since + 1
    assert count == len(result.triggers()) > 6


@dataclass(frozen=True)
class _Own(Retention):
    """Resets if y deviates by three standard deviations of an observation."""

    def keep(self, log):
        if log.newest is None:
            return Retained()
        _, y, mean, sd, noise = log.newest
        fired = (y - mean).abs() > self.band(sd, noise, log.since)
        return Retained(newest=1, where=fired, reset=fired)

    def band(self, sd, noise, since):
        return 3 * (sd.square() + noise).sqrt()


def test_the_band_of_an_own_rule_is_recorded():
    kernel = unit_kernel("se", 0.2)
    world = MarkovWorld(Grid.regular(points=6, dim=2), kernel=kernel, epsilon=0.2, noise=0.02)
    player = GPStrategy(kernel=kernel, noise=0.02, retention=_Own())
    result = run_study(
        world, {"own": player}, trials=4, horizon=30, record=(Diagnosis(),), progress=False
    )
    expected = 3 * np.sqrt(result.data["sd"] ** 2 + 0.02)
    np.testing.assert_allclose(result.data["band"], expected, rtol=1e-12)
    table = result.triggers()
    assert len(table) == int(result.resets.sum()) > 0
    assert (table["error"] > table["band"]).all()
