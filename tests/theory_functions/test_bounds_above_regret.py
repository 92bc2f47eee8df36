"""Bounds with explicit constants lie above measured regret, in every round of every trial.

The assumptions hold: functions of a known norm, or draws from the model; the widths and the noise
are those of the theorems. They fail in a share δ of trials at most, and are so wide that none does.
"""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from botorch_tv import theory
from botorch_tv.acquisition import BayesEventTriggered, BayesResetting, BayesTV
from botorch_tv.simulation import AbruptWorld, FixedFunctions, MarkovWorld, StaticWorld, run_study
from botorch_tv.strategies import (
    Grid,
    Strategy,
    et_gp_ucb,
    gp_ts,
    igp_ucb,
    r_gp_ucb,
    tv_gp_ucb,
    w_gp_ucb,
)

TRIALS = 8
DELTA = 0.1


def line(points: int, lengthscale: float) -> tuple[Grid, Tensor]:
    grid = Grid.regular(points=points, dim=1)
    apart = grid.X - grid.X.T
    return grid, torch.exp(-(apart**2) / (2 * lengthscale**2))


def of_norm(B: float, K: Tensor, seed: int) -> tuple[Tensor, Tensor]:
    """Functions Σ a_i k(x_i, .) of norm B and their coefficients, both `trials x M`."""
    a = torch.as_tensor(np.random.default_rng(seed).standard_normal((TRIALS, len(K))))
    a = B * a / (a @ K * a).sum(-1, keepdim=True).sqrt()
    return a @ K, a


def cumulative(world: object, strategy: Strategy, horizon: int) -> np.ndarray:
    """R_1, ..., R_T of every trial, `trials x rounds`."""
    study = run_study(
        world, {"one": strategy}, trials=TRIALS, horizon=horizon, progress=False, workers=1
    )
    return np.cumsum(study.regret.sel(strategy="one").values, axis=-1)


def rounds(horizon: int) -> Tensor:
    return torch.arange(1, horizon + 1, dtype=torch.float64)


def test_igp_ucb_and_gp_ts_on_functions_of_given_norm() -> None:
    """[C17] Theorems 3 and 4, with λ = 1 + 2/T. IGP-UCB's bound says more than 2 B T."""
    T, B, R = 100, 1.0, 0.1
    grid, K = line(11, 0.4)
    world = StaticWorld(grid, functions=FixedFunctions(of_norm(B, K, 0)[0]), noise=R**2)
    lam = 1 + 2 / T
    gain = theory.greedy_information_gain(K, lam, T)[1:]
    shared = {"kernel": K, "noise": lam, "B": B, "R": R, "delta": DELTA}
    regret = cumulative(world, igp_ucb(**shared), T)
    bound = theory.igp_ucb_regret(rounds(T), gain=gain, B=B, R=R, delta=DELTA).numpy()
    assert (regret <= bound).all()
    assert bound[-1] < 2 * B * T
    assert regret[:, -1].max() > bound[-1] / 100
    regret = cumulative(world, gp_ts(**shared), T)
    bound = theory.gp_ts_regret(
        rounds(T), gain=gain, B=B, R=R, delta=DELTA, log_decisions=math.log(len(grid))
    ).numpy()
    assert (regret <= bound).all()


@pytest.mark.parametrize("epsilon", [0.001, 0.05])
def test_bayesian_bounds_on_markov_worlds(epsilon: float) -> None:
    """[B16] (17), (20) and (21), [ET] (12) and (46), each with its own width."""
    T, noise, l = 60, 0.5, 0.3
    grid, K = line(15, l)
    a0, b0, a1, b1 = theory.squared_exponential_tails(l)
    slopes = {"delta": DELTA, "r": 1.0, "a1": a1, "b1": b1}
    model = {"epsilon": epsilon, "noise": noise, "dim": 1} | slopes
    tails = {"a0": a0, "b0": b0}
    world = MarkovWorld(grid, kernel=K, epsilon=epsilon, noise=noise)
    gain = theory.greedy_information_gain(K, noise, T)
    horizons = rounds(T)

    width = BayesTV(**slopes)
    strategy = tv_gp_ucb(kernel=K, noise=noise, epsilon=epsilon, width=width)
    regret = cumulative(world, strategy, T)
    varying = theory.markov_information_gain(K, noise, epsilon, T)[1:]
    bound = theory.tv_gp_ucb_regret(horizons, gain=varying, noise=noise, dim=1, **slopes)
    assert (regret <= bound.numpy()).all()
    block = theory.analysis_block(epsilon, T)
    bound = theory.tv_gp_ucb_regret_by_blocks(
        horizons[block - 1 :], block=block, gain=float(gain[block]), **model
    )
    assert (regret[:, block - 1 :] <= bound.numpy()).all()

    period = theory.reset_period(epsilon, T)
    width = BayesResetting(**slopes)
    regret = cumulative(world, r_gp_ucb(kernel=K, noise=noise, period=period, width=width), T)
    for bound_of in (theory.r_gp_ucb_regret, theory.r_gp_ucb_regret_improved):
        bound = bound_of(horizons, period=period, gain=float(gain[period]), **model, **tails)
        assert (regret <= bound.numpy()).all()

    width = BayesEventTriggered(**slopes)
    regret = cumulative(world, et_gp_ucb(kernel=K, noise=noise, width=width), T)
    bound = theory.et_gp_ucb_regret(horizons, block=T, gain=float(gain[T]), **model, **tails)
    assert (regret <= bound.numpy()).all()


def test_w_gp_ucb_on_functions_that_are_replaced() -> None:
    """[W22] Appendix C.5: B_T is the norm of the change from round 30 on."""
    T, B, R, lam = 60, 1.0, 0.3, 0.5
    grid, K = line(11, 0.4)
    (first, a), (second, b) = of_norm(B, K, 1), of_norm(B, K, 2)
    world = AbruptWorld(
        grid, functions=[FixedFunctions(first), FixedFunctions(second)], changes=(30,), noise=R**2
    )
    change = float((((b - a) @ K) * (b - a)).sum(-1).max().sqrt())
    gamma = theory.discount(T, math.log(T) ** 2, change)
    strategy = w_gp_ucb(kernel=K, noise=lam, gamma=gamma, B=B, R=R, delta=DELTA)
    regret = cumulative(world, strategy, T)
    horizons = rounds(T)
    gain = theory.greedy_information_gain(K, lam, T)[1:]  # above either weighted gain
    ball = {"gamma": gamma, "noise": lam, "B": B, "R": R, "delta": DELTA, "features": len(grid)}
    budget, memory = change * (horizons >= 30), theory.analysis_memory(T, gamma)
    bound = theory.w_gp_ucb_regret(
        horizons, gain=gain, double_gain=gain, budget=budget, memory=memory, **ball
    )
    assert (regret <= bound.numpy()).all()
