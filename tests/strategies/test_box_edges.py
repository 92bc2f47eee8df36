"""Where a box ends."""

import torch

from botorch_tv.strategies import Box

D = torch.float64


def test_ascents_see_the_whole_slope_in_a_corner():
    box = Box(torch.tensor([[0.0, -1e3, -0.1], [1.0, 7.0, 0.2]], dtype=D))
    lower, upper = box.bounds
    assert (lower + (upper - lower) > upper).any()
    U = torch.tensor([[0.0] * 3, [1.0] * 3, [0.3] * 3], dtype=D, requires_grad=True)
    X = box.from_unit(U)
    assert torch.equal(X[:2], box.bounds)
    (gradient,) = torch.autograd.grad(X.sum(), U)
    assert torch.equal(gradient, (upper - lower).expand(3, 3))
