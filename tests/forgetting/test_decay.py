"""Decay of covariance: formulas, bounds and limits."""

import math

import pytest
import torch

from botorch_tv.forgetting import Decay, Markov, PeriodicMarkov, Static, Wiener

TIMES = torch.tensor([0.0, 0.25, 1.0, 3.5, 10.0], dtype=torch.float64)


def covariance(decay: Decay) -> torch.Tensor:
    return decay.covariance(TIMES.unsqueeze(-1), TIMES)


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 0.03, 0.9, 1.0])
def test_markov(epsilon: float) -> None:
    """(1 - ε)^(|t - t'| / 2), [B16] (7)-(8), with 0^0 = 1."""
    expected = [
        [(1.0 - epsilon) ** (abs(s - t) / 2.0) for t in TIMES.tolist()] for s in TIMES.tolist()
    ]
    torch.testing.assert_close(covariance(Markov(epsilon)), torch.tensor(expected).double())


@pytest.mark.parametrize("sigma_w2", [0.0, 0.03, 5.0])
def test_wiener(sigma_w2: float) -> None:
    """1 + σ_w² min(t, t'), times counted from the origin."""
    expected = [[1.0 + sigma_w2 * min(s, t) for t in TIMES.tolist()] for s in TIMES.tolist()]
    torch.testing.assert_close(covariance(Wiener(sigma_w2)), torch.tensor(expected).double())


def test_periodic_markov() -> None:
    """(1 - ε)^(|t - t'| / 2) exp(-2 sin²(π |t - t'| / P) / ℓ²)."""
    expected = [
        [
            0.97 ** (abs(s - t) / 2) * math.exp(-2 * (math.sin(math.pi * (s - t) / 7) / 0.5) ** 2)
            for t in TIMES.tolist()
        ]
        for s in TIMES.tolist()
    ]
    found = covariance(PeriodicMarkov(0.03, 7.0, 0.5))
    torch.testing.assert_close(found, torch.tensor(expected).double())


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("decay", [Static(), Markov(0.5), Markov(1.0), Wiener(0.5)], ids=repr)
def test_dtype_and_shape(decay: Decay, dtype: torch.dtype) -> None:
    time = TIMES.to(dtype).view(5, 1, 1)
    for value in (decay.attenuation(time), decay.prior_variance(time)):
        assert value.shape == time.shape
        assert value.dtype == dtype


def test_markov_at_long_times() -> None:
    """Half a life is ln 2 / -½ ln(1 - ε); far away nothing is left, and no NaN."""
    half = torch.tensor(2.0 * math.log(2.0) / -math.log1p(-0.01), dtype=torch.float64)
    assert float(Markov(0.01).attenuation(half)) == pytest.approx(0.5, rel=1e-12)
    assert float(Markov(0.01).attenuation(torch.tensor(1e300).double())) == 0.0
