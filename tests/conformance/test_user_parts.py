"""Parts written by users, with parts of the package, on both domains, by the textbook."""

import math
from dataclasses import dataclass

import pytest
import torch
from conformance import user_parts as own
from conformance.combinations import check
from gpytorch.kernels import RBFKernel

from botorch_tv.acquisition import Constant, Exploration, UpperConfidence
from botorch_tv.acquisition.exploration import bound_width
from botorch_tv.forgetting import (
    EventTrigger,
    GLRTrigger,
    KeepAll,
    Lifetime,
    PeriodicMarkov,
    PeriodicReset,
    Retained,
    Retention,
    SlidingWindow,
    Smooth,
    Static,
)
from botorch_tv.gp.arms import ArmRecursion
from botorch_tv.simulation import GridWorld, run_study
from botorch_tv.simulation.rules import compilable
from botorch_tv.strategies import Box, GPStrategy, Grid

pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
DAMPED = ("damped", 0.2, 3.0)
DECAYS = {
    "quasi-periodic": (own.QuasiPeriodic(), ("quasi-periodic", 0.05, 0.6)),
    "damped": (own.DampedDrift(), DAMPED),
    "by covariance": (own.DriftByCovariance(), DAMPED),
    "unclaimed": (own.UnclaimedDrift(), DAMPED),
    "periodic": (PeriodicMarkov(0.03, 7.5, 0.8), ("periodic", 0.03, 7.5, 0.8)),
    "squared exponential": (Smooth(3.5), ("smooth", 3.5, math.inf)),
    "Matérn 3/2": (Smooth(3.5, 1.5), ("smooth", 3.5, 1.5)),
    "Matérn 5/2": (Smooth(6.5, 2.5), ("smooth", 6.5, 2.5)),
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


@pytest.mark.few(8)
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


# ---------------- Facts that users' parts declare


class OwnBound(Exploration):
    """Half the width of the package's upper confidence bound."""

    bound_factors = (0.5, 0.0)
    draws_numbers = False

    def score(self, candidates):
        return candidates.sign * candidates.mean + 0.5 * candidates.sqrt_beta * candidates.sd


@dataclass(frozen=True)
class OwnWindow(Retention):
    number: int
    on_observation = True

    @property
    def retained_for(self):
        return Lifetime(window=self.number)

    def keep(self, log):
        return Retained(newest=self.number)


@dataclass(frozen=True)
class OwnTrigger(EventTrigger):
    """A trigger by the package's rule."""


class OwnStrategy(GPStrategy):
    by_parts = True


class Hill(GridWorld):
    """A hill that moves along the first axis."""

    def rounds(self, stream):
        for t in range(1000):
            place = self.domain.X[:, 0] - 0.5 - 0.4 * math.sin(0.3 * t)
            yield torch.exp(-8 * place**2).expand(stream.trials, -1)


PLAIN = {"kernel": RBFKernel().double(), "noise": 0.02}
DECLARED = {
    "exploration": {"exploration": OwnBound()},
    "window": {"retention": OwnWindow(4)},
    "trigger": {"retention": OwnTrigger(0.1)},
    "decay": {"decay": own.DampedDrift()},
}


@pytest.mark.parametrize("name", DECLARED)
def test_a_study_of_declared_parts_is_compiled(name):
    world = Hill(Grid.regular(5, 2), noise=0.02)
    strategy = OwnStrategy(**PLAIN, **DECLARED[name])
    assert compilable(world, strategy, strategy.init(world.domain), 30)
    plays = [
        run_study(world, {"own": strategy}, trials=2, horizon=12, compiled=compiled).data
        for compiled in (True, False)
    ]
    assert (plays[0]["index"] == plays[1]["index"]).all()
    assert (plays[0]["resets"] == plays[1]["resets"]).all()


def test_a_subclass_that_overrides_a_method_loses_the_facts():
    class Doubled(OwnBound):
        def score(self, candidates):
            return 2 * super().score(candidates)

    class Lossy(SlidingWindow):
        def keep(self, log):
            return super().keep(log)

    class Aged(Static):
        def log_factor(self, lag):
            return 0.5 * lag

    assert OwnBound().plays_bound
    assert not OwnBound().draws_numbers
    assert Doubled().bound_factors is None
    assert Doubled().draws_numbers
    assert Lossy(4).reacts
    assert not Lossy(4).on_observation
    assert Static().is_static
    assert not Aged().is_static
    assert class_of_plain_subclass().by_parts is False


def class_of_plain_subclass():
    class Another(OwnStrategy):
        pass

    return Another


def test_the_gradient_of_a_declared_bound_is_explicit():
    box = Box([(0.0, 1.0)] * 2)
    asked = []
    for exploration in (OwnBound(), UpperConfidence()):
        width = Constant(4.0) if isinstance(exploration, OwnBound) else Constant(1.0)
        strategy = GPStrategy(**PLAIN, exploration=exploration, width=width)
        state = strategy.init(box)
        for y in (1.0, 0.3, -0.5):
            state, _ = strategy.tell(state, strategy.ask(state), torch.tensor(y).double())
        asked.append(strategy.ask(state).X)
        assert bound_width(exploration.score, 2.0) == (1.0 if len(asked) == 1 else 2.0)
        assert bound_width(lambda at: at.mean, 2.0) is None
    assert torch.allclose(*asked, atol=1e-6)
