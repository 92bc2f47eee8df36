"""Loops with categorical parameters."""

import json

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv import Box, Choice, Integer, Loop, adaptive_gp_ucb, random_search, tv_gp_ucb
from botorch_tv.acquisition import Logarithmic
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.strategies import MultiStart
from botorch_tv.strategies.pending import EVERY, PATIENCE

BOX = {
    "x": (0, 4),
    "kind": Choice("sand", "salt", "soap"),
    "n": Integer(1, 5),
    "on": Choice(True, False),
}
BANK = Bank(rates=(0.0, 0.03), noise_ratios=(0.01,))
ADAPTIVE = adaptive_gp_ucb(bank=BANK)


def value(point):
    level = {"sand": 0.0, "salt": 1.0, "soap": 0.4}[point["kind"]]
    return level - (point["x"] / 4 - 0.3) ** 2 - 0.1 * abs(point["n"] - 3) + 0.3 * point["on"]


def played(loop, rounds):
    points = []
    for _ in range(rounds):
        suggestion = loop.ask()
        points.append(suggestion.point)
        loop.tell(value(suggestion.point))
    return points


def require_valid(point):
    assert list(point) == list(BOX)
    assert 0 <= point["x"] <= 4
    assert point["kind"] in BOX["kind"].choices
    assert type(point["n"]) is int
    assert 1 <= point["n"] <= 5
    assert type(point["on"]) is bool


def test_a_loop_finds_the_best_of_all_kinds():
    loop = Loop(ADAPTIVE, BOX)
    points = played(loop, 18)
    for point in points:
        require_valid(point)
    best = loop.recommend()
    require_valid(best)
    assert (best["kind"], best["on"]) == ("salt", True)
    assert value(best) > 1.3 - 0.15
    assert {item["kind"] for item in points} == {"sand", "salt", "soap"}


def test_first_points_are_of_all_kinds_and_everywhere():
    loop = Loop(ADAPTIVE, BOX)
    points = played(loop, 4)
    assert {point["kind"] for point in points} == {"sand", "salt", "soap"}
    assert {point["on"] for point in points} == {True, False}
    assert [sum(low <= point["x"] < low + 1 for point in points) for low in range(4)] == [1] * 4


def test_a_loaded_loop_continues_unchanged(tmp_path):
    path = tmp_path / "loop.json"
    loop = Loop(ADAPTIVE, BOX, pending=2)
    played(loop, 9)
    loop.tell(suggestion=loop.ask(), ok=False)
    loop.ask()
    loop.save(path)
    again = Loop.load(path, ADAPTIVE)
    assert again.table().equals(loop.table())
    assert [suggestion.point for suggestion in again.open] == [
        suggestion.point for suggestion in loop.open
    ]
    assert again.describe() == loop.describe()
    assert again.ask().point == loop.ask().point
    content = json.loads(path.read_bytes())
    assert content["domain"]["parameters"]["on"] == {"type": "Choice", "choices": [True, False]}
    require_valid(content["answers"][0]["point"])


def test_a_given_kernel_matches_the_textbook():
    box = {"x": Integer(0, 8), "kind": Choice("a", "b", "c")}
    kernel = RBFKernel().double()
    kernel.lengthscale = 0.4
    noise, epsilon = 0.05, 0.1
    strategy = tv_gp_ucb(kernel=kernel, noise=noise, epsilon=epsilon, width=Logarithmic(0.8, 4.0))
    loop = Loop(strategy, box)
    random = np.random.default_rng(3)
    rows, y = [], []
    for _ in range(9):
        rows.append((int(random.integers(9)), int(random.integers(3))))
        y.append(float(random.normal()))
        loop.observe({"x": rows[-1][0], "kind": "abc"[rows[-1][1]]}, y[-1])
    every = [(x, c) for x in range(9) for c in range(3)]

    def covariance(A, S, B, T):
        A, B = np.array(A, float), np.array(B, float)
        apart = ((A[:, None, 0] - B[None, :, 0]) / 8) ** 2 + (A[:, None, 1] != B[None, :, 1])
        lag = np.abs(np.array(S)[:, None] - np.array(T)[None])
        return np.exp(-apart / (2 * 0.4**2)) * (1 - epsilon) ** (lag / 2)

    times, now = np.arange(1.0, 10.0), np.full(len(every), 10.0)
    cross = covariance(every, now, rows, times)
    inverse = np.linalg.inv(covariance(rows, times, rows, times) + noise * np.eye(9))
    mean = cross @ inverse @ np.array(y)
    sd = np.sqrt(1 - np.einsum("ij,jk,ik->i", cross, inverse, cross))
    best = every[int(np.argmax(mean + np.sqrt(0.8 * np.log(40.0)) * sd))]
    suggestion = loop.ask()
    assert (suggestion.point["x"], "abc".index(suggestion.point["kind"])) == best
    assert suggestion.mean == pytest.approx(mean[every.index(best)], abs=1e-8)
    assert suggestion.sd == pytest.approx(sd[every.index(best)], abs=1e-8)


def test_a_choice_not_tried_for_long_is_tried_again():
    loop = Loop(ADAPTIVE, {"x": (0, 1), "kind": Choice("a", "b")})
    for n in range(PATIENCE + EVERY):
        kind = "b" if n < 3 else "a"
        loop.observe({"x": (0.37 * n) % 1, "kind": kind}, 0.1 * ((0.37 * n) % 1) - (kind == "b"))
    assert loop.ask().point["kind"] == "b"


def test_a_failed_point_is_not_suggested_again_at_once():
    loop = Loop(ADAPTIVE, {"kind": Choice("a", "b", "c"), "on": Choice(True, False)})
    for kind in "abc":
        for on in (True, False):
            loop.observe({"kind": kind, "on": on}, "abc".index(kind) + 0.5 * on)
    first = loop.ask()
    loop.tell(ok=False)
    assert loop.ask().point != first.point


REFUSED = {
    "one": (Choice("a"), "must be two or more"),
    "twice": (Choice("a", "b", "a"), "all different"),
    "nan": (Choice("a", float("nan")), "string, number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_invalid_choices_are_refused(name):
    wrong, message = REFUSED[name]
    with pytest.raises(InputDataError, match=message):
        Box({"x": (0, 1), "kind": wrong})


def test_other_searches_are_refused():
    with pytest.raises(ValueError, match="if a parameter is a Choice"):
        Box(BOX, search=MultiStart())


@pytest.mark.parametrize("constraints", [(), ["x + n <= 5"]])
def test_many_trials_choose_as_each_alone(constraints):
    box, random = Box(BOX, constraints=constraints), torch.Generator().manual_seed(0)
    strategy = tv_gp_ucb(kernel=RBFKernel().double(), noise=0.1, epsilon=0.1)
    together, alone = strategy.init(box, batch_shape=(2,)), [strategy.init(box) for _ in range(2)]
    for _ in range(4):
        chosen = strategy.ask(together)
        each = [strategy.ask(state) for state in alone]
        torch.testing.assert_close(chosen.X, torch.stack([one.X for one in each]))
        y = torch.rand(2, dtype=torch.float64, generator=random)
        together, _ = strategy.tell(together, chosen, y)
        alone = [strategy.tell(s, one, y[n])[0] for n, (s, one) in enumerate(zip(alone, each))]


def test_many_trials_that_choose_by_chance_choose_each_for_itself():
    kernel = RBFKernel().double()
    box = Box(BOX)
    strategy = random_search(kernel=kernel, noise=0.1)
    state = strategy.init(box, batch_shape=(40,))
    X = strategy.ask(state, generator=torch.Generator().manual_seed(0)).X
    assert X.shape == (40, box.dim)
    points = [box.parameters.named(row) for row in X]
    for point in points:
        require_valid(point)
    assert {item["kind"] for item in points} == {"sand", "salt", "soap"}
    assert len({item["x"] for item in points}) == 40
