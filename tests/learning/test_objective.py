"""The posterior density of hyperparameters against textbook formulas in NumPy."""

import math

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from conformance.user_parts import Seasonal
from gpytorch.kernels import MaternKernel, PeriodicKernel, RBFKernel, ScaleKernel
from gpytorch.priors import GammaPrior, HalfCauchyPrior, LogNormalPrior
from oracles.dense import decay_between
from scipy.integrate import quad
from torch.distributions import Beta, Exponential, Gumbel, HalfCauchy, HalfNormal, LogNormal, Normal

from botorch_tv.forgetting import Markov, Static, Wiener
from botorch_tv.kernels.stationary import LearnableKernel
from botorch_tv.learning import Free, Refit
from botorch_tv.learning.fit import NegativeLogPosterior
from botorch_tv.learning.layout import ParameterLayout, log_density

LOOPS, ROUNDS, DIM = 3, 14, 2
NOISE = 0.05


def kernel_of(name: str):
    kernels = {
        "se": RBFKernel(),
        "se ard": RBFKernel(ard_num_dims=DIM),
        "matern12": MaternKernel(nu=0.5),
        "matern32 ard": ScaleKernel(MaternKernel(nu=1.5, ard_num_dims=DIM)),
        "matern52": ScaleKernel(MaternKernel(nu=2.5)),
    }
    kernel = kernels[name].double()
    base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    base.lengthscale = torch.linspace(0.3, 0.5, base.ard_num_dims or 1, dtype=torch.float64)
    if isinstance(kernel, ScaleKernel):
        kernel.outputscale = torch.tensor(1.7, dtype=torch.float64)
    return kernel


KERNELS = ("se", "se ard", "matern12", "matern32 ard", "matern52")
DECAYS = {
    Markov(0.07): ("markov", 0.07),
    Markov(0.0): ("markov", 0.0),
    Wiener(0.04): ("wiener", 0.04),
    Static(): ("static",),
    Seasonal(0.05, 10.0): ("quasi-periodic", 0.05, 0.62832),
}


def data(seed=0):
    random = np.random.default_rng(seed)
    rows = {
        "X": random.random((LOOPS, ROUNDS, DIM)),
        "times": np.sort(random.random((LOOPS, ROUNDS)) * 30),
        "y": random.standard_normal((LOOPS, ROUNDS)),
        "live": random.random((LOOPS, ROUNDS)) < 0.7,
        "relative_noise": 0.5 + random.random((LOOPS, ROUNDS)),
    }
    return {name: torch.from_numpy(item) for name, item in rows.items()}


def prepared(kernel, decay, estimates_mean=False, refit=None, **changes):
    parts = LearnableKernel(kernel)
    refit = refit or Refit()
    ordered = ParameterLayout(refit, parts, decay, NOISE, torch.ones(DIM, dtype=torch.float64))
    rows = {**data(), **changes}
    objective = NegativeLogPosterior(parts, decay, ordered, **rows, estimates_mean=estimates_mean)
    return ordered, objective, torch.arange(len(rows["y"]))


def matern(nu, r):
    if nu == 0.5:
        return np.exp(-r)
    if nu == 1.5:
        return (1 + math.sqrt(3) * r) * np.exp(-math.sqrt(3) * r)
    return (1 + math.sqrt(5) * r + 5 / 3 * r**2) * np.exp(-math.sqrt(5) * r)


def textbook(kernel, decay, loop, estimates_mean=False):
    """-ln p(y) of a loop, without rows not in use."""
    rows = {name: item[loop].numpy() for name, item in data().items()}
    live = rows.pop("live")
    X, times, y, relative = (item[live] for item in rows.values())
    base = kernel.base_kernel if isinstance(kernel, ScaleKernel) else kernel
    scaled = (X[:, None] - X[None]) / base.lengthscale.detach().numpy().reshape(-1)
    r = np.sqrt((scaled**2).sum(-1))
    K = np.exp(-(r**2) / 2) if isinstance(base, RBFKernel) else matern(base.nu, r)
    if isinstance(kernel, ScaleKernel):
        K = K * float(kernel.outputscale)
    A = K * decay_between(DECAYS[decay], times, times, 0.0) + NOISE * np.diag(relative)
    if estimates_mean:
        ones = np.ones(len(y))
        y = y - (ones @ np.linalg.solve(A, y)) / (ones @ np.linalg.solve(A, ones))
    log_det = np.linalg.slogdet(2 * math.pi * A)[1]
    return 0.5 * (log_det + y @ np.linalg.solve(A, y))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("decay", DECAYS, ids=repr)
@pytest.mark.parametrize("estimates_mean", [False, True])
def test_value_equals_the_textbook(name, decay, estimates_mean):
    kernel = kernel_of(name)
    ordered, objective, rows = prepared(kernel, decay, estimates_mean)
    at = ordered.given.expand(LOOPS, -1)
    value = objective(at, rows)[0] + ordered.log_prior(at)[0]
    wanted = [textbook(kernel, decay, loop, estimates_mean) for loop in range(LOOPS)]
    np.testing.assert_allclose(value.numpy(), wanted, rtol=0, atol=1e-9)


def test_rows_not_in_use_may_hold_anything():
    rows = data()
    dead = ~rows["live"]
    ordered, objective, loops = prepared(kernel_of("se ard"), Markov(0.07))
    at = ordered.given.expand(LOOPS, -1)
    wanted = objective(at, loops)
    for name in ("X", "times", "y", "relative_noise"):
        rows[name][dead] = math.nan
    failed = {
        **data(),
        "y": rows["y"].nan_to_num(7.0),
        "relative_noise": torch.where(dead, math.inf, rows["relative_noise"]),
        "live": torch.ones_like(dead),
    }
    for changes in (rows, failed):
        _, objective, _ = prepared(kernel_of("se ard"), Markov(0.07), **changes)
        found = objective(at, loops)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("decay", DECAYS, ids=repr)
@pytest.mark.parametrize("estimates_mean", [False, True])
def test_gradient_is_that_of_finite_differences(name, decay, estimates_mean):
    ordered, objective, rows = prepared(kernel_of(name), decay, estimates_mean)
    at = ordered.given.expand(LOOPS, -1)
    _, gradient = objective(at, rows)
    step = 1e-5
    for entry in range(ordered.size):
        away = torch.zeros(ordered.size, dtype=torch.float64)
        away[entry] = step
        # At ε = 0 half of this lies at ε < 0, where the formulas still hold.
        change = objective(at + away, rows)[0] - objective(at - away, rows)[0]
        torch.testing.assert_close(gradient[:, entry], change / (2 * step), rtol=1e-5, atol=1e-6)


def test_inflated_rows_have_partial_weight():
    """One row, by quadrature: ∫ N(f; 0, k) N(y; f, σ²ρ)^w df."""
    kernel, y, ratio, factor = kernel_of("matern52"), 0.7, 1.4, 3.0
    item = {
        "X": torch.zeros(1, 1, DIM, dtype=torch.float64),
        "times": torch.zeros(1, 1, dtype=torch.float64),
        "y": torch.full((1, 1), y, dtype=torch.float64),
        "live": torch.ones(1, 1, dtype=torch.bool),
        "relative_noise": torch.full((1, 1), ratio, dtype=torch.float64),
        "inflation": torch.full((1, 1), factor, dtype=torch.float64),
    }
    ordered, objective, _ = prepared(kernel, Static(), **item)
    at = ordered.given.expand(1, -1)
    found = objective(at, torch.zeros(1, dtype=torch.int64))[0] + ordered.log_prior(at)[0]

    def density(x, mean, variance):
        return math.exp(-((x - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)

    def integrand(f):
        return density(f, 0.0, 1.7) * density(y, f, NOISE * ratio) ** (1 / factor)

    marginal_likelihood = quad(integrand, -10, 10, points=[y], epsabs=1e-13)[0]
    assert float(found) == pytest.approx(-math.log(marginal_likelihood), abs=1e-8)


@pytest.mark.parametrize(
    "prior",
    [
        LogNormal(torch.tensor([0.3, -1.0]), 1.2),
        Normal(0.3, 0.5),
        HalfNormal(0.25),
        HalfCauchy(0.1),
        Exponential(20.0),
        Beta(2.0, 3.0),
        GammaPrior(15.0, 10 / 3),
        HalfCauchyPrior(0.5),
        Gumbel(1.0, 2.0),
        LogNormalPrior(0.0, 1.0, transform=torch.exp),
    ],
    ids=repr,
)
def test_densities_are_those_of_the_distributions(prior):
    value = torch.tensor([[0.02, 0.4], [0.3, 0.9]], dtype=torch.float64)
    density, by_value = log_density(prior, value)
    point = value.clone().requires_grad_(True)
    log = prior.log_prob(point).sum(-1).double()  # some compute in the dtype of their parameters
    torch.testing.assert_close(density, log.detach(), rtol=1e-5, atol=1e-5)
    (slope,) = torch.autograd.grad(log.sum(), point)
    torch.testing.assert_close(by_value, slope, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("prior", [HalfNormal(0.25), Exponential(20.0), Beta(1.0, 20.0)], ids=repr)
def test_priors_of_a_rate_have_a_slope_at_0(prior):
    found, slope = log_density(prior, torch.zeros(1, 1, dtype=torch.float64))
    near, _ = log_density(prior, torch.full((1, 1), 1e-6, dtype=torch.float64))
    assert found.isfinite().all()
    assert float(slope) == pytest.approx(float(near - found) / 1e-6, abs=1e-3)


def test_only_active_columns_count():
    parts = LearnableKernel(ScaleKernel(RBFKernel(active_dims=(1,))).double())
    X = torch.rand(2, 4, 3, dtype=torch.float64)
    torch.testing.assert_close(parts.columns(X), X[..., 1:2])
    with pytest.raises(InputDataError, match="has 2 lengthscales"):
        LearnableKernel(RBFKernel(ard_num_dims=2)).columns(X)


def test_a_fit_is_due_every_few_rounds():
    assert [rounds for rounds in range(12) if Refit(every=4).due(rounds)] == [4, 8]
    assert [rounds for rounds in range(12) if Refit().due(rounds)] == [5, 10]


FIXED = {name: None for name in ("lengthscale", "outputscale", "noise", "epsilon", "sigma_w2")}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: LearnableKernel(PeriodicKernel()), "fit a TimeVaryingGP"),
        (lambda: LearnableKernel(ScaleKernel(ScaleKernel(RBFKernel()))), "fit a TimeVaryingGP"),
        (lambda: LearnableKernel(RBFKernel() + RBFKernel()), "fit a TimeVaryingGP"),
        (lambda: LearnableKernel(RBFKernel(batch_shape=torch.Size([2]))), r"shape \(2,\)"),
        (lambda: Refit(every=0), "every is 0"),
        (lambda: Refit(**FIXED), "all hyperparameters are fixed"),
        (lambda: Free(lower=2.0, upper=1.0), "bounds are 2"),
        (lambda: Refit(epsilon=Free(upper=1.0)), "bound of epsilon is 1"),
        (
            lambda: prepared(kernel_of("se"), Markov(0.1), refit=Refit(noise=Free(lower=0.1))),
            "starts from",
        ),
    ],
)
def test_bad_arguments_are_refused(call, message):
    with pytest.raises((InputDataError, ValueError), match=message):
        call()
