"""Optuna's parameters are points of the unit cube, and the search there equals enumeration."""

import functools
import itertools
import math

import numpy as np
import optuna
import pytest
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import TrialState, create_trial

from botorch_tv.gp.search import SearchProblem
from botorch_tv.optuna import DriftSampler, best_now
from botorch_tv.optuna.trials import StudySpace, axis, modelled
from botorch_tv.strategies import Box
from botorch_tv.strategies.mixed_search import MixedSearch
from botorch_tv.strategies.parameters import MOST_LEVELS, simplex
from botorch_tv.strategies.subspace import Subspace

CASES = [
    (FloatDistribution(-2.0, 6.0), 0.0, 0.25),
    (FloatDistribution(1e-4, 1.0, log=True), 1e-3, 0.25),
    (FloatDistribution(0.0, 2.0, step=0.5), 1.5, 0.75),
    (IntDistribution(-5, 15), 0, 0.25),
    (IntDistribution(1, 16, log=True), 4, 0.5),
    (IntDistribution(3, 11, step=2), 9, 0.75),
    (IntDistribution(0, 10**6), 250_000, 0.25),
]


@pytest.mark.parametrize(("distribution", "value", "unit"), CASES)
def test_number_is_its_share_of_the_range_on_its_scale(distribution, value, unit):
    made = axis(distribution)
    assert made.unit(value) == pytest.approx([unit], abs=1e-12)
    assert made.value([unit]) == pytest.approx(value, rel=1e-12)
    assert type(made.value([unit])) is type(value)
    for end, at in ((distribution.low, 0.0), (distribution.high, 1.0)):
        assert made.unit(end) == [at]
        assert made.value([at]) == end
    # Every point of the cube is a value that Optuna allows.
    for at in np.random.default_rng(0).uniform(size=200):
        chosen = made.value([at])
        assert distribution._contains(distribution.to_internal_repr(chosen))
        assert made.value(made.unit(chosen)) == pytest.approx(chosen, rel=1e-12)


@pytest.mark.parametrize("low", [2**60, -(2**60) - 11])
def test_integers_beyond_the_precision_of_floats(low):
    """A number of nanoseconds or a key: their differences are small."""
    made = axis(IntDistribution(low, low + 5))
    assert [made.unit(low + step) for step in range(6)] == [[step / 5] for step in range(6)]
    assert [made.value([step / 5]) for step in range(6)] == list(range(low, low + 6))


@pytest.mark.parametrize(
    ("distribution", "values"),
    [
        (FloatDistribution(0.0, 0.3, step=0.1), [0.0, 0.1, 0.2, 0.3]),
        (IntDistribution(2, 8, step=3), [2, 5, 8]),
        (IntDistribution(1, 4, log=True), [1, 2, 3, 4]),
        (CategoricalDistribution(["a", None, 3]), ["a", None, 3]),
    ],
)
def test_levels_are_the_points_of_all_values(distribution, values):
    made = axis(distribution)
    assert made.levels.tolist() == [made.unit(value) for value in values]
    again = [made.value(row) for row in made.levels.tolist()]
    assert again == values


def test_numbers_of_too_many_values_are_not_listed():
    assert len(axis(IntDistribution(1, MOST_LEVELS)).levels) == MOST_LEVELS
    assert axis(IntDistribution(0, MOST_LEVELS)).levels is None
    assert axis(FloatDistribution(0.0, 1.0)).levels is None


@pytest.mark.parametrize("corners", range(2, 12))
def test_categories_are_as_far_apart_as_the_ends_of_a_range(corners):
    X = simplex(corners)
    assert X.shape == (corners, corners - 1)
    assert ((X >= 0) & (X <= 1)).all()
    apart = torch.cdist(X, X, compute_mode="donot_use_mm_for_euclid_dist")
    torch.testing.assert_close(apart, 1 - torch.eye(corners).double(), atol=1e-14, rtol=0)


def test_columns_of_several_parameters():
    space = StudySpace(
        {
            "c": CategoricalDistribution([True, False, None]),
            "one": IntDistribution(4, 4),
            "x": FloatDistribution(0.0, 4.0),
        }
    )
    assert space.columns == 3
    params = {"c": None, "one": 4, "x": 3.0}
    point = space.point(params)
    assert point == (0.5, pytest.approx(math.sqrt(0.75)), 0.75)
    assert space.params(torch.tensor(point).double()) == params
    near = torch.tensor([[0.4, 0.9, 0.75]]).double()
    torch.testing.assert_close(space.rounded(near), torch.tensor([point]).double())


def test_cached_points_belong_to_their_trials():
    """Another study, or another trial of that number, is looked at by itself."""
    space = StudySpace({"x": FloatDistribution(0.0, 4.0)})

    def trial(number, x, high=4.0, **how):
        asked = {"params": {"x": x}, "distributions": {"x": FloatDistribution(0.0, high)}}
        made = create_trial(**asked, **({"value": 1.0} | how))
        made.number = number
        return made

    first, other = trial(0, 1.0), trial(0, 3.0)
    wide, running = trial(1, 6.0, high=8.0), trial(2, 2.0, state=TrialState.RUNNING, value=None)
    for _ in range(2):
        for item, point in ((first, (0.25,)), (other, (0.75,)), (wide, (1.5,)), (running, (0.5,))):
            assert space.point_of(item) == point
    running.params = {"x": 3.0}
    assert space.point_of(running) == (0.75,)


def test_listed_values_share_the_cube_equally():
    space = StudySpace({"c": CategoricalDistribution("abc"), "n": IntDistribution(1, 8, log=True)})
    axis = (torch.arange(240).double() + 0.5) / 240
    U = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1).view(-1, 2)
    X = Subspace(space).spread(U)
    _, counts = torch.unique(X, dim=0, return_counts=True)
    assert counts.tolist() == [240**2 // 24] * 24


FLOAT = FloatDistribution(0.0, 1.0)
SPACES = {
    "mixed": {"c": CategoricalDistribution("abcd"), "n": IntDistribution(1, 9), "x": FLOAT},
    "two floats": {"c": CategoricalDistribution("ab"), "x": FLOAT, "y": FLOAT},
    "listed": {"c": CategoricalDistribution("abc"), "n": IntDistribution(1, 30, log=True)},
    "many": {"n": IntDistribution(0, 5000), "x": FLOAT},
}


def waves(dim, seed):
    """A smooth score with several peaks, `... x D -> ...`."""
    generator = torch.Generator().manual_seed(seed)
    frequency = 4 * torch.randn(24, dim, dtype=torch.float64, generator=generator)
    phase = 6.3 * torch.rand(24, dtype=torch.float64, generator=generator)
    return lambda X: torch.cos(X @ frequency.T + phase).mean(-1)


@functools.cache
def everything(name, steps):
    """All points, floats and long integers at so many steps."""
    space, rows = StudySpace(SPACES[name]), []
    for parameter in space.axes:
        levels = parameter.levels
        if levels is None:
            levels = torch.linspace(0, 1, steps, dtype=torch.float64).unsqueeze(-1)
        rows.append(levels.tolist())
    X = torch.tensor([list(itertools.chain(*row)) for row in itertools.product(*rows)]).double()
    return torch.unique(space.rounded(X), dim=0) if name == "many" else X


def best(space, score, observed=None):
    box = Box(torch.tensor([[0.0], [1.0]]).double().expand(2, space.columns))
    observed = torch.empty(0, space.columns).double() if observed is None else observed
    live = torch.ones(1, len(observed), dtype=torch.bool)
    search = MixedSearch(space)
    problem = SearchProblem(
        lambda X, trials: score(X), observed.unsqueeze(0), live, len(observed), 1.0
    )
    return search.best(box, problem)[0]


@pytest.mark.full
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("seed", range(3))
def test_as_good_as_everything(name, seed):
    space = StudySpace(SPACES[name])
    score = waves(space.columns, seed)
    X = best(space, score).unsqueeze(0)
    assert score(X) >= score(everything(name, 201)).max() - 1e-6
    torch.testing.assert_close(space.rounded(X), X, atol=1e-12, rtol=0)


def test_an_ascent_begins_at_observations():
    space = StudySpace({"x": FLOAT, "y": FLOAT, "z": FLOAT, "n": IntDistribution(0, 9)})
    peak = torch.tensor(space.point({"x": 0.1234, "y": 0.777, "z": 0.42, "n": 3})).double()

    def score(X):
        return torch.exp(-1e6 * (X - peak).square().sum(-1))

    near = torch.tensor(space.point({"x": 0.1249, "y": 0.777, "z": 0.42, "n": 3})).double()
    found = best(space, score, near.unsqueeze(0))
    torch.testing.assert_close(found, peak, atol=1e-5, rtol=0)
    assert score(best(space, score)) < 0.5  # it cannot be found without


def test_the_first_point_is_in_the_middle():
    space = StudySpace({"c": CategoricalDistribution("abc"), "x": FLOAT})
    first = MixedSearch(space).first(None, torch.empty(0).double())
    assert space.params(first) == {"c": "b", "x": 0.5}


def distributions(generator):
    """Random ranges of three parameters, which may also change step, scale, type and choices."""
    low, high = generator.integers(1, 4), generator.integers(6, 12)
    step = None if generator.random() < 0.5 else 0.5
    letters = generator.permutation(list("abcd"))[: generator.integers(2, 5)].tolist()
    return {
        "c": CategoricalDistribution(letters),
        "n": IntDistribution(low, high)
        if generator.random() < 0.5
        else FloatDistribution(low, high, log=True),
        "x": FloatDistribution(0.5 * low, 0.5 * high, step=step),
    }


@pytest.mark.few(3)
@pytest.mark.parametrize("seed", range(6))
def test_a_changed_space_equals_the_newest_space_from_the_first_trial(seed, given):
    """Trials count by their values, whatever ranges, steps, scales, types and choices were then."""
    generator = np.random.default_rng(seed)
    spaces = [distributions(generator) for _ in range(3)]
    changed, newest = optuna.create_study(), optuna.create_study()
    for number in range(18):
        own = spaces[number // 6]
        params = {
            "c": generator.choice(own["c"].choices).item(),
            "n": int(generator.integers(own["n"].low, own["n"].high + 1)),
            "x": 0.5 * int(generator.integers(2 * own["x"].low, 2 * own["x"].high + 1)),
        }
        made = create_trial(value=generator.normal(), user_attrs={"t": number})
        made.params, made.distributions = params, own
        changed._storage.create_new_trial(changed._study_id, template_trial=made)
        if params["c"] in spaces[-1]["c"].choices:
            made.distributions = spaces[-1]
            newest._storage.create_new_trial(newest._study_id, template_trial=made)
    sampler, found = DriftSampler(given, time_key="t", seed=0), []
    assert best_now(changed, sampler) == best_now(newest, sampler)
    for study in (changed, newest):
        study.sampler = sampler
        item = study.ask()
        item.set_user_attr("t", 18)
        for name, own in spaces[-1].items():
            value = item._suggest(name, own)
            assert own._contains(own.to_internal_repr(value))
            found.append(value)
    assert found[0] == found[3]  # later values are held to it if a kind has changed


@pytest.mark.parametrize("high", [12.0, 8.0])
def test_a_new_range_is_modelled_from_its_first_trial(high, given):
    class First(optuna.samplers.RandomSampler):
        def sample_independent(self, study, trial, name, distribution):
            assert trial.number == 0
            return super().sample_independent(study, trial, name, distribution)

    sampler = DriftSampler(given, time_key="t", seed=0, independent_sampler=First(seed=0))
    study = optuna.create_study(sampler=sampler)

    def objective(trial):
        trial.set_user_attr("t", trial.number)
        x = trial.suggest_float("x", 0.0, 10.0 if trial.number < 12 else high)
        return abs(x - high)

    study.optimize(objective, n_trials=15)
    assert max(trial.params["x"] for trial in study.trials[12:]) > high - 1
    assert best_now(study).params["x"] > high - 1


def test_a_parameter_is_modelled_once_enough_trials_have_it(logged):
    def names(*trials):
        every = {"x": FLOAT, "y": FLOAT, "one": FloatDistribution(1.0, 1.0)}
        made = [
            create_trial(
                params=dict.fromkeys(own, 1.0), distributions={n: every[n] for n in own}, value=0.0
            )
            for own in trials
        ]
        return set(modelled(made, 3))

    x, both = ("x", "one"), ("x", "y")
    assert names() == set()
    assert names(both) == {"x", "y"}
    assert names(x, both, both) == {"x"}
    assert names(x, both, both, both) == {"x", "y"}
    assert names(x, both, x, both, both, both) == {"x"}  # a conditional parameter
    assert names(both, both, both, x) == {"x"}  # removed
    study = optuna.create_study()
    for number in range(8):
        own = {"x": FLOAT, "y": FLOAT} if number == 4 else {"x": FLOAT}
        params = dict.fromkeys(own, number / 8)
        study.add_trial(create_trial(params=params, distributions=own, value=1.0 * number))
    assert set(best_now(study, DriftSampler(seed=0)).params) == {"x"}
    assert "best_now omits y" in logged.text


def test_choices_that_optuna_does_not_tell_apart_are_one():
    made = axis(CategoricalDistribution([1, "1", 1.0, True, 0, None]))
    assert list(map(repr, made.choices)) == ["1", "'1'", "0", "None"]
    assert made.unit(True) == made.unit(1)
