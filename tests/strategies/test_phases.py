"""R-PERP: plans, random order and elimination, by the textbook."""

import copy
import io
import itertools
import math

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.rounds import Setting, make_world
from oracles.dense import regression

from botorch_tv.acquisition import IGPUCB, Constant
from botorch_tv.strategies import Box, r_perp
from botorch_tv.strategies.phases import PhasedElimination, phase_lengths

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=60)
GRID, K, D, TRIALS, PERIOD, BETA = SETTING.domain, SETTING.matrix(), torch.float64, 3, 25, 1.5


def strategy(**more) -> PhasedElimination:
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
        variance = regression(K, plan, times, times, 0.0, noise=0.02)[1]
        sd = np.sqrt(variance)
        best = max(sd[arm] for arm in alive)
        plan.append(min(arm for arm in alive if sd[arm] >= best - 1e-7))
    return plan


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("engine", ["exact", "features"])
def test_phases_are_those_of_the_book(maximize, engine):
    sign = 1.0 if maximize else -1.0
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    player = strategy(maximize=maximize, inference=engine)
    state = player.init(GRID, batch_shape=(TRIALS,))
    lengths = phase_lengths(PERIOD)
    begins = {0, *itertools.accumulate(lengths)} - {PERIOD}
    alive = [set(range(25)) for _ in range(TRIALS)]
    plans, rows, eliminated = [[]] * TRIALS, [[] for _ in range(TRIALS)], 0
    for t in range(SETTING.rounds):
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
    player, trials, beta = strategy(beta=0.1), 40, 0.1
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
    player = strategy(period=16)
    assert phase_lengths(16)[0] == 4
    trials = 4800
    state = player.init(GRID, batch_shape=(trials,))
    places = {arm: place for place, arm in enumerate(state.memory[-1].plan[0].tolist())}
    assert len(places) == 4
    orders = torch.zeros(trials, dtype=torch.int64)
    for t in range(4):
        suggestion = player.ask(state, generator=torch.Generator().manual_seed(t))
        at = torch.tensor([places[arm] for arm in suggestion.index.tolist()])
        orders = 4 * orders + at
        state, _ = player.tell(state, suggestion, torch.zeros(trials, dtype=D))
    counts = orders.unique(return_counts=True)[1].double()
    assert len(counts) == 24
    assert float(((counts - 200).square() / 200).sum()) < 60  # 23 degrees; p = 3e-5


def play(player, state, start=0, stop=SETTING.rounds, seeds=range(TRIALS), take=None):
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, TRIALS)
    world = world if take is None else world.take(take)
    seen = []
    for t in range(start, stop):
        generators = [torch.Generator().manual_seed(100 * t + seed) for seed in seeds]
        suggestion = player.ask(state, generator=generators)
        state, _ = player.tell(state, suggestion, world.observe(t, suggestion.index))
        seen.append(suggestion)
    return state, seen


def test_a_batch_is_its_trials():
    player = strategy()
    _, together = play(player, player.init(GRID, batch_shape=(TRIALS,)))
    for trial in range(TRIALS):
        _, alone = play(player, player.init(GRID), seeds=[trial], take=[trial])
        for mine, theirs in zip(alone, together):
            assert torch.equal(mine.index, theirs.index[trial])
            torch.testing.assert_close(mine.mean, theirs.mean[trial], atol=1e-9, rtol=0)


def test_a_saved_run_goes_on_and_nothing_changes_in_place():
    player = strategy()
    state, _ = play(player, player.init(GRID, batch_shape=(TRIALS,)), 0, 13)
    before, saved = copy.deepcopy(state.memory[-1]), io.BytesIO()
    torch.save(state, saved)
    _, wanted = play(player, state, 13)
    assert all(torch.equal(*pair) for pair in zip(state.memory[-1], before))
    saved.seek(0)
    _, found = play(player, torch.load(saved, weights_only=False), 13)
    assert all(torch.equal(a.index, b.index) for a, b in zip(found, wanted))


def test_failures_and_points_chosen_elsewhere_take_their_round():
    player = strategy()
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


def test_refusals():
    with pytest.raises(InputDataError, match="needs a list of arms"):
        strategy().init(Box([(0.0, 1.0)]))
    usual = {"kernel": SETTING.module(), "noise": 0.02, "width": Constant(4.0), "period": 5}
    for given, message in [
        ({"period": 0}, "period"),
        ({"width": IGPUCB(B=1.0, R=0.1, delta=0.1)}, "an information gain"),
        ({"mean": "estimated"}, "a number"),
    ]:
        with pytest.raises(ValueError, match=f"PhasedElimination: .*{message}"):
            PhasedElimination(**(usual | given))
