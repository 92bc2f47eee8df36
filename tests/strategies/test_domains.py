"""Grids, saved states, random numbers and texts."""

import copy
import itertools
import json
import math
import pickle
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel, MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from botorch_tv.gp.covariance import covariance_matrix
from botorch_tv.gp.random import draws_for, leading_normals
from botorch_tv.identity import describe, differences
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import (
    Box,
    Choice,
    DiscreteSearch,
    Float,
    Grid,
    Integer,
    gp_ucb,
    random_search,
    tv_gp_ucb,
)
from botorch_tv.strategies.named import Parameters
from botorch_tv.strategies.parameters import Number

CPU = torch.device("cpu")


SHARES = (0.9e-9, 1.2e-9)
"""Distances below and above the tolerance of points, as fractions of a range."""


def set_to(kernel: Kernel, lengthscale: float | list[float]) -> Kernel:
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    return kernel


@pytest.mark.parametrize("factor", [0.01, 1.0, 1e6])
def test_points_are_arms_up_to_rounding_of_the_grids_extent(factor: float) -> None:
    for origin in (0.0, -3 * factor):
        grid = Grid(Grid.regular(4, 2).X * factor + origin)
        near, far = (share * max(factor, 1) for share in SHARES)
        assert grid.index_of(grid.X + near).tolist() == list(range(16))
        with pytest.raises(InputDataError, match="is not a point of"):
            grid.index_of(grid.X - far)


@pytest.mark.parametrize("side", [0.01, 1.0, 1e6])
def test_points_are_in_a_box_up_to_a_billionth_of_a_range(side: float) -> None:
    box = Box([(0.0, side)])
    for end, outwards in ((0.0, -1), (side, 1)):
        points = [[end + outwards * share * side] for share in SHARES]
        near, far = torch.tensor(points, dtype=torch.float64)
        box.require_inside(near)
        with pytest.raises(InputDataError, match="outside"):
            box.require_inside(far)


def different_kernels() -> list[Kernel]:
    scaled = ScaleKernel(unit_kernel("se", 0.2)).double()
    scaled.outputscale = torch.tensor(2.0, dtype=torch.float64)
    first = set_to(RBFKernel(active_dims=(0,)).double(), 0.2)
    second = set_to(RBFKernel(active_dims=(1,)).double(), 0.2)
    across = set_to(RBFKernel(ard_num_dims=2).double(), [[0.2, 0.3]])
    rough = set_to(MaternKernel(nu=1.5).double(), 0.2)
    smooth = set_to(MaternKernel(nu=2.5).double(), 0.2)
    nearly = unit_kernel("se", 0.2 * (1 + 1e-12))
    other = [PeriodicKernel().double(), PeriodicKernel().double()]
    other[1].period_length = torch.tensor(0.3, dtype=torch.float64)
    return [unit_kernel("se", 0.2), scaled, first, second, across, rough, smooth, nearly, *other]


def test_different_kernels_are_never_confused() -> None:
    grid, alone = Grid.regular(3, 2), Grid.regular(3, 2).X
    for turn in range(2):  # the second time from the cache
        for kernel in different_kernels():
            basis = grid.basis(kernel, "exact", dtype=torch.float64, device=CPU)
            arms = torch.arange(9)
            assert torch.equal(basis.gram(arms), covariance_matrix(kernel, alone)), (turn, kernel)


def test_a_grid_is_saved_without_its_cache() -> None:
    grid = Grid.regular(3, 2)
    bare = len(pickle.dumps(grid))
    gp_ucb(kernel=unit_kernel("se", 0.2), noise=0.02).init(grid)
    grid.points(torch.tensor([1]), torch.zeros(0, dtype=torch.float32))
    assert len(pickle.dumps(grid)) == bare
    again = pickle.loads(pickle.dumps(grid))
    assert torch.equal(again.points(torch.tensor([4]), again.X), grid.X[4:5])
    assert torch.equal(copy.deepcopy(grid).X, grid.X)


NOWHERE = torch.device("meta")
LIKE = torch.ones((), dtype=torch.float64)


@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("kind", ["normal", "uniform"])
def test_a_generator_of_the_host_serves_trials_elsewhere(several: bool, kind: str) -> None:
    made = [torch.Generator().manual_seed(seed) for seed in range(3)]
    draws = draws_for(
        made if several else made[0], (3,), torch.empty(0, dtype=torch.float64, device=NOWHERE)
    )
    numbers = getattr(draws, kind)(2)
    assert (numbers.shape, numbers.dtype, numbers.device) == ((3, 2), torch.float64, NOWHERE)
    untouched = torch.Generator().manual_seed(0)
    assert not torch.equal(made[0].get_state(), untouched.get_state())


def test_later_draws_do_not_depend_on_how_many_are_used() -> None:
    later = []
    for count in (3, 4):
        generator = torch.Generator().manual_seed(1)
        draws = draws_for(generator, (2,), LIKE)
        first = leading_normals(draws, count, 8)
        assert first.shape == (2, count)
        later.append((first[:, :3], draws.normal(5)))
    torch.testing.assert_close(later[0], later[1], rtol=0, atol=0)


# ---------------- Named parameters in their own units, and the unit cube they are places of

MIXED: dict[str, Any] = {
    "temperature": (20.0, 80.0),
    "rate": Float(1e-5, 1e-1, log=True),
    "layers": Integer(1, 8),
    "width": Integer(4, 256, log=True),
}
ZERO = torch.zeros((), dtype=torch.float64)


def test_coordinates_are_fractions_of_ranges_and_of_logarithms() -> None:
    point = {"temperature": 35.0, "rate": 1e-2, "layers": 8, "width": 32}
    shares = [15 / 60, 3 / 4, 1.0, math.log(8) / math.log(64)]
    torch.testing.assert_close(Parameters(MIXED).place(point, ZERO), ZERO.new_tensor(shares))


@pytest.mark.full
@given(
    low=st.floats(-1e6, 1e6),
    size=st.floats(-3, 8),
    share=st.floats(0, 1),
    log=st.booleans(),
    dtype=st.sampled_from([torch.float64, torch.float32]),
)
@settings(max_examples=300, deadline=None)
def test_a_value_that_was_rounded_comes_back_as_the_same_number(
    low: float, size: float, share: float, log: bool, dtype: torch.dtype
) -> None:
    try:
        if log:
            low = abs(low) + 1e-9
            axis = Float(low, low * (1 + 10**size), log=True)
        else:
            axis = Float(low, low + 10**size)
    except ValueError:
        return
    space = Parameters({"x": axis})
    value = space.named(torch.tensor([share], dtype=dtype))["x"]
    assert axis.low <= value <= axis.high
    place = space.place({"x": value}, torch.zeros((), dtype=dtype))
    assert space.named(place) == {"x": value}
    assert abs(float(place) - share) < (1e-7 if dtype == torch.float64 else 1e-3)


@pytest.mark.parametrize("log", [False, True])
def test_whole_numbers_come_back_and_stay_whole(log: bool) -> None:
    space = Parameters({"n": Integer(3, 40, log=log)})
    for n in range(3, 41):
        place = space.place({"n": n}, ZERO)
        assert space.named(place) == {"n": n}
        assert type(space.named(place)["n"]) is int
        torch.testing.assert_close(space.from_uniform(space.to_uniform(place)), place)


@pytest.mark.full
@given(
    low=st.integers(-999, 999), step=st.integers(1, 60), count=st.integers(2, 90), data=st.data()
)
@settings(max_examples=60, deadline=None)
def test_steps_are_decimal_numbers(low: int, step: int, count: int, data: st.DataObject) -> None:
    """Of a box, a file and a space of trials; the range ends with the last of them."""
    digits = data.draw(st.integers(0, 4))
    values = [float(f"{low + number * step}e-{digits}") for number in range(count)]
    beyond = data.draw(st.integers(0, step - 1))
    ends = values[0], float(f"{low + (count - 1) * step + beyond}e-{digits}")
    size = float(f"{step}e-{digits}")
    axis = Float(*ends, step=size)
    assert (axis.low, axis.high) == (values[0], values[-1])
    space = Parameters.from_data(json.loads(json.dumps(Parameters({"x": axis}).data())))
    assert space.data() == {
        "x": {"type": "Float", "log": False} | {"low": values[0], "high": values[-1], "step": size}
    }
    index, within = data.draw(st.integers(0, count - 1)), data.draw(st.floats(0.01, 0.99))
    share = (index + within) / count
    X = Box(dict(space)).from_unit(ZERO.new_tensor([[share], [0.0], [1.0]]))
    found = [space.named(row)["x"] for row in X]
    assert found == [values[index], values[0], values[-1]]
    torch.testing.assert_close(space.from_uniform(space.to_uniform(X)), X)
    number = Number(*ends, step=size)
    assert [number.value(number.unit(value)) for value in values] == values
    assert [space.named(space.place({"x": value}, ZERO))["x"] for value in values] == values


def test_ordered_choices_are_the_steps_of_a_column() -> None:
    box = Box({"size": Choice("s", "m", "l", ordered=True), "n": Integer(2, 9, step=3)})
    space = box.parameters
    assert space is not None
    every = [{"size": size, "n": n} for size in ("s", "m", "l") for n in (2, 5, 8)]
    X = torch.stack([space.place(point, ZERO) for point in every])
    assert X.tolist() == [[i / 2, j / 2] for i in range(3) for j in range(3)]
    assert [space.named(point) for point in X] == every
    assert box.listed is not None
    assert torch.equal(box.listed, X)
    again = Parameters.from_data(json.loads(json.dumps(space.data())))
    assert again.by_name == space.by_name
    assert "step" not in Parameters({"n": Integer(2, 9)}).data()["n"]  # as in older files


def test_whole_numbers_have_equal_shares() -> None:
    space = Parameters({"n": Integer(0, 4), "x": (0, 1)})
    U = torch.rand(2, 1000, dtype=torch.float64).sort(-1).values.T
    U[:, 0] = (torch.arange(1000) + 0.5) / 1000
    X = space.from_uniform(U)
    torch.testing.assert_close(X[:, 0].unique(), torch.linspace(0, 1, 5).double())
    assert X[:, 0].unique(return_counts=True)[1].tolist() == [200] * 5
    assert torch.equal(X[:, 1], U[:, 1])


@pytest.mark.full
def test_the_best_of_whole_numbers_is_found() -> None:
    box = Box({"a": Integer(0, 9), "b": Integer(1, 100, log=True)})
    assert box.parameters is not None
    points = [{"a": a, "b": b} for a, b in itertools.product(range(10), range(1, 101))]
    X = torch.stack([box.parameters.place(point, ZERO) for point in points])
    strategy = tv_gp_ucb(kernel=unit_kernel("se", 0.2), noise=0.01, epsilon=0.03)
    state, gaps = strategy.init(box), []
    for t in range(12):
        suggestion = strategy.ask(state)
        assert bool((X == suggestion.X).all(-1).any())  # a point of the grid, to the last bit
        if t:
            mean, sd = _marginals(strategy, state, X)
            scores = mean + suggestion.sqrt_beta * sd
            gaps.append(
                float(scores.max() - (suggestion.mean + suggestion.sqrt_beta * suggestion.sd))
            )
        y = float(torch.sin(5 * suggestion.X[0]) * torch.cos(4 * suggestion.X[1] + 0.1 * t))
        state, _ = strategy.tell(state, suggestion, y)
    assert max(gaps) < 0.01  # of a prior deviation of 1


def _marginals(strategy: Any, state: Any, X: Tensor) -> tuple[Tensor, Tensor]:
    posterior = strategy.posterior(state, X)
    return posterior.mean.squeeze(-1), posterior.variance.squeeze(-1).sqrt()


def test_points_by_chance_are_whole() -> None:
    box, strategy = (
        Box({"n": Integer(0, 2), "x": (0, 1)}),
        random_search(kernel=RBFKernel().double(), noise=0.1),
    )
    state, generator = strategy.init(box), torch.Generator().manual_seed(0)
    chosen = {float(strategy.ask(state, generator=generator).X[0]) for _ in range(30)}
    assert chosen == {0.0, 0.5, 1.0}


GOOD = {"temperature": 30.0, "rate": 0.01, "layers": 2, "width": 8}
SPACE = Parameters(MIXED)
REFUSED: list[tuple[Any, str]] = [
    (lambda: SPACE.place({"temp": 30, "rate": 0.01}, ZERO), "each of the parameters temp"),
    (lambda: SPACE.place({"temperature": 30, "rate": 0.01}, ZERO), "X is .*rate'., but it must"),
    (lambda: SPACE.place(GOOD | {"temperature": 90}, ZERO), "90, but .* a number from 20 to 80"),
    (lambda: SPACE.place(GOOD | {"layers": 2.5}, ZERO), "2.5, but .* a whole number from 1 to 8"),
    (lambda: SPACE.place(GOOD | {"rate": math.nan}, ZERO), "rate is nan, but it must be a number"),
    (lambda: SPACE.place([30, 0.01, 2, 8], ZERO), "; give {'temperature'"),
    (lambda: Box({"x": (1, 0)}), r"x is \(1, 0\) \(Float: low is 1.0 and high 0.0"),
    (lambda: Box({"x": (True, False)}), r"x is \(True, False\).*; give \(low, high\)"),
    (lambda: Box({"x": (0, math.inf)}), r"x is .* must lie in \(-1e150, 1e150\)"),
    (lambda: Box({"tool": ["old", "new", "worn"]}), r"tool is .*; give .* or Choice\("),
    (lambda: Box({3: (0, 1)}), "3 is not a valid name"),  # type: ignore[dict-item]
    (lambda: Box({}), "no parameters are given"),
    (lambda: Box([(0, 1), 2]), "must be a floating-point tensor"),  # type: ignore[list-item]
    (lambda: Float(0, 1, log=True), r"low is 0, but it must lie in \(0, 1e150\); .* log=False"),
    (lambda: Integer(0, 4, log=True), "integer of at least 1; use log=False"),
    (lambda: Float(1e6, 1e6 + 1), "by more than 0.00001"),
    (lambda: Float(0, 1, step=0.3, log=True), "low is 0"),
    (lambda: Float(1, 2, step=0.3, log=True), "step is 0.3, but .* without log"),
    (lambda: Float(0, 1, step=0), "step is 0, but it must be positive"),
    (lambda: Float(0, 1, step=1.5), "step is 1.5, but it must be at most 1.0"),
    (lambda: Float(0, 1, step=1e-7), "step is 1e-07, but .* a millionth of the range"),
    (lambda: Parameters({"x": Float(0, 1, step=0.25)}).place({"x": 0.3}, ZERO), "steps of 0.25;"),
    (lambda: Integer(2, 2), "omit the parameter if it is constant"),
    (lambda: Integer(2, 8, step=7), "step is 7, but it must be at most 6"),
    (lambda: Integer(2, 8, log=True, step=2), "and 1 if log=True"),
    (
        lambda: Parameters({"n": Integer(2, 8, step=2)}).place({"n": 3}, ZERO),
        "in steps of 2; give 2",
    ),
    (lambda: Choice("a", "b", ordered=1), "ordered is 1, but it must be True or False"),
    (lambda: Integer(-(10**6) - 1, 1), "low is -1000001, .* at least -1,?000,?000"),
    (lambda: Integer(1, 10**6 + 1), "high 1000001, but .* a million"),
    (lambda: Box({"x": (0, 1)}, search=DiscreteSearch(torch.rand(3, 1).double())), "by MultiStart"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_refusals(call: Any, message: str) -> None:
    with pytest.raises((InputDataError, ValueError), match=message):
        call()


def test_descriptions_tell_parameters_apart() -> None:
    plain = describe(Box([(0, 1)]), "box")
    described = [describe(Box({"x": axis}), "box") for axis in ((0, 1), (0, 2), Integer(0, 1))]
    for there, here in itertools.permutations([plain, *described], 2):
        assert differences(there, here, "box")


def test_a_box_shows_its_parameters_as_they_are_written() -> None:
    box = Box({"x": (20, 80), "rate": Float(1e-4, 1, log=True), "n": Integer(1, 8)})
    assert (
        repr(box)
        == "Box({'x': Float(20, 80), 'rate': Float(0.0001, 1, log=True), 'n': Integer(1, 8)})"
    )
    assert repr(Float(0, 1, step=0.25)) == "Float(0, 1, step=0.25)"
    again = eval(repr(box.parameters), {"Float": Float, "Integer": Integer})
    assert again == dict(box.parameters or {})


def test_a_range_too_short_for_its_size_is_refused_at_once() -> None:
    with pytest.raises(InputDataError, match="needs bounds of at most"):
        Box([(1.0, 1.0 + 1e-15)])
