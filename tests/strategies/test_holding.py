"""Held parameters: every choice and recommendation has their values, and is best among these."""

import itertools

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv import Box, Choice, Float, Grid, Integer
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.loop.log import trial_log
from botorch_tv.strategies import adaptive_gp_ucb, bob_gp_ucb, gp_ts, random_search, tv_gp_ucb
from botorch_tv.strategies.box import holding
from botorch_tv.strategies.feasible import Success, corners_of
from botorch_tv.strategies.parameters import Number, Space

BANK = Bank(lengthscales=(0.4,), rates=(0.0, 0.03))
KERNEL = RBFKernel().double()
USUAL = {"kernel": KERNEL, "noise": 0.05}
STRATEGIES = {
    "adaptive": adaptive_gp_ucb(bank=BANK),
    "given": tv_gp_ucb(**USUAL, epsilon=0.03),
    "samples": gp_ts(**USUAL, B=1.0, R=0.2),
    "random": random_search(**USUAL),
    "members": bob_gp_ucb(**USUAL, B=1.0, R=0.2, windows=(3, 9), block=4, horizon=20),
}
FLOATS = {"x": (0.0, 4.0), "rate": Float(1e-3, 1.0, log=True)}
BOXES = {
    "floats": (FLOATS, {"rate": 0.02}),
    "whole": (FLOATS | {"n": Integer(1, 9)}, {"n": 4}),
    "mixed": (FLOATS | {"n": Integer(1, 200), "c": Choice("a", True, 1)}, {"n": 17, "c": 1}),
    "all": (FLOATS, {"x": 1.25, "rate": 0.5}),
}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *(("adaptive", kind) for kind in BOXES),
        ("given", "floats"),
        ("samples", "mixed"),
        ("random", "whole"),
        ("members", "floats"),
    ],
)
def test_every_choice_has_the_held_values(name, kind):
    """First points, searches, samples, points of likelier success, and recommendations."""
    strategy, (bounds, fixed) = STRATEGIES[name], BOXES[kind]
    box = Box(bounds)
    state = strategy.init(box)

    def check(X):
        values = box.parameters.named(X)
        assert {key: (type(values[key]), values[key]) for key in fixed} == {
            key: (type(value), value) for key, value in fixed.items()
        }

    generator, seen = torch.Generator().manual_seed(0), []
    for now in range(5):
        held = holding(state, fixed)
        at = {"now": float(now), "feasible": chance_of(box, seen, now) if seen else None}
        check(strategy.ask(held, **at, generator=generator).X)
        if now:
            check(strategy.recommend(held, **at, caution=0.5))
        ok = torch.tensor(now != 1)
        free = strategy.suggestion_at(state, box.from_unit(torch.rand(box.dim).double()))
        state, _ = strategy.tell(state, free, (free.X**2).sum(), time=float(now), ok=ok)
        seen.append((free.X, ok, float(now)))


def chance_of(box, seen, now):
    X, ok, time = zip(*seen)
    rows = torch.stack(X), torch.stack(ok), torch.tensor(time).double()
    now = torch.tensor([now]).double()
    return Success(*(part.unsqueeze(0) for part in rows), corners_of(box), now)


def test_the_choice_is_the_best_of_those_with_the_held_values():
    space = Space(
        {"n": Number(1, 9, step=1), "c": Choice("a", "b", "c"), "m": Number(0, 6, step=2)}
    )
    strategy = tv_gp_ucb(**USUAL, epsilon=0.03)
    state = trial_log(strategy, space).start
    for now, (n, c, m) in enumerate([(1, "a", 0), (5, "b", 2), (9, "c", 6), (4, "b", 4)]):
        X = torch.tensor(space.point({"n": n, "c": c, "m": m})).double()
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X), X.sum(), time=float(now))
    held = holding(holding(state, {"c": "a"}), {"n": 3})
    chosen = strategy.ask(held, now=4.0)
    every = [{"n": n, "c": "a", "m": m} for n, m in itertools.product([3], [0, 2, 4, 6])]
    X = torch.tensor([space.point(params) for params in every]).double()
    posterior = strategy.posterior(state, X.unsqueeze(-2), now=4.0)
    bound = posterior.mean + chosen.sqrt_beta * posterior.variance.sqrt()
    torch.testing.assert_close(chosen.X, X[bound.flatten().argmax()])


@pytest.mark.parametrize(
    ("domain", "fixed", "words"),
    [
        (Box(FLOATS), {"y": 1.0}, "x, rate; correct the names"),
        (Box(FLOATS), {"x": 5.0}, "x is 5.0, but it must be a number from 0 to 4"),
        (Box(BOXES["mixed"][0]), {"c": "b"}, "c is 'b'; choose from 'a', True, 1"),
        (Box(BOXES["whole"][0]), {"n": 2.5}, "n is 2.5, but it must be a whole number"),
        (Box([(0, 1)]), {"x": 0.5}, "has no named parameters"),
        (Grid.regular(4, 1), {"x": 0.5}, "has no named parameters"),
    ],
)
def test_what_cannot_be_held(domain, fixed, words):
    with pytest.raises(InputDataError, match=words):
        holding(tv_gp_ucb(**USUAL, epsilon=0.03).init(domain), fixed)
