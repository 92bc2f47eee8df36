"""The best tried setting now."""

import numpy as np
import pytest
import torch

pytest.importorskip("ax.api.client")

from ax.api.client import Client
from ax.exceptions.core import UnsupportedError, UserInputError

from botorch_tv.ax import best_now
from botorch_tv.forgetting import ExponentialWeights, Markov

EPSILON, NOW = 0.1, 41.0
# The peak stood at -0.8 when it was highest, and has wandered to 0.5 and lost height.
PAST = [(t, x, 5.0 - 4 * (x + 0.8) ** 2) for t, x in zip(range(6), (-0.8, -0.5, 0.5, 0.0, 0.8, -1))]
TODAY = [(35 + t, x, 1 - 4 * (x - 0.5) ** 2) for t, x in enumerate((-0.8, 0.0, 0.5, 0.8, 0.25))]
ROWS = PAST + TODAY
MODEL = {"forgetting": Markov(EPSILON), "learn_forgetting": False}


@pytest.mark.parametrize(("objective", "sign"), [("y", 1.0), ("-y", -1.0)])
def test_the_setting_whose_mean_is_best_now(
    experiment, ask, tell, model_of, dense_prediction, objective, sign
):
    rows = [(t, x, sign * y) for t, x, y in ROWS]
    client = tell(experiment(objective=objective, **MODEL), rows)
    ask(client, NOW)
    tried = sorted({x for _, x, _ in ROWS})
    mean, variance = dense_prediction(model_of(client), EPSILON, rows, NOW, tried)
    best = int(np.argmax(sign * mean))
    assert tried[best] == 0.5
    parameters, predicted, index, arm = best_now(client, {"t": NOW})
    assert parameters == {"t": NOW, "x": 0.5}
    assert predicted["y"][0] == pytest.approx(mean[best], rel=1e-6)
    assert predicted["y"][1] == pytest.approx(np.sqrt(variance[best]), rel=1e-5)
    # The newest trial of the setting; Ax prefers the oldest success.
    assert index == len(PAST) + 2
    assert client._experiment.trials[index].arm.name == arm
    stale = client.get_best_parameterization(use_model_predictions=False)
    assert stale[0]["x"] == -0.8
    # At another time another setting: nothing that the call did stays.
    later = best_now(client, {"t": 45.0})
    assert later[0]["t"] == 45.0
    assert later[1]["y"][1] > predicted["y"][1]
    assert best_now(client, {"t": NOW}) == (parameters, predicted, index, arm)
    assert model_of(client).now.item() == NOW


def test_observations_age_until_now(experiment, ask, tell, model_of):
    forgetting = ExponentialWeights(gamma=0.8)
    client = tell(experiment(forgetting=forgetting, learn_forgetting=False), ROWS)
    ask(client, NOW)
    deviation = []
    for now in (NOW, NOW + 30):
        parameters, predicted, _, _ = best_now(client, {"t": now})
        model = model_of(client)
        model.set_now(now)
        X = torch.tensor([[now, parameters["x"]]], dtype=torch.float64)
        variance = model.posterior(X).variance.item() * np.var([y for _, _, y in ROWS], ddof=1)
        assert predicted["y"][1] == pytest.approx(np.sqrt(variance), rel=1e-5)
        deviation.append(predicted["y"][1])
    assert deviation[1] > 1.5 * deviation[0]


def test_measurements_since_the_last_suggestion_count(experiment, ask, tell):
    client = tell(experiment(**MODEL), ROWS)
    ask(client, NOW)
    tell(client, [(40.5, -0.3, 9.0)])
    assert best_now(client, {"t": NOW})[0] == {"t": NOW, "x": -0.3}


def test_before_the_model_suggests(experiment, tell):
    client = tell(experiment(initialization_trials=9, **MODEL), [(0, 0.3, 1.0), (2, -0.4, 3.0)])
    assert best_now(client, {"t": 2.0})[0]["x"] == -0.4
    assert client._generation_strategy.adapter is None


def test_only_settings_that_are_expected_to_keep_constraints(experiment):
    client = experiment(objective="y", constraints=["z <= 1"], **MODEL)
    for t, x in enumerate((-0.9, -0.3, 0.2, 0.9)):
        index = client.attach_trial(parameters={"t": float(t), "x": x})
        client.complete_trial(index, {"y": x, "z": 2 * x})
    parameters, predicted, _, _ = best_now(client, {"t": 4.0})
    assert parameters["x"] == 0.2
    assert predicted["z"][0] < 1
    client.configure_optimization(objective="y", outcome_constraints=["z <= -9"])
    with pytest.raises(UserInputError, match=r"Each of the 4 .* predicted to violate"):
        best_now(client, {"t": 4.0})


def test_an_outcome_under_a_constraint_that_was_never_measured(experiment, tell):
    client = tell(experiment(objective="y", constraints=["z <= 1"], **MODEL), ROWS[:4])
    with pytest.raises(KeyError, match="z"):
        best_now(client, {"t": 4.0})
    index = client.attach_trial(parameters={"t": 4.0, "x": 0.1})
    client.complete_trial(index, {"y": 0.0, "z": 0.5})
    assert "z" in best_now(client, {"t": 4.0})[1]


def test_a_sum_of_outcomes(experiment):
    client = experiment(objective="y - 2*z", **MODEL)
    for t, x in enumerate((-0.9, 0.2, 0.9)):
        index = client.attach_trial(parameters={"t": float(t), "x": x})
        client.complete_trial(index, {"y": x, "z": x})
    assert best_now(client, {"t": 3.0})[0]["x"] == -0.9


def test_refused(experiment, ask, tell):
    client = experiment(**MODEL)
    with pytest.raises(UserInputError, match="No trial has a value of the objective"):
        best_now(client, {"t": 1.0})
    tell(client, ROWS[:3])
    with pytest.raises(
        UserInputError, match=r"is \{'hour': .*; give fixed_parameters=\{'t': now\}"
    ):
        best_now(client, {"hour": 1.0})
    with pytest.raises(
        UserInputError, match=r"is 1\.0, but it takes the time alone; give .*\{'t': now\}"
    ):
        best_now(client, 1.0)
    with pytest.raises(UserInputError, match=r"give fixed_parameters=\{'t': now"):
        best_now(client, {})
    with pytest.raises(UserInputError, match=r"fixed at 1\.0, but a trial was measured at 2\.0"):
        best_now(client, {"t": 1.0})
    with pytest.raises(UserInputError, match=r"at 101\.0, but its bounds are \(0\.0, 100\.0\)"):
        best_now(client, {"t": 101.0})
    for bad in (float("nan"), "now"):
        with pytest.raises(ValueError, match=r"t is .* must be finite; give the time"):
            best_now(client, {"t": bad})
    client.configure_optimization(objective="y, -z")
    with pytest.raises(UnsupportedError, match="get_pareto_frontier"):
        best_now(client, {"t": 3.0})


def test_a_strategy_without_time(experiment):
    with pytest.raises(
        UserInputError, match=r"strategy None has no .*time_varying_generation_strategy"
    ):
        best_now(Client(), {"t": 1.0})
    client = experiment(**MODEL)
    client.configure_generation_strategy(method="random_search")
    with pytest.raises(UserInputError, match=r"has no time parameter"):
        best_now(client, {"t": 1.0})
