import math

import numpy as np
import pytest
import torch
from scipy.integrate import solve_ivp
from scipy.linalg import solve_discrete_are, solve_discrete_lyapunov

from botorch_tv.test_functions import CartPole, CartPoleSystem
from botorch_tv.test_functions.cart_pole import average_cost, optimal_gain

SYSTEM = CartPoleSystem()
Q, W = np.diag(SYSTEM.state_cost), np.diag(SYSTEM.disturbance)
FRICTIONS = {0.0: 0.03, 99.9: 0.03, 100.0: 0.075, 300.0: 0.075}


def _matrices(friction: float) -> tuple[np.ndarray, np.ndarray]:
    A, B = SYSTEM.dynamics(friction)
    return A.numpy(), B.numpy()


def _gain_points(problem: CartPole, count: int, t: float) -> torch.Tensor:
    generator = torch.Generator().manual_seed(3)
    lower, upper = problem.spatial_bounds
    share = torch.rand(count, 4, generator=generator, dtype=torch.float64)
    times = torch.full((count, 1), t, dtype=torch.float64)
    return torch.cat([lower + (upper - lower) * share, times], dim=-1)


def _derivative(state: np.ndarray, force: float, friction: float) -> np.ndarray:
    """The nonlinear cart-pole by Lagrange's equations, independent of the linearisation."""
    _, v, angle, turn = state
    m, l, M = SYSTEM.pole_mass, SYSTEM.half_length, SYSTEM.cart_mass + SYSTEM.pole_mass
    mass = np.array([[M, m * l * np.cos(angle)], [m * l * np.cos(angle), 4 / 3 * m * l**2]])
    push = np.array(
        [
            force - SYSTEM.cart_friction * v + m * l * turn**2 * np.sin(angle),
            m * 9.81 * l * np.sin(angle) - friction * turn,
        ]
    )
    a, b = np.linalg.solve(mass, push)
    return np.array([v, a, turn, b])


@pytest.mark.parametrize("friction", [0.0, 0.03, 0.075])
def test_linearisation_near_upright(friction: float) -> None:
    A, B = _matrices(friction)
    for i in range(5):
        small = 1e-5 * np.eye(5)[i]
        state, force = small[:4], small[4]
        moved = solve_ivp(
            lambda _, s, u=force: _derivative(s, u, friction),
            (0, SYSTEM.step),
            state,
            rtol=1e-10,
            atol=1e-16,
        ).y[:, -1]
        assert np.allclose(A @ state + B[:, 0] * force, moved, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("t", "friction"), FRICTIONS.items())
def test_cost_by_textbook_formulas(t: float, friction: float) -> None:
    problem = CartPole(limit=1e6)
    A, B = _matrices(friction)
    X = _gain_points(problem, 200, t)
    cost = problem(X).numpy()
    best = _riccati(0.03)[1]
    stable = 0
    for gain, value in zip(problem.gains(X).numpy(), cost):
        closed = A - B @ gain[None]
        if abs(np.linalg.eigvals(closed)).max() >= 1:
            assert value == 1e6
            continue
        stable += 1
        covariance = solve_discrete_lyapunov(closed, W)
        expected = np.trace((Q + SYSTEM.force_cost * np.outer(gain, gain)) @ covariance) / best
        assert value == pytest.approx(min(expected, 1e6), rel=1e-7)
    assert stable > 180


def _riccati(friction: float) -> tuple[np.ndarray, float]:
    A, B = _matrices(friction)
    P = solve_discrete_are(A, B, Q, np.array([[SYSTEM.force_cost]]))
    gain = np.linalg.solve(SYSTEM.force_cost + B.T @ P @ B, B.T @ P @ A)[0]
    return gain, float(np.trace(P @ W))


@pytest.mark.parametrize(("t", "friction"), FRICTIONS.items())
def test_the_optimum_solves_the_riccati_equation(t: float, friction: float) -> None:
    problem = CartPole()
    gain, cost = _riccati(friction)
    assert problem.gains(problem.optimizers_at(t)).numpy()[0] == pytest.approx(gain, rel=1e-9)
    assert problem.optimal_value_at(t).item() == pytest.approx(cost / _riccati(0.03)[1], rel=1e-10)


def test_unstable_and_costly_gains_cost_the_limit() -> None:
    problem = CartPole(limit=3.0, noise_std=0.1)
    X = _gain_points(problem, 2000, 200.0).requires_grad_(True)
    cost = problem.evaluate_true(X)
    assert cost.max() == 3
    assert cost.isfinite().all()
    (gradient,) = torch.autograd.grad(cost.sum(), X)
    assert gradient.isfinite().all()
    assert (gradient[cost == 3] == 0).all()
    assert problem.negate is False
    assert CartPole(limit=3.0, negate=True).optimal_value_at(0.0).item() == -1


def test_single_precision_agrees_with_double() -> None:
    problem = CartPole()
    X = _gain_points(problem, 500, 200.0)
    expected = problem(X)
    found = problem.float()(X.float().clamp(*problem.bounds))
    assert found.dtype == torch.float32
    assert ((found - expected).abs() / expected).max() < 1e-3


def test_the_linear_quadratic_tools_on_a_scalar_system() -> None:
    """x' = a x + b u + w: cost (q + r k²) w / (1 − (a − b k)²), the Riccati root in closed form."""
    a, b, q, r, w, k = 1.1, 0.5, 2.0, 3.0, 0.7, 0.8
    unit = torch.ones(1, 1, dtype=torch.float64)
    cost = average_cost(a * unit, b * unit, torch.tensor([k]).double(), q * unit, r, w * unit)
    assert cost.item() == pytest.approx((q + r * k**2) * w / (1 - (a - b * k) ** 2), rel=1e-6)
    gain = optimal_gain(a * unit, b * unit, q * unit, r).item()
    # p = q + a² p r / (r + b² p), the positive root of a quadratic.
    p = np.roots([b**2, r - q * b**2 - a**2 * r, -q * r]).max()
    assert gain == pytest.approx(a * b * p / (r + b**2 * p), rel=1e-10)
    far = average_cost(a * unit, b * unit, torch.tensor([0.0]).double(), q * unit, r, w * unit)
    assert far.item() == math.inf
