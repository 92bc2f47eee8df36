"""Where a box ends."""

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel

from botorch_tv.strategies import Box, gp_ucb

D = torch.float64


@pytest.mark.parametrize("side", [1.0, 20.0])
def test_points_may_lie_outside_by_a_billionth_of_a_side(side):
    box = Box(torch.tensor([[0.0, 0.0], [side, side]], dtype=D))
    strategy = gp_ucb(kernel=RBFKernel().double(), noise=0.1)
    state = strategy.init(box)
    for share, fits in ((0.9e-9, True), (1.2e-9, False)):
        for corner, outwards in ((0.0, -1), (side, 1)):
            X = torch.tensor([0.5 * side, corner + outwards * share * side], dtype=D)
            if fits:
                strategy.suggestion_at(state, X)
            else:
                with pytest.raises(InputDataError, match="outside"):
                    strategy.suggestion_at(state, X)
