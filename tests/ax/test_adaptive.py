"""The strategy that is wanted nothing, asked and wanted through Ax's Client."""

import math
import operator
import random
from datetime import datetime, timedelta

import pytest
import torch

pytest.importorskip("ax.api.client")

from ax.api.client import Client
from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig
from ax.core.observation import ObservationFeatures
from ax.core.parameter import ParameterType, RangeParameter
from ax.core.utils import extract_pending_observations
from ax.exceptions.core import UnsupportedError, UserInputError
from ax.generation_strategy.generation_strategy import GenerationStrategy
from botorch.exceptions import InputDataError, InputDataWarning

from botorch_tv.ax import (
    AdaptiveNode,
    adaptive_generation_strategy,
    best_parameterization_now,
    pareto_frontier_now,
    predict_now,
    time_varying_generation_strategy,
)
from botorch_tv.ax.adaptive import TrialSpace
from botorch_tv.ax.surrogate import dropped
from botorch_tv.loop.log import Censored
from botorch_tv.strategies import Box, Outcomes, adaptive_gp_ucb
from botorch_tv.strategies.expressions import parse_limits, parse_objectives
from botorch_tv.strategies.feasible import Success
from botorch_tv.strategies.mixed_search import MixedSearch

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
HOURS = RangeParameterConfig(name="hour", parameter_type="float", bounds=(0.0, 1e12))
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


def test_parameter_constraints_are_kept():
    """Evenly spread points, and chosen points."""
    sides = [
        RangeParameterConfig(name=name, parameter_type="float", bounds=(0.0, 4.0))
        for name in ("a", "b")
    ]
    client = Client(random_seed=0)
    client.configure_experiment(
        [MIXED[0], *sides], parameter_constraints=["a + 2 * b <= 3", "b >= a"]
    )
    client.configure_optimization(objective="y")
    client.set_generation_strategy(adaptive_generation_strategy("hour"))
    for now in range(9):
        for number, at in client.get_next_trials(1, fixed_parameters={"hour": now}).items():
            assert at["a"] + 2 * at["b"] <= 3 + 1e-9
            assert at["b"] >= at["a"] - 1e-9
            client.complete_trial(number, {"y": at["a"] + at["b"]})
    assert at["a"] + 2 * at["b"] == pytest.approx(3, abs=0.01)


def play(client, now, fail=()):
    trials = client.get_next_trials(max_trials=3, fixed_parameters={"hour": now})
    for index, item in trials.items():
        if index in fail:
            client.mark_trial_failed(index)
        else:
            client.complete_trial(index, {"cost": cost(item)})
    return trials


@pytest.mark.full
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
        best_parameterization_now(each, {"hour": 12.0}) for each in (client, again)
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
    best = best_parameterization_now(turned, {"hour": 6.0})[0]["rate"]
    assert best == 1e-2
    turned.configure_optimization(objective="-y")
    asked = [item.get_next_trials(1, fixed_parameters={"hour": 6.0}) for item in (turned, wanted)]
    (first,), (second,) = (list(suggestion.values()) for suggestion in asked)
    assert_alike(first, second)


@pytest.mark.full
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
    setting, values, index, name = best_parameterization_now(client, {"hour": 11.0})
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


@pytest.mark.full
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
    best, *_ = best_parameterization_now(client, {"hour": 15.0})
    assert abs(best["x"] - first["x"]) > 0.04


@pytest.mark.parametrize("rate", [0.0, 2.0])
def test_trials_out_of_the_search_space_count_where_they_were_made(rate):
    """They counted as if they had been at the edge. A zero has no place on a logarithmic scale."""
    clients = [client_of(MIXED[:2], initialization_trials=3) for _ in range(2)]
    for client in clients:
        for hour, x in enumerate([1e-4, 1e-2, 1.0, 0.1]):
            index = client.attach_trial(parameters={"hour": float(hour), "rate": x})
            client.complete_trial(index, {"cost": (math.log10(x) + 2) ** 2})
    within, beyond = clients
    for hour in (3.5, 3.7):
        index = beyond.attach_trial(parameters={"hour": hour, "rate": rate})
        beyond.complete_trial(index, {"cost": -0.5})
    if rate:
        space = TrialSpace(beyond._experiment.search_space, "hour")
        assert space.place({"rate": 2.0}) == pytest.approx((1 + math.log10(2) / 4,))
        edge = [predict_now(each, [{"rate": 1.0}], {"hour": 4.0})[0]["cost"] for each in clients]
        assert edge[1][0] < edge[0][0] - 0.3
        assert best_parameterization_now(beyond, {"hour": 4.0})[0]["rate"] <= 1.0
    else:
        with pytest.warns(InputDataWarning, match=r"drops trial 4: .*0\.0.*has no place"):
            wanted = best_parameterization_now(beyond, {"hour": 4.0})
        assert wanted == best_parameterization_now(within, {"hour": 4.0})


def early(client, setting):
    index = client.attach_trial(setting)
    client.attach_data(index, {"y": 7.0}, progression=1)
    client.mark_trial_early_stopped(index)


@pytest.mark.full
@pytest.mark.parametrize("objective", ["y", "-y"])
def test_early_stopped_trials_are_bounds(objective):
    """At any number; the first has no earlier values, so it is dropped."""
    client = client_of(LINE, objective=objective, initialization_trials=4)
    early(client, {"hour": 0.0, "x": 0.5})
    for hour, x in enumerate((0.1, 0.3, 0.6, 0.9, 0.4), start=1):
        index = client.attach_trial(parameters={"hour": float(hour), "x": x})
        client.complete_trial(index, {"y": float(hour)})
    for number in range(20):
        early(client, {"hour": 5.5, "x": 0.7 + 0.01 * number})
    client.get_next_trials(1, fixed_parameters={"hour": 6.0})
    log, _ = client._generation_strategy._nodes[0]._model
    bounds = [row for row in log.answers if isinstance(row, Censored)]
    assert [row.y for row in bounds] == [3.0] * 20
    assert log.strategy.maximize == (objective == "y")
    assert log.state.rounds == 25


@pytest.mark.full
def test_the_best_of_several_nodes_and_of_failures_alone():
    client = client_of(LINE, objective="y", initialization_trials=4)
    first = time_varying_generation_strategy("hour")._nodes
    both = GenerationStrategy(name="Both", nodes=[*first, AdaptiveNode("hour")])
    client.set_generation_strategy(both)
    for hour in range(6):
        ((index, now),) = client.get_next_trials(1, fixed_parameters={"hour": float(hour)}).items()
        client.complete_trial(index, {"y": now["x"]})
    assert best_parameterization_now(client, {"hour": 6.0})[0]["hour"] == 6.0
    client.set_generation_strategy(adaptive_generation_strategy("hour"))
    for hour in range(6, 36):
        client.mark_trial_failed(client.attach_trial({"hour": float(hour), "x": hour % 6 / 5}))
    with pytest.raises(UserInputError, match="more likely to fail than to succeed"):
        best_parameterization_now(client, {"hour": 36.0})


def test_no_setting_is_best_for_one_lucky_trial():
    client = client_of(LINE, objective="y")
    rows = [(n / 6, 10 * math.exp(-(((n / 6 - 0.75) / 0.2) ** 2))) for n in range(7)]
    for hour, (x, y) in enumerate([*rows, (0.2, 11.0), (0.2, 11.0)]):
        client.complete_trial(client.attach_trial({"hour": float(hour), "x": x}), {"y": y})
        if hour > 6:
            best = best_parameterization_now(client, {"hour": 9.0})[0]["x"]
            assert best == pytest.approx([4 / 6, 0.2][hour - 7], abs=0.01)


@pytest.mark.parametrize(
    ("fixed", "message"),
    [
        (None, r"has \[\], .* give fixed_parameters=.'hour': now"),
        ({"layers": 2}, r"has \['layers'\], .* give fixed_parameters=.'hour': now"),
        ({"hour": 2000.0}, r"at 2000\.0, but its bounds are \(0\.0, 1000"),
        (
            {"hour": 1.0, "layers": 7},
            "7 is not a valid value for .*layers",
        ),
        ({"hour": 1.0, "layer": 2}, r"has \['hour', 'layer'\], .* may hold parameters of"),
    ],
)
def test_fixed_parameters_are_the_time_and_values_in_the_search_space(fixed, message):
    client = client_of()
    with pytest.raises((UserInputError, ValueError), match=message):
        client.get_next_trials(1, fixed_parameters=fixed)
    assert not client._experiment.trials


@pytest.mark.full
def test_too_few_trials_and_times_before():
    client = client_of()
    play(client, 5.0)
    with pytest.raises(UserInputError, match="3 trials are measured, but the model needs"):
        best_parameterization_now(client, {"hour": 6.0})
    for _ in range(2):
        play(client, 5.0)
    with pytest.raises(InputDataError, match=r"4\.0 as now lies before .* at 5\.0"):
        best_parameterization_now(client, {"hour": 4.0})
    assert best_parameterization_now(client, {"hour": 5.0})[0]["hour"] == 5.0


@pytest.mark.parametrize(
    ("objective", "outcomes", "parameters", "message"),
    [
        ("-cost", ["heat <= 0.9 * baseline"], None, "is relative to a baseline, .* give a number"),
        ("-cost", None, ["hour + x <= 9"], "involves the time 'hour' or .* use time_vary"),
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


ROWS = [  # the heat of one trial was not measured, and one trial failed
    {"hour": float(hour), "x": x, "y": 3 - (x - 0.9) ** 2, "heat": 2 * x + 0.1 * hour}
    for hour, x in enumerate((0.0, 0.3, 0.6, 0.9, 0.45, 0.2))
]
del ROWS[2]["heat"], ROWS[4]["y"], ROWS[4]["heat"]


def attached(client, rows=ROWS):
    for row in rows:
        index = client.attach_trial({"hour": row["hour"], "x": row["x"]})
        values = {name: value for name, value in row.items() if name in ("y", "heat")}
        if values:
            client.complete_trial(index, values)
        else:
            client.mark_trial_failed(index)
    return client


def replayed(client, strategy):
    """The strategy's state after the rows, without Ax."""
    space = TrialSpace(client._experiment.search_space, "hour")
    corners = torch.tensor([[0.0], [1.0]], dtype=torch.float64).expand(2, space.columns)
    state = strategy.init(Box(corners, search=MixedSearch(space)))
    for row in ROWS:
        made = strategy.suggestion_at(state, torch.tensor([row["x"]]).double(), now=row["hour"])
        y = [row.get(name, math.nan) for name in strategy.names]
        ok = torch.tensor("y" in row or "heat" in row)
        state, _ = strategy.tell(state, made, y, ok=ok)
    return state


@pytest.mark.parametrize(
    ("objective", "limits"),
    [("y", ["heat <= 1.5"]), ("y - 0.5*heat", []), ("y, -heat", [])],
)
def test_outcomes_equal_the_strategy_on_its_own(objective, limits):
    """One failure, and a missing outcome."""
    client = client_of(LINE, objective=objective, initialization_trials=4)
    client.configure_optimization(objective=objective, outcome_constraints=limits or None)
    ((_, first),) = attached(client).get_next_trials(1, fixed_parameters={"hour": 6.0}).items()
    parts = {"names": ("y", "heat"), "limits": parse_limits(limits) if limits else ()}
    strategy = Outcomes(**parts, objectives=parse_objectives(objective))
    state, source = replayed(client, strategy), torch.Generator().manual_seed(len(ROWS))
    X, time = torch.tensor([[[row["x"]] for row in ROWS]]).double(), [row["hour"] for row in ROWS]
    ok = torch.tensor([["y" in row for row in ROWS]])
    success = Success(
        X, ok, torch.tensor([time]).double(), state.domain.bounds, torch.tensor([6.0]).double()
    )
    wanted = strategy.ask(state, now=6.0, feasible=success, generator=source)
    assert first["x"] == pytest.approx(float(wanted.X), abs=1e-5)
    (found,) = predict_now(client, [{"x": 0.5}], {"hour": 6.0})
    for text, (mean, sd) in found.items():
        member, own = strategy.member(state, text)
        posterior = member.posterior(own, torch.tensor([[0.5]]).double(), now=6.0)
        assert (mean, sd) == pytest.approx(
            (float(posterior.mean), float(posterior.variance) ** 0.5)
        )
    assert len(found) == len(strategy.expressions)


def test_the_best_setting_keeps_the_constraints():
    client = client_of(LINE, objective="y", initialization_trials=4)
    assert best_parameterization_now(attached(client), {"hour": 6.0})[0]["x"] == 0.9
    client.configure_optimization(objective="y", outcome_constraints=["heat <= 1"])
    best, predicted, *_ = best_parameterization_now(client, {"hour": 6.0})
    assert best["x"] == 0.3
    assert predicted["heat"][0] < 1
    early(client, {"hour": 6.0, "x": 0.3})
    best_parameterization_now(client, {"hour": 7.0})
    state = client._generation_strategy._nodes[0]._model[0].state
    noise = [own.history.noise.tensor()[-1].isfinite() for own in state.members]
    assert noise == [True, False]  # the bound is on the objective


@pytest.mark.parametrize("made", [adaptive_generation_strategy, time_varying_generation_strategy])
def test_several_objectives_have_a_frontier(made):
    client = client_of(LINE, objective="y, -heat")
    client.set_generation_strategy(made("hour", initialization_trials=4))
    rows = [row for row in ROWS if "y" in row and "heat" in row]
    found = pareto_frontier_now(attached(client, rows), {"hour": 6.0})
    predicted = predict_now(client, [{"x": row["x"]} for row in rows], {"hour": 6.0})
    values = [(outcome["y"][0], -outcome["heat"][0]) for outcome in predicted]
    wanted = {
        row["x"]
        for row, own in zip(rows, values)
        if not any(all(map(operator.ge, other, own)) and other != own for other in values)
    }
    assert {setting["x"] for setting, *_ in found} == wanted
    assert 1 < len(wanted) < len(rows) or made is time_varying_generation_strategy


def test_parameters_are_held():
    """In turn, before and after the first use of the model; all trials are of one model."""
    client = client_of(initialization_trials=3)
    for hour in range(8):
        held = {"salt": SALTS[hour % 3], "size": 4.0, "rate": 0.1} if hour % 2 else {"layers": 2}
        now = {"hour": float(hour)}
        ((index, first),) = client.get_next_trials(1, fixed_parameters=now | held).items()
        assert first == first | held | now
        client.complete_trial(index, {"cost": cost(first)})
    space = client._generation_strategy._nodes[0]._model[1]
    assert space.columns == 5
    ((_, free),) = client.get_next_trials(1, fixed_parameters={"hour": 8.0}).items()
    assert free["rate"] != 0.1


def test_trials_completed_with_nan_have_failed():
    clients = [client_of(LINE, objective="y", initialization_trials=4) for _ in range(2)]
    for hour, x in enumerate((0.0, 0.3, 0.6, 0.9, 0.45, 0.5, 0.52, 0.48)):
        for failed, client in enumerate(clients):
            index = client.attach_trial(parameters={"hour": float(hour), "x": x})
            if hour < 5:
                client.complete_trial(index, {"y": -((x - 0.5) ** 2)})
            elif failed:
                client.mark_trial_failed(index)
            else:
                client.complete_trial(index, {"y": (math.nan, math.inf)[hour % 2]})
    asked = [client.get_next_trials(1, fixed_parameters={"hour": 9.0}) for client in clients]
    assert asked[0] == asked[1]
    assert abs(asked[0][8]["x"] - 0.5) > 0.02
    best, other = (best_parameterization_now(client, {"hour": 9.0}) for client in clients)
    assert best[0] == other[0]
    assert best[1]["y"] == pytest.approx(other[1]["y"], rel=1e-12)


@pytest.mark.parametrize("objective", ["y", "y, -cost"])
def test_a_standard_error_is_the_noise_of_its_measurement(objective):
    """A reading with a great error counts as if it had not been made."""
    found = []
    for last in (None, (1.0, 1e4), (1.0, 1e-3)):
        client = client_of(LINE, objective=objective)
        for hour in range(8 if last else 7):
            index = client.attach_trial(parameters={"hour": float(hour), "x": hour / 8})
            others = {"cost": hour / 8} if "cost" in objective else {}
            client.complete_trial(index, {"y": math.sin(hour) if hour < 7 else last} | others)
        client.get_next_trials(1, fixed_parameters={"hour": 9.0})
        found.append(predict_now(client, [{"x": 7 / 8}], {"hour": 9.0})[0]["y"][0])
    without, vague, exact = found
    assert vague == pytest.approx(without, abs=1e-3)
    assert exact > without + 0.1


def trials_of(client, ages):
    """Trials that began an hour apart and took some minutes; None for those that run."""
    for minutes in ages:
        trials = client.get_next_trials(1, fixed_parameters={"hour": 5.0})
        ((index, _),) = trials.items()
        trial = client._experiment.trials[index]
        if minutes is not None:
            client.complete_trial(index, {"y": 0.0})
            trial._time_run_started = trial.time_completed - timedelta(minutes=minutes)
    return client._experiment.trials[index]


@pytest.mark.parametrize(
    ("lost_after", "durations", "lost", "waits"),
    [
        (None, [2, 3, 30], 31, 29),
        (None, [0.001, 0.001, 30], 1.1, 0.9),
        (None, [], None, 10**6),
        (timedelta(hours=5), [2, 3, 30], 301, 299),
    ],
)
def test_a_running_trial_is_lost(lost_after, durations, lost, waits):
    client = client_of(LINE, objective="y", lost_after=lost_after)
    attached = client.attach_trial({"hour": 0.0, "x": 0.5})  # its duration does not count
    client.complete_trial(attached, {"y": 0.0})
    last = trials_of(client, [*durations, None])
    for minutes, expected in ((lost, {last.index}), (waits, set())):
        if minutes is not None:
            last._time_run_started = datetime.now() - timedelta(minutes=minutes)
            assert dropped(client._experiment, lost_after) == expected


def test_lost_and_abandoned_trials_block_no_place():
    clients = [client_of(LINE, objective="y", initialization_trials=4) for _ in range(2)]
    for hour, x in enumerate((0.0, 0.3, 0.6, 0.9, 0.45)):
        for client in clients:
            index = client.attach_trial(parameters={"hour": float(hour), "x": x})
            client.complete_trial(index, {"y": -((x - 0.5) ** 2)})
    lost = client.attach_trial(parameters={"hour": 5.0, "x": 0.5})
    client._experiment.trials[lost]._time_run_started -= timedelta(days=1)
    client.mark_trial_abandoned(client.attach_trial(parameters={"hour": 5.0, "x": 0.55}))
    clients[1].set_generation_strategy(
        adaptive_generation_strategy("hour", 4, lost_after=timedelta(hours=1))
    )
    asked = [client.get_next_trials(1, fixed_parameters={"hour": 6.0}) for client in clients]
    assert [*asked[0].values()] == [*asked[1].values()]


def changed(client, chance):
    """Change the search space at random."""
    space = client._experiment.search_space
    own = space.parameters
    low, high = sorted(chance.uniform(0.0, 1.0) for _ in range(2))
    kind = chance.choice(["rate", "layers", "salt", "add", "disable"])
    if kind == "rate":
        own["rate"].update_range(lower=10 ** (-4 + low), upper=10 ** (-1 + 2 * high))
    elif kind == "layers":
        own["layers"].update_range(lower=1 + chance.randrange(3), upper=5 + chance.randrange(4))
    elif kind == "salt":
        own["salt"].set_values(chance.sample([*SALTS, "mud", "clay"], 3))
    elif kind == "add" and "extra" not in own:
        extra = RangeParameter("extra", ParameterType.FLOAT, 0.0, 2.0, backfill_value=1.0)
        client._experiment.add_parameters_to_search_space([extra])
    elif kind == "disable":
        client._experiment.disable_parameters_in_search_space({"size": 2.0})


@pytest.mark.full
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
def test_random_histories_with_changes_of_the_space_and_pauses(seed):
    """The suggestion equals that of a new strategy, and lies in the present space."""
    chance, now = random.Random(seed), 0.0
    client = client_of([HOURS, *MIXED[1:]], initialization_trials=3)
    experiment = client._experiment
    for turn in range(12):
        now += chance.choice([0.0, 1.0, 2.0, 1e9]) if turn else 0.0
        held = {"layers": 5} if chance.random() < 0.3 else {}
        asked = {"hour": now} | held
        if turn > 9:
            pending = extract_pending_observations(experiment)
            fixed = ObservationFeatures(parameters=dict(asked))
            node = AdaptiveNode("hour", 3)
            node._fit(experiment)
            fresh = node._gen(experiment, fixed_features=fixed, pending_observations=pending)
        ((index, first),) = client.get_next_trials(1, fixed_parameters=asked).items()
        if turn > 9:
            assert fresh.arms[0].parameters == first
        assert experiment.search_space.check_membership(first)
        assert first == first | held
        if experiment.search_space.parameters["size"].is_disabled:
            assert first["size"] == 2.0
        end = chance.random()
        if end < 0.7:
            client.complete_trial(index, {"cost": cost(first) if end < 0.6 else math.nan})
        elif end < 0.8:
            client.mark_trial_failed(index)
        elif end < 0.9:
            client.mark_trial_abandoned(index)
        if chance.random() < 0.4:
            changed(client, chance)


@pytest.mark.full
def test_a_range_that_was_widened_and_a_parameter_that_was_added():
    """Predictions are those of a client that had them from the beginning."""
    clients = [client_of(MIXED[:2], initialization_trials=3) for _ in range(2)]
    wide = clients[1]._experiment
    wide.search_space.parameters["rate"].update_range(lower=1e-5, upper=1.0)
    extra = RangeParameter("extra", ParameterType.FLOAT, 0.0, 2.0, backfill_value=0.5)
    wide.add_parameters_to_search_space([extra])
    for hour, rate in enumerate([1e-4, 1e-2, 1.0, 0.1, 0.03]):
        for client in clients:
            more = {"extra": 0.5} if client is clients[1] else {}
            index = client.attach_trial({"hour": float(hour), "rate": rate, **more})
            client.complete_trial(index, {"cost": (math.log10(rate) + 2) ** 2})
    before = best_parameterization_now(clients[0], {"hour": 6.0})
    experiment = clients[0]._experiment
    experiment.search_space.parameters["rate"].update_range(lower=1e-5, upper=1.0)
    experiment.add_parameters_to_search_space([extra.clone()])
    points = [{"rate": rate, "extra": more} for rate, more in [(1e-5, 0.5), (0.2, 1.9)]]
    ours, theirs = (predict_now(client, points, {"hour": 6.0}) for client in clients)
    assert ours == theirs
    best, values, index, _ = best_parameterization_now(clients[0], {"hour": 6.0})
    assert (best, index) == (before[0] | {"extra": 0.5}, before[2])
    assert values != before[1]


@pytest.mark.filterwarnings("ignore::botorch.exceptions.InputDataWarning")
def test_an_added_choice_is_tried_soon():
    client = client_of([MIXED[0], MIXED[1], MIXED[3]], initialization_trials=3)
    for hour in range(12):
        setting = {"hour": float(hour), "rate": 10 ** (-hour / 3), "salt": SALTS[hour % 3]}
        index = client.attach_trial(setting)
        client.complete_trial(index, {"cost": (setting["salt"] != "sea") + 0.1 * (hour % 5)})
    client._experiment.search_space.parameters["salt"].set_values([*SALTS[:2], "mud"])
    tried = []
    for hour in range(12, 16):
        ((index, first),) = client.get_next_trials(1, fixed_parameters={"hour": hour}).items()
        client.complete_trial(index, {"cost": float(first["salt"] != "sea")})
        tried.append(first["salt"])
    assert "mud" in tried
    assert "rock" not in tried
    assert len(client._generation_strategy._nodes[0]._model[0].answers) >= 8 + 3


@pytest.mark.parametrize("rows", [0, 6])
def test_open_suggestions_of_a_finite_space_differ(rows):
    whole = RangeParameterConfig(name="n", parameter_type="int", bounds=(1, 3))
    client = client_of([HOURS, whole], objective="y", initialization_trials=3)
    for hour in range(rows):
        index = client.attach_trial({"hour": float(hour), "n": hour % 3 + 1})
        client.complete_trial(index, {"y": float(hour // 3)})
    trials = client.get_next_trials(3, fixed_parameters={"hour": 6.0}).values()
    assert sorted(trial["n"] for trial in trials) == [1, 2, 3]


def test_small_moves_in_batches_and_after_loading(tmp_path):
    """A held value moves as in a loop; an abandoned trial was not set."""
    client = client_of(max_step={"rate": 0.1, "layers": 1, "size": 1}, move_cost={"layers": 1})
    before = {"hour": 0.0, "rate": 0.3, "layers": 3, "salt": "sea", "size": 4.0}
    client.complete_trial(client.attach_trial(before), {"cost": 1.0})
    index = client.attach_trial(before | {"rate": 0.9, "layers": 6})
    client.mark_trial_abandoned(index)
    path = str(tmp_path / "experiment.json")
    for hour in (1.0, 2.0):
        for index, each in client.get_next_trials(3, fixed_parameters={"hour": hour}).items():
            assert abs(each["rate"] - before["rate"]) <= 0.1 * 1.0001
            assert abs(each["layers"] - before["layers"]) <= 1
            assert 0.5 <= each["size"] / before["size"] <= 2
            client.complete_trial(index, {"cost": cost(each)})
            before = each
        client.save_to_json_file(path)
        client = Client.load_from_json_file(path)
    far = {"hour": 3.0, "layers": (before["layers"] + 2) % 6 + 1}
    with pytest.raises(InputDataError, match=r"layers is held at ., but a limited step allows"):
        client.get_next_trials(1, fixed_parameters=far)


def test_functions_of_moves_are_not_saved(tmp_path):
    client = client_of(LINE, "y", move_cost=lambda here, there: abs(here["x"] - there["x"]))
    with pytest.raises(ValueError, match="a file has no functions; give move_cost numbers"):
        client.save_to_json_file(str(tmp_path / "experiment.json"))


@pytest.mark.parametrize("made", [adaptive_generation_strategy, time_varying_generation_strategy])
def test_unknown_arguments_and_durations(made):
    for wrong in (3, timedelta(0)):
        with pytest.raises(ValueError, match=r"lost_after is .*, but .* give timedelta\(hours=1\)"):
            made("hour", lost_after=wrong)
    with pytest.raises(TypeError, match="did you mean lost_after"):
        made("hour", lost_afer=None)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"safe": 1}, "safe is 1, but it must lie strictly between 0 and 1"),
        ({"max_step": {"x": -1}}, "step of x is -1, but"),
        ({"move_cost": -1}, "move_cost of x is -1, but"),
    ],
)
def test_wrong_words(words, message):
    with pytest.raises(ValueError, match=message):
        adaptive_generation_strategy("hour", **words)
