"""One hour, two hours."""

import pytest

from botorch_tv import Loop
from botorch_tv.forgetting import ExponentialWeights, Markov, Static, UncertaintyInjection
from botorch_tv.loop.table import forgetting_text
from botorch_tv.validation import counted, span_text


@pytest.mark.parametrize(
    ("length", "unit", "said"),
    [
        (1.0, "minutes", "1 min"),
        (1.0004, "hours", "1 h"),
        (0.9996, "", "1 unit of time"),
        (46.63, "hours", "46.6 h"),
        (3612.0, "", "3610 units of time"),
        (0.25, "days", "0.25 d"),
        (2.0, "weeks", "2 weeks"),
    ],
)
def test_spans(length: float, unit: str, said: str) -> None:
    assert span_text(length, unit) == said


def test_things() -> None:
    said = [counted(number, "points") for number in (0, 1, 2)]
    assert said == ["0 points", "1 point", "2 points"]


def test_how_fast_it_forgets_is_said_in_whole_words() -> None:
    markov = forgetting_text(Markov(0.75), Static(), "minutes")  # 0.25^(age/2) = 1/2
    assert markov.endswith("correlation half-life 1 min.")
    weights = forgetting_text(Static(), ExponentialWeights(0.5), "hours")
    assert weights.endswith("noise doubling time 1 h.")
    slow = UncertaintyInjection(alpha=1e-3, kappa=0.5)  # 1 + age^0.001 / 2 = 2 after 2^1000
    assert forgetting_text(Static(), slow, "").endswith("more than 1.1e+12 units of time.")


def test_one_measurement_is_one() -> None:
    loop = Loop([(0.0, 1.0)])
    loop.observe([0.5], 1.0)
    told = loop.describe()
    assert "1 of 4 observations" in told
    assert "1 measurement at time 1." in told
