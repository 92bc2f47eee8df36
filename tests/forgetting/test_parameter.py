"""Parameters: natural values, bounds and units of time, in closed form."""

import math

import pytest
import torch

from botorch_tv.forgetting import ExponentialWeights, Markov, Parameter, Wiener

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
    bounds = Parameter(lower=0.2, upper=0.9, share="retained").natural_bounds()
    assert bounds == pytest.approx((-math.log(0.9), -math.log(0.2)))
    bounds = Parameter(lower=0.2, upper=0.9, share="retained", fastest=0.5).natural_bounds()
    assert bounds == pytest.approx((-math.log(0.9), -math.log(0.5)))
    bounds = Parameter(lower=0.2, upper=0.9, share="lost").natural_bounds()
    assert bounds == pytest.approx((-math.log(0.8), -math.log(0.1)))
    bounds = Parameter(lower=0.2, upper=0.9, share="lost", fastest=0.5).natural_bounds()
    assert bounds == pytest.approx((-math.log(0.8), -math.log(0.5)))
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


def test_the_same_unit_changes_no_bit() -> None:
    value = torch.rand(100, generator=torch.Generator().manual_seed(0), dtype=D)
    assert torch.equal(LOST.counted(value, torch.ones((), dtype=D), {}), value)


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
