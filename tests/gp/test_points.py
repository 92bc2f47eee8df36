"""Kernels, features, posteriors and drawn functions at points, against GPyTorch and dense numpy."""

import math

import mpmath
import numpy as np
import pytest
import torch
from gp.kernels import made, scaled
from gpytorch.kernels import (
    AdditiveKernel,
    LinearKernel,
    MaternKernel,
    PeriodicKernel,
    ProductKernel,
    RBFKernel,
    RQKernel,
    ScaleKernel,
)
from oracles import exact
from oracles.dense import decay_between, joint_regression
from torch.testing import assert_close

from botorch_tv.gp.point_kernel import (
    FREQUENCIES,
    General,
    Stationary,
    frequencies,
    point_kernel,
    spectral_normals,
)
from botorch_tv.gp.points import point_posterior
from botorch_tv.gp.regression import Observations

D = torch.float64
SINGLE = torch.Size([1])
WRITTEN_OUT = {
    "rbf": made("rbf", 0.4),
    "rbf ard": made("rbf", 0.4, 0.9, 0.2),
    "rbf column": made("rbf", 0.4, active_dims=[1]),
    "rbf columns ard": made("rbf", 0.4, 0.8, active_dims=[2, 0]),
    "matern12": made(0.5, 0.4),
    "matern32": made(1.5, 0.4),
    "matern52": made(2.5, 0.4),
    "matern52 ard": made(2.5, 0.4, 0.9, 0.2),
    "scaled": made(1.5, 0.4, scale=2.5),
    "scaled column": made("rbf", 0.4, scale=2.5, active_dims=[2]),
    "column scaled": scaled(made("rbf", 0.4), 0.3, active_dims=[0, 2]),
    "batch of 1": made("rbf", 0.4, batch_shape=SINGLE),
    "scaled batch of 1": scaled(made("rbf", 0.4, batch_shape=SINGLE), 2.5, batch_shape=SINGLE),
}
OTHERS = {
    "product": ProductKernel(WRITTEN_OUT["rbf column"], WRITTEN_OUT["matern52 ard"]),
    "sum": AdditiveKernel(WRITTEN_OUT["scaled"], WRITTEN_OUT["rbf"]),
    "periodic": ScaleKernel(PeriodicKernel()).double(),
    "rational quadratic": RQKernel(ard_num_dims=3).double(),
    "linear": LinearKernel().double(),
}
ALL = WRITTEN_OUT | OTHERS


def points(trials, q, seed=0):
    return torch.rand(trials, q, 3, generator=torch.Generator().manual_seed(seed), dtype=D)


@pytest.mark.parametrize("name", ALL)
def test_as_gpytorch_evaluates_it(name):
    kernel, ready = ALL[name].requires_grad_(False), point_kernel(ALL[name])
    assert isinstance(ready, Stationary if name in WRITTEN_OUT else General)
    X1, X2 = points(4, 5), points(4, 6, seed=1)
    X2[:, 0] = X1[:, 2]
    wanted = torch.stack([kernel(a, b).to_dense().reshape(5, 6) for a, b in zip(X1, X2)])
    assert_close(ready.covariance(X1, X2), wanted, rtol=0, atol=1e-7)
    apart = (X1.unsqueeze(2) - X2.unsqueeze(1)).abs().amax(-1) > 0
    assert_close(ready.covariance(X1, X2)[apart], wanted[apart], rtol=0, atol=1e-12)
    diagonal = torch.stack([kernel(a, a).to_dense().reshape(5, 5).diagonal() for a in X1])
    assert_close(ready.variance(X1), diagonal, rtol=0, atol=1e-7)
    some = torch.tensor([3, 1])
    picked = ready.select(some).covariance(X1[some], X2[some])
    assert_close(picked, wanted[some], rtol=0, atol=1e-7)
    assert ready.covariance(X1, X2[:, :0]).shape == (4, 5, 0)  # before any observation


@pytest.mark.parametrize("name", ALL)
def test_slopes_by_finite_differences_and_finite_at_data(name):
    ready = point_kernel(ALL[name].requires_grad_(False))
    X1, X2 = points(2, 3).requires_grad_(True), points(2, 4, seed=1)
    assert torch.autograd.gradcheck(lambda X: ready.covariance(X, X2), X1)
    (slope,) = torch.autograd.grad(ready.covariance(X1, X1.detach()).sum(), X1)
    assert slope.isfinite().all()


def test_a_kernel_per_trial():
    shape = torch.Size([3])
    kernel = ScaleKernel(
        MaternKernel(nu=2.5, batch_shape=shape, active_dims=[0, 1]), batch_shape=shape
    ).double()
    kernel.base_kernel.lengthscale = torch.tensor([0.2, 0.5, 1.0], dtype=D).view(3, 1, 1)
    kernel.outputscale = torch.tensor([1.0, 2.0, 3.0], dtype=D)
    kernel.requires_grad_(False)
    ready, X1, X2 = point_kernel(kernel), points(3, 4), points(3, 5, seed=1)
    wanted = kernel(X1, X2).to_dense()
    assert_close(ready.covariance(X1, X2), wanted, rtol=0, atol=1e-12)
    some = torch.tensor([2, 0])
    picked = ready.select(some).covariance(X1[some], X2[some])
    assert_close(picked, wanted[some], rtol=0, atol=1e-12)
    assert ready.variance(X1).tolist() == [[1.0] * 4, [2.0] * 4, [3.0] * 4]
    with pytest.raises(ValueError, match="batch shape"):
        point_kernel(RQKernel(batch_shape=shape))


WAVES = 60


@pytest.mark.parametrize(
    ("kind", "columns"), [("rbf", None), (0.5, None), (1.5, None), (2.5, None), (2.5, [2, 0])]
)
def test_inner_products_are_the_kernel(kind, columns):
    kernel = point_kernel(made(kind, 0.3, 0.6, scale=2.0, active_dims=columns))
    generator = torch.Generator().manual_seed(0)
    shape = (WAVES, FREQUENCIES, 2 + spectral_normals(kernel))
    frequency = frequencies(kernel, torch.randn(shape, generator=generator, dtype=D))
    d = 3 if columns else 2
    X = torch.rand(6, d, generator=generator, dtype=D).expand(WAVES, 6, d)
    phi = kernel.waves(X, frequency)
    assert phi.shape == (WAVES, 6, 2 * FREQUENCIES)
    gram, wanted = phi @ phi.mT, kernel.covariance(X, X)
    assert (gram - wanted).abs().max() < 2.0 * 5 / math.sqrt(FREQUENCIES)
    error = 2.0 / math.sqrt(2 * WAVES * FREQUENCIES)  # var cos <= 1/2 away from the diagonal
    assert (gram.mean(0) - wanted[0]).abs().max() < 5 * math.sqrt(2) * error
    diagonal = gram.diagonal(dim1=-2, dim2=-1)
    torch.testing.assert_close(diagonal, torch.full_like(diagonal, 2.0))
    some = torch.tensor([7, 3])
    torch.testing.assert_close(kernel.select(some).waves(X[some], frequency[some]), phi[some])


def test_other_kernels_have_no_spectrum():
    kernel = AdditiveKernel(RBFKernel(), MaternKernel())
    with pytest.raises(ValueError, match="Thompson"):
        spectral_normals(point_kernel(kernel))


DECAYS = {
    "static": ("static",),
    "markov": ("markov", 0.2),
    "wiener": ("wiener", 0.3),
    "quasi-periodic": ("quasi-periodic", 0.05, 0.6),
    "damped": ("damped", 0.2, 3.0),
}


def data(trials, n, seed=0, d=2):
    random = np.random.default_rng(seed)
    X, y = random.random((trials, n, d)), random.standard_normal((trials, n))
    noise = 0.02 + 0.3 * random.random((trials, n))
    times = np.cumsum(random.exponential(1.0, (trials, n)), -1)
    live = random.random((trials, n)) < 0.8
    return X, y, noise, times, live


def observations(X, y, noise, times, live, decay, now):
    """One trial per row, Wiener's clock starting at 0."""
    root = torch.tensor(np.where(live, noise**-0.5, 0.0))
    parts = {}
    if decay[0] != "static":
        at = np.array([now])
        parts = {
            "decay": np.stack([decay_between(decay, t, t, 0.0) for t in times]),
            "present_decay": np.stack([decay_between(decay, t, at, 0.0)[:, 0] for t in times]),
            "prior_factor": np.full(len(X), decay_between(decay, at, at, 0.0)[0, 0]),
        }
    parts = {name: torch.tensor(part) for name, part in parts.items()}
    return Observations(torch.tensor(X), torch.tensor(y), root, **parts)


def test_noise_of_1e_10_against_fifty_digits():
    """A smooth function, measured twice at almost the same point."""
    random = np.random.default_rng(3)
    X = np.sort(random.random((1, 12, 1)), axis=1)
    X[0, 5] = X[0, 4] + 1e-9
    y = np.sin(6 * X[..., 0])
    noise, query = np.full((1, 12), 1e-10), np.array([[[0.05], [0.5], [0.77], [0.999]]])
    rows = observations(X, y, noise, X[..., 0], noise > 0, ("static",), 1.0)
    kernel = made("rbf", 0.3)
    mean, sd = point_posterior(point_kernel(kernel), rows).at(torch.tensor(query))
    with mpmath.workdps(exact.DIGITS):
        points = [mpmath.mpf(x) for x in (*X[0, :, 0].tolist(), *query[0, :, 0].tolist())]
        two_l2 = 2 * mpmath.mpf(float(kernel.lengthscale)) ** 2
        K = mpmath.matrix([[mpmath.exp(-((p - q) ** 2) / two_l2) for q in points] for p in points])
        A = K[:12, :12] + mpmath.diag([mpmath.mpf("1e-10")] * 12)
        for i in range(4):
            across = K[:12, 12 + i]
            wanted = (across.T * mpmath.lu_solve(A, mpmath.matrix(y[0].tolist())))[0]
            variance = 1 - (across.T * mpmath.lu_solve(A, across))[0]
            assert float(mean[0, i]) == pytest.approx(float(wanted), abs=1e-5)
            assert float(sd[0, i] ** 2) == pytest.approx(float(variance), abs=1e-8)


def drawn(kernel, rows, generator, waves_each=FREQUENCIES):
    """What a function per trial is made of."""
    trials, n, columns = rows.choice.shape

    def normal(*shape):
        return torch.randn(trials, *shape, generator=generator, dtype=D)

    frequency = frequencies(kernel, normal(waves_each, columns + spectral_normals(kernel)))
    return frequency, normal(2 * waves_each), normal(n)


TRIALS = 3000


@pytest.mark.few(8)
@pytest.mark.parametrize("decay", DECAYS)
@pytest.mark.parametrize("kind", ["rbf", 0.5, 1.5, 2.5])
def test_functions_drawn_have_the_posteriors_moments(kind, decay):
    kernel = made(kind, 0.4, scale=1.5)
    X, y, noise, times, live = data(1, 6, seed=4)
    live = np.array([[True, True, False, True, True, True]])
    times[0, 4] = times[0, 3]
    X[0, 5] = X[0, 4]
    now = float(times.max()) + 0.5
    query = np.random.default_rng(9).random((3, 2))
    item = observations(X, y, noise, times, live, DECAYS[decay], now)
    rows = Observations(
        *(p.expand(TRIALS, *p.shape[1:]) if torch.is_tensor(p) else p for p in item)
    )
    ready = point_kernel(kernel)
    draw = drawn(ready, rows, torch.Generator().manual_seed(5), waves_each=60)
    posterior = point_posterior(ready, rows, draw)
    sample = posterior.sample_at(torch.tensor(query).expand(TRIALS, 3, 2)).numpy()
    arms = torch.tensor(np.concatenate([query, X[0]]))
    _, joint = joint_regression(
        kernel(arms).to_dense().numpy(),
        *(3 + np.flatnonzero(live[0]), times[live], y[live], now),
        noise=noise[live],
        decay=DECAYS[decay],
        reference=now,
        origin=0.0,
    )
    covariance = joint[:3, :3]
    variance = covariance.diagonal()
    error = 1.1 * np.sqrt((np.outer(variance, variance) + covariance**2) / TRIALS)
    assert (np.abs(np.cov(sample.T, bias=True) - covariance) < 4.5 * error).all()
    assert (np.abs(sample.mean(0)) < 4.5 * np.sqrt(variance / TRIALS)).all()
    # The data matter: the prior's moments are many errors away.
    present = np.array([now])
    prior = 1.5 * float(decay_between(DECAYS[decay], present, present, 0.0)[0, 0])
    assert (prior - variance > 9 * error.diagonal()).any()
