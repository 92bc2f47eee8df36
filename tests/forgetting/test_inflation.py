"""Inflation of noise: formulas, bounds and limits."""

import math

import pytest
import torch

from botorch_tv.forgetting import ExponentialWeights, Inflation, Static, UncertaintyInjection

LAGS = torch.tensor([0.0, 1e-3, 0.5, 1.0, 2.0, 40.0], dtype=torch.float64)


def factor(inflation: Inflation, lags: torch.Tensor = LAGS) -> torch.Tensor:
    return inflation.log_factor(lags).exp()


@pytest.mark.parametrize("gamma", [0.3, 0.97, 1.0])
def test_exponential_weights(gamma: float) -> None:
    """γ^(-lag), [W22] (2)-(3)."""
    torch.testing.assert_close(factor(ExponentialWeights(gamma)), gamma**-LAGS)


@pytest.mark.parametrize("kappa", [0.0, 0.7, 1.0])
@pytest.mark.parametrize("alpha", [0.25, 1.0, 2.5])
def test_uncertainty_injection(alpha: float, kappa: float) -> None:
    """1 + κ lag^α, [M] (8)-(10)."""
    inflation = UncertaintyInjection(alpha, kappa=kappa)
    torch.testing.assert_close(factor(inflation), 1.0 + kappa * LAGS**alpha)


def test_zero_to_the_power_zero_is_zero() -> None:
    """With α = 0 all but the newest observation have the noise factor 1 + κ."""
    expected = torch.tensor([1.0, 1.7, 1.7, 1.7, 1.7, 1.7], dtype=torch.float64)
    torch.testing.assert_close(factor(UncertaintyInjection(0.0, kappa=0.7)), expected)


@pytest.mark.parametrize(
    "inflation", [Static(), ExponentialWeights(1.0), UncertaintyInjection(2.0, kappa=0.0)], ids=repr
)
def test_no_growth(inflation: Inflation) -> None:
    assert torch.equal(factor(inflation), torch.ones_like(LAGS))


def test_no_overflow() -> None:
    """γ^(-lag) itself would be infinite; its logarithm is not."""
    lag = torch.tensor([1e5], dtype=torch.float64)
    expected = torch.tensor([1e5 * math.log(10.0)], dtype=torch.float64)
    torch.testing.assert_close(ExponentialWeights(0.1).log_factor(lag), expected)
