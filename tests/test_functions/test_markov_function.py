import math

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel

from botorch_tv.test_functions import MarkovFunction


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


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dim": 7}, "dim is 7"),
        ({"dim": 0}, "dim is 0"),
        ({"changes": (0,)}, r"changes is \(0,\)"),
        ({"changes": (21,)}, r"changes is \(21,\)"),
        ({"bounds": [(0.0, 1.0)]}, "bounds has 1"),
    ],
)
def test_parameters_out_of_range(changed, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MarkovFunction(_kernel("se"), **{"epsilon": 0.1, "horizon": 20, **changed})


@pytest.mark.parametrize(
    "kernel",
    [
        PeriodicKernel(),
        MaternKernel(nu=0.5),
        RBFKernel(active_dims=[0]),
        RBFKernel(batch_shape=torch.Size([2])),
        ScaleKernel(RBFKernel() + MaternKernel()),
    ],
)
def test_unsupported_kernels(kernel) -> None:
    with pytest.raises(InputDataError, match="kernel"):
        MarkovFunction(kernel, epsilon=0.1)


def test_points_that_do_not_fit() -> None:
    problem = MarkovFunction(_kernel("se"), epsilon=0.1, horizon=5, features=8)
    with pytest.raises(ValueError, match="integer"):
        problem(torch.tensor([[0.5, 0.5, 1.5]], dtype=torch.float64))
    with pytest.raises(ValueError, match=r"time is \[1.5\]"):
        problem.optimal_value_at(1.5)
    with pytest.raises(ValueError, match=r"time is \[6\.0"):
        problem.at(6.0)
    several = MarkovFunction(_kernel("se"), epsilon=0.1, horizon=5, features=8, batch_shape=(3,))
    with pytest.raises(RuntimeError, match="broadcast"):
        several(torch.zeros(2, 4, 3, dtype=torch.float64))
    with pytest.raises(ValueError, match="batch_shape"):
        several.at(1.0)
