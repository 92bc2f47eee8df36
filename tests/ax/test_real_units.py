"""Time reaches the model in its own unit, whatever Ax scales."""

import numpy as np
import pytest

pytest.importorskip("ax.api.client")

from ax.adapter.cross_validation import cross_validate
from ax.adapter.registry import Generators
from ax.core.observation import ObservationFeatures
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig

from botorch_tv.ax import PresentAcquisition
from botorch_tv.forgetting import Markov
from botorch_tv.models import TimeVaryingGP

EPSILON, NOW = 0.03, 55.0
ROWS = np.array(
    [[0, -0.9, 2.0], [1.5, 0.3, -1.0], [4, 0.8, 0.5], [20, -0.2, 3.0], [42.25, 0.1, 0.7]]
)


@pytest.mark.parametrize("horizon", [60.0, 6000.0])
def test_predictions_are_those_of_rates_per_unit_of_time(
    experiment, ask, tell, model_of, dense_prediction, horizon
):
    options = {"forgetting": Markov(EPSILON), "learn_forgetting": False}
    client = tell(experiment(horizon=horizon, **options), ROWS)
    ask(client, NOW)
    asked = [{"t": NOW, "x": x} for x in (-1.0, 0.2, 0.75)]
    predicted = client.predict(asked)
    mean, variance = dense_prediction(model_of(client), EPSILON, ROWS, NOW, [-1.0, 0.2, 0.75])
    np.testing.assert_allclose([p["y"][0] for p in predicted], mean, rtol=1e-6)
    np.testing.assert_allclose([p["y"][1] ** 2 for p in predicted], variance, rtol=1e-5)


def test_the_column_of_time_is_found_by_name(experiment, ask, model_of):
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    number = {"parameter_type": "float"}
    parameters = [
        ChoiceParameterConfig(
            name="kind", parameter_type="str", values=["a", "b", "c"], is_ordered=False
        ),
        RangeParameterConfig(name="hour", bounds=(0, 50), **number),
        RangeParameterConfig(name="rate", bounds=(1e-3, 1.0), scaling="log", **number),
    ]
    client = experiment(parameters=parameters, time_parameter="hour", initialization_trials=3)
    for hour in (0.0, 3.25, 5.0, 12.0):
        index, chosen = ask(client, hour, "hour")
        assert chosen["hour"] == hour
        client.complete_trial(index, {"y": chosen["rate"] + (chosen["kind"] == "b")})
    model = model_of(client)
    X = model.train_inputs[0]
    assert X.shape[-1] == 5  # three columns for three kinds
    assert X[:, model.time_dim].tolist() == [0.0, 3.25, 5.0]
    space = X[:, [i for i in range(5) if i != model.time_dim]]
    assert space.min() >= 0
    assert space.max() <= 1


def test_a_user_defined_model_config(experiment, tell):
    client = tell(experiment(), ROWS)
    config = ModelConfig(botorch_model_class=TimeVaryingGP, model_options={"time_dim": 0})
    adapter = Generators.BOTORCH_MODULAR(
        experiment=client._experiment,
        surrogate_spec=SurrogateSpec(model_configs=[config]),
        acquisition_class=PresentAcquisition,
    )
    run = adapter.gen(n=1, fixed_features=ObservationFeatures(parameters={"t": NOW}))
    model = adapter.generator.surrogate.model
    assert run.arms[0].parameters["t"] == NOW
    assert model.train_inputs[0][:, 0].tolist() == ROWS[:, 0].tolist()
    held_out = cross_validate(adapter, folds=-1)
    assert len(held_out) == len(ROWS)
    assert all(np.isfinite(fold.predicted.means).all() for fold in held_out)
