"""Boxes, searches and kernels that do not fit are refused with words."""

import pickle

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import (
    AdditiveKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    ScaleKernel,
)

from botorch_tv.acquisition import Thompson
from botorch_tv.strategies import Box, Candidates, MultiStart, Strategy, gp_ucb

D = torch.float64
CUBE = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D)


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (CUBE[0], "2 x d"),
        (CUBE.expand(3, 2, 2), "2 x d"),
        (torch.zeros(3, 2, dtype=D), "2 x d"),
        ([[0.0, 0.0], [1.0, 1.0]], "2 x d"),
        (CUBE.long(), "float64"),
        (torch.zeros(2, 0, dtype=D), "at least one"),
        (CUBE.flip(0), "below"),
        (torch.zeros(2, 2, dtype=D), "below"),
        (torch.tensor([[0.0], [torch.inf]], dtype=D), "finite"),
        (torch.tensor([[torch.nan], [1.0]], dtype=D), "finite"),
    ],
)
def test_bounds(bounds, words):
    with pytest.raises(InputDataError, match=words):
        Box(bounds)


def test_search_and_context():
    for number in (-1, 1.5, "2"):
        with pytest.raises(ValueError, match="context_dim"):
            Box(CUBE, context_dim=number)
    with pytest.raises(ValueError, match="search"):
        Box(CUBE, search="grid")
    for number in (0, -3, 2.5):
        for name in ("raw_samples", "restarts", "evaluations"):
            with pytest.raises(ValueError, match=name):
                MultiStart(**{name: number})


@pytest.mark.parametrize(
    "X",
    [
        torch.tensor([[0.5, 1.1]], dtype=D),
        torch.tensor([[0.5, torch.nan]], dtype=D),
        torch.rand(4, 3, dtype=D),
        torch.rand(4, dtype=D),
        torch.empty(0, 2, dtype=D),
        torch.zeros(3, 2, dtype=torch.int64),
        [[0.5, 0.5]],
    ],
)
def test_candidates(X):
    with pytest.raises(InputDataError, match="Candidates"):
        Box(CUBE, search=Candidates(X))


BATCH = torch.Size([3])


@pytest.mark.parametrize(
    ("kernel", "box"),
    [
        (torch.eye(4, dtype=D), CUBE),
        (RBFKernel(ard_num_dims=3), CUBE),
        (RBFKernel(ard_num_dims=3), CUBE[:, :1]),
        (ScaleKernel(MaternKernel(ard_num_dims=3)), CUBE[:, :1]),
        (ScaleKernel(MaternKernel(ard_num_dims=2, active_dims=[0])), CUBE),
        (RBFKernel(active_dims=[2]), CUBE),
        (ProductKernel(RBFKernel(ard_num_dims=3), RBFKernel()), CUBE),
        (RBFKernel(batch_shape=BATCH), CUBE),
        (AdditiveKernel(RBFKernel(batch_shape=BATCH), RBFKernel()), CUBE),
    ],
)
def test_kernels(kernel, box):
    kernel = kernel.double()
    with pytest.raises(InputDataError, match="kernel"):
        gp_ucb(kernel=kernel, noise=0.1).init(Box(box))


def test_kernels_without_variance():
    flat = ScaleKernel(LinearKernel()).double()
    flat.base_kernel.raw_variance.data.fill_(torch.nan)
    with pytest.raises(InputDataError, match="NaN"):
        gp_ucb(kernel=flat, noise=0.1).init(Box(CUBE))


def test_thompson_needs_a_spectrum_and_says_so_before_the_first_round():
    strategy = Strategy(kernel=PeriodicKernel().double(), noise=0.1, exploration=Thompson())
    with pytest.raises(ValueError, match="Thompson"):
        strategy.init(Box(CUBE))


@pytest.mark.parametrize("dtype", [torch.float32, D])
def test_points_on_the_border_are_inside_to_rounding(dtype):
    """Also where the bounds are no numbers of float32."""
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
    box = Box(bounds, context_dim=2, search=Candidates(CUBE))
    bounds[1] = 7.0
    assert box.bounds.max() == 1.0
    assert (box.dim, box.columns) == (2, 4)
    again = pickle.loads(pickle.dumps(box))
    assert torch.equal(again.bounds, box.bounds)
    assert torch.equal(again.search.X, CUBE)
    assert "context_dim=2" in repr(again)
    inside = box.from_unit(torch.rand(5, 2, dtype=D))
    torch.testing.assert_close(box.from_unit(box.to_unit(inside)), inside)


def test_the_kernel_given_is_left_as_it_was():
    kernel = RBFKernel()  # float32, its parameters to be learned elsewhere
    strategy = gp_ucb(kernel=kernel, noise=0.1)
    state = strategy.init(Box(CUBE))
    strategy.tell(state, strategy.ask(state), torch.tensor(0.3, dtype=D))
    assert kernel.raw_lengthscale.dtype == torch.float32
    assert kernel.raw_lengthscale.requires_grad
    assert state.basis.variance.dtype == D
    assert not state.basis.kernel.raw_lengthscale.requires_grad
