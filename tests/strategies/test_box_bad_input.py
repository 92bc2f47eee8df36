"""Kernels that do not fit a box are refused, and what a box keeps is its own.

Bounds and searches are refused in ``bad_input/test_domains.py``.
"""

import pickle

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import LinearKernel, PeriodicKernel, RBFKernel, ScaleKernel

from botorch_tv.acquisition import Thompson
from botorch_tv.strategies import Box, DiscreteSearch, GPStrategy, gp_ucb

D = torch.float64
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)


def test_kernels_without_variance():
    flat = ScaleKernel(LinearKernel()).double()
    flat.base_kernel.raw_variance.data.fill_(torch.nan)
    with pytest.raises(InputDataError, match="NaN"):
        gp_ucb(kernel=flat, noise=0.1).init(Box(CUBE))


def test_thompson_needs_a_spectrum_and_says_so_before_the_first_round():
    strategy = GPStrategy(kernel=PeriodicKernel().double(), noise=0.1, exploration=Thompson())
    with pytest.raises(ValueError, match="Thompson"):
        strategy.init(Box(CUBE))


@pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
@pytest.mark.parametrize("dtype", [torch.float32, D])
def test_points_on_the_border_are_inside_to_rounding(dtype):
    box = Box(torch.tensor([[0.1, -1 / 3], [0.7, 1e3 + 1 / 3]], dtype=D))
    strategy = gp_ucb(kernel=RBFKernel(), noise=0.1)
    state = strategy.init(box, dtype=dtype)
    for corner in box.bounds.to(dtype):
        assert strategy.suggestion_at(state, corner).mean == 0
    span = (box.bounds[1] - box.bounds[0]).to(dtype)
    just = box.bounds[1].to(dtype) + 2 * torch.finfo(dtype).eps * span
    assert strategy.suggestion_at(state, just).mean == 0
    with pytest.raises(InputDataError, match="outside"):
        strategy.suggestion_at(state, box.bounds[1].to(dtype) + 1e-4 * span)


def test_a_box_keeps_its_own_bounds_and_can_be_pickled():
    bounds = CUBE.clone()
    box = Box(bounds, context_dim=2, search=DiscreteSearch(CUBE))
    bounds[1] = 7.0
    assert box.bounds.max() == 1.0
    assert (box.dim, box.columns) == (2, 4)
    again = pickle.loads(pickle.dumps(box))
    assert torch.equal(again.bounds, box.bounds)
    assert torch.equal(again.search.X, CUBE)
    assert "context_dim=2" in repr(again)
    inside = box.from_unit(torch.rand(5, 2, dtype=D))
    torch.testing.assert_close(box.from_unit(box.to_unit(inside)), inside)
