import math

import numpy as np
import pytest
import torch
from botorch.test_functions import Ackley, Branin, Hartmann, Rosenbrock
from scipy.optimize import minimize

from botorch_tv.test_functions import (
    DriftingAckley,
    DriftingBranin,
    DriftingFunction,
    DriftingHartmann,
    DriftingRosenbrock,
    Jumps,
    Orbit,
)

PAIRS = [
    (DriftingAckley(), Ackley()),
    (DriftingBranin(), Branin()),
    (DriftingHartmann(), Hartmann()),
    (DriftingRosenbrock(), Rosenbrock()),
]


@pytest.mark.parametrize(("moving", "static"), PAIRS)
def test_it_starts_as_the_function_of_botorch(moving, static) -> None:
    lower, upper = static.bounds
    X = lower + (upper - lower) * torch.rand(50, static.dim, dtype=torch.float64)
    assert torch.allclose(moving.at(0.0)(X), static(X), rtol=1e-9, atol=1e-9)


def descended(x, f):
    """A value and its gradient."""
    point = torch.tensor(x, requires_grad=True)
    value = f(point.clamp(*f.bounds))
    return value.item(), torch.autograd.grad(value, point)[0].numpy()


@pytest.mark.few(1)
@pytest.mark.parametrize("motion", [Orbit(period=37.0, reach=1.0), Jumps(times=(5.0, 60.0))])
@pytest.mark.parametrize(
    "kind", [DriftingAckley, DriftingBranin, DriftingHartmann, DriftingRosenbrock]
)
def test_nothing_found_by_search_beats_the_optimum(kind, motion) -> None:
    problem = kind(motion=motion)
    generator = torch.Generator().manual_seed(1)
    for t in (0.0, 8.0, 71.0):
        snapshot = problem.at(t)
        lower, upper = snapshot.bounds
        share = torch.rand(20_000, snapshot.dim, generator=generator, dtype=torch.float64)
        X = lower + (upper - lower) * share
        value = snapshot(X)
        assert (value >= snapshot.optimal_value).all()
        box = list(zip(lower.tolist(), upper.tolist()))
        lowest = min(
            minimize(descended, X[i].numpy(), args=(snapshot,), jac=True, bounds=box).fun
            for i in value.argsort()[:4].tolist()
        )
        assert lowest >= snapshot.optimal_value - 1e-12
        assert lowest <= snapshot.optimal_value + 0.01 * (value.mean().item() + 4)


def test_the_best_points_are_all_listed_and_attain_the_value() -> None:
    problem = DriftingBranin(motion=Orbit(period=40.0))
    seen = set()
    for t in range(80):
        places = problem.optimizers_at(float(t))
        seen.add(len(places))
        value = problem.at(float(t))(places)
        assert torch.allclose(value, torch.full_like(value, 10 / (8 * math.pi)), atol=1e-12)
        assert torch.equal(places[0], problem.path(float(t)))
    assert {1, 2} <= seen
    static = DriftingBranin(motion=Jumps(times=()))
    expected = torch.tensor(Branin._optimizers, dtype=torch.float64)
    listed = static.optimizers_at(3.0)
    assert len(listed) == 3
    assert torch.cdist(expected, listed).amin(-1).max() < 1e-4


def test_reach_and_speed_of_an_orbit() -> None:
    problem = DriftingHartmann(motion=Orbit(period=50.0, reach=0.8))
    t = torch.linspace(0, 300, 3001, dtype=torch.float64)
    path = problem.path(t).numpy()
    assert path.min() >= 0.1 - 1e-12
    assert path.max() <= 0.9 + 1e-12
    assert np.ptp(path, axis=0) == pytest.approx(0.8, abs=1e-3)
    speed = np.abs(np.diff(path, axis=0)).max() / 0.1
    assert speed <= 4 * math.pi * 0.4 / 50
    assert np.allclose(path[0], path[3000])  # d periods later


def test_jumps() -> None:
    problem = DriftingAckley(motion=Jumps(times=(10.0, 20.0), reach=0.5, seed=3))
    path = problem.path(torch.tensor([0.0, 9.99, 10.0, 19.99, 20.0, 999.0], dtype=torch.float64))
    assert torch.equal(path[0], torch.zeros(2, dtype=torch.float64))
    assert torch.equal(path[0], path[1])
    assert torch.equal(path[2], path[3])
    assert torch.equal(path[4], path[5])
    assert not torch.equal(path[1], path[2])
    assert not torch.equal(path[3], path[4])
    assert path.abs().max() <= 0.5 * 32.768


def test_other_functions_can_drift() -> None:
    problem = DriftingFunction(Hartmann(dim=3), motion=Orbit(period=20.0))
    assert problem.optimal_value_at(7.0).item() == pytest.approx(-3.86278, abs=1e-5)
