"""Bad observations and questions: the state is as it was."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from bad_input.rows import INF, NAN, NO_REALS, refuses
from botorch.exceptions.warnings import InputDataWarning
from conformance.test_law4_pure import assert_identical
from gpytorch.kernels import RBFKernel

from botorch_tv.loop import Loop
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, Choice, Float, Grid, Integer, et_gp_ucb, gp_ucb
from botorch_tv.validation import shown

D = torch.float64
GOOD = torch.tensor([0.1, 0.2], dtype=D)
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)
DOMAINS = {"grid": Grid.regular(4, 2), "box": Box(CUBE)}
KERNEL = unit_kernel("se", 0.3)
STRATEGY = et_gp_ucb(kernel=KERNEL, noise=0.02)


def start(domain):
    """Two trials after two rounds."""
    state = STRATEGY.init(domain, batch_shape=(2,))
    for _ in range(2):
        state, _ = STRATEGY.tell(state, STRATEGY.suggestion_at(state, CUBE), GOOD)
    return state


STATES = {name: start(domain) for name, domain in DOMAINS.items()}
SUGGESTIONS = {name: STRATEGY.suggestion_at(state, CUBE) for name, state in STATES.items()}
FAILED, UNIT, NOISE = "pass ok=False", "count from an origin", "from 1.4e-14 to 1e+150"
SHAPE, KIND, MASK, EACH = "shape (2,)", "torch.float64 on cpu", "torch.bool on cpu", "per trial"


def tensor(*values):
    return torch.tensor(values, dtype=D)


TELL = {
    "y NaN": ({"y": tensor(NAN, 0.1)}, "nan of trial 0", "not finite", FAILED),
    "y infinite": ({"y": tensor(0.1, -INF)}, "-inf of trial 1", "not finite", FAILED),
    "y too large": ({"y": tensor(0.1, 1.7e308)}, "1.7e+308 of trial 1", FAILED),
    "y too small": ({"y": tensor(-1.7e308, 0.1)}, "-1.7e+308 of trial 0", FAILED),
    "y short": ({"y": tensor(0.1)}, "(1,)", SHAPE, "a value for each trial"),
    "y deep": ({"y": GOOD.unsqueeze(-1)}, "(2, 1)", SHAPE, "a value for each trial"),
    "y float32": ({"y": GOOD.float()}, "torch.float32", KIND, "torch.tensor(y"),
    "y integers": ({"y": GOOD.long()}, "torch.int64", KIND, "torch.tensor(y"),
    "y complex": ({"y": GOOD + 1j}, "torch.complex128", KIND, "torch.tensor(y"),
    "y elsewhere": ({"y": GOOD.to("meta")}, "on meta", KIND, "torch.tensor(y"),
    "y a number": ({"y": 0.5}, "y is 0.5", SHAPE, "torch.tensor(y"),
    "y None": ({"y": None}, "y is None", SHAPE, "torch.tensor(y"),
    "y text": ({"y": "0.5"}, "y is '0.5'", SHAPE, "torch.tensor(y"),
    "y a list": ({"y": [0.1, 0.2]}, "y is [0.1, 0.2]", SHAPE, "torch.tensor(y"),
    "time NaN": ({"time": NAN}, "nan", "a time must be finite", UNIT),
    "time infinite": ({"time": tensor(3.0, INF)}, "inf of trial 1", "a time must be finite", UNIT),
    "time too late": ({"time": 1e308}, "1e+308", "at most 9007199254740992", UNIT),
    "time backwards": ({"time": 0.5}, "0.5 of trial 0", "at 2", "in order"),
    "time short": ({"time": tensor(3.0)}, "tensor([3.]", SHAPE, EACH),
    "ok numbers": ({"ok": tensor(1.0, 0.0)}, "torch.float64 of", MASK),
    "ok short": ({"ok": torch.tensor([True])}, "(1,)", SHAPE + ", torch.bool"),
    "ok a bool": ({"ok": True}, "ok is True", MASK),
    "ok elsewhere": ({"ok": torch.ones(2, dtype=torch.bool, device="meta")}, "meta", MASK),
    "noise zero": ({"noise": 0.0}, "0.0", "positive and finite", "use 1e-06 x"),
    "noise negative": ({"noise": tensor(0.1, -0.1)}, "-0.1 of trial 1", "positive", "use 1e-06"),
    "noise NaN": ({"noise": NAN}, "nan", "positive and finite", "use 1e-06 x"),
    "noise tiny": ({"noise": 5e-324}, "5e-324", NOISE, "use 1e-06 x"),
    "noise infinite": ({"noise": INF}, "inf", NOISE, "use 1e-06 x"),
    "noise short": ({"noise": tensor(0.1)}, "tensor([0.1000]", SHAPE, EACH),
}
ASK = {
    "now NaN": (lambda state: STRATEGY.ask(state, now=NAN), "nan", "a time must be finite", UNIT),
    "now late": (lambda state: STRATEGY.ask(state, now=1e300), "1e+300", "at most 90071", UNIT),
    "now back": (lambda state: STRATEGY.ask(state, now=1.0), "1.0 of", "in order"),
    "now short": (lambda state: STRATEGY.ask(state, now=tensor(3.0)), "tensor([3.]", "(2,)", EACH),
    "recommend": (lambda state: STRATEGY.recommend(state, now=1.0), "1.0 of", "in order"),
    "context": (lambda state: STRATEGY.ask(state, context=CUBE[:, :1]), "context is", "takes none"),
    "X short": (lambda state: STRATEGY.suggestion_at(state, CUBE[0]), "(2,)", "shape (2, 2)"),
    "X None": (lambda state: STRATEGY.suggestion_at(state, None), "None", "shape (2, 2)"),
    "X a list": (lambda state: STRATEGY.suggestion_at(state, [[0.0]]), "[[0.0]]", "torch.tensor(X"),
    "X float32": (lambda state: STRATEGY.suggestion_at(state, CUBE.float()), "float32", KIND),
    "X outside": (lambda state: STRATEGY.suggestion_at(state, CUBE + 7), "7.0", "{domain}"),
    "X NaN": (lambda state: STRATEGY.suggestion_at(state, CUBE * NAN), "nan", "{domain}"),
    "posterior": (lambda state: STRATEGY.posterior(state, CUBE[0]), "(2,)", "pass points"),
    "expert": (lambda state: STRATEGY.absorb(state, None, GOOD), "no expert", "tell()"),
}


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", TELL)
def test_tell(name, domain):
    wrong, *words = TELL[name]
    state, before = STATES[domain], copy.deepcopy(STATES[domain])
    for consume in (False, True):
        arguments = {"y": GOOD, "consume": consume} | wrong
        refuses(lambda a=arguments: STRATEGY.tell(state, SUGGESTIONS[domain], **a), *words)
    assert_identical(state, before)


@pytest.mark.parametrize("domain", DOMAINS)
@pytest.mark.parametrize("name", ASK)
def test_asking(name, domain):
    call, *words = ASK[name]
    state, before = STATES[domain], copy.deepcopy(STATES[domain])
    own = {"grid": "Grid(", "box": "Box("}[domain]
    refuses(lambda: call(state), *(word.format(domain=own) for word in words))
    assert_identical(state, before)


@pytest.mark.parametrize("value", ["0.1", True, None, 1j, NAN, INF, 1.7e308], ids=str)
def test_a_value_that_is_no_number_of_one_trial(value):
    state = STRATEGY.init(DOMAINS["grid"])
    before, suggestion = copy.deepcopy(state), STRATEGY.ask(state)
    number = isinstance(value, float)
    words = (str(value), FAILED) if number else (shown(value), "must be a number")
    refuses(lambda: STRATEGY.tell(state, suggestion, value), *words)
    assert_identical(state, before)


@pytest.mark.parametrize("dtype", [D, torch.float32], ids=str)
def test_a_number_will_do_for_one_trial(dtype):
    state = STRATEGY.init(DOMAINS["grid"], dtype=dtype)
    suggestion = STRATEGY.ask(state)
    for y in (0.1, 2, np.float64(0.1)):
        expected = STRATEGY.tell(state, suggestion, torch.tensor(y, dtype=dtype))
        assert_identical(STRATEGY.tell(state, suggestion, y), expected)


ONE = STRATEGY.init(DOMAINS["grid"])
SIDE, IN_WIND = {"x": (0.0, 1.0), "n": Integer(1, 8)}, Box([(0.0, 1.0)], context_dim=1)
LOOP = Loop(STRATEGY, [(0.0, 1.0)])
LOOP.observe([0.5], 0.25, time=1.0)
LOOP.ask()
DOORS = {
    "tell": lambda v: LOOP.tell(v),
    "tell noise": lambda v: LOOP.tell(0.5, noise=v),
    "tell time": lambda v: LOOP.tell(0.5, time=v),
    "tell ok": lambda v: LOOP.tell(0.5, ok=v),
    "tell suggestion": lambda v: LOOP.tell(0.5, suggestion=v),
    "observe": lambda v: LOOP.observe(v, 0.5),
    "observe a coordinate": lambda v: LOOP.observe([v], 0.5),
    "observe time": lambda v: LOOP.observe([0.5], 0.5, time=v),
    "amend": lambda v: LOOP.amend(v, 0.5),
    "amend y": lambda v: LOOP.amend(-1, v),
    "remove": lambda v: LOOP.remove(v),
    "posterior": lambda v: LOOP.posterior([[v]]),
    "now": lambda v: LOOP.recommend(now=v),
    "context": lambda v: Loop(STRATEGY, IN_WIND).ask(context=v),
    "a parameter": lambda v: Loop(SIDE).observe({"x": v, "n": 2}, 0.5),
    "an integer": lambda v: Loop(SIDE).observe({"x": 0.5, "n": v}, 0.5),
    "a choice": lambda v: Loop({"k": Choice("a", 2)}).observe({"k": v}, 0.5),
    "at": lambda v: LOOP.tell(0.5, at=v),
    "enqueue": lambda v: LOOP.enqueue([v]),
    "fixed": lambda v: Loop(SIDE).ask(fixed=v),
    "a fixed integer": lambda v: Loop(SIDE).ask(fixed={"n": v}),
    "a step": lambda v: Float(0, 1, step=v),
    "a table's X": lambda v: Loop.from_table(STRATEGY, [(0.0, 1.0)], [[v]], [0.5]),
    "a table's y": lambda v: Loop.from_table(STRATEGY, [(0.0, 1.0)], [[0.5]], [v]),
    "a column": lambda v: Loop.from_table(STRATEGY, [(0.0, 1.0)], [[0.5]], v),
    "a bound": lambda v: Box([(-1e9, v)]),
    "a strategy's y": lambda v: STRATEGY.tell(ONE, STRATEGY.ask(ONE), v),
    "a strategy's noise": lambda v: STRATEGY.tell(ONE, STRATEGY.ask(ONE), 0.5, noise=v),
    "a strategy's time": lambda v: STRATEGY.tell(ONE, STRATEGY.ask(ONE), 0.5, time=v),
    "a strategy's now": lambda v: STRATEGY.ask(ONE, now=v),
}
TRUTHS = {"True", "np.True_", "tensor(True)", "masked", repr(np.ma.array([0.5], mask=[True]))}


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.few(4)
def test_a_value_that_is_no_number_anywhere(name):
    for value in NO_REALS:
        if name != "tell ok" or repr(value) not in TRUTHS:
            refuses(partial(DOORS[name], value))
            assert LOOP.history.y.tolist() == [0.25], repr(value)
    assert LOOP.history.y.tolist() == [0.25]
    assert len(LOOP.open) == 1


def test_a_suggestion_of_an_earlier_time_or_another_batch():
    state = STATES["grid"]
    early = STRATEGY.ask(state, now=10.0)
    later, _ = STRATEGY.tell(state, STRATEGY.ask(state), GOOD, time=12.0)
    refuses(lambda: STRATEGY.tell(later, early, GOOD), "10", "12")
    other = STRATEGY.ask(STRATEGY.init(DOMAINS["grid"], batch_shape=(3,)))
    refuses(lambda: STRATEGY.tell(state, other, GOOD), "(3")
    STRATEGY.tell(state, SUGGESTIONS["grid"], GOOD, time=2.0)  # equal times are in order


def test_a_kernel_of_rounded_numbers_warns():
    with pytest.warns(InputDataWarning, match="float32"):
        gp_ucb(kernel=RBFKernel(), noise=0.02).init(DOMAINS["grid"])
