"""Points, bounds and variances at the edges of a domain."""

import pickle
from math import sin

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import LinearKernel, PeriodicKernel, RBFKernel, ScaleKernel

from botorch_tv.acquisition import Thompson
from botorch_tv.strategies import Box, DiscreteSearch, GPStrategy, Grid, gp_ucb

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


def test_a_box_copies_its_bounds_and_can_be_pickled():
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


BOX = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=D))


@pytest.mark.parametrize("domain", [Grid.regular(20, 2), BOX], ids=["grid", "box"])
def test_suggestions_among_points_that_tell_all_have_a_deviation(domain):
    kernel = RBFKernel().double()
    kernel.lengthscale = 0.5
    strategy = GPStrategy(kernel=kernel, noise=2e-14)
    source = torch.Generator().manual_seed(0)

    def points():
        if isinstance(domain, Box):
            return torch.rand(30, 2, dtype=D, generator=source)
        return domain.X.to(D)[torch.randint(len(domain), (30,), generator=source)]

    state = strategy.init(domain, batch_shape=(30,))
    observed = [points() for _ in range(60)]
    for X in observed:
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X), X.sum(-1))
    for X in [*observed, *(points() for _ in range(20))]:
        suggestion = strategy.suggestion_at(state, X)
        assert bool((suggestion.sd >= 0).all())  # NaN is not
        assert float(suggestion.sd.max()) < 0.01
        torch.testing.assert_close(suggestion.mean, X.sum(-1), rtol=0, atol=0.01)


X = torch.linspace(0, 1, 7, dtype=D).unsqueeze(-1)


@pytest.mark.parametrize("domain", [Grid(X), Box([(0.0, 1.0)])], ids=["grid", "box"])
@pytest.mark.parametrize("unit", [1e-9, 1.0])
def test_variances_in_any_unit(domain, unit):
    kernel = ScaleKernel(RBFKernel()).to(D)
    kernel.base_kernel.lengthscale = torch.tensor(0.3, dtype=D)
    kernel.outputscale = torch.tensor(unit**2, dtype=D)
    strategy = gp_ucb(kernel=kernel, noise=0.05 * unit**2)
    state = strategy.init(domain)
    for row in (1, 5, 5):
        state, _ = strategy.tell(state, strategy.suggestion_at(state, X[row]), unit * sin(row))
    K = torch.exp(-0.5 * (X - X.mT).square() / 0.3**2)
    observed = [1, 5, 5]
    whole = K[observed][:, observed] + 0.05 * torch.eye(3, dtype=D)
    wanted = K.diagonal() - (K[:, observed] * torch.linalg.solve(whole, K[observed]).mT).sum(-1)
    posterior = strategy.posterior(state, X)
    torch.testing.assert_close(posterior.variance.squeeze(-1) / unit**2, wanted, rtol=1e-7, atol=0)
    as_model = strategy.as_model(state).posterior(X.unsqueeze(-2))
    torch.testing.assert_close(as_model.variance.flatten() / unit**2, wanted, rtol=1e-7, atol=0)
