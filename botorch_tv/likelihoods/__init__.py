"""GPyTorch likelihoods of observations that age."""

from botorch_tv.likelihoods.age_noise import AgeNoiseLikelihood
from botorch_tv.likelihoods.aging import Aging, ExponentialAging, FixedAging, InjectionAging

__all__ = [
    "AgeNoiseLikelihood",
    "Aging",
    "ExponentialAging",
    "FixedAging",
    "InjectionAging",
]
