"""PE-GP-UCB: by the textbook, and which priors are rejected."""

import math

import pytest
import torch
from conformance.presets import default_logarithmic
from conformance.rounds import Setting, make_world
from oracles.dense import DenseBandit

from botorch_tv.acquisition import Constant
from botorch_tv.strategies import PriorElimination, gp_ucb, pe_gp_ucb

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=60)
D, RATES, DELTA = torch.float64, (0.0, 0.05, 0.4), 0.1


def test_choices_and_rejections_are_those_of_the_book():
    """To 1e-8, until and after the prior that stands still is rejected by a jump."""
    trials = 3
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, trials)
    one = pe_gp_ucb(kernel=SETTING.module(), noise=0.02, epsilons=RATES, delta=DELTA)
    state = one.init(SETTING.domain, batch_shape=(trials,))
    books = [
        [
            DenseBandit(
                SETTING.matrix(), 0.02, decay=("markov", rate), sqrt_beta=default_logarithmic
            )
            for rate in RATES
        ]
        for _ in range(trials)
    ]
    told = [[[] for _ in RATES] for _ in range(trials)]
    rejected = [set() for _ in range(trials)]
    for t in range(SETTING.rounds):
        suggestion = one.ask(state)
        y = world.observe(t, suggestion.index)
        for trial in range(trials):
            choices = [book.choose() for book in books[trial]]
            left = [p for p in range(3) if p not in rejected[trial]]
            member = max(left, key=lambda p: (bound(choices[p]), -p))
            choice = choices[member]
            where = f"round {t + 1}, trial {trial}"
            assert int(suggestion.member[trial]) == member, where
            assert int(suggestion.index[trial]) == choice.index, where
            for name in ("mean", "sd", "sqrt_beta"):
                told_of = float(getattr(suggestion, name)[trial])
                assert told_of == pytest.approx(getattr(choice, name), abs=1e-8), where
            value = float(y[trial])
            for book in books[trial]:
                book.tell(book.consider(choice.index), value)
            mine = told[trial][member]
            mine.append((value - choice.mean, choice.sqrt_beta * choice.sd))
            n = len(mine)
            noise = math.sqrt(2 * n * 0.02 * math.log(3 * math.pi**2 * n**2 / (3 * DELTA)))
            if abs(sum(e for e, _ in mine)) > sum(b for _, b in mine) + noise and len(left) > 1:
                rejected[trial].add(member)
        state, _ = one.tell(state, suggestion, y)
        found = one.rejected(state)
        assert [set(row.nonzero().flatten().tolist()) for row in found] == rejected


def bound(choice) -> float:
    return choice.mean + choice.sqrt_beta * choice.sd


def constant(value: float, sure: bool = True):
    """Priors that are sure of themselves and of a level."""
    width = Constant(1e-6 if sure else 9.0)
    return gp_ucb(kernel=SETTING.module(), noise=0.02, width=width, mean=value)


def observed(one, levels, trials=1, rounds=40, seed=0):
    """An objective that is 0 everywhere, but for noise."""
    generator = torch.Generator().manual_seed(seed)
    state = one.init(SETTING.domain, batch_shape=(trials,))
    for _ in range(rounds):
        suggestion = one.ask(state)
        y = levels + 0.02**0.5 * torch.randn(trials, generator=generator, dtype=D)
        state, _ = one.tell(state, suggestion, y)
    return state


def test_a_prior_that_is_wrong_and_sure_of_it_is_rejected_and_no_longer_followed():
    """It expects 5 more wherever it has not looked."""
    one = PriorElimination(members=(constant(5.0), constant(0.0, sure=False)))
    state = observed(one, 0.0, trials=4)
    assert one.rejected(state).tolist() == [[True, False]] * 4
    assert one.ask(state).member.tolist() == [1] * 4
    assert one.leading(state).tolist() == [1] * 4


def test_the_last_prior_is_not_rejected():
    one = PriorElimination(members=(constant(5.0), constant(4.0)))
    rejected = one.rejected(observed(one, 0.0, trials=3))
    assert bool((~rejected).any(-1).all())
    alone = PriorElimination(members=(constant(5.0),))
    assert not bool(one.rejected(observed(alone, 0.0)).all())


def test_noise_alone_rejects_no_more_than_promised():
    """Bands of width nearly 0 around the truth: only noise is left, in 600 trials."""
    delta, still = 0.5, torch.ones(25, 25, dtype=D) * 1e-12
    player = gp_ucb(kernel=still + 1e-13 * torch.eye(25, dtype=D), noise=0.02, width=Constant(0.0))
    one = PriorElimination(members=(player, player), delta=delta)
    rejected = one.rejected(observed(one, 0.0, trials=600, rounds=50))
    rate = float(rejected.any(-1).double().mean())
    assert 0.0 < rate < delta


@pytest.mark.parametrize("delta", [0.0, 1.0, math.nan])
def test_delta_is_a_chance(delta):
    with pytest.raises(ValueError, match="PriorElimination: delta"):
        PriorElimination(members=(constant(0.0),), delta=delta)


@pytest.mark.parametrize("order", [0, 1], ids=["quiet first", "noisy first"])
def test_the_noise_of_the_band_is_that_of_the_prior_that_was_followed(order):
    """Its own prior judges an error: √(2 σ² ln(2π² / (3δ))) beside √β sd, and sd = 1 at first."""
    variances = (0.01, 1.0) if order == 0 else (1.0, 0.01)
    members = tuple(
        gp_ucb(kernel=SETTING.module(), noise=noise, width=Constant(1.0), mean=mean)
        for noise, mean in zip(variances, (0.0, 0.5))
    )
    one = PriorElimination(members=members, delta=DELTA)
    followed = variances[1]  # of the higher mean
    edge = 1 + math.sqrt(2 * followed * math.log(2 * math.pi**2 / (3 * DELTA)))
    for error, beyond in ((0.99 * edge, False), (1.01 * edge, True)):
        state = one.init(SETTING.domain)
        suggestion = one.ask(state)
        assert int(suggestion.member) == 1
        state, _ = one.tell(state, suggestion, 0.5 - error)
        assert one.rejected(state).tolist() == [False, beyond]
