import math

import numpy as np
import pytest
import torch
from botorch.test_functions import Ackley, Shekel
from botorch.test_functions.synthetic import SyntheticTestFunction

from benchmarks.peers.slices import SLICES
from botorch_tv.test_functions import SlicedFunction, sliced_suite

BEST = {
    "rastrigin": (0.0, 0.0),
    "schwefel": (0.0, 420.968746359982),
    "styblinski-tang": (-39.16616570377142 * 4, -2.903534027771177),
    "eggholder": (-959.6406627106155, 404.2318058),
    "ackley": (0.0, 0.0),
    "rosenbrock": (0.0, 1.0),
    "shekel": (-10.536443, 3.9995098),
    "hartmann-3": (-3.8627797869493365, 0.85254695),
    "hartmann-6": (-3.3223680114155147, 0.65730053),
    "powell": (0.0, 0.0),
}
"""From the literature: minima over all coordinates including time, and where in time."""


@pytest.fixture(scope="module")
def suite():
    return sliced_suite(horizon=100.0)


def of(problem, X, t):
    """Points of the unit cube at a time, `n x (d + 1)`."""
    lower, upper = problem.spatial_bounds
    Y = lower + (upper - lower) * torch.as_tensor(X)
    return torch.cat([Y, torch.full((len(Y), 1), float(t), dtype=torch.float64)], -1)


@pytest.mark.parametrize("name", list(BEST))
def test_values_are_those_of_the_textbook_formula(suite, name) -> None:
    problem, slices = suite[name], SLICES[name]
    assert list(suite) == list(SLICES)
    X = np.random.default_rng(0).random((500, problem.spatial_dim))
    for t in (0.0, 12.5, 100.0):
        expected = slices.cost(X, t / 100)
        rounded = 1e-7 if name in ("shekel", "hartmann-3", "hartmann-6") else 1e-13
        found = problem.evaluate_true(of(problem, X, t)).numpy()
        assert np.abs(found - expected).max() <= rounded * np.abs(expected).max()


@pytest.mark.parametrize("name", list(BEST))
def test_the_best_slice_has_the_minimum_of_the_literature(suite, name) -> None:
    problem, slices = suite[name], SLICES[name]
    t = 100 * (BEST[name][1] - slices.lower) / (slices.upper - slices.lower)
    assert problem.optimal_value_at(t).item() == pytest.approx(BEST[name][0], abs=2e-6)
    here = problem.optimizers_at(t)
    assert here.shape == (1, problem.spatial_dim)
    there = problem.at(t)(here, noise=False).item()
    assert there == pytest.approx(problem.optimal_value_at(t).item(), rel=1e-12, abs=1e-12)


@pytest.mark.few(2)
@pytest.mark.parametrize("name", list(BEST))
def test_no_point_is_below_the_best_of_its_slice(suite, name) -> None:
    problem, slices = suite[name], SLICES[name]
    X = np.random.default_rng(1).random((5_000, problem.spatial_dim))
    for t in (0.0, 31.0, 77.0, 100.0):
        assert problem.regret(of(problem, X, t)).min() >= -1e-12 * slices.deviation()
        expected = problem.optimal_value_at(t).item()
        assert slices.least(t / 100) == pytest.approx(expected, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("name", ["rastrigin", "eggholder", "powell"])
def test_noise_is_a_share_of_the_variance(suite, name) -> None:
    share = sliced_suite(noise=0.2)[name].noise_std / suite[name].noise_std
    assert share == pytest.approx(2.0)
    # Variances over the box by other points; Powell's is that of a few corners.
    assert suite[name].noise_std == pytest.approx(
        math.sqrt(0.05) * SLICES[name].deviation(), rel=0.02
    )


@pytest.mark.full
def test_batches_of_times() -> None:
    make = lambda: SlicedFunction(Shekel(), horizon=40.0)  # noqa: E731
    together, alone = make(), make()
    t = torch.arange(0.0, 41.0, dtype=torch.float64)
    values = together.optimal_value_at(t.reshape(1, 41)).reshape(41)
    for time in (0, 7, 16, 17, 40):
        assert alone.optimal_value_at(float(time)).item() == pytest.approx(values[time].item())


class Needle(SyntheticTestFunction):
    """Constant except for a minimum of width 1e-7 that moves with time."""

    def __init__(self):
        self.dim, self.continuous_inds = 2, [0, 1]
        self._optimizers, self._optimal_value = [(0.3, 0.0)], -1.0
        super().__init__(bounds=[(0.0, 1.0), (0.0, 0.1)])

    def _evaluate_true(self, X):
        return -torch.exp(-(((X[..., 0] - 0.3 - X[..., 1]) / 1e-7) ** 2))


def test_starts_find_narrow_minima() -> None:
    starts = torch.tensor([[0.30000004]], dtype=torch.float64)
    without, given = SlicedFunction(Needle()), SlicedFunction(Needle(), starts=starts)
    assert without.optimal_value_at(0.0).item() > -0.9
    assert given.optimal_value_at(0.0).item() == pytest.approx(-1.0, abs=1e-12)


def test_optimum_at_a_kink() -> None:
    problem = SlicedFunction(Ackley(dim=3), starts=torch.zeros(1, 2), horizon=10.0)
    assert abs(problem.optimal_value_at(5.0).item()) < 1e-14
    assert problem.optimizers_at(5.0).tolist() == [[0.0, 0.0]]
