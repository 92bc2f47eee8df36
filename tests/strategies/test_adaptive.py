"""The adaptive strategy: laws of every strategy, and its units."""

import copy
import math
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gp.mixture.readings import bank_of
from gpytorch.kernels import RBFKernel
from oracles.bank import DenseBank
from torch import Tensor

from botorch_tv.acquisition import Constant, ExpectedImprovement, Thompson, UpperConfidence
from botorch_tv.gp.mixture.bank import FIRST, Bank
from botorch_tv.gp.search import MultiStart
from botorch_tv.loop import Loop
from botorch_tv.strategies import Box, Grid, Strategy, adaptive_gp_ucb, gp_ucb

SMALL = Bank(
    rates=(0.0, 0.05),
    hazards=(0.0, 0.05),
    lengthscales=(0.2, 0.5),
    noise_ratios=(0.01,),
)
SQUARE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.float64)
QUICK = MultiStart(raw_samples=64, restarts=3, evaluations=20)
GRID, BOX = Grid.regular(points=6, dim=2), Box(SQUARE, search=QUICK)
TRIALS, ROUNDS = 3, 9


def strategy(**parts) -> Strategy:
    return replace(adaptive_gp_ucb(bank=SMALL, starts=4), **parts)


def assert_same_posterior(player: Strategy, first, second) -> None:
    X = GRID.X.expand(*first.time.shape, -1, -1)
    for part in ("mean", "variance"):
        both = (getattr(player.posterior(state, X), part) for state in (first, second))
        torch.testing.assert_close(*both)
    torch.testing.assert_close(player.weights(first), player.weights(second))


def objective(U: Tensor, t: float, trial: Tensor) -> Tensor:
    centre = 0.3 + 0.02 * t + 0.1 * trial
    error = torch.sin(17.0 * t + 5.0 * trial)
    return 3 * torch.exp(-(U - centre.unsqueeze(-1)).square().sum(-1) / 0.1) + 0.1 * error


def play(player, domain, trials, shape=None, failing=False, tick=1.0, **units):
    units = {"corner": 0.0, "length": 1.0, "level": 0.0, "unit": 1.0} | units
    corner, length, level, unit = units.values()
    shape = (len(trials),) if shape is None else shape
    state, record = player.init(domain, batch_shape=shape), []
    for t in range(ROUNDS):
        now = tick * (t + (t > 5))
        generators = [torch.Generator().manual_seed(100 * t + int(trial)) for trial in trials]
        suggestion = player.ask(state, now=now, generator=generators)
        U = (suggestion.X.reshape(len(trials), 2) - corner) / length
        y = level + unit * objective(U, t, trials)
        ok = ((t + trials.long()) % 4 > 0).view(shape) if failing and t % 3 > 0 else None
        state, _ = player.tell(state, suggestion, y.view(shape), ok=ok)
        record.append((U, (suggestion.mean.reshape(-1) - level) / unit, suggestion.sd / unit))
    parts = [torch.stack([row.reshape(len(trials), -1) for row in part]) for part in zip(*record)]
    return state, parts


def assert_same(actual, expected, tolerance: float = 1e-8) -> None:
    for first, second in zip(actual, expected, strict=True):
        torch.testing.assert_close(first, second, rtol=0, atol=tolerance)


ALL = torch.arange(3.0, dtype=torch.float64)


@pytest.mark.full
@pytest.mark.parametrize("exploration", [UpperConfidence(), Thompson()], ids=["bound", "sample"])
def test_batch_is_a_loop_of_singles(exploration):
    player = strategy(exploration=exploration)
    _, batch = play(player, BOX, ALL, failing=True)
    singles = [play(player, BOX, ALL[i : i + 1], failing=True)[1] for i in range(TRIALS)]
    assert_same(batch, [torch.cat(part, 1) for part in zip(*singles)])
    order = [2, 0, 1]
    _, column = play(player, BOX, ALL[order], shape=(TRIALS, 1), failing=True)
    assert_same(column, [part[:, order] for part in batch])
    assert len(torch.unique(batch[1][-1])) == TRIALS


def test_after_a_failure_time_counts_from_the_last_success():
    player, states = strategy(), []
    for failures in ([], [2.5, 6.0]):
        state = player.init(GRID)
        for t in sorted([0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, *failures]):
            suggestion = player.suggestion_at(state, GRID.X[int(3 * t)], now=t)
            ok = torch.tensor(t not in failures)
            state, _ = player.tell(state, suggestion, math.sin(t), ok=ok)
        states.append(state)
    assert_same_posterior(player, *states)


def times_with_pauses(seed: int, trials: int = TRIALS) -> Tensor:
    """Times of rounds, a third of which follow a pause of 1 to 1e12 gaps, `rounds x trials`."""
    generator = torch.Generator().manual_seed(seed)
    chance, size = torch.rand(2, 14, trials, dtype=torch.float64, generator=generator)
    return torch.where(chance < 0.3, 10 ** (12 * size), 1.0).cumsum(0)


@pytest.mark.full
def test_trials_with_long_pauses_go_on_alone():
    player, times = strategy(), times_with_pauses(0)

    def played(trials):
        state, record = player.init(GRID, batch_shape=(len(trials),)), []
        for t, now in enumerate(times[:, trials]):
            suggestion = player.ask(state, now=now)
            y = objective(suggestion.X, 0.1 * t, ALL[trials])
            state, _ = player.tell(state, suggestion, y)
            record.append(torch.stack([y, suggestion.mean, suggestion.sd]))
        return torch.stack(record)

    together = played([0, 1])
    assert bool(together[FIRST:].isfinite().all())
    assert_same([together], [torch.cat([played([0]), played([1])], -1)])


@pytest.mark.full
def test_a_loop_with_long_pauses_is_saved_and_goes_on(tmp_path):
    loop, path = Loop(strategy(), GRID), tmp_path / "loop.json"
    for t, now in enumerate(times_with_pauses(5, 1)[:, 0].tolist()):
        suggestion = loop.ask(now=now)
        loop.tell(math.sin(5 * sum(suggestion.point)) + 0.1 * (t % 3))
        if t in (7, 12):
            loop.save(path)
            again = Loop.load(path, strategy())
            ours, theirs = (entry.posterior(GRID.X, now=now + 1e12) for entry in (loop, again))
            assert bool(ours.variance.isfinite().all())
            torch.testing.assert_close(ours.mean, theirs.mean)
            loop = again


@pytest.mark.few("bound, grid")
@pytest.mark.parametrize(
    ("on_grid", "exploration"),
    [(True, UpperConfidence()), (True, ExpectedImprovement()), (False, Thompson())],
    ids=["bound, grid", "improvement, grid", "sample, box"],
)
def test_units_of_y_x_and_time_make_no_difference(on_grid, exploration):
    other = Grid(GRID.X * 40 - 7) if on_grid else Box(SQUARE * 40 - 7, search=QUICK)
    player = strategy(exploration=exploration)
    _, plain = play(player, GRID if on_grid else BOX, ALL)
    units = {"corner": -7.0, "length": 40.0, "level": 1e3, "unit": 25.0, "tick": 3600.0}
    _, scaled = play(player, other, ALL, **units)
    starts = player.starts
    assert_same([part[starts:] for part in scaled], [part[starts:] for part in plain], 1e-5)
    assert_same(scaled[:1], plain[:1], 1e-6)


def test_the_mirror_image_is_minimised():
    player = strategy()
    _, highest = play(player, GRID, ALL)
    _, lowest = play(replace(player, maximize=False), GRID, ALL, unit=-1.0)
    assert_same(lowest[:2], highest[:2])


@pytest.mark.few(1)
@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_all_predictions_agree(domain):
    player = strategy()
    state, _ = play(player, domain, ALL)
    used, made, y = copy.deepcopy(state), player.ask(state), torch.tensor([0.0, 5.0, -2.0]).double()
    used, _ = player.tell(used, made, y, consume=True)
    state, _ = player.tell(state, made, y)
    assert_same_posterior(player, used, state)
    suggestion = player.ask(state)
    joint = player.posterior(state, suggestion.X.unsqueeze(-2))
    torch.testing.assert_close(joint.mean[:, 0, 0], suggestion.mean)
    torch.testing.assert_close(joint.variance[:, 0, 0].sqrt(), suggestion.sd)
    at = player.suggestion_at(state, suggestion.X)
    torch.testing.assert_close(at.mean, suggestion.mean)
    torch.testing.assert_close(at.sd, suggestion.sd)
    X = GRID.X[::5].expand(TRIALS, -1, -1)
    covariance = player.posterior(state, X).mvn.covariance_matrix
    torch.testing.assert_close(covariance, covariance.mT)
    assert bool((torch.linalg.eigvalsh(covariance) > -1e-9).all())
    noisy = player.posterior(state, X, observation_noise=True).mvn.covariance_matrix
    added = (noisy - covariance).diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(added, player.model_noise(state).unsqueeze(-1).expand_as(added))
    if domain is GRID:
        means = player.decision(state).arm_means()
        wanted = player.posterior(state, GRID.X.expand(TRIALS, -1, -1)).mean[..., 0]
        torch.testing.assert_close(means, wanted)
        assert torch.equal(player.recommended_arm(state), means.argmax(-1))


@pytest.mark.full
@pytest.mark.parametrize("kind", ["grid", "box"])
def test_samples_choose_as_often_as_drawn_members_are_highest_there(kind):
    """Thompson sampling against Gaussians of the textbook's histories."""
    bank = bank_of(1, lengthscales=(0.15, 0.4))
    player = strategy(bank=bank, exploration=Thompson(), width=Constant(1.0))
    trials, lots = (1500, 9) if kind == "grid" else (200, 41)
    arms = np.linspace(0, 1, lots)[:, None]
    domain = Grid(torch.from_numpy(arms)) if kind == "grid" else Box(SQUARE[:, :1], search=QUICK)
    X, y = arms[[0, 3, 6, 8, 3, 4]], np.array([0.0, 1.0, 0.4, -0.2, 1.3, 0.9])
    state = player.init(domain, batch_shape=(trials,))
    dense, values = DenseBank(bank, arms), (y - y[:4].mean()) / y[:4].std()
    for t, (x, value) in enumerate(zip(X, y)):
        place = torch.from_numpy(x).expand(trials, 1)
        suggestion = player.suggestion_at(state, place, now=float(t))
        state, _ = player.tell(state, suggestion, torch.full((trials,), value, dtype=place.dtype))
        row = [int(np.abs(arms - x).argmin())]
        dense.observe(row, values[[t]], float(t), np.array([np.nan]))
    generator = torch.Generator().manual_seed(0)
    chosen = player.ask(state, now=8.0, generator=generator).X[:, 0].sort().values.numpy()
    random, draws = np.random.default_rng(0), []
    for share, member, history in dense.shares():
        mean, P = member.passed(history, 3.0, jump=False)
        scale = history.B / (dense.A - 1)
        C = scale * (P[:-1, :-1] + P[:-1, [-1]] + P[-1, :-1] + P[-1, -1])
        root = np.linalg.cholesky(C + 1e-9 * np.eye(lots))
        normal = random.standard_normal((round(40_000 * share), lots))
        draws.append((mean[:-1] + normal @ root.T).argmax(-1))
    wanted = np.bincount(np.concatenate(draws), minlength=lots)
    wanted = np.cumsum(wanted / wanted.sum())
    found = np.searchsorted(chosen, arms[:, 0] + 0.5 / (lots - 1)) / trials
    # Below 1.6 / sqrt(trials) with probability 0.99, by Kolmogorov's law.
    assert np.abs(found - wanted).max() < 1.6 / trials**0.5


@pytest.mark.few(2)
@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
@pytest.mark.parametrize("gap", [1.0, 4.0])
def test_a_possible_jump_does_not_choose(domain, gap):
    bank = Bank(rates=(0.0,), hazards=(0.2,), lengthscales=(0.2,), noise_ratios=(0.01,))
    player = strategy(bank=bank)
    state = player.init(domain, batch_shape=(TRIALS,))
    for t, place in enumerate([7, 10, 25, 28, *[14] * 12]):
        suggestion = player.suggestion_at(state, GRID.X[place].expand(TRIALS, 2), now=float(t))
        error = 0.05 * torch.sin(17.0 * t + 5.0 * ALL)
        state, _ = player.tell(state, suggestion, error + (2.0 if place == 14 else 0.1 * t))
    suggestion = player.ask(state, now=state.time + gap)
    X = GRID.X.expand(TRIALS, -1, -1)

    def score(X, now):  # of the model, without the bands of predictions
        choice = X if domain is BOX else (X.unsqueeze(-2) == GRID.X).all(-1).int().argmax(-1)
        mean, covariance, _ = player._joint(state, choice.unsqueeze(2), now)
        sd = covariance[..., 0, 0].sqrt()
        return mean[..., 0] + suggestion.sqrt_beta.unsqueeze(-1) * sd

    chosen = score(suggestion.X.unsqueeze(-2), state.time)[:, 0]
    best = score(X, state.time)
    if domain is GRID:
        ties = best > best.amax(-1, keepdim=True) - 1e-8  # mirrored arms tie; the first is chosen
        torch.testing.assert_close(suggestion.index, ties.to(torch.uint8).argmax(-1))
    assert bool((chosen > best.amax(-1) - 1e-6).all())
    assert bool((best.argmax(-1) != 14).all())
    assert bool((score(X, state.time + gap).argmax(-1) == 14).all())


def test_constant_readings_keep_filling_the_domain():
    player = strategy()
    state = player.init(BOX)
    points = []
    for _ in range(8):
        suggestion = player.ask(state)
        points.append(suggestion.X)
        state, _ = player.tell(state, suggestion, 3.0)
    assert not bool(player.predicts(state))
    apart = torch.cdist(torch.stack(points), torch.stack(points)) + torch.eye(8)
    assert float(apart.min()) > 0.15
    state, _ = player.tell(state, player.ask(state), 4.0)
    assert bool(player.predicts(state))


@pytest.mark.few(2)
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_without_predictions_the_best_observation_is_recommended(domain, maximize):
    player = adaptive_gp_ucb(bank=SMALL, starts=3, maximize=maximize)
    state, X = player.init(domain, batch_shape=(3,)), []
    assert player.recommend(state).shape == (3, 2)  # before any measurement
    sign = 1.0 if maximize else -1.0
    values = torch.tensor([[1.0, 5.0, 3.0], [4.0, 9.0, 2.0], [2.0, 2.0, 2.0]], dtype=torch.float64)
    failed = torch.tensor([[0, 0, 0], [0, 1, 0], [0, 0, 0]], dtype=torch.bool)
    for t in range(3):
        suggestion = player.ask(state)
        X.append(suggestion.X)
        state, _ = player.tell(state, suggestion, sign * values[:, t], ok=~failed[:, t])
        if t == 1:
            early = player.recommend(state)
    assert player.predicts(state).tolist() == [True, False, False]
    assert torch.equal(early, torch.stack([X[1][0], X[0][1], X[0][2]]))
    late = player.recommend(state)
    assert torch.equal(late[1:], torch.stack([X[0][1], X[0][2]]))
    others = domain.X if domain is GRID else torch.rand(64, 2, dtype=torch.float64)
    means = player.posterior(state, others[:, None, None]).mean[:, 0]
    best = player.posterior(state, late.unsqueeze(-2)).mean[0]
    assert sign * float(best) >= float((sign * means).max()) - 1e-6


@pytest.mark.full
def test_context_is_learned_from_and_its_units_make_no_difference():
    def run(level: float, unit: float) -> Tensor:
        domain = Box(SQUARE[:, :1], context_dim=1, search=QUICK)
        player, chosen = strategy(), []
        state = player.init(domain)
        for t in range(14):
            weather = torch.tensor([float((7 * t) % 5)], dtype=torch.float64)
            suggestion = player.ask(state, context=level + unit * weather)
            x = suggestion.X[0]
            chosen.append(x)
            state, _ = player.tell(state, suggestion, -((x - 0.2 - 0.12 * weather[0]) ** 2))
        return torch.stack(chosen)

    plain = run(0.0, 1.0)
    torch.testing.assert_close(run(300.0, 8.0), plain, rtol=0, atol=1e-5)
    weather = torch.tensor([float((7 * t) % 5) for t in range(10, 14)], dtype=torch.float64)
    assert float((plain[10:] - 0.2 - 0.12 * weather).abs().median()) < 0.15


def tell(**given):
    player, state = strategy(), strategy().init(GRID)
    return player.tell(state, player.ask(state), 1.0, **given)


@pytest.mark.parametrize(
    ("call", "match"),
    [
        (lambda: tell(noise=0.0), r"noise variance is not positive"),
        (lambda: strategy().describe(strategy().init(GRID, batch_shape=(2,))), "but .* takes one"),
        (lambda: strategy(starts=1), "a standard deviation needs two"),
        (lambda: strategy(bank=3), "must be a Bank"),
        (lambda: strategy().init(GRID, dtype=torch.float32), "float64"),
        (lambda: strategy().init(Box([(0.0, 1.0)] * 21)), "at most 20"),
        (lambda: Bank(rates=()), "Bank"),
        (lambda: Bank(hazards=(-0.1,)), "Bank"),
        (lambda: Bank(rates=(0.1, 0.1)), "Bank"),
        (lambda: Bank(histories=3), "histories is 3, .* noise passes for jumps"),
    ],
)
def test_refusals(call, match):
    with pytest.raises((ValueError, InputDataError), match=match):
        call()


@pytest.mark.few(1)
@pytest.mark.parametrize("dim", [1, 20])
def test_other_dimensions_are_served(dim):
    corners = torch.stack([torch.zeros(dim), torch.ones(dim)]).double()
    player = adaptive_gp_ucb(bank=replace(SMALL, lengthscales=None))
    state = player.init(Box(corners, search=QUICK))
    best = []
    for _ in range(18):
        suggestion = player.ask(state)
        y = -(suggestion.X - 0.3).square().sum()
        best.append(float(y))
        state, _ = player.tell(state, suggestion, y)
    assert sum(best[-5:]) > sum(best[:5])


@pytest.mark.full
def test_the_default_step_is_the_median_gap():
    plain, other, unit = Loop(BOX), Loop(BOX), 3600.0
    for number, y in enumerate([3.0, 4.0, 5.0, 4.5, 4.0, 4.1]):
        plain.ask(now=float(number))
        plain.tell(y)
        other.ask(now=number * unit)
        other.tell(y)
    assert other.recommend() == pytest.approx(plain.recommend(), abs=1e-9)
    asked = other.ask()
    assert asked.time == pytest.approx(6 * unit)
    assert asked.point == pytest.approx(plain.ask().point, abs=1e-6)


# ---------------- The summary of an adaptive posterior as text

DOMAIN = Grid.regular(points=12, dim=1)


def observed(jump, clock=1.0, noise=0.2, begin=0.0):
    """A state after 60 readings of a static wave, scale near 3, which may change at 40."""
    player, generator = adaptive_gp_ucb(), torch.Generator().manual_seed(0)
    state = player.init(DOMAIN)
    for t in range(60):
        X = DOMAIN.X[(5 * t) % 12]
        suggestion = player.suggestion_at(state, X, now=begin + clock * t)
        phase = 2.5 if jump and t >= 40 else 0.0
        error = noise * torch.randn((), generator=generator, dtype=torch.float64)
        y = 70 + 4 * torch.sin(7 * X.sum() + phase) + error
        state, _ = player.tell(state, suggestion, y)
    return player, state


@pytest.mark.full
@pytest.mark.parametrize(("noise", "edge"), [(0.2, " or less"), (0.4, "")])
def test_a_static_objective(noise, edge):
    player, state = observed(jump=False, noise=noise)
    text = player.describe(state)
    assert text.startswith("No drift: probability ")
    assert ". No change point detected. Signal sd " in text
    assert ("probability > 0.99. " in text) == (noise == 0.2)
    found = float(player.model_noise(state).sqrt())
    assert edge or 0.75 * noise < found < 1.25 * noise
    # The noise of 0.2 lies at or below the smallest ratio of the bank.
    assert text.endswith(f"noise sd {found:.2g}{edge}.")
    assert float(player.weights(state).sum()) == pytest.approx(1.0)
    assert float(player.weights(state)[:, 0].sum()) > 0.5


def test_a_jump_is_dated_in_the_unit_of_the_clock():
    player, state = observed(jump=True, clock=3600.0, begin=720_000.0)
    text = player.describe(state)
    found = re.search(r"Change point between the observation at (\S+) and the one before", text)
    assert 40 * 3600 <= float(found[1]) - 720_000 <= 44 * 3600
    text = player.describe(
        state, format_time=lambda time: f"{time / 3600:g} o'clock", unit="seconds"
    )
    assert f"at {float(found[1]) / 3600:g} o'clock and the one before" in text
    assert re.search(r"\(probability (> 0\.99|0\.\d\d)\)\.", text)
    assert 0 <= float(player.jump(state)) < 0.5


def test_a_loop_includes_the_text_of_its_strategy():
    loop = Loop(DOMAIN)
    assert loop.describe().startswith(adaptive_gp_ucb().describe(loop.state))
    given = gp_ucb(kernel=RBFKernel().double(), noise=0.1)
    assert Loop(given, DOMAIN).describe().startswith(f"Given: {given!r}.\n")


def test_values_that_never_differ():
    player, state = adaptive_gp_ucb(starts=3), adaptive_gp_ucb(starts=3).init(DOMAIN)
    for number in range(6):
        text = player.describe(state)
        if number < 3:
            assert text == f"Initialising: {number} of 3 observations received."
        else:
            assert f"all {number} observations equal 2.5" in text
        state, _ = player.tell(state, player.ask(state), 2.5)
    failed = player.suggestion_at(state, DOMAIN.X[0])
    state, _ = player.tell(state, failed, 9.0, ok=torch.tensor(False))
    assert "all 6 observations equal 2.5" in player.describe(state)
    for y in (2.5, 2.75, 3.0):
        state, _ = player.tell(state, player.ask(state), y)
    assert "Initialising" not in player.describe(state)


PARTS = {
    "lengths": (0.0, 0.0, 1.0, 0.0),
    "rates": (0.04, 0.0, 0.96, 0.0),
    "hazards": (0.7, 0.3),
    "noises": (0.6, 0.4),
}


@pytest.mark.parametrize(
    ("changes", "unit", "text"),
    [
        ({}, "hours", "^Drift: probability 0.96, correlation half-life 45.5 h. No change point"),
        ({"rates": (0.04, 0.0, 0.0, 0.96)}, "", "half-life 13.2 units of time or less."),
        ({"rates": (0.999, 0, 0.001, 0)}, "", "^No drift: probability > 0.99. No change"),
        ({"rates": (1.0,)}, "", "^No change point detected. Signal sd "),
        (
            {"rates": (0.2, 0.0, 0.8, 0.0)},
            "hours",
            "^Drift: probability 0.80 (prior 0.75), correlation half-life 45.5 h.",
        ),
        (
            {"hazards": (0.4, 0.6)},
            "",
            "No change point detected. Jump rate above 0: probability 0.60 (prior 0.50).",
        ),
        ({"hazards": (0.48, 0.52)}, "", "No change point detected. Signal"),  # prior: 0.5
        ({"noises": (0.4, 0.6)}, "", " or more."),
        ({"lengths": (0.0, 0.0, 0.0, 1.0)}, "", "lengthscale 0.4 of each range or more, noise"),
    ],
)
def test_texts_for_given_posterior_weights(monkeypatch, changes, unit, text):
    shares = {name: changes.get(name, share) for name, share in PARTS.items()}
    bank = Bank()
    for name in ("rates", "hazards"):
        bank = replace(bank, **{name: getattr(bank, name)[: len(shares[name])]})
    player = adaptive_gp_ucb(bank=bank)
    state = player.init(DOMAIN)
    for t in range(6):
        state, _ = player.tell(state, player.suggestion_at(state, DOMAIN.X[t], now=t), t % 3)
    given = [torch.tensor(share).double() for share in shares.values()]
    weights = torch.einsum("a,b,c,d->abcd", *given)
    monkeypatch.setattr(type(player), "weights", lambda self, state: weights)
    printed = player.describe(state, format_time="{:g} h".format, unit=unit)
    assert printed.startswith(text[1:]) if text.startswith("^") else text in printed
    assert ("hange point" in printed) == (len(shares["hazards"]) > 1)


def test_a_prior_probability_below_one_percent():
    """One of 120 rates is 0, and three points are measured again and again."""
    rates = (0.0, *(0.5 + t / 400 for t in range(119)))
    player = adaptive_gp_ucb(bank=Bank(rates=rates, hazards=(0.0,), lengthscales=(0.4,)))
    state, texts = player.init(DOMAIN), []
    for t in range(16):
        X = DOMAIN.X[t % 3]
        y = 70 + 4 * torch.sin(7 * X.sum())
        state, _ = player.tell(state, player.suggestion_at(state, X, now=t), y)
        texts.append(player.describe(state))
    assert any(re.match(r"No drift: probability 0\.\d\d \(prior < 0.01\)", text) for text in texts)


@pytest.mark.full
def test_a_loop_prints_dates_and_predicts_nothing_before_its_units_are_set():
    start = datetime(2026, 3, 1, 22, tzinfo=UTC)
    loop = Loop(adaptive_gp_ucb(), {"temperature": (20.0, 80.0)}, pending=2)
    for hour in range(30):
        now = start + timedelta(hours=hour)
        if hour < FIRST:
            assert "Best setting" not in loop.describe(now=now)
        suggestion = loop.ask(now=now)
        assert math.isnan(suggestion.mean) == math.isnan(suggestion.sd) == (hour < FIRST)
        assert ("no prediction yet" in repr(suggestion)) == (hour < FIRST)
        best = 35.0 if hour < 20 else 75.0
        loop.tell(-abs(suggestion.point["temperature"] - best))
    assert loop.table()["mean"].isna().tolist() == [hour < FIRST for hour in range(30)]
    text = loop.describe(now=start + timedelta(hours=30))
    assert re.search(r"^Best setting now: temperature .*; posterior mean .*, ± 2 sd: ", text, re.M)
    dates = (start + timedelta(hours=hour) for hour in range(20, 24))
    texts = [f"observation at {date.isoformat(' ', 'seconds')} and" for date in dates]
    assert any(part in text for part in texts)
