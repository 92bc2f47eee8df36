"""Decay of covariance: formulas and limits; custom decays whose numbers confirm their claims."""

import math
import re

import pytest
import torch
from conformance.strangers import DampedDrift, DriftByCovariance, QuasiPeriodic
from gpytorch.kernels import RBFKernel

from botorch_tv.forgetting import Decay, Markov, PeriodicMarkov, Static, Wiener
from botorch_tv.strategies import GPStrategy, Strategy

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


def test_markov_at_long_times() -> None:
    """Half a life is ln 2 / -½ ln(1 - ε); far away nothing is left, and no NaN."""
    half = torch.tensor(2.0 * math.log(2.0) / -math.log1p(-0.01), dtype=torch.float64)
    assert float(Markov(0.01).attenuation(half)) == pytest.approx(0.5, rel=1e-12)
    assert float(Markov(0.01).attenuation(torch.tensor(1e300).double())) == 0.0


def strategy(decay: Decay) -> Strategy:
    return GPStrategy(kernel=RBFKernel().double(), noise=0.02, decay=decay)


class Falsely(QuasiPeriodic):
    markovian = True


class Unstable(Decay):
    markovian = True

    def prior_variance(self, elapsed):
        return torch.exp(0.1 * elapsed)

    def attenuation(self, elapsed):
        return torch.exp(0.05 * elapsed)


class FarBack(Markov):
    def attenuation(self, elapsed):
        return 1 / (1 + elapsed)


class Nothing(Decay):
    pass


class Growing(Decay):
    def attenuation(self, elapsed):
        return 1 + elapsed


class Asymmetric(Decay):
    def covariance(self, first, second):
        return torch.exp(-first + 0.5 * second)


class NotANumber(Decay):
    def attenuation(self, elapsed):
        return torch.exp(-elapsed) / (elapsed < 50)


class NoVarianceAtZero(Decay):
    def covariance(self, first, second):
        return torch.minimum(first, second)


class Contradiction(Decay):
    def prior_variance(self, elapsed):
        return 1 + elapsed

    def covariance(self, first, second):
        return torch.exp(-(first - second).abs())


class Discontinuous(Decay):
    def attenuation(self, elapsed):
        return 0.5 * torch.exp(-elapsed)


class OneNumber(Decay):
    def attenuation(self, elapsed):
        return torch.exp(-elapsed.amax())


class WrongAttenuation(DriftByCovariance):
    def attenuation(self, elapsed):
        return torch.exp(-0.3 * elapsed)


SOUND = [
    Static(),
    *(Markov(epsilon) for epsilon in (0.0, 1e-15, 0.03, 1 - 1e-12, 1.0)),
    *(Wiener(sigma_w2) for sigma_w2 in (0.0, 1e-15, 0.03, 1e100)),
    PeriodicMarkov(0.03, 7.0, 0.5),
    *(QuasiPeriodic(), DampedDrift(), DriftByCovariance(), Unstable()),
]


@pytest.mark.parametrize("decay", SOUND, ids=lambda decay: str(decay).split(" ")[0])
def test_a_covariance_is_accepted(decay: Decay) -> None:
    retained = strategy(decay).decay
    assert type(retained) is type(decay)
    assert vars(retained) == vars(decay)


REFUSED = {
    Falsely(): "claims to be Markovian, but correlations",
    FarBack(0.1): "claims to be Markovian",
    Nothing(): r"Nothing defines no covariance in time; define attenuation\(elapsed\)",
    Growing(): "is not a covariance: correlations .* have eigenvalues down to -",
    Asymmetric(): r"covariance\(s, t\) and covariance\(t, s\) must agree",
    NotANumber(): r"covariance must be finite, but at s = 0 and t = .* gives inf",
    NoVarianceAtZero(): r"variance must be positive at all times, but at s = 0 .* gives 0;",
    Contradiction(): r"prior_variance\(s\) and covariance\(s, s\) must agree",
    Discontinuous(): r"prior_variance\(s\) and covariance\(s, s\) must agree",
    OneNumber(): r"gives \(\), but the shape must be \(7, 12, 12\)",
    WrongAttenuation(): r"prior_variance\(s\) attenuation\(t - s\) and covariance\(s, t\)",
}


@pytest.mark.parametrize("decay", REFUSED, ids=lambda decay: type(decay).__name__)
def test_invalid_decays_are_refused(decay: Decay) -> None:
    with pytest.raises((ValueError, NotImplementedError), match=re.compile(REFUSED[decay])):
        strategy(decay)


@pytest.mark.parametrize("decay", [Markov(0.1), Wiener(0.2), DampedDrift(), DriftByCovariance()])
def test_transition_extends_the_covariance(decay: Decay) -> None:
    """D(r, t) = D(r, s) D(s, t) / D(s, s), for which any r may be asked."""
    r, s, t = (torch.tensor(time, dtype=torch.float64) for time in (0.7, 1.9, 4.4))
    carried = decay.transition(s, t) * decay.covariance(r, s)
    torch.testing.assert_close(carried, decay.covariance(r, t), rtol=1e-12, atol=0)
