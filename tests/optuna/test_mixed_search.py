"""The search against enumeration."""

import functools
import itertools

import pytest
import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

from botorch_tv.gp.search import Sought
from botorch_tv.optuna.trials import StudySpace
from botorch_tv.strategies import Box
from botorch_tv.strategies.parameters import MixedSearch

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
    for axis in space.axes:
        levels = axis.levels
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
    sought = Sought(lambda X, trials: score(X), observed.unsqueeze(0), live, len(observed), 1.0)
    return search.best(box, sought)[0]


@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("seed", range(6))
def test_as_good_as_everything(name, seed):
    space = StudySpace(SPACES[name])
    score = waves(space.columns, seed)
    assert score(best(space, score)) >= score(everything(name, 201)).max() - 1e-6


@pytest.mark.parametrize("name", SPACES)
def test_the_search_returns_values_of_the_space(name):
    space = StudySpace(SPACES[name])
    X = best(space, waves(space.columns, 1)).unsqueeze(0)
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


def test_chance_takes_every_value_alike():
    space = StudySpace({"c": CategoricalDistribution("abc"), "x": FLOAT})

    class Draws:
        generator = torch.Generator().manual_seed(0)

        def uniform(self, *shape):
            return torch.rand(*shape, dtype=torch.float64, generator=self.generator)

        normal = uniform

    search = MixedSearch(space)
    draws, rows = Draws(), []
    for _ in range(600):
        rows.append(space.params(search.anywhere(None, draws)))
    counts = [sum(row["c"] == item for row in rows) for item in "abc"]
    assert min(counts) > 160  # 200 expected, standard deviation 11.5
    assert abs(sum(row["x"] for row in rows) / 600 - 0.5) < 0.05
    first = search.first(None, torch.empty(0).double())
    assert space.params(first) == {"c": "b", "x": 0.5}
