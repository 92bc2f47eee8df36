"""Loops of Ax's Client on objectives that drift."""

import numpy as np
import pytest
import torch

pytest.importorskip("ax.api.client")

from botorch_tv.acquisition import WGPUCB, Constant, DoublyWeighted, Logarithmic, Realized
from botorch_tv.ax import complete_trial_at
from botorch_tv.forgetting import ExponentialWeights, Markov
from botorch_tv.models import TimeVaryingGP
from botorch_tv.test_functions import DriftingBranin

TIMES = [0.0, 1.5, 2.0, 7.25, 8.0, 20.0, 21.0, 30.5, 31.0, 40.0]


def branin(make, objective):
    from ax.api.configs import RangeParameterConfig

    bounds = {"x1": (-5.0, 10.0), "x2": (0.0, 15.0), "t": (0.0, 100.0)}
    parameters = [
        RangeParameterConfig(name=name, parameter_type="float", bounds=bound)
        for name, bound in bounds.items()
    ]
    return make(
        objective=objective,
        parameters=parameters,
        initialization_trials=7,
        forgetting=Markov(epsilon=0.03),
        width=Logarithmic(),
    )


def test_ten_trials_on_a_drifting_function_either_way_up(experiment, ask, model_of):
    problem = DriftingBranin()
    lowest, highest = branin(experiment, "-y"), branin(experiment, "y")
    for now in TIMES:
        index, chosen = ask(lowest, now)
        assert chosen["t"] == now
        if now == TIMES[-1]:
            break
        X = torch.tensor([[chosen["x1"], chosen["x2"], now]], dtype=torch.float64)
        value = problem.evaluate_true(X).item()
        lowest.complete_trial(index, {"y": value})
        highest.complete_trial(highest.attach_trial(parameters=chosen), {"y": -value})
    model = model_of(lowest)
    assert type(model) is TimeVaryingGP
    assert model.now == TIMES[-1]
    assert model.train_inputs[0][:, model.time_dim].tolist() == TIMES[:-1]
    # The mirror image of a problem has the same best setting; only rounding tells them apart.
    _, mirrored = ask(highest, TIMES[-1])
    assert mirrored == pytest.approx(chosen, abs=0.02)


@pytest.mark.parametrize(("objective", "best"), [("y", 0.4), ("-y", -0.6)])
def test_the_best_setting_of_today_is_asked_for(experiment, ask, tell, objective, best):
    # A ridge that was elsewhere in the past: its memory would mislead a model without time.
    past = [(t, x, -((x + best) ** 2)) for t, x in zip(range(5), np.linspace(-1, 1, 5))]
    today = [(90 + i, x, -((x - best) ** 2)) for i, x in enumerate(np.linspace(-1, 1, 6))]
    sign = 1 if objective == "y" else -1
    client = experiment(objective=objective, forgetting=Markov(0.2), width=Constant(0.0))
    tell(client, [(t, x, sign * y) for t, x, y in past + today])
    _, chosen = ask(client, 97.0)
    assert chosen["x"] == pytest.approx(best, abs=0.1)


def test_observations_are_compared_as_they_would_be_now(experiment, ask, tell, acquisition_of):
    client = tell(experiment(), [(t, 0.1 * t, -t) for t in range(4)] + [(5, 0.3, 1.0)])
    ask(client, 9.0)
    baseline = acquisition_of(client).X_baseline
    assert (baseline[:, 0] == 9.0).all()
    # x = 0.3 was measured twice and counts once.
    assert sorted(baseline[:, 1].tolist()) == sorted(set(baseline[:, 1].tolist()))


def test_beta_is_that_of_the_width(experiment, ask, tell, acquisition_of):
    client = tell(experiment(width=Logarithmic(c1=0.8, c2=4.0)), [(t, t / 5, -t) for t in range(5)])
    ask(client, 9.0)
    assert acquisition_of(client).beta.item() == pytest.approx(0.8 * np.log(4.0 * 6))


@pytest.mark.parametrize("double", [False, True])
def test_gains_in_a_width_are_those_of_the_data_now(
    experiment, ask, tell, model_of, acquisition_of, double
):
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


def test_an_outcome_that_was_not_always_measured(experiment, ask, model_of):
    client = experiment(objective="y", constraints=["z <= 0.5"], forgetting=Markov(0.1))
    for t, x in [(0.0, -0.5), (1.0, 0.4), (3.0, 0.9), (4.0, 0.0)]:
        index = client.attach_trial(parameters={"t": t, "x": x})
        client.complete_trial(index, {"y": x} if t == 1.0 else {"y": x, "z": x})
    ask(client, 6.0)
    assert ask(client, 7.0)[1]["t"] == 7.0  # the trial at 6 is pending
    each = model_of(client).models
    assert [len(model.train_targets) for model in each] == [4, 3]
    assert [model.now.item() for model in each] == [7.0, 7.0]


@pytest.mark.parametrize("width", [None, Constant(4.0)], ids=["qLogNEI", "UCB"])
def test_pending_suggestions_keep_their_distance(experiment, tell, width):
    rows = [(t, x, -(x**2)) for t, x in enumerate(np.linspace(-1, 1, 5))]
    client = tell(experiment(width=width, forgetting=Markov(0.1)), rows)
    trials = client.get_next_trials(max_trials=3, fixed_parameters={"t": 5.0})
    xs = np.sort([chosen["x"] for chosen in trials.values()])
    assert len(trials) == 3
    assert np.diff(xs).min() > 0.02


def test_a_measurement_made_later_counts_at_its_own_time(experiment, ask, tell, model_of):
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


def test_observations_age_until_now(experiment, ask, tell, model_of):
    options = {"forgetting": ExponentialWeights(gamma=0.9), "learn_forgetting": False}
    client = tell(experiment(**options), [(t, t / 5, (-1) ** t) for t in (0, 1, 2, 5)])
    ask(client, 20.0)
    model = model_of(client)
    ages = 20.0 - np.array([0, 1, 2, 5])
    noise = model.likelihood.noise.item() * 0.9**-ages
    np.testing.assert_allclose(model.likelihood.noise_covar.of_training().detach(), noise)
