"""The likelihood ratio of a change: its law where nothing changes, and what it sees sooner."""

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


def first_alarms(rule: Retention, errors: torch.Tensor) -> torch.Tensor:
    """The round of the first alarm on standardised errors, `trials x rounds`; infinite for none."""
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
def test_false_alarms_are_as_rare_as_promised(longest: int) -> None:
    """And not absurdly rarer, so that the bound is of use."""
    for delta in (0.1, 0.9):
        share = first_alarms(GLRTrigger(delta, longest), normal(4000, 80, 1)).isfinite()
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


def test_small_changes_are_seen_sooner_than_one_error_at_a_time() -> None:
    """Errors move by one standard deviation after round 40: nearly all are noticed."""
    errors = normal(500, 100, 3)
    errors[:, 40:] += 1.0
    ratio, event = (first_alarms(rule, errors) for rule in (GLRTrigger(0.1), EventTrigger(0.1)))
    assert float((ratio > 40).double().mean()) > 0.9
    assert float(ratio.isfinite().double().mean()) > 0.99
    assert float(event.isfinite().double().mean()) < 0.2


def test_failures_say_nothing() -> None:
    rule = GLRTrigger(0.5, longest=4)
    memory = (torch.tensor([[1.0, 2.0, 3.0, 4.0]], dtype=D), torch.tensor([3]))
    zero = torch.zeros(1, dtype=D)
    seen = Observation(zero.unsqueeze(-1), zero, zero + 5, zero + 1, zero + math.inf)
    facts = {"now": zero, "rounds": 9, "since": torch.tensor([9]), "first_time": zero}
    log = Log(None, newest=seen, reset=zero.bool(), memory=memory, **facts)  # type: ignore[arg-type]
    errors, number = rule.update(log)
    assert errors.tolist() == memory[0].tolist()
    assert number.tolist() == [3]


def test_what_was_predicted_after_a_reset_of_another_rule_counts() -> None:
    """Each period begins with an error, and the errors of it alone are summed."""
    domain, delta, period = Grid.regular(points=3, dim=1), 0.3, 4
    rules = (PeriodicReset(period), GLRTrigger(delta))
    strategy = GPStrategy(kernel=torch.eye(3, dtype=D), noise=NOISE, retention=rules)
    state, errors = strategy.init(domain), list[float]()
    values = [0.1, -0.2, 0.3, 0.1, 1.9, 3.2]
    fired = []
    for t, value in enumerate(values):
        told = t % period + 1
        errors = errors if told > 1 else []
        suggestion = strategy.suggestion_at(state, domain.X[t % 3])
        sd2 = float(suggestion.sd) ** 2 + NOISE
        errors.append((value - float(suggestion.mean)) / math.sqrt(sd2))
        sums = [sum(errors[-w:]) ** 2 / (2 * w) for w in range(1, told + 1)]
        over = max(sums) > math.log(told**3 * math.pi**2 / (6 * delta))
        state, info = strategy.tell(state, suggestion, value)
        assert bool(info.reset) == (over or (told == 1 and t > 0))
        fired.append(over)
    assert fired == [False] * 5 + [True]  # by two errors, one of which came with the period


@pytest.mark.parametrize(
    "values", [[0.1, -0.1, 0.1, 2.0, 1.8], [0.1, -0.1, 0.1, 2.0, None, 2.5]], ids=["", "failure"]
)
def test_what_was_predicted_before_a_reset_of_another_rule_counts_no_more(
    values: list[float | None],
) -> None:
    """With the error before the reset the last would set it off, also if one failed in between."""
    domain, delta, period = Grid.regular(points=3, dim=1), 0.3, 4
    rules = (PeriodicReset(period), GLRTrigger(delta))
    strategy = GPStrategy(kernel=torch.eye(3, dtype=D), noise=NOISE, retention=rules)
    state, errors = strategy.init(domain), list[float]()
    for t, value in enumerate(values):
        suggestion = strategy.suggestion_at(state, domain.X[t % 3])
        if value is not None:
            sd2 = float(suggestion.sd) ** 2 + NOISE
            errors.append((value - float(suggestion.mean)) / math.sqrt(sd2))
        ok = torch.tensor(value is not None)
        state, info = strategy.tell(state, suggestion, value or 0.0, ok=ok)
        assert bool(info.reset) == (t == period)  # the period's own
    told = len(values) - period
    limit = math.log(told**3 * math.pi**2 / (6 * delta))
    assert errors[-1] ** 2 / 2 < limit
    assert told == 1 or sum(errors[-2:]) ** 2 / 4 > limit


def test_a_static_objective_sets_off_no_more_than_promised() -> None:
    """Predictions of the right model, whatever the bandit chooses."""
    domain = Grid.regular(points=6, dim=2)
    distance = (domain.X.unsqueeze(1) - domain.X).square().sum(-1)
    K = torch.exp(-distance / (2 * 0.3**2))
    root = torch.linalg.cholesky(K + 1e-10 * torch.eye(36, dtype=D))
    trials, delta = 300, 0.5
    f = normal(trials, 36, 4) @ root.mT
    watched = GPStrategy(kernel=K, noise=0.05, retention=GLRTrigger(delta))
    state = watched.init(domain, batch_shape=(trials,))
    errors, fired = 0.05**0.5 * normal(trials, 50, 5), torch.zeros(trials, dtype=torch.bool)
    for t in range(50):
        suggestion = watched.ask(state)
        y = f.gather(1, suggestion.index.unsqueeze(1)).squeeze(1) + errors[:, t]
        state, info = watched.tell(state, suggestion, y)
        fired |= info.reset
    rate = float(fired.double().mean())
    assert 0 < rate < delta


@pytest.mark.parametrize(
    ("given", "message"),
    [({"delta": 0.0}, "delta"), ({"longest": 0}, "longest")],
)
def test_bad_numbers_are_refused(given: dict, message: str) -> None:
    with pytest.raises(ValueError, match=f"GLRTrigger: {message}"):
        GLRTrigger(**given)
