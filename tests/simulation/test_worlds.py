import itertools
import random
from collections.abc import Callable
from itertools import islice, pairwise

import numpy as np
import pytest
import torch
from gpytorch.kernels import MaternKernel, ScaleKernel
from oracles.dense import matern_five_halves, squared_exponential
from simulation.recorded_stream import RecordedStream, rounds

from botorch_tv.simulation import (
    AbruptWorld,
    DriftWorld,
    FixedFunctions,
    GaussianDraw,
    GMPBWorld,
    GridWorld,
    MarkovWorld,
    MovingPeaksWorld,
    PanelWorld,
    PowerLawWorld,
    RKHSFunctions,
    SineWorld,
    SmoothedDraw,
    StaticWorld,
    run_study,
)
from botorch_tv.simulation.panels import make_panel
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.strategies import Grid, random_search

LINE = Grid.regular(8, 1)
SE = unit_kernel("se", 0.2)
OWN = [FixedFunctions(torch.full((8,), value, dtype=torch.float64)) for value in (1.0, 2.0, 3.0)]
DISTRIBUTIONS = [GaussianDraw(SE), SmoothedDraw(SE, 0.1), RKHSFunctions(SE, 5)]


def test_abrupt_changes_in_the_rounds_named() -> None:
    world = AbruptWorld(LINE, functions=OWN, changes=(100, 200), noise=0.1)
    f = rounds(world, RecordedStream(2), 500)[:, 1, 3]
    # f1 for t < 100, f2 to 200, f3 after; entry t - 1 is round t.
    assert f.tolist() == [1.0] * 99 + [2.0] * 100 + [3.0] * 301


@pytest.mark.parametrize(("horizon", "legs"), [(50, 1), (50, 2), (51, 2)])
def test_drift_by_its_formula(horizon: int, legs: int) -> None:
    """[W22] §7 and appendix E: f4 + (f5 - f4) t / T, or in two legs by way of f5 to f6."""
    drawn = RKHSFunctions(SE, 5)
    world = DriftWorld(LINE, functions=drawn, horizon=horizon, legs=legs, noise=0.1)
    ends = [draw.values.numpy() for draw in world.draw(RecordedStream(3))]
    f = rounds(world, RecordedStream(3), horizon)
    for t in range(1, horizon + 1):
        leg = 0 if t <= horizon / legs else 1
        share = t * legs / horizon - leg
        expected = ends[leg] + (ends[leg + 1] - ends[leg]) * share
        assert f[t - 1] == pytest.approx(expected, abs=1e-14)
    assert len(list(itertools.islice(world.rounds(RecordedStream(1)), 99))) == horizon


def test_static() -> None:
    world = StaticWorld(LINE, functions=SmoothedDraw(SE, 0.1), noise=0.1)
    f = rounds(world, RecordedStream(4), 6)
    assert np.array_equal(f[0], f[5])
    assert len(np.unique(f[0], axis=0)) == 4  # a function of its own for every trial


@pytest.mark.few(2)
@pytest.mark.parametrize("functions", [*DISTRIBUTIONS, OWN], ids=repr)
def test_draws_do_not_depend_on_chunks_and_dtype(functions) -> None:
    several = isinstance(functions, list)
    for world in (
        StaticWorld(LINE, functions=functions[0] if several else functions, noise=0.1),
        AbruptWorld(LINE, functions=functions, changes=(2, 5), noise=0.1),
        DriftWorld(LINE, functions=functions, horizon=6, legs=2, noise=0.1),
    ):
        whole = rounds(world, RecordedStream(80), 6)
        part = rounds(world, RecordedStream(9, first=60), 6)
        assert part == pytest.approx(whole[:, 60:69], abs=1e-13)
        single = rounds(world, RecordedStream(80, dtype=torch.float32), 6)
        assert single.dtype == np.float32
        assert single == pytest.approx(whole, abs=1e-4)
        if not several:
            drawn = torch.cat([draw.values for draw in world.draw(RecordedStream(4))])
            assert len(torch.unique(drawn, dim=0)) == len(drawn)
            parts = functions.draw(LINE, RecordedStream(4, dtype=torch.float32))
            assert {tensor.dtype for tensor in parts if tensor is not None} == {torch.float32}


@pytest.mark.parametrize(
    ("kind", "parts", "message"),
    [
        (AbruptWorld, {"functions": OWN, "changes": (5, 5)}, r"changes is \(5, 5\)"),
        (AbruptWorld, {"functions": OWN, "changes": (5,)}, "3 distributions.*has 2 functions"),
        (AbruptWorld, {"functions": OWN[0], "changes": (2, 5)}, "the same function 3 times"),
        (DriftWorld, {"functions": OWN, "horizon": 6}, "3 distributions.*has 2 functions"),
        (SineWorld, {"kernel": SE, "centers": 0}, "centers is 0"),
        (SineWorld, {"kernel": SE, "domain": Grid.regular(3, 2)}, "domain has 2 dimensions"),
    ],
)
def test_bad_worlds(kind, parts, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        kind(**{"domain": LINE, "noise": 0.1, **parts})


DOZEN = Grid.regular(12, 1)
SQUARE = Grid.regular(5, 2)


KERNELS = {"se": squared_exponential, "matern52": matern_five_halves}


def assert_covariance(f: np.ndarray, g: np.ndarray, expected: np.ndarray) -> None:
    """The means of products over trials, within five standard errors."""
    mean = f.T @ g / len(f)
    error = np.sqrt(((f**2).T @ g**2 / len(f) - mean**2) / len(f))
    assert (np.abs(mean - expected) <= 5 * error).all()


@pytest.mark.parametrize("kernel", ["se", "matern52"])
@pytest.mark.parametrize("grid", [DOZEN, SQUARE])
def test_draws_have_the_covariance_of_the_kernel(kernel: str, grid: Grid) -> None:
    trials = 20_000
    drawn = GaussianDraw(unit_kernel(kernel, 0.3)).draw(grid, RecordedStream(trials))
    f = drawn.values.numpy()
    assert_covariance(f, f, KERNELS[kernel](grid.X, 0.3))
    assert (np.abs(f.mean(0)) <= 5 * f.std(0) / trials**0.5).all()
    assert drawn.squared_norm is None


@pytest.mark.parametrize("kernel", ["se", "matern52"])
def test_smoothed_draw_is_the_posterior_mean_of_its_twin(kernel: str) -> None:
    grid, noise = Grid(torch.rand(40, 1, dtype=torch.float64)), 0.05
    g = GaussianDraw(unit_kernel(kernel, 0.2)).draw(grid, RecordedStream(7)).values.numpy()
    drawn = SmoothedDraw(unit_kernel(kernel, 0.2), noise).draw(grid, RecordedStream(7))
    K = KERNELS[kernel](grid.X, 0.2)
    a = np.linalg.solve(K + noise * np.eye(40), g.T).T
    assert drawn.values.numpy() == pytest.approx(a @ K, abs=1e-9)
    assert drawn.weights.numpy() == pytest.approx(a, abs=1e-9)
    assert drawn.squared_norm.numpy() == pytest.approx(np.einsum("ti,ij,tj->t", a, K, a), rel=1e-8)


@pytest.mark.parametrize("grid", [DOZEN, SQUARE])
def test_kernel_sum_from_its_draws(grid: Grid) -> None:
    stream = RecordedStream(6)
    drawn = RKHSFunctions(unit_kernel("se", 0.2), terms=9).draw(grid, stream)
    place, coefficient = stream.drawn
    K = squared_exponential(grid.X, 0.2)
    for trial in range(6):
        arms = np.floor(place[trial] * len(grid)).astype(int)
        alpha = 2 * coefficient[trial] - 1
        f = alpha @ K[arms]
        assert drawn.values[trial].numpy() == pytest.approx(f, abs=1e-10)
        norm = alpha @ K[np.ix_(arms, arms)] @ alpha
        assert float(drawn.squared_norm[trial]) == pytest.approx(norm, rel=1e-9)
        assert drawn.weights[trial].numpy() @ K == pytest.approx(f, abs=1e-9)


def test_later_changes_of_a_kernel_have_no_effect() -> None:
    kernel = unit_kernel("se", 0.2)
    functions = GaussianDraw(kernel)
    before = functions.draw(DOZEN, RecordedStream(2)).values
    kernel.lengthscale = torch.tensor(0.9, dtype=torch.float64)
    assert torch.equal(before, functions.draw(DOZEN, RecordedStream(2)).values)


def test_fixed_functions_per_trial() -> None:
    values = torch.rand(5, 12, dtype=torch.float64)
    assert torch.equal(
        FixedFunctions(values).draw(DOZEN, RecordedStream(2, first=3)).values, values[3:]
    )
    world = StaticWorld(DOZEN, functions=FixedFunctions(values), noise=0.1)
    with pytest.raises(ValueError, match=r"yields \(5, 12\) in round 1, .* 6 trials need"):
        world.look(1, trials=6)


KERNEL = unit_kernel("se", 0.2)
GRID = Grid.regular(9, 1, bounds=[(-1.0, 1.0)])
DRAWN = {"functions": RKHSFunctions(KERNEL), "noise": 0.1}
WORLDS: dict[str, Callable[[], GridWorld]] = {
    "markov": lambda: MarkovWorld(GRID, kernel=KERNEL, epsilon=0.2, noise=0.1),
    "abrupt": lambda: AbruptWorld(GRID, changes=(3, 5), **DRAWN),
    "drift": lambda: DriftWorld(GRID, horizon=6, **DRAWN),
    "static": lambda: StaticWorld(GRID, **DRAWN),
    "power": lambda: PowerLawWorld(GRID, kernel=KERNEL, alpha=1.5, horizon=6, noise=0.1),
    "sine": lambda: SineWorld(GRID, kernel=KERNEL, centers=4, noise=0.1),
    "panel": lambda: PanelWorld(make_panel(rounds=30).values, train=20),
}


@pytest.mark.parametrize("name", WORLDS)
def test_look_is_the_objective_of_a_study(name: str) -> None:
    world = WORLDS[name]()
    seen = world.look(rounds=6, trials=66, seed=5)
    assert seen.dims == ("trial", "round", "arm")
    assert seen.shape == (66, 6, len(world.domain))
    player = random_search(kernel=getattr(world, "kernel", KERNEL), noise=0.1)
    result = run_study(world, {"R": player}, trials=66, horizon=6, seed=5, chunk=20, progress=False)
    chosen = seen.isel(arm=result.data["index"].sel(strategy="R"))
    regret = (seen.max("arm") - chosen).transpose("trial", "round")
    np.testing.assert_allclose(regret, result.regret.sel(strategy="R"), rtol=0, atol=1e-12)
    assert float(result.regret.mean()) > 0.01
    np.testing.assert_array_equal(seen["x1"], world.domain.X[:, 0])
    np.testing.assert_array_equal(seen["round"], np.arange(1, 7))


def test_fewer_trials_and_rounds() -> None:
    world = WORLDS["markov"]()
    whole, part = world.look(8, trials=5, seed=1), world.look(3, seed=1)
    np.testing.assert_allclose(part, whole[:1, :3], rtol=0, atol=1e-12)  # products round
    assert not np.array_equal(part, world.look(3, seed=2))


@pytest.mark.parametrize("alpha", [0.0, 0.5, 1.0, 1.7])
def test_variances_of_assumption_2(alpha: float) -> None:
    """[M] (7): f_t - f_s has the variance σ² (t - s)^α, here times k(x, x) = 2 and κ = 3."""
    one = Grid(torch.zeros(1, 1, dtype=torch.float64))
    K = torch.tensor([[2.0]], dtype=torch.float64)
    world = PowerLawWorld(one, kernel=K, alpha=alpha, kappa=3.0, horizon=8, noise=0.1)
    f = world.look(8, trials=20_000).values[..., 0]
    assert f[:, 0].var() == pytest.approx(2, rel=0.05)  # the standard error is 1 %
    for s, t in [(0, 1), (0, 7), (2, 3), (2, 6)]:
        assert (f[:, t] - f[:, s]).var() == pytest.approx(0.6 * (t - s) ** alpha, rel=0.05)
    if alpha == 1:
        assert abs(np.corrcoef(f[:, 3] - f[:, 1], f[:, 7] - f[:, 3])[0, 1]) < 0.035


ARMS = Grid.regular(41, 1, bounds=[(-50.0, 50.0)])


def scaled_kernel() -> ScaleKernel:
    scaled = ScaleKernel(unit_kernel("se", 3.0)).double()
    scaled.outputscale = torch.tensor(0.5, dtype=torch.float64)
    return scaled


@pytest.mark.parametrize(
    ("options", "number", "scale", "frequency"),
    [({}, 20, 5, 0.3), ({"centers": 2, "scale": 2.0, "frequency": 0.1}, 2, 2, 0.1)],
)
def test_values_by_the_formula(options, number, scale, frequency) -> None:
    """[M] §4.1, with centers evenly spaced from -50 to 50."""
    centers = -50 + 100 * np.arange(number) / (number - 1)
    K = 0.5 * squared_exponential(np.append(ARMS.X[:, 0], centers)[:, None], 3.0)
    across, among = K[:41, 41:], K[41:, 41:]
    world = SineWorld(ARMS, kernel=scaled_kernel(), noise=0.01, **options)
    f = rounds(world, RecordedStream(3), 30)
    for t in range(1, 31):
        u = np.sin(frequency * t + np.arange(1, number + 1))
        a = scale / np.linalg.eigvalsh(among)[-1] * u / np.linalg.norm(u)
        assert f[t - 1] == pytest.approx(np.tile(across @ a, (3, 1)), abs=1e-12)


@pytest.mark.parametrize("rough", [False, True])
def test_covariance_in_space_and_time_is_the_models(rough: bool) -> None:
    """cov(f_s(x), f_t(x')) = (1 - ε)^(|t - s| / 2) k(x, x'), within five standard errors."""
    grid = Grid.regular(5, 2)
    kernel = unit_kernel("se", 0.3)
    if rough:
        kernel = MaternKernel(nu=0.5).double()
        kernel.lengthscale = torch.tensor(0.3, dtype=torch.float64)
    trials, epsilon = 20_000, 0.2
    world = MarkovWorld(grid, kernel=kernel, epsilon=epsilon, noise=0.0)
    f = rounds(world, RecordedStream(trials), 4)
    K = kernel(grid.X).to_dense().detach().numpy()
    for s, t in ((0, 0), (3, 3), (0, 1), (0, 3)):
        assert_covariance(f[s], f[t], (1 - epsilon) ** ((t - s) / 2) * K)


D = torch.float64
gmpb = pytest.importorskip("gmpb")
movingpeaks = pytest.importorskip("deap.benchmarks.movingpeaks")
CONFIG = gmpb.GMPBConfig(d=2, m=4, change_frequency=3)
PEAKS = {
    "gmpb": GMPBWorld(CONFIG, noise=0.01, shift=20.0, scale=25.0),
    "cones": MovingPeaksWorld(2, period=3, shift=20.0, scale=25.0),
    "hills": MovingPeaksWorld(3, scenario=1, period=2),
    "many": MovingPeaksWorld(2, scenario=3, period=2),
}


def stream(first=0, trials=3, dtype=D):
    return Stream(7, "world", first, trials, dtype=dtype, device=torch.device("cpu"))


def lattice(dim, points):
    return torch.cartesian_prod(*[torch.linspace(0, 1, points, dtype=D)] * dim).view(-1, dim)


def highest(landscape):
    """The position of the highest peak, in the unit cube."""
    if isinstance(landscape, gmpb.GMPB):
        tallest = max(landscape.get_state().components, key=lambda peak: peak.h)
        return (tallest.c + 100) / 200
    return np.array(landscape.globalMaximum()[1]) / 100


@pytest.mark.few("cones", "gmpb", "hills")
@pytest.mark.parametrize("name", PEAKS)
def test_the_best_value_is_the_maximum(name):
    world = PEAKS[name]
    X = lattice(world.domain.dim, 31 if world.domain.dim == 2 else 11)
    landscapes = [world.landscape(seed) for seed in stream().seeds()]
    for objective in islice(world.objectives(stream()), 0, 3 * world.period, world.period):
        best = objective.best(True)
        assert (objective.at(X.expand(3, *X.shape)) <= best.unsqueeze(-1)).all()
        peaks = torch.from_numpy(np.stack([highest(landscape) for landscape in landscapes]))
        torch.testing.assert_close(objective.at(peaks), best, rtol=1e-12, atol=1e-12)
        for landscape in landscapes:
            world.change(landscape)


def test_values_are_those_of_the_package():
    seeds, X = stream().seeds(), torch.rand(3, 5, 2, dtype=D)
    objectives = PEAKS["gmpb"].objectives(stream())
    for step, objective in enumerate(islice(objectives, 7)):
        for trial, seed in enumerate(seeds):
            problem = gmpb.GMPB(CONFIG, seed)
            for _ in range(step // 3):
                problem.step_environment()
            problem.set_auto_step(False)
            theirs = problem.evaluate_batch(-100 + 200 * X[trial].numpy())
            found = 20 + 25 * objective.at(X)[trial]
            assert found.numpy() == pytest.approx(theirs, rel=1e-12)
    problem = movingpeaks.MovingPeaks(2, random.Random(seeds[1]), **movingpeaks.SCENARIO_2)
    for step, objective in enumerate(islice(PEAKS["cones"].objectives(stream()), 4)):
        if step == 3:
            problem.changePeaks()
        theirs = [problem(100 * x, count=False)[0] for x in X[1].numpy()]
        assert (20 + 25 * objective.at(X)[1]).numpy() == pytest.approx(theirs, rel=1e-12)
        assert 20 + 25 * float(objective.best(True)[1]) == problem.globalMaximum()[0]


@pytest.mark.parametrize("name", PEAKS)
def test_landscapes_change_once_a_period(name):
    world = PEAKS[name]
    X = torch.rand(3, 20, world.domain.dim, dtype=D)
    objectives = islice(world.objectives(stream()), 2 * world.period + 1)
    values = [objective.at(X) for objective in objectives]
    changed = [i + 1 for i, (a, b) in enumerate(pairwise(values)) if not torch.equal(a, b)]
    assert changed == [world.period, 2 * world.period]


@pytest.mark.parametrize("name", PEAKS)
def test_trials_are_independent_of_chunks(name):
    world, X = PEAKS[name], torch.rand(4, 20, PEAKS[name].domain.dim, dtype=D)
    whole = [f.at(X) for f in islice(world.objectives(stream(trials=4)), 5)]
    part = [f.at(X[2:]) for f in islice(world.objectives(stream(2, 2)), 5)]
    for a, b in zip(whole, part):
        assert torch.equal(a[2:], b)
    assert len(torch.stack(whole, 1).flatten(1).unique(dim=0)) == 4
    single = next(world.objectives(stream(trials=4, dtype=torch.float32))).at(X.float())
    assert single.dtype == torch.float32
    assert single.numpy() == pytest.approx(whole[0].numpy(), rel=1e-3)


def test_seeds_are_whole_and_apart():
    seeds = stream(trials=500).seeds()
    assert len(set(seeds)) == 500
    assert all(isinstance(seed, int) and 0 <= seed < 2**53 for seed in seeds)
    assert seeds[200:300] == stream(200, 100).seeds()
    assert np.corrcoef(seeds[:-1], seeds[1:])[0, 1] == pytest.approx(0, abs=5 / 500**0.5)
