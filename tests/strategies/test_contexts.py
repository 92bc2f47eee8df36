"""Named contexts: their columns follow the parameters, and equal a context in the unit cube."""

import json

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv import Box, Choice, Context, Float, Loop, adaptive_gp_ucb, tv_gp_ucb
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.loop.file import domain_data, domain_from
from botorch_tv.strategies.named import Parameters

D = torch.float64
ZERO = torch.zeros((), dtype=D)
SPACE = {
    "outside": Context(-10, 40),
    "x": (0, 4),
    "day": Context("mon", "tue", "wed"),
    "kind": Choice("a", "b"),
    "dust": Context(1e-3, 1.0, log=True),
}
KERNEL = RBFKernel().double()
KERNEL.lengthscale = 0.4
GIVEN = tv_gp_ucb(kernel=KERNEL, noise=0.05, epsilon=0.03)
ADAPTIVE = adaptive_gp_ucb(bank=Bank(lengthscales=(0.4,), rates=(0.0, 0.03)))


def test_values_of_contexts_return_from_the_cube():
    space = Parameters(SPACE)
    assert list(space) == ["x", "kind"]
    assert (space.columns, space.context_columns) == (2, 4)
    for outside, day, dust in ((12.5, "tue", 0.02), (-31.7, "mon", 7.3), (99, "wed", 1e-5)):
        context = {"outside": outside, "day": day, "dust": dust}
        row = space.context_row(dict(reversed(context.items())), ZERO)
        assert float(row[0]) == pytest.approx((outside + 10) / 50)
        X = space.place({"x": 1.3, "kind": "b"} | context, ZERO)
        torch.testing.assert_close(X, torch.cat([torch.tensor([1.3 / 4, 1.0], dtype=D), row]))
        assert space.named(X) == {"x": 1.3, "kind": "b"} | context
        assert space.named(X[:2]) == {"x": 1.3, "kind": "b"}
    rows = [
        space.context_row({"outside": 0, "dust": 0.1, "day": day}, ZERO)
        for day in SPACE["day"].axis.choices
    ]
    apart = torch.cdist(torch.stack(rows), torch.stack(rows))
    torch.testing.assert_close(apart, 1 - torch.eye(3, dtype=D))


def test_a_named_context_equals_coordinates_of_the_cube():
    named, plain = Box(SPACE), Box({"x": (0, 4), "kind": Choice("a", "b")}, context_dim=4)
    assert (named.dim, named.context_dim, named.columns) == (2, 4, 6)
    states = [GIVEN.init(named), GIVEN.init(plain)]
    source = torch.Generator().manual_seed(0)
    for t in range(6):
        context = torch.rand(4, dtype=D, generator=source)
        chosen = [GIVEN.ask(state, now=float(t), context=context) for state in states]
        assert torch.equal(chosen[0].X, chosen[1].X)
        y = (chosen[0].X[0] - context[0]).square()
        states = [GIVEN.tell(s, c, y, time=float(t))[0] for s, c in zip(states, chosen)]


def test_a_loop_takes_contexts_by_name_and_a_file_stores_them(tmp_path):
    loop = Loop(ADAPTIVE, SPACE)
    for outside, day in ((20, "mon"), (22.5, "tue"), (55, "wed"), (21, "tue"), (3, "mon")):
        context = {"outside": outside, "day": day, "dust": 0.01}
        suggestion = loop.ask(context=context)
        assert list(suggestion.point) == ["x", "kind"]
        loop.tell((suggestion.point["x"] - outside / 10) ** 2)
    loop.save(tmp_path / "loop.json")
    again = Loop.load(tmp_path / "loop.json", ADAPTIVE)
    assert repr(again.domain) == repr(loop.domain)
    assert again.ask(context=context).point == loop.ask(context=context).point
    data = json.loads(json.dumps(domain_data(loop.domain)))
    assert data["parameters"]["day"] == {"type": "Context", "choices": ["mon", "tue", "wed"]}
    assert repr(domain_from(data, torch.device("cpu"))) == repr(Box(SPACE))


def test_a_number_outside_its_range_is_no_narrow_neighbour():
    """The scale of a named context is its range, not the spread of its first values."""
    loop = Loop(ADAPTIVE, {"x": (0, 1), "outside": Context(-10, 40)})
    for t in range(12):
        x, outside = (0.37 * t) % 1, 20 + 0.1 * (t % 3)
        loop.observe({"x": x}, 0.3 * x + 0.02 * outside, context={"outside": outside})
    near, far = (loop.posterior({"x": 0.5}, context={"outside": at}).variance for at in (20.5, 45))
    assert float(near) < 0.2 * float(far)


START = {"x": 1.0, "kind": "a"}


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Context(3), "two or more; give the ends of a range"),
        (lambda: Context("a", "b", log=True), "only a range has a scale"),
        (lambda: Box({"w": Context(0, 1)}), "no parameters are given"),
        (lambda: Box({"w": Context("a", "a"), "x": (0, 1)}), "w is .* all different"),
        (lambda: Box(SPACE, context_dim=1), "outside, day, dust are the context; omit"),
        (lambda: Box(SPACE, constraints=["outside <= 3"]), "'outside' .* is unknown"),
        (lambda: row(outside=3, day="mon"), "must have a value for each of outside, day, dust"),
        (lambda: row(outside=3, day="mon", dust=1, wind=1), "and no other; give context="),
        (lambda: row(outside=3, day="sun", dust=1), "day is 'sun'; choose from 'mon'"),
        (lambda: row(outside=float("nan"), day="mon", dust=1), "outside is nan, but it must be"),
        (lambda: row(outside=3, day="mon", dust=0), "dust is 0, .* positive and finite"),
        (
            lambda: Loop(GIVEN, SPACE).observe(START, 1.0),
            "the context is None, but it must have a value",
        ),
        (lambda: Loop(GIVEN, {"x": (0, 1)}).ask(context={"o": 1}), "no context is declared"),
        (lambda: Float(900, 650), "low is 900.* high 650.*, but high must exceed low"),
    ],
)
def test_what_is_refused(made, words):
    with pytest.raises((InputDataError, ValueError, TypeError), match=words):
        made()


def row(**context):
    return Parameters(SPACE).context_row(context, ZERO)
