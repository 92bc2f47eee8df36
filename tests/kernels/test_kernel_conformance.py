"""GPyTorch's own test case for kernels, on each of ours."""

import unittest

import torch
from conformance.strangers import Seasonal
from gpytorch.kernels import RBFKernel
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase

from botorch_tv.forgetting import ExponentialWeights
from botorch_tv.kernels import (
    AgeWeight,
    DecayKernel,
    MarkovKernel,
    SpatioTemporalKernel,
    WeightedKernel,
    WienerKernel,
)


class TestMarkov(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, **kwargs):
        return MarkovKernel(epsilon=0.3, **kwargs)


class TestWiener(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, **kwargs):
        return WienerKernel(sigma_w2=0.3, origin=-1.0, **kwargs)


class TestDecay(BaseKernelTestCase, unittest.TestCase):
    """Any decay, with two parameters."""

    def create_kernel_no_ard(self, **kwargs):
        return DecayKernel(Seasonal(rate=0.2, period=9.0), **kwargs)


class TestWeighted(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, batch_shape=None, active_dims=None):
        weight = AgeWeight(ExponentialWeights(0.8), now=2.0)
        return WeightedKernel(RBFKernel(batch_shape=batch_shape), weight, active_dims)


class TestMarkovInTimeAndSpace(BaseKernelTestCase, unittest.TestCase):
    def create_kernel_no_ard(self, batch_shape=None, active_dims=None):
        return SpatioTemporalKernel(
            RBFKernel(batch_shape=batch_shape),
            MarkovKernel(epsilon=0.3, batch_shape=batch_shape),
            active_dims=active_dims,
        )

    def create_kernel_ard(self, num_dims, batch_shape=None):
        return SpatioTemporalKernel(
            RBFKernel(ard_num_dims=num_dims - 1, batch_shape=batch_shape),
            MarkovKernel(epsilon=0.3, batch_shape=batch_shape),
        )


class TestWienerInTimeAndSpace(BaseKernelTestCase, unittest.TestCase):
    """The temporal factor has no batch of its own here; time is the first column."""

    def create_kernel_no_ard(self, batch_shape=None, active_dims=None):
        return SpatioTemporalKernel(
            RBFKernel(batch_shape=batch_shape),
            WienerKernel(sigma_w2=torch.tensor(0.3).item(), origin=-1.0),
            time_dim=0,
            active_dims=active_dims,
        )
