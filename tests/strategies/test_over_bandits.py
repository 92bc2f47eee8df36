"""BOB: EXP3 by the book over windows by the book."""

import math

import numpy as np
import pytest
import torch
from conformance.presets import chowdhury
from conformance.rounds import Setting, make_world
from oracles.dense import DenseBandit

from botorch_tv.strategies import BanditOverBandits, bob_gp_ucb, gp_ucb

SETTING = Setting(points=5, kernel="se", noise=0.02, rounds=40)
D = torch.float64
WINDOWS, BLOCK, HORIZON, B = (2, 4, 7), 7, 40, 2.0


class Given:
    """Uniform numbers that a test knows; one trial."""

    def __init__(self, numbers):
        self.numbers, self.taken = numbers, 0

    def uniform(self, *event_shape):
        self.taken += 1
        return torch.full((1, *event_shape), float(self.numbers[self.taken - 1]), dtype=D)

    def normal(self, *event_shape):
        raise AssertionError("nothing is drawn but the member")


@pytest.mark.parametrize("maximize", [True, False])
def test_rounds_are_those_of_the_book(maximize):
    world = make_world(SETTING.points, SETTING.noise, SETTING.rounds, 1)
    one = bob_gp_ucb(
        kernel=SETTING.module(),
        noise=0.02,
        windows=WINDOWS,
        block=BLOCK,
        horizon=HORIZON,
        B=B,
        maximize=maximize,
    )
    books = [
        DenseBandit(
            SETTING.matrix(),
            0.02,
            retention=(("period", BLOCK, "rounds"), ("window", window, "rounds")),
            sqrt_beta=chowdhury(B, 0.02**0.5, 0.1),
            maximize=maximize,
        )
        for window in WINDOWS
    ]
    numbers = np.random.default_rng(1).random(SETTING.rounds)
    draws, state = Given(numbers), one.init(SETTING.domain, batch_shape=(1,))
    blocks = math.ceil(HORIZON / BLOCK)
    gamma = min(1.0, math.sqrt(3 * math.log(3) / ((math.e - 1) * blocks)))
    scale = 2 * BLOCK * B + 4 * 0.02**0.5 * math.sqrt(BLOCK * math.log(HORIZON / math.sqrt(BLOCK)))
    weights, reward, member, followed = np.ones(3), 0.0, 0, set()
    for t in range(SETTING.rounds):
        if t % BLOCK == 0:
            chances = (1 - gamma) * weights / weights.sum() + gamma / 3
            member, reward = int((numbers[t] >= np.cumsum(chances)).sum()), 0.0
            followed.add(member)
        suggestion = one.ask(state, generator=draws)
        choices = [book.choose() for book in books]
        choice = choices[member]
        where = f"round {t + 1}"
        assert int(suggestion.member) == member, where
        assert int(suggestion.index) == choice.index, where
        for name in ("mean", "sd", "sqrt_beta"):
            told_of = float(getattr(suggestion, name))
            assert told_of == pytest.approx(getattr(choice, name), abs=1e-8), where
        y = world.observe(t, suggestion.index)
        state, info = one.tell(state, suggestion, y)
        assert bool(info.reset) == (t > 0 and t % BLOCK == 0), where
        for book in books:
            book.tell(book.consider(choice.index), float(y))
        reward += float(y) * (1 if maximize else -1)
        if (t + 1) % BLOCK == 0:
            weights[member] *= math.exp(gamma / (3 * chances[member]) * (0.5 + reward / scale))
    told = torch.softmax(state.memory[-1].log_weights, -1)[0]
    assert told.tolist() == pytest.approx((weights / weights.sum()).tolist(), abs=1e-10)
    assert len(followed) > 1


def committee(number: int = 2, **more):
    members = tuple(gp_ucb(kernel=SETTING.module(), noise=0.02) for _ in range(number))
    return BanditOverBandits(**({"members": members, "block": 5, "horizon": 500} | more))


def test_members_are_drawn_as_often_as_their_chances_say():
    one = committee(3)
    state = one.init(SETTING.domain, batch_shape=(6000,))
    log_weights = torch.tensor([0.0, 1.0, 3.0], dtype=D).expand(6000, 3)
    block = state.memory[-1]._replace(log_weights=log_weights)
    state = state._replace(memory=(block,))
    member = one.ask(state, generator=torch.Generator().manual_seed(3)).member
    shares = torch.bincount(member, minlength=3) / 6000
    chances = one.chances(log_weights[0])
    assert float(chances.sum()) == pytest.approx(1.0)
    assert float(chances.min()) >= one.gamma / 3
    assert shares.tolist() == pytest.approx(chances.tolist(), abs=0.02)


def test_who_pays_is_followed():
    """A member whose blocks pay twice as much has most of the weight after a hundred blocks."""
    one = committee()
    state = one.init(SETTING.domain, batch_shape=(20,))
    for t in range(500):
        suggestion = one.ask(state, generator=torch.Generator().manual_seed(t))
        y = torch.where(suggestion.member == 1, 0.9, -0.9).to(D)
        block = one.learn(state, suggestion, y, torch.full_like(y, 0.02))
        data = state.data._replace(rounds=t + 1)
        first = state._replace(data=data, memory=(block,))
        state = first
    share = torch.softmax(state.memory[-1].log_weights, -1)[:, 1]
    assert float(share.mean()) > 0.8


def test_within_a_block_nobody_else_is_followed():
    one = committee(3)
    state = one.init(SETTING.domain, batch_shape=(30,))
    members = []
    for t in range(15):
        suggestion = one.ask(state, generator=torch.Generator().manual_seed(t))
        members.append(suggestion.member)
        state, _ = one.tell(state, suggestion, torch.zeros(30, dtype=D))
    for start in (0, 5, 10):
        assert all(torch.equal(members[start], one) for one in members[start : start + 5])
    assert not torch.equal(members[0], members[5])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"block": 0}, "block"),
        ({"horizon": 4}, "block is 5, but horizon is 4"),
        ({"bound": 0.0}, "bound"),
        ({"R": -1.0}, "R"),
    ],
)
def test_bad_numbers_are_refused(given, message):
    with pytest.raises(ValueError, match=f"BanditOverBandits: {message}"):
        committee(**given)
