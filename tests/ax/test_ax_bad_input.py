"""What is refused, and in which words."""

import pytest

pytest.importorskip("ax.api.client")

from ax.adapter.registry import Generators
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.observation import ObservationFeatures
from ax.exceptions.core import UserInputError

from botorch_tv.acquisition import Constant
from botorch_tv.ax import (
    PresentAcquisition,
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
        ([X], "is 't', but the search space has \\['x'\\]; give configure_experiment"),
        ([X, LOG], "'t' is on a log scale"),
        ([X, CHOICE], "'t' is a ChoiceParameter"),
        ([X, WHOLE], "'t' takes integers"),
        ([T], "no parameter to choose but 't'"),
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
    with pytest.raises(UserInputError, match="knows no outcome constraints; leave out the width"):
        ask(client, 5.0)


def test_arguments():
    with pytest.raises(ValueError, match="time_parameter is empty"):
        time_varying_generation_strategy("")
    with pytest.raises(ValueError, match="initialization_trials is 0"):
        time_varying_generation_strategy("t", initialization_trials=0)
    with pytest.raises(ValueError, match="forgetting holds SlidingWindow"):
        time_varying_generation_strategy("t", forgetting=SlidingWindow(3))


def test_a_model_that_knows_no_time(experiment, tell):
    adapter = Generators.BOTORCH_MODULAR(
        experiment=tell(experiment(), ROWS)._experiment, acquisition_class=PresentAcquisition
    )
    with pytest.raises(UserInputError, match="SingleTaskGP, but the present time"):
        adapter.gen(n=1, fixed_features=ObservationFeatures(parameters={"t": 5.0}))


def test_data_that_ax_refuses_leave_no_trial_running(experiment, ask):
    """A second one ran for ever, and kept suggestions away from where it was."""
    client = experiment()
    index, _ = ask(client, 1.0)
    for _ in range(2):
        with pytest.raises(UserInputError, match="Raw data does not conform"):
            complete_trial_at(client, index, {"y": "much"}, {"t": 2.0})
        trials = client._experiment.trials.values()
        assert [one.index for one in trials if one.status.is_running] == [index]
    late = complete_trial_at(client, index, {"y": 0.5}, {"t": 2.0})
    assert client._experiment.trials[late].status.is_completed
