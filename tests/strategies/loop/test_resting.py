"""What failed rests a while."""

import itertools
import math
from typing import Any

import pytest
import torch
from gpytorch.kernels import RBFKernel
from strategies.loop.loops import NOISE, QUICK, SOME, STRATEGIES, kernel

from botorch_tv.strategies import Box, Grid, Integer, Loop, adaptive_gp_ucb, gp_ei, random_search
from botorch_tv.strategies.domains import Domain

LINE = Grid.regular(8, 1)
BOX = Box([(-2.0, 2.0), (0.0, 10.0)], search=QUICK)
PLACES: dict[str, Domain] = {"line": LINE, "box": BOX, "candidates": SOME}
STRATEGY: dict[str, Any] = STRATEGIES | {
    "adaptive": adaptive_gp_ucb,
    "improvement": lambda: gp_ei(kernel=kernel(), noise=NOISE),
    "random": lambda: random_search(kernel=kernel(), noise=NOISE),
}
CASES = [
    (name, "line") for name in ("static", "Markov", "trigger", "Thompson", "adaptive", "random")
]
CASES += [(name, "box") for name in ("Markov", "adaptive", "improvement", "learning", "Thompson")]
CASES += [("static", "candidates")]


def near(domain: Domain, one: list[float], other: list[float]) -> bool:
    if isinstance(domain, Grid):
        return one == other
    sides = (domain.bounds[1] - domain.bounds[0]).tolist()
    return all(abs(a - b) <= side / 20 for a, b, side in zip(one, other, sides))


def wait(domain: Domain, log: list[tuple[list[float], bool]], point: list[float]) -> int:
    """Answers that the rule still wants before a point is asked for, by the log from its end.

    On a box failures nearby may be of two surroundings, each with a count of its own, so that only
    the first answer is sure there.
    """
    failures, since = 0, None
    for age, (where, ok) in enumerate(reversed(log)):
        if near(domain, where, point):
            if ok:
                break
            failures += 1
            since = age if since is None else since
    if since is None:
        return 0
    return (2**failures if isinstance(domain, Grid) else 2) - 1 - since


@pytest.mark.parametrize("case", CASES)
def test_no_point_is_asked_for_while_it_rests(case: tuple[str, str]) -> None:
    """One measurement in three fails, at random: nothing that rests is asked for."""
    name, place = case
    domain = PLACES[place]
    loop = Loop(STRATEGY[name](), domain)
    log: list[tuple[list[float], bool]] = []
    chance = torch.Generator().manual_seed(1)
    for t in range(24):
        point = loop.ask().point
        assert wait(domain, log, point) <= 0
        ok = bool(torch.rand((), generator=chance) < 2 / 3)
        loop.tell(math.cos(sum(point)) + 0.05 * t, ok=ok)
        log.append((point, ok))


@pytest.mark.parametrize("place", ["line", "box"])
def test_what_always_fails_is_tried_ever_more_rarely(place: str) -> None:
    """Where the best would be all measurements fail; without rest it would be asked forever."""
    domain = LINE if place == "line" else Box([(0, 1), (0, 1)], search=QUICK)
    loop = Loop(STRATEGY["static"](), domain)
    best = torch.tensor([3 / 7] if place == "line" else [0.6, 0.4]).double()
    crash = {"line": torch.tensor([1e-6]), "box": torch.tensor([0.06, 0.06])}[place]
    for point in ([0.0], [1.0]) if place == "line" else ([0.1, 0.1], [0.9, 0.9], [0.3, 0.7]):
        loop.observe(point, -float((best - torch.tensor(point)).abs().sum()))
    failed = []
    for _ in range(40):
        suggestion = loop.ask()
        ok = not bool(((suggestion.X - best).abs() <= crash).all())
        loop.tell(-float((suggestion.X - best).abs().sum()), ok=ok)
        failed.append(not ok)
    assert 1 <= sum(failed) <= 6
    if place == "line":  # one arm alone: 1, 3, 7, 15 answers between
        rounds = [t for t, one in enumerate(failed) if one]
        gaps = [later - before - 1 for before, later in itertools.pairwise(rounds)]
        assert all(gap >= 2 ** (n + 1) - 1 for n, gap in enumerate(gaps))


def test_a_success_there_ends_it() -> None:
    """Whoever has measured there meanwhile is asked for it again where it is best."""
    loop = Loop(STRATEGY["static"](), LINE)
    for arm in range(8):
        loop.observe([arm / 7], 2.0 * (arm == 3))
    best = loop.ask()
    assert best.point == LINE.X[3].tolist()
    loop.tell(ok=False)
    assert loop.ask().point != best.point
    loop.observe(best.point, 2.0)
    loop.discard()
    assert loop.ask().point == best.point


def test_with_one_arm_there_is_nothing_else() -> None:
    loop = Loop(STRATEGY["static"](), Grid(torch.zeros(1, 1, dtype=torch.float64)))
    for _ in range(3):
        assert loop.ask().point == [0.0]
        loop.tell(ok=False)


def test_with_two_arms_the_other_is_asked_for_though_both_rest() -> None:
    loop = Loop(STRATEGY["Markov"](), Grid.regular(2, 1))
    asked = []
    for _ in range(6):
        asked.append(loop.ask().point)
        loop.tell(ok=False)
    assert all(one != other for one, other in itertools.pairwise(asked))


def test_whole_numbers_and_contexts() -> None:
    box = Box({"n": Integer(0, 2), "m": Integer(0, 1)}, context_dim=1, search=QUICK)
    loop, before = Loop(STRATEGY["Markov"](), box), None
    for t in range(10):
        point = loop.ask(context=[0.3 * (t % 3)]).point
        assert point != before
        before = point
        loop.tell(0.0, ok=t % 2 == 0)
        before = point if t % 2 else None


def test_what_is_wanted_small_is_looked_for_elsewhere_too() -> None:
    """Of what does not rest, the best by the strategy's own width, here listed."""
    own = RBFKernel().double()
    for maximize in (True, False):
        strategy = STRATEGY["static"]().__class__(kernel=own, noise=NOISE, maximize=maximize)
        loop = Loop(strategy, Grid.regular(9, 1))
        for arm, y in ((0, -1.0), (4, 0.5), (8, 1.0)):
            loop.observe([arm / 8], y)
        first = loop.ask()
        loop.tell(ok=False)
        second = loop.ask()
        state = loop.state
        bound = strategy.ask(state)
        posterior = strategy.posterior(state, LINE.X.new_tensor([[n / 8] for n in range(9)]))
        spread = posterior.variance.squeeze(-1).sqrt() * bound.sqrt_beta
        score = (1 if maximize else -1) * posterior.mean.squeeze(-1) + spread
        score[round(first.point[0] * 8)] = -torch.inf
        assert second.point == [int(score.argmax()) / 8]
