"""Held parameters, points of one's own, several suggestions at once, other settings, lost ones."""

import json
import math

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel
from loop.loops import (
    BOX,
    FEW,
    GRID,
    NOISE,
    QUICK,
    STRATEGIES,
    WITH_CONTEXT,
    assert_refused,
    kernel,
    made,
)

from botorch_tv import Box, Choice, Float, Integer, Loop, et_gp_ucb, tv_gp_ucb
from botorch_tv.loop.log import MeasurementLog
from botorch_tv.loop.record import RECENT
from botorch_tv.strategies.pending import EVERY, PATIENCE

PARAMETERS = {"x": (0, 4), "rate": Float(1e-3, 1, log=True), "n": Integer(1, 5)}
RANGES = Box(PARAMETERS, search=QUICK)
MIXED = Box(PARAMETERS | {"kind": Choice("a", "b", "c")})
STRATEGY = tv_gp_ucb(kernel=RBFKernel().double(), noise=0.1, epsilon=0.05)


def value(point):
    return -((point["x"] - 1) ** 2) / 4 - (math.log10(point["rate"]) + 2) ** 2 / 4 - point["n"] / 5


def begun(**settings):
    loop = Loop(STRATEGY, RANGES, **settings)
    for _ in range(4):
        loop.tell(value(loop.ask().point))
    return loop


@pytest.mark.parametrize("ranges", [RANGES, MIXED], ids=["numbers", "mixed"])
@pytest.mark.parametrize("kind", [None, "adaptive"])
def test_held_parameters_keep_their_values(ranges, kind):
    loop = Loop(STRATEGY if kind is None else FEW[kind](), ranges, pending=2)
    fixed = {"rate": 0.2, "n": 3} | ({"kind": "b"} if ranges is MIXED else {})
    for ok in (True, False, True):
        held = loop.ask(fixed=fixed)
        assert {name: held.point[name] for name in fixed} == fixed
        loop.ask()
        loop.tell(value(held.point), ok=ok, suggestion=held)
        loop.discard()
    best = loop.recommend(fixed=fixed)
    assert {name: best[name] for name in fixed} == fixed
    grid = torch.linspace(0, 4, 81, dtype=torch.float64).tolist()
    posterior = loop.predict([best, *({**best, "x": x} for x in grid)])
    lower = posterior.mean.flatten() - posterior.variance.flatten().sqrt() / 2
    assert lower[0] >= lower[1:].max() - 1e-3


def test_a_category_due_again_does_not_replace_a_held_one():
    loop = Loop(FEW["adaptive"](), {"x": (0, 1), "kind": Choice("a", "b")})
    for n in range(PATIENCE + EVERY):
        loop.observe({"x": (0.37 * n) % 1, "kind": "b" if n < 3 else "a"}, 0.1 * n % 0.7)
    assert loop.ask(fixed={"kind": "a"}).point["kind"] == "a"


HELD = {
    "unknown": (lambda loop: loop.ask(fixed={"speed": 1}), "fixed is .*speed.* only .*x, rate, n"),
    "outside": (lambda loop: loop.ask(fixed={"rate": 2.0}), "rate is 2.0, but it must be"),
    "recommend": (lambda loop: loop.recommend(fixed={"n": 2.5}), "n is 2.5, but it must be"),
    "too many": (lambda loop: loop.ask(n=3), r"pending is 2, .* open: 5 at .* set pending to 4"),
    "queue": (lambda loop: loop.enqueue({"x": 5, "rate": 0.1, "n": 1}), "x is 5, but it must be"),
    "at": (lambda loop: loop.tell(1.0, at={"x": 5}, suggestion=5), "x is 5, but it must be"),
    "at name": (lambda loop: loop.tell(1.0, at={"y": 5}, suggestion=5), "y"),
}


@pytest.mark.parametrize("name", HELD)
def test_refused_and_nothing_changed(name, tmp_path):
    loop = begun(pending=2)
    loop.ask()
    assert_refused(loop, *HELD[name], tmp_path)


def test_parameters_without_names_cannot_be_held():
    loop = made(("static", "box"))
    for _ in range(2):
        with pytest.raises(InputDataError, match="has no named parameters"):
            loop.ask(fixed={"x0": 0.2})
        loop.enqueue([0.5] * loop.domain.dim)


def test_queued_points_come_first_and_in_order(tmp_path):
    loop, path = begun(), tmp_path / "loop.json"
    points = [{"x": 1.25, "rate": 0.1, "n": n} for n in (4, 2, 5)]
    for point in points:
        loop.enqueue(point)
    held = loop.ask(fixed={"n": 5})
    assert held.point == points[2]
    posterior = loop.predict(points[2], now=held.time)
    assert held.mean == pytest.approx(posterior.mean.item(), abs=1e-12)
    assert held.sd == pytest.approx(posterior.variance.sqrt().item(), abs=1e-9)
    loop.tell(0.5)
    loop.save(path)
    content = json.loads(path.read_text())
    assert content["queue"] == points[:2]
    again = Loop.load(path, STRATEGY)
    assert [again.ask(n=2)[0].point, again.open[1].point] == points[:2]
    again.tell(0.1, suggestion=6)
    again.tell(0.1, suggestion=7)
    for point in points[:2]:
        assert loop.ask(now=6.0).point == point
        loop.tell(0.1)
    assert loop.ask(now=8.0).point == again.ask(now=8.0).point not in points


def test_queued_points_get_the_context():
    loop = Loop(STRATEGY, WITH_CONTEXT)
    loop.enqueue([0.5, -0.5])
    suggestion = loop.ask(context=0.25)
    assert (suggestion.point, suggestion.context.tolist()) == ([0.5, -0.5], [0.25])


def test_several_suggestions_at_once_equal_one_after_the_other():
    loop, single = (made(("Thompson", "grid"), pending=most, seed=3) for most in (1, 4))
    for item in (loop, single):
        item.observe(GRID.X[3], 0.5)
    several = loop.ask(n=4)
    assert [item.point for item in several] == [single.ask().point for _ in range(4)]
    assert len({tuple(item.point) for item in several}) == 4
    assert single.pending == 4
    single.discard(single.open[0])
    single.ask(n=1)
    assert single.pending == 4
    assert loop.pending == 4
    with pytest.raises(InputDataError, match=r"pending is 4, .*pending to 5"):
        loop.ask()
    with pytest.raises(ValueError, match="n is 0"):
        loop.ask(n=0)


@pytest.mark.few(2)
@pytest.mark.parametrize("domain", [GRID, BOX, WITH_CONTEXT, RANGES], ids=type)
def test_a_measurement_elsewhere_is_stored_where_it_was_made(domain, tmp_path):
    """As if the suggestion had been discarded and the other point observed; also in the file."""
    named, strategy = domain is RANGES, et_gp_ucb(kernel=kernel(), noise=NOISE)
    strategy = et_gp_ucb(kernel=RBFKernel().double(), noise=NOISE) if named else strategy
    context = {"context": 0.3} if domain is WITH_CONTEXT else {}
    loop, other = Loop(strategy, domain, pending=2), Loop(strategy, domain, pending=2)
    for n in range(5):
        suggestion = loop.ask(now=float(n), **context)
        other.ask(now=float(n), **context)
        at = {"x": 0.5 * n} if named else GRID.X[7 * n % 36].tolist()
        y, when = 6.0 * (-1) ** (n > 2), n - 1.5 * (n == 4)
        loop.tell(y, at=at, suggestion=suggestion, time=when)
        assert loop.open == []
        X = {**suggestion.point, **at} if named else at
        other.observe(X, y, time=when, **context)
        other.discard()
    assert loop.history.points[0] == ({**loop.history.points[0], "x": 0.0} if named else [0, 0])
    assert any(loop.history.reset)
    loop.amend(3, 5.0)
    other.amend(-3, 5.0)
    loop.save(tmp_path / "loop.json")
    again = Loop.load(tmp_path / "loop.json", strategy)
    for item in (loop, again):
        assert item.history.X.tolist() == other.history.X.tolist()
        assert item.history.reset.tolist() == other.history.reset.tolist()
        assert item.ask(now=9.0, **context).point == other.ask(now=9.0, **context).point
        other.discard()


def test_a_measurement_at_the_suggested_point_retains_its_prediction():
    loop = begun()
    suggestion = loop.ask()
    loop.tell(0.5, at=suggestion.point)
    assert loop.table()["mean"].iloc[-1] == suggestion.mean
    suggestion = loop.ask()
    loop.tell(0.5, at={"x": 1.5})
    assert math.isnan(loop.table()["mean"].iloc[-1])


def test_a_lost_suggestion_no_longer_counts_but_may_be_answered(tmp_path):
    loop = begun(pending=2)
    lost = loop.ask()
    for n in range(5):  # more than twice pending
        loop.tell(0.1 * n, suggestion=loop.ask())
    fresh = Loop(STRATEGY, RANGES)
    for point, y, time in zip(loop.history.points, loop.history.y, loop.history.times):
        fresh.observe(point, y, time=time)
    loop.save(tmp_path / "loop.json")
    points = [suggestion.point for suggestion in fresh.ask(n=2)]
    for item in (Loop.load(tmp_path / "loop.json", STRATEGY), loop):
        assert [suggestion.point for suggestion in item.ask(n=2)] == points
    loop.discard(loop.open[-1])
    loop.tell(0.5)  # the only suggestion that is not lost
    assert [item.number for item in loop.open] == [lost.number]
    assert f"; lost: {lost.number}." in loop.describe()
    loop.tell(0.4)
    assert (loop.open, loop.last.number) == ([], lost.number)


@pytest.mark.parametrize(
    ("given", "slow", "since", "limit"),
    [(None, 0, 3, 4), (None, 9, 3, 18), (None, 9, RECENT, 4), (2, 9, 3, 2)],
)
def test_a_suggestion_is_lost_by_the_durations_of_others(given, slow, since, limit, tmp_path):
    loop = Loop(STRATEGIES["reset"](), GRID, pending=2, lost_after=given)
    first = loop.ask()

    def observe(count):
        for _ in range(count):
            loop.observe(first.point, 0.1)

    observe(slow)
    loop.tell(0.2, suggestion=first)
    observe(since)
    loop.ask()
    observe(limit)
    assert len(loop._record.waiting) == 1
    loop.remove(-2 - slow)  # an answer that arrived before the suggestion
    assert len(loop._record.waiting) == 1
    observe(1)
    assert not loop._record.waiting
    loop.save(tmp_path / "loop.json")
    assert not Loop.load(tmp_path / "loop.json", loop.strategy)._record.waiting


def test_several_suggestions_are_made_together_or_not_at_all(monkeypatch):
    choice, calls = MeasurementLog.choice, []

    def failing(self, *given, **named):
        calls.append(given)
        if len(calls) == 2:
            raise RuntimeError("no second choice")
        return choice(self, *given, **named)

    monkeypatch.setattr(MeasurementLog, "choice", failing)
    loop = Loop(STRATEGIES["static"](), GRID)
    with pytest.raises(RuntimeError, match="no second choice"):
        loop.ask(n=2)
    assert (loop.open, loop.pending) == ([], 1)
    assert loop.ask().number == 1


def test_the_newest_setting_is_that_of_the_newest_time():
    loop = Loop({"x": (0, 100)}, max_step={"x": 5})
    for x, time in ((50, 10), (52, 11), (10, 1)):  # the last is an old reading
        loop.observe({"x": x}, 1.0, time=time)
    assert abs(loop.ask()["x"] - 52) <= 5


@pytest.mark.parametrize("words", [{}, {"objective": "y", "constraints": "p <= 9"}])
def test_failures_and_missing_values_do_not_lengthen_the_usual_time(words):
    loop = Loop({"x": (0, 1)}, **words)
    for t in range(1, 18):
        assert loop.ask().time == t
        y = {"p": 1.0} | ({"y": float(t)} if t % 4 == 1 else {})
        loop.tell(y if words else float(t), ok=bool(words) or t % 4 == 1)
