"""Limits on parameters: what is chosen keeps them, and the best point on a face is found."""

import itertools
import json
import math
import pickle
import warnings

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from botorch_tv import Box, Choice, Float, Integer, Loop, adaptive_gp_ucb, random_search, tv_gp_ucb
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.gp.search import SearchProblem
from botorch_tv.identity import describe, differences
from botorch_tv.loop.file import domain_data, domain_from
from botorch_tv.strategies.box import holding
from botorch_tv.strategies.expressions import parse_limits
from botorch_tv.strategies.state import draws_from

D = torch.float64
SPACE = {
    "temperature": Float(650, 900, step=0.5),
    "flow": Float(1e-2, 1, log=True),
    "n": Integer(2, 8, step=2),
    "gas": Choice("Ar", "N2"),
}
LIMITS = ["temperature + 300 * flow <= 800", "n * flow <= 2"]
BANK = Bank(lengthscales=(0.4,), rates=(0.0, 0.03))
KERNEL = RBFKernel().double()
STRATEGIES = {
    "adaptive": adaptive_gp_ucb(bank=BANK),
    "given": tv_gp_ucb(kernel=KERNEL, noise=0.05, epsilon=0.03),
    "random": random_search(kernel=KERNEL, noise=0.05),
}


def keeps(limits, values):
    """As a user checks it, without a tolerance."""
    return all(limit.keeps(limit.expression.value(values)) for limit in parse_limits(limits))


@pytest.mark.few("adaptive")
@pytest.mark.parametrize("name", STRATEGIES)
def test_every_choice_keeps_the_limits(name):
    """First points, failures, searches, chance, held values and recommendations."""
    loop = Loop(STRATEGIES[name], Box(SPACE, constraints=LIMITS), seed=1)
    for t in range(6):
        fixed = {"temperature": 725.5} if t == 5 else None
        point = loop.ask(fixed=fixed).point
        assert keeps(LIMITS, point), point
        if t == 3:
            loop.tell(ok=False)
            continue
        loop.tell(point["temperature"] / 250 + 2 * point["flow"] + 0.1 * point["n"])
    for fixed in ({}, {"flow": 0.4}):
        with warnings.catch_warnings(action="ignore"):  # few measurements support the setting
            assert keeps(LIMITS, loop.recommend(fixed=fixed))


def test_random_points_are_spread_over_the_allowed_part():
    box = Box({"a": (0, 1), "b": (0, 1)}, constraints=["a + b <= 1"])
    strategy = STRATEGIES["random"]
    state = strategy.init(box, batch_shape=(400,))
    X = strategy.ask(state, generator=torch.Generator().manual_seed(0)).X
    assert (X.sum(-1) <= 1).all()
    assert (X < 0.5).all(-1).double().mean() == pytest.approx(0.5, abs=0.1)  # a quarter of a half


@pytest.mark.parametrize("seed", [0, 5])
def test_first_points_of_trials_are_spread_over_the_allowed_part(seed):
    """With a limit that hardly cuts, and with one of which no random point keeps both sides."""
    for limits in (["a + b <= 1.9"], ["0.9999 <= a + b <= 1.0001"]):
        search = Box({"a": (0, 1), "b": (0, 1)}, constraints=limits).search
        X = torch.stack([search.unused(number, seed, ()) for number in range(12)])
        assert len(X.unique(dim=0)) == 12
        assert (X.amax(0) - X.amin(0) > 0.6).all()
        pending = {tuple(X[0].tolist())}
        assert torch.equal(search.unused(0, seed, pending), X[1])


def numeric(box):
    return [name for name, axis in box.parameters.items() if not isinstance(axis, Choice)]


def searched(box, score, observed=None):
    """The best point by the search of a box, in users' units."""
    observed = torch.empty(1, 0, box.dim, dtype=D) if observed is None else observed
    live = torch.ones(observed.shape[:2], dtype=torch.bool)

    def of(X, trials):
        return score(box.parameters.numbers_at(X, numeric(box)))

    X = box.search.best(box, SearchProblem(of, observed, live, 3, 1.0))
    return box.parameters.named(X[0])


CASES = {
    "line": (
        {"a": (0, 1), "b": (0, 2)},
        ["a + b <= 1"],
        lambda v: -(v["a"] - 0.9).square() - 0.5 * (v["b"] - 1.1).square(),
    ),
    "logarithmic": (
        {"a": Float(1e-3, 1, log=True), "b": (0, 10)},
        ["20 * a + b <= 9", "b >= 2 * a"],
        lambda v: (v["a"] * v["b"].clamp_min(1e-9)).log(),
    ),
    "inward": (  # not convex
        {"a": (0.1, 2), "b": (0.1, 2)},
        ["a * b <= 0.5"],
        lambda v: v["a"] + 1.3 * v["b"] - 0.1 * v["b"].square(),
    ),
    "thin": (
        {"a": (0, 1), "b": (0, 1), "c": (0, 1)},
        ["0.9999 <= a + b + c <= 1.0001"],
        lambda v: -(v["a"] - 0.5).square() - (v["b"] - 0.4).square() - (v["c"] - 0.3).square(),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_best_point_on_a_face_is_found(case):
    """As high as the best allowed point of a dense grid, and higher by less than its spacing."""
    bounds, limits, score = CASES[case]
    box = Box(bounds, constraints=limits)
    point = searched(box, score)
    assert keeps(limits, point)
    dim, count = box.dim, 401 if box.dim == 2 else 91
    axes = [torch.linspace(0, 1, count, dtype=D)] * dim
    U = torch.stack(torch.meshgrid(*axes, indexing="ij"), -1).view(-1, dim)
    values = box.parameters.numbers_at(U, box.parameters)
    allowed = torch.ones(len(U), dtype=torch.bool)
    for limit in parse_limits(limits):
        slack = 1e-9 + (0.02 if case == "thin" else 0)
        value = limit.expression.value(values)
        allowed &= limit.with_bound(limit.bound + (slack if limit.upper else -slack)).keeps(value)
    dense = score({name: value[allowed] for name, value in values.items()}).max()
    found = score({name: torch.tensor(value, dtype=D) for name, value in point.items()})
    if case == "thin":  # the projection on the plane a + b + c = 1.0001
        assert found == pytest.approx(-3 * (0.1999 / 3) ** 2, abs=1e-7)
    else:
        assert found >= dense - 1e-7
        assert found <= dense + 0.05


def test_the_best_of_listed_and_stepped_values_is_found():
    """Among all combinations; the best on a face is no rounding of the best without steps."""
    box = Box(
        {
            "a": Float(0, 1, step=0.001),
            "n": Integer(0, 20),
            "m": Integer(0, 20),
            "c": Choice("x", "y"),
        },
        constraints=["a + 0.37 * n + 0.22 * m <= 5.3", "n - m <= 4"],
    )

    def score(v):
        return v["a"] + 0.41 * v["n"] - 0.012 * v["n"].square() + 0.2 * v["m"]

    point = searched(box, score)
    every = itertools.product(range(1001), range(21), range(21))
    keeping = [
        a / 1000 + 0.41 * n - 0.012 * n * n + 0.2 * m
        for a, n, m in every
        if a / 1000 + 0.37 * n + 0.22 * m <= 5.3 + 1e-12 and n - m <= 4
    ]
    values = {name: torch.tensor(float(point[name]), dtype=D) for name in ("a", "n", "m")}
    assert float(score(values)) >= max(keeping) - 1e-3
    assert point["a"] + 0.37 * point["n"] + 0.22 * point["m"] <= 5.3 + 1e-12


numbers = st.sampled_from([-2.0, -1.0, -0.3, 0.3, 1.0, 2.5])
AXES = [Float(0, 1), Float(0.01, 10, log=True), Integer(0, 9), Float(-1, 1, step=0.01)]
AXES += [Integer(0, 900, step=3), Choice(0.5, 1, 4, ordered=True)]


@pytest.mark.full
@settings(max_examples=10, deadline=None)
@given(st.lists(st.sampled_from(AXES), min_size=1, max_size=4), st.data())
def test_random_limits_are_kept_everywhere(axes, data):
    names = "abcd"[: len(axes)]
    space = dict(zip(names, axes)) | {"kind": Choice("x", "y")}
    middle = {name: axis.value([data.draw(st.floats(0, 1))]) for name, axis in space.items()}
    limits = []
    for _ in range(data.draw(st.integers(1, 2))):
        text = " + ".join(f"{data.draw(numbers)} * {name}" for name in names).replace("+ -", "- ")
        (limit,) = parse_limits(f"{text} <= 0")
        limits.append(f"{text} <= {limit.expression.value(middle) + 1e-6!r}")
    try:
        box = Box(space, constraints=limits)
    except InputDataError:  # hardly more than a point
        reject()
    search, like = box.search, torch.zeros((), dtype=D)
    state = STRATEGIES["random"].init(box, batch_shape=(5,))
    X = [
        *search.filling(box, 20, 3, like),
        search.first(box, like),
        *search.among(20, box.dim)[0],
        *search.among(20, box.dim)[1],
        *search.anywhere(box, draws_from(torch.Generator().manual_seed(0), state)),
        search.held(torch.full((box.dim,), 0.9, dtype=D)),
        *(torch.empty(0, box.dim) if box.listed is None else box.listed),
        *search.best(
            box,
            SearchProblem(
                lambda X, _: X.sum(-1), X_of(box, 4), torch.ones(1, 4, dtype=torch.bool), 0, 1.0
            ),
        ),
    ]
    for row in X:
        values = box.parameters.named(row)
        for limit in parse_limits(limits):
            assert limit.expression.value(values) <= limit.bound + 1e-9, (limits, values)


def X_of(box, number):
    return torch.rand(1, number, box.dim, dtype=D, generator=torch.Generator().manual_seed(1))


def test_limits_belong_to_the_identity_of_a_run():
    every = [describe(Box(SPACE, constraints=limits), "box") for limits in ([], *LIMITS)]
    for old, new in itertools.combinations(json.loads(json.dumps(every)), 2):
        assert len(differences(old, new)) == 1


def test_limits_are_stored_with_the_parameters(tmp_path):
    box = Box(SPACE, constraints=LIMITS)
    data = json.loads(json.dumps(domain_data(box)))
    assert data["constraints"] == LIMITS
    again = domain_from(data, torch.device("cpu"))
    assert repr(again) == repr(box) == repr(pickle.loads(pickle.dumps(box)))
    loop = Loop(STRATEGIES["adaptive"], box)
    for _ in range(4):
        loop.tell(loop.ask().point["flow"])
    loop.save(tmp_path / "loop.json")
    assert Loop.load(tmp_path / "loop.json", STRATEGIES["adaptive"]).ask().point == loop.ask().point
    with pytest.raises(ValueError, match=r"domain\.constraints is"):
        Loop.load(tmp_path / "loop.json", STRATEGIES["adaptive"], domain=Box(SPACE))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda: Box(SPACE, constraints=["temp <= 700"]), "'temp' .* is unknown; the names are"),
        (lambda: Box(SPACE, constraints=["gas <= 1"]), "only numbers can be limited"),
        (lambda: Box([(0, 1)], constraints=["x <= 1"]), "these parameters have no names"),
        (lambda: Box(SPACE, constraints=["flow >= 2"]), "no point of the box .* 'flow >= 2'"),
        (lambda: Box(SPACE, constraints="flow = 0.1"), "a limit has <= or >="),
        (
            lambda: holding(
                STRATEGIES["given"].init(Box(SPACE, constraints=LIMITS)),
                {"temperature": 790, "flow": 0.5},
            ),
            "no point with temperature=790.0, flow=0.5 .* hold fewer",
        ),
        (
            lambda: Loop(STRATEGIES["given"], Box(SPACE, constraints=LIMITS)).enqueue(
                {"temperature": 790, "flow": 0.5, "n": 2, "gas": "N2"}
            ),
            r"violates 'temperature \+ 300 \* flow <= 800'; give a point",
        ),
        (
            lambda: Box(SPACE, parameter_constraints=["flow <= 1"]),
            "constraints=.'pressure",
        ),
    ],
)
def test_what_is_refused(made, words):
    with pytest.raises((InputDataError, ValueError, TypeError), match=words):
        made()


def test_an_equality_of_steps_counts_as_kept():
    """0.1 + 0.2 exceeds 0.3 by a rounding error."""
    box = Box(
        {"a": Float(0, 1, step=0.1), "b": Float(0, 1, step=0.1)}, constraints=["a + b <= 0.3"]
    )
    assert box.listed is not None
    assert len(box.listed) == 10
    assert math.isclose(sum(searched(box, lambda v: v["a"] + v["b"]).values()), 0.3)
