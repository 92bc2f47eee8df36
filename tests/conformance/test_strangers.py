"""Decays of a user's own, with every retention, on both domains, against the textbook."""

import pytest
from conformance.combinations import check
from conformance.strangers import DampedDrift, DriftByCovariance, QuasiPeriodic, UnclaimedDrift
from gpytorch.kernels import RBFKernel

from botorch_tv.forgetting import EventTrigger, KeepAll, PeriodicReset, SlidingWindow
from botorch_tv.inference.recursive import ArmRecursion
from botorch_tv.strategies import Grid, Strategy

pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisfitWarning")
DAMPED = ("damped", 0.2, 3.0)
DECAYS = {
    "quasi-periodic": (QuasiPeriodic(), ("quasi-periodic", 0.05, 0.6)),
    "damped": (DampedDrift(), DAMPED),
    "by covariance": (DriftByCovariance(), DAMPED),
    "unclaimed": (UnclaimedDrift(), DAMPED),
}
RETENTIONS = {
    "all": (KeepAll(), ("all",)),
    "window": (SlidingWindow(4), ("window", 4, "rounds")),
    "window by time": (SlidingWindow(3.5, by="time"), ("window", 3.5, "time")),
    "period": (PeriodicReset(5), ("period", 5, "rounds")),
    "period by time": (PeriodicReset(4.5, by="time"), ("period", 4.5, "time")),
    "trigger": (EventTrigger(0.9), ("trigger", 0.9)),
}


@pytest.mark.parametrize(
    ("on_box", "inference"),
    # A box has one inference, whatever its name.
    [(False, "auto"), (False, "exact"), (True, "auto")],
    ids=["grid-auto", "grid-exact", "box"],
)
@pytest.mark.parametrize("retention", RETENTIONS)
@pytest.mark.parametrize("decay", DECAYS)
def test_by_the_textbook(decay, retention, on_box, inference):
    parts = {"decay": DECAYS[decay], "retention": RETENTIONS[retention]}
    for number in (5000, 5001):
        assert check(number, **parts, on_box=on_box, inference=inference) < 1e-8


@pytest.mark.parametrize("decay", DECAYS)
def test_only_what_claims_to_be_markovian_goes_through_a_recursion(decay):
    strategy = Strategy(kernel=RBFKernel().double(), noise=0.02, decay=DECAYS[decay][0])
    inference = strategy.inference_for(Grid.regular(points=3, dim=2))
    assert isinstance(inference, ArmRecursion) == (decay in ("damped", "by covariance"))
