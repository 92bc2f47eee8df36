"""Parts written by users, with parts of the package, on both domains, by the textbook."""

import pytest
from conformance import user_parts as own
from conformance.combinations import check
from gpytorch.kernels import RBFKernel

from botorch_tv.forgetting import (
    EventTrigger,
    GLRTrigger,
    KeepAll,
    PeriodicMarkov,
    PeriodicReset,
    SlidingWindow,
)
from botorch_tv.gp.arms import ArmRecursion
from botorch_tv.strategies import GPStrategy, Grid

pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
DAMPED = ("damped", 0.2, 3.0)
DECAYS = {
    "quasi-periodic": (own.QuasiPeriodic(), ("quasi-periodic", 0.05, 0.6)),
    "damped": (own.DampedDrift(), DAMPED),
    "by covariance": (own.DriftByCovariance(), DAMPED),
    "unclaimed": (own.UnclaimedDrift(), DAMPED),
    "periodic": (PeriodicMarkov(0.03, 7.5, 0.8), ("periodic", 0.03, 7.5, 0.8)),
}
RETENTIONS = {
    "all": (KeepAll(), ("all",)),
    "window": (SlidingWindow(4), ("window", 4, "rounds")),
    "window by time": (SlidingWindow(3.5, by="time"), ("window", 3.5, "time")),
    "period": (PeriodicReset(5), ("period", 5, "rounds")),
    "period by time": (PeriodicReset(4.5, by="time"), ("period", 4.5, "time")),
    "trigger": (EventTrigger(0.9), ("trigger", 0.9)),
    "GLR trigger": ((GLRTrigger(0.9, longest=5),), (("glr", 0.9, 5),)),
}


@pytest.mark.few(24)
@pytest.mark.parametrize("on_box", [False, True], ids=["grid", "box"])
@pytest.mark.parametrize("retention", RETENTIONS)
@pytest.mark.parametrize("decay", DECAYS)
def test_by_the_textbook(decay, retention, on_box):
    parts = {"decay": DECAYS[decay], "retention": RETENTIONS[retention]}
    assert check(5000, **parts, on_box=on_box, inference="auto") < 1e-8


@pytest.mark.parametrize("decay", DECAYS)
def test_a_recursion_serves_decays_declared_as_markovian(decay):
    strategy = GPStrategy(kernel=RBFKernel().double(), noise=0.02, decay=DECAYS[decay][0])
    inference = strategy.inference_for(Grid.regular(points=3, dim=2))
    assert isinstance(inference, ArmRecursion) == (decay in ("damped", "by covariance"))
