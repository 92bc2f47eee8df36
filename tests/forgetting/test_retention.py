"""Retention: which rows are retained, and what counts as a reset."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from gpytorch.kernels import PeriodicKernel, RBFKernel
from oracles.rules import trigger_threshold

from botorch_tv.forgetting import (
    ConfirmedTrigger,
    EventTrigger,
    GLRTrigger,
    KeepAll,
    Log,
    Observation,
    PeriodicMarkov,
    Retention,
    SlidingWindow,
    WassersteinRemoval,
    prediction_error,
)
from botorch_tv.forgetting.retention import require_rules
from botorch_tv.strategies import w_dbo

D = torch.float64


def log_after(seen: Observation, since: torch.Tensor) -> Log:
    """A log after the first observation."""
    time = torch.zeros_like(seen.y)
    rows = SimpleNamespace(time=time.unsqueeze(-1), y=seen.X, noise=seen.noise.unsqueeze(-1))
    return Log(rows, now=time, rounds=1, since=since, first_time=time, newest=seen)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: SlidingWindow(3, by="hours"), "SlidingWindow: by is 'hours'"),
        (lambda: GLRTrigger(0.0), "GLRTrigger: delta"),
        (lambda: GLRTrigger(longest=0), "GLRTrigger: longest"),
        (lambda: ConfirmedTrigger(confirm=0), "ConfirmedTrigger: confirm"),
        (lambda: WassersteinRemoval(0.0, 0.2), "WassersteinRemoval: epsilon"),
        (lambda: WassersteinRemoval(0.1, 0.2, alpha=-1.0), "WassersteinRemoval: alpha"),
        (lambda: WassersteinRemoval(0.1, 0.2, nu=2.0), "WassersteinRemoval: nu is 2.0; choose"),
        (lambda: WassersteinRemoval(0.1, (0.2, 0.0)), "WassersteinRemoval: lengthscale"),
        (lambda: WassersteinRemoval(0.1, 0.2, variance=0.0), "WassersteinRemoval: variance"),
        (lambda: PeriodicMarkov(-1.0, 7.0, 1.0), "PeriodicMarkov: epsilon"),
        (lambda: require_rules((KeepAll(), 5)), "retention is 5"),
        (lambda: w_dbo(kernel=PeriodicKernel(), noise=0.1, epsilon=0.1), "a MaternKernel"),
        (
            lambda: w_dbo(kernel=RBFKernel(), noise=0.1, epsilon=0.1, mean="estimated"),
            "another number",
        ),
    ],
)
def test_bad_arguments_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize("delta", [0.01, 0.1, 0.9])
@pytest.mark.parametrize("since", [1, 2, 50])
def test_event_trigger(since: int, delta: float) -> None:
    """[ET] Lemma 3: it triggers above and below the band, and not within."""
    rule, sd, noise = EventTrigger(delta), 0.4, 0.02
    limit = trigger_threshold(sd, noise, since, delta)
    y = 0.3 + torch.tensor([limit, -limit, limit, -limit], dtype=torch.float64)
    y = y + torch.tensor([1e-9, -1e-9, -1e-9, 1e-9], dtype=torch.float64)
    mean, spread = torch.full_like(y, 0.3), torch.full_like(y, sd)
    rounds = torch.full((4,), since)
    for variance in (noise, torch.full_like(y, noise)):
        noises = torch.as_tensor(variance, dtype=D).expand(4)
        seen = Observation(X=y.unsqueeze(-1), y=y, mean=mean, sd=spread, noise=noises)
        retained = rule.keep(log_after(seen, rounds))
        assert retained.newest == 1
        assert retained.where.tolist() == retained.reset.tolist() == [True, True, False, False]
        band = rule.band(spread, variance, rounds)
        assert band is not None
        torch.testing.assert_close(band, torch.full_like(y, limit))


def test_custom_rule_has_no_band() -> None:
    def upwards(y: Any, mean: Any, sd: Any, noise: Any, since: Any, delta: Any) -> torch.Tensor:
        return (y > mean + delta * sd) & (since > 1)

    rule = EventTrigger(0.5, upwards)
    y = torch.tensor([1.4, 1.6, 1.6], dtype=torch.float64)
    unit, since = torch.ones_like(y), torch.tensor([2, 2, 1])
    seen = Observation(X=y.unsqueeze(-1), y=y, mean=unit, sd=unit, noise=0.1 * unit)
    retained = rule.keep(log_after(seen, since))
    assert retained.where.tolist() == [False, True, False]
    assert rule.band(unit, 0.1, since) is None
    assert "upwards" in repr(rule)
    assert "prediction_error" in repr(EventTrigger(0.5, prediction_error))


GLR_NOISE = 0.5


def first_triggers(rule: Retention, errors: torch.Tensor) -> torch.Tensor:
    """Round of the first trigger on residuals `trials x rounds`; infinite for none."""
    trials, rounds = errors.shape
    sd = torch.full((trials,), math.sqrt(1 - GLR_NOISE), dtype=D)
    noise = torch.full((trials,), GLR_NOISE, dtype=D)
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
