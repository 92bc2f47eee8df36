"""Laws of strategies on boxes: batches, purity, dtypes, gaps, scales."""

import copy
import io
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.presets import BY_NAME
from conformance.test_law4_pure import assert_identical
from gpytorch.kernels import LinearKernel, MaternKernel, RBFKernel, ScaleKernel

from botorch_tv.forgetting import ExponentialWeights, Markov, Static, UncertaintyInjection, Wiener
from botorch_tv.strategies import Box, GPStrategy, MultiStart, tv_gp_ucb

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


NAMES = [
    "GP-UCB",
    "TV-GP-UCB",
    "ET-GP-UCB realised gain",
    "WGP-UCB",
    "EI + Wiener + reset",
    "PI + window by time",
    "TV-GP-UCB estimated mean",
    "Thompson + trigger",
    "Thompson + Markov + window",
    "random",
]


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
            # From here on at exactly the same point.
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


PURE = ["TV-GP-UCB", "ET-GP-UCB", "EI + Wiener + reset", "GP-TS", "random"]


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
    suggestion = strategy.suggestion_at(state, state.history.choice.tensor()[:, :, 0])
    first, _ = strategy.tell(state, suggestion, torch.ones(2, 2, dtype=D))
    second, _ = strategy.tell(state, suggestion, -torch.ones(2, 2, dtype=D))
    assert float(first.history.y.row(4).min()) == 1.0
    assert float(second.history.y.row(4).max()) == -1.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", PURE)
def test_dtype_and_shapes(name, dtype):
    state, suggestion, info = play(parts_of(name), dtype=dtype)
    for field in ("X", "mean", "sd", "sqrt_beta"):
        value = getattr(suggestion, field)
        assert value.dtype == dtype, field
        assert value.isfinite().all()
        assert value.shape == ((2, 2, 2) if field == "X" else (2, 2))
    assert suggestion.index is None
    assert suggestion.time.dtype == D
    assert info.information_gain.dtype == state.history.choice.tensor().dtype == dtype
    strategy = parts_of(name)
    X = strategy.recommend(state)
    assert X.dtype == dtype
    assert strategy.posterior(state, X.unsqueeze(-2)).mean.dtype == dtype
    lower, upper = BOUNDS.to(dtype)
    for inside in (suggestion.X, X):
        assert (inside >= lower).all()
        assert (inside <= upper).all()


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


def test_refused_calls_do_not_change_the_state():
    strategy = parts_of("TV-GP-UCB")
    state, _, _ = play(strategy, batch_shape=(3,), rounds=3)
    before, suggestion = copy.deepcopy(state), strategy.ask(state)
    y = torch.tensor([0.1, -0.2, 0.3], dtype=D)
    for call in (
        lambda: strategy.ask(state, now=1.0),
        lambda: strategy.ask(state, now=torch.ones(2)),
        lambda: strategy.tell(state, suggestion, y * torch.nan),
        lambda: strategy.tell(state, suggestion, y, noise=torch.ones(2)),
        lambda: strategy.tell(state, suggestion, y, noise=-y.abs()),
    ):
        with pytest.raises(InputDataError):
            call()
    assert strategy.consult(state) is None
    assert strategy.tell(state, suggestion, y, noise=0.1 + y.abs())[0].rounds == 4
    assert_identical(list(state.data[1:]), list(before.data[1:]))


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


LOUD, LENGTHSCALE = 0.05, 0.4
POINTS = np.random.default_rng(0).uniform([-1.0, 2.0], [1.0, 3.0], (8, 2))
SHIFTED = Box(torch.tensor([[-1.0, 2.0], [1.0, 3.0]], dtype=D))


def rough():
    kernel = MaternKernel(nu=2.5).double()
    kernel.lengthscale = torch.tensor(LENGTHSCALE, dtype=D)
    return kernel


@pytest.mark.parametrize("lead", [(), (4,), (2, 2)])
def test_groups_of_points_are_parts_of_the_joint_posterior(lead):
    strategy = GPStrategy(kernel=rough(), noise=LOUD, decay=Markov(0.1))
    state, arms = strategy.init(SHIFTED, batch_shape=(2, 1)), torch.tensor(POINTS)
    for t in range(3):
        y = torch.tensor([[0.3 * t], [-0.2]], dtype=D)
        X = arms[torch.tensor([[t], [t + 2]])]
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X), y, noise=0.3)
    whole = strategy.posterior(state, arms)
    groups = arms.view(4, 1, 1, 2, 2).expand(4, 2, 1, 2, 2)
    groups = groups.reshape(*lead, 2, 1, 2, 2) if lead else groups[0]
    posterior = strategy.posterior(state, groups)
    assert posterior.mean.shape == (*lead, 2, 1, 2, 1)
    covariance = posterior.distribution.covariance_matrix.reshape(-1, 2, 1, 2, 2)
    for number, mean in enumerate(posterior.mean.reshape(-1, 2, 1, 2, 1)):
        part = slice(2 * number, 2 * number + 2)
        torch.testing.assert_close(mean, whole.mean[..., part, :])
        wanted = whole.distribution.covariance_matrix[..., part, part]
        torch.testing.assert_close(covariance[number], wanted)
    noisy = strategy.posterior(state, arms, observation_noise=True)
    torch.testing.assert_close(noisy.variance, whole.variance + LOUD, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decay", [Static(), Markov(0.1), Wiener(1e-3)], ids=repr)
@pytest.mark.parametrize("inflation", [Static(), ExponentialWeights(0.9), UncertaintyInjection(1)])
def test_a_gap_of_a_billion(decay, inflation):
    strategy = GPStrategy(kernel=rough(), noise=LOUD, decay=decay, inflation=inflation)
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
    # And it learns again.
    state, _ = strategy.tell(state, suggestion, torch.tensor(1.0, dtype=D))
    again = strategy.posterior(state, suggestion.X.unsqueeze(0), now=1e9)
    assert float(again.mean) == pytest.approx(1.0, abs=0.2)


def test_failures_alone_do_not_change_the_prior():
    strategy = GPStrategy(kernel=rough(), noise=LOUD, decay=Wiener(0.2), mean="estimated")
    state, arms = strategy.init(SHIFTED, batch_shape=(2,)), torch.tensor(POINTS)
    for _ in range(3):
        suggestion = strategy.ask(state)
        assert torch.equal(suggestion.X, torch.tensor([[0.0, 2.5]] * 2, dtype=D))  # the middle
        failed = torch.tensor([False, False])
        state, info = strategy.tell(
            state, suggestion, torch.tensor([torch.nan, torch.inf], dtype=D), ok=failed
        )
        assert info.information_gain.abs().max() == 0
    posterior = strategy.posterior(state, arms)
    assert posterior.mean.abs().max() == 0
    torch.testing.assert_close(posterior.variance, torch.ones_like(posterior.variance))
    assert torch.equal(strategy.recommend(state), suggestion.X)
