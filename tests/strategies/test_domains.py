"""Grids, saved states, random numbers and texts."""

import copy
import pickle

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel, MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel

from botorch_tv.forgetting import ExponentialWeights, Markov, Static, UncertaintyInjection
from botorch_tv.gp import data
from botorch_tv.gp.covariance import covariance_matrix
from botorch_tv.gp.random import draws_for, leading_normals
from botorch_tv.loop.table import forgetting_text
from botorch_tv.strategies import Box, Grid, adaptive_gp_ucb, gp_ucb, sw_gp_ucb, tv_gp_ucb
from botorch_tv.strategies import state as state_module
from botorch_tv.strategies.state import State
from botorch_tv.validation import counted, span_text

CPU = torch.device("cpu")


def set_to(kernel: Kernel, lengthscale: float | list[float]) -> Kernel:
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    return kernel


def squared_exponential(lengthscale: float = 0.2) -> Kernel:
    return set_to(RBFKernel().double(), lengthscale)


PLACES = {
    "grid": Grid.regular(3, 2),
    "box": Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)),
}


@pytest.mark.parametrize("factor", [0.01, 1.0, 1e6])
def test_points_are_arms_up_to_rounding_of_the_grids_extent(factor: float) -> None:
    for origin in (0.0, -3 * factor):
        grid = Grid(Grid.regular(4, 2).X * factor + origin)
        near, far = (share * 1e-9 * max(factor, 1) for share in (0.9, 1.2))
        assert grid.index_of(grid.X + near).tolist() == list(range(16))
        with pytest.raises(InputDataError, match="is not a point of"):
            grid.index_of(grid.X - far)


@pytest.mark.filterwarnings("ignore:the kernel's parameters are float32")
@pytest.mark.parametrize("domain", PLACES.values(), ids=PLACES)
def test_a_run_does_not_change_the_dtype_of_the_kernel(domain: Grid | Box) -> None:
    for own in (torch.float32, torch.float64):
        strategy = gp_ucb(kernel=squared_exponential().to(own), noise=0.02)
        for dtype in (torch.float64, torch.float32):
            strategy.ask(strategy.init(domain, dtype=dtype))
            assert {part.dtype for part in strategy.kernel.parameters()} == {own}


def different_kernels() -> list[Kernel]:
    scaled = ScaleKernel(squared_exponential()).double()
    scaled.outputscale = torch.tensor(2.0, dtype=torch.float64)
    first = set_to(RBFKernel(active_dims=(0,)).double(), 0.2)
    second = set_to(RBFKernel(active_dims=(1,)).double(), 0.2)
    across = set_to(RBFKernel(ard_num_dims=2).double(), [[0.2, 0.3]])
    rough = set_to(MaternKernel(nu=1.5).double(), 0.2)
    smooth = set_to(MaternKernel(nu=2.5).double(), 0.2)
    nearly = squared_exponential(0.2 * (1 + 1e-12))
    other = [PeriodicKernel().double(), PeriodicKernel().double()]
    other[1].period_length = torch.tensor(0.3, dtype=torch.float64)
    return [squared_exponential(), scaled, first, second, across, rough, smooth, nearly, *other]


def test_different_kernels_are_never_confused() -> None:
    grid, alone = Grid.regular(3, 2), Grid.regular(3, 2).X
    for turn in range(2):  # the second time from the cache
        for kernel in different_kernels():
            basis = grid.basis(kernel, "exact", dtype=torch.float64, device=CPU)
            arms = torch.arange(9)
            assert torch.equal(basis.gram(arms), covariance_matrix(kernel, alone)), (turn, kernel)


def test_a_grid_is_saved_without_its_cache() -> None:
    grid = Grid.regular(3, 2)
    bare = len(pickle.dumps(grid))
    gp_ucb(kernel=squared_exponential(), noise=0.02).init(grid)
    grid.points(torch.tensor([1]), torch.zeros(0, dtype=torch.float32))
    assert len(pickle.dumps(grid)) == bare
    again = pickle.loads(pickle.dumps(grid))
    assert torch.equal(again.points(torch.tensor([4]), again.X), grid.X[4:5])
    assert torch.equal(copy.deepcopy(grid).X, grid.X)


CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
PRESETS = {
    "tv": tv_gp_ucb(kernel=RBFKernel().double(), noise=0.01, epsilon=0.03),
    "window": sw_gp_ucb(kernel=RBFKernel().double(), noise=0.01, window=2),
    "adaptive": adaptive_gp_ucb(),
}
DOMAINS = {"grid": Grid.regular(4, 2), "box": Box(CUBE)}


def played(name: str, domain: str) -> State:
    strategy = PRESETS[name]
    state = strategy.init(DOMAINS[domain])
    for y in (0.3, -0.1, 0.2):
        point = DOMAINS["grid"].X[[5, 9][int(y > 0)]]
        state, _ = strategy.tell(state, strategy.suggestion_at(state, point), y)
    return state


def test_a_state_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "own_version", lambda: "0.0.1")
    saved = pickle.dumps(played("tv", "grid"))
    monkeypatch.setattr(state_module, "own_version", lambda: "0.0.2")
    monkeypatch.delattr(data, "Data")
    with pytest.raises(InputDataError, match=r"saved by botorch_tv 0\.0\.1, .* 0\.0\.2.*init"):
        pickle.loads(saved)


NOWHERE = torch.device("meta")
LIKE = torch.ones((), dtype=torch.float64)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_a_generator_of_the_host_serves_trials_elsewhere(several: bool, kind: str) -> None:
    made = [torch.Generator().manual_seed(seed) for seed in range(3)]
    draws = draws_for(
        made if several else made[0], (3,), torch.empty(0, dtype=torch.float64, device=NOWHERE)
    )
    numbers = getattr(draws, kind)(2)
    assert (numbers.shape, numbers.dtype, numbers.device) == ((3, 2), torch.float64, NOWHERE)
    untouched = torch.Generator().manual_seed(0)
    assert not torch.equal(made[0].get_state(), untouched.get_state())


def test_later_draws_do_not_depend_on_how_many_are_used() -> None:
    later = []
    for count in (3, 4):
        generator = torch.Generator().manual_seed(1)
        draws = draws_for(generator, (2,), LIKE)
        first = leading_normals(draws, count, 8)
        assert first.shape == (2, count)
        later.append((first[:, :3], draws.normal(5)))
    torch.testing.assert_close(later[0], later[1], rtol=0, atol=0)


@pytest.mark.parametrize(
    ("length", "unit", "text"),
    [
        (1.0, "minutes", "1 min"),
        (1.0004, "hours", "1 h"),
        (0.9996, "", "1 unit of time"),
        (46.63, "hours", "46.6 h"),
        (3612.0, "", "3610 units of time"),
        (0.25, "days", "0.25 d"),
        (2.0, "weeks", "2 weeks"),
    ],
)
def test_spans(length: float, unit: str, text: str) -> None:
    assert span_text(length, unit) == text


def test_things() -> None:
    text = [counted(number, "points") for number in (0, 1, 2)]
    assert text == ["0 points", "1 point", "2 points"]


def test_texts_of_forgetting() -> None:
    markov = forgetting_text(Markov(0.75), Static(), "minutes")  # 0.25^(age/2) = 1/2
    assert markov.endswith("correlation half-life 1 min.")
    weights = forgetting_text(Static(), ExponentialWeights(0.5), "hours")
    assert weights.endswith("noise doubling time 1 h.")
    slow = UncertaintyInjection(alpha=1e-3, kappa=0.5)  # 1 + age^0.001 / 2 = 2 after 2^1000
    assert forgetting_text(Static(), slow, "").endswith("more than 1.1e+12 units of time.")
