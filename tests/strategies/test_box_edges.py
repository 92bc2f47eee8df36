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


def test_ascents_see_the_whole_slope_in_a_corner():
    """Points are affine in the cube: the gradient is the side, also where rounding leads beyond."""
    box = Box(torch.tensor([[0.0, -1e3, -0.1], [1.0, 7.0, 0.2]], dtype=D))
    lower, upper = box.bounds
    assert (lower + (upper - lower) > upper).any()
    U = torch.tensor([[0.0] * 3, [1.0] * 3, [0.3] * 3], dtype=D, requires_grad=True)
    X = box.from_unit(U)
    assert torch.equal(X[:2], box.bounds)
    (gradient,) = torch.autograd.grad(X.sum(), U)
    assert torch.equal(gradient, (upper - lower).expand(3, 3))
