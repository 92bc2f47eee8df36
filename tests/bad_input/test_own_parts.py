"""Parts of one's own that are misspelt, computed from numbers, or changed later."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch
from bad_input.rows import Row, assert_refuses, named
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel, RBFKernel

from botorch_tv.acquisition import Exploration, Width
from botorch_tv.forgetting import (
    Decay,
    EventTrigger,
    Inflation,
    Retained,
    Retention,
)
from botorch_tv.kernels import DecayKernel
from botorch_tv.likelihoods import FixedAging
from botorch_tv.strategies import Box, GPStrategy, Grid

KERNEL = RBFKernel().double()
GRID, SIDE = Grid.regular(4, 1), Box([(0.0, 1.0)])


def strategy(**parts):
    return GPStrategy(kernel=KERNEL, noise=0.02, **parts)


class OneFactor(Inflation):
    def log_factor(self, lag):
        return 0.1 * lag.sum()


class Told(Inflation):
    """Log-factors as listed by lag, the last one for all beyond."""

    def __init__(self, *factors):
        self.factors = torch.tensor(factors, dtype=torch.float64)

    def __repr__(self):
        return "Told()"

    def log_factor(self, lag):
        return self.factors[lag.ceil().long().clamp_max(len(self.factors) - 1)]


class Answers(Width):
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return "Answers()"

    def sqrt_beta(self, facts):
        return self.value


def asked(value, domain=None, shape=()):
    made = strategy(width=Answers(value))
    domain = GRID if domain is None else domain
    return made.ask(made.init(domain, batch_shape=shape)).sqrt_beta


class Scribbling(Retention):
    """Keeps what is younger than two rounds, and counts ages in place."""

    def __init__(self, name):
        self.name = name

    def keep(self, log):
        getattr(log, self.name).sub_(1)
        return Retained()


def scribbled(name, domain):
    made = strategy(retention=Scribbling(name))
    state, _ = made.tell(made.init(domain), made.ask(made.init(domain)), 1.0)
    return made.ask(state)


def triggered(name, domain):
    def rule(y, mean, sd, noise, since, delta):
        {"y": y, "mean": mean, "sd": sd}[name].sub_(1)
        return sd < 0

    made = strategy(retention=EventTrigger(0.1, rule=rule))
    made.tell(made.init(domain), made.ask(made.init(domain)), 1.0)


class Remembering(Retention):
    """Writes once it is told, not when it is asked."""

    def init(self, batch_shape):
        return torch.zeros(batch_shape)

    def keep(self, log):
        return Retained()

    def update(self, log):
        log.newest.mean.zero_().add_(7)
        return log.memory


def remembering():
    made = strategy(retention=Remembering())
    made.tell(made.init(GRID), made.ask(made.init(GRID)), 1.0)


class InPlace(Exploration):
    def __init__(self, name):
        self.name = name

    def score(self, candidates):
        score = getattr(candidates, self.name)
        score += 2
        return score


class Squared(Kernel):
    """A squared exponential of variance 2, as its matrix has it."""

    is_stationary = True

    def __init__(self, *, alone=2.0, steady=True):
        super().__init__()
        self.alone, self.steady = alone, steady

    def forward(self, x1, x2, diag=False, **params):
        self.calls = getattr(self, "calls", 0) + (not self.steady)
        if diag:
            return torch.full(x1.shape[:-1], self.alone, dtype=x1.dtype)
        apart = x1 - x2.mT
        return 2 * torch.exp(-(1 + self.calls) * apart.square())


ROWS = {
    "one factor": Row(
        lambda: strategy(inflation=OneFactor()),
        "OneFactor",
        "gives (), but the shape must be (1, 5)",
        "compute el",
    ),
    "no number": Row(
        lambda: strategy(inflation=Told(0.0, math.nan)),
        "Told() is [0.0, nan",
        "at lags",
        "positive f",
    ),
    "no noise": Row(
        lambda: strategy(inflation=Told(0.0, 1.0, -math.inf)), "-inf]", "at lags", "positive f"
    ),
    "more noise at once": Row(
        lambda: strategy(inflation=Told(0.3, 0.4)), "is [0.3, ", "at lags", "0 at lag 0"
    ),
    "in a likelihood": Row(
        lambda: FixedAging(Told(0.0, math.nan)), "is [0.0, nan", "at lags", "positive f"
    ),
}

ROWS |= {
    f"width {value!r} on {domain!r}": Row(
        lambda v=value, d=domain: asked(v, d),
        f"√beta of Answers() is {said}",
        limit,
        "fields of WidthContext",
    )
    for domain in (GRID, SIDE)
    for value, said, limit in (
        (math.nan, "nan", "finite"),
        (-1.0, "-1", "at least 0"),
        (math.inf, "inf", "finite"),
        (None, "None", "plain number"),
        ("2", "'2'", "plain number"),
    )
}
ROWS |= {
    f"writes into {name} on {domain!r}": Row(
        lambda n=name, d=domain: scribbled(n, d),
        "Scribbling.keep",
        "writes into the tensors of its log",
        "log.time.clone()",
        InputDataError,
    )
    for domain in (GRID, SIDE)
    for name in ("time", "y", "noise", "since", "first_time")
} | {
    f"kernel with {words}": Row(
        lambda w=wrong: GPStrategy(kernel=Squared(**w).double(), noise=0.02).init(SIDE),
        "Squared(",
        words,
        "compute elementwise",
        InputDataError,
    )
    for words, wrong in (
        ("variances with diag=True", {"alone": 1.0}),
        ("covariances of trials together", {"steady": False}),
    )
}
ROWS |= {
    f"trigger writes into {name} on {domain!r}": Row(
        lambda n=name, d=domain: triggered(n, d),
        "EventTrigger(delta=0.1, rule=rule)",
        "writes into the tensors of its log",
        "compute without in-place",
        InputDataError,
    )
    for domain in (GRID, SIDE)
    for name in ("y", "mean", "sd")
} | {
    f"score writes into {name}": Row(
        lambda n=name: strategy(exploration=InPlace(n)).ask(strategy().init(GRID)),
        "writes into the mean or sd",
        "the prediction of",
        "candidates.mean.clone()",
        InputDataError,
    )
    for name in ("mean", "sd")
}
ROWS["width of other trials"] = Row(
    lambda: asked(torch.ones(7)),
    "(7,)",
    "it must be a number, or",
    "each trial its",
    InputDataError,
)
ROWS["memory"] = Row(
    remembering,
    "Remembering.update",
    "writes into the tensors of its log",
    "in-place",
    InputDataError,
)
ROWS["width of a trial"] = Row(
    lambda: asked(torch.tensor([1.0, math.nan]), shape=(2,)),
    "nan of trial 1",
    "√beta of Answers()",
    "at least 0",
    InputDataError,
)


@pytest.mark.parametrize("row", named(ROWS))
def test_refused(row):
    assert_refuses(row)


def test_a_width_may_answer_with_one_number_for_all_trials():
    """A number, or a tensor of one in any dtype."""
    assert asked(2, shape=(3,)).tolist() == [2.0] * 3
    assert asked(torch.tensor(2, dtype=torch.float32), shape=(3,)).tolist() == [2.0] * 3


def test_a_kernel_is_shown_points_of_its_own():
    """It may write into them; the arms of a grid stay where they are."""

    class Shifting(RBFKernel):
        def forward(self, x1, x2, diag=False, **params):
            return super().forward(x1.add_(1), x2, diag=diag, **params)

    domain = Grid.regular(4, 1)
    GPStrategy(kernel=Shifting().double(), noise=0.02).init(domain)
    assert torch.equal(domain.X, GRID.X)
    assert GPStrategy(kernel=Squared().double(), noise=0.02).init(SIDE).basis.scale == 2**0.5


class Rate(Decay):
    """One that may change, and has a place for what it holds."""

    def __init__(self, rate):
        self.rates = [rate]

    def attenuation(self, elapsed):
        return torch.exp(-self.rates[0] * elapsed)


class Noisier(Inflation):
    def __init__(self, rate):
        self.rates = [rate]

    def log_factor(self, lag):
        return self.rates[0] * lag


class Wide(Width):
    def __init__(self, value):
        self.rates = [value]

    def sqrt_beta(self, facts):
        return self.rates[0]


@dataclass
class Changing:
    """What stands before and after, and under which name."""

    part: str
    make: Callable
    values: tuple = field(default=(0.05, 3.0))


@pytest.mark.parametrize(
    "case",
    [
        Changing("decay", Rate),
        Changing("inflation", Noisier),
        Changing("width", Wide),
    ],
    ids=lambda case: case.part,
)
def test_a_part_that_changes_later_changes_no_strategy(case):
    """Known by what is predicted and chosen, on a grid with rounds behind."""
    before, after = case.values

    def played(made):
        state, said = made.init(GRID), []
        for y in (0.3, 1.0, 0.2, 0.9):
            suggestion = made.ask(state)
            said += [suggestion.X, suggestion.mean, suggestion.sd]
            state, _ = made.tell(state, suggestion, y)
        return torch.cat([one.reshape(-1) for one in said])

    part = case.make(before)
    made = strategy(**{case.part: part})
    part.rates[0] = after
    assert torch.equal(played(made), played(strategy(**{case.part: case.make(before)})))
    assert not torch.equal(played(made), played(strategy(**{case.part: part})))


def test_a_decay_that_changes_later_changes_no_kernel():
    decay, time = Rate(0.05), torch.arange(4.0, dtype=torch.float64).unsqueeze(-1)
    kernel = DecayKernel(decay)
    decay.rates[0] = 3.0
    wanted = torch.exp(-0.05 * (time - time.mT).abs())
    torch.testing.assert_close(kernel(time).to_dense(), wanted)
