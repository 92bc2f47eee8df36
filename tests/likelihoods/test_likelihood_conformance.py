"""GPyTorch's own test case for likelihoods, with each inflation, on five rows of training data."""

import unittest

import torch
from gpytorch.test.base_likelihood_test_case import BaseLikelihoodTestCase

from botorch_tv.forgetting import ExponentialWeights, Static, UncertaintyInjection
from botorch_tv.likelihoods import AgeNoiseLikelihood


class Case(BaseLikelihoodTestCase):
    seed = 0
    parts: tuple = ()

    def create_likelihood(self, **kwargs):
        likelihood = AgeNoiseLikelihood(*self.parts, now=3.0, **kwargs)
        likelihood.set_training_data(torch.linspace(2.0, 3.0, 5).unsqueeze(-1).to(likelihood.noise))
        # The noise of GPyTorch's likelihoods, ln 2, for which 512 samples are enough.
        return likelihood.initialize(noise=0.693)


class TestExponential(Case, unittest.TestCase):
    parts = (ExponentialWeights(0.9),)


class TestInjection(Case, unittest.TestCase):
    parts = (UncertaintyInjection(1.0, 0.5),)


class TestConstant(Case, unittest.TestCase):
    parts = (Static(),)
