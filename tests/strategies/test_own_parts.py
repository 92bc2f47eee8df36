"""Retentions, explorations and memories of a user's own: what is refused, and what goes on."""

import copy
import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.strangers import (
    CumulativeSum,
    Directed,
    EpsilonGreedy,
    NearBest,
    Pendulum,
    Replaced,
    Thinned,
    TopTwo,
)
from conformance.test_law4_pure import assert_agree, assert_identical
from gpytorch.kernels import RBFKernel

from botorch_tv import Loop, run_study
from botorch_tv.acquisition import Exploration
from botorch_tv.experts import SparQ
from botorch_tv.forgetting import EventTrigger, Markov, Retained, Retention, SlidingWindow
from botorch_tv.learning import Refit
from botorch_tv.strategies import Box, GPStrategy, Grid, Strategy

D = torch.float64
KERNEL = RBFKernel().double()
KERNEL.lengthscale = 0.3
GRID, BOX = Grid.regular(4, 2), Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D))
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")


@dataclass(frozen=True)
class Says(Retention):
    """Answers anything."""

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
    """Chooses anything."""

    choice: Any

    def choose(self, candidates):
        return self.choice(candidates)


def strategy_of(**parts: Any) -> Strategy:
    return GPStrategy(kernel=KERNEL, noise=0.05, **parts)


def played(strategy: Strategy, domain: Any, shape=(), rounds=5, trials=None, **tell: Any) -> tuple:
    """A state after some rounds, and all that was suggested; trials have numbers of their own."""
    trials = list(range(math.prod(shape))) if trials is None else trials
    state, record = strategy.init(domain, batch_shape=shape), []
    for t in range(rounds):
        generators = [torch.Generator().manual_seed(100 * t + one) for one in trials]
        suggestion = strategy.ask(state, generator=generators)
        record.append(suggestion)
        state, _ = strategy.tell(state, suggestion, measured(suggestion.X, t, trials), **tell)
    return state, record


def measured(X: torch.Tensor, t: int, trials: list[int]) -> torch.Tensor:
    phase = torch.tensor(trials, dtype=D).reshape(X.shape[:-1])
    return torch.cos(4 * X.sum(-1) + 0.4 * t + phase) + (t % 4 == 3)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda log: None, "but keep.. returns a Retained"),
        (lambda log: log.time, r"rows \(torch.float64"),
        (lambda log: torch.ones(1, dtype=torch.bool), r"must be a bool tensor of shape \(2, 1\)"),
        (lambda log: Retained(newest=-1), "a whole number from 0 on"),
        (lambda log: Retained(newest=2.0), "a whole number from 0 on"),
        (lambda log: Retained(newest=True), "a whole number from 0 on"),
        (lambda log: Retained(newest=1, where=log.now), r"where \(torch.float64"),
        (lambda log: Retained(reset=1), "with reset 1"),
        (
            lambda log: Retained(aside=log.now > 9),
            r"aside .*must be a bool tensor of shape \(2, 1\)",
        ),
        (lambda log: Retained(where=log.now > 0), "with where= alone"),
        (lambda log: Retained(newest=1, rows=log.time > 0), "rows= beside newest="),
        (lambda log: (log.time > 0).to("meta"), "type='meta'"),
    ],
)
@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_answers_that_fit_no_log_are_refused(answer, words, domain):
    strategy = strategy_of(retention=Says(answer))
    state = strategy.init(domain, batch_shape=(2,))
    suggestion, before = strategy.ask(state), copy.deepcopy(state)
    with pytest.raises(InputDataError, match=words):
        strategy.tell(state, suggestion, torch.ones(2, dtype=D))
    assert_identical(state, before)


@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_nothing_is_seen_of_what_failed_or_has_left(domain):
    """A rule that lets single rows go in some trials sees zeros of infinite noise there."""
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


def test_what_a_rule_raises_leaves_the_state_as_it_was():
    strategy = strategy_of(
        retention=(SlidingWindow(3), Says(lambda log: Retained(newest=9 // (4 - log.rounds))))
    )
    state, _ = played(strategy, GRID, rounds=3)
    suggestion, before = strategy.ask(state), copy.deepcopy(state)
    with pytest.raises(ZeroDivisionError):
        strategy.tell(state, suggestion, 0.3)
    assert_identical(state, before)


@pytest.mark.parametrize(
    ("memory", "later", "words"),
    [
        (
            torch.zeros(7),
            lambda log: log.memory,
            r"of shape \(7,\) in its memory",
        ),
        (torch.zeros(2), lambda log: log.y.mean(), r"of shape \(\) in its memory"),
        (torch.zeros(2), lambda log: None, "update returned None"),
        (torch.nn.Linear(1, 1), lambda log: log.memory, "a memory consists of tensors"),
        ({"a": torch.zeros(3)}, lambda log: log.memory, r"of shape \(3,\) in its memory"),
    ],
)
@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_memories_that_cannot_be_carried_are_refused(memory, later, words, domain):
    strategy = strategy_of(retention=Says(lambda log: Retained(), memory, later))
    with pytest.raises(InputDataError, match=words):
        played(strategy, domain, (2,), rounds=2)


@pytest.mark.parametrize(
    ("choice", "domain", "words"),
    [
        (
            lambda seen: seen.argmax(lambda at: at.mean).double(),
            GRID,
            "choice of Picks is torch.float64",
        ),
        (lambda seen: seen.anywhere() + 16, GRID, "out of bounds"),
        (lambda seen: seen.anywhere() - 16, GRID, "out of bounds"),
        (lambda seen: seen.anywhere() + 2, BOX, "lies outside"),
        (lambda seen: seen.anywhere() * math.nan, BOX, "is not finite"),
        (lambda seen: seen.anywhere().float(), BOX, "the choice of Picks is torch.float32"),
        (lambda seen: seen.argmax(lambda at: at.mean * math.nan), GRID, "a score is NaN"),
        (lambda seen: seen.argmax(lambda at: at.mean * math.nan), BOX, "a score is NaN"),
        (lambda seen: seen.argmax(lambda at: at.mean > 0), GRID, "floating-point numbers"),
        (lambda seen: seen.argmax(lambda at: at.mean > 0), BOX, "floating-point numbers"),
        (lambda seen: seen.argmax(lambda at: at.mean[..., :1]), BOX, "shape of the candidates"),
        (lambda seen: seen.argmax(lambda at: at.mean.detach()), BOX, "without detach"),
        (lambda seen: seen.mean.argmax(-1), BOX, "cannot be listed"),
        (lambda seen: None, GRID, "the choice of Picks is None"),
    ],
)
@pytest.mark.parametrize("shape", [(), (3,)])
def test_choices_that_are_none_are_refused(choice, domain, words, shape):
    strategy = strategy_of(exploration=Picks(choice))
    state = strategy.init(domain, batch_shape=shape)
    with pytest.raises((InputDataError, NotImplementedError, RuntimeError), match=words):
        strategy.ask(state)


@dataclass(frozen=True)
class Cautious(Exploration):
    """Nothing far below what each trial has reached; the score knows a number per trial."""

    def choose(self, candidates):
        reached = candidates.at(candidates.argmax(lambda at: at.sign * at.mean)).mean
        return candidates.argmax(lambda at: at.sd - (at.mean - 0.8 * reached).square())


@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
@pytest.mark.parametrize(
    "exploration", [Directed(), TopTwo(), EpsilonGreedy(), Cautious()], ids=lambda one: repr(one)
)
@pytest.mark.parametrize("shape", [(3,), (2, 1)])
def test_a_batch_is_a_loop_of_singles(exploration, domain, shape):
    """Points to the precision of a search that is stopped by its own batch."""
    strategy = strategy_of(exploration=exploration, retention=CumulativeSum(1.0, 2.0))
    _, together = played(strategy, domain, shape)
    for trial in range(math.prod(shape)):
        _, alone = played(strategy, domain, (), trials=[trial])
        for one, other in zip(together, alone):
            X = one.X.reshape(-1, 2)[trial]
            torch.testing.assert_close(X, other.X, rtol=0, atol=1e-6)
            torch.testing.assert_close(one.mean.flatten()[trial], other.mean, rtol=0, atol=1e-6)


def test_two_samples_of_a_round_are_two_functions():
    """And always the same two, on a box as on a grid."""
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


@pytest.mark.parametrize("domain", [GRID, BOX], ids=["grid", "box"])
def test_a_state_may_be_used_up(domain):
    parts = {"decay": Markov(0.1), "retention": (SlidingWindow(4), CumulativeSum(0.5, 1.0))}
    for retention in (parts["retention"], Thinned(2), Replaced(), EventTrigger(0.9)):
        strategy = strategy_of(**parts | {"retention": retention}, exploration=EpsilonGreedy())
        retained, one = played(strategy, domain, (3,), rounds=9)
        used, other = played(strategy, domain, (3,), rounds=9, consume=True)
        assert_agree(one, other)
        assert_agree(retained.memory, used.memory)


def test_a_loop_goes_on_where_it_was_with_memories(tmp_path):
    """What parts remember follows from the answers, so that no file needs it."""
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


def test_a_world_of_ones_own_is_played_in_any_chunks():
    world = Pendulum(GRID, noise=0.05)
    players = {
        "two rules": strategy_of(retention=(SlidingWindow(9), EventTrigger(0.1))),
        "sum": strategy_of(retention=CumulativeSum(1.0, 2.0), exploration=EpsilonGreedy()),
        "directed": strategy_of(exploration=Directed(), decay=Markov(0.05)),
    }
    one, other = (
        run_study(world, players, trials=5, horizon=12, seed=1, chunk=chunk, progress=False).data
        for chunk in (2, 5)
    )
    assert (one["index"].values == other["index"].values).all()
    assert one["regret"].values.std() > 0


def test_hyperparameters_are_learned_from_the_rows_a_trial_keeps():
    """Those that a rule has left out teach as little as those that failed."""

    def told(strategy: Strategy, ok: torch.Tensor) -> Any:
        state = strategy.init(BOX, batch_shape=(2,))
        for t, good in enumerate(ok):
            X = torch.tensor([[0.1 * t, 0.5], [0.3, 0.9 - 0.1 * t]], dtype=D)
            at = strategy.suggestion_at(state, X)
            y = measured(X, t, [0, 1])
            state, _ = strategy.tell(state, at, y, ok=good)
        return state

    every = torch.ones(9, 2, dtype=torch.bool)
    data = told(strategy_of(retention=NearBest(1.0)), every).data
    retained = torch.nn.functional.pad(data.retained, (data.dropped, 0)).mT
    assert (retained.sum(0) >= 3).all()
    assert (retained.sum(0) < 9).all()
    assert not torch.equal(retained[:, 0], retained[:, 1])
    left = strategy_of(retention=NearBest(1.0), learning=Refit(every=9))
    failed = strategy_of(learning=Refit(every=9))
    ours, theirs = told(left, every), told(failed, retained)
    torch.testing.assert_close(ours.basis.parameters, theirs.basis.parameters, rtol=0, atol=1e-6)


def test_an_expert_is_consulted_by_an_exploration_of_ones_own():
    strategy = SparQ(kernel=KERNEL, noise=0.05, exploration=Directed())
    state = strategy.init(GRID, batch_shape=(2,))
    for t in range(4):
        suggestion = strategy.ask(state)
        upper = suggestion.mean + suggestion.sqrt_beta * suggestion.sd
        assert upper.isfinite().all()
        state, _ = strategy.tell(state, suggestion, measured(suggestion.X, t, [0, 1]))
        asked = strategy.consult(state, generator=torch.Generator().manual_seed(t))
        if asked is not None:
            y = torch.cos(4 * asked.X.sum(-1))
            state = strategy.absorb(state, asked, y)
    assert state.expert is not None
