"""Choices and recommendations near a setting: |x - at| is at most the largest step."""

import itertools

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv import Box, Choice, Float, Grid, Integer, adaptive_gp_ucb, random_search, tv_gp_ucb
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.strategies import DiscreteSearch
from botorch_tv.strategies.box import holding
from botorch_tv.strategies.near import near, within

D = torch.float64
KERNEL = RBFKernel().double()
KERNEL.lengthscale = 0.4
STRATEGIES = {
    "adaptive": adaptive_gp_ucb(bank=Bank(lengthscales=(0.4,), rates=(0.0, 0.03))),
    "given": tv_gp_ucb(kernel=KERNEL, noise=0.05, epsilon=0.03),
    "random": random_search(kernel=KERNEL, noise=0.05),
}
SPACE = {
    "x": (0, 4),
    "T": Float(650, 900, step=0.5),
    "rate": Float(1e-3, 1, log=True),
    "n": Integer(2, 20, step=3),
    "size": Choice("s", "m", "l", "xl", ordered=True),
}
AT = {"x": 1 / 3, "T": 700.5, "rate": 0.0123, "n": 8, "size": "m"}
REACH = {"x": 1 / 7, "T": 3.3, "rate": 0.01, "n": 4, "size": 1}
BOXES = {
    "steps": (Box(SPACE), {}),
    "mixed": (Box(SPACE | {"gas": Choice("Ar", "N2")}), {"gas": "N2", "n": 11}),
    "limits": (Box(SPACE, constraints=["T + 40 * x <= 716", "n * rate <= 0.1"]), {"n": 8}),
}


def places(point):
    return point | {"size": SPACE["size"].index(point["size"])}


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("name", "kind"),
    [("adaptive", "mixed"), ("adaptive", "limits"), ("given", "steps"), ("random", "limits")],
)
def test_no_step_is_exceeded(name, kind):
    strategy, (box, fixed) = STRATEGIES[name], BOXES[kind]
    state, generator = strategy.init(box), torch.Generator().manual_seed(0)
    for t in (0, 1, 5):
        for held in ({}, fixed):
            there = holding(near(state, AT, REACH), held)
            best = strategy.recommend(there, now=float(t)) if t else box.center(box.bounds[0])
            chosen = strategy.ask(there, now=float(t), generator=generator).X
            for X in (chosen, best) if t else (chosen,):
                point = places(box.parameters.named(X))
                for each, step in REACH.items():
                    assert abs(point[each] - places(AT)[each]) <= step * (1 + 1e-9), (each, point)
                assert bool(within(box, X, AT, REACH))
                assert {each: point[each] for each in held} == held
                assert kind != "limits" or point["T"] + 40 * point["x"] <= 716
        X = box.parameters.place(AT | ({"gas": "Ar"} if kind == "mixed" else {}), box.bounds)
        at = strategy.suggestion_at(state, X)
        for y in (0.1, 0.2, 0.4):
            state, _ = strategy.tell(state, at, torch.tensor(y, dtype=D), time=float(t))


def observed(strategy, box, batch=()):
    state, source = strategy.init(box, batch_shape=batch), torch.Generator().manual_seed(2)
    for t in range(8):
        X = box.from_unit(torch.rand(*batch, box.dim, dtype=D, generator=source))
        y = torch.sin(3 * X).sum(-1)
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X), y, time=float(t))
    return state


def test_the_best_near_a_setting_is_found():
    """As high as the best of a dense grid of the part, in every trial."""
    box, strategy = Box([(0.0, 2.0), (-1.0, 1.0)]), STRATEGIES["given"]
    state = observed(strategy, box, (2,))
    at, reach = torch.tensor([0.2, 0.4], dtype=D), torch.tensor([0.3, 0.25], dtype=D)
    chosen = strategy.ask(near(state, at, reach), now=8.0)
    assert ((chosen.X - at).abs() <= reach + 1e-12).all()
    grid = torch.linspace(0, 1, 21, dtype=D)
    U = torch.stack(torch.meshgrid(grid, grid, indexing="ij"), -1).view(-1, 2)
    lower, upper = torch.tensor([0.0, 0.15], dtype=D), torch.tensor([0.5, 0.65], dtype=D)
    X = (lower + (upper - lower) * U).unsqueeze(1).expand(-1, 2, -1)
    for trial in range(2):
        alone = strategy.posterior(state, X.transpose(0, 1), now=8.0)
        width = chosen.sqrt_beta[trial]
        bounds = alone.mean[trial, :, 0] + width * alone.variance[trial, :, 0].sqrt()
        found = chosen.mean[trial] + width * chosen.sd[trial]
        assert bounds.max() - 1e-6 <= found <= bounds.max() + 2e-2


@pytest.mark.parametrize("named", [True, False])
def test_points_that_fill_the_box_are_not_restricted_to_steps(named):
    """The lowest score of all the box counts within limits, as on grids."""
    box, at = Box([(0.0, 10.0)] * 2), [1.0, 1.0]
    if named:
        box, at = Box({"a": (0, 10), "gas": Choice("N2", "Ar")}), {"a": 1.0, "gas": "Ar"}
    strategy = adaptive_gp_ucb()
    restricted = near(strategy.init(box), at, {"a": 1.0} if named else [1.0, 1.0]).domain
    like = torch.empty((), dtype=torch.float64)
    assert torch.equal(restricted.filling(64, 3, like), box.filling(64, 3, like))
    reach = restricted.search.filling(restricted, 64, 3, like)[:, 0].max()
    assert reach <= (0.2 if named else 2.0)


def test_no_step_leaves_the_setting():
    box, strategy = Box([(0.0, 2.0), (-1.0, 1.0)]), STRATEGIES["given"]
    there = near(observed(strategy, box), [0.3, 0.5], [0.0, float("inf")])
    assert float(strategy.ask(there).X[0]) == 0.3


@pytest.mark.parametrize(
    ("axis", "at", "ends"),
    [((0, 4), 1.03, (3.12, 4)), (Integer(0, 40, step=5), 0.53, (15, 30))],
)
def test_steps_from_a_setting_beyond_its_range_or_between_its_steps(axis, at, ends):
    box = Box({"x": axis})
    state, upper = STRATEGIES["given"].init(box), box.parameters["x"].high
    assert near(state, [at], {"x": upper / 4}).domain.search.ranges["x"] == pytest.approx(ends)
    with pytest.raises(InputDataError, match=f"lies within {upper:g} of {3 * upper:g}"):
        near(state, [3.0], {"x": upper})


def test_candidates_and_arms_are_masked():
    X = torch.tensor(list(itertools.product([0.0, 0.1, 0.2, 0.3], [0.0, 1.0])), dtype=D)
    at, reach = [0.1, 0.0], [0.1, 0.5]
    mask = [0, 2, 4]  # 0.2 - 0.1 exceeds 0.1 by no more than a rounding error
    assert within(Grid(X), X, at, reach).nonzero().flatten().tolist() == mask
    box, strategy = Box([(0.0, 1.0), (0.0, 1.0)], search=DiscreteSearch(X)), STRATEGIES["given"]
    there = near(strategy.init(box), at, reach)
    assert torch.equal(there.domain.search.X, X[mask])


@pytest.mark.parametrize(
    ("at", "reach", "words"),
    [
        (AT, {"T": 1, "t": 1}, "by name, for some of the parameters T, n, rate, size, x"),
        (AT, {"T": -1}, "step of T is -1, but it must"),
        (AT | {"T": 700.3}, {"T": 0.1}, "no value of T lies within 0.1 of 700.3"),
        (AT, [1, 1, 1, 1, 1], "by name"),
    ],
)
def test_refusals(at, reach, words):
    with pytest.raises((InputDataError, ValueError), match=words):
        near(STRATEGIES["given"].init(Box(SPACE)), at, reach)


def test_a_held_value_beyond_the_step_is_refused():
    there = near(STRATEGIES["given"].init(Box(SPACE)), AT, REACH)
    with pytest.raises(InputDataError, match=r"T is held at 720\.0, .* 697\.5 to 703\.5"):
        holding(there, {"T": 720})
