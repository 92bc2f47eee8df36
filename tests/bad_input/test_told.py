"""What is told and asked: the state is as it was, in value and in what it plays next."""

import copy

import pytest
import torch
from bad_input.rows import INF, NAN, Row, assert_refuses
from botorch.exceptions import InputDataError
from conformance.test_law4_pure import assert_identical
from gpytorch.kernels import RBFKernel

from botorch_tv.strategies import Box, Grid, et_gp_ucb
from botorch_tv.validation import shown

D = torch.float64
GOOD = torch.tensor([0.1, 0.2], dtype=D)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
DOMAINS = {"grid": Grid.regular(4, 2), "box": Box(CUBE)}
KERNEL = RBFKernel().double()
KERNEL.lengthscale = 0.3
STRATEGY = et_gp_ucb(kernel=KERNEL, noise=0.02)


def start(domain):
    """Two trials after two rounds."""
    state = STRATEGY.init(domain, batch_shape=(2,))
    for _ in range(2):
        state, _ = STRATEGY.tell(state, STRATEGY.suggestion_at(state, CUBE), GOOD)
    return state


STATES = {name: start(domain) for name, domain in DOMAINS.items()}
SUGGESTIONS = {name: STRATEGY.suggestion_at(state, CUBE) for name, state in STATES.items()}
EVERY = "pass ok=False"
UNIT = "count from an origin"
ONE_EACH = "per trial"


def tensor(*values, dtype=D):
    return torch.tensor(values, dtype=dtype)


TELL = {
    "y NaN": ({"y": tensor(NAN, 0.1)}, "nan of trial 0", "not finite", EVERY),
    "y infinite": ({"y": tensor(0.1, -INF)}, "-inf of trial 1", "not finite", EVERY),
    "y too large": ({"y": tensor(0.1, 1.7e308)}, "1.7e+308 of trial 1", "limit under", EVERY),
    "y too small": ({"y": tensor(-1.7e308, 0.1)}, "-1.7e+308 of trial 0", "limit under", EVERY),
    "y short": ({"y": tensor(0.1)}, "(1,)", "of shape (2,), torch.float64", "each trial its own"),
    "y deep": (
        {"y": GOOD.unsqueeze(-1)},
        "(2, 1)",
        "of shape (2,), torch.float64",
        "each trial its own",
    ),
    "y float32": ({"y": GOOD.float()}, "torch.float32", "torch.float64 on cpu", "torch.tensor(y"),
    "y integers": ({"y": GOOD.long()}, "torch.int64", "torch.float64 on cpu", "torch.tensor(y"),
    "y complex": ({"y": GOOD + 1j}, "torch.complex128", "torch.float64 on cpu", "torch.tensor(y"),
    "y elsewhere": ({"y": GOOD.to("meta")}, "on meta", "torch.float64 on cpu", "torch.tensor(y"),
    "y a number": ({"y": 0.5}, "y is 0.5", "shape (2,)", "torch.tensor(y"),
    "y None": ({"y": None}, "y is None", "shape (2,)", "torch.tensor(y"),
    "y text": ({"y": "0.5"}, "y is '0.5'", "shape (2,)", "torch.tensor(y"),
    "y a list": ({"y": [0.1, 0.2]}, "y is [0.1, 0.2]", "shape (2,)", "torch.tensor(y"),
    "time NaN": ({"time": NAN}, "nan", "times are finite", UNIT),
    "time infinite": ({"time": tensor(3.0, INF)}, "inf of trial 1", "times are finite", UNIT),
    "time too late": ({"time": 1e308}, "1e+308", "at most 9007199254740992", UNIT),
    "time backwards": ({"time": 0.5}, "0.5 of trial 0", "newest observation, at 2", "in order"),
    "time short": ({"time": tensor(3.0)}, "tensor([3.]", "of shape (2,)", ONE_EACH),
    "ok numbers": (
        {"ok": tensor(1.0, 0.0)},
        "torch.float64 of",
        "torch.bool on cpu",
        "each trial its own",
    ),
    "ok short": (
        {"ok": torch.tensor([True])},
        "(1,)",
        "of shape (2,), torch.bool",
        "each trial its own",
    ),
    "ok a bool": ({"ok": True}, "ok is True", "torch.bool on cpu", "each trial its own"),
    "ok elsewhere": (
        {"ok": torch.ones(2, dtype=torch.bool, device="meta")},
        "meta",
        "torch.bool on cpu",
        "each trial its own",
    ),
    "noise zero": ({"noise": 0.0}, "0.0", "positive and finite", "use 1e-06 times"),
    "noise negative": ({"noise": tensor(0.1, -0.1)}, "-0.1 of trial 1", "positive", "use 1e-06"),
    "noise NaN": ({"noise": NAN}, "nan", "positive and finite", "use 1e-06 times"),
    "noise tiny": ({"noise": 5e-324}, "5e-324", "from 1.4e-14 to 1e+150", "use 1e-06 times"),
    "noise infinite": ({"noise": INF}, "inf", "from 1.4e-14 to 1e+150", "use 1e-06 times"),
    "noise short": ({"noise": tensor(0.1)}, "tensor([0.1000]", "of shape (2,)", ONE_EACH),
}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", TELL)
def test_tell(name, domain):
    wrong, value, limit, cure = TELL[name]
    state, suggestion = STATES[domain], SUGGESTIONS[domain]
    before = copy.deepcopy(state)
    for consume in (False, True):
        arguments = {"y": GOOD} | wrong
        row = Row(
            lambda c=consume, a=arguments: STRATEGY.tell(state, suggestion, consume=c, **a),
            value,
            limit,
            cure,
            InputDataError,
        )
        assert_refuses(row)
    assert_identical(state, before)


CALLS = {
    "now NaN": (lambda s, d: STRATEGY.ask(s, now=NAN), "nan", "times are finite", UNIT),
    "now late": (lambda s, d: STRATEGY.ask(s, now=1e300), "1e+300", "at most 90071", UNIT),
    "now back": (lambda s, d: STRATEGY.ask(s, now=1.0), "1.0 of", "newest observation", "in order"),
    "now short": (lambda s, d: STRATEGY.ask(s, now=tensor(3.0)), "tensor([3.]", "(2,)", ONE_EACH),
    "recommend back": (
        lambda s, d: STRATEGY.recommend(s, now=1.0),
        "1.0 of",
        "newest observation",
        "in order",
    ),
    "context": (
        lambda s, d: STRATEGY.ask(s, context=torch.zeros(2, 1, dtype=D)),
        "context is",
        "takes none",
        "omit it",
    ),
    "X short": (
        lambda s, d: STRATEGY.suggestion_at(s, CUBE[0]),
        "(2,)",
        "of shape (2, 2)",
        "each trial its own",
    ),
    "X None": (
        lambda s, d: STRATEGY.suggestion_at(s, None),
        "None",
        "of shape (2, 2)",
        "torch.tensor(X",
    ),
    "X a list": (
        lambda s, d: STRATEGY.suggestion_at(s, [[0.0]]),
        "[[0.0]]",
        "of shape (2, 2)",
        "torch.tensor(X",
    ),
    "X float32": (
        lambda s, d: STRATEGY.suggestion_at(s, CUBE.float()),
        "float32",
        "torch.float64 on cpu",
        "torch.tensor(X",
    ),
    "X outside": (lambda s, d: STRATEGY.suggestion_at(s, CUBE + 7), "7.0", "{domain}", "{cure}"),
    "X NaN": (lambda s, d: STRATEGY.suggestion_at(s, CUBE * NAN), "nan", "{domain}", "{cure}"),
    "posterior flat": (
        lambda s, d: STRATEGY.posterior(s, CUBE[0]),
        "(2,)",
        "batch_shape (2,)",
        "pass points",
    ),
    "expert": (
        lambda s, d: STRATEGY.absorb(s, None, GOOD),
        "consults no expert",
        "takes no answers",
        "to tell()",
    ),
}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", CALLS)
def test_asking(name, domain):
    call, value, limit, cure = CALLS[name]
    state, before = STATES[domain], copy.deepcopy(STATES[domain])
    cures = {"grid": "Choose from domain.X", "box": "clamp it"}
    words = {"domain": type(state.domain).__name__ + "(", "cure": cures[domain]}
    assert_refuses(
        Row(
            lambda: call(state, domain),
            value,
            limit.format(**words),
            cure.format(**words),
            InputDataError,
        )
    )
    assert_identical(state, before)


@pytest.mark.parametrize("domain", DOMAINS)
def test_goes_on_as_if_nothing_had_happened(domain):
    """The last test of the module's states: what was refused above left no trace in the play."""
    fresh = start(DOMAINS[domain])
    for state in (STATES[domain], fresh):
        suggestion = STRATEGY.ask(state)
    torch.testing.assert_close(suggestion.X, STRATEGY.ask(STATES[domain]).X, rtol=0, atol=1e-9)
    after, _ = STRATEGY.tell(STATES[domain], SUGGESTIONS[domain], GOOD)
    expected, _ = STRATEGY.tell(fresh, SUGGESTIONS[domain], GOOD)
    torch.testing.assert_close(
        STRATEGY.posterior(after, CUBE).mean, STRATEGY.posterior(expected, CUBE).mean
    )


@pytest.mark.parametrize("value", ["0.1", True, None, 1j, NAN, INF, 1.7e308], ids=str)
def test_one_trial_takes_a_number(value):
    state = STRATEGY.init(DOMAINS["grid"])
    suggestion = STRATEGY.ask(state)
    before = copy.deepcopy(state)
    if isinstance(value, float):
        row = Row(lambda: None, str(value), "as observation y is", EVERY)
    else:
        row = Row(lambda: None, shown(value), "must be a number", "torch.tensor(y")
    assert_refuses(
        row._replace(call=lambda: STRATEGY.tell(state, suggestion, value), error=InputDataError)
    )
    assert_identical(state, before)
