"""Parameters: natural values, bounds and units of time, in closed form; memories of parts."""

import math

import numpy as np
import pytest
import torch

from botorch_tv.forgetting import ExponentialWeights, Markov, Parameter, Part, Wiener
from botorch_tv.forgetting.base import NEGLIGIBLE, as_memory, median_gap

D = torch.float64
LOST, RETAINED = Parameter(upper=1.0, share="lost", power=-1), Parameter(share="retained", power=-1)


@pytest.mark.parametrize(
    ("parameter", "natural"),
    [
        (LOST, lambda value: -math.log(1 - value)),
        (RETAINED, lambda value: -math.log(value)),
        (Parameter(), lambda value: value),
    ],
    ids=["lost", "retained", "itself"],
)
def test_natural_values_and_back(parameter, natural) -> None:
    for value in (0.01, 0.3, 0.95):
        found = parameter.natural(torch.tensor(value, dtype=D))
        assert float(found) == pytest.approx(natural(value), rel=1e-14)
        assert parameter.number(value) == float(found)
        assert float(parameter.value(found)) == pytest.approx(value, rel=1e-14)


def test_natural_bounds() -> None:
    for share, fastest, low, high in (
        ("retained", None, 0.9, 0.2),
        ("retained", 0.5, 0.9, 0.5),
        ("lost", None, 0.8, 0.1),
        ("lost", 0.5, 0.8, 0.5),
    ):
        more = {} if fastest is None else {"fastest": fastest}
        bounds = Parameter(lower=0.2, upper=0.9, share=share, **more).natural_bounds()
        assert bounds == pytest.approx((-math.log(low), -math.log(high)))
    assert Parameter(lower=2.0, fastest=7.0).natural_bounds() == (2.0, 7.0)
    assert Parameter(lower=2.0).natural_bounds() == (2.0, math.inf)


def test_conversion_between_units() -> None:
    """1 - ε, γ and σ_w² of a unit of time 2.5 times as long."""
    factor, value = torch.tensor(2.5, dtype=D), torch.tensor(0.3, dtype=D)
    assert float(LOST.counted(value, factor, {})) == pytest.approx(1 - 0.7**2.5)
    assert float(RETAINED.counted(value, factor, {})) == pytest.approx(0.3**2.5)
    assert float(Parameter(power=-1).counted(value, factor, {})) == pytest.approx(0.75)
    assert float(Parameter(power=1).counted(value, factor, {})) == pytest.approx(0.12)
    assert Parameter().counted(value, factor, {}) is value
    by_another = Parameter(power=lambda others: -others["alpha"])
    others = {"alpha": torch.tensor(2.0, dtype=D)}
    assert float(by_another.counted(value, factor, others)) == pytest.approx(0.3 * 2.5**2)


@pytest.mark.parametrize(
    "parameter",
    [
        Markov.parameters["epsilon"],
        Wiener.parameters["sigma_w2"],
        ExponentialWeights.parameters["gamma"],
    ],
    ids=["epsilon", "sigma_w2", "gamma"],
)
def test_fast_starts_are_correlated(parameter: Parameter) -> None:
    """Fast starts lose a tenth of the variance in a gap, within the bounds."""
    low, high = parameter.natural_bounds()
    start = parameter.number(parameter.fast_start)
    uncorrelated = parameter.number(parameter.uncorrelated_beyond)
    assert low < start < uncorrelated <= high
    assert start == pytest.approx(0.1, rel=0.06)


LIKE, PAIR = torch.zeros((), dtype=torch.float64), torch.Size([2])


def test_floats_take_the_dtype_and_counts_stay_counts():
    counts, levels = torch.tensor([1, 2]), torch.tensor([0.5, 1.5])
    for memory in ({"count": counts, "level": levels}, [counts, (levels, {"again": levels})]):
        made = as_memory(Part(), memory, None, LIKE, PAIR)
        assert type(made) is type(memory)
        assert "[0.5000, 1.5000], dtype=torch.float64" in str(made)
        assert "tensor([1, 2])" in str(made)
    assert as_memory(Part(), None, None, LIKE, PAIR) is None


def test_of_irregular_times_in_any_order() -> None:
    random = np.random.default_rng(0)
    for n in (2, 3, 4, 5, 30, 31):
        times = random.exponential(size=n).cumsum()
        expected = np.median(np.diff(times))
        found = median_gap(torch.tensor(random.permutation(times)))
        assert found.dtype == D
        assert found.shape == ()
        np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_equal_times_count_once() -> None:
    times = torch.tensor([0.0, 0.0, 0.0, 2.0, 2.0, 5.0, 5.0, 9.0], dtype=D)
    assert float(median_gap(times)) == 3
    rounding = NEGLIGIBLE * torch.finfo(D).eps * 9
    rounded = times + rounding * torch.tensor([0.0, 1, 2, 0, 1, 0, 1, 0], dtype=D)
    torch.testing.assert_close(median_gap(rounded), times.new_tensor(3.0))


@pytest.mark.parametrize("pause", [1e3, 1e9, 1e13])
def test_a_pause_is_one_gap_of_many(pause: float) -> None:
    times = torch.arange(8, dtype=D) + torch.tensor([0.0] * 5 + [pause] * 3, dtype=D)
    assert float(median_gap(times)) == 1


def test_only_live_rows_count() -> None:
    times = torch.tensor([[0.0, 1.0, 2.0, 10.0], [0.0, 1.0, 2.0, 10.0]], dtype=D)
    live = torch.tensor([[True, False, False, True], [False, False, True, False]])
    assert median_gap(times, live).tolist() == [10.0, 1.0]  # a single time has gap 1
    assert median_gap(times[:, :0]).tolist() == [1.0, 1.0]
    assert float(median_gap(torch.full((5,), 7.0, dtype=D))) == 1
