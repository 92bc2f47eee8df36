"""A loop makes the choices of the strategy."""

import copy
import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel
from loop.loops import (
    BOX,
    CASES,
    GRID,
    NOISE,
    PLACES,
    STRATEGIES,
    WITH_CONTEXT,
    fantasized,
    fired,
    kernel,
    made,
    measured,
    number,
    tensor,
)

from botorch_tv.acquisition import Width
from botorch_tv.forgetting import EventTrigger, Retained, Retention
from botorch_tv.loop import Loop
from botorch_tv.loop.log import CAUTION
from botorch_tv.strategies import GPStrategy, Grid, adaptive_gp_ucb, gp_ucb, tv_gp_ucb

each_case = pytest.mark.parametrize("case", CASES, ids="-".join)


@pytest.mark.few(5)
@each_case
def test_same_choices_as_by_hand(case):
    """Also with times given, with noise given, and with a last measurement that fails."""
    strategy, domain = STRATEGIES[case[0]](), PLACES[case[1]]
    loop = Loop(strategy, domain, seed=5)
    state, generator = strategy.init(domain), torch.Generator().manual_seed(5)
    resets = []
    for t in range(16):
        now = None if t < 6 else 1.25 * t
        given = {"time": 1.25 * t + 0.5} if t > 8 else {}
        given |= {"noise": 0.02} if t == 7 else {}
        expected = strategy.ask(state, now=now, generator=generator)
        actual = loop.ask(now=now)
        assert torch.equal(actual.X, expected.X)
        assert actual.point == expected.X.tolist()
        assert (actual.mean, actual.sd) == (float(expected.mean), float(expected.sd))
        assert (actual.number, actual.time) == (t + 1, float(expected.time))
        ok = t != 15
        if not ok:
            assert loop.recommend() == strategy.recommend(state, caution=CAUTION).tolist()
        y = measured(actual.point, t)
        state, info = strategy.tell(
            state, expected, number(y), ok=None if ok else torch.tensor(False), **given
        )
        loop.tell(y if ok else None, ok=ok, **given)
        assert fired(loop) == bool(info.reset)
        resets.append(fired(loop))
    assert loop.history.reset.tolist() == resets
    if case[0] == "trigger":
        assert any(resets)
    X = tensor(0.2, 0.4, 0.6, -0.8).view(2, 2) if case[1] != "grid" else GRID.X[:2]
    ours, theirs = loop.posterior(X, now=25.0), strategy.posterior(state, X, now=25.0)
    assert torch.equal(ours.mean, theirs.mean)
    assert torch.equal(ours.variance, theirs.variance)


def test_numbers_come_in_any_form():
    """Plain numbers, tensors and arrays, on a line and in a plane."""
    line = Loop(gp_ucb(kernel=kernel(), noise=NOISE), Grid(torch.linspace(0, 1, 5).view(-1, 1)))
    other = Loop(gp_ucb(kernel=kernel(), noise=NOISE), Grid(torch.linspace(0, 1, 5).view(-1, 1)))
    line.observe([0.25], 1, time=1)
    other.observe(tensor(0.25), np.float64(1.0), time=number(1.0))
    assert line.posterior(0.5).mean.item() == other.posterior([[0.5]]).mean.item()
    assert line.posterior([0.0, 0.5]).mean.shape == (2, 1)
    line.ask()
    other.ask()
    line.tell(torch.tensor([0.5]))
    other.tell(0.5)
    assert line.ask().point == other.ask().point


def test_contexts_match_the_strategy():
    strategy = gp_ucb(kernel=kernel(), noise=NOISE)
    loop, state = Loop(strategy, WITH_CONTEXT), strategy.init(WITH_CONTEXT)
    for t in range(4):
        context = tensor(0.3 * t)
        expected = strategy.ask(state, context=context)
        suggestion = loop.ask(context=0.3 * t)
        assert torch.equal(suggestion.X, expected.X[:2])
        assert torch.equal(suggestion.context, context)
        state, _ = strategy.tell(state, expected, number(t / 3))
        loop.tell(t / 3)
    loop.observe([0.5, 0.5], 0.7, context=[0.1])
    state, _ = strategy.tell(
        state, strategy.suggestion_at(state, tensor(0.5, 0.5, 0.1)), number(0.7)
    )
    best = strategy.recommend(state, context=tensor(0.2), caution=CAUTION)
    assert loop.recommend(context=0.2) == best[:2].tolist()
    ours = loop.posterior([0.1, 0.2], context=0.3)
    theirs = strategy.posterior(state, tensor(0.1, 0.2, 0.3).view(1, 3))
    assert torch.equal(ours.mean, theirs.mean)
    assert loop.history.context[:, 0].tolist() == [0.0, 0.3, 0.6, 0.3 * 3, 0.1]


def with_open(strategy, rounds=6):
    """Three suggestions open after some rounds."""
    loop = Loop(strategy, BOX, pending=4)
    for t in range(rounds):
        loop.tell(measured(loop.ask().point, t))
    for _ in range(3):
        loop.ask()
    return loop


def test_the_next_choice_uses_fantasies():
    loop = with_open(STRATEGIES["Markov"]())
    strategy, state = loop.strategy, loop.state
    for item in loop.open:
        suggestion = strategy.suggestion_at(state, item.X, now=item.time)
        state, _ = strategy.tell(state, suggestion, suggestion.mean)
    choice = loop.ask()
    assert choice.point == strategy.ask(state).X.tolist()
    assert choice.point != strategy.ask(loop.state).X.tolist()
    assert len({tuple(item.point) for item in loop.open}) == 4
    # Its prediction uses real answers only.
    predicted = loop.posterior(choice.X, now=choice.time)
    assert choice.mean == pytest.approx(predicted.mean.item(), abs=1e-12)
    assert choice.sd == pytest.approx(predicted.variance.sqrt().item(), abs=1e-9)
    assert choice.sd > float(strategy.ask(state).sd) + 1e-4


def always(*_):
    return torch.tensor(True)


class Jumpy(Retention):
    """A user-defined rule that any observation triggers."""

    def keep(self, log):
        if log.newest is None:
            return Retained()
        fired = torch.ones_like(log.newest.y, dtype=torch.bool)
        return Retained(newest=1, where=fired, reset=fired)


@pytest.mark.parametrize(
    "retention", [EventTrigger(0.1, rule=always), Jumpy()], ids=["trigger", "own rule"]
)
def test_fantasies_fire_no_trigger(retention):
    strategy = GPStrategy(kernel=kernel(), noise=NOISE, retention=retention)
    loop = Loop(strategy, GRID, pending=3)
    loop.observe([0.2, 0.2], 1.0)
    loop.ask()
    loop.ask()
    quiet = fantasized(loop)
    assert quiet.data.dropped == loop.state.data.dropped
    assert int(quiet.data.retained.sum()) == int(loop.state.data.retained.sum()) + 2
    assert fantasized(loop, strategy).data.dropped > loop.state.data.dropped


def test_fantasies_do_not_change_hyperparameters():
    learner = with_open(STRATEGIES["learning"]())
    learned = learner.state.basis
    assert fantasized(learner).basis is learned
    assert fantasized(learner, learner.strategy).basis is not learned


def test_discarded_and_open_suggestions_change_no_choice():
    loop, other = made(("Markov", "grid"), pending=2), made(("Markov", "grid"))
    for t in range(5):
        given_up = loop.ask()
        suggestion = loop.ask(now=t + 1.0)
        loop.discard(given_up if t % 2 else given_up.number)
        loop.tell(measured(suggestion.point, t))
        other.observe(suggestion.point, measured(suggestion.point, t), time=t + 1.0)
    assert loop.ask().point == other.ask().point
    assert loop.history.number.tolist() == [2, 4, 6, 8, 10]


def test_history_is_a_table():
    loop = made(("trigger", "grid"))
    for _ in range(3):
        loop.tell(0.1 + measured(loop.ask().point, 1.0))
    loop.observe(GRID.X[7], -30.0, noise=0.5)
    assert loop.last == (-1, True)
    loop.ask()
    loop.tell(ok=False, time=20.0)
    table = loop.history
    assert table.number.tolist() == [1, 2, 3, -1, 4]
    assert table.time.tolist() == [1.0, 2.0, 3.0, 4.0, 20.0]
    assert table.X.shape == (5, 2)
    assert table.context.shape == (5, 0)
    assert table.y[3] == -30.0
    assert table.y[4].isnan()
    assert table.noise.tolist() == [NOISE, NOISE, NOISE, 0.5, float("inf")]
    assert table.reset.tolist() == [False, False, False, True, False]
    lines = repr(table).splitlines()
    assert lines[0] == "5 measurements, the newest 5:"
    assert lines[4].startswith("-1: at [")
    assert lines[4].endswith("time 4.0, y -30, noise 0.5, reset")


def test_an_adaptive_loop_minimises_on_request(tmp_path):
    bounds, X, y = [(20.0, 80.0)], [[30.0], [50.0], [70.0], [40.0]], [3.0, 1.0, 4.0, 2.0]
    loops = [
        Loop(adaptive_gp_ucb(maximize=False), bounds),
        Loop(bounds, maximize=False),
        Loop(bounds),
    ]
    for loop in loops:
        for point, value in zip(X, y):
            loop.observe(point, value)
    table = Loop.from_table(bounds, X, y, maximize=False)
    loops[1].save(tmp_path / "loop.json")
    loaded = Loop.load(tmp_path / "loop.json")
    best, chosen = loops[0].recommend(), loops[0].ask().point
    for loop in (loops[1], table, loaded):
        assert loop.recommend() == best
        assert loop.ask().point == chosen
    assert loops[2].recommend() != pytest.approx(best)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_an_adaptive_loop_is_loaded_under_any_default_dtype(dtype, tmp_path):
    loop = Loop([(20.0, 80.0)])
    loop.observe([30.0], 1.0)
    loop.save(tmp_path / "loop.json")
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        loaded = Loop.load(tmp_path / "loop.json")
        assert loaded.history.y.tolist() == [1.0]
        assert loaded.ask().point == loop.ask().point
    finally:
        torch.set_default_dtype(before)


THREADS, ROUNDS = 4, 3


class Slow(Width):
    """Lets other threads go on in the middle of a round."""

    def sqrt_beta(self, facts):
        time.sleep(0.002)
        return 2.0


def slow():
    strategy = tv_gp_ucb(kernel=RBFKernel().double(), noise=0.02, epsilon=0.05, width=Slow())
    return Loop(strategy, [(0.0, 1.0), (0.0, 1.0)], pending=THREADS)


@pytest.mark.full
def test_threads_take_turns(tmp_path):
    loop = slow()

    def work(thread):
        for count in range(ROUNDS):
            suggestion = loop.ask()
            loop.tell(float(suggestion.X.sum()), suggestion=suggestion, ok=count != thread)
            loop.table()
            loop.describe()

    with ThreadPoolExecutor(THREADS) as pool:
        for done in [pool.submit(work, thread) for thread in range(THREADS)]:
            done.result()
    assert sorted(loop.history.number.tolist()) == list(range(1, THREADS * ROUNDS + 1))
    assert loop.open == []
    loop.save(tmp_path / "it.json")
    again = Loop.load(tmp_path / "it.json", loop.strategy)
    assert again.table().drop(columns="time").equals(loop.table().drop(columns="time"))


def test_a_copy_has_a_turn_of_its_own():
    loop = slow()
    loop.tell(1.0, suggestion=loop.ask())
    for item in (copy.deepcopy(loop), pickle.loads(pickle.dumps(loop))):
        with loop._lock.lock, ThreadPoolExecutor(1) as pool:
            assert pool.submit(item.ask).result(timeout=60).number == 2
