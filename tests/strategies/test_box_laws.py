"""Laws of strategies on boxes: batches, purity, dtypes, gaps, scales."""

import copy
import io
import pickle
from dataclasses import replace
from math import sin

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.presets import BY_NAME
from conformance.rounds import Setting
from conformance.test_law4_pure import assert_identical
from gpytorch.kernels import LinearKernel, MaternKernel, RBFKernel, ScaleKernel
from oracles.dense import DenseBandit, probability_best
from scipy.stats import chi2

from botorch_tv.acquisition import Constant, ExpectedImprovement, Thompson
from botorch_tv.forgetting import (
    ExponentialWeights,
    Markov,
    SlidingWindow,
    Static,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import (
    Box,
    DiscreteSearch,
    GPStrategy,
    Grid,
    MultiStart,
    gp_ucb,
    tv_gp_ucb,
)

D = torch.float64
SEARCH = MultiStart(raw_samples=32, restarts=3, evaluations=40)
BOUNDS = torch.tensor([[-1.0, 10.0], [1.0, 14.0]], dtype=D)
BOX = Box(BOUNDS, search=SEARCH)
ROUNDS, NOISE = 5, 0.02


def module(kind=RBFKernel):
    kernel = kind(ard_num_dims=2).double()
    kernel.lengthscale = torch.tensor([[0.6, 1.1]], dtype=D)
    return kernel


def world(X, t, trial):
    trial = torch.as_tensor(trial, dtype=X.dtype)
    U = (X - BOUNDS[0].to(X)) / (BOUNDS[1] - BOUNDS[0]).to(X)
    value = torch.sin(7 * U[..., 0] + trial) + torch.cos(5 * U[..., 1] * (1 + 0.2 * trial))
    return value + 4.0 * (t == 2 + trial)


def parts_of(name):
    return BY_NAME[name].strategy(module(), NOISE)


NAMES = ["GP-UCB", "TV-GP-UCB", "ET-GP-UCB realised gain", "WGP-UCB", "EI + Wiener + reset"]
NAMES += ["PI + window by time", "TV-GP-UCB estimated mean", "Thompson + trigger"]
NAMES += ["Thompson + Markov + window", "Random"]


@pytest.mark.few(1)
@pytest.mark.parametrize("name", NAMES)
def test_a_batch_is_a_loop_of_singles(name, monkeypatch):
    monkeypatch.setattr("botorch_tv.gp.points.FREQUENCIES", 100)
    strategy = parts_of(name)
    batch = strategy.init(BOX, batch_shape=(3,))
    column = strategy.init(BOX, batch_shape=(3, 1))
    singles = [strategy.init(BOX) for _ in range(3)]
    generators, others, own = ([torch.Generator().manual_seed(i) for i in range(3)] for _ in "abc")
    resets = torch.zeros(3)
    for t in range(ROUNDS):
        together = strategy.ask(batch, generator=generators)
        columns = strategy.ask(column, generator=others)
        assert columns.X.shape == (3, 1, 2)
        y = world(together.X, t, torch.arange(3))
        for i in range(3):
            alone = strategy.ask(singles[i], generator=own[i])
            torch.testing.assert_close(alone.X, together.X[i], rtol=0, atol=1e-6)
            torch.testing.assert_close(columns.X[i, 0], together.X[i], rtol=0, atol=1e-6)
            alone = strategy.suggestion_at(singles[i], together.X[i])
            for field in ("mean", "sqrt_beta", "time"):
                ours, wanted = getattr(alone, field), getattr(together, field)[i]
                torch.testing.assert_close(ours, wanted, rtol=0, atol=1e-10)
            torch.testing.assert_close(alone.sd, together.sd[i], rtol=0, atol=1e-8)
            singles[i], info = strategy.tell(singles[i], alone, y[i])
            resets[i] += info.reset
        column, _ = strategy.tell(
            column, strategy.suggestion_at(column, together.X.unsqueeze(1)), y.unsqueeze(1)
        )
        batch, _ = strategy.tell(batch, strategy.suggestion_at(batch, together.X), y)
    if "ET" in name or "trigger" in name:
        assert resets.sum() > 0


def play(strategy, domain=BOX, rounds=4, batch_shape=(2, 2), dtype=D, seed=0):
    state = strategy.init(domain, batch_shape=batch_shape, dtype=dtype)
    trial = torch.arange(max(1, state.time.numel())).reshape(batch_shape) / 2
    for t in range(rounds):
        suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(seed + t))
        state, info = strategy.tell(state, suggestion, world(suggestion.X, t, trial).to(dtype))
    return state, suggestion, info


PURE = ["TV-GP-UCB", "ET-GP-UCB", "EI + Wiener + reset", "GP-TS", "Random"]


@pytest.mark.few(2)
@pytest.mark.parametrize("name", PURE)
def test_states_are_pure_and_survive_saving(name):
    strategy = parts_of(name)
    state, _, _ = play(strategy)
    before = copy.deepcopy(state)
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=False)
    ends = []
    for each in (state, loaded, state):  # the first once more: a state can be used again
        generator = torch.Generator().manual_seed(7)
        suggestion = strategy.ask(each, generator=generator)
        y = world(suggestion.X, 9, 0.0)
        inputs = [part.clone() for part in (suggestion.X, y)]
        after, info = strategy.tell(each, suggestion, y)
        assert_identical(inputs, [suggestion.X, y])
        following = strategy.ask(after, generator=generator)
        ends.append((suggestion, info, following, strategy.recommend(after)))
    assert_identical(ends[0], ends[1])
    assert_identical(ends[0], ends[2])
    assert_identical(list(state.data[1:]), list(before.data[1:]))


@pytest.mark.few(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PURE)
def test_dtype_and_shapes(name, dtype):
    state, suggestion, info = play(parts_of(name), dtype=dtype)
    X = parts_of(name).recommend(state)
    mean = parts_of(name).posterior(state, X.unsqueeze(-2)).mean
    widths = suggestion.mean, suggestion.sd, suggestion.sqrt_beta
    for value in (suggestion.X, X, mean, info.information_gain, *widths):
        assert value.dtype == dtype
        assert value.isfinite().all()
    assert {value.shape for value in widths} == {(2, 2)}
    assert suggestion.X.shape == X.shape == (2, 2, 2)
    assert suggestion.index is None
    assert suggestion.time.dtype == D
    assert state.history.choice.tensor().dtype == dtype
    for inside in (suggestion.X, X):
        assert (inside >= BOUNDS[0].to(dtype)).all()
        assert (inside <= BOUNDS[1].to(dtype)).all()


def test_single_precision_finds_as_good_a_point():
    strategy = tv_gp_ucb(kernel=module(MaternKernel), noise=1e-3, epsilon=0.05)
    X = BOUNDS[0] + (BOUNDS[1] - BOUNDS[0]) * torch.rand(12, 2, dtype=D)
    chosen, states = [], []
    for dtype in (torch.float32, D):
        state = strategy.init(Box(BOUNDS), dtype=dtype)
        for t in range(12):
            at = strategy.suggestion_at(state, X[t].to(dtype))
            state, _ = strategy.tell(state, at, world(X[t], t, 0.0).to(dtype))
        states.append(state)
        chosen.append(strategy.ask(state))
    bounds = []
    for suggestion in chosen:
        at = strategy.suggestion_at(states[1], suggestion.X.double())
        bounds.append(float(at.mean + at.sqrt_beta * at.sd))
    assert bounds[0] > bounds[1] - 1e-3


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["TV-GP-UCB", "EI + Wiener + reset"])
def test_choices_do_not_depend_on_units(name):
    plain = replace(parts_of(name), kernel=ScaleKernel(module()).double())
    reference = None
    for scale, stretch in ((1.0, 1.0), (1e-6, 1.0), (1e6, 1e-3), (1.0, 1e4)):
        kernel = copy.deepcopy(plain.kernel)
        kernel.outputscale = torch.tensor(scale**2, dtype=D)
        kernel.base_kernel.lengthscale = torch.tensor([[0.6, 1.1]], dtype=D) * stretch
        strategy = replace(plain, kernel=kernel, noise=NOISE * scale**2)
        state, chosen = strategy.init(Box(BOUNDS * stretch, search=SEARCH)), []
        for t in range(5):
            suggestion = strategy.ask(state)
            chosen.append(suggestion.X / stretch)
            state, _ = strategy.tell(state, suggestion, scale * world(chosen[-1], t, 0.3))
        found = torch.stack(chosen)
        reference = found if reference is None else reference
        torch.testing.assert_close(found, reference, rtol=0, atol=1e-3)


def test_prior_variance_that_differs_from_place_to_place():
    strategy = replace(parts_of("GP-EI"), kernel=ScaleKernel(LinearKernel()).double())
    state = strategy.init(Box(torch.tensor([[-1.0, -1.0], [1.0, 1.0]], dtype=D)))
    for _ in range(3):
        suggestion = strategy.ask(state)
        slope = torch.tensor([1.0, -2.0], dtype=D)
        state, _ = strategy.tell(state, suggestion, suggestion.X @ slope)
    assert suggestion.mean.isfinite()
    best = torch.tensor([1.0, -1.0], dtype=D)
    torch.testing.assert_close(strategy.recommend(state), best, rtol=0, atol=1e-6)


LOUD = 0.05
POINTS = np.random.default_rng(0).uniform([-1.0, 2.0], [1.0, 3.0], (8, 2))
SHIFTED = Box(torch.tensor([[-1.0, 2.0], [1.0, 3.0]], dtype=D))


@pytest.mark.few(3)
@pytest.mark.parametrize("decay", [Static(), Markov(0.1), Wiener(1e-3)], ids=repr)
@pytest.mark.parametrize("inflation", [Static(), ExponentialWeights(0.9), UncertaintyInjection(1)])
def test_a_gap_of_a_billion(decay, inflation):
    strategy = GPStrategy(
        kernel=unit_kernel("matern52", 0.4), noise=LOUD, decay=decay, inflation=inflation
    )
    state, arms = strategy.init(SHIFTED), torch.tensor(POINTS)
    for t, y in enumerate((0.5, 1.5, -0.4)):
        at = strategy.suggestion_at(state, arms[t], now=float(t))
        state, _ = strategy.tell(state, at, torch.tensor(y, dtype=D))
    suggestion = strategy.ask(state, now=1e9)
    assert suggestion.mean.isfinite()
    assert suggestion.sd.isfinite()
    posterior = strategy.posterior(state, arms, now=1e9)
    forgets = isinstance(decay, Markov) or not isinstance(inflation, Static)
    variance = 1e6 + 1 if isinstance(decay, Wiener) else 1.0
    if forgets:
        assert posterior.mean.abs().max() < 1e-3
        torch.testing.assert_close(
            posterior.variance, torch.full_like(posterior.variance, variance), rtol=1e-5, atol=0
        )
    elif isinstance(decay, Static):
        assert posterior.mean.abs().max() > 0.1
    state, _ = strategy.tell(state, suggestion, torch.tensor(1.0, dtype=D))
    again = strategy.posterior(state, suggestion.X.unsqueeze(0), now=1e9)
    assert float(again.mean) == pytest.approx(1.0, abs=0.2)


# ---------------- Boxes of listed candidates

SETTING = Setting(points=4, kernel="se", noise=0.05, rounds=12, lengthscale=0.35)
GRID = SETTING.domain
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
BOX_OF_ARMS = Box(CUBE, search=DiscreteSearch(GRID.X))


@pytest.mark.full
@pytest.mark.parametrize("exploration", [ExpectedImprovement(), Constant(1.0)], ids=repr)
def test_ties_are_in_the_unit_of_the_kernel(exploration) -> None:
    X = torch.tensor([[0.9, 0.5], [0.1, 0.5], [0.5, 0.5]], dtype=torch.float64)
    for scale in (1e-6, 1.0, 1e6):
        kernel = ScaleKernel(SETTING.module()).double()
        kernel.outputscale = torch.tensor(scale**2, dtype=torch.float64)
        parts = {"exploration": exploration} if scale and hasattr(exploration, "score") else {}
        strategy = GPStrategy(kernel=kernel, noise=0.01 * scale**2, width=Constant(4.0), **parts)
        state = strategy.init(Box(CUBE, search=DiscreteSearch(X)))
        at = strategy.suggestion_at(state, X[2])
        state, _ = strategy.tell(state, at, torch.tensor(-scale, dtype=torch.float64))
        assert torch.equal(strategy.ask(state).X, X[0])
        assert torch.equal(strategy.recommend(state), X[0])


THOMPSON = {
    "Wiener": ({"decay": Wiener(0.1)}, {"decay": ("wiener", 0.1)}),
    "Markov window": (
        {"decay": Markov(0.05), "retention": SlidingWindow(4)},
        {"decay": ("markov", 0.05), "retention": ("window", 4, "rounds")},
    ),
    "downwards": (
        {"decay": Wiener(0.1), "mean": "estimated", "maximize": False},
        {"decay": ("wiener", 0.1), "mean": "estimated", "maximize": False},
    ),
}


def p_value(index: torch.Tensor, often: np.ndarray) -> float:
    """p-value of Pearson's test; rare arms are counted with the next."""
    expected, seen = often * len(index), np.bincount(index.numpy(), minlength=len(often))
    rare, order = expected < 8, np.argsort(expected)
    if rare.any():
        first = order[rare.sum()]
        expected[first] += expected[rare].sum()
        seen[first] += seen[rare].sum()
    terms = (seen - expected)[~rare] ** 2 / expected[~rare]
    return float(chi2.sf(terms.sum(), len(terms) - 1))


DRAWS, SAMPLES, LEVEL = 2000, 200_000, 1e-5


@pytest.mark.few(1)
@pytest.mark.parametrize("rounds", [0, 6])
@pytest.mark.parametrize("name", THOMPSON)
def test_thompson_takes_an_arm_as_often_as_it_is_the_best(
    name: str, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("botorch_tv.gp.points.FREQUENCIES", 128)
    X = GRID.X[torch.tensor([0, 5, 6, 9, 11, 14])]
    K = SETTING.matrix()[np.ix_([0, 5, 6, 9, 11, 14], [0, 5, 6, 9, 11, 14])]
    strategy = GPStrategy(
        kernel=SETTING.module(),
        noise=SETTING.noise,
        width=Constant(1.5),
        exploration=Thompson(),
        **THOMPSON[name][0],
    )
    bandit = DenseBandit(
        K, SETTING.noise, sqrt_beta=lambda t, g, gbar: 1.5**0.5, gains=False, **THOMPSON[name][1]
    )
    state = strategy.init(Box(CUBE, search=DiscreteSearch(X)), batch_shape=(DRAWS,))
    random, time = np.random.default_rng(5), 0.0
    for t in range(rounds):
        arm, y = int(random.integers(6)), float(random.standard_normal())
        time += float(random.exponential(2.0))
        bandit.tell(bandit.consider(arm, time), y, ok=t != 3)
        at = strategy.suggestion_at(state, X[arm].expand(DRAWS, 2), now=time)
        ok = torch.full((DRAWS,), t != 3)
        state, _ = strategy.tell(state, at, torch.full((DRAWS,), y, dtype=X.dtype), ok=ok)
    prediction = bandit.consider(0, time + 1.5).prediction
    sign = -1.0 if name == "downwards" else 1.0
    often = probability_best(sign * prediction.mean, 1.5 * prediction.covariance, SAMPLES, seed=1)
    suggestion = strategy.ask(
        state, now=time + 1.5, generator=torch.Generator().manual_seed(rounds)
    )
    index = (suggestion.X.unsqueeze(1) - X).abs().amax(-1).argmin(-1)
    np.testing.assert_allclose(suggestion.mean, prediction.mean[index], rtol=0, atol=1e-8)
    np.testing.assert_allclose(suggestion.sd, prediction.sd[index], rtol=0, atol=1e-8)
    assert p_value(index, often) > LEVEL
    if rounds:  # the test tells joint from independent samples
        apart = np.diag(1.5 * prediction.variance)
        wrong = probability_best(sign * prediction.mean, apart, SAMPLES, seed=1)
        assert p_value(index, wrong) < LEVEL or np.abs(wrong - often).max() < 0.05


def test_random_candidates_are_equally_likely() -> None:
    strategy = BY_NAME["Random"].strategy(SETTING.module(), 0.1)
    state = strategy.init(BOX_OF_ARMS, batch_shape=(3000,), dtype=torch.float32)
    X = strategy.ask(state, generator=torch.Generator().manual_seed(0)).X
    assert X.dtype == torch.float32
    assert p_value(GRID.index_of(X), np.full(16, 1 / 16)) > LEVEL


# ---------------- Points, bounds and variances at the edges of a domain


def test_ascents_see_the_whole_slope_in_a_corner():
    box = Box(torch.tensor([[0.0, -1e3, -0.1], [1.0, 7.0, 0.2]], dtype=D))
    lower, upper = box.bounds
    assert (lower + (upper - lower) > upper).any()
    U = torch.tensor([[0.0] * 3, [1.0] * 3, [0.3] * 3], dtype=D, requires_grad=True)
    X = box.from_unit(U)
    assert torch.equal(X[:2], box.bounds)
    (gradient,) = torch.autograd.grad(X.sum(), U)
    assert torch.equal(gradient, (upper - lower).expand(3, 3))


@pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
@pytest.mark.parametrize("dtype", [torch.float32, D])
def test_points_on_the_border_are_inside_to_rounding(dtype):
    box = Box(torch.tensor([[0.1, -1 / 3], [0.7, 1e3 + 1 / 3]], dtype=D))
    strategy = gp_ucb(kernel=RBFKernel(), noise=0.1)
    state = strategy.init(box, dtype=dtype)
    for corner in box.bounds.to(dtype):
        assert strategy.suggestion_at(state, corner).mean == 0
    span = (box.bounds[1] - box.bounds[0]).to(dtype)
    just = box.bounds[1].to(dtype) + 2 * torch.finfo(dtype).eps * span
    assert strategy.suggestion_at(state, just).mean == 0
    with pytest.raises(InputDataError, match="outside"):
        strategy.suggestion_at(state, box.bounds[1].to(dtype) + 1e-4 * span)


def test_a_box_copies_its_bounds_and_can_be_pickled():
    bounds = CUBE.clone()
    box = Box(bounds, context_dim=2, search=DiscreteSearch(CUBE))
    bounds[1] = 7.0
    assert box.bounds.max() == 1.0
    assert (box.dim, box.columns) == (2, 4)
    again = pickle.loads(pickle.dumps(box))
    assert torch.equal(again.bounds, box.bounds)
    assert torch.equal(again.search.X, CUBE)
    assert "context_dim=2" in repr(again)
    inside = box.from_unit(torch.rand(5, 2, dtype=D))
    torch.testing.assert_close(box.from_unit(box.to_unit(inside)), inside)


LINE = torch.linspace(0, 1, 7, dtype=D).unsqueeze(-1)


@pytest.mark.parametrize("domain", [Grid(LINE), Box([(0.0, 1.0)])], ids=["grid", "box"])
@pytest.mark.parametrize("unit", [1e-9, 1.0])
def test_variances_in_any_unit(domain, unit):
    kernel = ScaleKernel(unit_kernel("se", 0.3)).to(D)
    kernel.outputscale = torch.tensor(unit**2, dtype=D)
    strategy = gp_ucb(kernel=kernel, noise=0.05 * unit**2)
    state = strategy.init(domain)
    for row in (1, 5, 5):
        state, _ = strategy.tell(state, strategy.suggestion_at(state, LINE[row]), unit * sin(row))
    K = torch.exp(-0.5 * (LINE - LINE.mT).square() / 0.3**2)
    observed = [1, 5, 5]
    whole = K[observed][:, observed] + 0.05 * torch.eye(3, dtype=D)
    wanted = K.diagonal() - (K[:, observed] * torch.linalg.solve(whole, K[observed]).mT).sum(-1)
    posterior = strategy.posterior(state, LINE)
    torch.testing.assert_close(posterior.variance.squeeze(-1) / unit**2, wanted, rtol=1e-7, atol=0)
    as_model = strategy.as_model(state).posterior(LINE.unsqueeze(-2))
    torch.testing.assert_close(as_model.variance.flatten() / unit**2, wanted, rtol=1e-7, atol=0)
