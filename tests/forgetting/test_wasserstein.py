"""What an observation is worth: by quadrature, by their package, and when it leaves."""

import copy
import io
import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from oracles.dense import regression, squared_exponential

from botorch_tv.forgetting import Log, WassersteinRemoval
from botorch_tv.forgetting.relevance import AT_ONCE, FEWEST, matern
from botorch_tv.strategies import Box, Grid, tv_gp_ucb, w_dbo

D = torch.float64
TOLD = {
    "X": [
        *([0.625, 0.897], [0.776, 0.225], [0.3, 0.874]),
        *([0.005, 0.821], [0.797, 0.468], [0.303, 0.278]),
    ],
    "time": [1.274, 2.225, 2.523, 2.767, 3.963, 4.978],
    "y": [-1.901, -1.29, -1.842, -0.235, -1.267, 0.271],
}
NOW, LENGTHSCALE, VARIANCE, NOISE, L_T = 5.3, 0.15, 0.9, 0.03, 2.0
EPSILON = 1 - math.exp(-2 / L_T)
# wdbo_criterion 2.2.1, a Matérn-1/2 kernel of time.
THEIRS = {
    0.5: [0.175708, 0.200861, 0.31385, 0.17912, 0.515535, 0.593125],
    1.5: [0.181902, 0.204363, 0.324185, 0.182975, 0.522467, 0.597342],
    2.5: [0.183821, 0.204997, 0.327342, 0.184003, 0.52404, 0.598047],
}


def log_of(X, time, y, noise=NOISE, now=NOW, memory=None) -> Log:
    X, time, y = (torch.as_tensor(part, dtype=D) for part in (X, time, y))
    noise = torch.as_tensor(noise, dtype=D).expand(time.shape)
    left = SimpleNamespace(X=X, time=time, y=y, noise=noise, retained=noise.isfinite())
    at = torch.tensor(now, dtype=D)
    rounds = torch.tensor(len(time) + 1)
    first = time[..., 0]
    return Log(left, now=at, rounds=len(time), since=rounds, first_time=first, memory=memory)


def told(nu: float) -> WassersteinRemoval:
    return WassersteinRemoval(EPSILON, LENGTHSCALE, nu, VARIANCE)


@pytest.mark.parametrize("nu", THEIRS)
def test_worth_is_that_of_their_package(nu):
    """To 5e-5, for what is nearer than 1e-5 there, as a row to itself, is 1e-5 away."""
    worth = told(nu).worth(log_of(**TOLD))
    torch.testing.assert_close(worth, torch.tensor(THEIRS[nu], dtype=D), rtol=0, atol=5e-5)


@pytest.mark.parametrize("nu", THEIRS)
@pytest.mark.parametrize("dim", [1, 2, 3])
def test_worth_is_that_of_their_package_where_it_is_installed(nu, dim):
    theirs = pytest.importorskip("wdbo_criterion")
    random = np.random.default_rng([int(2 * nu), dim])
    X, y = random.random((9, dim)), random.standard_normal(9)
    time = np.sort(5 * random.random(9))
    kernels = theirs.MaternKernel(LENGTHSCALE, nu), theirs.MaternKernel(L_T, 0.5)
    numbers = (9, dim, VARIANCE, NOISE)
    wanted = theirs.wasserstein_criterion(X, y, time, *numbers, *kernels, NOW, 0, 1)
    worth = told(nu).worth(log_of(X, time, y))
    torch.testing.assert_close(worth, torch.tensor(wanted), rtol=0, atol=1e-4)


def posterior(covariance, rows, X, time, y):
    """Mean and variance at all points of a net, from some rows, by the textbook."""
    x, t = X[rows, 0], time[rows]
    among = covariance(x[:, None] - x, t[:, None] - t) + NOISE * np.eye(len(rows))
    points, moments = np.linspace(-4.0, 5.0, 9001), np.polynomial.laguerre.laggauss(4)[0]
    at = NOW + moments * L_T / 2
    across = covariance(points[:, None, None] - x, at[None, :, None] - t)  # points x times x rows
    solved = np.linalg.solve(among, across.reshape(-1, len(rows)).T).T.reshape(across.shape)
    return solved @ y[rows], VARIANCE - (solved * across).sum(-1)


@pytest.mark.parametrize("nu", [2.5, math.inf])
def test_worth_is_what_quadrature_says(nu):
    """Distances integrated over a net of space and time, of posteriors with and without a row."""
    random = np.random.default_rng(3)
    X, y, time = random.random((5, 1)), random.standard_normal(5), np.sort(5 * random.random(5))
    length = 0.3

    def covariance(apart, between):
        r = np.abs(apart) / length
        s = math.sqrt(5) * r
        in_space = np.exp(-(r**2) / 2) if nu == math.inf else (1 + s + s**2 / 3) * np.exp(-s)
        return VARIANCE * in_space * np.exp(-np.abs(between) / L_T)

    weights = np.polynomial.laguerre.laggauss(4)
    # What is integrated falls as exp(-2 u / l_T), so that this is exact for it in one node.
    grown = weights[1] * np.exp(weights[0])

    def integral(values):
        return (values * grown).sum() * 9.0 / 9000

    everything = list(range(5))
    mean, variance = posterior(covariance, everything, X, time, y)
    known = integral(mean**2 + np.abs(VARIANCE - variance))
    wanted = []
    for row in everything:
        others = [one for one in everything if one != row]
        mean_without, variance_without = posterior(covariance, others, X, time, y)
        apart = (mean - mean_without) ** 2 + np.abs(variance_without - variance)
        wanted.append(math.sqrt(integral(apart) / known))
    rule = WassersteinRemoval(EPSILON, length, nu, VARIANCE)
    worth = rule.worth(log_of(X, time, y))
    torch.testing.assert_close(worth, torch.tensor(wanted, dtype=D), rtol=0, atol=1e-8)


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 2.0, 3.5, 6.0])
def test_matern_of_any_order(order):
    special = pytest.importorskip("scipy.special")
    x = torch.tensor([1e-6, 0.01, 0.7, 3.0, 20.0], dtype=D)
    at = x.clamp_min(1e-5).numpy()
    wanted = 2 ** (1 - order) / math.gamma(order) * at**order * special.kv(order, at)
    torch.testing.assert_close(matern(order, x), torch.tensor(wanted), rtol=1e-9, atol=0)


@pytest.mark.parametrize("nu", [1.5, math.inf])
def test_every_coordinate_has_its_own_lengthscale(nu):
    stretched = [[0.1 * x / 0.15, 0.4 * z / 0.15] for x, z in TOLD["X"]]
    rule = WassersteinRemoval(EPSILON, (0.1, 0.4), nu, VARIANCE)
    worth = rule.worth(log_of(**(TOLD | {"X": stretched})))
    torch.testing.assert_close(worth, told(nu).worth(log_of(**TOLD)), rtol=0, atol=1e-12)
    with pytest.raises(InputDataError, match="points have 2 columns"):
        WassersteinRemoval(EPSILON, (0.1, 0.4, 1.0), nu).worth(log_of(**TOLD))


def test_what_failed_is_worth_nothing_and_changes_nothing():
    noise = torch.full((6,), NOISE, dtype=D)
    noise[2] = math.inf
    worth = told(2.5).worth(log_of(**TOLD, noise=noise))
    others = [0, 1, 3, 4, 5]
    fewer = {name: [part[one] for one in others] for name, part in TOLD.items()}
    assert worth[2] == math.inf
    torch.testing.assert_close(worth[others], told(2.5).worth(log_of(**fewer)), rtol=0, atol=1e-12)


# ------------------------------------------------------------------ in a strategy

GRID = Grid.regular(points=6, dim=2)
K = squared_exponential(GRID.X.numpy(), 0.3)
RATE, ALPHA, SIGMA2, TRIALS, ROUNDS = 0.2, 1.0, 0.05, 3, 40


def strategy(alpha: float = ALPHA):
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.3, dtype=D)
    return w_dbo(kernel=kernel, noise=SIGMA2, epsilon=RATE, alpha=alpha)


def values() -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return torch.randn(ROUNDS, TRIALS, 36, generator=generator, dtype=D).cumsum(0) / 4


def plainly(rows, now):
    """What each row is worth, by regressions with and without it; SE kernels' squares overlap."""
    arms, times, y = (np.array(part) for part in zip(*rows))
    decay = -0.5 * math.log(1 - RATE)
    among = K[np.ix_(arms, arms)] * np.exp(-decay * np.abs(times[:, None] - times))
    overlap = np.sqrt(K[np.ix_(arms, arms)]) * np.exp(decay * (times[:, None] + times - 2 * now))

    def fitted(rows):
        inverse = np.zeros_like(among)
        at = np.ix_(rows, rows)
        inverse[at] = np.linalg.inv(among[at] + SIGMA2 * np.eye(len(rows)))
        return inverse, inverse @ y

    P, w = fitted(list(range(len(rows))))
    known = w @ overlap @ w + (P * overlap).sum()
    worth = []
    for row in range(len(rows)):
        Q, v = fitted([one for one in range(len(rows)) if one != row])
        worth.append(math.sqrt(((w - v) @ overlap @ (w - v) + ((P - Q) * overlap).sum()) / known))
    return worth


def test_rows_leave_as_by_the_book():
    """Budget, order of leaving, and the regression on what is left, to 1e-8."""
    one, f = strategy(), values()[:, 0]
    state, rows, spent, left = one.init(GRID), [], 0.0, []
    for t in range(ROUNDS):
        now = t + 1.0
        suggestion = one.ask(state, now=now)
        arms, times, y = zip(*rows) if rows else ((), (), ())
        mean, variance = regression(K, arms, times, y, now, noise=SIGMA2, decay=("markov", RATE))
        arm = int(suggestion.index)
        assert float(suggestion.mean) == pytest.approx(mean[arm], abs=1e-8)
        assert float(suggestion.sd) == pytest.approx(math.sqrt(variance[arm]), abs=1e-8)
        value = float(f[t, arm])
        state, _ = one.tell(state, suggestion, value)
        rows.append((arm, now, value))
        grown = -0.5 * math.log(1 - RATE) * (now - 1.0) * math.log(1 + ALPHA)
        for _ in range(AT_ONCE):
            worth = plainly(rows, now) if len(rows) > FEWEST else [math.inf]
            cost = math.log1p(min(worth))
            if cost >= grown - spent:
                break
            spent += cost
            rows.pop(int(np.argmin(worth)))
        left.append(len(rows))
    assert len(set(left)) > 5
    assert left[-1] < ROUNDS - 10


def played(one, state, start=0, stop=ROUNDS):
    f, seen = values(), []
    for t in range(start, stop):
        suggestion = one.ask(state)
        trials = torch.arange(len(suggestion.index))
        state, _ = one.tell(state, suggestion, f[t][trials, suggestion.index])
        seen.append(suggestion)
    return state, seen


def test_a_batch_is_its_trials():
    one, f = strategy(), values()
    _, together = played(one, one.init(GRID, batch_shape=(TRIALS,)))
    for trial in range(TRIALS):
        state = one.init(GRID)
        for t in range(ROUNDS):
            suggestion = one.ask(state)
            assert torch.equal(suggestion.index, together[t].index[trial])
            torch.testing.assert_close(suggestion.mean, together[t].mean[trial], rtol=0, atol=1e-9)
            state, _ = one.tell(state, suggestion, f[t, trial, suggestion.index])


def test_a_saved_run_goes_on_and_nothing_is_changed_in_place():
    one = strategy()
    state, _ = played(one, one.init(GRID, batch_shape=(TRIALS,)), 0, 20)
    before = copy.deepcopy(state.memory)
    saved = io.BytesIO()
    torch.save(state, saved)
    _, wanted = played(one, state, 20)
    for mine, theirs in zip(state.memory[0], before[0]):
        assert torch.equal(mine, theirs)
    saved.seek(0)
    _, found = played(one, torch.load(saved, weights_only=False), 20)
    for one_round, other in zip(found, wanted):
        assert torch.equal(one_round.index, other.index)
        assert torch.equal(one_round.mean, other.mean)


def test_without_a_budget_it_is_tv_gp_ucb():
    one = strategy(alpha=0.0)
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.3, dtype=D)
    other = tv_gp_ucb(kernel=kernel, noise=SIGMA2, epsilon=RATE)
    runs = [played(s, s.init(GRID, batch_shape=(TRIALS,)))[1] for s in (one, other)]
    for mine, theirs in zip(*runs):
        assert torch.equal(mine.index, theirs.index)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_a_box_in_either_precision(dtype):
    box, one = Box([(0.0, 1.0), (0.0, 1.0)]), strategy(alpha=3.0)
    state = one.init(box, batch_shape=(2,), dtype=dtype)
    for t in range(12):
        X = torch.rand(2, 2, generator=torch.Generator().manual_seed(t)).to(dtype)
        suggestion = one.suggestion_at(state, X)
        state, _ = one.tell(state, suggestion, torch.cos(5 * X.sum(-1)))
    assert state.memory[0][0].dtype == dtype
    assert float(state.memory[0][0].min()) > 0
    assert int(state.data.retained.sum(-1).min()) < 12


def test_a_matern_kernel_is_told_as_it_is():
    kernel = ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=2).double()).double()
    kernel.outputscale = torch.tensor(2.0, dtype=D)
    kernel.base_kernel.lengthscale = torch.tensor([[0.2, 0.4]], dtype=D)
    rule = w_dbo(kernel=kernel, noise=0.02, epsilon=0.03).retention
    assert rule.nu == 1.5
    assert rule.lengthscale == pytest.approx((0.2, 0.4))
    assert rule.variance == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"epsilon": 0.0}, "epsilon"),
        ({"alpha": -1.0}, "alpha"),
        ({"nu": 2.0}, "nu is 2.0; choose"),
        ({"lengthscale": (0.2, 0.0)}, "lengthscale"),
        ({"variance": 0.0}, "variance"),
    ],
)
def test_bad_numbers_are_refused(given, message):
    with pytest.raises(ValueError, match=f"WassersteinRemoval: {message}"):
        WassersteinRemoval(**({"epsilon": 0.1, "lengthscale": 0.2} | given))


@pytest.mark.parametrize(
    ("kernel", "more", "message"),
    [
        (PeriodicKernel().double(), {}, "available for an RBFKernel or a MaternKernel"),
        (torch.eye(36, dtype=D), {}, "available for an RBFKernel or a MaternKernel"),
        (RBFKernel().double(), {"mean": "estimated"}, "give a number"),
    ],
)
def test_what_has_no_worth_is_refused(kernel, more, message):
    with pytest.raises(ValueError, match=message):
        w_dbo(kernel=kernel, noise=0.02, epsilon=0.03, **more)
