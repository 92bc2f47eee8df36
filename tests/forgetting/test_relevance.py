"""Worth of observations by quadrature and by the authors' package, and their removal."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import MaternKernel, ScaleKernel
from oracles.dense import regression, squared_exponential

from botorch_tv.forgetting import Log, WassersteinRemoval
from botorch_tv.forgetting.relevance import AT_ONCE, FEWEST, matern
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, Grid, w_dbo

D = torch.float64
DATA = {
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
    sizes = SimpleNamespace(X=X, time=time, y=y, noise=noise, retained=noise.isfinite())
    at = torch.tensor(now, dtype=D)
    rounds = torch.tensor(len(time) + 1)
    first = time[..., 0]
    return Log(sizes, now=at, rounds=len(time), since=rounds, first_time=first, memory=memory)


def rule_of(nu: float) -> WassersteinRemoval:
    return WassersteinRemoval(EPSILON, LENGTHSCALE, nu, VARIANCE)


@pytest.mark.parametrize("nu", THEIRS)
def test_worth_equals_the_authors_package(nu):
    """To 5e-5, because their package replaces distances below 1e-5 by 1e-5."""
    worth = rule_of(nu).worth(log_of(**DATA))
    torch.testing.assert_close(worth, torch.tensor(THEIRS[nu], dtype=D), rtol=0, atol=5e-5)


@pytest.mark.parametrize("order", [0.5, 1.0, 1.5, 2.0, 3.5, 6.0])
def test_matern_of_any_order(order):
    special = pytest.importorskip("scipy.special")
    x = torch.tensor([1e-6, 0.01, 0.7, 3.0, 20.0], dtype=D)
    at = x.clamp_min(1e-5).numpy()
    wanted = 2 ** (1 - order) / math.gamma(order) * at**order * special.kv(order, at)
    torch.testing.assert_close(matern(order, x), torch.tensor(wanted), rtol=1e-9, atol=0)


@pytest.mark.parametrize("nu", [1.5, math.inf])
def test_lengthscale_per_column(nu):
    stretched = [[0.1 * x / 0.15, 0.4 * z / 0.15] for x, z in DATA["X"]]
    rule = WassersteinRemoval(EPSILON, (0.1, 0.4), nu, VARIANCE)
    worth = rule.worth(log_of(**(DATA | {"X": stretched})))
    torch.testing.assert_close(worth, rule_of(nu).worth(log_of(**DATA)), rtol=0, atol=1e-12)
    with pytest.raises(InputDataError, match="points have 2 columns"):
        WassersteinRemoval(EPSILON, (0.1, 0.4, 1.0), nu).worth(log_of(**DATA))


def test_failed_rows_have_no_effect():
    noise = torch.full((6,), NOISE, dtype=D)
    noise[2] = math.inf
    worth = rule_of(2.5).worth(log_of(**DATA, noise=noise))
    rest = [0, 1, 3, 4, 5]
    fewer = {name: [part[row] for row in rest] for name, part in DATA.items()}
    assert worth[2] == math.inf
    torch.testing.assert_close(worth[rest], rule_of(2.5).worth(log_of(**fewer)), rtol=0, atol=1e-12)


@pytest.mark.parametrize("live", [2, 3, 5])
def test_failed_rows_do_not_count_as_remaining_rows(live):
    """However large the budget is, two rows with a value remain."""
    noise = torch.full((6,), NOISE, dtype=D)
    noise[: 6 - live] = math.inf
    rule = WassersteinRemoval(EPSILON, LENGTHSCALE, 2.5, VARIANCE, alpha=1e3)
    memory = torch.zeros((), dtype=D), torch.zeros(5, dtype=torch.bool)
    spent, removed = rule.update(log_of(**DATA, noise=noise, memory=memory))
    assert int(removed.sum()) == live - FEWEST
    assert not removed[: 6 - live].any()
    assert bool(spent > 0) == (live > FEWEST)


def test_without_growth_a_row_of_no_worth_remains():
    """An old and distant row, whose worth is exactly 0, and a budget of exactly 0."""
    rule = WassersteinRemoval(EPSILON, LENGTHSCALE, variance=VARIANCE, alpha=0.0)
    memory = torch.zeros((), dtype=D), torch.zeros(2, dtype=torch.bool)
    log = log_of([[0.0], [50.0], [90.0]], [0.0, 4e3, 4e3], [1.0, 2.0, 3.0], now=4e3, memory=memory)
    assert rule.worth(log)[0] == 0
    assert not rule.update(log)[1].any()


# ------------------------------------------------------------------ in a strategy

GRID = Grid.regular(points=6, dim=2)
K = squared_exponential(GRID.X.numpy(), 0.3)
RATE, ALPHA, SIGMA2, ROUNDS = 0.2, 1.0, 0.05, 40


def strategy(alpha: float = ALPHA):
    return w_dbo(kernel=unit_kernel("se", 0.3), noise=SIGMA2, epsilon=RATE, alpha=alpha)


def worth_by_definition(rows, now):
    """Worth of each row by regressions with and without it, for a squared exponential kernel."""
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
    whole = w @ overlap @ w + (P * overlap).sum()
    worth = []
    for row in range(len(rows)):
        Q, v = fitted([other for other in range(len(rows)) if other != row])
        worth.append(math.sqrt(((w - v) @ overlap @ (w - v) + ((P - Q) * overlap).sum()) / whole))
    return worth


def test_rows_are_removed_as_by_the_textbook():
    """Budget, order of removal, and the regression on the remaining rows, to 1e-8."""
    removing, generator = strategy(), torch.Generator().manual_seed(2)
    f = torch.randn(ROUNDS, 36, generator=generator, dtype=D).cumsum(0) / 4
    state, rows, spent, sizes = removing.init(GRID), [], 0.0, []
    for t in range(ROUNDS):
        now = t + 1.0
        suggestion = removing.ask(state, now=now)
        arms, times, y = zip(*rows) if rows else ((), (), ())
        mean, variance = regression(K, arms, times, y, now, noise=SIGMA2, decay=("markov", RATE))
        arm = int(suggestion.index)
        assert float(suggestion.mean) == pytest.approx(mean[arm], abs=1e-8)
        assert float(suggestion.sd) == pytest.approx(math.sqrt(variance[arm]), abs=1e-8)
        value = float(f[t, arm])
        state, _ = removing.tell(state, suggestion, value)
        rows.append((arm, now, value))
        grown = -0.5 * math.log(1 - RATE) * (now - 1.0) * math.log(1 + ALPHA)
        for _ in range(AT_ONCE):
            worth = worth_by_definition(rows, now) if len(rows) > FEWEST else [math.inf]
            cost = math.log1p(min(worth))
            if cost >= grown - spent:
                break
            spent += cost
            rows.pop(int(np.argmin(worth)))
        sizes.append(len(rows))
    assert len(set(sizes)) > 5
    assert sizes[-1] < ROUNDS - 10


def test_preset_reads_the_kernel():
    kernel = ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=2).double()).double()
    kernel.outputscale = torch.tensor(2.0, dtype=D)
    kernel.base_kernel.lengthscale = torch.tensor([[0.2, 0.4]], dtype=D)
    rule = w_dbo(kernel=kernel, noise=0.02, epsilon=0.03).retention
    assert rule.nu == 1.5
    assert rule.lengthscale == pytest.approx((0.2, 0.4))
    assert rule.variance == pytest.approx(2.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_batch_on_a_box_is_its_trials_in_either_precision(dtype):
    box, removing = Box([(0.0, 1.0), (0.0, 1.0)]), strategy(alpha=3.0)
    X = torch.rand(12, 2, 2, generator=torch.Generator().manual_seed(0)).to(dtype)

    def after(shape, X):
        state = removing.init(box, batch_shape=shape, dtype=dtype)
        for x in X:
            suggestion = removing.suggestion_at(state, x)
            state, _ = removing.tell(state, suggestion, torch.cos(5 * x.sum(-1)))
        return state

    state = after((2,), X)
    assert state.memory[0][0].dtype == dtype
    assert float(state.memory[0][0].min()) > 0
    assert int(state.data.retained.sum(-1).min()) < 12
    for trial in range(2):
        alone = after((), X[:, trial])
        torch.testing.assert_close(state.memory[0][0][trial], alone.memory[0][0])
        assert int(state.data.retained[trial].sum()) == int(alone.data.retained.sum())
