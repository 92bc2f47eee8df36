"""GPyTorch likelihoods of observations that age."""

from botorch_tv.likelihoods.age_noise import (
    AgeNoiseLikelihood,
    Aging,
    ExponentialAging,
    FixedAging,
    InjectionAging,
)

__all__ = ["AgeNoiseLikelihood", "Aging", "ExponentialAging", "FixedAging", "InjectionAging"]
