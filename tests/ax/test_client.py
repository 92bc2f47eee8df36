"""Loops of Ax's Client on drifting objectives, in real units of time, saved and resumed."""

import pytest

pytest.importorskip("ax.api.client")
import json
import sys
from datetime import timedelta

import numpy as np
from ax.adapter.cross_validation import cross_validate
from ax.adapter.registry import Generators
from ax.api.client import Client
from ax.core.observation import ObservationFeatures
from ax.generators.torch.botorch_modular.surrogate import SurrogateSpec
from ax.generators.torch.botorch_modular.utils import ModelConfig
from ax.storage.json_store.decoder import object_from_json
from ax.storage.json_store.encoder import object_to_json
from botorch.exceptions import InputDataError
from helpers.ax_experiment import acquisition_of, ask, dense_prediction, experiment, model_of, tell

from botorch_tv import acquisition as a
from botorch_tv import forgetting as f
from botorch_tv.acquisition import WGPUCB, Constant, DoublyWeighted, Realized
from botorch_tv.ax import PresentAcquisition, best_parameterization_now, complete_trial_at
from botorch_tv.ax.strategy import VALUES, label
from botorch_tv.forgetting import ExponentialWeights, Markov
from botorch_tv.models import TimeVaryingGP


@pytest.mark.few(1)
@pytest.mark.parametrize(("objective", "best"), [("y", 0.4), ("-y", -0.6)])
def test_the_best_setting_of_today_is_asked_for(objective, best):
    # A ridge that was elsewhere in the past: its memory would mislead a model without time.
    past = [(t, x, -((x + best) ** 2)) for t, x in zip(range(5), np.linspace(-1, 1, 5))]
    today = [(90 + i, x, -((x - best) ** 2)) for i, x in enumerate(np.linspace(-1, 1, 6))]
    sign = 1 if objective == "y" else -1
    client = experiment(objective=objective, forgetting=Markov(0.2), width=Constant(0.0))
    tell(client, [(t, x, sign * y) for t, x, y in past + today])
    _, chosen = ask(client, 97.0)
    assert chosen["x"] == pytest.approx(best, abs=0.1)


def test_observations_are_compared_as_they_would_be_now():
    client = tell(experiment(), [(t, 0.1 * t, -t) for t in range(4)] + [(5, 0.3, 1.0)])
    ask(client, 9.0)
    baseline = acquisition_of(client).X_baseline
    assert (baseline[:, 0] == 9.0).all()
    # x = 0.3 was measured twice and counts once.
    assert sorted(baseline[:, 1].tolist()) == sorted(set(baseline[:, 1].tolist()))


@pytest.mark.parametrize("double", [False, True])
def test_gains_in_a_width_are_those_of_the_data_now(double):
    width = WGPUCB(
        B=1.0, R=0.5, noise=0.1, delta=0.1, gain=DoublyWeighted() if double else Realized()
    )
    rows = [(t, x, np.sin(5 * x)) for t, x in [(0, -0.5), (2, 0.9), (3.5, 0.1)]]
    forgetting = (Markov(0.1), ExponentialWeights(gamma=0.8))
    client = experiment(forgetting=forgetting, width=width, learn_forgetting=False)
    ask(tell(client, rows), 7.0)
    model = model_of(client)
    t, x, _ = np.array(rows).T
    distance = (x[:, None] - x) / 2 / model.covar_module.spatial.lengthscale.item()
    K = np.exp(-0.5 * distance**2) * 0.9 ** (np.abs(t[:, None] - t) / 2)
    noise = model.likelihood.noise.item() * 0.8 ** (-(7.0 - t) * (2 if double else 1))
    gain = 0.5 * np.linalg.slogdet(np.eye(3) + K / np.sqrt(np.outer(noise, noise)))[1]
    sqrt_beta = 1.0 + 0.5 / np.sqrt(0.1) * np.sqrt(2 * np.log(10) + 2 * gain)
    assert acquisition_of(client).beta.item() == pytest.approx(sqrt_beta**2, rel=1e-6)


@pytest.mark.full
def test_an_outcome_that_was_not_always_measured():
    client = experiment(objective="y", constraints=["z <= 0.5"], forgetting=Markov(0.1))
    for t, x in [(0.0, -0.5), (1.0, 0.4), (3.0, 0.9), (4.0, 0.0)]:
        index = client.attach_trial(parameters={"t": t, "x": x})
        client.complete_trial(index, {"y": x} if t == 1.0 else {"y": x, "z": x})
    ask(client, 6.0)
    assert ask(client, 7.0)[1]["t"] == 7.0  # the trial at 6 is pending
    each = model_of(client).models
    assert [len(model.train_targets) for model in each] == [4, 3]
    assert [model.now.item() for model in each] == [7.0, 7.0]


@pytest.mark.few(1)
@pytest.mark.parametrize("width", [None, Constant(4.0)], ids=["qLogNEI", "UCB"])
def test_pending_suggestions_keep_their_distance(width):
    rows = [(t, x, -(x**2)) for t, x in enumerate(np.linspace(-1, 1, 5))]
    client = tell(experiment(width=width, forgetting=Markov(0.1)), rows)
    trials = client.get_next_trials(max_trials=3, fixed_parameters={"t": 5.0})
    xs = np.sort([chosen["x"] for chosen in trials.values()])
    assert len(trials) == 3
    assert np.diff(xs).min() > 0.02


@pytest.mark.full
def test_lost_and_abandoned_trials_are_not_waited_for(tmp_path):
    rows = [(t, x, -(x**2)) for t, x in enumerate(np.linspace(-1, 1, 5))]
    client = tell(experiment(forgetting=Markov(0.1), lost_after=timedelta(hours=1)), rows)
    trials = client.get_next_trials(max_trials=3, fixed_parameters={"t": 5.0})
    client.mark_trial_abandoned(min(trials))
    late = client._experiment.trials[max(trials)]
    late._time_run_started -= timedelta(minutes=61)
    path = str(tmp_path / "experiment.json")
    client.save_to_json_file(path)
    for each in (client, Client.load_from_json_file(path)):
        ask(each, 6.0)
        pending = each._generation_strategy.adapter.generator._acquisition.X_pending
        assert pending.tolist() == [[6.0, trials[min(trials) + 1]["x"]]]


@pytest.mark.full
def test_parameters_are_held_and_ranges_change():
    """As in Ax; a narrower range does not drop measurements."""
    rows = [(t, x, -(x**2)) for t, x in enumerate(np.linspace(-1, 1, 5))]
    client = experiment(forgetting=Markov(0.1))
    for now in (0.0, 5.0):
        trials = client.get_next_trials(1, fixed_parameters={"t": now, "x": 0.25})
        assert [trial["x"] for trial in trials.values()] == [0.25]
        tell(client, rows)
    client._experiment.search_space.parameters["x"].update_range(lower=0.5, upper=3.0)
    assert ask(client, 7.0)[1]["x"] >= 0.5
    assert len(model_of(client).train_targets) == 10
    assert best_parameterization_now(client, {"t": 8.0})[0]["x"] == 0.5


@pytest.mark.full
def test_a_measurement_made_later_counts_at_its_own_time():
    client = tell(experiment(), [(t, t / 5, -t) for t in range(4)])
    first, chosen = ask(client, 5.0)
    second, _ = ask(client, 6.0)
    assert complete_trial_at(client, second, {"y": 0.5}, {"t": 6.0}) == second
    late = complete_trial_at(client, first, {"y": 0.7}, {"t": 12.5})
    assert late != first
    ask(client, 13.0)
    X = model_of(client).train_inputs[0]
    assert X[:, 0].tolist() == [0, 1, 2, 3, 6.0, 12.5]
    assert X[-1, 1] == pytest.approx((chosen["x"] + 1) / 2)
    statuses = client.summarize().set_index("trial_index")["trial_status"]
    assert (statuses[first], statuses[late]) == ("ABANDONED", "COMPLETED")


EPSILON, NOW = 0.03, 55.0
ROWS = np.array(
    [[0, -0.9, 2.0], [1.5, 0.3, -1.0], [4, 0.8, 0.5], [20, -0.2, 3.0], [42.25, 0.1, 0.7]]
)


@pytest.mark.parametrize("horizon", [60.0, 6000.0])
def test_predictions_are_those_of_rates_per_unit_of_time(horizon):
    options = {"forgetting": Markov(EPSILON), "learn_forgetting": False}
    client = tell(experiment(horizon=horizon, **options), ROWS)
    ask(client, NOW)
    asked = [{"t": NOW, "x": x} for x in (-1.0, 0.2, 0.75)]
    predicted = client.predict(asked)
    mean, variance = dense_prediction(model_of(client), EPSILON, ROWS, NOW, [-1.0, 0.2, 0.75])
    np.testing.assert_allclose([p["y"][0] for p in predicted], mean, rtol=1e-6)
    np.testing.assert_allclose([p["y"][1] ** 2 for p in predicted], variance, rtol=1e-5)


def test_the_column_of_time_is_found_by_name():
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


@pytest.mark.full
def test_a_user_defined_model_config():
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


RECORDS = [
    f.Markov(0.03),
    f.PeriodicMarkov(0.01, 24.0, 1.0),
    f.Smooth(24.0),
    f.Wiener(0.1),
    f.ExponentialWeights(0.9),
    f.UncertaintyInjection(1.5, kappa=0.1),
    f.Static(),
    a.AgnosticGPUCB(B=1.0, delta=0.1),
    a.BayesEventTriggered(delta=0.1, r=1.0, a1=1.0, b1=1.0),
    a.BayesFinite(delta=0.1, arms=50),
    a.BayesResetting(delta=0.1, r=1.0, a1=1.0, b1=1.0),
    a.BayesTV(delta=0.1, r=1.0, a1=1.0, b1=1.0),
    a.Constant(4.0),
    a.Heteroscedastic(B=1.0, delta=0.1),
    a.IGPUCB(B=1.0, R=0.1, delta=0.1, gain=a.ClosedForm("matern", nu=2.5)),
    a.Logarithmic(c1=0.4),
    a.WGPUCB(B=1.0, R=0.1, noise=0.01, delta=0.1),
    a.ClosedForm("se"),
    a.DoublyWeighted(),
    a.Greedy((0.0, 1.0)),
    a.Realized(),
]


def test_every_record_comes_back():
    assert {type(record) for record in RECORDS} <= set(VALUES)
    assert all(label(kind).startswith("botorch_tv.") for kind in VALUES)
    for record in RECORDS:
        back = object_from_json(json.loads(json.dumps(object_to_json(record))))
        if isinstance(record, a.Greedy):
            back = a.Greedy(tuple(back.values))  # JSON has lists alone
        assert back == record


@pytest.mark.full
@pytest.mark.parametrize(
    ("forgetting", "width"),
    [(f.Markov(0.05), None), ((f.Wiener(0.1), f.ExponentialWeights(0.9)), a.Logarithmic())],
    ids=["qLogNEI", "UCB"],
)
def test_a_saved_client_goes_on(tmp_path, forgetting, width):
    rows = [(t, x, -(x**2)) for t, x in [(0, -0.5), (1, 0.1), (4, 0.9)]]
    client = tell(experiment(objective="-y", forgetting=forgetting, width=width), rows)
    index, _ = ask(client, 6.0)  # a trial runs when the program ends
    path = str(tmp_path / "experiment.json")
    client.save_to_json_file(path)
    again = Client.load_from_json_file(path)
    for item in (client, again):
        item.complete_trial(index, {"y": -0.3})
    (_, here), (_, there) = ask(client, 8.0), ask(again, 8.0)
    assert there["x"] == pytest.approx(here["x"], abs=0.05)
    assert there["t"] == 8.0
    model = model_of(again)
    assert type(model) is TimeVaryingGP
    assert model.now == 8.0
    assert type(acquisition_of(again)) is type(acquisition_of(client))
    assert {type(m) for m in model.modules()} == {type(m) for m in model_of(client).modules()}


def test_the_import_error_has_the_install_command(monkeypatch):
    for name in [name for name in sys.modules if name.split(".")[:2] == ["botorch_tv", "ax"]]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "ax.api.client", None)
    with pytest.raises(ImportError, match="pip install 'botorch-tv\\[ax\\]'"):
        import botorch_tv.ax  # noqa: F401


def by_name(name, **options):
    """A client whose acquisition function is given by name, as in a saved experiment."""
    kind = {"__type": "Type[AcquisitionFunction]", "index": name, "class": CLASS}
    client = experiment(**options)
    (node,) = client._generation_strategy._nodes[1:]
    node.generator_spec.generator_kwargs["botorch_acqf_class"] = object_from_json(kind)
    return client, node.generator_spec.generator_kwargs


CLASS = "<class 'botorch.acquisition.acquisition.AcquisitionFunction'>"
FORMS = {
    "qLogNoisyExpectedImprovementAtPresent": "y",
    "qKnowledgeGradientAtPresent": "y",
    "qLogNParEGOAtPresent": "y, z",
    "qLogNoisyExpectedHypervolumeImprovementAtPresent": "y, z",
}


@pytest.mark.few(1)
@pytest.mark.parametrize("name", FORMS)
def test_forms_at_present_by_name(name):
    client, _ = by_name(name, objective=FORMS[name], forgetting=Markov(0.1))
    for t, x in enumerate(np.linspace(-1, 1, 5)):
        index = client.attach_trial(parameters={"t": float(t), "x": x})
        client.complete_trial(index, {"y": -(x**2), "z": x})
    assert ask(client, 9.0)[1]["t"] == 9.0
    acquisition = acquisition_of(client)
    assert type(acquisition).__name__ == name
    if name != "qKnowledgeGradientAtPresent":  # the others compare with the observed points
        assert (acquisition.X_baseline[:, 0] == 9.0).all()


def test_ax_does_not_know_the_present_without_our_acquisition():
    client, options = by_name("qLogNoisyExpectedImprovementAtPresent")
    del options["acquisition_class"]
    tell(client, [(t, x, -(x**2)) for t, x in enumerate(np.linspace(-1, 1, 5))])
    with pytest.raises(InputDataError, match="in Ax, give acquisition_class"):
        ask(client, 9.0)
