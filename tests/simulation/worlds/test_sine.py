import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from gpytorch.kernels import ScaleKernel
from simulation.worlds.recorded_stream import RecordedStream, rounds

from botorch_tv.simulation import SineWorld
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid

ARMS = Grid.regular(41, 1, bounds=[(-50.0, 50.0)])


def kernel() -> ScaleKernel:
    scaled = ScaleKernel(unit_kernel("se", 3.0)).double()
    scaled.outputscale = torch.tensor(0.5, dtype=torch.float64)
    return scaled


def k(x: float, y: float) -> float:
    return 0.5 * math.exp(-((x - y) ** 2) / 18)


def test_values_by_a_direct_loop() -> None:
    """[M] §4.1, with 20 centers evenly spaced from -50 to 50."""
    centers = [-50 + 100 * i / 19 for i in range(20)]
    among = np.array([[k(c, d) for d in centers] for c in centers])
    largest = np.linalg.eigvalsh(among)[-1]
    f = rounds(SineWorld(ARMS, kernel=kernel(), noise=0.01), RecordedStream(3), 30)
    for t in range(1, 31):
        u = [math.sin(0.3 * t + i) for i in range(1, 21)]
        length = math.sqrt(sum(v * v for v in u))
        a = [5 / largest * v / length for v in u]
        for m, x in enumerate(ARMS.X[:, 0].tolist()):
            expected = sum(a[i] * k(x, centers[i]) for i in range(20))
            assert f[t - 1, :, m] == pytest.approx(expected, abs=1e-12)


def test_parameters_and_two_centres() -> None:
    world = SineWorld(ARMS, kernel=kernel(), centers=2, scale=2.0, frequency=0.1, noise=0.01)
    f = rounds(world, RecordedStream(1), 4)
    u = np.sin([0.1 * 4 + 1, 0.1 * 4 + 2])
    largest = 0.5 + k(-50, 50)  # of a symmetric 2 x 2 matrix
    a = 2.0 / largest * u / np.linalg.norm(u)
    expected = [a[0] * k(x, -50) + a[1] * k(x, 50) for x in ARMS.X[:, 0].tolist()]
    assert f[3, 0] == pytest.approx(expected, abs=1e-12)


def test_a_wave_of_constant_speed() -> None:
    world = SineWorld(Grid.regular(2001, 1, bounds=[(-50.0, 50.0)]), kernel=kernel(), noise=0.0)
    shown = world.look(rounds=30)[0]
    x, inner = shown["x1"].values, np.abs(shown["x1"].values) < 35
    for now, later in pairwise(shown.values):
        moved = np.interp(x + 0.3 * 100 / 19, x, now)[inner]
        moved *= (moved @ later[inner]) / (moved @ moved)
        assert np.linalg.norm(moved - later[inner]) < 0.025 * np.linalg.norm(later[inner])


def test_bad_centers_and_domains() -> None:
    with pytest.raises(ValueError, match="centers is 0"):
        SineWorld(ARMS, kernel=kernel(), centers=0, noise=0.01)
    with pytest.raises(ValueError, match="domain has 2 dimensions"):
        SineWorld(Grid.regular(3, 2), kernel=kernel(), noise=0.01)
