import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel
from scipy.optimize import minimize

from botorch_tv.test_functions import MarkovFunction
from botorch_tv.test_functions.search import climb, derivatives_of


def _world(dim: int, lengthscale: float, *, rounds: int, seed: int, rough: bool = False):
    kernel = (MaternKernel(nu=1.5) if rough else RBFKernel()).double()
    kernel.lengthscale = lengthscale
    # Every round is a new function, so a few rounds are as many independent cases.
    return MarkovFunction(kernel, epsilon=1.0, dim=dim, horizon=rounds - 1, features=64, seed=seed)


@pytest.mark.parametrize(("rough", "lengthscale"), [(False, 0.2), (False, 0.03), (True, 0.1)])
def test_a_line_is_searched_to_rounding(rough: bool, lengthscale: float) -> None:
    """Against 40,001 points; between two of them a peak rises by at most h² max|f''| / 8."""
    problem = _world(1, lengthscale, rounds=3, seed=1, rough=rough)
    X = torch.linspace(0, 1, 40_001, dtype=torch.float64).unsqueeze(-1)
    for t in range(3):
        value = problem.at(float(t))(X)
        rise = (value[2:] - 2 * value[1:-1] + value[:-2]).abs().max().item() / 8
        best = problem.optimal_value_at(float(t)).item()
        assert value.max().item() <= best + 1e-13
        assert best <= value.max().item() + 2 * rise


@pytest.mark.parametrize("rough", [False, True])
def test_a_square_is_searched_to_rounding(rough: bool) -> None:
    problem = _world(2, 0.2, rounds=2, seed=2, rough=rough)
    axis = torch.linspace(0, 1, 151, dtype=torch.float64)
    X = torch.cartesian_prod(axis, axis)
    for t in range(2):
        snapshot = problem.at(float(t))
        value = snapshot(X)
        start = X[value.argmax()].numpy()
        found = -minimize(
            lambda x, f=snapshot: -f(torch.tensor(x).clamp(0, 1)).item(),
            start,
            bounds=[(0, 1)] * 2,
            options={"ftol": 1e-15, "gtol": 1e-9},
        ).fun
        best = problem.optimal_value_at(float(t)).item()
        assert value.max().item() <= best
        assert found == pytest.approx(best, abs=1e-7)
        assert found <= best + 1e-12


def test_the_highest_of_many_peaks() -> None:
    problem = _world(2, 0.07, rounds=32, seed=6)
    axis = torch.linspace(0, 1, 341, dtype=torch.float64)
    X = torch.cartesian_prod(axis, axis)
    angle = X @ problem._frequencies.mT
    highest = (torch.cat([angle.cos(), angle.sin()], dim=-1) @ problem._weights.mT).amax(0)
    best = problem.optimal_value_at(torch.arange(32.0, dtype=torch.float64))
    assert (highest <= best).all()
    assert (highest >= best - 0.01).all()


@pytest.mark.parametrize(("dim", "lengthscale"), [(4, 0.3), (6, 0.5)])
def test_more_dimensions_against_another_search(dim: int, lengthscale: float) -> None:
    problem = _world(dim, lengthscale, rounds=3, seed=3)
    generator = torch.Generator().manual_seed(7)
    X = torch.rand(20_000, dim, generator=generator, dtype=torch.float64)
    for t in range(3):
        snapshot = problem.at(float(t))

        def slope(x: np.ndarray, f=snapshot):
            X = torch.tensor(x).clamp(0, 1).requires_grad_(True)
            value = -f(X)
            (gradient,) = torch.autograd.grad(value, X)
            return value.item(), gradient.numpy()

        starts = X[snapshot(X).topk(8).indices].numpy()
        found = max(
            -minimize(slope, start, jac=True, bounds=[(0, 1)] * dim).fun for start in starts
        )
        assert found <= problem.optimal_value_at(float(t)).item() + 1e-10


def test_optimizers_and_values_agree_in_any_order() -> None:
    first = _world(2, 0.3, rounds=40, seed=4)
    second = _world(2, 0.3, rounds=40, seed=4)
    whole = first.optimal_value_at(torch.arange(40.0, dtype=torch.float64))
    for t in (33, 2, 17):
        assert second.optimal_value_at(float(t)).item() == whole[t].item()
        place = first.optimizers_at(float(t))
        value = first.at(float(t))(place).item()
        assert value == pytest.approx(whole[t].item(), abs=1e-12)


def test_single_precision() -> None:
    problem = _world(2, 0.3, rounds=4, seed=5)
    before = problem.optimal_value_at(2.0)
    after = problem.float().optimal_value_at(2.0)
    assert after.dtype == torch.float32
    assert after.item() == pytest.approx(before.item(), abs=1e-5)
    X = torch.rand(50, 3)
    X[:, -1] = 2
    assert (problem.regret(X) >= -1e-5).all()


def test_the_ascent_stops_at_bounds_and_escapes_saddles() -> None:
    """x² − y² on a box is highest where |x| is largest and y = 0; it begins on the saddle's rim."""

    def saddle(X: torch.Tensor) -> torch.Tensor:
        return X[:, 0] ** 2 - X[:, 1] ** 2

    bounds = torch.tensor([[-1.0, -1.0], [2.0, 3.0]], dtype=torch.float64)
    start = torch.tensor([[1e-3, 2.0], [-1e-3, -0.5], [2.0, 3.0]], dtype=torch.float64)
    X, value = climb(derivatives_of(saddle), start, bounds)
    assert value.tolist() == pytest.approx([4.0, 1.0, 4.0], abs=1e-12)
    assert X[:, 0].tolist() == [2.0, -1.0, 2.0]
