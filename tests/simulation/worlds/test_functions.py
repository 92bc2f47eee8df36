import math

import numpy as np
import pytest
import torch
from simulation.worlds.recorded_stream import RecordedStream

from botorch_tv.simulation import (
    FixedFunctions,
    GaussianDraw,
    RKHSFunctions,
    SmoothedDraw,
    StaticWorld,
)
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid

LINE = Grid.regular(12, 1)
SQUARE = Grid.regular(5, 2)


def dense(name: str, lengthscale: float, grid: Grid) -> np.ndarray:
    """The kernel between all arms, from its formula."""
    X = grid.X.numpy()
    r = np.sqrt(((X[:, None] - X[None]) ** 2).sum(-1)) / lengthscale
    if name == "se":
        return np.exp(-(r**2) / 2)
    return (1 + math.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-math.sqrt(5) * r)


@pytest.mark.parametrize("kernel", ["se", "matern52"])
@pytest.mark.parametrize("grid", [LINE, SQUARE])
def test_draws_have_the_covariance_of_the_kernel(kernel: str, grid: Grid) -> None:
    trials = 20_000
    drawn = GaussianDraw(unit_kernel(kernel, 0.3)).draw(grid, RecordedStream(trials))
    f = drawn.values.numpy()
    product = f[:, :, None] * f[:, None, :]
    K = dense(kernel, 0.3, grid)
    assert (np.abs(product.mean(0) - K) <= 5 * product.std(0) / trials**0.5).all()
    assert (np.abs(f.mean(0)) <= 5 * f.std(0) / trials**0.5).all()
    assert drawn.squared_norm is None


@pytest.mark.parametrize("kernel", ["se", "matern52"])
def test_smoothed_draw_is_the_posterior_mean_of_its_twin(kernel: str) -> None:
    grid, noise = Grid(torch.rand(40, 1, dtype=torch.float64)), 0.05
    g = GaussianDraw(unit_kernel(kernel, 0.2)).draw(grid, RecordedStream(7)).values.numpy()
    drawn = SmoothedDraw(unit_kernel(kernel, 0.2), noise).draw(grid, RecordedStream(7))
    K = dense(kernel, 0.2, grid)
    a = np.linalg.solve(K + noise * np.eye(40), g.T).T
    assert drawn.values.numpy() == pytest.approx(a @ K, abs=1e-9)
    assert drawn.weights.numpy() == pytest.approx(a, abs=1e-9)
    assert drawn.squared_norm.numpy() == pytest.approx(np.einsum("ti,ij,tj->t", a, K, a), rel=1e-8)


@pytest.mark.parametrize("grid", [LINE, SQUARE])
def test_kernel_sum_from_its_draws(grid: Grid) -> None:
    stream = RecordedStream(6)
    drawn = RKHSFunctions(unit_kernel("se", 0.2), terms=9).draw(grid, stream)
    place, coefficient = stream.drawn
    K = dense("se", 0.2, grid)
    for trial in range(6):
        arms = np.floor(place[trial] * len(grid)).astype(int)
        alpha = 2 * coefficient[trial] - 1
        f = sum(alpha[i] * K[arms[i]] for i in range(9))
        assert drawn.values[trial].numpy() == pytest.approx(f, abs=1e-10)
        norm = sum(alpha[i] * alpha[j] * K[arms[i], arms[j]] for i in range(9) for j in range(9))
        assert float(drawn.squared_norm[trial]) == pytest.approx(norm, rel=1e-9)
        assert drawn.weights[trial].numpy() @ K == pytest.approx(f, abs=1e-9)


def test_kernel_sum_by_moments() -> None:
    """Mean 0, and E f(x) f(x') = terms / 3 · mean over arms of k(x, x_i) k(x', x_i)."""
    trials = 20_000
    drawn = RKHSFunctions(unit_kernel("se", 0.2), terms=20).draw(LINE, RecordedStream(trials))
    f = drawn.values.numpy()
    K = dense("se", 0.2, LINE)
    product = f[:, :, None] * f[:, None, :]
    expected = 20 / 3 * K @ K / len(LINE)
    assert (np.abs(product.mean(0) - expected) <= 5 * product.std(0) / trials**0.5).all()
    squared = drawn.squared_norm.numpy()
    # α_i α_j has mean 0 apart from the diagonal: E |f|² = terms / 3.
    assert abs(squared.mean() - 20 / 3) <= 5 * squared.std() / trials**0.5


@pytest.mark.parametrize(
    "functions",
    [
        GaussianDraw(unit_kernel("se", 0.2)),
        SmoothedDraw(unit_kernel("se", 0.2), 0.1),
        RKHSFunctions(unit_kernel("se", 0.2)),
        FixedFunctions(torch.rand(80, 12, dtype=torch.float64)),
        FixedFunctions(torch.rand(12, dtype=torch.float64)),
    ],
    ids=repr,
)
def test_draws_do_not_depend_on_chunk_and_dtype(functions) -> None:
    whole = functions.draw(LINE, RecordedStream(80))
    part = functions.draw(LINE, RecordedStream(9, first=60))
    assert part.values.numpy() == pytest.approx(whole.values[60:69].numpy(), abs=1e-13)
    single = functions.draw(LINE, RecordedStream(80, dtype=torch.float32))
    assert {tensor.dtype for tensor in single if tensor is not None} == {torch.float32}
    assert single.values.numpy() == pytest.approx(whole.values.numpy(), abs=1e-4)


def test_later_changes_of_a_kernel_have_no_effect() -> None:
    kernel = unit_kernel("se", 0.2)
    functions = GaussianDraw(kernel)
    before = functions.draw(LINE, RecordedStream(2)).values
    kernel.lengthscale = torch.tensor(0.9, dtype=torch.float64)
    assert torch.equal(before, functions.draw(LINE, RecordedStream(2)).values)


def test_fixed_functions_per_trial() -> None:
    values = torch.rand(5, 12, dtype=torch.float64)
    assert torch.equal(
        FixedFunctions(values).draw(LINE, RecordedStream(2, first=3)).values, values[3:]
    )
    world = StaticWorld(LINE, functions=FixedFunctions(values), noise=0.1)
    with pytest.raises(ValueError, match=r"yields \(5, 12\) in round 1, .* 6 trials need"):
        world.look(1, trials=6)
