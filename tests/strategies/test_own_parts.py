"""Retentions, explorations and memories of a user's own."""

import copy
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.strangers import (
    CumulativeSum,
    EpsilonGreedy,
)
from conformance.test_law4_pure import assert_agree, assert_identical
from gpytorch.kernels import RBFKernel

from botorch_tv import Loop
from botorch_tv.acquisition import Constant, Exploration
from botorch_tv.forgetting import Retained, Retention, SlidingWindow
from botorch_tv.strategies import Box, GPStrategy, Grid, Strategy

D = torch.float64
KERNEL = RBFKernel().double()
KERNEL.lengthscale = 0.3
GRID, BOX = Grid.regular(4, 2), Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D))
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")


@dataclass(frozen=True)
class Says(Retention):
    answer: Any
    memory: Any = None
    later: Any = lambda log: log.memory

    def init(self, batch_shape):
        return copy.deepcopy(self.memory)

    def keep(self, log):
        return self.answer(log)

    def update(self, log):
        return self.later(log)


@dataclass(frozen=True)
class Picks(Exploration):
    choice: Any

    def choose(self, candidates):
        return self.choice(candidates)


def strategy_of(**parts: Any) -> Strategy:
    return GPStrategy(kernel=KERNEL, noise=0.05, **parts)


def played(strategy: Strategy, domain: Any, shape=(), rounds=5, trials=None, **tell: Any) -> tuple:
    trials = list(range(math.prod(shape))) if trials is None else trials
    state, record = strategy.init(domain, batch_shape=shape), []
    for t in range(rounds):
        generators = [torch.Generator().manual_seed(100 * t + trial) for trial in trials]
        suggestion = strategy.ask(state, generator=generators)
        record.append(suggestion)
        state, _ = strategy.tell(state, suggestion, measured(suggestion.X, t, trials), **tell)
    return state, record


def measured(X: torch.Tensor, t: int, trials: list[int]) -> torch.Tensor:
    phase = torch.tensor(trials, dtype=D).reshape(X.shape[:-1])
    return torch.cos(4 * X.sum(-1) + 0.4 * t + phase) + (t % 4 == 3)


@pytest.mark.parametrize(
    ("answer", "match"),
    [
        (lambda log: None, "must return a Retained"),
        (lambda log: log.time, r"rows \(torch.float64"),
        (lambda log: torch.ones(1, dtype=torch.bool), r"must be a bool tensor of shape \(2, 1\)"),
        (lambda log: Retained(newest=-1), "a whole number of at least 0"),
        (lambda log: Retained(newest=True), "a whole number of at least 0"),
        (lambda log: Retained(newest=1, where=log.now), r"where \(torch.float64"),
        (lambda log: Retained(reset=1), "returned reset 1"),
        (lambda log: Retained(aside=log.now > 9), r"aside .*must be a bool tensor of shape"),
        (lambda log: Retained(where=log.now > 0), "where= without newest="),
        (lambda log: Retained(newest=1, rows=log.time > 0), "rows= with newest="),
        (lambda log: (log.time > 0).to("meta"), "type='meta'"),
    ],
)
def test_answers_that_fit_no_log_are_refused(answer, match):
    strategy = strategy_of(retention=Says(answer))
    state = strategy.init(GRID, batch_shape=(2,))
    suggestion, before = strategy.ask(state), copy.deepcopy(state)
    with pytest.raises(InputDataError, match=match):
        strategy.tell(state, suggestion, torch.ones(2, dtype=D))
    assert_identical(state, before)


@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_failed_and_dropped_rows_are_hidden_from_rules(domain):
    seen = []

    def alternate(log):
        count = log.y.shape[-1]
        seen.append((log.y, log.noise, log.retained))
        return Retained(rows=(torch.arange(count) + torch.arange(2).unsqueeze(-1)) % 3 > 0)

    strategy = strategy_of(retention=Says(alternate))
    state = strategy.init(domain, batch_shape=(2,))
    for t in range(7):
        ok = torch.tensor([t % 4 != 1, True])
        y = torch.full((2,), 5.0 + t, dtype=D)
        state, _ = strategy.tell(state, strategy.ask(state), y, ok=ok)
    assert any(bool((~retained).any()) for *_, retained in seen)
    for y, noise, retained in seen:
        assert torch.equal(y == 0, noise.isinf())
        assert bool(noise[~retained].isinf().all())


def test_a_state_does_not_change_where_a_rule_answers_in_its_memory_again():
    memory = torch.zeros(2, 9, dtype=torch.bool)

    def alternate(log):
        rows = memory[:, : log.y.shape[-1]].fill_(True)
        rows[log.rounds % 2, 0] = log.rounds < 3
        return Retained(rows=rows)

    strategy = strategy_of(retention=Says(alternate))
    state = strategy.init(GRID, batch_shape=(2,))
    for t in range(5):
        state, _ = strategy.tell(state, strategy.ask(state), torch.full((2,), 5.0 + t, dtype=D))
        before = copy.deepcopy(state)
        strategy.tell(state, strategy.ask(state), torch.zeros(2, dtype=D))
        assert_identical(state, before)


def test_an_exception_in_a_rule_does_not_change_the_state():
    strategy = strategy_of(
        retention=(SlidingWindow(3), Says(lambda log: Retained(newest=9 // (4 - log.rounds))))
    )
    state, _ = played(strategy, GRID, rounds=3)
    suggestion, before = strategy.ask(state), copy.deepcopy(state)
    with pytest.raises(ZeroDivisionError):
        strategy.tell(state, suggestion, 0.3)
    assert_identical(state, before)


@pytest.mark.parametrize(
    ("memory", "later", "match"),
    [
        (torch.zeros(7), lambda log: log.memory, r"of shape \(7,\) in its memory"),
        (torch.zeros(2), lambda log: log.y.mean(), r"of shape \(\) in its memory"),
        (torch.zeros(2), lambda log: None, "update returned None"),
        (torch.nn.Linear(1, 1), lambda log: log.memory, "a memory consists of tensors"),
        ({"a": torch.zeros(3)}, lambda log: log.memory, r"of shape \(3,\) in its memory"),
    ],
)
def test_memories_that_do_not_fit_are_refused(memory, later, match):
    strategy = strategy_of(retention=Says(lambda log: Retained(), memory, later))
    with pytest.raises(InputDataError, match=match):
        played(strategy, GRID, (2,), rounds=2)


@pytest.mark.parametrize(
    ("choice", "domain", "match"),
    [
        (lambda seen: seen.argmax(lambda at: at.mean).double(), GRID, "Picks is torch.float64"),
        (lambda seen: seen.anywhere() + 16, GRID, "out of bounds"),
        (lambda seen: seen.anywhere() - 16, GRID, "out of bounds"),
        (lambda seen: seen.anywhere() + 2, BOX, "lies outside"),
        (lambda seen: seen.anywhere() * math.nan, BOX, "is not finite"),
        (lambda seen: seen.anywhere().float(), BOX, "the choice of Picks is torch.float32"),
        (lambda seen: seen.argmax(lambda at: at.mean * math.nan), GRID, "a score is NaN"),
        (lambda seen: seen.argmax(lambda at: at.mean * math.nan), BOX, "a score is NaN"),
        (lambda seen: seen.argmax(lambda at: at.mean > 0), GRID, "floating-point numbers"),
        (lambda seen: seen.argmax(lambda at: at.mean[..., :1]), BOX, "shape of the candidates"),
        (lambda seen: seen.argmax(lambda at: at.mean.detach()), BOX, "without detach"),
        (lambda seen: seen.mean.argmax(-1), BOX, "cannot be listed"),
        (lambda seen: None, GRID, "the choice of Picks is None"),
        (lambda seen: seen.anywhere().to("meta"), GRID, r"on meta, but it must be .* on cpu"),
    ],
)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_choices_that_fit_no_domain_are_refused(choice, domain, match, shape):
    strategy = strategy_of(exploration=Picks(choice))
    with pytest.raises((InputDataError, NotImplementedError, RuntimeError), match=match):
        strategy.ask(strategy.init(domain, batch_shape=shape))


def test_two_samples_of_a_round_are_two_functions():
    seen: list[torch.Tensor] = []

    def choice(candidates: Any) -> torch.Tensor:
        place = candidates.anywhere()
        both = [candidates.at(place).sample(2)[..., 0] for _ in range(2)]
        assert torch.equal(*both)
        assert torch.equal(both[0][0], candidates.at(place).sample()[0, ..., 0])
        seen.append(both[0])
        return place

    for domain in (GRID, BOX):
        strategy = strategy_of(exploration=Picks(choice))
        state, _ = played(strategy, domain, (400,), rounds=2)
        strategy.ask(state)
        first, second = seen[-1]
        assert abs(torch.corrcoef(torch.stack([first, second]))[0, 1]) < 0.2  # 4 standard errors


def test_a_loop_goes_on_where_it_was_with_memories(tmp_path):
    strategy = strategy_of(
        exploration=EpsilonGreedy(), retention=(SlidingWindow(6), CumulativeSum(0.5, 1.0))
    )
    loops = [Loop(strategy, BOX, seed=3) for _ in range(2)]
    for t in range(9):
        if t == 5:
            loops[1].save(tmp_path / "loop.json")
            loops[1] = Loop.load(tmp_path / "loop.json", strategy)
        suggestions = [loop.ask() for loop in loops]
        assert torch.equal(suggestions[0].X, suggestions[1].X)
        for loop in loops:
            loop.tell(float(measured(suggestions[0].X, t, [0])))
    assert_agree(*(loop.state.memory for loop in loops))


@dataclass(frozen=True)
class Curious(Exploration):
    seen: list = field(default_factory=list)

    def score(self, candidates):
        facts = (candidates.has_data, candidates.incumbent, candidates.sqrt_beta)
        where = (candidates.sign, candidates.scale, candidates.mean.shape)
        self.seen.append((*facts, *where, candidates.round, candidates.noise))
        return candidates.sign * candidates.mean


@pytest.mark.parametrize("maximize", [True, False])
@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_candidates_show_the_posterior_of_each_trial(domain, maximize):
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(0.2, dtype=D)
    strategy = GPStrategy(
        kernel=kernel,
        noise=0.1,
        width=Constant(4.0),
        exploration=(curious := Curious()),
        maximize=maximize,
    )
    state = strategy.init(domain, batch_shape=(3,))
    corners = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
    for x, y, ok in (
        (corners[0], [3.0, -2.0, 9.0], [True, True, False]),
        (corners[1], [-1.0, 7.0, 7.0], [True, False, False]),
    ):
        at = strategy.suggestion_at(state, x.expand(3, 2))
        state, _ = strategy.tell(state, at, torch.tensor(y, dtype=D), ok=torch.tensor(ok))
    strategy.ask(state)
    has_data, incumbent, sqrt_beta, sign, scale, shape, number, noise = curious.seen[0]
    assert has_data.tolist() == [True, True, False]
    best = 3 if maximize else -1
    # A corner tells nothing of the other, k = exp(-25): its mean is y / (1 + 0.1).
    wanted = torch.tensor([best / 1.1, -2 / 1.1, 0.0], dtype=D)
    torch.testing.assert_close(incumbent[:, 0], wanted, rtol=0, atol=1e-9)
    assert float(torch.as_tensor(sqrt_beta).max()) == pytest.approx(2.0)
    assert sign == (1 if maximize else -1)
    assert scale == pytest.approx(1.0)
    assert shape[0] == 3
    assert number == 3
    assert noise.unique().tolist() == [0.1]
