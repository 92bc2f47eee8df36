"""Parts of one's own that are misspelt, computed from numbers, or changed later."""

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import pytest
import torch
from bad_input.rows import refuses
from gpytorch.kernels import Kernel, RBFKernel

from botorch_tv.acquisition import Exploration, Width
from botorch_tv.forgetting import (
    Decay,
    EventTrigger,
    Inflation,
    Parameter,
    Retained,
    Retention,
)
from botorch_tv.kernels import DecayKernel
from botorch_tv.likelihoods import Aging
from botorch_tv.strategies import Box, GPStrategy, Grid

D = torch.float64
DOMAINS = {"grid": Grid.regular(4, 1), "box": Box([(0.0, 1.0)])}
strategy = partial(GPStrategy, kernel=RBFKernel().double(), noise=0.02)


class OneFactor(Inflation):
    def log_factor(self, lag):
        return 0.1 * lag.sum()


@dataclass(frozen=True)
class Smooth(Decay):
    """Its parameter has the name of a property of every GPyTorch kernel."""

    lengthscale: float = 2.0
    parameters: ClassVar = {"lengthscale": Parameter(lower=0.05, power=1)}

    def attenuation(self, elapsed):
        return torch.exp(-elapsed / self.lengthscale)


class Listed(Inflation):
    """Log-factors as listed by lag, the last for all larger lags."""

    def __init__(self, *factors):
        self.factors = torch.tensor(factors, dtype=D)

    def __repr__(self):
        return "Listed()"

    def log_factor(self, lag):
        return self.factors[lag.ceil().long().clamp_max(len(self.factors) - 1)]


class Answers(Width):
    def __init__(self, value):
        self.value = value

    def __repr__(self):
        return "Answers()"

    def sqrt_beta(self, facts):
        return self.value


class Scribbling(Retention):
    """Writes into the log, in `keep` or in `update`."""

    def __init__(self, name, keeps):
        self.name, self.keeps = name, keeps

    def init(self, batch_shape):
        return torch.zeros(batch_shape)

    def keep(self, log):
        if self.keeps:
            getattr(log, self.name).sub_(1)
        return Retained()

    def update(self, log):
        if not self.keeps:
            getattr(log.newest, self.name).zero_().add_(7)
        return log.memory


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
        self.alone, self.steady, self.calls = alone, steady, 0

    def forward(self, x1, x2, diag=False, **params):
        self.calls += not self.steady
        if diag:
            return torch.full(x1.shape[:-1], self.alone, dtype=x1.dtype)
        return 2 * torch.exp(-(1 + self.calls) * (x1 - x2.mT).square())


def trigger(name):
    def rule(y, mean, sd, noise, since, delta):
        {"y": y, "mean": mean, "sd": sd}[name].sub_(1)
        return sd < 0

    return EventTrigger(0.1, rule=rule)


def asked(value, domain="grid", shape=()):
    made = strategy(width=Answers(value))
    return made.ask(made.init(DOMAINS[domain], batch_shape=shape)).sqrt_beta


def a_round(domain="grid", **parts):
    made = strategy(**parts)
    state = made.init(DOMAINS[domain])
    made.ask(made.tell(state, made.ask(state), 1.0)[0])


def kernel(**wrong):
    strategy(kernel=Squared(**wrong).double()).init(DOMAINS["box"])


FACTORS = {"no number": (0.0, math.nan), "no noise": (0.0, 1.0, -math.inf), "noise": (0.3, 0.4)}
WIDTHS = [(math.nan, "nan", "finite"), (-1.0, "-1", "at least 0"), (math.inf, "inf", "finite")]
WIDTHS += [(None, "None", "plain number"), ("2", "'2'", "plain number")]
BETA = "√beta of Answers()"
ROWS = {
    "one factor": (lambda: strategy(inflation=OneFactor()), "OneFactor", "()", "(1, 5)"),
    "in a likelihood": (
        lambda: Aging(Listed(0.0, math.nan), learn=False),
        "[0.0, nan",
        "positive f",
    ),
    "a name that is taken": (lambda: DecayKernel(Smooth()), "lengthscale", "time_lengthscale"),
    "width of others": (lambda: asked(torch.ones(7)), "(7,)", "a number, or"),
    "width of a trial": (
        lambda: asked(torch.tensor([1.0, math.nan]), shape=(2,)),
        *("nan of trial 1", BETA, "at least 0"),
    ),
    "memory": (
        lambda: a_round(retention=Scribbling("mean", keeps=False)),
        "Scribbling.update",
        "in-p",
    ),
    "variances": (lambda: kernel(alone=1.0), "Squared(", "variances with diag=True"),
    "covariances": (lambda: kernel(steady=False), "Squared(", "covariances for a batch of trials"),
    **{
        f"inflation {name}": (
            lambda factors=factors: strategy(inflation=Listed(*factors)),
            *("Listed() is [" + str(factors[0]), "at lags"),
        )
        for name, factors in FACTORS.items()
    },
    **{
        f"score {name}": (
            lambda name=name: strategy(exploration=InPlace(name)).ask(
                strategy().init(DOMAINS["grid"])
            ),
            *("writes into the mean or sd", "candidates.mean.clone()"),
        )
        for name in ("mean", "sd")
    },
}
for domain in DOMAINS:
    for value, *words in WIDTHS:
        ROWS[f"width {value} {domain}"] = (partial(asked, value, domain), BETA, *words)
    for name in ("time", "y", "noise", "since", "first_time"):
        rule = Scribbling(name, keeps=True)
        call = partial(a_round, domain, retention=rule)
        ROWS[f"keep {name} {domain}"] = (call, "Scribbling.keep", "writes into", "log.time.clone()")
    for name in ("y", "mean", "sd"):
        call = partial(a_round, domain, retention=trigger(name))
        ROWS[f"trigger {name} {domain}"] = (call, "EventTrigger(delta=0.1", "writes into", "in-pl")


@pytest.mark.parametrize("name", ROWS)
def test_refused(name):
    call, *words = ROWS[name]
    refuses(call, *words)


def test_a_width_may_answer_with_one_number_for_all_trials():
    assert asked(2, shape=(3,)).tolist() == [2.0] * 3
    assert asked(torch.tensor(2, dtype=torch.float32), shape=(3,)).tolist() == [2.0] * 3


def test_a_kernel_may_write_into_its_points():
    class Shifting(RBFKernel):
        def forward(self, x1, x2, diag=False, **params):
            return super().forward(x1.add_(1), x2, diag=diag, **params)

    domain = Grid.regular(4, 1)
    strategy(kernel=Shifting().double()).init(domain)
    assert torch.equal(domain.X, DOMAINS["grid"].X)
    assert strategy(kernel=Squared().double()).init(DOMAINS["box"]).basis.scale == 2**0.5


class Rate(Decay):
    """It may change, since a list holds its number."""

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


@pytest.mark.parametrize(
    ("name", "make"), [("decay", Rate), ("inflation", Noisier), ("width", Wide)]
)
def test_a_part_that_changes_later_changes_no_strategy(name, make):
    def played(made):
        state, seen = made.init(DOMAINS["grid"]), []
        for y in (0.3, 1.0, 0.2, 0.9):
            suggestion = made.ask(state)
            seen += [suggestion.X, suggestion.mean, suggestion.sd]
            state, _ = made.tell(state, suggestion, y)
        return torch.cat([value.reshape(-1) for value in seen])

    part = make(0.05)
    made = strategy(**{name: part})
    part.rates[0] = 3.0
    assert torch.equal(played(made), played(strategy(**{name: make(0.05)})))
    assert not torch.equal(played(made), played(strategy(**{name: part})))


def test_a_decay_that_changes_later_changes_no_kernel():
    decay, time = Rate(0.05), torch.arange(4.0, dtype=D).unsqueeze(-1)
    kernel = DecayKernel(decay)
    decay.rates[0] = 3.0
    wanted = torch.exp(-0.05 * (time - time.mT).abs())
    torch.testing.assert_close(kernel(time).to_dense(), wanted)
