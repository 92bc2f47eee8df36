"""Parts written by users, with parts of the package, on both domains, by the textbook."""

import pytest
from conformance import strangers as own
from conformance.combinations import check
from gpytorch.kernels import RBFKernel

from botorch_tv.forgetting import (
    EventTrigger,
    KeepAll,
    Markov,
    PeriodicReset,
    SlidingWindow,
    Static,
    Wiener,
)
from botorch_tv.gp import data
from botorch_tv.gp.arms import ArmRecursion
from botorch_tv.strategies import GPStrategy, Grid

pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
DAMPED = ("damped", 0.2, 3.0)
DECAYS = {
    "quasi-periodic": (own.QuasiPeriodic(), ("quasi-periodic", 0.05, 0.6)),
    "damped": (own.DampedDrift(), DAMPED),
    "by covariance": (own.DriftByCovariance(), DAMPED),
    "unclaimed": (own.UnclaimedDrift(), DAMPED),
}
RETENTIONS = {
    "all": (KeepAll(), ("all",)),
    "window": (SlidingWindow(4), ("window", 4, "rounds")),
    "window by time": (SlidingWindow(3.5, by="time"), ("window", 3.5, "time")),
    "period": (PeriodicReset(5), ("period", 5, "rounds")),
    "period by time": (PeriodicReset(4.5, by="time"), ("period", 4.5, "time")),
    "trigger": (EventTrigger(0.9), ("trigger", 0.9)),
}
STRANGE = {
    "window, trigger": (
        (SlidingWindow(6), EventTrigger(0.9)),
        (("window", 6, "rounds"), ("trigger", 0.9)),
    ),
    "window by time, period, trigger": (
        (SlidingWindow(5.5, by="time"), PeriodicReset(7), EventTrigger(0.9)),
        (("window", 5.5, "time"), ("period", 7, "rounds"), ("trigger", 0.9)),
    ),
    "sessions": (own.Sessions(1.5), (("sessions", 1.5),)),
    "agreeing": (own.Agreeing(1.0), (("agreeing", 1.0),)),
    "near best": (own.NearBest(1.0), (("near best", 1.0),)),
    "cumulative sum": (own.CumulativeSum(0.5, 1.0), (("cusum", 0.5, 1.0),)),
    "replaced": (own.Replaced(), (("replaced",),)),
    "thinned": (own.Thinned(3), (("thinned", 3),)),
    "window, restart": (
        (SlidingWindow(5), own.Restart(4)),
        (("window", 5, "rounds"), ("restart", 4)),
    ),
    "surprise, restart": (
        (own.Surprise(1.0), own.Restart(3)),
        (("surprise", 1.0), ("restart", 3)),
    ),
    "surprise, trigger": (
        (own.Surprise(0.5), EventTrigger(0.9)),
        (("surprise", 0.5), ("trigger", 0.9)),
    ),
    "panic": (own.Panic(1.5), (("panic", 1.5),)),
    "panic, restart": ((own.Panic(1.0), own.Restart(1)), (("panic", 1.0), ("restart", 1))),
    "blank": (own.Blank(5), (("blank", 5),)),
    "newest": (own.Newest(4), (("window", 4, "rounds"),)),
    "newest, cumulative sum": (
        (own.Newest(5), own.CumulativeSum(0.2, 1.0)),
        (("window", 5, "rounds"), ("cusum", 0.2, 1.0)),
    ),
}
OF_STRANGE = {
    "static": (Static(), ("static",)),
    "markov": (Markov(0.2), ("markov", 0.2)),
    "wiener": (Wiener(0.2), ("wiener", 0.2)),
    "damped": DECAYS["damped"],
}
OFFSET = (Static(), ("constant",))


@pytest.mark.parametrize("number", [6000, pytest.param(6001, marks=pytest.mark.slow)])
@pytest.mark.parametrize("on_box", [False, True], ids=["grid", "box"])
@pytest.mark.parametrize("retention", STRANGE)
@pytest.mark.parametrize("decay", OF_STRANGE)
def test_retentions_by_the_textbook(decay, retention, on_box, number):
    parts = {"decay": OF_STRANGE[decay], "inflation": OFFSET, "retention": STRANGE[retention]}
    assert check(number, **parts, on_box=on_box, inference="auto") < 1e-8


@pytest.mark.parametrize("retention", STRANGE)
@pytest.mark.parametrize("decay", OF_STRANGE)
def test_retentions_without_reading_the_mask(decay, retention, monkeypatch):
    """As on a device, where reading the mask would wait."""
    monkeypatch.setattr(data, "_looks", lambda data: False)
    parts = {"decay": OF_STRANGE[decay], "inflation": OFFSET, "retention": STRANGE[retention]}
    assert check(6002, **parts, on_box=False, inference="auto") < 1e-8


@pytest.mark.parametrize("number", [5000, pytest.param(5001, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("on_box", "inference"),
    # A box has one inference.
    [(False, "auto"), (False, "exact"), (True, "auto")],
    ids=["grid-auto", "grid-exact", "box"],
)
@pytest.mark.parametrize("retention", RETENTIONS)
@pytest.mark.parametrize("decay", DECAYS)
def test_by_the_textbook(decay, retention, on_box, inference, number):
    parts = {"decay": DECAYS[decay], "retention": RETENTIONS[retention]}
    assert check(number, **parts, on_box=on_box, inference=inference) < 1e-8


@pytest.mark.parametrize("decay", DECAYS)
def test_a_recursion_serves_decays_declared_as_markovian(decay):
    strategy = GPStrategy(kernel=RBFKernel().double(), noise=0.02, decay=DECAYS[decay][0])
    inference = strategy.inference_for(Grid.regular(points=3, dim=2))
    assert isinstance(inference, ArmRecursion) == (decay in ("damped", "by covariance"))
