"""The likelihood ratio of a change: false triggers, and detection of small changes."""

import math

import pytest
import torch

from botorch_tv.forgetting import (
    EventTrigger,
    GLRTrigger,
    Log,
    Observation,
    PeriodicReset,
    Retention,
)
from botorch_tv.strategies import GPStrategy, Grid

D = torch.float64
NOISE = 0.5


def first_triggers(rule: Retention, errors: torch.Tensor) -> torch.Tensor:
    """Round of the first trigger on residuals `trials x rounds`; infinite for none."""
    trials, rounds = errors.shape
    sd = torch.full((trials,), math.sqrt(1 - NOISE), dtype=D)
    noise = torch.full((trials,), NOISE, dtype=D)
    memory = rule.init(torch.Size((trials,)))
    first = torch.full((trials,), math.inf, dtype=D)
    never = torch.zeros(trials, dtype=torch.bool)
    for t in range(1, rounds + 1):
        y = errors[:, t - 1]
        seen = Observation(y.unsqueeze(-1), y, torch.zeros_like(y), sd, noise)
        facts = {"now": y, "rounds": t, "first_time": y, "newest": seen, "memory": memory}
        since = torch.full((trials,), t)
        log = Log(None, since=since, **facts)  # type: ignore[arg-type]
        where = rule.keep(log).where  # type: ignore[union-attr]
        first = torch.where(where & first.isinf(), t, first)
        log = Log(None, since=since + 1, reset=never, **facts)  # type: ignore[arg-type]
        memory = rule.update(log)
    return first


def normal(trials: int, rounds: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(trials, rounds, generator=generator, dtype=D)


@pytest.mark.parametrize("longest", [1, 10, 64])
def test_false_triggers_are_as_rare_as_promised(longest: int) -> None:
    """The bound is not too loose either."""
    for delta in (0.1, 0.9):
        share = first_triggers(GLRTrigger(delta, longest), normal(4000, 80, 1)).isfinite()
        rate = float(share.double().mean())
        assert delta / 20 < rate < delta + 3 * math.sqrt(delta * (1 - delta) / 4000)


def test_the_statistic_is_that_of_all_lengths() -> None:
    errors = normal(3, 9, 2)
    rule = GLRTrigger(0.1, longest=9)
    for number in range(10):
        statistic = rule.statistic(errors, torch.full((3,), number))
        for row, value in zip(errors.tolist(), statistic.tolist()):
            sums = [sum(row[:w]) ** 2 / (2 * w) for w in range(1, number + 1)]
            assert value == pytest.approx(max(sums, default=0.0), abs=1e-12)
    assert float(rule.threshold(torch.tensor(20))) == pytest.approx(
        math.log(9 * math.pi**2 * 400 / 0.6), abs=1e-12
    )


def test_small_changes_are_detected_sooner_than_by_single_residuals() -> None:
    """Residuals shift by one standard deviation after round 40."""
    errors = normal(500, 100, 3)
    errors[:, 40:] += 1.0
    ratio, event = (first_triggers(rule, errors) for rule in (GLRTrigger(0.1), EventTrigger(0.1)))
    assert float((ratio > 40).double().mean()) > 0.9
    assert float(ratio.isfinite().double().mean()) > 0.99
    assert float(event.isfinite().double().mean()) < 0.2


def test_failed_measurements_are_ignored() -> None:
    rule = GLRTrigger(0.5, longest=4)
    memory = (torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=D), torch.tensor([3]))
    zero = torch.zeros(1, dtype=D)
    seen = Observation(zero.unsqueeze(-1), zero, zero + 5, zero + 1, zero + math.inf)
    facts = {"now": zero, "rounds": 9, "since": torch.tensor([9]), "first_time": zero}
    log = Log(None, newest=seen, reset=zero.bool(), memory=memory, **facts)  # type: ignore[arg-type]
    errors, number = rule.update(log)
    assert errors.tolist() == memory[0].tolist()
    assert number.tolist() == [3]


def test_residuals_after_a_reset_by_another_rule_count() -> None:

    domain, delta, period = Grid.regular(points=3, dim=1), 0.3, 4
    rules = (PeriodicReset(period), GLRTrigger(delta))
    strategy = GPStrategy(kernel=torch.eye(3, dtype=D), noise=NOISE, retention=rules)
    state, errors = strategy.init(domain), list[float]()
    values = [0.1, -0.2, 0.3, 0.1, 1.9, 3.2]
    fired = []
    for t, value in enumerate(values):
        count = t % period + 1
        errors = errors if count > 1 else []
        suggestion = strategy.suggestion_at(state, domain.X[t % 3])
        sd2 = float(suggestion.sd) ** 2 + NOISE
        errors.append((value - float(suggestion.mean)) / math.sqrt(sd2))
        sums = [sum(errors[-w:]) ** 2 / (2 * w) for w in range(1, count + 1)]
        over = max(sums) > math.log(count**3 * math.pi**2 / (6 * delta))
        state, info = strategy.tell(state, suggestion, value)
        assert bool(info.reset) == (over or (count == 1 and t > 0))
        fired.append(over)
    assert fired == [False] * 5 + [True]  # by two residuals, the first at the start of the period
