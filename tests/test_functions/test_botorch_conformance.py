from functools import cache

import pytest
import torch
from botorch.utils.testing import (
    BaseTestProblemTestCaseMixIn,
    BotorchTestCase,
    SyntheticTestFunctionTestCaseMixin,
)
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

from botorch_tv.test_functions import (
    CartPole,
    DriftingAckley,
    DriftingBranin,
    DriftingHartmann,
    DriftingRosenbrock,
    Jumps,
    MarkovFunction,
    Schwefel,
    SlicedFunction,
    sliced_suite,
)


def _short(kernel):
    kernel = kernel.double()
    kernel.lengthscale = 0.3
    return kernel


def moving():
    jumps = Jumps(times=(10.0, 20.0))
    return [
        DriftingAckley(dim=3, motion=jumps, negate=True),
        DriftingBranin(noise_std=0.1),
        DriftingHartmann(dim=3, motion=jumps, negate=True, noise_std=0.1),
        DriftingRosenbrock(),
        MarkovFunction(_short(RBFKernel()), epsilon=0.1, dim=1, horizon=30, features=64),
        MarkovFunction(
            ScaleKernel(_short(MaternKernel(nu=2.5))).double(),
            **{"epsilon": 0.1, "horizon": 30, "features": 64, "negate": True, "noise_std": 0.1},
        ),
        CartPole(change=5.0, negate=True, noise_std=0.1),
        SlicedFunction(Schwefel(dim=3), starts=torch.full((1, 2), 421.0)),
        sliced_suite(negate=True)["shekel"],
    ]


NAMES = [*(f"Drifting{name}" for name in ("Ackley", "Branin", "Hartmann", "Rosenbrock"))]
NAMES += ["MarkovFunction", "MarkovFunction scaled", "CartPole", "SlicedFunction", "shekel"]
each_problem = pytest.mark.parametrize("problem", NAMES, indirect=True)


@cache
def named():
    """Cached, because some take a while to make; not for tests that convert them."""
    return dict(zip(NAMES, moving(), strict=True))


@pytest.fixture
def problem(request):
    return named()[request.param]


@cache
def snapshots():
    """Cached, because the search for optima takes a second."""
    return tuple(problem.at(t) for problem in moving() for t in (0.0, 15.0))


class TestMoving(BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin):
    functions = property(lambda self: moving())


class TestSnapshots(
    BotorchTestCase, BaseTestProblemTestCaseMixIn, SyntheticTestFunctionTestCaseMixin
):
    functions = property(lambda self: snapshots())


@pytest.mark.gpu
class TestSnapshotsOnCuda(TestSnapshots):
    device = torch.device("cuda")


@pytest.mark.gpu
class TestMovingOnCuda(TestMoving):
    device = torch.device("cuda")


@each_problem
def test_a_batch_of_points_is_a_loop_over_them(problem) -> None:
    lower, upper = problem.bounds
    X = lower + (upper - lower) * torch.rand(2, 3, problem.dim, dtype=torch.float64)
    X[..., -1] = X[..., -1].round()
    together = problem.evaluate_true(X)
    singly = torch.stack([problem.evaluate_true(x) for x in X.reshape(6, -1)]).reshape(2, 3)
    assert torch.allclose(together, singly, rtol=1e-10, atol=1e-12)


@each_problem
def test_a_snapshot_is_the_function_of_its_time(problem) -> None:
    time = 12.0
    X = torch.rand(7, problem.spatial_dim, dtype=torch.float64)
    lower, upper = problem.spatial_bounds
    X = lower + (upper - lower) * X
    timed = torch.cat([X, torch.full((7, 1), time, dtype=torch.float64)], dim=-1)
    snapshot = problem.at(time)
    assert torch.equal(snapshot(X, noise=False), problem(timed, noise=False))
    assert snapshot.optimal_value == problem.optimal_value_at(time).item()
    assert snapshot.is_minimization_problem == problem.is_minimization_problem
    shortfall = problem(timed, noise=False) - problem.optimal_value_at(timed[:, -1])
    sign = 1 if problem.is_minimization_problem else -1
    assert torch.allclose(problem.regret(timed), sign * shortfall)
    assert (problem.regret(timed) >= -1e-9).all()


def test_moving_a_snapshot_does_not_move_the_problem() -> None:
    for problem in moving():
        snapshot = problem.at(3.0).float()
        assert snapshot.bounds.dtype == torch.float32
        assert {buffer.dtype for buffer in problem.buffers()} == {torch.float64}


@each_problem
def test_a_gradient_flows_to_the_coordinates(problem) -> None:
    snapshot = problem.at(2.0)
    lower, upper = snapshot.bounds
    X = (lower + (upper - lower) * torch.tensor([0.31], dtype=torch.float64)).unsqueeze(0)

    def value(x):
        return snapshot(x, noise=False)

    assert torch.autograd.gradcheck(value, (X.requires_grad_(True),), eps=1e-7, atol=1e-4)
