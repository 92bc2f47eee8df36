"""Strategies over strategies: laws of every strategy, and their rules by the textbook."""

import copy
import io
import itertools
import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.presets import chowdhury, default_logarithmic
from conformance.rounds import Setting, make_world
from conformance.test_law4_pure import assert_identical
from gpytorch.kernels import RBFKernel
from oracles.dense import DenseBandit, regression
from strategies.test_exp3 import Fixed

from botorch_tv.acquisition import IGPUCB, Constant
from botorch_tv.forgetting import UncertaintyInjection
from botorch_tv.forgetting.base import Static
from botorch_tv.loop import Loop
from botorch_tv.strategies import (
    BanditOverBandits,
    Box,
    MultiStart,
    PriorElimination,
    bob_gp_ucb,
    et_gp_ucb,
    gp_ts,
    gp_ucb,
    pe_gp_ucb,
    r_perp,
    w_gp_ucb,
)
from botorch_tv.strategies.contrib import PhasedElimination, phase_lengths
from botorch_tv.strategies.presets import sparq_gp_ucb

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=24)
GRID, D, TRIALS = SETTING.domain, torch.float64, 3
GIVEN = {"kernel": SETTING.module(), "noise": 0.02}
COMMITTEES = {
    "elimination": lambda: pe_gp_ucb(**GIVEN, epsilons=(0.0, 0.03, 0.3)),
    "over bandits": lambda: bob_gp_ucb(**GIVEN, windows=(2, 6), block=6, horizon=24, B=2.0),
    "of triggers and samples": lambda: BanditOverBandits(
        members=(et_gp_ucb(**GIVEN), gp_ts(**GIVEN)), block=4, horizon=24
    ),
}
each = pytest.mark.parametrize("name", COMMITTEES)
STRATEGIES = COMMITTEES | {"phases": lambda: phased(period=10)}


def play(strategy, state, start=0, stop=SETTING.rounds, seeds=range(TRIALS)):
    """Trials named by their seeds."""
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS).take(list(seeds))
    seen = []
    for t in range(start, stop):
        generators = [torch.Generator().manual_seed(100 * t + seed) for seed in seeds]
        suggestion = strategy.ask(state, generator=generators)
        state, info = strategy.tell(state, suggestion, world.observe(t, suggestion.index))
        seen.append((suggestion, info))
    return state, seen


@pytest.mark.few(1)
@pytest.mark.parametrize("name", STRATEGIES)
@pytest.mark.parametrize("shape", [(), (1,)])
def test_a_batch_is_its_trials(name, shape):
    strategy = STRATEGIES[name]()
    last, together = play(strategy, strategy.init(GRID, batch_shape=(TRIALS,)))
    for trial in range(TRIALS):
        state = strategy.init(GRID, batch_shape=shape)
        state, alone = play(strategy, state, seeds=[trial])
        for (single, info), (whole, other) in zip(alone, together):
            assert torch.equal(single.index.view(()), whole.index[trial])
            if name in COMMITTEES:
                assert torch.equal(single.member.view(()), whole.member[trial])
            assert torch.equal(info.reset.view(()), other.reset[trial])
            for part in ("mean", "sd", "sqrt_beta"):
                a, b = getattr(single, part).view(()), getattr(whole, part)[trial]
                torch.testing.assert_close(a, b, rtol=0, atol=1e-9)
        for a, b in zip(state.memory[-1], last.memory[-1]):
            torch.testing.assert_close(a.view_as(b[trial]), b[trial], rtol=0, atol=1e-8)


@pytest.mark.few(1)
@pytest.mark.parametrize("name", STRATEGIES)
def test_a_saved_run_continues_and_nothing_changes_in_place(name):
    strategy = STRATEGIES[name]()
    state, _ = play(strategy, strategy.init(GRID, batch_shape=(TRIALS,)), 0, 11)
    before, saved = copy.deepcopy(state.memory[-1]), io.BytesIO()
    torch.save(state, saved)
    wanted = play(strategy, state, 11)
    saved.seek(0)
    found = play(strategy, torch.load(saved, weights_only=False), 11)
    for (ours, _), (theirs, _) in zip(found[1], wanted[1]):
        assert torch.equal(ours.index, theirs.index)
        assert torch.equal(ours.mean, theirs.mean)
    assert_identical(found[0].memory[-1], wanted[0].memory[-1])
    assert_identical(state.memory[-1], before)


MEMBER = gp_ucb(**GIVEN)
eliminate = partial(PriorElimination, members=(MEMBER,))
over = partial(BanditOverBandits, members=(MEMBER,), block=5, horizon=500)
REFUSED = [
    *(
        (lambda kind=kind, members=members: kind(members=members), match)
        for kind in (eliminate, over)
        for members, match in [
            ((), r"members is \(\), but"),
            ((MEMBER, "TV"), "'TV'.*at least one strategy"),
            ((PriorElimination(members=(MEMBER,)),), "no committee"),
            ((sparq_gp_ucb(**GIVEN),), "no strategy with an expert"),
            ((MEMBER, replace(MEMBER, maximize=False)), "all must maximise"),
        ]
    ),
    (lambda: eliminate(delta=0.0), "PriorElimination: delta"),
    (lambda: eliminate(delta=math.nan), "PriorElimination: delta"),
    (lambda: over(block=0), "BanditOverBandits: block"),
    (lambda: over(horizon=4), "block is 5, but it must be at most the horizon, 4"),
    (lambda: over(bound=0.0), "BanditOverBandits: bound"),
    (lambda: over(R=-1.0), "BanditOverBandits: R"),
    (lambda: Loop(over(), GRID), r"Loop: .* member"),
    (lambda: pytest.importorskip("botorch_tv.optuna").DriftSampler(over()), "member"),
    (lambda: phased(period=0), "period"),
    (lambda: phased(mean="estimated"), "a number"),
    (lambda: phased().init(Box([(0.0, 1.0)])), "needs a list of arms"),
    (lambda: replace(phased(), width=IGPUCB(1.0, 0.1, 0.1)), "not use an information gain"),
]


@pytest.mark.parametrize(("call", "match"), REFUSED)
def test_refusals(call, match):
    with pytest.raises((ValueError, InputDataError), match=match):
        call()


@pytest.mark.few(1)
@pytest.mark.parametrize("inflation", [Static(), UncertaintyInjection(1.0, 5.0)])
@pytest.mark.parametrize("kind", [PriorElimination, BanditOverBandits])
def test_a_single_member_acts_as_it_does_alone(kind, inflation):
    more = {"block": 5, "horizon": 24} if kind is BanditOverBandits else {}
    member = replace(et_gp_ucb(**GIVEN, delta=0.9), inflation=inflation)
    strategy = kind(members=(member,), **more)
    _, found = play(strategy, strategy.init(GRID, batch_shape=(TRIALS,)))
    _, wanted = play(member, member.init(GRID, batch_shape=(TRIALS,)))
    for (ours, info), (theirs, other) in zip(found, wanted):
        for a, b in [*zip(ours[1:6], theirs[1:6]), *zip(info, other)]:
            torch.testing.assert_close(a, b, rtol=0, atol=1e-9)


@pytest.mark.few(2)
@each
def test_the_leading_member_predicts_and_recommends(name):
    strategy = COMMITTEES[name]()
    state, _ = play(strategy, strategy.init(GRID, batch_shape=(TRIALS,)), 0, 9)
    X = GRID.X[:4]
    arms, points = strategy.recommended_arm(state), strategy.recommend(state)
    posterior = strategy.posterior(state, X)
    wide = strategy.posterior(state, X.view(2, 1, 2, 2).expand(2, TRIALS, 2, 2))
    for trial, number in enumerate(strategy.leading(state).tolist()):
        member, own = strategy.members[number], state.members[number]
        assert arms[trial] == member.recommended_arm(own)[trial]
        assert torch.equal(points[trial], member.recommend(own)[trial])
        wanted = member.posterior(own, X)
        torch.testing.assert_close(posterior.mean[trial], wanted.mean[trial])
        torch.testing.assert_close(posterior.variance[trial], wanted.variance[trial])
        torch.testing.assert_close(wide.mean[:, trial].reshape(4, 1), wanted.mean[trial])
        assert strategy.model_noise(state)[trial] == member.model_noise(own)[trial]
    assert strategy.as_model(state).posterior(X).mean.shape == (TRIALS, 4, 1)
    assert strategy.band(state, strategy.ask(state)) is None
    own = strategy.members[0].numbers_per_trial(state, 20)
    assert strategy.numbers_per_trial(state, 20) > own


@pytest.mark.few(1)
@each
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_on_a_box_in_either_precision(name, dtype):
    quick = MultiStart(raw_samples=32, restarts=2, evaluations=10)
    strategy, box = COMMITTEES[name](), Box(torch.tensor([[0.0] * 2, [1.0] * 2]), search=quick)
    state = strategy.init(box, batch_shape=(2,), dtype=dtype)
    for t in range(7):
        suggestion = strategy.ask(state, generator=torch.Generator().manual_seed(t))
        assert suggestion.X.dtype == suggestion.mean.dtype == dtype
        state, _ = strategy.tell(state, suggestion, torch.cos(4 * suggestion.X.sum(-1)))
    for part in state.memory[-1]:
        assert not part.is_floating_point() or part.dtype == dtype


@each
def test_refused_suggestions_do_not_change_the_state(name):
    strategy = COMMITTEES[name]()
    state, _ = play(strategy, strategy.init(GRID, batch_shape=(TRIALS,)), 0, 5)
    before, suggestion, y = copy.deepcopy(state), strategy.ask(state), torch.zeros(TRIALS, dtype=D)
    for made, match in [
        (suggestion._replace(member=suggestion.member + 7), "out of bounds"),
        (suggestion._replace(index=suggestion.index + 100), "same arm"),
        (strategy.members[0].ask(state.members[0]), "the suggestion belongs to"),
    ]:
        with pytest.raises((InputDataError, RuntimeError), match=match):
            strategy.tell(state, made, y, consume=True)
    assert all(torch.equal(*pair) for pair in zip(state.memory[-1], before.memory[-1]))


@pytest.mark.few(2)
@pytest.mark.parametrize("noise", [None, 0.3])
@each
def test_members_learn_from_points_chosen_elsewhere(name, noise):
    strategy = COMMITTEES[name]()
    other = gp_ucb(kernel=RBFKernel().double(), noise=0.1)
    members = (other, w_gp_ucb(**GIVEN, gamma=0.9), et_gp_ucb(**GIVEN))
    strategy = replace(strategy, members=members)
    state, _ = play(strategy, strategy.init(GRID, batch_shape=(TRIALS,)), 0, 8)
    suggestion = strategy.suggestion_at(state, GRID.X[:TRIALS])
    assert suggestion.member is None
    y = torch.tensor([0.1, math.nan, 0.3], dtype=D)
    given = {"ok": y.isfinite(), "noise": noise}
    after, _ = strategy.tell(state, suggestion, y, **given)
    for before, now in zip(state.memory[-1], after.memory[-1]):
        assert torch.equal(before, now)
    for member, own, theirs in zip(members, state.members, after.members):
        alone, _ = member.tell(own, member.suggestion_at(own, suggestion.X), y, **given)
        ours, wanted = member.posterior(theirs, GRID.X), member.posterior(alone, GRID.X)
        assert torch.equal(ours.mean, wanted.mean)
        assert torch.equal(ours.variance, wanted.variance)
        assert torch.equal(theirs.history.noise.tensor(), alone.history.noise.tensor())


# ---------------- Prior elimination

RATES, DELTA = (0.0, 0.05, 0.4), 0.1


@pytest.mark.few("20")
@pytest.mark.parametrize("rounds", [20, 60])
def test_eliminations_are_those_of_the_textbook(rounds):
    world = make_world(SETTING.points, SETTING.noise, rounds, TRIALS)
    strategy = pe_gp_ucb(**GIVEN, epsilons=RATES, delta=DELTA)
    state, K = strategy.init(GRID, batch_shape=(TRIALS,)), SETTING.matrix()
    bandit_of = partial(DenseBandit, K, 0.02, sqrt_beta=default_logarithmic)
    bandits = [[bandit_of(decay=("markov", rate)) for rate in RATES] for _ in range(TRIALS)]
    records = [[[] for _ in RATES] for _ in range(TRIALS)]
    rejected = [set() for _ in range(TRIALS)]
    for t in range(rounds):
        suggestion = strategy.ask(state)
        y = world.observe(t, suggestion.index)
        for trial in range(TRIALS):
            choices = [bandit.choose() for bandit in bandits[trial]]
            bounds = [choice.mean + choice.sqrt_beta * choice.sd for choice in choices]
            remaining = [p for p in range(3) if p not in rejected[trial]]
            member = max(remaining, key=lambda p: (bounds[p], -p))
            choice, where = choices[member], f"round {t + 1}, trial {trial}"
            assert int(suggestion.member[trial]) == member, where
            assert int(suggestion.index[trial]) == choice.index, where
            for name in ("mean", "sd", "sqrt_beta"):
                found = float(getattr(suggestion, name)[trial])
                assert found == pytest.approx(getattr(choice, name), abs=1e-8), where
            value, record = float(y[trial]), records[trial][member]
            for bandit in bandits[trial]:
                bandit.tell(bandit.consider(choice.index), value)
            record.append((value - choice.mean, choice.sqrt_beta * choice.sd))
            n = len(record)
            noise = math.sqrt(2 * n * 0.02 * math.log(3 * math.pi**2 * n**2 / (3 * DELTA)))
            errors, bands = (sum(part) for part in zip(*record))
            if abs(errors) > bands + noise and len(remaining) > 1:
                rejected[trial].add(member)
        state, _ = strategy.tell(state, suggestion, y)
        found = strategy.rejected(state)
        assert [set(row.nonzero().flatten().tolist()) for row in found] == rejected
    assert any(rejected)


def constant(value):
    return gp_ucb(**GIVEN, width=Constant(1e-6), mean=value)


def rejected_by(strategy, trials=1, rounds=40):
    """Rejections where the objective is 0 everywhere, except for noise."""
    generator = torch.Generator().manual_seed(0)
    state = strategy.init(GRID, batch_shape=(trials,))
    for _ in range(rounds):
        y = 0.02**0.5 * torch.randn(trials, generator=generator, dtype=D)
        state, _ = strategy.tell(state, strategy.ask(state), y)
    return strategy.rejected(state)


@pytest.mark.full
def test_the_last_prior_is_not_rejected():
    rejected = rejected_by(PriorElimination(members=(constant(5.0), constant(4.0))), trials=3)
    assert bool((~rejected).any(-1).all())
    assert not bool(rejected_by(PriorElimination(members=(constant(5.0),))).all())


@pytest.mark.full
def test_noise_alone_rejects_at_most_with_probability_delta():
    delta, tiny = 0.5, torch.ones(25, 25, dtype=D) * 1e-12
    player = gp_ucb(kernel=tiny + 1e-13 * torch.eye(25, dtype=D), noise=0.02, width=Constant(0.0))
    strategy = PriorElimination(members=(player, player), delta=delta)
    rate = float(rejected_by(strategy, trials=600, rounds=50).any(-1).double().mean())
    assert 0.0 < rate < delta


@pytest.mark.parametrize("variances", [(0.01, 1.0), (1.0, 0.01)])
def test_the_noise_in_the_bound_is_that_of_the_member_followed(variances):
    members = tuple(
        gp_ucb(kernel=SETTING.module(), noise=noise, width=Constant(1.0), mean=mean)
        for noise, mean in zip(variances, (0.0, 0.5))
    )
    strategy = PriorElimination(members=members, delta=DELTA)
    edge = 1 + math.sqrt(2 * variances[1] * math.log(2 * math.pi**2 / (3 * DELTA)))
    for error, beyond in ((0.99 * edge, False), (1.01 * edge, True)):
        state = strategy.init(GRID)
        suggestion = strategy.ask(state)
        assert int(suggestion.member) == 1
        state, _ = strategy.tell(state, suggestion, 0.5 - error)
        assert strategy.rejected(state).tolist() == [False, beyond]


# ---------------- Bandits over bandits

WINDOWS, BLOCK, HORIZON, B = (2, 4, 7), 7, 40, 2.0


@pytest.mark.few(1)
@pytest.mark.parametrize("maximize", [True, False])
def test_blocks_are_those_of_the_textbook(maximize):
    world = make_world(SETTING.points, SETTING.noise, HORIZON, 1)
    parts = {"windows": WINDOWS, "block": BLOCK, "horizon": HORIZON, "B": B}
    strategy = bob_gp_ucb(**GIVEN, **parts, maximize=maximize)
    rules = [(("period", BLOCK, "rounds"), ("window", window, "rounds")) for window in WINDOWS]
    book = {"sqrt_beta": chowdhury(B, 0.02**0.5, 0.1), "maximize": maximize}
    bandits = [DenseBandit(K, 0.02, retention=pair, **book) for pair in rules]
    numbers = np.random.default_rng(1).random(HORIZON)
    draws, state = Fixed(torch.tensor(numbers).view(-1, 1)), strategy.init(GRID, batch_shape=(1,))
    gamma = min(1.0, math.sqrt(3 * math.log(3) / ((math.e - 1) * math.ceil(HORIZON / BLOCK))))
    scale = 2 * BLOCK * B + 4 * 0.02**0.5 * math.sqrt(BLOCK * math.log(HORIZON / math.sqrt(BLOCK)))
    weights, reward, member, followed = np.ones(3), 0.0, 0, set()
    for t in range(HORIZON):
        if t % BLOCK == 0:
            chances = (1 - gamma) * weights / weights.sum() + gamma / 3
            member, reward = int((numbers[t] >= np.cumsum(chances)).sum()), 0.0
            followed.add(member)
        suggestion = strategy.ask(state, generator=draws)
        choice, where = [bandit.choose() for bandit in bandits][member], f"round {t + 1}"
        assert int(suggestion.member) == member, where
        assert int(suggestion.index) == choice.index, where
        for name in ("mean", "sd", "sqrt_beta"):
            found = float(getattr(suggestion, name))
            assert found == pytest.approx(getattr(choice, name), abs=1e-8), where
        y = world.observe(t, suggestion.index)
        state, info = strategy.tell(state, suggestion, y)
        assert bool(info.reset) == (t > 0 and t % BLOCK == 0), where
        for bandit in bandits:
            bandit.tell(bandit.consider(choice.index), float(y))
        reward += float(y) * (1 if maximize else -1)
        if (t + 1) % BLOCK == 0:
            weights[member] *= math.exp(gamma / (3 * chances[member]) * (0.5 + reward / scale))
    found = torch.softmax(state.memory[-1].log_weights, -1)[0]
    assert found.tolist() == pytest.approx((weights / weights.sum()).tolist(), abs=1e-10)
    assert len(followed) > 1


# ---------------- Elimination in phases

K, PERIOD, BETA = SETTING.matrix(), 25, 1.5


def phased(**more) -> PhasedElimination:
    usual = {"kernel": SETTING.module(), "noise": 0.02, "period": PERIOD, "beta": BETA}
    return r_perp(**(usual | more))


@pytest.mark.parametrize("period", [1, 2, 7, 25, 200, 1000])
def test_lengths_of_phases(period):
    lengths = phase_lengths(period)
    assert sum(lengths) == period
    whole = [1, *lengths[:-1]]
    assert [math.ceil(math.sqrt(period * last)) for last in whole[:-1]] == whole[1:]
    assert lengths[-1] <= math.ceil(math.sqrt(period * whole[-1]))


def planned(alive: set[int], length: int) -> list[int]:
    plan: list[int] = []
    for _ in range(length):
        times = [0.0] * len(plan)
        sd = np.sqrt(regression(K, plan, times, times, 0.0, noise=0.02)[1])
        best = max(sd[arm] for arm in alive)
        plan.append(min(arm for arm in alive if sd[arm] >= best - 1e-7))
    return plan


@pytest.mark.few(1)
@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("engine", ["exact", "features"])
def test_phases_are_those_of_the_book(maximize, engine):
    sign = 1.0 if maximize else -1.0
    world = make_world(SETTING.points, SETTING.noise, 60, TRIALS)
    player = phased(maximize=maximize, inference=engine)
    state = player.init(GRID, batch_shape=(TRIALS,))
    lengths = phase_lengths(PERIOD)
    begins = {0, *itertools.accumulate(lengths)} - {PERIOD}
    alive = [set(range(25)) for _ in range(TRIALS)]
    plans, rows, eliminated = [[]] * TRIALS, [[] for _ in range(TRIALS)], 0
    for t in range(60):
        done = t % PERIOD
        if done in begins:
            length = lengths[sorted(begins).index(done)]
            for trial in range(TRIALS):
                if done == 0:
                    alive[trial] = set(range(25))
                else:
                    arms, y = zip(*rows[trial])
                    mean, variance = regression(K, arms, [0.0] * len(y), y, 0.0, noise=0.02)
                    width = math.sqrt(BETA) * np.sqrt(variance)
                    among = sorted(alive[trial])
                    lower = max((sign * mean - width)[among])
                    remaining = {arm for arm in among if sign * mean[arm] + width[arm] >= lower}
                    eliminated += len(alive[trial]) - len(remaining)
                    alive[trial] = remaining
                plans[trial], rows[trial] = planned(alive[trial], length), []
        phase = state.memory[-1]
        suggestion = player.ask(state, generator=torch.Generator().manual_seed(t))
        y = world.observe(t, suggestion.index)
        for trial in range(TRIALS):
            assert set(phase.alive[trial].nonzero().flatten().tolist()) == alive[trial]
            remaining = phase.plan[trial][phase.pending[trial]].tolist()
            assert sorted(remaining) == sorted(plans[trial]), f"round {t + 1}"
            arm = int(suggestion.index[trial])
            plans[trial].remove(arm)
            rows[trial].append((arm, float(y[trial])))
        state, info = player.tell(state, suggestion, y)
        assert info.reset.tolist() == [t > 0 and done == 0] * TRIALS
    assert eliminated > 20


def test_eliminated_arms_set_no_limit():
    player, trials, beta = phased(beta=0.1), 40, 0.1
    state = player.init(GRID, batch_shape=(trials,))
    lengths, generator = phase_lengths(PERIOD), torch.Generator().manual_seed(8)
    root = torch.linalg.cholesky(torch.from_numpy(K) + 1e-9 * torch.eye(25, dtype=D))
    alive, differs = torch.ones(trials, 25, dtype=torch.bool), 0
    for length in lengths[:-1]:
        f = torch.randn(trials, 25, dtype=D, generator=generator) @ root.mT
        rows = []
        for _ in range(length):
            suggestion = player.ask(state, generator=generator)
            y = f.gather(1, suggestion.index.unsqueeze(1)).squeeze(1)
            state, _ = player.tell(state, suggestion, y)
            rows.append((suggestion.index, y))
        arms, values = (torch.stack(part, -1).tolist() for part in zip(*rows))
        for trial in range(trials):
            times = [0.0] * length
            mean, variance = regression(K, arms[trial], times, values[trial], 0.0, noise=0.02)
            width, among = math.sqrt(beta) * np.sqrt(variance), alive[trial].numpy()
            reaches = mean + width >= (mean - width)[among].max()
            differs += (among & reaches & (mean + width < (mean - width).max())).any()
            alive[trial] &= torch.from_numpy(reaches)
        assert torch.equal(state.memory[-1].alive, alive)
    assert differs > 2


def test_every_order_is_as_likely():
    player, trials = phased(period=16), 4800
    assert phase_lengths(16)[0] == 4
    state = player.init(GRID, batch_shape=(trials,))
    places = {arm: place for place, arm in enumerate(state.memory[-1].plan[0].tolist())}
    assert len(places) == 4
    orders = torch.zeros(trials, dtype=torch.int64)
    for t in range(4):
        suggestion = player.ask(state, generator=torch.Generator().manual_seed(t))
        orders = 4 * orders + torch.tensor([places[arm] for arm in suggestion.index.tolist()])
        state, _ = player.tell(state, suggestion, torch.zeros(trials, dtype=D))
    counts = orders.unique(return_counts=True)[1].double()
    assert len(counts) == 24
    assert float(((counts - 200).square() / 200).sum()) < 60  # 23 degrees; p = 3e-5


def test_failures_and_points_chosen_elsewhere_take_their_round():
    player = phased()
    state = player.init(GRID, batch_shape=(2,))
    for t in range(PERIOD + 3):
        suggestion = player.ask(state, generator=torch.Generator().manual_seed(t))
        if t % 3 == 0:
            suggestion = player.suggestion_at(state, GRID.X[[t % 25, 7]])
        y = torch.tensor([math.nan, 0.5], dtype=D)
        state, _ = player.tell(state, suggestion, y, ok=y.isfinite())
        remaining = state.memory[-1].pending.sum(-1)
        assert remaining[0] == remaining[1]
    assert int(remaining[0]) == phase_lengths(PERIOD)[0] - 3
    assert bool(state.memory[-1].alive.all())
    assert player.numbers_per_trial(state, 30) > 25
