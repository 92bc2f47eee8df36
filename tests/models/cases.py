"""Data and forgettings that the tests of models share."""

import warnings
from functools import partial

import torch
from botorch.fit import fit_gpytorch_mll
from gpytorch.mlls import ExactMarginalLogLikelihood

from botorch_tv.forgetting import ExponentialWeights, Markov, Static, UncertaintyInjection, Wiener
from botorch_tv.models import TimeVaryingGP

FORGETTINGS = {
    "static": Static(),
    "markov": Markov(0.05),
    "wiener": Wiener(0.05),
    "weights": ExponentialWeights(0.9),
    "injection": UncertaintyInjection(0.7, 0.5),
    "markov and weights": (Markov(0.05), ExponentialWeights(0.9)),
    "wiener and injection": [UncertaintyInjection(1.5, 0.1), Wiener(0.05)],
}
plain = partial(TimeVaryingGP, outcome_transform=None)
AGED = ["weights", "injection", "markov and weights", "wiener and injection"]


def data(n=12, d=3, m=1, batch=(), seed=0, dtype=torch.float64, start=0.0):
    """Inputs with time last in steps of 0.5 to 1.5, and standardised observations."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.rand(*batch, n, d, dtype=dtype, generator=generator)
    steps = 0.5 + torch.rand(*batch, n, dtype=dtype, generator=generator)
    X[..., -1] = start + steps.cumsum(-1)
    shift = torch.arange(1, m + 1, dtype=dtype)
    Y = torch.sin(4 * X[..., :1] * shift + 0.1 * X[..., -1:]) + X[..., 1:2] ** 2
    Y = Y + 0.05 * torch.randn(*batch, n, m, dtype=dtype, generator=generator)
    if n > 1:
        Y = (Y - Y.mean(-2, keepdim=True)) / Y.std(-2, keepdim=True)
    return X, Y


def present(model, q=5, batch=(), seed=1):
    """Test points at the time of the newest observation and two units later."""
    X = model.train_inputs[0]
    generator = torch.Generator().manual_seed(seed)
    test_X = torch.rand(*batch, q, X.shape[-1], dtype=X.dtype, generator=generator)
    test_X[..., model.time_dim] = X[..., model.time_dim].max() + 2.0
    return test_X


def build(forgetting="markov", *, fixed=False, **options):
    """A model without an outcome transform, unless the options say otherwise."""
    sizes = {"n", "d", "m", "batch", "seed", "dtype"} & options.keys()
    X, Y = data(**{name: options.pop(name) for name in sizes})
    Yvar = (0.02 + 0.1 * Y.abs()).detach() if fixed else None
    options.setdefault("outcome_transform", None)
    return TimeVaryingGP(X, Y, Yvar, forgetting=FORGETTINGS[forgetting], **options)


def fit(model, **options):
    """Learns the parameters of a model, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model), **options)
    return model


def regression(model, train_X, at, noise):
    """Dense mean and variance at transformed inputs, noise `... x n` or one number."""
    k, level, targets = model.covar_module, model.mean_module, model.train_targets
    A = k(train_X).to_dense() + torch.diag_embed(noise.expand(targets.shape))
    cross = k(at, train_X).to_dense()
    weights = torch.linalg.solve(A, cross.mT).mT
    mean = level(at) + (weights @ (targets - level(train_X)).unsqueeze(-1)).squeeze(-1)
    return mean, k(at, diag=True) - (weights * cross).sum(-1)


def assert_same(first, second, atol=1e-10):
    """Equal means and covariances of two posteriors."""
    assert first.mean.shape == second.mean.shape
    assert torch.allclose(first.mean, second.mean, rtol=0, atol=atol)
    ours, theirs = (p.distribution.covariance_matrix for p in (first, second))
    assert torch.allclose(ours, theirs, rtol=0, atol=atol)
