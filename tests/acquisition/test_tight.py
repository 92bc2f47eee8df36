"""The standard deviation of [W22] Theorem 2, against the paper's weighted features."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import RBFKernel
from numpy.testing import assert_allclose

from botorch_tv.acquisition import Exploration, TightConfidence, UpperConfidence
from botorch_tv.strategies import Box, Grid, tv_gp_ucb, ui_gp_ucb, w_gp_ucb

pytestmark = pytest.mark.filterwarnings("ignore::botorch_tv.validation.MisspecificationWarning")
GAMMA, NOISE, B, R, DELTA = 0.8, 0.3, 1.5, 0.4, 0.1
X = np.linspace(0, 1, 12)
K = np.exp(-((X[:, None] - X) ** 2) / (2 * 0.3**2))
KERNEL = RBFKernel().double()
KERNEL.lengthscale = 0.3
GIVEN = {"kernel": KERNEL, "noise": NOISE, "B": B, "delta": DELTA}


class Noted(TightConfidence):
    def score(self, candidates):
        noted.append((candidates.sd.clone(), candidates.tight_sd))
        return super().score(candidates)


noted: list = []


def in_features(arms, weights):
    """λ φᵀ V⁻¹ Ṽ V⁻¹ φ and λ_t φᵀ V⁻¹ φ, [W22] Lemma 12 and Theorem 2, with K = Φ Φᵀ."""
    values, vectors = np.linalg.eigh(K)
    Phi = vectors * np.sqrt(np.maximum(values, 0))
    seen, last, eye = Phi[arms], weights[-1], np.eye(len(X))
    V = (seen * weights[:, None]).T @ seen + NOISE * last * eye
    squared = (seen * weights[:, None] ** 2).T @ seen + NOISE * last**2 * eye
    inverse = np.linalg.inv(V)
    tight = NOISE * np.einsum("ij,jk,ik->i", Phi, inverse @ squared @ inverse, Phi)
    return tight, NOISE * last * np.einsum("ij,jk,ik->i", Phi, inverse, Phi)


@pytest.mark.parametrize("inference", ["exact", "features", "auto"])
def test_tight_variance_is_that_of_the_paper(inference):
    """Choices, bounds and both deviations, in two trials of 25 rounds."""
    noted.clear()
    rng, rounds = np.random.default_rng(0), 25
    plain = w_gp_ucb(gamma=GAMMA, R=R, inference=inference, **GIVEN)
    strategy = replace(plain, exploration=Noted())
    state = strategy.init(Grid(torch.from_numpy(X[:, None])), batch_shape=(2,))
    arms, ys = np.zeros((2, 0), int), np.zeros((2, 0))
    for t in range(1, rounds + 1):
        suggestion = strategy.ask(state)
        if t > 1:
            sd, tight = noted[-1]
            for trial in range(2):
                weights = GAMMA ** -np.arange(1.0, t)
                wanted, variance = in_features(arms[trial], weights)
                assert_allclose(tight[trial], np.sqrt(wanted), atol=1e-9)
                assert_allclose(sd[trial], np.sqrt(variance), atol=1e-9)
                assert (wanted < variance).all() or t == 2  # Lemma 13; equal without age
                N = NOISE * weights[-1] / weights
                own = K[np.ix_(arms[trial], arms[trial])]
                mean = K[:, arms[trial]] @ np.linalg.solve(own + np.diag(N), ys[trial])
                double = NOISE * (weights[-1] / weights) ** 2
                gain = 0.5 * np.linalg.slogdet(np.eye(t - 1) + own / double[:, None])[1]
                beta = B + R / math.sqrt(NOISE) * math.sqrt(2 * math.log(1 / DELTA) + 2 * gain)
                score = mean + beta * np.sqrt(wanted)
                assert score[suggestion.index[trial]] > score.max() - 1e-6
        y = rng.standard_normal(2)
        arms = np.concatenate([arms, suggestion.index.numpy()[:, None]], 1)
        ys = np.concatenate([ys, y[:, None]], 1)
        state, _ = strategy.tell(state, suggestion, torch.from_numpy(y))
    assert len(np.unique(arms)) > 5


def test_tight_variance_is_the_error_on_a_static_objective():
    """Uncertainty injection: the mean squared error of the estimate over prior draws of f."""
    noted.clear()
    strategy = replace(ui_gp_ucb(alpha=1.5, **GIVEN), exploration=Noted())
    state = strategy.init(Grid(torch.from_numpy(X[:, None])))
    arms = [3, 3, 9, 0, 6]
    for arm in arms:
        at = strategy.suggestion_at(state, torch.tensor([X[arm]]))
        state, _ = strategy.tell(state, at, torch.tensor(0.0, dtype=torch.float64))
    strategy.ask(state)
    lag = np.arange(len(arms))[::-1]
    own = K[np.ix_(arms, arms)]
    a = np.linalg.solve(own + NOISE * np.diag(1 + lag**1.5), K[arms])  # `rows x arms`
    error = np.diag(K) - 2 * (a * K[arms]).sum(0) + (a * ((own + NOISE * np.eye(5)) @ a)).sum(0)
    assert_allclose(noted[-1][1], np.sqrt(error), atol=1e-10)


def test_without_aging_the_choices_are_those_of_the_posterior():
    strategy = w_gp_ucb(gamma=1.0, R=R, **GIVEN)
    domain, choices = Grid(torch.from_numpy(X[:, None])), []
    for exploration in (UpperConfidence(), TightConfidence()):
        own, chosen = replace(strategy, exploration=exploration), []
        state = own.init(domain)
        for t in range(12):
            suggestion = own.ask(state)
            chosen.append(int(suggestion.index))
            state, _ = own.tell(state, suggestion, torch.tensor(math.sin(t + chosen[-1])).double())
        choices.append(chosen)
    assert choices[0] == choices[1]
    assert len(set(choices[0])) > 3


class Second(Exploration):
    def choose(self, candidates):
        chosen = candidates.argmax(lambda at: at.tight_sd)
        alone = candidates.at(chosen).tight_sd
        assert torch.equal(alone, candidates.tight_sd.gather(-1, chosen.unsqueeze(-1)))
        return chosen


def test_a_single_arm_and_refusals():
    domain, y = Grid(torch.from_numpy(X[:, None])), torch.zeros(2, dtype=torch.float64)
    own = replace(w_gp_ucb(gamma=GAMMA, R=R, **GIVEN), exploration=Second())
    state = own.init(domain, batch_shape=(2,))
    for _ in range(3):
        state, _ = own.tell(state, own.ask(state), y)
    moving = replace(
        tv_gp_ucb(epsilon=0.1, kernel=KERNEL, noise=NOISE), exploration=TightConfidence()
    )
    with pytest.raises(InputDataError, match="assumes a static covariance"):
        moving.ask(moving.init(domain))
    boxed = replace(own, exploration=TightConfidence())
    with pytest.raises(InputDataError, match="needs a Grid"):
        boxed.ask(boxed.init(Box(torch.tensor([[0.0], [1.0]], dtype=torch.float64))))
