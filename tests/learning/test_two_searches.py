"""Data of a few rounds often have two explanations; the better of two searches counts."""

import math

import numpy as np
import scipy.stats
import torch
from learning.test_learn import all_of, observed

from botorch_tv.forgetting import Markov
from botorch_tv.learning import Refit, learn
from botorch_tv.learning.layout import KNEE
from botorch_tv.simulation.rivals import unit_kernel

X, TIMES, Y = observed(16, 20, 0.1, seed=3)


def found(refit=None, epsilon=0.003, start=None):
    kernel = unit_kernel("se", 0.3)
    decay = Markov(epsilon)
    return learn(refit or Refit(), kernel, decay, 0.02, X, TIMES, Y, all_of(Y), start=start)


def vector(lengthscale, noise, rate):
    entries = [math.log(lengthscale), 0.0, math.log(noise), math.log1p(rate / KNEE)]
    return torch.tensor(entries, dtype=torch.float64).expand(len(X), -1)


def test_a_first_fit_is_no_worse_than_any_rate_held_fixed():
    """From 0.003 alone, two of these loops end 0.2 below the best."""
    prior = scipy.stats.halfnorm(scale=0.25)
    fixed = [
        found(Refit(epsilon=None), epsilon).log_posterior.numpy() + prior.logpdf(epsilon)
        for epsilon in (1e-6, 0.003, 0.03, 0.1, 0.2, 0.4)
    ]
    best = np.max(fixed, axis=0)
    assert (found().log_posterior.numpy() >= best - 1e-3).all()


def test_a_bad_last_result_does_not_trap_a_later_fit():
    """From lengthscale 0.03 alone, a loop ends 4 below the search from the given values."""
    given = found(start=vector(0.3, 0.02, -math.log1p(-0.003)))
    later = found(start=vector(0.03, 0.02, 0.0))
    assert bool((later.log_posterior >= given.log_posterior - 1e-3).all())
