import math

import numpy as np
import pytest
import torch

from botorch_tv.test_functions import WindFarm

TURN = 270 + 12 * torch.sin(2 * math.pi * torch.arange(51.0, dtype=torch.float64) / 50)


def points(*rows):
    return torch.tensor(rows, dtype=torch.float64)


@pytest.fixture
def farm():
    pytest.importorskip("floris")
    return WindFarm(TURN, noise_std=0.05)


def of_floris(direction, speed, yaw, layout=((0, 0), (630, 0), (1260, 0)), turbulence=0.06):
    """Power of every turbine in MW, by the package."""
    model = pytest.importorskip("floris").FlorisModel("defaults")
    model.set(
        layout_x=[place[0] for place in layout],
        layout_y=[place[1] for place in layout],
        wind_directions=[direction],
        wind_speeds=[speed],
        turbulence_intensities=[turbulence],
        yaw_angles=[[float(angle) for angle in yaw]],
    )
    model.run()
    return model.get_turbine_powers()[0] / 1e6


def powers(farm, X):
    return farm._powers(X[:, :-1].numpy(), X[:, -1].numpy())


def test_powers_are_those_of_floris(farm) -> None:
    X = points([20.0, -5.0, 0.0], [0.0, 10.0, 7.0], [-30.0, 30.0, 12.5])
    expected = [
        of_floris(270.0, 8.0, (20, -5, 0)),
        of_floris(float(TURN[7]), 8.0, (0, 10, 0)),
        of_floris(float(TURN[12] + TURN[13]) / 2, 8.0, (-30, 30, 0)),
    ]
    np.testing.assert_allclose(powers(farm, X), expected, rtol=1e-10)
    np.testing.assert_allclose(farm.evaluate_true(X), np.sum(expected, 1), rtol=1e-10)
    together = farm.evaluate_true(X.reshape(3, 1, 3))
    np.testing.assert_allclose(together.squeeze(-1), farm.evaluate_true(X), rtol=1e-10)


def test_layout_speeds_and_turbulence_count() -> None:
    pytest.importorskip("floris")
    layout = ((0.0, 0.0), (500.0, 50.0), (400.0, 600.0), (900.0, 300.0))
    directions, speeds = torch.tensor([250.0, 260.0]), torch.tensor([7.0, 9.0])
    farm = WindFarm(directions, speeds, layout=layout, steered=3, turbulence=0.1)
    found = powers(farm, points([5.0, -8.0, 12.0, 0.5]))[0]
    expected = of_floris(255.0, 8.0, (5, -8, 12, 0), layout, 0.1)
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    assert farm.horizon == 1.0
    assert farm.spatial_bounds.tolist() == [[-30.0] * 3, [30.0] * 3]


def test_directions_are_interpolated_along_the_shorter_arc() -> None:
    pytest.importorskip("floris")
    layout = ((0.0, 0.0), (0.0, -630.0))  # a wind from the north blows along
    farm = WindFarm(torch.tensor([355.0, 5.0]), layout=layout, steered=1)
    found = powers(farm, points([10.0, 0.5]))[0]
    np.testing.assert_allclose(found, of_floris(0.0, 8.0, (10, 0), layout), rtol=1e-10)
    assert found[1] < 0.8 * found[0]


def test_the_best_power_on_a_fine_grid(farm) -> None:
    angles = torch.linspace(-30, 30, 41, dtype=torch.float64)
    grid = torch.cartesian_prod(angles, angles)
    for t in (0.0, 29.5):
        X = torch.cat([grid, torch.full((len(grid), 1), t, dtype=torch.float64)], -1)
        highest = farm.evaluate_true(X).max().item()
        best = farm.optimal_value_at(t).item()
        assert highest <= best * (1 + 1e-5)
        assert best == pytest.approx(highest, rel=2e-3)
        place = farm.optimizers_at(t)
        assert farm.at(t)(place, noise=False).item() == pytest.approx(best, rel=1e-10)
