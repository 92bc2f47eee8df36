"""GPyTorch likelihoods for observations whose noise grows with age."""

from botorch_tv.likelihoods.age_noise import AgeNoiseLikelihood, Aging

__all__ = ["AgeNoiseLikelihood", "Aging"]
