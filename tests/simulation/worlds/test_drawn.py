import itertools

import numpy as np
import pytest
import torch
from simulation.worlds.recorded_stream import RecordedStream, rounds

from botorch_tv.simulation import (
    AbruptWorld,
    DriftWorld,
    FixedFunctions,
    GaussianDraw,
    RKHSFunctions,
    SmoothedDraw,
    StaticWorld,
)
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid

LINE = Grid.regular(8, 1)
SE = unit_kernel("se", 0.2)
OWN = [FixedFunctions(torch.full((8,), value, dtype=torch.float64)) for value in (1.0, 2.0, 3.0)]
DISTRIBUTIONS = [GaussianDraw(SE), SmoothedDraw(SE, 0.1), RKHSFunctions(SE, 5)]


def test_abrupt_changes_in_the_rounds_named() -> None:
    world = AbruptWorld(LINE, functions=OWN, changes=(100, 200), noise=0.1)
    f = rounds(world, RecordedStream(2), 500)[:, 1, 3]
    # f1 for t < 100, f2 to 200, f3 after; entry t - 1 is round t.
    assert f.tolist() == [1.0] * 99 + [2.0] * 100 + [3.0] * 301


def test_drift_by_its_formula() -> None:
    """[W22] §7: f4 + (f5 - f4) t / T."""
    world = DriftWorld(LINE, functions=RKHSFunctions(SE, 5), horizon=50, noise=0.1)
    f4, f5 = (drawn.values.numpy() for drawn in world.draw(RecordedStream(3)))
    f = rounds(world, RecordedStream(3), 50)
    for t in range(1, 51):
        assert f[t - 1] == pytest.approx(f4 + (f5 - f4) * t / 50, abs=1e-14)
    assert np.array_equal(f[-1], f5)
    assert len(list(itertools.islice(world.rounds(RecordedStream(1)), 99))) == 50


@pytest.mark.parametrize("horizon", [50, 51])
def test_drift_in_two_legs_by_its_formula(horizon: int) -> None:
    """[W22] appendix E."""
    world = DriftWorld(LINE, functions=RKHSFunctions(SE, 5), horizon=horizon, legs=2, noise=0.1)
    f4, f5, f6 = (drawn.values.numpy() for drawn in world.draw(RecordedStream(3)))
    f = rounds(world, RecordedStream(3), horizon)
    for t in range(1, horizon + 1):
        if t <= horizon / 2:
            expected = f4 + (f5 - f4) * 2 * t / horizon
        else:
            expected = f5 + (f6 - f5) * (2 * t - horizon) / horizon
        assert f[t - 1] == pytest.approx(expected, abs=1e-14)


def test_static() -> None:
    world = StaticWorld(LINE, functions=SmoothedDraw(SE, 0.1), noise=0.1)
    f = rounds(world, RecordedStream(4), 6)
    assert np.array_equal(f[0], f[5])
    assert len(np.unique(f[0], axis=0)) == 4  # a function of its own for every trial


@pytest.mark.parametrize("functions", [*DISTRIBUTIONS, OWN], ids=repr)
def test_draws_are_independent_of_chunks(functions) -> None:
    first = functions[0] if isinstance(functions, list) else functions
    for world in (
        StaticWorld(LINE, functions=first, noise=0.1),
        AbruptWorld(LINE, functions=functions, changes=(2, 5), noise=0.1),
        DriftWorld(LINE, functions=functions, horizon=6, legs=2, noise=0.1),
    ):
        whole = rounds(world, RecordedStream(80), 6)
        part = rounds(world, RecordedStream(9, first=60), 6)
        assert part == pytest.approx(whole[:, 60:69], abs=1e-13)
        if not isinstance(functions, list):
            drawn = torch.cat([draw.values for draw in world.draw(RecordedStream(4))])
            assert len(torch.unique(drawn, dim=0)) == len(drawn)


def test_representations() -> None:
    abrupt, drift = repr(_abrupt(RKHSFunctions(SE, 5))), repr(_drift(legs=2))
    assert "functions=(RKHSFunctions(kernel=RBFKernel(lengthscale=0.2), terms=5)" in abrupt
    assert "changes=(2, 5)" in abrupt
    assert drift.startswith("DriftWorld(domain=Grid(8 arms in 1-d), noise=0.1, functions=")
    assert drift.endswith("horizon=6, legs=2)")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: _abrupt(changes=(5, 5)), r"changes is \(5, 5\)"),
        (lambda: _abrupt(changes=(5,), functions=OWN), "3 distributions.*has 2 functions"),
        (lambda: _abrupt(functions=OWN[0]), "the same function 3 times"),
        (lambda: _drift(functions=OWN), "3 distributions.*has 2 functions"),
    ],
)
def test_bad_functions_and_changes(make, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def _abrupt(functions=None, changes=(2, 5), noise=0.1) -> AbruptWorld:
    return AbruptWorld(LINE, functions=functions or RKHSFunctions(SE), changes=changes, noise=noise)


def _drift(functions=None, horizon=6, legs=1, noise=0.1) -> DriftWorld:
    functions = functions or RKHSFunctions(SE)
    return DriftWorld(LINE, functions=functions, horizon=horizon, legs=legs, noise=noise)
