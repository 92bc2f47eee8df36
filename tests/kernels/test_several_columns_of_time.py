"""Several columns of time count by their Euclidean distance, pair by pair as in a matrix."""

import pytest
import torch

from botorch_tv.kernels import MarkovKernel

D = torch.float64


def test_three_and_four_are_five():
    kernel = MarkovKernel(0.1).double()
    kernel.epsilon = 0.1
    x1, x2 = torch.zeros(1, 2, dtype=D), torch.tensor([[3.0, -4.0]], dtype=D)
    assert kernel(x1, x2, diag=True).item() == pytest.approx(0.9**2.5, rel=1e-14)
    assert kernel(x1, x2).to_dense().item() == pytest.approx(0.9**2.5, rel=1e-14)
