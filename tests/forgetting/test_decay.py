"""Decay of covariance: formulas and limits; custom decays whose numbers confirm their claims."""

import math
from typing import Any

import pytest
import torch
from conformance.user_parts import DampedDrift, DriftByCovariance, QuasiPeriodic
from gpytorch.kernels import RBFKernel

from botorch_tv.forgetting import Decay, Markov, PeriodicMarkov, Smooth, Static, Wiener
from botorch_tv.strategies import GPStrategy, Strategy


def test_markov_at_long_times() -> None:
    """Half a life is ln 2 / -½ ln(1 - ε); far away nothing is left, and no NaN."""
    half = torch.tensor(2.0 * math.log(2.0) / -math.log1p(-0.01), dtype=torch.float64)
    assert float(Markov(0.01).attenuation(half)) == pytest.approx(0.5, rel=1e-12)
    assert float(Markov(0.01).attenuation(torch.tensor(1e300).double())) == 0.0


def test_matern_at_long_times() -> None:
    far = torch.tensor(1e300, dtype=torch.float64)
    assert [float(Smooth(1.0, nu).attenuation(far)) for nu in (1.5, 2.5, math.inf)] == [0.0] * 3


def strategy(decay: Decay) -> Strategy:
    return GPStrategy(kernel=RBFKernel().double(), noise=0.02, decay=decay)


def odd(base: type[Decay] = Decay, *given: float, **methods: Any) -> Decay:
    """A decay with other methods."""
    return type("Odd", (base,), methods)(*given)


def unstable() -> Decay:
    return odd(
        markovian=True,
        prior_variance=lambda self, elapsed: torch.exp(0.1 * elapsed),
        attenuation=lambda self, elapsed: torch.exp(0.05 * elapsed),
    )


SOUND = [
    Static(),
    *(Markov(epsilon) for epsilon in (0.0, 1e-15, 0.03, 1 - 1e-12, 1.0)),
    *(Wiener(sigma_w2) for sigma_w2 in (0.0, 1e-15, 0.03, 1e100)),
    PeriodicMarkov(0.03, 7.0, 0.5),
    *(Smooth(length, nu) for length in (1e-100, 7.0, 1e100) for nu in (1.5, 2.5, math.inf)),
    *(QuasiPeriodic(), DampedDrift(), DriftByCovariance(), unstable()),
]


@pytest.mark.parametrize("decay", SOUND, ids=lambda decay: str(decay).split(" ")[0])
def test_a_covariance_is_accepted(decay: Decay) -> None:
    retained = strategy(decay).decay
    assert type(retained) is type(decay)
    assert vars(retained) == vars(decay)


REFUSED = {
    "claims to be Markovian, but correlations": odd(QuasiPeriodic, markovian=True),
    "claims to be Markovian": odd(Markov, 0.1, attenuation=lambda self, lag: 1 / (1 + lag)),
    r"Odd defines no covariance in time; define attenuation\(elapsed\)": odd(),
    "is not a covariance: .* has a negative eigenvalue, -": odd(
        attenuation=lambda self, elapsed: 1 + elapsed
    ),
    r"covariance\(s, t\) and covariance\(t, s\) must agree": odd(
        covariance=lambda self, first, second: torch.exp(-first + 0.5 * second)
    ),
    r"covariance must be finite, but at s = 0 and t = .* are inf": odd(
        attenuation=lambda self, elapsed: torch.exp(-elapsed) / (elapsed < 50)
    ),
    r"variance must be positive at all times, but at s = 0 .* are 0;": odd(
        covariance=lambda self, first, second: torch.minimum(first, second)
    ),
    r"prior_variance\(s\) and covariance\(s, s\) must agree": odd(
        attenuation=lambda self, elapsed: 0.5 * torch.exp(-elapsed)
    ),
    r"gives \(\), but the shape must be \(7, 12, 12\)": odd(
        attenuation=lambda self, elapsed: torch.exp(-elapsed.amax())
    ),
    r"prior_variance\(s\) attenuation\(t - s\) and covariance\(s, t\)": odd(
        DriftByCovariance, attenuation=lambda self, elapsed: torch.exp(-0.3 * elapsed)
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_invalid_decays_are_refused(message: str) -> None:
    with pytest.raises((ValueError, NotImplementedError), match=message):
        strategy(REFUSED[message])


@pytest.mark.parametrize("decay", [Markov(0.1), Wiener(0.2), DampedDrift(), DriftByCovariance()])
def test_transition_extends_the_covariance(decay: Decay) -> None:
    """D(r, t) = D(r, s) D(s, t) / D(s, s), for which any r may be asked."""
    r, s, t = (torch.tensor(time, dtype=torch.float64) for time in (0.7, 1.9, 4.4))
    carried = decay.transition(s, t) * decay.covariance(r, s)
    torch.testing.assert_close(carried, decay.covariance(r, t), rtol=1e-12, atol=0)
