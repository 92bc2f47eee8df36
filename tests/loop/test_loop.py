"""A loop is the strategy's own ask and tell, with a memory."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
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
from oracles.dense import squared_exponential

from botorch_tv.forgetting import EventTrigger, Log, Retained, Retention
from botorch_tv.loop import Loop
from botorch_tv.strategies import (
    Choice,
    Float,
    GPStrategy,
    Grid,
    Strategy,
    adaptive_gp_ucb,
    gp_ucb,
    tv_gp_ucb,
)
from botorch_tv.strategies.outcomes import CAUTION

each_case = pytest.mark.parametrize("case", CASES, ids="-".join)


@each_case
def test_same_choices_as_by_hand(case: tuple[str, str]) -> None:
    """Also with times given, with noise given, and with a last measurement that fails."""
    strategy, domain = STRATEGIES[case[0]](), PLACES[case[1]]
    loop = Loop(strategy, domain, seed=5)
    state, generator = strategy.init(domain), torch.Generator().manual_seed(5)
    resets = []
    for t in range(16):
        now = None if t < 6 else 1.25 * t
        told: dict[str, Any] = {"time": 1.25 * t + 0.5} if t > 8 else {}
        told |= {"noise": 0.02} if t == 7 else {}
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
            state, expected, number(y), ok=None if ok else torch.tensor(False), **told
        )
        loop.tell(y if ok else None, ok=ok, **told)
        assert fired(loop) == bool(info.reset)
        resets.append(fired(loop))
    assert loop.history.reset.tolist() == resets
    if case[0] == "trigger":
        assert any(resets)
    X = tensor(0.2, 0.4, 0.6, -0.8).view(2, 2) if case[1] != "grid" else GRID.X[:2]
    ours, theirs = loop.posterior(X, now=25.0), strategy.posterior(state, X, now=25.0)
    assert torch.equal(ours.mean, theirs.mean)
    assert torch.equal(ours.variance, theirs.variance)


def test_numbers_come_in_any_form() -> None:
    """Plain numbers, tensors and arrays, on a line and in a plane."""
    line = Loop(gp_ucb(kernel=kernel(), noise=NOISE), Grid(torch.linspace(0, 1, 5).view(-1, 1)))
    other = Loop(gp_ucb(kernel=kernel(), noise=NOISE), Grid(torch.linspace(0, 1, 5).view(-1, 1)))
    line.observe([0.25], 1, time=1)
    other.observe(tensor(0.25), np.float64(1.0), time=number(1.0))  # type: ignore[arg-type]
    assert line.posterior(0.5).mean.item() == other.posterior([[0.5]]).mean.item()
    assert line.posterior([0.0, 0.5]).mean.shape == (2, 1)
    line.ask()
    other.ask()
    line.tell(torch.tensor([0.5]))
    other.tell(0.5)
    assert line.ask().point == other.ask().point


def test_single_precision_is_followed() -> None:
    loop = made(("Markov", "grid"), dtype=torch.float32)
    for t in range(4):
        suggestion = loop.ask()
        assert suggestion.X.dtype == torch.float32
        loop.tell(measured(suggestion.point, t))
    assert loop.posterior(GRID.X[0]).mean.dtype == torch.float32
    assert loop.history.y.dtype == torch.float32
    assert loop.history.time.dtype == torch.float64


def test_context_stands_beside_the_point() -> None:
    strategy = gp_ucb(kernel=kernel(), noise=NOISE)
    loop, state = Loop(strategy, WITH_CONTEXT), strategy.init(WITH_CONTEXT)
    for t in range(4):
        known = tensor(0.3 * t)
        expected = strategy.ask(state, context=known)
        suggestion = loop.ask(context=0.3 * t)
        assert torch.equal(suggestion.X, expected.X[:2])
        assert suggestion.context is not None
        assert torch.equal(suggestion.context, known)
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


@pytest.mark.parametrize("name", ["Markov", "trigger"])
def test_warm_start_is_the_rows_in_order_of_time(name: str) -> None:
    random = np.random.default_rng(3)
    arms, times = random.integers(0, 36, 20), random.permutation(np.arange(20) * 1.5)
    X = GRID.X[torch.as_tensor(arms)]
    y = [measured(point, time) for point, time in zip(X.tolist(), times)]
    noise = random.uniform(0.01, 0.05, 20)
    strategy = STRATEGIES[name]()
    state = strategy.init(GRID)
    for row in np.argsort(times):
        suggestion = strategy.suggestion_at(state, X[row], now=float(times[row]))
        state, _ = strategy.tell(state, suggestion, number(y[row]), noise=float(noise[row]))
    loop = Loop.from_table(strategy, GRID, X, y, time=times, noise=noise)
    assert loop.ask().point == strategy.ask(state).X.tolist()
    assert loop.history.time.tolist() == sorted(times)
    assert loop.history.number.tolist() == [-row for row in range(1, 21)]
    assert torch.equal(loop.posterior(GRID.X).mean, strategy.posterior(state, GRID.X).mean)
    assert torch.equal(loop.history.noise, torch.as_tensor(noise[np.argsort(times)]))


def test_table_without_times_counts_rows_and_may_have_contexts() -> None:
    rows, weather = [[0.1, 0.0], [0.2, 0.5], [0.3, -0.5]], [1.0, 2.0, 3.0]
    loop = Loop.from_table(STRATEGIES["static"](), WITH_CONTEXT, rows, weather, context=weather)
    assert loop.history.time.tolist() == [1.0, 2.0, 3.0]
    assert loop.history.context.flatten().tolist() == weather
    assert loop.history.X.tolist() == rows
    assert loop.ask(context=1.0).time == 4.0


# ---------------------------------------------------------------- several at once


def with_open(strategy: Strategy, rounds: int = 6) -> Loop:
    """Three suggestions open after some rounds."""
    loop = Loop(strategy, BOX, pending=4)
    for t in range(rounds):
        loop.tell(measured(loop.ask().point, t))
    for _ in range(3):
        loop.ask()
    return loop


def dense(X: np.ndarray, times: np.ndarray, y: np.ndarray, Z: np.ndarray, now: float) -> Any:
    """Mean and variance at Z of TV-GP-UCB with epsilon = 0.05, textbook."""
    decay = 0.95 ** (np.abs(times[:, None] - times[None]) / 2)
    K = squared_exponential(np.vstack([X, Z]), 0.3)
    n = len(X)
    A = K[:n, :n] * decay + NOISE * np.eye(n)
    k = K[:n, n:] * (0.95 ** ((now - times) / 2))[:, None]
    return k.T @ np.linalg.solve(A, y), 1 - np.einsum("nz,nz->z", k, np.linalg.solve(A, k))


def test_pretending_keeps_means_and_shrinks_variances() -> None:
    """Against the textbook's posterior with a row more for each that is open."""
    loop = with_open(tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=0.05))
    state = fantasized(loop)
    history = loop.history
    X, y, times = history.X.numpy(), history.y.numpy(), history.time.numpy()
    Z = np.random.default_rng(0).uniform([0, -1], [1, 1], (9, 2))
    mean, _ = dense(X, times, y, Z, now=10.0)
    opened = np.array([one.point for one in loop.open])
    planned_for = np.array([one.time for one in loop.open])
    assert planned_for.tolist() == [7.0, 8.0, 9.0]
    _, variance = dense(
        np.vstack([X, opened]), np.append(times, planned_for), np.append(y, [0.0] * 3), Z, now=10.0
    )
    posterior = loop.strategy.posterior(state, torch.as_tensor(Z), now=10.0)
    np.testing.assert_allclose(posterior.mean[:, 0], mean, atol=1e-9)
    np.testing.assert_allclose(posterior.variance[:, 0], variance, atol=1e-9)
    _, before = dense(X, times, y, Z, now=10.0)
    assert (variance < before - 1e-6).any()


def test_next_choice_is_that_of_pretended_answers() -> None:
    loop = with_open(STRATEGIES["Markov"]())
    strategy, state = loop.strategy, loop.state
    for one in loop.open:
        suggestion = strategy.suggestion_at(state, one.X, now=one.time)
        state, _ = strategy.tell(state, suggestion, suggestion.mean)
    choice = loop.ask()
    assert choice.point == strategy.ask(state).X.tolist()
    assert choice.point != strategy.ask(loop.state).X.tolist()
    assert len({tuple(one.point) for one in loop.open}) == 4
    # What it predicts is what real answers say.
    honest = loop.posterior(choice.X, now=choice.time)
    assert choice.mean == pytest.approx(honest.mean.item(), abs=1e-12)
    assert choice.sd == pytest.approx(honest.variance.sqrt().item(), abs=1e-9)
    assert choice.sd > float(strategy.ask(state).sd) + 1e-4


def test_open_suggestions_may_be_planned_for_other_times_than_now() -> None:
    loop = made(("Markov", "grid"), pending=4)
    for now in (5.0, 30.0, 8.0, 8.0):  # for the future, then for sooner
        assert loop.ask(now=now).time == now
    loop.tell(0.3, suggestion=2, time=9.0)
    loop.tell(0.2, suggestion=4, time=9.5)
    assert loop.ask(now=9.5).time == 9.5
    assert loop.ask().time == 10.5


def always(*_: Any) -> torch.Tensor:
    return torch.tensor(True)


class Jumpy(Retention):
    """A rule of one's own, which any observation sets off."""

    def keep(self, log: Log) -> Retained:
        if log.newest is None:
            return Retained()
        fired = torch.ones_like(log.newest.y, dtype=torch.bool)
        return Retained(newest=1, where=fired, reset=fired)


@pytest.mark.parametrize(
    "retention", [EventTrigger(0.1, rule=always), Jumpy()], ids=["trigger", "own rule"]
)
def test_what_is_pretended_fires_no_trigger(retention: Retention) -> None:
    strategy = GPStrategy(kernel=kernel(), noise=NOISE, retention=retention)
    loop = Loop(strategy, GRID, pending=3)
    loop.observe([0.2, 0.2], 1.0)
    loop.ask()
    loop.ask()
    quiet = fantasized(loop)
    assert quiet.data.dropped == loop.state.data.dropped
    assert int(quiet.data.retained.sum()) == int(loop.state.data.retained.sum()) + 2
    assert fantasized(loop, strategy).data.dropped > loop.state.data.dropped


def test_what_is_pretended_teaches_nothing() -> None:
    learner = with_open(STRATEGIES["learning"]())
    learned = learner.state.basis
    assert fantasized(learner).basis is learned
    assert fantasized(learner, learner.strategy).basis is not learned


def test_discarded_and_open_suggestions_leave_no_trace() -> None:
    loop, other = made(("Markov", "grid"), pending=2), made(("Markov", "grid"))
    for t in range(5):
        given_up = loop.ask()
        suggestion = loop.ask(now=t + 1.0)
        loop.discard(given_up if t % 2 else given_up.number)
        loop.tell(measured(suggestion.point, t))
        other.observe(suggestion.point, measured(suggestion.point, t), time=t + 1.0)
    assert loop.ask().point == other.ask().point
    assert loop.history.number.tolist() == [2, 4, 6, 8, 10]


# ---------------------------------------------------------------- looking


def test_history_is_a_table() -> None:
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


def test_history_has_the_units_of_people() -> None:
    """X are places in the unit cube; what is printed, and ``points`` and ``times``, are not."""
    start = datetime(2026, 3, 1, 8, tzinfo=UTC)
    loop = Loop({"temperature": (20, 80), "rate": Float(1e-4, 1.0, log=True)}, unit="hours")
    point = {"temperature": 35.0, "rate": 0.01}
    loop.observe(point, 0.5, time=start)
    loop.observe({"temperature": 80, "rate": 1.0}, 0.25, time=start + timedelta(hours=1.5))
    table = loop.history
    torch.testing.assert_close(table.X, torch.tensor([[0.25, 0.5], [1.0, 1.0]]).double())
    assert table.points[0] == pytest.approx(point)
    assert list(table.times) == [start, start + timedelta(hours=1.5)]
    assert table.time.tolist() == [0.0, 1.5]
    _, first, _ = repr(table).splitlines()
    assert first.startswith(
        "-1: at temperature 35, rate 0.01, time 2026-03-01 08:00:00+00:00, y 0.5,"
    )
    again = Loop.from_table(loop.domain, list(table.points), table.y, time=list(table.times))
    assert torch.equal(again.history.X, table.X)


def test_long_tables_show_the_newest_rows() -> None:
    X, y = GRID.X[:30], [0.1 * row for row in range(30)]
    table = Loop.from_table(STRATEGIES["static"](), GRID, X, y).history
    lines = repr(table).splitlines()
    assert lines[0] == "30 measurements, the newest 20:"
    assert len(lines) == 21
    assert "time 30.0" in lines[-1]


def test_loop_and_suggestion_introduce_themselves() -> None:
    loop = made(("Markov", "grid"), pending=2)
    suggestion = loop.ask()
    want = "Suggestion 1: [0, 0] at time 1; posterior mean 0 ± 2 (2 sd)"
    assert repr(suggestion) == want
    assert repr(loop).endswith("with 0 measurements; open: 1 at [0, 0], time 1")
    loop.tell(0.5)
    assert "1 measurement, the newest at time 1" in repr(loop)


def test_a_loop_told_nothing_takes_the_smallest_value_if_asked(tmp_path):
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


@pytest.mark.parametrize("maximize", ["no", 0, 0.0])
def test_a_direction_is_true_or_false(maximize):
    with pytest.raises(ValueError, match=r"maximize is .*, but the strategy has True"):
        Loop([(0.0, 1.0)], maximize=maximize)


def test_a_loop_needs_a_domain():
    with pytest.raises(ValueError, match=r"no domain; .* Loop\({'temperature': \(20, 80\)}\)"):
        Loop()
    with pytest.raises(TypeError, match="minimize"):
        Loop([(0.0, 1.0)], minimize=True)


def test_choices_come_one_by_one():
    with pytest.raises(InputDataError, match=r"as an argument, Choice\("):
        Loop({"kind": Choice(["sand", "salt"])})


def test_a_folder_that_is_missing_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no such folder; make it first.*'.*night'$"):
        Loop([(0.0, 1.0)]).save(tmp_path / "night" / "loop.json")


@pytest.mark.parametrize("maximize", [True, False])
def test_of_two_directions_neither_is_taken(maximize):
    strategy = adaptive_gp_ucb(maximize=not maximize)
    with pytest.raises(ValueError, match="say it to the strategy alone"):
        Loop(strategy, [(0.0, 1.0)], maximize=maximize)
    assert Loop(strategy, [(0.0, 1.0)], maximize=not maximize).describe()


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def default_dtype(request):
    before = torch.get_default_dtype()
    yield request.param
    torch.set_default_dtype(before)


def test_a_loop_told_nothing_is_loaded_whatever_the_default_dtype(default_dtype, tmp_path):
    loop = Loop([(20.0, 80.0)])
    loop.observe([30.0], 1.0)
    loop.save(tmp_path / "loop.json")
    torch.set_default_dtype(default_dtype)
    loaded = Loop.load(tmp_path / "loop.json")
    assert loaded.history.y.tolist() == [1.0]
    assert loaded.ask().point == loop.ask().point


def test_what_is_recommended_is_a_point_as_suggestions_have_it():
    loop = Loop([(20.0, 80.0), (0.0, 5.0)])
    for row in range(6):
        loop.observe([20.0 + 10 * row, 1.0], -abs(3.0 - row))
    best = loop.recommend()
    assert type(best) is type(loop.ask().point) is list
    assert [type(one) for one in best] == [float, float]
    loop.observe(best, 4.0)
    assert loop.table()[["x0", "x1"]].to_numpy()[-1].tolist() == best
