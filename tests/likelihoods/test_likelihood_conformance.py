"""GPyTorch's own test case for likelihoods, with each inflation.

The case compares closed forms with 512 samples, which a small noise spreads too far: the noise is
that of GPyTorch's own likelihoods, ln 2, rather than BoTorch's 0.007. It calls likelihoods without
inputs, which then stand for the training data: five rows, as the case has them.
"""

import unittest

import torch
from gpytorch.test.base_likelihood_test_case import BaseLikelihoodTestCase

from botorch_tv.forgetting import ExponentialWeights, Static, UncertaintyInjection
from botorch_tv.likelihoods import AgeNoiseLikelihood


def told(likelihood):
    likelihood.set_training_data(torch.linspace(2.0, 3.0, 5).unsqueeze(-1).to(likelihood.noise))
    return likelihood.initialize(noise=0.693)


class TestExponential(BaseLikelihoodTestCase, unittest.TestCase):
    seed = 0

    def create_likelihood(self, **kwargs):
        return told(AgeNoiseLikelihood(ExponentialWeights(0.9), **kwargs))


class TestInjection(BaseLikelihoodTestCase, unittest.TestCase):
    seed = 0

    def create_likelihood(self, **kwargs):
        return told(AgeNoiseLikelihood(UncertaintyInjection(1.0, 0.5), now=3.0, **kwargs))


class TestConstant(BaseLikelihoodTestCase, unittest.TestCase):
    seed = 0

    def create_likelihood(self, **kwargs):
        return told(AgeNoiseLikelihood(Static(), **kwargs))
