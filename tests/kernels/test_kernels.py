"""Temporal, fused and weighted kernels: formulas, bounds, batches, priors, GPyTorch's own tests."""

import copy
import math
import pickle
import unittest

import numpy as np
import pytest
import torch
from conformance.user_parts import DampedDrift, Seasonal, Settling
from gpytorch.constraints import Interval
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior
from gpytorch.test.base_kernel_test_case import BaseKernelTestCase
from helpers.compiled_strategies import smooth
from numpy.testing import assert_allclose
from oracles.dense import decay_between, regression, squared_exponential
from torch.testing import assert_close

from botorch_tv.forgetting import (
    Decay,
    ExponentialWeights,
    Markov,
    Smooth,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.kernels import (
    AgeWeight,
    DecayKernel,
    MarkovKernel,
    SpatioTemporalKernel,
    WeightedKernel,
    WienerKernel,
)

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


@pytest.mark.parametrize("nu", [1.5, 2.5, math.inf])
def test_smooth_is_an_ordinary_kernel_over_time(nu):
    ordinary = (RBFKernel() if nu == math.inf else MaternKernel(nu=nu)).double()
    ordinary.lengthscale = 3.5
    ours, times = DecayKernel(Smooth(3.5, nu)).double(), TIMES.unsqueeze(-1)
    assert_close(ours(times).to_dense(), ordinary(times).to_dense(), rtol=0, atol=1e-9)


def test_wiener_is_its_formula_per_batch():
    origin = torch.tensor([0.0, -2.0], dtype=torch.float64)
    kernel = WienerKernel(origin=origin, batch_shape=torch.Size([2])).double()
    kernel.sigma_w2 = torch.tensor([0.3, 0.0], dtype=torch.float64)[:, None, None]
    dense = kernel(TIMES.unsqueeze(-1)).to_dense().detach().numpy()
    times = TIMES.numpy()
    for member, gain in ((0, 0.3), (1, 0.0)):
        expected = decay_between(("wiener", gain), times, times, origin[member].item())
        assert_allclose(dense[member], expected, rtol=1e-14)
    diagonal = kernel(TIMES.unsqueeze(-1), diag=True).detach().numpy()
    assert_allclose(diagonal, np.einsum("bii->bi", dense), rtol=0, atol=0)


def test_priors_by_default_own_and_none():
    assert [name for name, *_ in MarkovKernel().named_priors()] == ["epsilon_prior"]
    assert [name for name, *_ in WienerKernel().named_priors()] == ["sigma_w2_prior"]
    assert not list(MarkovKernel(epsilon_prior=None).named_priors())
    kernel = MarkovKernel(epsilon_prior=GammaPrior(2.0, 10.0))
    for other in (copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        _, module, _, _, put = next(other.named_priors())
        put(module, torch.tensor(0.5))
        assert other.epsilon.item() == 0.5
    assert kernel.epsilon.item() != 0.5


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


D = torch.float64
COLUMN = torch.tensor([[0.0], [0.25], [1.0], [1.0], [4.5], [100.0]], dtype=D)
STRANGERS = [Seasonal(0.05, 9.0), Settling(0.2, 4.0), DampedDrift()]


def made(decay, **options):
    kernel = DecayKernel(decay, **options).double()
    kernel.restart()
    return kernel


@pytest.mark.parametrize("decay", STRANGERS, ids=lambda entry: type(entry).__name__)
@pytest.mark.parametrize("origin", [0.0, 0.5, -3.0])
def test_the_formula_of_the_decay(decay, origin):
    kernel, since = made(decay, origin=origin), (COLUMN - origin).clamp_min(0)
    if decay.stationary:
        since = COLUMN
    wanted = decay.covariance(since, since.T)
    assert_close(kernel(COLUMN).to_dense(), wanted, rtol=1e-12, atol=1e-14)
    assert_close(kernel(COLUMN, diag=True), wanted.diagonal(), rtol=1e-12, atol=0)
    assert kernel.is_stationary == isinstance(decay, Seasonal)


def test_those_of_the_package_are_cases_of_it():
    for general, own in (
        (DecayKernel(Markov(0.25)), MarkovKernel(0.25)),
        (DecayKernel(Wiener(0.25), origin=0.5), WienerKernel(0.25, 0.5)),
    ):
        assert torch.equal(general(COLUMN).to_dense(), own(COLUMN).to_dense())
        assert general.state_dict().keys() == own.state_dict().keys()


def test_a_batch_is_its_members():
    kernel = made(Settling(0.2), origin=torch.tensor([0.0, 1.0]), batch_shape=torch.Size([2]))
    kernel.set_value("rate", torch.tensor([0.1, 0.4], dtype=D)[:, None, None])
    dense = kernel(COLUMN).to_dense()
    for member, (rate, origin) in enumerate([(0.1, 0.0), (0.4, 1.0)]):
        alone = made(Settling(rate), origin=origin)(COLUMN).to_dense()
        assert_close(dense[member], alone, rtol=1e-13, atol=0)
        assert_close(kernel[member](COLUMN).to_dense(), alone, rtol=1e-13, atol=0)


@pytest.mark.parametrize("unit", [1e-4, 0.7, 1.0, 3.6e6])
@pytest.mark.parametrize(
    ("decay", "start"),
    [
        (Seasonal(0.05, 9.0), lambda unit: Seasonal(0.05 / unit, 9.0 * unit)),
        (Settling(0.2, 4.0), lambda unit: Settling(0.2 / unit, 4.0)),
        (Wiener(0.3), lambda unit: Wiener(0.3 / unit)),
    ],
    ids=["seasonal", "settling", "wiener"],
)
def test_measuring_changes_no_value(decay, start, unit):
    observed = made(start(unit), unit=torch.tensor(unit, dtype=D))
    wanted = made(decay)(COLUMN).to_dense()
    assert_close(observed(unit * COLUMN).to_dense(), wanted, rtol=1e-7, atol=1e-12)
    for name in decay.parameters:
        given = getattr(start(unit), name)
        assert observed.value(name).item() == pytest.approx(given, rel=1e-9)
    observed.measure(torch.tensor(2 * unit, dtype=D))
    assert_close(observed(unit * COLUMN).to_dense(), wanted, rtol=1e-7, atol=1e-12)


def test_bounds_hold_in_the_unit_it_is_learned_in():
    day = torch.tensor(24.0, dtype=D)
    with pytest.raises(ValueError, match=r"period is 240 over 1 units of time.* out of bounds"):
        DecayKernel(Seasonal(0.05, 240.0))
    kernel = made(Seasonal(0.05, 240.0), unit=day)
    assert kernel.value("period").item() == pytest.approx(240.0)
    with pytest.raises(ValueError, match=r"period is 1\.25 over 24 units of time.* out of bounds"):
        kernel.set_value("period", 30.0)


def test_declared_and_user_priors():
    priors = {name for name, *_ in DecayKernel(Seasonal(0.05, 9.0)).named_priors()}
    assert priors == {"rate_prior"}
    own = {"rate": None, "period": GammaPrior(2.0, 0.2)}
    kernel = made(Seasonal(0.05, 9.0), priors=own)
    kernel.measure(torch.tensor(0.5))
    for other in (kernel, copy.deepcopy(kernel), pickle.loads(pickle.dumps(kernel))):
        [(name, module, _, closure, put)] = other.named_priors()
        assert name == "period_prior"
        put(module, torch.tensor(12.0))
        assert closure(module).item() == pytest.approx(12.0)  # per unit of the input
        assert other.value("period").item() == pytest.approx(12.0)


def test_a_rate_too_high_to_learn_from_is_moved():
    kernel = DecayKernel(Markov(0.9999))
    kernel.listen(torch.tensor(2.0))
    assert kernel.value("epsilon").item() == pytest.approx(1 - 0.9**0.5, rel=1e-5)
    kernel = DecayKernel(Markov(0.05))
    kernel.listen(torch.tensor(2.0))
    assert kernel.value("epsilon").item() == pytest.approx(0.05, rel=1e-5)


def test_several_columns_count_by_their_euclidean_distance():
    markov = made(Markov(0.1))
    x1, x2 = torch.zeros(1, 2, dtype=D), torch.tensor([[3.0, -4.0]], dtype=D)
    assert markov(x1, x2, diag=True).item() == pytest.approx(0.9**2.5, rel=1e-14)
    x = torch.rand(5, 2, dtype=D)
    apart = torch.cdist(x, x)
    wanted = Seasonal(0.05, 9.0).attenuation(apart)
    assert_close(made(Seasonal(0.05, 9.0))(x).to_dense(), wanted, rtol=1e-7, atol=0)
    with pytest.raises(RuntimeError, match="2 columns of time"):
        made(Settling(0.2))(x).to_dense()


def test_own_bounds_keep_the_unit():
    kernel = DecayKernel(Markov(0.1), bounds={"epsilon": Interval(0.0, 0.5, transform=None)})
    kernel.measure(torch.tensor(7.0))
    assert kernel.unit.item() == 1
    with pytest.raises(ValueError, match="out of bounds"):
        kernel.set_value("epsilon", 0.6)


class Growing(Decay):
    def attenuation(self, elapsed):
        return 1 + elapsed


def test_a_function_that_is_no_covariance_is_refused():
    with pytest.raises(ValueError, match="is not a covariance"):
        DecayKernel(Growing())


NOISE = 0.05


def kernel_form(X, y, test_X, weight):
    """The paper's weighted regression, densely: K~ = W K W, y~ = W y, at unweighted test points."""
    weighted = WeightedKernel(SpatioTemporalKernel(smooth(0.3), None), weight)
    root = torch.exp(0.5 * weight(X))
    gram = weighted(X).to_dense() + NOISE * torch.eye(len(X)).double()
    across = weighted(X, test_X).to_dense()
    mean = across.mT @ torch.linalg.solve(gram, root * y)
    variance = 1.0 - (across * torch.linalg.solve(gram, across)).sum(0)
    return mean.detach(), variance.detach()


@pytest.mark.parametrize(
    ("inflation", "part"),
    [
        (ExponentialWeights(0.97), ("exponential", 0.97)),
        (ExponentialWeights(0.5), ("exponential", 0.5)),
        (UncertaintyInjection(1.5, 0.2), ("injection", 1.5, 0.2)),
    ],
)
def test_kernel_form_is_noise_form(inflation, part):
    generator = torch.Generator().manual_seed(0)
    X = torch.rand(40, 3, dtype=torch.float64, generator=generator)
    X[:, 2] = torch.arange(40) * 0.75
    y = torch.sin(6 * X[:, 0]) + X[:, 1]
    now = X[-1, 2].item() + 2.0
    test_X = torch.rand(15, 3, dtype=torch.float64, generator=generator)
    test_X[:, 2] = now
    mean, variance = kernel_form(X, y, test_X, AgeWeight(inflation, now))
    K = squared_exponential(torch.cat([X, test_X])[:, :2].numpy(), 0.3)
    dense_mean, dense_variance = regression(
        K, range(40), X[:, 2].tolist(), y.tolist(), now, noise=NOISE, inflation=part, reference=now
    )
    np.testing.assert_allclose(mean.numpy(), dense_mean[40:], rtol=0, atol=1e-10)
    np.testing.assert_allclose(variance.numpy(), dense_variance[40:], rtol=0, atol=1e-10)


def test_later_times_have_full_weight():
    X = torch.tensor([[0.0, 4.0], [0.0, 6.0], [0.0, 9.0]], dtype=torch.float64)
    weight = AgeWeight(ExponentialWeights(0.8), now=6.0)(X)
    assert weight[1:].tolist() == [0.0, 0.0]
    assert weight[0].item() == pytest.approx(2 * np.log(0.8))


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
