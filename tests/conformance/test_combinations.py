"""Every decay, inflation, retention, mean, width and exploration together, against the textbook."""

from typing import Any

import numpy as np
import pytest
from conformance.combinations import check, pick
from conformance.presets import WINDOWS
from conformance.user_parts import Thinned
from oracles.expert import Consultant

from botorch_tv.experts import Refresh, Windows
from botorch_tv.forgetting import (
    ConfirmedTrigger,
    EventTrigger,
    GLRTrigger,
    KeepAll,
    Markov,
    PeriodicReset,
    SlidingWindow,
    Static,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.gp import data
from botorch_tv.strategies import Features

# Random parts seldom fit each other.
pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
TOLERANCE = 1e-8
TOGETHER = 25


def worst(first: int, cases: int) -> float:
    return max(check(number) for number in range(first, first + cases))


@pytest.mark.few(1)
@pytest.mark.parametrize("first", range(0, 250, TOGETHER))
def test_random_combinations(first: int) -> None:
    assert worst(first, TOGETHER) < TOLERANCE


@pytest.mark.full
def test_random_combinations_without_reading_the_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a device, where reading the mask would wait."""
    monkeypatch.setattr(data, "_looks", lambda data: False)
    assert worst(4000, TOGETHER) < TOLERANCE


@pytest.mark.parametrize("number", [657, 2660])
def test_a_reset_by_an_observation_that_another_rule_drops(number: int) -> None:
    """No observation is left; time counts from the next, not from the dropped observation."""
    assert check(number) < TOLERANCE


BESIDE = [
    None,
    (PeriodicReset(4), ("period", 4, "rounds")),
    (PeriodicReset(5.0, by="time"), ("period", 5.0, "time")),
    (SlidingWindow(5), ("window", 5, "rounds")),
    (EventTrigger(0.1), ("trigger", 0.1)),
    (GLRTrigger(0.9, longest=5), ("glr", 0.9, 5)),
    (Thinned(3), ("thinned", 3)),
]


@pytest.mark.full
@pytest.mark.parametrize("other", BESIDE, ids=lambda rule: "alone" if rule is None else rule[1][0])
def test_a_confirmed_trigger_beside_other_rules(other: Any) -> None:
    """Rows set aside return, unless another rule has dropped them."""
    for number in range(8):
        confirm, delta = number % 3 + 1, (0.1, 0.9)[number % 2]
        together = [(ConfirmedTrigger(delta, confirm=confirm), ("confirmed", delta, confirm))]
        if other is not None:
            together.insert(number % 2, other)
        retention = tuple(rule for rule, _ in together), tuple(name for _, name in together)
        assert check(70_000 + number, retention=retention) < TOLERANCE


EXPERTS = {
    "every round": (Refresh(steps=0), Consultant(lambda t: True)),
    "windows": (Refresh(Windows(1.5, 0.3), c_Q=2.0, steps=0), Consultant(WINDOWS, c_Q=2.0)),
}
AGED = (UncertaintyInjection(1.5), ("injection", 1.5, 1.0))


@pytest.mark.few(2)
@pytest.mark.parametrize("inflation", [(Static(), ("constant",)), AGED], ids=["even", "aged"])
@pytest.mark.parametrize("asked", EXPERTS)
def test_answers_of_an_expert(asked: str, inflation: Any) -> None:
    """Answers replace observations, some of which failed or came late."""
    parts = {"decay": DECAYS[0], "inflation": inflation, "retention": RETENTIONS[0]}
    for number in range(4):
        chosen = {"expert": EXPERTS[asked], "on_box": False, "kernel": "matern"}
        assert check(90_000 + number, **parts, **chosen) < TOLERANCE


@pytest.mark.slow
@pytest.mark.parametrize("first", range(250, 3250, 10 * TOGETHER))
def test_many_more_random_combinations(first: int) -> None:
    assert worst(first, 10 * TOGETHER) < TOLERANCE


DECAYS = [
    (Static(), ("static",)),
    (Markov(0.03), ("markov", 0.03)),
    (Markov(1.0), ("markov", 1.0)),
    (Wiener(0.03), ("wiener", 0.03)),
]
WINDOW = (SlidingWindow(5), ("window", 5, "rounds"))
RETENTIONS = [
    (KeepAll(), ("all",)),
    (PeriodicReset(7), ("period", 7, "rounds")),
    WINDOW,
    (EventTrigger(delta=0.1), ("trigger", 0.1)),
]


@pytest.mark.full
@pytest.mark.parametrize("tolerance", [1e-8, 1e-6, 1e-3])
def test_features_on_a_box(tolerance: float) -> None:
    """Features reach the given tolerance; observations are up to 5 deviations."""
    errors = []
    for number in range(8):
        random = np.random.default_rng(number)
        decay = pick(random, DECAYS)
        retained: list[Any] = [
            rule for rule in RETENTIONS if decay is DECAYS[0] or rule is not WINDOW
        ]
        parts = {"decay": decay, "inflation": (Static(), ("constant",)), "kernel": "se"}
        inference = Features(tolerance=tolerance)
        chosen = {"retention": pick(random, retained), "inference": inference, "on_box": True}
        errors.append(check(50_000 + number, **parts, **chosen))
    assert 1e-6 * tolerance < max(errors) < tolerance
