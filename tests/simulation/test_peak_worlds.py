import random
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from deap.benchmarks import movingpeaks
from gmpb import GMPB, GMPBConfig

from botorch_tv.simulation import GMPBWorld, MovingPeaksWorld
from botorch_tv.simulation.streams import Stream

D = torch.float64
CONFIG = GMPBConfig(d=2, m=4, change_frequency=3)
WORLDS = {
    "gmpb": GMPBWorld(CONFIG, noise=0.01, shift=20.0, scale=25.0),
    "cones": MovingPeaksWorld(2, period=3, shift=20.0, scale=25.0),
    "hills": MovingPeaksWorld(3, scenario=1, period=2),
    "many": MovingPeaksWorld(2, scenario=3, period=2),
}


def stream(first=0, trials=3, dtype=D):
    return Stream(7, "world", first, trials, dtype=dtype, device=torch.device("cpu"))


def lattice(dim, points):
    return torch.cartesian_prod(*[torch.linspace(0, 1, points, dtype=D)] * dim).view(-1, dim)


def highest(landscape):
    """The position of the highest peak, in the unit cube."""
    if isinstance(landscape, GMPB):
        tallest = max(landscape.get_state().components, key=lambda peak: peak.h)
        return (tallest.c + 100) / 200
    return np.array(landscape.globalMaximum()[1]) / 100


@pytest.mark.parametrize("name", WORLDS)
def test_the_best_value_is_the_maximum(name):
    world = WORLDS[name]
    X = lattice(world.domain.dim, 51 if world.domain.dim == 2 else 15)
    landscapes = [world.landscape(seed) for seed in stream().seeds()]
    for objective in islice(world.objectives(stream()), 0, 3 * world.period, world.period):
        best = objective.best(True)
        assert (objective.at(X.expand(3, *X.shape)) <= best.unsqueeze(-1)).all()
        peaks = torch.from_numpy(np.stack([highest(landscape) for landscape in landscapes]))
        torch.testing.assert_close(objective.at(peaks), best, rtol=1e-12, atol=1e-12)
        for landscape in landscapes:
            world.change(landscape)


def test_values_are_those_of_the_package():
    seeds, X = stream().seeds(), torch.rand(3, 5, 2, dtype=D)
    objectives = WORLDS["gmpb"].objectives(stream())
    for step, objective in enumerate(islice(objectives, 7)):
        for trial, seed in enumerate(seeds):
            problem = GMPB(CONFIG, seed)
            for _ in range(step // 3):
                problem.step_environment()
            problem.set_auto_step(False)
            theirs = problem.evaluate_batch(-100 + 200 * X[trial].numpy())
            found = 20 + 25 * objective.at(X)[trial]
            assert found.numpy() == pytest.approx(theirs, rel=1e-12)
    problem = movingpeaks.MovingPeaks(2, random.Random(seeds[1]), **movingpeaks.SCENARIO_2)
    for step, objective in enumerate(islice(WORLDS["cones"].objectives(stream()), 4)):
        if step == 3:
            problem.changePeaks()
        theirs = [problem(100 * x, count=False)[0] for x in X[1].numpy()]
        assert (20 + 25 * objective.at(X)[1]).numpy() == pytest.approx(theirs, rel=1e-12)
        assert 20 + 25 * float(objective.best(True)[1]) == problem.globalMaximum()[0]


@pytest.mark.parametrize("name", WORLDS)
def test_landscapes_change_once_a_period(name):
    world = WORLDS[name]
    X = torch.rand(3, 20, world.domain.dim, dtype=D)
    objectives = islice(world.objectives(stream()), 2 * world.period + 1)
    values = [objective.at(X) for objective in objectives]
    changed = [i + 1 for i, (a, b) in enumerate(pairwise(values)) if not torch.equal(a, b)]
    assert changed == [world.period, 2 * world.period]


@pytest.mark.parametrize("name", WORLDS)
def test_trials_are_independent_of_chunks(name):
    world, X = WORLDS[name], torch.rand(4, 20, WORLDS[name].domain.dim, dtype=D)
    whole = [f.at(X) for f in islice(world.objectives(stream(trials=4)), 5)]
    part = [f.at(X[2:]) for f in islice(world.objectives(stream(2, 2)), 5)]
    for a, b in zip(whole, part):
        assert torch.equal(a[2:], b)
    assert len(torch.stack(whole, 1).flatten(1).unique(dim=0)) == 4
    single = next(world.objectives(stream(trials=4, dtype=torch.float32))).at(X.float())
    assert single.dtype == torch.float32
    assert single.numpy() == pytest.approx(whole[0].numpy(), rel=1e-3)


def test_seeds_are_whole_and_apart():
    seeds = stream(trials=500).seeds()
    assert len(set(seeds)) == 500
    assert all(isinstance(seed, int) and 0 <= seed < 2**53 for seed in seeds)
    assert seeds[200:300] == stream(200, 100).seeds()
    assert np.corrcoef(seeds[:-1], seeds[1:])[0, 1] == pytest.approx(0, abs=5 / 500**0.5)
