"""The best tried setting now, and refusals."""

import pytest

pytest.importorskip("ax.api.client")
import numpy as np
import torch
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UnsupportedError, UserInputError
from helpers.ax_experiment import ask, dense_prediction, experiment, model_of, tell

from botorch_tv.acquisition import Constant
from botorch_tv.ax import adaptive_generation_strategy as adaptive
from botorch_tv.ax import best_parameterization_now, complete_trial_at
from botorch_tv.ax import time_varying_generation_strategy as fitted
from botorch_tv.forgetting import ExponentialWeights, Markov, SlidingWindow

EPSILON, NOW = 0.1, 41.0
# The peak stood at -0.8 when it was highest, and has wandered to 0.5 and lost height.
PAST = [(t, x, 5.0 - 4 * (x + 0.8) ** 2) for t, x in zip(range(6), (-0.8, -0.5, 0.5, 0.0, 0.8, -1))]
TODAY = [(35 + t, x, 1 - 4 * (x - 0.5) ** 2) for t, x in enumerate((-0.8, 0.0, 0.5, 0.8, 0.25))]
ROWS = PAST + TODAY
MODEL = {"forgetting": Markov(EPSILON), "learn_forgetting": False}


@pytest.mark.full
@pytest.mark.parametrize(("objective", "sign"), [("y", 1.0), ("-y", -1.0)])
def test_the_setting_whose_mean_is_best_now(objective, sign):
    rows = [(t, x, sign * y) for t, x, y in ROWS]
    client = tell(experiment(objective=objective, **MODEL), rows)
    ask(client, NOW)
    tried = sorted({x for _, x, _ in ROWS})
    mean, variance = dense_prediction(model_of(client), EPSILON, rows, NOW, tried)
    best = int(np.argmax(sign * mean))
    assert tried[best] == 0.5
    parameters, predicted, index, arm = best_parameterization_now(client, {"t": NOW})
    assert parameters == {"t": NOW, "x": 0.5}
    assert predicted["y"][0] == pytest.approx(mean[best], rel=1e-6)
    assert predicted["y"][1] == pytest.approx(np.sqrt(variance[best]), rel=1e-5)
    # The newest trial of the setting; Ax prefers the oldest success.
    assert index == len(PAST) + 2
    assert client._experiment.trials[index].arm.name == arm
    stale = client.get_best_parameterization(use_model_predictions=False)
    assert stale[0]["x"] == -0.8
    # At another time another setting: nothing that the call did stays.
    later = best_parameterization_now(client, {"t": 45.0})
    assert later[0]["t"] == 45.0
    assert later[1]["y"][1] > predicted["y"][1]
    assert best_parameterization_now(client, {"t": NOW}) == (parameters, predicted, index, arm)
    assert model_of(client).now.item() == NOW


def test_observations_age_until_now():
    forgetting = ExponentialWeights(gamma=0.8)
    client = tell(experiment(forgetting=forgetting, learn_forgetting=False), ROWS)
    ask(client, NOW)
    deviation = []
    for now in (NOW, NOW + 30):
        parameters, predicted, _, _ = best_parameterization_now(client, {"t": now})
        model = model_of(client)
        model.set_now(now)
        X = torch.tensor([[now, parameters["x"]]], dtype=torch.float64)
        variance = model.posterior(X).variance.item() * np.var([y for _, _, y in ROWS], ddof=1)
        assert predicted["y"][1] == pytest.approx(np.sqrt(variance), rel=1e-5)
        deviation.append(predicted["y"][1])
    assert deviation[1] > 1.5 * deviation[0]


def test_only_settings_that_are_expected_to_keep_constraints():
    client = experiment(objective="y", constraints=["z <= 1"], **MODEL)
    for t, x in enumerate((-0.9, -0.3, 0.2, 0.9)):
        index = client.attach_trial(parameters={"t": float(t), "x": x})
        client.complete_trial(index, {"y": x, "z": 2 * x})
    parameters, predicted, _, _ = best_parameterization_now(client, {"t": 4.0})
    assert parameters["x"] == 0.2
    assert predicted["z"][0] < 1
    client.configure_optimization(objective="y", outcome_constraints=["z <= -9"])
    with pytest.raises(UserInputError, match=r"Each of the 4 .* predicted to violate"):
        best_parameterization_now(client, {"t": 4.0})


def test_a_strategy_without_time():
    with pytest.raises(
        UserInputError, match=r"strategy None has no .*time_varying_generation_strategy"
    ):
        best_parameterization_now(Client(), {"t": 1.0})
    client = experiment(**MODEL)
    client.configure_generation_strategy(method="random_search")
    with pytest.raises(UserInputError, match=r"has no time parameter"):
        best_parameterization_now(client, {"t": 1.0})


def test_measurements_count_before_and_after_suggestions():
    client = tell(experiment(initialization_trials=9, **MODEL), [(0, 0.3, 1.0), (2, -0.4, 3.0)])
    assert best_parameterization_now(client, {"t": 2.0})[0]["x"] == -0.4
    assert client._generation_strategy.adapter is None
    client = tell(experiment(**MODEL), ROWS)
    ask(client, NOW)
    tell(client, [(40.5, -0.3, 9.0)])
    assert best_parameterization_now(client, {"t": NOW})[0] == {"t": NOW, "x": -0.3}


@pytest.mark.parametrize(
    ("now", "error", "message"),
    [
        ({"hour": 1.0}, UserInputError, r"is \{'hour': .*; give fixed_parameters=\{'t': now\}"),
        (1.0, UserInputError, r"is 1\.0, but must contain only the time; give .*\{'t': now\}"),
        ({"t": 1.0}, UserInputError, r"fixed at 1\.0, but a trial was measured at 2\.0"),
        ({"t": 101.0}, UserInputError, r"at 101\.0, but its bounds are \(0\.0, 100\.0\)"),
        ({"t": "now"}, ValueError, r"t is .* must be finite; give the value"),
    ],
)
def test_times_are_refused(now, error, message):
    with pytest.raises(error, match=message):
        best_parameterization_now(tell(experiment(**MODEL), ROWS[:3]), now)


def test_outcomes_that_have_no_best():
    client = experiment(**MODEL)
    with pytest.raises(UserInputError, match="No trial has a value of the objective"):
        best_parameterization_now(client, {"t": 1.0})
    client.configure_optimization(objective="y, -z")
    with pytest.raises(UnsupportedError, match="call pareto_frontier_now"):
        best_parameterization_now(tell(client, ROWS[:3]), {"t": 3.0})
    client = tell(experiment(objective="y", constraints=["z <= 1"], **MODEL), ROWS[:4])
    with pytest.raises(KeyError, match="z"):
        best_parameterization_now(client, {"t": 4.0})


X = RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0))
T = RangeParameterConfig(name="t", parameter_type="float", bounds=(0.0, 1.0))
LOG = RangeParameterConfig(name="t", parameter_type="float", bounds=(1.0, 9.0), scaling="log")
CHOICE = ChoiceParameterConfig(
    name="t", parameter_type="float", values=[0.0, 1.0, 2.0], is_ordered=True
)
WHOLE = RangeParameterConfig(name="t", parameter_type="int", bounds=(0, 9))
MEASURED = [(0.0, 0.1, 1.0), (2.0, 0.5, 2.0), (4.0, 0.7, 0.0)]


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ([X], "'t' is None, but .* give configure_experiment"),
        ([X, LOG], "'t' is RangeParameter.*log_scale=True.* a linear scale"),
        ([X, CHOICE], "'t' is ChoiceParameter.* a linear scale"),
        ([X, WHOLE], "'t' is RangeParameter.*INT.* of floats"),
        ([T], "only tunable parameter is 't'"),
    ],
    ids=["missing", "log", "choice", "integers", "alone"],
)
def test_a_search_space_without_time_as_a_range(parameters, message):
    with pytest.raises(UserInputError, match=message):
        ask(experiment(parameters=parameters), 1.0)


def test_time_not_fixed():
    client = experiment()
    for _ in range(2):  # first by the Sobol points, then by the model
        with pytest.raises(UserInputError, match=r"fixed_parameters=\{'t': now\}"):
            client.get_next_trials(max_trials=1)
        tell(client, MEASURED)


def test_width_with_outcome_constraints():
    client = experiment(constraints=["y <= 3"], objective="z", width=Constant(1.0))
    for t, x, y in MEASURED:
        index = client.attach_trial(parameters={"t": t, "x": x})
        client.complete_trial(trial_index=index, raw_data={"y": y, "z": x})
    with pytest.raises(
        UserInputError, match="does not support outcome constraints; drop the width"
    ):
        ask(client, 5.0)


def test_data_that_ax_refuses_start_no_trial():
    client = experiment()
    index, _ = ask(client, 1.0)
    for _ in range(2):
        with pytest.raises(UserInputError, match="Raw data does not conform"):
            complete_trial_at(client, index, {"y": "much"}, {"t": 2.0})
        trials = client._experiment.trials.values()
        assert [trial.index for trial in trials if trial.status.is_running] == [index]
    late = complete_trial_at(client, index, {"y": 0.5}, {"t": 2.0})
    assert client._experiment.trials[late].status.is_completed


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("kind", "given", "error", "message"),
    [
        ("adaptive", {"t": float("nan")}, ValueError, "t is nan, but it must be finite"),
        ("adaptive", {"t": np.ma.masked}, ValueError, "t is masked, which is not a plain number"),
        ("fitted", {"t": 5000}, UserInputError, r"at 5000\.0, but its bounds are \(0\.0, 100\.0\)"),
        (
            "fitted",
            {"x": 0.3},
            UserInputError,
            r"is \{'x': 0\.3\}, .* fixed_parameters=\{'t': now\}",
        ),
        ("adaptive", {"t": 3.0, "x": 0.3}, UserInputError, r"give fixed_parameters=\{'t': now\}"),
        ("adaptive", 12.5, UserInputError, r"is 12\.5, .* give fixed_parameters=\{'t': now\}"),
    ],
)
def test_invalid_times_leave_the_trial_running(kind, given, error, message):
    """Such a trial was completed, and no suggestion could be made from then on."""
    client = tell(experiment(), MEASURED)
    if kind == "adaptive":
        client.set_generation_strategy(adaptive("t", initialization_trials=3))
    index, _ = ask(client, 6.0)
    with pytest.raises(error, match=message):
        complete_trial_at(client, index, {"y": 1.0}, given)
    assert len(client._experiment.trials) == len(MEASURED) + 1
    assert client._experiment.trials[index].status.is_running
    assert complete_trial_at(client, index, {"y": 1.0}, {"t": np.float64(7.0)}) == index + 1
    assert ask(client, 8.0)[1]["t"] == 8.0
    assert best_parameterization_now(client, {"t": 8.0})[0]["t"] == 8.0


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", ["adaptive", "fitted"])
def test_a_measurement_counts_where_it_was_made(kind):
    """The operator set something else: the suggestion is closed and blocks no place."""
    client = tell(experiment(), MEASURED)
    if kind == "adaptive":
        client.set_generation_strategy(adaptive("t", initialization_trials=3))
    index, _ = ask(client, 6.0)
    for values, message in (
        ({"x": "much"}, "x is 'much', which is not a plain number"),
        ({"t": 1e9}, "'t' is fixed at 1000000000.0, but its bounds are"),
        ({"z": 1.0}, "but search space has parameters: {'[tx]', '[tx]'}"),
    ):
        with pytest.raises((UserInputError, ValueError), match=message):
            complete_trial_at(client, index, {"y": 1.0}, parameters=values)
    assert client._experiment.trials[index].status.is_running
    late = complete_trial_at(client, index, {"y": 9.0}, {"t": 6.5}, parameters={"x": np.int64(-1)})
    assert client._experiment.trials[late].arm.parameters == {"t": 6.5, "x": -1.0}
    assert client._experiment.trials[index].status.is_abandoned
    best, _, found, _ = best_parameterization_now(client, {"t": 7.0})
    assert (best, found) == ({"t": 7.0, "x": -1.0}, late)
    client.complete_trial(ask(client, 7.5)[0], {"y": float("nan")})
    assert best_parameterization_now(client, {"t": 7.5})[2] == late  # NaN is not the best
    again, chosen = ask(client, 8.0)
    assert complete_trial_at(client, again, {"y": 0.0}, parameters={"x": chosen["x"]}) == again


def test_a_trial_is_completed_once():
    client = tell(experiment(), MEASURED)
    with pytest.raises(UserInputError, match="Trial 2 is COMPLETED, but only a running trial"):
        complete_trial_at(client, 2, {"y": 1.0}, {"t": 5.0})
    assert len(client._experiment.trials) == len(MEASURED)


@pytest.mark.parametrize("kind", ["int", "float"])
def test_times_with_a_strategy_without_time(kind):
    time = RangeParameterConfig(name="t", parameter_type=kind, bounds=(0, 9))
    salt = ChoiceParameterConfig(name="salt", parameter_type="str", values=["sea", "rock"])
    client = Client(random_seed=1)
    client.configure_experiment(parameters=[time, X, salt])
    client.configure_optimization(objective="y")
    index = client.attach_trial({"t": 1 if kind == "int" else 1.0, "x": 0.5, "salt": "sea"})
    for given in ({"t": 10}, {"t": float("nan")}, {"salt": "rock"}, {"t": 2, "x": 0.1}, {"u": 1}):
        with pytest.raises((UserInputError, ValueError), match=r"; (give|configure)"):
            complete_trial_at(client, index, {"y": 1.0}, given)
    if kind == "int":
        with pytest.raises(UserInputError, match=r"'t' is 3\.5, but it must be an integer"):
            complete_trial_at(client, index, {"y": 1.0}, {"t": 3.5})
    assert len(client._experiment.trials) == 1
    late = complete_trial_at(client, index, {"y": 1.0}, {"t": np.float64(3)})
    assert client._experiment.trials[late].arm.parameters == {"t": 3, "x": 0.5, "salt": "sea"}


@pytest.mark.parametrize(
    ("build", "settings", "message"),
    [
        (fitted, {"initialization_trials": 0}, "initialization_trials is 0"),
        (fitted, {"forgetting": SlidingWindow(3)}, r"forgetting is .*SlidingWindow"),
        (adaptive, {"initialization_trials": 1}, "initialization_trials"),
        (adaptive, {"seed": -1}, "seed"),
    ],
)
def test_arguments(build, settings, message):
    with pytest.raises(ValueError, match=message):
        build("t", **settings)
