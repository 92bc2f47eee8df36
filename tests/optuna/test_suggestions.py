"""Suggestions against the formulas of the strategy, in any order of arrival."""

import math

import numpy as np
import optuna
import pytest
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution
from optuna.samplers import PartialFixedSampler
from optuna.trial import TrialState, create_trial
from scipy.stats import truncnorm

from botorch_tv.loop.log import OLDEST, RECENT, trial_answer, trial_log
from botorch_tv.optuna import DriftSampler, best_now
from botorch_tv.optuna.trials import StudySpace, bound

SPACE = {"c": CategoricalDistribution("abc"), "x": FloatDistribution(1.0, 3.0)}
EPSILON, NOISE, LENGTHSCALE = 0.1, 0.05, 0.3


def points(trials):
    """Categories by number, and x in the unit interval."""
    return np.array([["abc".index(c), (x - 1) / 2] for c, x in trials]).reshape(-1, 2)


def kernel(A, S, B, T):
    apart = (A[:, None, 1] - B[None, :, 1]) ** 2 + (A[:, None, 0] != B[None, :, 0])
    lag = np.abs(S[:, None] - T[None, :])
    return np.exp(-apart / (2 * LENGTHSCALE**2)) * (1 - EPSILON) ** (lag / 2)


def predicted(X, T, y, at, now):
    """Mean and standard deviation of f now, by the textbook."""
    when = np.full(len(at), now)
    cross = kernel(at, when, X, T)
    inverse = np.linalg.inv(kernel(X, T, X, T) + NOISE * np.eye(len(y)))
    variance = 1 - np.einsum("ij,jk,ik->i", cross, inverse, cross)
    return cross @ inverse @ y, np.sqrt(np.maximum(variance, 0))


EVERYWHERE = points([(c, x) for c in "abc" for x in np.linspace(1, 3, 4001)])


def chosen(X, T, y, now, sign, rounds=None, among=EVERYWHERE):
    """The best bound of the world of 4001 x 3 points."""
    mean, sd = predicted(X, T, y, among, now)
    beta = 0.8 * math.log(4.0 * (len(y) + 1 if rounds is None else rounds + 1))
    return among[np.argmax(sign * mean + math.sqrt(beta) * sd)]


@pytest.fixture(params=["minimize", "maximize"])
def world(request, given):
    """A study of ten complete trials, and its data."""
    generator = np.random.default_rng(5)
    sampler = DriftSampler(given, time_key="t", n_startup_trials=3, seed=0)
    study = optuna.create_study(direction=request.param, sampler=sampler)
    trials = [("abc"[generator.integers(3)], generator.uniform(1, 3)) for _ in range(10)]
    times, y = np.sort(generator.uniform(0, 8, 10)), generator.normal(size=10)
    for (c, x), time, value in zip(trials, times, y):
        study.add_trial(trial(c, x, time, value=value))
    return study, points(trials), times, y, 1 if request.param == "maximize" else -1


def trial(c, x, time, **outcome):
    params, attributes = {"c": c, "x": x}, {"t": float(time)}
    return create_trial(params=params, distributions=SPACE, user_attrs=attributes, **outcome)


def asked(study, now):
    suggestion = study.ask()
    suggestion.set_user_attr("t", now)
    c, x = suggestion.suggest_categorical("c", "abc"), suggestion.suggest_float("x", 1.0, 3.0)
    return points([(c, x)])[0]


def alike(found, wanted):
    assert found[0] == wanted[0]
    assert found[1] == pytest.approx(wanted[1], abs=5e-4)


def test_suggestion_is_the_best_bound_at_present(world):
    study, X, T, y, sign = world
    alike(asked(study, 9.0), chosen(X, T, y, 9.0, sign))


def test_running_trials_count_as_the_mean_predicted_for_them(world):
    study, X, T, y, sign = world
    for _ in range(3):
        found = asked(study, 9.0)
        alike(found, chosen(X, T, y, 9.0, sign))
        mean, _ = predicted(X, T, y, found[None], 9.0)
        X, T, y = np.vstack([X, found]), np.append(T, 9.0), np.append(y, mean)


def test_two_simultaneous_trials_are_suggested_in_order(world):
    study, X, T, y, sign = world
    first, second = study.ask(), study.ask()
    found = []
    for item in (second, first):  # the younger is faster
        item.set_user_attr("t", 9.0)
        c, x = item.suggest_categorical("c", "abc"), item.suggest_float("x", 1.0, 3.0)
        found.append(points([(c, x)])[0])
    wanted = chosen(X, T, y, 9.0, sign)
    mean, _ = predicted(X, T, y, wanted[None], 9.0)
    X, T, y = np.vstack([X, wanted]), np.append(T, 9.0), np.append(y, mean)
    alike(found[0], chosen(X, T, y, 9.0, sign))
    assert abs(found[1] - found[0]).max() > 0.01


def test_of_many_running_trials_the_newest_count(world):
    study, X, T, y, sign = world
    places = [("abc"[n % 3], x) for n, x in enumerate(np.linspace(1, 3, RECENT))]
    for there in points(places):
        mean, _ = predicted(X, T, y, there[None], 9.0)
        X, T, y = np.vstack([X, there]), np.append(T, 9.0), np.append(y, mean)
    best = chosen(X, T, y, 9.0, sign)
    for place in [("abc"[int(best[0])], 1 + 2 * best[1]), *places]:
        study.add_trial(trial(*place, 8.5, state=TrialState.RUNNING))
    alike(asked(study, 9.0), best)


FAILURES = {
    "failed": {"state": TrialState.FAIL},
    "infinite": {"value": math.inf},
}


@pytest.mark.few(2)
@pytest.mark.parametrize("outcome", FAILURES)
def test_failures_change_no_prediction_but_where_trials_go(world, outcome):
    study, X, T, y, sign = world
    now, earlier = 9.0, best_now(study, now=8.5).params
    best, before = chosen(X, T, y, now, sign), (earlier["c"], earlier["x"])
    place = "abc"[int(best[0])], 1 + 2 * best[1]
    study.add_trial(trial(*place, 8.2, **FAILURES[outcome]))
    for _ in range(9):
        study.add_trial(trial(*place, 8.4, **FAILURES[outcome]))
    found = asked(study, now)
    assert found[0] != best[0] or abs(found[1] - best[1]) > 0.05
    for _ in range(4):
        study.add_trial(trial(*before, 8.4, **FAILURES[outcome]))
    last = best_now(study, now=8.5)
    there = last.params["c"], last.params["x"]
    assert there[0] != before[0] or abs(there[1] - before[1]) > 0.02
    mean, sd = predicted(X, T, y, points([there]), 8.5)
    assert (last.mean, last.sd) == (pytest.approx(mean[0], abs=1e-6), pytest.approx(sd[0], 1e-3))


def test_pruned_trials_are_bounds_at_their_times_however_many(world):
    """No better than the median of the complete trials before: the prediction is truncated."""
    study, X, T, y, sign = world
    generator = np.random.default_rng(0)
    places = [("abc"[generator.integers(3)], generator.uniform(1, 3)) for _ in range(RECENT + 4)]
    times = generator.uniform(T[1], 8, RECENT + 4)
    for place, time in zip(places, times):
        study.add_trial(trial(*place, time, state=TrialState.PRUNED))
    rows = [*zip(T, X, y), *((time, there, None) for there, time in zip(points(places), times))]
    X, T, y, complete = X[:0], T[:0], y[:0], []
    for time, there, value in sorted(rows, key=lambda row: row[0]):
        if value is not None:
            complete.append(value)
        else:
            (mean,), (sd,) = predicted(X, T, y, there[None], time)
            reach = sign * (np.median(complete) - mean) / sd
            if reach > 1.2:
                continue
            value = mean + sign * sd * truncnorm.mean(-math.inf, reach)
        X, T, y = np.vstack([X, there]), np.append(T, time), np.append(y, value)
    assert len(complete) + 5 < len(y) < len(rows)
    alike(asked(study, 9.0), chosen(X, T, y, 9.0, sign, rounds=len(rows)))


def report(value, last=None, step=0):
    state = TrialState.COMPLETE if value is not None else TrialState.PRUNED
    intermediate = {} if last is None else {0: 99.0, step: last}
    return create_trial(value=value, intermediate_values=intermediate, state=state)


@pytest.mark.parametrize(
    ("last", "step", "wanted"),
    [
        (4.0, 2, 10.0),  # the value of the same rank
        (5.0, 2, 25.0),
        (3.0, 2, 1.0),  # better than all, and no better than the best
        (99.0, 2, 40.0),
        (math.inf, 2, 40.0),
        (math.nan, 2, 10.0),  # the median
        (4.0, 3, 10.0),  # a step that no complete trial has
        (None, 2, 10.0),
    ],
)
def test_the_bound_of_a_pruned_trial_has_the_rank_of_its_last_intermediate_value(
    last, step, wanted
):
    complete = [report(10.0, 4.5, 2), report(1.0, 3.5, 2), report(40.0, 5.5, 2), report(10.0)]
    complete[0].intermediate_values[2] = 4.0
    complete[2].intermediate_values[2] = 6.0
    assert bound(report(None, last, step), complete) == pytest.approx(wanted)


def test_pruned_and_failed_trials_count_among_the_first():
    """Else a pruner that stops most would have nearly all trials chosen by chance."""
    study = optuna.create_study(sampler=DriftSampler(time_key="t", seed=0))
    states = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.COMPLETE, TrialState.FAIL) * 2
    for number, state in enumerate(states):
        value = (number - 3.0) ** 2 if state == TrialState.COMPLETE else None
        study.add_trial(trial("a", 1 + number / 4, number, state=state, value=value))
    best_now(study)
    fewer = optuna.create_study(sampler=DriftSampler(time_key="t", seed=0))
    fewer.add_trials(study.trials[:6])
    with pytest.raises(ValueError, match="3 trials have a value"):
        best_now(fewer)


def test_best_now_is_the_best_lower_bound_of_the_textbook(world):
    study, X, T, y, sign = world
    for now in (9.0, 30.0):
        best = best_now(study, now=now)
        mean, sd = predicted(X, T, y, EVERYWHERE, now)
        place = np.argmax(sign * mean - 0.5 * sd)
        alike(points([(best.params["c"], best.params["x"])])[0], EVERYWHERE[place])
        mean, sd = predicted(X, T, y, points([(best.params["c"], best.params["x"])]), now)
        assert best.mean == pytest.approx(mean[0], abs=1e-6)
        assert best.sd == pytest.approx(sd[0], abs=1e-6)
    assert best_now(study) == best_now(study, now=float(T[-1]))


@pytest.mark.filterwarnings("ignore:Fixed parameter x with value 3.4 is out of range")
def test_trials_out_of_range_count_at_their_place(world):
    """The kernel extends beyond the range."""
    study, X, T, y, sign = world
    study.enqueue_trial({"c": "a", "x": 3.4}, user_attrs={"t": 8.5})
    enqueued = study.ask()
    enqueued.suggest_categorical("c", "abc")
    assert enqueued.suggest_float("x", 1.0, 3.0) == 3.4
    study.tell(enqueued, 2.0)
    X, T, y = np.vstack([X, points([("a", 3.4)])]), np.append(T, 8.5), np.append(y, 2.0)
    alike(asked(study, 9.0), chosen(X, T, y, 9.0, sign))


@pytest.mark.filterwarnings("ignore:PartialFixedSampler is experimental")
@pytest.mark.parametrize("how", ["sampler", "enqueued", "asked before"])
def test_a_fixed_parameter_is_held_in_the_model(world, how):
    study, X, T, y, sign = world
    held = (int(chosen(X, T, y, 9.0, sign)[0]) + 1) % 3  # another than the best
    wanted = chosen(X, T, y, 9.0, sign, among=EVERYWHERE[EVERYWHERE[:, 0] == held])
    if how == "sampler":
        study.sampler = PartialFixedSampler({"c": "abc"[held], "other": 3}, study.sampler)
    else:
        study.enqueue_trial({"c": "abc"[held], "other": 3})
    item = study.ask()
    item.set_user_attr("t", 9.0)
    if how == "asked before":
        item.suggest_categorical("c", "abc")
    x = item.suggest_float("x", 1.0, 3.0)
    alike(points([(item.suggest_categorical("c", "abc"), x)])[0], wanted)


@pytest.mark.parametrize(("place", "time"), [(("b", 1.6), 8.2), (("c", 2.0), 1.5)])
def test_late_trials_count_at_their_time(world, place, time):
    study, X, T, y, sign = world
    study.add_trial(trial(*place, time, value=2.0))
    X, T, y = np.vstack([X, points([place])]), np.append(T, time), np.append(y, 2.0)
    alike(asked(study, 9.0), chosen(X, T, y, 9.0, sign))


@pytest.fixture
def empty(given):
    return trial_log(given, StudySpace({"x": FloatDistribution(0.0, 1.0)}))


def rows(number):
    generator = torch.Generator().manual_seed(3)
    U = torch.rand(number, 2, dtype=torch.float64, generator=generator).tolist()
    return [trial_answer(float(t), t, (x,), y) for t, (x, y) in enumerate(U)]


def require_same_state(first, other):
    assert first.answers == other.answers
    assert first.state.rounds == other.state.rounds == len(first.answers)
    for mine, its in zip(first.state.history, other.state.history):
        assert torch.equal(mine.tensor(), its.tensor())


def test_trials_of_the_same_time_are_ordered_by_number(empty):
    first, second = trial_answer(1.0, 4, (0.7,), 2.0), trial_answer(1.0, 5, (0.2,), 1.0)
    grown = empty.changed([second], OLDEST).changed([second, first], OLDEST)
    require_same_state(grown, empty.changed([first, second], OLDEST))
    assert grown.answers == (first, second)


def test_rows_that_are_replaced_late_or_removed(empty):
    every = rows(40)
    grown = empty.changed(every[:30], OLDEST).changed(every[:30], OLDEST)
    for now in ([*every[:29], every[30]], every[:31], every[1:31], [*every[:9], *every[15:]]):
        grown = grown.changed(now, OLDEST)
        require_same_state(grown, empty.changed(now, OLDEST))
