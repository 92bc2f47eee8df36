"""Minimisation within bounds, against SciPy's L-BFGS-B and minima known by hand."""

import math

import numpy as np
import pytest
import torch
from scipy.optimize import minimize as reference
from torch.testing import assert_close

from botorch_tv.gp.quasi_newton import Descent, minimize

D = torch.float64


def counted(function):
    """The function, counting calls and noting the points of every problem."""

    def call(x, rows):
        call.calls += 1
        for number, point in zip(rows.tolist(), x):
            call.seen.setdefault(number, []).append(point.clone())
        return function(x, rows)

    call.calls, call.seen = 0, {}
    return call


def quadratics(number, p, seed=0):
    """Convex quadratics of condition numbers up to 1e4: matrices, centres, starts."""
    random = np.random.default_rng(seed)
    A = np.empty((number, p, p))
    for i in range(number):
        Q, _ = np.linalg.qr(random.standard_normal((p, p)))
        A[i] = Q @ np.diag(10 ** random.uniform(-2, 2, p)) @ Q.T
    centre = random.uniform(-0.5, 1.5, (number, p))  # often outside the unit cube
    return torch.tensor(A), torch.tensor(centre), torch.tensor(random.uniform(0, 1, (number, p)))


def quadratic(A, centre):
    def value_and_gradient(x, rows):
        apart = (x - centre[rows]).unsqueeze(-1)
        pulled = A[rows] @ apart
        return 0.5 * (apart * pulled).sum((-2, -1)), pulled.squeeze(-1)

    return value_and_gradient


def rosenbrock(x, rows):
    a, b = x[:, 0], x[:, 1]
    value = (1 - a) ** 2 + 100 * (b - a**2) ** 2
    return value, torch.stack([-2 * (1 - a) - 400 * a * (b - a**2), 200 * (b - a**2)], -1)


@pytest.mark.parametrize("p", [1, 2, 5])
def test_quadratics_in_a_cube_as_by_lbfgsb(p):
    A, centre, start = quadratics(40, p)
    found = minimize(quadratic(A, centre), start, 0.0, 1.0, evaluations=400, value_tolerance=1e-14)
    active = 0
    for i in range(len(A)):
        a, c = A[i].numpy(), centre[i].numpy()
        best = reference(
            lambda x, a=a, c=c: (0.5 * (x - c) @ a @ (x - c), a @ (x - c)),
            *(start[i].numpy(), (), "L-BFGS-B", True),
            bounds=[(0, 1)] * p,
            options={"ftol": 1e-15, "gtol": 1e-10, "maxiter": 5000},
        )
        assert float(found.value[i]) <= best.fun + 1e-6 * max(1.0, abs(best.fun)), i
        active += int(((best.x <= 0) | (best.x >= 1)).any())
    assert active >= 10  # bounds matter


def test_rosenbrock_inside_and_on_a_bound():
    start = torch.tensor([[-1.2, 1.0], [0.0, 0.0], [1.9, -1.5], [-1.2, 1.0]], dtype=D)
    upper = torch.tensor([[2.0, 2.0], [2.0, 2.0], [2.0, 2.0], [0.5, 2.0]], dtype=D)
    found = minimize(rosenbrock, start, -2.0, upper, evaluations=300, value_tolerance=1e-14)
    wanted = torch.tensor([[1.0, 1.0], [1.0, 1.0], [1.0, 1.0], [0.5, 0.25]], dtype=D)
    assert_close(found.x, wanted, rtol=0, atol=1e-3)


def test_a_batch_is_its_problems_alone():
    A, centre, start = quadratics(12, 4, seed=3)
    together = minimize(quadratic(A, centre), start, 0.0, 1.0, evaluations=50)
    for i in range(12):
        own = slice(i, i + 1)
        alone = minimize(quadratic(A[own], centre[own]), start[own], 0.0, 1.0, evaluations=50)
        assert_close(together.x[i], alone.x[0], rtol=0, atol=1e-9)
        assert_close(together.value[i], alone.value[0], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("scouting", [1, 6, 40])
def test_those_of_a_group_go_on_as_if_the_others_had_not_been_given_up(scouting):
    A, centre, start = quadratics(12, 4, seed=3)
    number = torch.arange(12).view(4, 3)
    calls = 0

    def function(x, groups):
        nonlocal calls
        calls += 1
        value, gradient = quadratic(A, centre)(x.flatten(0, 1), number[groups].flatten())
        return value.view(x.shape[:2]), gradient.view_as(x)

    def of_chosen(x):
        return x.view(4, 3, 4).gather(1, chosen.unsqueeze(-1).expand(-1, -1, 4))

    chosen = torch.tensor([[2, 0], [0, 1], [1, 2], [2, 1]])
    descent = Descent(function, start.view(4, 3, 4), 0.0, 1.0, 1e-9, 1e-6)
    descent.go(scouting)
    before = of_chosen(descent.x)
    number = number.gather(1, chosen)
    descent.go_on_with(chosen)
    assert torch.equal(descent.x, before)
    descent.go(50)
    assert descent.evaluations == calls
    whole = minimize(quadratic(A, centre), start, 0.0, 1.0, evaluations=50)
    assert_close(descent.x, of_chosen(whole.x), rtol=0, atol=1e-9)


@pytest.mark.parametrize("evaluations", [1, 2, 7, 30])
def test_evaluations_are_as_many_as_allowed_and_the_best_is_returned(evaluations):
    def waves(x, rows):
        phase = 9 * x + rows.unsqueeze(-1)
        value = phase.sin().sum(-1) + (x - 0.5).square().sum(-1)
        return value, 9 * phase.cos() + 2 * (x - 0.5)

    start = torch.rand(15, 3, generator=torch.Generator().manual_seed(0), dtype=D)
    function = counted(waves)
    found = minimize(function, start, 0.0, 1.0, evaluations=evaluations)
    assert function.calls <= evaluations
    assert found.evaluations == function.calls
    for i, seen in function.seen.items():
        points = torch.stack(seen)
        assert points.min() >= 0
        assert points.max() <= 1
        values, _ = waves(points, torch.full((len(points),), i))
        assert float(found.value[i]) == pytest.approx(float(values.min()), abs=1e-9)
        assert_close(found.x[i], points[values.argmin()], rtol=0, atol=1e-4)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_not_finite_are_walked_around(bad):
    def holed(x, rows):
        value = (x - 0.2).square().sum(-1)
        inside = ((x > 0.68) & (x < 0.75)).all(-1)
        gradient = torch.where(inside.unsqueeze(-1), bad, 2 * (x - 0.2))
        return torch.where(inside, bad, value), gradient

    start = torch.tensor([[0.8], [0.9], [0.7]], dtype=D)
    found = minimize(holed, start, 0.0, 1.0, evaluations=100)
    assert_close(found.x[:2], torch.full((2, 1), 0.2, dtype=D), rtol=0, atol=1e-4)
    assert found.x[2].isfinite().all()  # it has nowhere to go, and disturbs nobody
    assert not found.value[2].isfinite()
    assert int(found.value.argmin()) < 2  # nor is it taken for the best


def test_equal_bounds_hold_a_coordinate():
    lower, upper = torch.tensor([[0.3, 0.0], [0.3, 1.0]], dtype=D)
    start = torch.rand(3, 2, dtype=D)
    found = minimize(lambda x, _: ((x - 0.6).square().sum(-1), 2 * (x - 0.6)), start, lower, upper)
    assert_close(found.x, torch.tensor([[0.3, 0.6]] * 3, dtype=D), rtol=0, atol=1e-5)


def test_no_problems_and_flat_functions():
    none = minimize(rosenbrock, torch.empty(0, 2, dtype=D), 0.0, 1.0)
    assert none.x.shape == (0, 2)
    start = torch.full((2, 2), 0.4, dtype=D)
    flat = minimize(lambda x, rows: (x.new_zeros(len(x)), torch.zeros_like(x)), start, 0.0, 1.0)
    assert torch.equal(flat.x, start)
    assert flat.evaluations <= 3
