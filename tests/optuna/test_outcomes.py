"""Constraints, several objectives and contexts: as the strategy chooses on its own."""

import math

import optuna
import pytest
import torch
from optuna.distributions import FloatDistribution
from optuna.samplers import RandomSampler
from optuna.trial import TrialState, create_trial

from botorch_tv.optuna import DriftSampler, best_now, pareto_now
from botorch_tv.optuna import sampler as module
from botorch_tv.optuna.trials import StudySpace
from botorch_tv.strategies import Box, Outcomes, adaptive_gp_ucb
from botorch_tv.strategies.expressions import parse_limits, parse_objectives
from botorch_tv.strategies.mixed_search import MixedSearch

SPACE = {"x": FloatDistribution(0.0, 2.0)}
ROWS = [(0.7 * t % 2, float(t)) for t in range(12)]


def value(x):
    return 3 - (x - 1.8) ** 2


def heat(x, t):
    return x + 0.02 * t - 1.2


def trial(x, t, *, heat=None, outside=None, **outcome):
    attributes = {"t": t} | ({} if outside is None else {"outside": outside})
    system = {} if heat is None else {"constraints": [heat]}
    return create_trial(
        params={"x": x},
        distributions=SPACE,
        user_attrs=attributes,
        system_attrs=system,
        **outcome,
    )


def own(strategy, rows, context=0):
    """The state of a strategy after rows of a point, a time and outcomes, without Optuna."""
    space = StudySpace(SPACE)
    corners = torch.tensor([[0.0], [1.0]]).double().expand(2, space.columns)
    state = strategy.init(Box(corners, search=MixedSearch(space), context_dim=context))
    for params, *outside, t, y in rows:
        X = torch.tensor([*space.point(params), *outside]).double()
        made = strategy.suggestion_at(state, X, now=t)
        state, _ = strategy.tell(state, made, y)
    return state, space


def asked(study, t, **attributes):
    item = study.ask()
    for name, number in ({"t": t} | attributes).items():
        item.set_user_attr(name, number)
    return item.suggest_float("x", 0.0, 2.0)


def test_constraints_are_outcomes_with_limits():
    """The constraint of one trial is missing."""
    study = optuna.create_study(
        direction="maximize", sampler=DriftSampler(adaptive_gp_ucb(), time_key="t", seed=0)
    )
    rows = []
    for x, t in ROWS:
        limited = math.nan if t == 4 else heat(x, t)
        given = None if t == 4 else limited
        study.add_trial(trial(x, t, heat=given, value=value(x)))
        rows.append(({"x": x}, t, [value(x), limited]))
    strategy = Outcomes(
        names=("value", "heat"),
        objectives=parse_objectives("value"),
        limits=parse_limits("heat <= 0"),
    )
    state, space = own(strategy, rows)
    wanted = space.params(strategy.ask(state, now=12.0).X)
    assert asked(study, 12.0) == pytest.approx(wanted["x"], abs=1e-5)
    best = best_now(study, now=12.0)
    X = strategy.recommend(state, now=12.0, caution=0.5)
    assert best.params["x"] == pytest.approx(space.params(X)["x"], abs=1e-4)
    assert heat(best.params["x"], 12.0) < 0
    free = optuna.create_study(direction="maximize", sampler=study.sampler)
    free.add_trials([trial(x, t, value=value(x)) for x, t in ROWS])
    assert heat(best_now(free, now=12.0).params["x"], 12.0) > 0


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("how", ["constraints_func", "set_constraint"])
def test_constraints_as_optuna_states_them(how):
    if how == "set_constraint" and not hasattr(optuna.Trial, how):
        pytest.skip("Optuna 4 has constraints_func only")
    func = (lambda item: [item.params["x"] - 1.0]) if how == "constraints_func" else None
    sampler = DriftSampler(time_key="t", constraints_func=func, n_startup_trials=6, seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)

    def objective(item):
        item.set_user_attr("t", item.number)
        x = item.suggest_float("x", 0.0, 2.0)
        if func is None:
            item.set_constraint("heat", x - 1.0)
        return x

    study.optimize(objective, n_trials=14)
    assert sum(item.params["x"] > 1.0 for item in study.trials[9:]) <= 1
    assert 0.7 < best_now(study).params["x"] < 1.05


def test_a_pruned_trial_bounds_the_objective_alone():
    study = optuna.create_study(sampler=DriftSampler(time_key="t", n_startup_trials=4, seed=0))
    for x, t in ROWS:
        study.add_trial(trial(x, t, heat=heat(x, t), value=value(x)))
    study.add_trial(trial(0.1, 12.0, state=TrialState.PRUNED))
    best_now(study)
    state = study.sampler._before[0].state
    noise = [member.history.noise.tensor()[-1].isfinite() for member in state.members]
    assert noise == [True, False]


@pytest.mark.full
def test_several_objectives(monkeypatch):
    monkeypatch.setattr(module, "TRADES", 3)
    directions = ["maximize", "minimize"]
    study = optuna.create_study(
        directions=directions, sampler=DriftSampler(time_key="t", n_startup_trials=4, seed=0)
    )
    rows = [({"x": x}, t, [value(x), heat(x, t)]) for x, t in ROWS]
    study.add_trials([trial(*p.values(), t, values=y) for p, t, y in rows])
    strategy = Outcomes(names=("f", "heat"), objectives=parse_objectives("f, -heat"))
    state, space = own(strategy, rows)
    front, wanted = pareto_now(study, now=12.0), strategy.pareto(state, now=12.0, points=3)
    assert len(front) == len(wanted) > 1
    for setting, X in zip(front, wanted):
        assert setting.params["x"] == pytest.approx(space.params(X)["x"], abs=1e-4)
        for name, mean, sd in zip(("f", "heat"), setting.means, setting.sds):
            predicted = strategy.predictions(state, 12.0)[name].at(X.view(1, 1, -1))
            assert (mean, sd) == pytest.approx(tuple(map(float, predicted)), abs=1e-4)


def test_choices_among_objectives_depend_on_seed_and_number():
    """The weights are random."""
    directions, found = ["maximize", "minimize"], []
    for seed in (0, 0, 1):
        sampler = DriftSampler(time_key="t", n_startup_trials=4, seed=seed)
        study = optuna.create_study(directions=directions, sampler=sampler)
        study.add_trials([trial(x, t, values=[value(x), heat(x, t)]) for x, t in ROWS[:5]])
        found.append(asked(study, 5.0))
    assert found[0] == found[1] != found[2]
    with pytest.raises(ValueError, match=r"has a single objective; call best_now\(study\)"):
        pareto_now(optuna.create_study(), sampler)


def test_contexts_are_given_before_the_choice(logged):
    """The best x follows the weather."""
    sampler = DriftSampler(time_key="t", context=["outside"], n_startup_trials=4, seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    weather = [20.0 * (5 * t % 7) / 7 for _, t in ROWS]
    rows = [
        ({"x": x}, outside, t, -((x - outside / 10) ** 2)) for (x, t), outside in zip(ROWS, weather)
    ]
    study.add_trials([trial(*p.values(), t, outside=w, value=y) for p, w, t, y in rows])
    strategy = adaptive_gp_ucb()
    state, space = own(strategy, rows, context=1)
    for outside in (3.0, 17.0):
        context = torch.tensor([outside]).double()
        wanted = space.params(strategy.recommend(state, now=12.0, caution=0.5, context=context))
        best = best_now(study, now=12.0, context={"outside": outside})
        assert best.params["x"] == pytest.approx(wanted["x"], abs=1e-4)
        assert best.params["x"] == pytest.approx(outside / 10, abs=0.4)
    assert best_now(study) == best_now(study, context={"outside": weather[-1]})
    wanted = space.params(strategy.ask(state, now=12.0, context=torch.tensor([7.0]).double()).X)
    assert asked(study, 12.0, outside=7.0) == pytest.approx(wanted["x"], abs=1e-4)
    with pytest.raises(ValueError, match=r"must have a number for each of \['outside'\]"):
        best_now(study, context={"weather": 3.0})
    with pytest.raises(ValueError, match=r"has no user attribute 'outside' with its context; call"):
        asked(study, 13.0)
    study.add_trial(trial(0.3, 13.0, value=0.0))
    best_now(study)
    assert "which has no user attribute 'outside' with its context" in logged.text


def test_a_failed_trial_without_a_time_has_the_time_of_the_newest_trial_before_it():
    found = []
    for time in ({}, {"t": 9.0}):
        study = optuna.create_study(sampler=DriftSampler(time_key="t", n_startup_trials=4, seed=0))
        for number in (0, 9, 5, 3, 7):
            study.add_trial(trial(number / 5, float(number), value=number / 3))
        failed = {"params": {"x": 0.1}, "distributions": SPACE, "user_attrs": time}
        study.add_trial(create_trial(**failed, state=TrialState.FAIL))
        found.append(asked(study, 12.0))
    assert found[0] == found[1]


class First(RandomSampler):
    """Fails when a parameter is sampled independently after a number of trials."""

    allowed = 0

    def sample_independent(self, study, trial, name, distribution):
        assert trial.number < self.allowed
        return super().sample_independent(study, trial, name, distribution)


@pytest.mark.parametrize("change", ["widened", "narrowed", "shifted", "added"])
def test_a_changed_space_is_modelled_after_few_trials(change):
    """With the default strategy; all earlier trials count."""
    other = First(seed=0)
    sampler = DriftSampler(time_key="t", n_startup_trials=4, seed=0, independent_sampler=other)
    study = optuna.create_study(sampler=sampler)
    other.allowed = 14 if change == "added" else 1
    low, high = {"widened": (0.0, 4.0), "narrowed": (0.5, 1.5), "shifted": (1.0, 3.0)}.get(
        change, (0.0, 2.0)
    )

    def objective(item):
        item.set_user_attr("t", item.number)
        new = item.number >= 10
        x = item.suggest_float("x", *((low, high) if new else (0.0, 2.0)))
        return abs(x - 0.8 * high) + (
            item.suggest_int("n", 1, 9) if change == "added" and new else 0
        )

    study.optimize(objective, n_trials=17)
    answers = sampler._before[0].answers
    assert len(answers) == (6 if change == "added" else 16)
    assert low <= best_now(study).params["x"] <= high


@pytest.mark.parametrize(
    ("settings", "columns", "message"),
    [
        ({"context": "outside"}, 1, "has no user attribute 'outside' with its context; call"),
        ({}, 21, "21 columns, but up to 20 are supported with constraints"),
    ],
)
def test_unsupported_problems(settings, columns, message):
    space = {f"x{n}": FloatDistribution(0.0, 1.0) for n in range(columns)}
    params = dict.fromkeys(space, 0.5)
    limited = {"system_attrs": {"constraints": [1.0]}}

    def ask():
        study = optuna.create_study(sampler=DriftSampler(**settings))
        study.add_trial(create_trial(params=params, distributions=space, value=1.0, **limited))
        study.ask().suggest_float("x0", 0.0, 1.0)

    with pytest.raises(ValueError, match=message):
        ask()
