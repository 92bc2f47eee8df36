"""Points that failed rest a while, so that a crash does not stall the night."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from botorch_tv.strategies.box import Box
from botorch_tv.strategies.core import Strategy
from botorch_tv.strategies.domains import Domain, Grid
from botorch_tv.strategies.loop.log import Answer, like
from botorch_tv.strategies.raw_points import spread
from botorch_tv.strategies.search import DiscreteSearch
from botorch_tv.strategies.state import State, Suggestion

NEAR, FAR = 0.05, 0.25
"""Share of every side of a box that rests around a first failure, and the largest."""
DRAWS = 8
"""How often a strategy that draws random numbers is asked again."""
POINTS, BLOCK = 1024, 256


@dataclass(frozen=True)
class Rest:
    """Where measurements failed, none having succeeded there since.

    Attributes:
        answer: The last failure.
        failures: How many there were in a row.
    """

    answer: Answer
    failures: int

    @property
    def share(self) -> float:
        """How far it reaches in both directions, as a fraction of each side of the box."""
        return min(NEAR * 2.0 ** (self.failures - 1), FAR)


def resting(answers: Sequence[Answer], domain: Domain) -> list[Rest]:
    """Where is not to be measured yet, oldest failure first.

    Nobody knows whether a failure was the machine's or the point's. So a point rests for one answer
    after its first failure, three after the second in a row, then seven, 2ᶠ - 1 after f: what was
    a glitch is tried again soon, and what always fails is tried about log₂ T times in T rounds. A
    success there ends it.

    A point is an arm of a grid. On a box its surroundings rest as well, a twentieth of every side
    on either hand after the first failure and twice as far after each other, up to a quarter;
    a failure within twice as far is one in a row, since the best of what does not rest often lies
    just beside it.

    Args:
        answers: In any order.
        domain: Where they were measured.
    """
    rests: list[Rest] = []
    for one in sorted(answers, key=lambda answer: answer.arrival):
        if one.y is None:
            here = [rest for rest in rests if _within(domain, rest, one, 2 * rest.share)]
            failures = 1 + max((rest.failures for rest in here), default=0)
            rests = [rest for rest in rests if rest not in here] + [Rest(one, failures)]
        elif rests:
            rests = [rest for rest in rests if not _within(domain, rest, one, NEAR)]
    newest = len(answers) - 1
    return [one for one in rests if newest - one.answer.arrival < 2**one.failures - 1]


def elsewhere(
    strategy: Strategy,
    state: State,
    now: float | None,
    choice: Suggestion,
    rest: Sequence[Rest],
    again: Callable[[], Suggestion],
) -> Suggestion:
    """A strategy's choice, or the best besides where that rests.

    Strategies that draw random numbers draw again. Others get the point of highest upper confidence
    bound, with the width of their choice, among arms or points that fill the box. Where all rest,
    the newest failure alone is avoided.

    Args:
        strategy: Whose choice it is.
        state: In which it was made.
        now: The present for which it was asked; None where nobody said.
        choice: It.
        rest: What rests, oldest first.
        again: Asks the strategy once more.
    """
    domain, d = state.domain, state.domain.dim
    for _ in range(DRAWS if strategy.draws else 0):
        if not bool(_at_rest(domain, choice.X[:d].unsqueeze(0), rest)):
            return choice
        choice = again()
    if not rest or not bool(_at_rest(domain, choice.X[:d].unsqueeze(0), rest)):
        return choice
    points = _points(domain, state)
    free = points[~_at_rest(domain, points, rest)]
    if len(free) == 0:
        free = points[~_at_rest(domain, points, rest[-1:])]
    if len(free) == 0:
        return choice
    if state.domain.columns > d:
        free = torch.cat([free, choice.X[d:].expand(len(free), -1)], -1)
    sign = 1 if strategy.maximize else -1
    scores = []
    for block in torch.split(free, BLOCK):
        posterior = strategy.posterior(state, block, now=now)
        mean, sd = posterior.mean.squeeze(-1), posterior.variance.squeeze(-1).clamp_min(0).sqrt()
        scores.append(sign * mean + choice.sqrt_beta * sd)
    return strategy.suggestion_at(state, free[int(torch.cat(scores).argmax())], now=now)


def _within(domain: Domain, rest: Rest, other: Answer, share: float) -> bool:
    """Whether a point is where others failed."""
    if not isinstance(domain, Box):
        return rest.answer.arm == other.arm
    sides = (domain.bounds[1] - domain.bounds[0]).tolist()
    pairs = zip(rest.answer.point, other.point, sides)  # without the context, which is behind
    return all(abs(here - there) <= share * side for here, there, side in pairs)


def _at_rest(domain: Domain, X: Tensor, rests: Sequence[Rest]) -> Tensor:
    """Which points `q x d` rest, `q`."""
    if not rests:
        return torch.zeros(len(X), dtype=torch.bool, device=X.device)
    limits = X.new_zeros(())
    if isinstance(domain, Box):
        lower, upper = domain.bounds.to(X)
        limits = X.new_tensor([[one.share] for one in rests]) * (upper - lower)
    failed = X.new_tensor([one.answer.point[: domain.dim] for one in rests])
    return ((X.unsqueeze(1) - failed).abs() <= limits).all(-1).any(-1)


def _points(domain: Domain, state: State) -> Tensor:
    """Points to choose from, `q x d`."""
    own = like(state)
    if isinstance(domain, Grid):
        return domain.X.to(own)
    assert isinstance(domain, Box)
    if isinstance(domain.search, DiscreteSearch):
        return domain.search.X.to(own)
    # Others in every round, and fewer of them on the edge than the ascents would find.
    raw = spread(POINTS, domain.dim).like(own)
    return domain.from_unit(torch.frac(raw + state.told * 0.6180339887498949))
