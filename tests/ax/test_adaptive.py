"""The strategy that is wanted nothing, asked and wanted through Ax's Client."""

import math

import pytest
import torch

pytest.importorskip("ax.api.client")

from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.exceptions import InputDataError, InputDataWarning

from botorch_tv.ax import (
    AdaptiveNode,
    adaptive_generation_strategy,
    best_now,
    predict_now,
    time_varying_generation_strategy,
)
from botorch_tv.ax.adaptive import TrialSpace
from botorch_tv.strategies import Box, adaptive_gp_ucb
from botorch_tv.strategies.parameters import MixedSearch

SALTS = ["none", "sea", "rock"]
MIXED = [
    RangeParameterConfig(name="hour", parameter_type="float", bounds=(0.0, 1000.0)),
    RangeParameterConfig(name="rate", parameter_type="float", bounds=(1e-4, 1.0), scaling="log"),
    RangeParameterConfig(name="layers", parameter_type="int", bounds=(1, 6)),
    ChoiceParameterConfig(name="salt", parameter_type="str", values=SALTS, is_ordered=False),
    ChoiceParameterConfig(
        name="size", parameter_type="float", values=[1.0, 2.0, 4.0], is_ordered=True
    ),
]
LINE = [MIXED[0], RangeParameterConfig(name="x", parameter_type="float", bounds=(0.0, 1.0))]


def client_of(parameters=MIXED, objective="-cost", **options):
    client = Client(random_seed=0)
    client.configure_experiment(parameters=parameters)
    client.configure_optimization(objective=objective)
    client.set_generation_strategy(adaptive_generation_strategy("hour", **options))
    return client


def cost(first):
    """Best at a rate that wanders, 4 layers, sea salt and size 2."""
    best = -2 + math.sin(first["hour"] / 20)
    other = (first["layers"] - 4) ** 2 / 10 + (first["salt"] != "sea") + (first["size"] != 2.0) / 2
    return 50 + 10 * ((math.log10(first["rate"]) - best) ** 2 + other)


def settings_of(client):
    return [trial.arm.parameters for trial in client._experiment.trials.values()]


def assert_alike(first, other):
    """Equal up to the rounding of Ax's file, which a search may amplify."""
    assert first["rate"] == pytest.approx(other["rate"], rel=1e-3)
    assert {**first, "rate": 0.0} == {**other, "rate": 0.0}


def play(client, now, fail=()):
    trials = client.get_next_trials(max_trials=3, fixed_parameters={"hour": now})
    for index, item in trials.items():
        if index in fail:
            client.mark_trial_failed(index)
        else:
            client.complete_trial(index, {"cost": cost(item)})
    return trials


def test_mixed_trials_in_threes_are_saved_and_go_on(tmp_path):
    client = client_of()
    for turn in range(4):
        trials = play(client, 2.0 * turn, fail=(10,))
        assert len({(trial["rate"], *map(str, trial.values())) for trial in trials.values()}) == 3
    path = str(tmp_path / "experiment.json")
    client.save_to_json_file(path)
    again = Client.load_from_json_file(path)
    for turn in range(4, 6):
        here, there = play(client, 2.0 * turn), play(again, 2.0 * turn)
        assert list(here) == list(there)
        for index, first in here.items():
            assert_alike(there[index], first)
    settings = settings_of(again)
    assert len(settings) == 18
    for first in settings:
        assert 1e-4 <= first["rate"] <= 1
        assert type(first["layers"]) is int
        assert 1 <= first["layers"] <= 6
        assert first["salt"] in SALTS
        assert first["size"] in (1, 2, 4)
    costs = [cost(setting) for setting in settings]
    assert sum(costs[-9:]) < sum(costs[:9]) - 9  # a point in each, of ten per unit
    (first, values, index, _), (other, same, number, _) = (
        best_now(each, {"hour": 12.0}) for each in (client, again)
    )
    assert index == number
    assert_alike(other, first)
    assert same["cost"] == pytest.approx(values["cost"], rel=1e-3)


def test_an_objective_that_is_turned_around():
    """It went on in the old direction."""
    clients = [
        client_of(MIXED[:2], objective=item, initialization_trials=4) for item in ("y", "-y")
    ]
    for client in clients:
        for hour, rate in enumerate([1e-4, 1e-3, 1e-2, 0.1, 1.0, 0.03]):
            index = client.attach_trial(parameters={"hour": float(hour), "rate": rate})
            client.complete_trial(index, {"y": -((math.log10(rate) + 2) ** 2)})
    turned, wanted = clients
    best = best_now(turned, {"hour": 6.0})[0]["rate"]
    assert best == 1e-2
    turned.configure_optimization(objective="-y")
    asked = [item.get_next_trials(1, fixed_parameters={"hour": 6.0}) for item in (turned, wanted)]
    (first,), (second,) = (list(suggestion.values()) for suggestion in asked)
    assert_alike(first, second)


def test_predictions_match_the_strategy():
    """On its own, with the same rows: no Client, no history."""
    client = client_of()
    for turn in range(4):
        play(client, 3.0 * turn)
    settings = settings_of(client)
    predicted = predict_now(client, settings[:4], {"hour": 11.0})
    space = TrialSpace(client._experiment.search_space, "hour")
    X = torch.tensor([space.place(item) for item in settings], dtype=torch.float64)
    strategy = adaptive_gp_ucb(maximize=False)
    corners = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, space.columns)
    state = strategy.init(Box(corners, search=MixedSearch(space)))
    for x, item in zip(X, settings):
        made = strategy.suggestion_at(state, x, now=item["hour"])
        state, _ = strategy.tell(state, made, cost(item))
    posterior = strategy.posterior(state, X[:4], now=11.0)
    for item, mean, variance in zip(predicted, posterior.mean, posterior.variance):
        assert item["cost"] == pytest.approx((mean.item(), variance.item() ** 0.5), rel=1e-9)
    setting, values, index, name = best_now(client, {"hour": 11.0})
    assert setting["hour"] == 11.0
    assert client._experiment.trials[index].arm.name == name
    everywhere = predict_now(client, settings, {"hour": 11.0})
    assert values["cost"][0] == min(outcome["cost"][0] for outcome in everywhere)


def test_points_and_places_are_the_same_thing():
    space = TrialSpace(client_of()._experiment.search_space, "hour")
    assert space.columns == 1 + 1 + 2 + 1
    middle = {"rate": 1e-2, "layers": 6, "salt": "rock", "size": 2.0}
    place = space.place(middle | {"hour": 3.0})
    assert place[:2] == pytest.approx((0.5, 1.0))
    assert place[-1] == 0.5  # the second of three in an order
    assert space.parameterization(torch.tensor(place, dtype=torch.float64)) == pytest.approx(middle)
    salts = [space.place(middle | {"salt": salt})[2:4] for salt in SALTS]
    for item in range(3):
        for other in range(item):
            assert math.dist(salts[item], salts[other]) == pytest.approx(1)


def test_running_trials_and_repeated_failures_are_avoided():
    client = client_of(LINE, objective="y", initialization_trials=4)
    for hour, x in enumerate((0.0, 0.3, 0.6, 0.9, 0.45)):
        index = client.attach_trial(parameters={"hour": float(hour), "x": x})
        client.complete_trial(index, {"y": -((x - 0.5) ** 2)})
    ((alone, first),) = client.get_next_trials(1, fixed_parameters={"hour": 5.0}).items()
    ((_, second),) = client.get_next_trials(1, fixed_parameters={"hour": 5.0}).items()
    assert abs(first["x"] - second["x"]) > 0.01
    client.mark_trial_failed(alone)
    for hour in range(5, 15):
        ((last, now),) = client.get_next_trials(1, fixed_parameters={"hour": float(hour)}).items()
        if abs(now["x"] - first["x"]) < 0.05:
            client.mark_trial_failed(last)
        else:
            client.complete_trial(last, {"y": -((now["x"] - 0.5) ** 2)})
    ((_, third),) = client.get_next_trials(1, fixed_parameters={"hour": 15.0}).items()
    assert abs(first["x"] - third["x"]) > 0.04
    best, *_ = best_now(client, {"hour": 15.0})
    assert abs(best["x"] - first["x"]) > 0.04


def test_trials_out_of_the_search_space_are_dropped():
    """They counted as if they had been at the edge."""
    clients = [client_of(MIXED[:2], initialization_trials=3) for _ in range(2)]
    for client in clients:
        for hour, rate in enumerate([1e-4, 1e-2, 1.0, 0.1]):
            index = client.attach_trial(parameters={"hour": float(hour), "rate": rate})
            client.complete_trial(index, {"cost": (math.log10(rate) + 2) ** 2})
    within, beyond = clients
    index = beyond.attach_trial(parameters={"hour": 3.5, "rate": 50.0})
    beyond.complete_trial(index, {"cost": -100.0})
    with pytest.warns(InputDataWarning, match="drops trial 4: .*50.0.*out of the search space"):
        wanted = best_now(beyond, {"hour": 4.0})
    assert wanted == best_now(within, {"hour": 4.0})


def test_the_best_of_several_nodes_and_of_failures_alone():
    client = client_of(LINE, objective="y", initialization_trials=4)
    first = time_varying_generation_strategy("hour")._nodes
    both = GenerationStrategy(name="Both", nodes=[*first, AdaptiveNode("hour")])
    client.set_generation_strategy(both)
    for hour in range(6):
        ((index, now),) = client.get_next_trials(1, fixed_parameters={"hour": float(hour)}).items()
        client.complete_trial(index, {"y": now["x"]})
    assert best_now(client, {"hour": 6.0})[0]["hour"] == 6.0
    client.set_generation_strategy(adaptive_generation_strategy("hour"))
    for hour in range(6, 36):
        client.mark_trial_failed(client.attach_trial({"hour": float(hour), "x": hour % 6 / 5}))
    with pytest.raises(UserInputError, match="more likely to fail than to succeed"):
        best_now(client, {"hour": 36.0})


def test_no_setting_is_best_for_one_lucky_trial():
    client = client_of(LINE, objective="y")
    rows = [(n / 6, 10 * math.exp(-(((n / 6 - 0.75) / 0.2) ** 2))) for n in range(7)]
    for hour, (x, y) in enumerate([*rows, (0.2, 11.0), (0.2, 11.0)]):
        client.complete_trial(client.attach_trial({"hour": float(hour), "x": x}), {"y": y})
        if hour > 6:
            best = best_now(client, {"hour": 9.0})[0]["x"]
            assert best == pytest.approx([4 / 6, 0.2][hour - 7], abs=0.01)


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        (None, r"has \[\], .* give fixed_parameters=.'hour': now"),
        ({"hour": 2000.0}, r"at 2000\.0, but its bounds are \(0\.0, 1000"),
        ({"hour": 1.0, "layers": 2}, r"has \['hour', 'layers'\], but the"),
    ],
)
def test_fixed_parameters_must_be_the_time(fixed, message):
    client = client_of()
    with pytest.raises(UserInputError, match=message):
        client.get_next_trials(1, fixed_parameters=fixed)
    assert not client._experiment.trials


def test_too_few_trials_and_times_before():
    client = client_of()
    play(client, 5.0)
    with pytest.raises(UserInputError, match="3 trials are measured, but the model needs"):
        best_now(client, {"hour": 6.0})
    for _ in range(2):
        play(client, 5.0)
    with pytest.raises(InputDataError, match=r"4\.0 as now lies before .* at 5\.0"):
        best_now(client, {"hour": 4.0})
    assert best_now(client, {"hour": 5.0})[0]["hour"] == 5.0


@pytest.mark.parametrize(
    ("objective", "outcomes", "parameters", "message"),
    [
        ("a, b", None, None, "takes one outcome and no constraint"),
        ("a + 2*b", None, None, "takes one outcome and no constraint"),
        ("-cost", ["heat <= 3"], None, "use time_varying_generation_strategy"),
        ("-cost", None, ["rate + x <= 9"], "supports no parameter constraints; use time_vary"),
    ],
)
def test_unsupported_problems(objective, outcomes, parameters, message):
    client = Client()
    sides = [
        RangeParameterConfig(name=n, parameter_type="float", bounds=(0, 9)) for n in ("rate", "x")
    ]
    client.configure_experiment([MIXED[0], *sides], parameter_constraints=parameters)
    client.configure_optimization(objective=objective, outcome_constraints=outcomes)
    client.set_generation_strategy(adaptive_generation_strategy("hour"))
    with pytest.raises(UnsupportedError, match=message):
        client.get_next_trials(1, fixed_parameters={"hour": 1.0})
