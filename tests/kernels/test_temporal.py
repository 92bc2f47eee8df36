"""Temporal and fused kernels: formulas, the ends of their parameters, batches, priors."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
from gpytorch.kernels import RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from numpy.testing import assert_allclose
from oracles.dense import decay_between

from botorch_tv.kernels import MarkovKernel, SpatioTemporalKernel, WienerKernel

TIMES = torch.tensor([0.0, 0.25, 1.0, 1.0, 4.5, 100.0], dtype=torch.float64)


def markov(epsilon, dtype=torch.float64):
    kernel = MarkovKernel().to(dtype)
    kernel.epsilon = epsilon
    return kernel


@pytest.mark.parametrize("epsilon", [0.0, 1e-12, 0.03, 0.5, 0.999])
def test_markov_is_its_formula(epsilon):
    dense = markov(epsilon)(TIMES.unsqueeze(-1)).to_dense().detach().numpy()
    expected = decay_between(("markov", epsilon), TIMES.numpy(), TIMES.numpy(), 0.0)
    assert_allclose(dense, expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("epsilon", [0.0, 1e-9, 0.3, 1 - 1e-6])
@pytest.mark.parametrize("diag", [False, True])
def test_markov_has_finite_gradients_up_to_its_bounds(epsilon, diag):
    kernel = markov(min(epsilon, float(MarkovKernel().double().raw_epsilon_constraint.upper_bound)))
    x = TIMES.unsqueeze(-1).clone().requires_grad_()
    kernel(x, diag=True).sum().backward() if diag else kernel(x).to_dense().sum().backward()
    assert kernel.raw_epsilon.grad.isfinite().all()
    assert x.grad.isfinite().all()


def test_markov_gradient_at_zero_is_minus_half_the_distance():
    kernel = markov(0.0)
    kernel(TIMES[:1, None], TIMES[4:5, None]).to_dense().sum().backward()
    assert kernel.raw_epsilon.grad.item() == pytest.approx(-4.5 / 2, rel=1e-14)


def test_long_times_keep_their_digits():
    start = 1.7e9
    x = torch.tensor([[start], [start + 30.0]], dtype=torch.float64)
    entry = markov(0.01)(x).to_dense()[0, 1].item()
    assert entry == pytest.approx(0.99**15, rel=1e-13)


def test_wiener_is_its_formula_per_batch():
    origin = torch.tensor([0.0, -2.0], dtype=torch.float64)
    kernel = WienerKernel(origin=origin, batch_shape=torch.Size([2])).double()
    kernel.sigma_w2 = torch.tensor([0.3, 0.0], dtype=torch.float64)[:, None, None]
    dense = kernel(TIMES.unsqueeze(-1)).to_dense().detach().numpy()
    for member, gain in ((0, 0.3), (1, 0.0)):
        expected = decay_between(
            ("wiener", gain), TIMES.numpy(), TIMES.numpy(), origin[member].item()
        )
        assert_allclose(dense[member], expected, rtol=1e-14)
    diagonal = kernel(TIMES.unsqueeze(-1), diag=True).detach().numpy()
    assert_allclose(diagonal, np.einsum("bii->bi", dense), rtol=0, atol=0)


def test_wiener_has_not_begun_before_its_origin():
    kernel = WienerKernel(sigma_w2=1.0, origin=2.0)
    early = kernel(torch.tensor([[0.0], [1.0], [3.0]])).to_dense()
    assert torch.equal(early, torch.tensor([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 1.0, 2.0]]))


@pytest.mark.parametrize("kernel", [MarkovKernel(0.2), WienerKernel(0.2)])
def test_columns_can_be_a_batch(kernel):
    x = torch.rand(7, 3)
    with pytest.warns(DeprecationWarning, match="last_dim_is_batch"):
        together = kernel(x, last_dim_is_batch=True).to_dense()
    with pytest.warns(DeprecationWarning, match="last_dim_is_batch"):
        diagonal = kernel(x, diag=True, last_dim_is_batch=True)
    for column in range(3):
        alone = kernel(x[:, column : column + 1]).to_dense()
        assert torch.allclose(together[column], alone)
        assert torch.allclose(diagonal[column], alone.diagonal())


def test_priors_by_default_own_and_none():
    assert [name for name, *_ in MarkovKernel().named_priors()] == ["epsilon_prior"]
    assert [name for name, *_ in WienerKernel().named_priors()] == ["sigma_w2_prior"]
    assert not list(MarkovKernel(epsilon_prior=None).named_priors())
    own = GammaPrior(2.0, 10.0)
    kernel = MarkovKernel(epsilon_prior=own)
    _, module, prior, closure, put = next(kernel.named_priors())
    assert prior is own
    put(module, torch.tensor(0.125))
    assert closure(module).item() == 0.125
    for other in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        _, module, _, closure, put = next(other.named_priors())
        put(module, torch.tensor(0.5))
        assert other.epsilon.item() == 0.5
    assert kernel.epsilon.item() == 0.125


def test_prior_is_finite_where_nothing_is_forgotten():
    for kernel in (MarkovKernel(epsilon=0.0), WienerKernel(sigma_w2=0.0)):
        _, module, prior, closure, _ = next(kernel.named_priors())
        log_prob = prior.log_prob(closure(module)).sum()
        log_prob.backward()
        assert math.isfinite(log_prob.item())
        assert all(p.grad is None or p.grad.isfinite().all() for p in kernel.parameters())


@pytest.mark.parametrize("diag", [False, True])
@pytest.mark.parametrize("columns", [1, 2])
def test_markov_at_1_correlates_equal_times_only(columns, diag):
    kernel = MarkovKernel(epsilon=1.0).double()
    assert not kernel.raw_epsilon.requires_grad
    assert not list(kernel.named_priors())
    x = TIMES.unsqueeze(-1).expand(6, columns).clone().requires_grad_()
    if diag:
        assert torch.equal(kernel(x, x.flip(0), diag=True), torch.tensor([0.0, 0, 1, 1, 0, 0]))
        return
    dense = kernel(x).to_dense()
    expected = decay_between(("markov", 1.0), TIMES.numpy(), TIMES.numpy(), 0.0)
    np.testing.assert_array_equal(dense.detach().numpy(), expected)
    kernel.raw_epsilon.requires_grad_()
    kernel(x).to_dense().sum().backward()
    assert kernel.raw_epsilon.grad.isfinite().all()
    assert x.grad.isfinite().all()


def test_fused_is_the_product_wherever_time_is():
    x = torch.rand(9, 3, dtype=torch.float64)
    spatial = ScaleKernel(RBFKernel(ard_num_dims=2)).double()
    for time in (0, 1, 2):
        rest = [column for column in range(3) if column != time]
        kernel = SpatioTemporalKernel(spatial, markov(0.2), time_dim=time)
        expected = spatial(x[:, rest]).to_dense() * markov(0.2)(x[:, [time]]).to_dense()
        assert torch.allclose(kernel(x).to_dense(), expected, rtol=1e-14)
        assert torch.allclose(kernel(x, diag=True), expected.diagonal(), rtol=1e-14)
        from_behind = SpatioTemporalKernel(spatial, markov(0.2), time_dim=time - 3)
        assert torch.equal(from_behind(x).to_dense(), kernel(x).to_dense())


def test_fused_without_a_temporal_factor_ignores_time():
    x = torch.rand(9, 3, dtype=torch.float64)
    kernel = SpatioTemporalKernel(RBFKernel().double(), None)
    assert torch.equal(kernel(x).to_dense(), RBFKernel().double()(x[:, :2]).to_dense())
    assert kernel.is_stationary
    assert SpatioTemporalKernel(RBFKernel(), MarkovKernel()).is_stationary
    assert not SpatioTemporalKernel(RBFKernel(), WienerKernel()).is_stationary


def test_fused_batches_with_active_dims_can_be_expanded_and_indexed():
    spatial = ScaleKernel(RBFKernel(batch_shape=torch.Size([3]), active_dims=(1,)))
    spatial.base_kernel.lengthscale = torch.tensor([0.2, 0.5, 1.0])[:, None, None]
    kernel = SpatioTemporalKernel(spatial, MarkovKernel(0.3), active_dims=(0, 2, 3))
    x = torch.rand(3, 6, 4)
    dense = kernel(x).to_dense()
    for member in range(3):
        assert torch.allclose(kernel[member](x[member]).to_dense(), dense[member], atol=1e-6)
    wide = kernel.expand_batch(torch.Size([2, 3]))
    assert wide.batch_shape == torch.Size([2, 3])
    assert torch.allclose(wide(x).to_dense(), dense.expand(2, 3, 6, 6))
    assert wide.temporal.epsilon.shape == (2, 3, 1, 1)
    with pytest.raises(RuntimeError, match=r"cannot be expanded|[Bb]roadcast|must match"):
        kernel.expand_batch(torch.Size([4]))


def test_many_points_with_a_common_time_share_its_decay():
    kernel = SpatioTemporalKernel(RBFKernel().double(), markov(0.2))
    x, points = torch.rand(9, 3, dtype=torch.float64), torch.rand(70, 3, dtype=torch.float64)
    x[:, 2] = torch.arange(9)
    points[:, 2] = 12.0
    with torch.no_grad():
        together = kernel(x, points).to_dense()
        apart = torch.cat([kernel(x, point).to_dense() for point in points.split(1)], 1)
    assert torch.allclose(together, apart, rtol=1e-13, atol=0)
    points.requires_grad_()
    (gradient,) = torch.autograd.grad(kernel(x, points).to_dense().sum(), points)
    expected = together.sum(0) * 0.5 * math.log(0.8)
    assert torch.allclose(gradient[:, 2], expected, rtol=1e-10)
    points.requires_grad_(False)
    points[5, 2] = 13.0
    assert not torch.allclose(kernel(x, points).to_dense()[:, 5], together[:, 5])
