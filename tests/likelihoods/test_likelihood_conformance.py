"""GPyTorch's own test case for likelihoods, with each inflation.

The case compares closed forms with 512 samples, which a small noise spreads too far: the noise is
that of GPyTorch's own likelihoods, ln 2, rather than BoTorch's 0.007.
"""

import unittest

from gpytorch.test.base_likelihood_test_case import BaseLikelihoodTestCase

from botorch_tv.forgetting import ExponentialWeights, Static, UncertaintyInjection
from botorch_tv.likelihoods import AgeNoiseLikelihood


class TestExponential(BaseLikelihoodTestCase, unittest.TestCase):
    seed = 0

    def create_likelihood(self, **kwargs):
        return AgeNoiseLikelihood(ExponentialWeights(0.9), **kwargs).initialize(noise=0.693)


class TestInjection(BaseLikelihoodTestCase, unittest.TestCase):
    seed = 0

    def create_likelihood(self, **kwargs):
        return AgeNoiseLikelihood(UncertaintyInjection(1.0, 0.5), now=3.0, **kwargs).initialize(
            noise=0.693
        )


class TestConstant(BaseLikelihoodTestCase, unittest.TestCase):
    seed = 0

    def create_likelihood(self, **kwargs):
        return AgeNoiseLikelihood(Static(), **kwargs).initialize(noise=0.693)
