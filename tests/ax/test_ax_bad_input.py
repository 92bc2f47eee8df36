"""Refusals."""

import pytest

pytest.importorskip("ax.api.client")

import numpy as np
from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UserInputError

from botorch_tv.acquisition import Constant
from botorch_tv.ax import (
    adaptive_generation_strategy,
    best_now,
    complete_trial_at,
    time_varying_generation_strategy,
)
from botorch_tv.forgetting import SlidingWindow

X = RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0))
T = RangeParameterConfig(name="t", parameter_type="float", bounds=(0.0, 1.0))
LOG = RangeParameterConfig(name="t", parameter_type="float", bounds=(1.0, 9.0), scaling="log")
CHOICE = ChoiceParameterConfig(
    name="t", parameter_type="float", values=[0.0, 1.0, 2.0], is_ordered=True
)
WHOLE = RangeParameterConfig(name="t", parameter_type="int", bounds=(0, 9))
ROWS = [(0.0, 0.1, 1.0), (2.0, 0.5, 2.0), (4.0, 0.7, 0.0)]


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
def test_a_search_space_without_time_as_a_range(experiment, ask, parameters, message):
    with pytest.raises(UserInputError, match=message):
        ask(experiment(parameters=parameters), 1.0)


def test_time_not_fixed(experiment, tell):
    client = experiment()
    for _ in range(2):  # first by the Sobol points, then by the model
        with pytest.raises(UserInputError, match=r"fixed_parameters=\{'t': now\}"):
            client.get_next_trials(max_trials=1)
        tell(client, ROWS)


def test_times_that_cannot_be(experiment, ask, tell):
    client = tell(experiment(), ROWS)
    with pytest.raises(UserInputError, match=r"fixed at 3\.0, but a trial was measured at 4\.0"):
        ask(client, 3.0)
    with pytest.raises(UserInputError, match=r"at 101\.0, but its bounds are \(0\.0, 100\.0\)"):
        ask(client, 101.0)
    assert ask(client, 4.0)[1]["t"] == 4.0


def test_width_with_outcome_constraints(experiment, ask, tell):
    client = experiment(constraints=["y <= 3"], objective="z", width=Constant(1.0))
    for t, x, y in ROWS:
        index = client.attach_trial(parameters={"t": t, "x": x})
        client.complete_trial(trial_index=index, raw_data={"y": y, "z": x})
    with pytest.raises(
        UserInputError, match="does not support outcome constraints; drop the width"
    ):
        ask(client, 5.0)


def test_arguments():
    with pytest.raises(ValueError, match="initialization_trials is 0"):
        time_varying_generation_strategy("t", initialization_trials=0)
    with pytest.raises(ValueError, match=r"forgetting is .*SlidingWindow"):
        time_varying_generation_strategy("t", forgetting=SlidingWindow(3))


def test_data_that_ax_refuses_start_no_trial(experiment, ask):
    client = experiment()
    index, _ = ask(client, 1.0)
    for _ in range(2):
        with pytest.raises(UserInputError, match="Raw data does not conform"):
            complete_trial_at(client, index, {"y": "much"}, {"t": 2.0})
        trials = client._experiment.trials.values()
        assert [trial.index for trial in trials if trial.status.is_running] == [index]
    late = complete_trial_at(client, index, {"y": 0.5}, {"t": 2.0})
    assert client._experiment.trials[late].status.is_completed


@pytest.mark.parametrize(
    ("kind", "given", "error", "message"),
    [
        ("adaptive", {"t": float("nan")}, ValueError, "t is nan, but it must be finite"),
        ("adaptive", {"t": True}, ValueError, "t is True, which is not a plain number"),
        ("adaptive", {"t": np.ma.masked}, ValueError, "t is masked, which is not a plain number"),
        ("fitted", {"t": 5000}, UserInputError, r"at 5000, but its bounds are \(0\.0, 100\.0\)"),
        ("adaptive", {"t": -7.0}, UserInputError, r"at -7\.0, but its bounds are \(0\.0, 100\.0\)"),
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
def test_invalid_times_leave_the_trial_running(experiment, ask, tell, kind, given, error, message):
    """Such a trial was completed, and no suggestion could be made from then on."""
    client = tell(experiment(), ROWS)
    if kind == "adaptive":
        client.set_generation_strategy(adaptive_generation_strategy("t", initialization_trials=3))
    index, _ = ask(client, 6.0)
    with pytest.raises(error, match=message):
        complete_trial_at(client, index, {"y": 1.0}, given)
    assert len(client._experiment.trials) == len(ROWS) + 1
    assert client._experiment.trials[index].status.is_running
    assert complete_trial_at(client, index, {"y": 1.0}, {"t": np.float64(7.0)}) == index + 1
    assert ask(client, 8.0)[1]["t"] == 8.0
    assert best_now(client, {"t": 8.0})[0]["t"] == 8.0


def test_a_trial_is_completed_once(experiment, tell):
    client = tell(experiment(), ROWS)
    with pytest.raises(UserInputError, match="Trial 2 is COMPLETED, but only a running trial"):
        complete_trial_at(client, 2, {"y": 1.0}, {"t": 5.0})
    assert len(client._experiment.trials) == len(ROWS)


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
