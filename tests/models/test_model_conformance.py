"""GPyTorch's own test case for models."""

import unittest

import torch
from gpytorch.test.model_test_case import BaseModelTestCase
from models.cases import plain

from botorch_tv.forgetting import ExponentialWeights, Markov, UncertaintyInjection, Wiener
from botorch_tv.likelihoods import AgeNoiseLikelihood

THREE = torch.Size([3])


class AgedModelTestCase(BaseModelTestCase):
    """Targets gain the dimension of outputs that BoTorch's models want."""

    forgetting = None

    def create_model(self, train_x, train_y, likelihood):
        return plain(
            train_x, train_y.unsqueeze(-1), likelihood=likelihood, forgetting=self.forgetting[0]
        )

    def create_test_data(self):
        return torch.rand(50, 2, dtype=torch.float64)

    def create_likelihood_and_labels(self):
        return AgeNoiseLikelihood(self.forgetting[1]), torch.randn(50).double()

    def create_batch_test_data(self, batch_shape=THREE):
        return torch.rand(*batch_shape, 50, 2, dtype=torch.float64)

    def create_batch_likelihood_and_labels(self, batch_shape=THREE):
        likelihood = AgeNoiseLikelihood(self.forgetting[1], batch_shape=batch_shape)
        return likelihood, torch.randn(*batch_shape, 50).double()


class TestMarkovAndWeights(AgedModelTestCase, unittest.TestCase):
    forgetting = (Markov(0.1), ExponentialWeights(0.9))


class TestWienerAndInjection(AgedModelTestCase, unittest.TestCase):
    forgetting = (Wiener(0.1), UncertaintyInjection(1.0))
