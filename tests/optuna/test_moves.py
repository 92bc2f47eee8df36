"""Small moves and safe settings in define-by-run studies; their meanings are those of a loop."""

import optuna
import pytest
from botorch.exceptions import InputDataError
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.trial import TrialState, create_trial

from botorch_tv import Float, Loop, gp_ucb
from botorch_tv.optuna import DriftSampler, best_now
from botorch_tv.simulation.rivals import unit_kernel

SPACE = {"x": FloatDistribution(0.0, 2.0), "n": FloatDistribution(1.0, 9.0)}
STEPS = {"x": 0.1, "n": 2.0}
GIVEN = gp_ucb(kernel=unit_kernel("se", 0.3), noise=0.01)


def study_of(*settings, given=GIVEN, state=TrialState.COMPLETE, **words):
    """A study whose trials had the given settings; the newest of them ended in ``state``."""
    sampler = DriftSampler(given, time_key="t", seed=0, **words)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    for t, params in enumerate(settings):
        last = t == len(settings) - 1
        good = not last or state == TrialState.COMPLETE
        space = {name: each for name, each in SPACE.items() if name in params}
        kinds = {"params": params, "distributions": space, "user_attrs": {"t": float(t)}}
        more = {"value": params["x"]} if good else {"state": state}
        study.add_trial(create_trial(**kinds, **more))
    return study


def started(study, number=50):
    trial = study.ask()
    trial.set_user_attr("t", number)
    return trial


def moved(trial, high=2.0):
    return {"x": trial.suggest_float("x", 0.0, high), "n": trial.suggest_float("n", 1.0, 9.0)}


def near(point, other):
    return all(abs(point[name] - other[name]) <= 1.0001 * STEPS[name] for name in STEPS)


FIRST = [{"x": 1.0 + t / 10, "n": 5.0} for t in range(3)]


def test_a_sampler_moves_as_a_loop():
    study = study_of(*FIRST, max_step=STEPS, move_cost={"n": 0.5}, n_startup_trials=1)
    loop = Loop(GIVEN, {"n": Float(1, 9), "x": Float(0, 2)}, max_step=STEPS, move_cost={"n": 0.5})
    for t, params in enumerate(FIRST):
        loop.observe(params, params["x"], time=t)
    assert moved(started(study)) == pytest.approx(loop.ask(now=50).point, abs=1e-4)


@pytest.mark.parametrize("state", [TrialState.COMPLETE, TrialState.FAIL, TrialState.PRUNED])
def test_steps_begin_at_the_newest_trial_however_it_ended(state):
    study = study_of(*FIRST, {"x": 0.3, "n": 8.0}, state=state, max_step=STEPS)
    assert near(moved(started(study)), {"x": 0.3, "n": 8.0})


def test_several_workers_move_in_a_chain():
    """Before any trial is complete, too; a trial of which some parameters are decided counts."""
    for settings in ((), FIRST):
        study, before = study_of(*settings, max_step=STEPS), None
        trials = [started(study) for _ in range(3)]
        for trial in trials:
            point = moved(trial)
            assert before is None or near(point, before)
            before = point
        half, other = started(study), started(study)
        x = half.suggest_float("x", 0.0, 2.0)
        assert near(moved(other), {**before, "x": x})


def test_the_users_own_points_are_not_restricted():
    study = study_of(*FIRST, max_step=STEPS)
    study.enqueue_trial({"x": 0.0})
    point = moved(started(study))
    assert point["x"] == 0.0
    assert abs(point["n"] - 5.0) <= 2.0
    assert near(moved(started(study)), point)


@pytest.mark.parametrize("high", [1.15, 4.0])
def test_steps_in_a_changed_range(high):
    x = moved(started(study_of(*FIRST, max_step=STEPS)), high)["x"]
    assert abs(x - FIRST[-1]["x"]) <= 0.1 * 1.0001


def test_a_range_beyond_the_largest_step_is_refused():
    with pytest.raises(InputDataError, match=r"within 0\.1 of 1\.2 .* larger step"):
        moved(started(study_of(*FIRST, max_step=STEPS)), 0.8)


def test_a_parameter_of_some_trials_has_steps_of_its_own():
    study = study_of(*FIRST, {"x": 0.5}, {"x": 0.6}, max_step=STEPS)
    assert near(moved(started(study)), {"x": 0.6, "n": 5.0})


def test_a_removed_category_leaves_the_steps():
    study = study_of(*FIRST, max_step=STEPS)
    kind = CategoricalDistribution(("a", "b", "c"))
    for t, last in enumerate("abc"):
        params = {"x": 0.4 + t / 10, "n": 5.0, "kind": last}
        more = {"user_attrs": {"t": 9.0 + t}, "value": 1.0}
        study.add_trial(create_trial(params=params, distributions=SPACE | {"kind": kind}, **more))
    trial = started(study)
    trial.suggest_categorical("kind", ["a", "b"])
    assert near(moved(trial), {"x": 0.6, "n": 5.0})


def test_another_process_moves_alike():
    found = [moved(started(study_of(*FIRST, max_step=STEPS))) for _ in range(2)]
    assert found[0] == found[1]


def test_a_cost_counts_in_recommendations():
    def cost(before, after):
        return 1e3 * abs(after["x"] - before["x"])

    words = {"n_startup_trials": 3}
    costs = study_of(*FIRST, {"x": 0.4, "n": 5.0}, move_cost=cost, **words)
    free = study_of(*FIRST, {"x": 0.4, "n": 5.0}, **words)
    assert best_now(costs).params["x"] == pytest.approx(0.4, abs=1e-6)
    assert best_now(free).params["x"] > 1


def test_names_that_no_trial_has_are_refused():
    for words in ({"max_step": {"x": 1, "m": 1}}, {"move_cost": {"m": 1}}):
        first = moved(started(study_of(**words)))  # which parameters there are is not known yet
        assert 0 <= first["x"] <= 2
        with pytest.raises((InputDataError, ValueError), match=r"'m'.* parameters"):
            moved(started(study_of(*FIRST, n_startup_trials=3, **words)))


def test_a_warning_if_nothing_is_safe():
    def limited(trial):
        return [1.0 + trial.params["x"]]

    study = study_of(given=None, safe=0.99, constraints_func=limited)
    for t in range(5):
        study.enqueue_trial({"x": 0.4 * t, "n": 5.0})
        trial = started(study, t)
        study.tell(trial, moved(trial)["x"])
    with pytest.warns(UserWarning, match="no setting is safe enough now"):
        moved(started(study))
