"""Markov functions: covariance, draws, batches, and their optima by other searches."""

import math

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from scipy.optimize import minimize

from botorch_tv.test_functions import MarkovFunction
from botorch_tv.test_functions.search import climb, derivatives_of


def _kernel(name: str, lengthscale=0.3):
    kernels = {
        "se": lambda: RBFKernel(),
        "se-ard": lambda: RBFKernel(ard_num_dims=2),
        "matern-5/2": lambda: MaternKernel(nu=2.5),
        "matern-3/2": lambda: MaternKernel(nu=1.5),
    }
    kernel = kernels[name]().double()
    kernel.lengthscale = torch.tensor([0.2, 0.6]) if name == "se-ard" else lengthscale
    return kernel


def _textbook(name: str, X: np.ndarray) -> np.ndarray:
    """Rasmussen & Williams (4.9), (4.17), written out."""
    lengthscale = np.array([0.2, 0.6]) if name == "se-ard" else 0.3
    difference = (X[:, None, :] - X[None, :, :]) / lengthscale
    r = np.sqrt((difference**2).sum(-1))
    if name.startswith("se"):
        return np.exp(-(r**2) / 2)
    if name == "matern-5/2":
        return (1 + math.sqrt(5) * r + 5 * r**2 / 3) * np.exp(-math.sqrt(5) * r)
    return (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r)


def _values(problem: MarkovFunction, X: torch.Tensor, t: int) -> np.ndarray:
    times = torch.full((len(X), 1), t, dtype=X.dtype)
    return problem(torch.cat([X, times], dim=-1)).numpy()


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["se", "se-ard", "matern-5/2", "matern-3/2"])
def test_covariance_in_space_and_time_is_the_models(name: str) -> None:
    worlds, epsilon, scale = 20_000, 0.2, 1.7
    kernel = ScaleKernel(_kernel(name)).double()
    kernel.outputscale = scale
    problem = MarkovFunction(
        kernel, epsilon=epsilon, horizon=4, batch_shape=(worlds,), features=16, seed=5
    )
    X = torch.rand(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    f = {t: _values(problem, X, t) for t in (0, 1, 4)}
    K = scale * _textbook(name, X.numpy())
    for s, t in ((0, 0), (4, 4), (0, 1), (1, 4), (0, 4)):
        product = f[s][:, :, None] * f[t][:, None, :]
        error = product.std(0) / worlds**0.5
        expected = (1 - epsilon) ** ((t - s) / 2) * K
        assert (np.abs(product.mean(0) - expected) <= 5 * error).all()
        assert error.max() < 0.04 * scale
    for t in (0, 4):
        assert (np.abs(f[t].mean(0)) <= 5 * f[t].std(0) / worlds**0.5).all()


def test_static_functions_and_changes() -> None:
    problem = MarkovFunction(
        _kernel("se"), epsilon=0.0, changes=(5,), horizon=9, batch_shape=(4000,), features=16
    )
    X = torch.tensor([[0.3, 0.4]], dtype=torch.float64)
    f = {t: _values(problem, X, t)[:, 0] for t in (0, 4, 5, 9)}
    assert np.array_equal(f[0], f[4])
    assert np.array_equal(f[5], f[9])
    assert abs(np.corrcoef(f[4], f[5])[0, 1]) < 5 / math.sqrt(4000)


def test_draws_depend_only_on_the_seed() -> None:
    def draw(seed: int) -> np.ndarray:
        torch.rand(3)
        problem = MarkovFunction(_kernel("se"), epsilon=0.1, horizon=5, features=32, seed=seed)
        return _values(problem, torch.rand(4, 2, generator=torch.Generator().manual_seed(1)), 3)

    assert np.array_equal(draw(1), draw(1))
    assert not np.array_equal(draw(1), draw(2))


def test_batches_of_functions() -> None:
    problem = MarkovFunction(_kernel("se"), epsilon=0.3, horizon=6, batch_shape=(2, 3), features=32)
    X = torch.rand(2, 3, 4, 3, dtype=torch.float64)
    X[..., -1] = torch.randint(0, 7, (2, 3, 4)).double()
    own = problem(X)
    assert own.shape == (2, 3, 4)
    everywhere = problem(X[1, 2])  # n x d broadcasts to every function
    assert everywhere.shape == (2, 3, 4)
    assert torch.allclose(everywhere[1, 2], own[1, 2], rtol=1e-10, atol=1e-12)
    assert not torch.allclose(everywhere[0, 0], own[0, 0])
    leading = problem(X.expand(5, 2, 3, 4, 3))
    assert torch.allclose(leading[3], own, rtol=1e-10, atol=1e-12)
    regret = problem.regret(X)
    assert regret.shape == (2, 3, 4)
    assert (regret >= 0).all()
    assert problem.optimal_value_at(2.0).shape == (2, 3)
    assert torch.equal(problem.regret(X.expand(5, 2, 3, 4, 3))[4], problem.regret(X))
    assert problem.optimizers_at(2.0).shape == (2, 3, 1, 2)


def _world(dim: int, lengthscale: float, *, rounds: int, seed: int, rough: bool = False):
    kernel = (MaternKernel(nu=1.5) if rough else RBFKernel()).double()
    kernel.lengthscale = lengthscale
    # Every round is a new function, so a few rounds are as many independent cases.
    return MarkovFunction(kernel, epsilon=1.0, dim=dim, horizon=rounds - 1, features=64, seed=seed)


@pytest.mark.few(1)
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


@pytest.mark.few("2-0.2-False-2")
@pytest.mark.parametrize(
    ("dim", "lengthscale", "rough", "seed"),
    [(2, 0.2, False, 2), (2, 0.2, True, 2), (4, 0.3, False, 3), (6, 0.5, False, 3)],
)
def test_another_search_finds_nothing_higher(dim, lengthscale, rough, seed) -> None:
    problem = _world(dim, lengthscale, rounds=2, seed=seed, rough=rough)
    generator = torch.Generator().manual_seed(7)
    X = torch.rand(20_000, dim, generator=generator, dtype=torch.float64)
    for t in range(2):
        snapshot = problem.at(float(t))

        def slope(x: np.ndarray, f=snapshot):
            X = torch.tensor(x).clamp(0, 1).requires_grad_(True)
            value = -f(X)
            (gradient,) = torch.autograd.grad(value, X)
            return value.item(), gradient.numpy()

        options = {"jac": True, "bounds": [(0, 1)] * dim, "options": {"ftol": 1e-15, "gtol": 1e-9}}
        starts = X[snapshot(X).topk(8).indices].numpy()
        found = max(-minimize(slope, start, **options).fun for start in starts)
        best = problem.optimal_value_at(float(t)).item()
        assert snapshot(X).max().item() <= best
        assert found <= best + (1e-12 if dim == 2 else 1e-10)
        if dim == 2:
            assert found == pytest.approx(best, abs=1e-7)


@pytest.mark.full
def test_the_highest_of_many_peaks() -> None:
    problem = _world(2, 0.07, rounds=32, seed=6)
    axis = torch.linspace(0, 1, 341, dtype=torch.float64)
    X = torch.cartesian_prod(axis, axis)
    angle = X @ problem._frequencies.mT
    highest = (torch.cat([angle.cos(), angle.sin()], dim=-1) @ problem._weights.mT).amax(0)
    best = problem.optimal_value_at(torch.arange(32.0, dtype=torch.float64))
    assert (highest <= best).all()
    assert (highest >= best - 0.01).all()


def test_optimizers_and_values_agree_in_any_order() -> None:
    first = _world(2, 0.3, rounds=40, seed=4)
    second = _world(2, 0.3, rounds=40, seed=4)
    whole = first.optimal_value_at(torch.arange(40.0, dtype=torch.float64))
    for t in (33, 2, 17):
        assert second.optimal_value_at(float(t)).item() == whole[t].item()
        place = first.optimizers_at(float(t))
        value = first.at(float(t))(place).item()
        assert value == pytest.approx(whole[t].item(), abs=1e-12)


def test_the_ascent_stops_at_bounds_and_escapes_saddles() -> None:
    """x² − y² on a box is highest where |x| is largest and y = 0; it begins on the saddle's rim."""

    def saddle(X: torch.Tensor) -> torch.Tensor:
        return X[:, 0] ** 2 - X[:, 1] ** 2

    bounds = torch.tensor([[-1.0, -1.0], [2.0, 3.0]], dtype=torch.float64)
    start = torch.tensor([[1e-3, 2.0], [-1e-3, -0.5], [2.0, 3.0]], dtype=torch.float64)
    X, value = climb(derivatives_of(saddle), start, bounds)
    assert value.tolist() == pytest.approx([4.0, 1.0, 4.0], abs=1e-12)
    assert X[:, 0].tolist() == [2.0, -1.0, 2.0]
