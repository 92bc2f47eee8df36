"""Regret bounds: by hand, above measured regret, and the values that they refuse."""

import inspect
import itertools
import math
import re
from math import ceil, e, log, pi, sqrt

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from torch import Tensor

from botorch_tv import theory
from botorch_tv.forgetting import ExponentialWeights, UncertaintyInjection
from botorch_tv.simulation import FixedFunctions, StaticWorld, run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Grid, gp_ts, gp_ucb, igp_ucb

T = np.array([10.0, 50.0])
ROUNDS = torch.as_tensor(T)
SLOPES = {"dim": 2, "delta": 0.2, "r": 1.5, "a1": 3.0, "b1": 4.0}
TAIL = {"a0": 5.0, "b0": 1.2}
VARIANCE = 0.25  # σ² = 1/4, so σ^-2 = 4, σ^-4 = 16
C1 = 8 / log(5)


def bayes(union: float) -> np.ndarray:
    """β_T of [B16] (16), (19) and [ET] Theorem 1, with union · π² T² / δ in its logarithms."""
    A = union * pi**2 * T**2 / 0.2
    return 2 * np.log(A) + 4 * np.log(1.5 * 2 * 4.0 * T**2 * np.sqrt(np.log(2 * 3.0 * A)))


def test_bogunovic_17_and_18() -> None:
    beta = bayes(2 / 3)
    change = 7**3 * 0.01
    psi = np.sqrt(beta * (12 + 16) * change) + 20 * change * 3.2 * np.sqrt(
        np.log(12 * pi**2 * T**2 / 0.6)
    )
    got = theory.resetting_mismatch(
        ROUNDS, torch.as_tensor(beta), period=7, epsilon=0.01, noise=VARIANCE, delta=0.2, **TAIL
    )
    assert_allclose(got, psi)
    bound = theory.r_gp_ucb_regret(
        ROUNDS, period=7, gain=2.5, epsilon=0.01, noise=VARIANCE, **SLOPES, **TAIL
    )
    assert_allclose(bound, np.sqrt(C1 * T * beta * (T / 7 + 1) * 2.5) + 2 + T * psi, rtol=1e-12)


def test_bogunovic_20_and_21() -> None:
    beta = bayes(1 / 2)
    gain = np.array([3.0, 9.0])
    bound = theory.tv_gp_ucb_regret(ROUNDS, gain=torch.as_tensor(gain), noise=VARIANCE, **SLOPES)
    assert_allclose(bound, np.sqrt(C1 * T * beta * gain) + 2)
    varying = (T / 5 + 1) * (1.7 + 125 * 0.02)
    got = theory.time_varying_gain(ROUNDS, block=5, gain=1.7, epsilon=0.02)
    assert_allclose(got, varying)
    blocks = theory.tv_gp_ucb_regret(ROUNDS, gain=got, noise=VARIANCE, **SLOPES)
    assert_allclose(blocks, np.sqrt(C1 * T * beta * varying) + 2)


def test_bogunovic_orders() -> None:
    assert_allclose(theory.r_gp_ucb_order(ROUNDS, 0.0), np.sqrt(T))
    assert_allclose(theory.r_gp_ucb_order(ROUNDS, 0.5**8), T / 2)
    assert_allclose(theory.tv_gp_ucb_order(ROUNDS, 0.5**6), T / 2)
    c = 2 / 7  # d = 1, ν = 2.5
    matern = theory.tv_gp_ucb_order(ROUNDS, 0.03, nu=2.5, dim=1)
    expected = np.maximum(np.sqrt(T ** (1 + c)), T * 0.03 ** (0.5 * (1 - c) / (3 - c)))
    assert_allclose(matern, expected)
    resetting = theory.r_gp_ucb_order(ROUNDS, 1e-9, nu=2.5, dim=1)
    assert_allclose(resetting, np.sqrt(T ** (1 + c)))
    assert_allclose(theory.markov_lower_bound(ROUNDS, 0.1), 0.1 * T)


@pytest.mark.parametrize(("epsilon", "forgotten"), [(0.0, 0.0), (0.19, 1 - 0.9**6), (1.0, 1.0)])
@pytest.mark.parametrize(("parts", "union"), [(4, 4 / 3), (2, 2 / 3)])
def test_event_triggered_12_13_and_46_47(epsilon, forgotten, parts, union) -> None:
    """[ET] with 1 - ε = 0.9², where exp(-p(ε) N) = 0.9^N."""
    beta, u = bayes(union), 36 * forgotten
    largest = (1.2 + sqrt(2) * 0.5) * sqrt(log(parts * 6 * pi**2 * 36 / 0.6))
    phi = 2 * np.sqrt(beta * 28 * u) + 2 * 20 * u * largest
    model = {"epsilon": epsilon, "noise": VARIANCE, **TAIL}
    given = {"block": 6, "delta": 0.2, "parts": parts}
    assert_allclose(theory.model_mismatch(torch.as_tensor(beta), **given, **model), phi)
    model |= SLOPES | {"gain": 2.2}
    if parts == 4:
        bound = theory.et_gp_ucb_regret(ROUNDS, block=6, **model)
    else:
        bound = theory.r_gp_ucb_regret_improved(ROUNDS, period=6, **model)
    assert_allclose(bound, np.sqrt(C1 * T * beta * (T / 6 + 1) * 2.2) + 2 + T * phi)


def test_mismatch_of_mean_and_sd() -> None:
    """[B16] (82), (87) and [ET] (27), (28) by hand, and above the errors of dense regressions."""
    random, N, noise, epsilon = np.random.default_rng(8), 6, 0.25, 0.02
    model = {"epsilon": epsilon, "noise": noise}
    linear, tight = 216 * epsilon, 36 * (1 - 0.98**3)
    sds = theory.linear_sd_mismatch(N, **model), theory.sd_mismatch(N, **model)
    assert_allclose(sds, np.sqrt(28 * np.array([linear, tight])))
    model |= {"y_bar": 1.5}
    means = theory.linear_mean_mismatch(N, **model), theory.mean_mismatch(N, **model)
    assert_allclose(means, 20 * 1.5 * np.array([linear, tight]))
    X, y = random.random((100, N + 1, 1)), random.uniform(-1.5, 1.5, (100, N, 1))
    static = np.exp(-((X - X.mT) ** 2) / 0.08)
    time = np.arange(N + 1)
    varying = static * (1 - epsilon) ** (abs(time[:, None] - time) / 2)
    found = []
    for K in (static, varying):
        solved = np.linalg.solve(K[:, :N, :N] + noise * np.eye(N), K[:, :N, N:])
        variance = 1 - (K[:, :N, N:] * solved).sum((1, 2))
        found.append([(solved * y).sum((1, 2)), np.sqrt(variance)])
    apart = abs(np.subtract(*found)).max(1)
    assert (apart > 0.01).all()
    assert apart[0] <= min(means)
    assert apart[1] <= min(sds)


def test_reset_time() -> None:
    assert theory.reset_time_bound(200, 12.5, 0.2) == 63
    assert theory.reset_time_bound(50, 12.5, 0.2) == 50


def test_chowdhury_theorem_1_by_dense_inverses() -> None:
    random = np.random.default_rng(0)
    X, errors = random.standard_normal((2, 5, 3)), random.standard_normal((2, 5))
    K = np.exp(-0.5 * ((X[:, :, None] - X[:, None]) ** 2).sum(-1))
    eye = np.eye(5)
    inside = np.linalg.inv(np.linalg.inv(K + 0.2 * eye) + eye)
    norm = theory.noise_norm(torch.as_tensor(K), torch.as_tensor(errors), eta=0.2)
    assert_allclose(norm, np.einsum("bi,bij,bj->b", errors, inside, errors))
    bound = theory.noise_norm_bound(torch.as_tensor(K), R=0.3, delta=0.1, eta=0.2)
    assert_allclose(bound, 2 * 0.09 * np.log(np.sqrt(np.linalg.det(1.2 * eye + K)) / 0.1))


def test_chowdhury_lemma_1() -> None:
    """With a linear kernel the norm is that of S = Σ ε x in V = I + Σ x xᵀ; K is singular here."""
    random = np.random.default_rng(1)
    X, errors = random.standard_normal((6, 2)), random.standard_normal(6)
    S, V = X.T @ errors, np.eye(2) + X.T @ X
    norm = theory.noise_norm(torch.as_tensor(X @ X.T), torch.as_tensor(errors), eta=0.0)
    assert float(norm) == pytest.approx(S @ np.linalg.solve(V, S))


def test_chowdhury_theorem_3() -> None:
    gain = np.array([4.0, 6.0])
    beta = 1.5 + 0.3 * np.sqrt(2 * (gain + 1 + log(10)))
    bound = theory.igp_ucb_regret(ROUNDS, gain=torch.as_tensor(gain), B=1.5, R=0.3, delta=0.1)
    assert_allclose(bound, 2 * beta * np.sqrt(4 * (T + 2) * gain))
    order = theory.igp_ucb_order(ROUNDS, gain=torch.as_tensor(gain), B=1.5, delta=0.1)
    assert_allclose(order, 1.5 * np.sqrt(T * gain) + np.sqrt(T * gain * (gain + log(10))))


def test_chowdhury_theorem_4() -> None:
    gain = np.array([4.0, 6.0])
    size = 2 * np.log(1.5 * 5 * 1 * 2 * T**2)
    got = theory.log_decision_set(ROUNDS, B=1.5, L=5, r=1, dim=2)
    assert_allclose(got, size)
    v = 1.5 + 0.3 * np.sqrt(2 * (gain + 1 + log(20)))
    c = v * (1 + np.sqrt(4 * np.log(T) + 2 * 2 * np.log(15 * T**2)))  # Definition 1
    p = 1 / (4 * e * sqrt(pi))
    expected = (
        11 * c / p * np.sqrt(4 * (T + 2) * gain)
        + 4 * pi**2 / 6
        + (4 * 1.5 + 11) * c / p * np.sqrt(2 * T * log(20))
    )
    bound = theory.gp_ts_regret(
        ROUNDS, gain=torch.as_tensor(gain), B=1.5, R=0.3, delta=0.1, log_decisions=got
    )
    assert_allclose(bound, expected)
    order = theory.gp_ts_order(ROUNDS, gain=torch.as_tensor(gain), B=1.5, dim=2, delta=0.1)
    assert_allclose(
        order,
        np.sqrt((gain + log(20)) * 2 * np.log(3 * T))
        * (np.sqrt(T * gain) + 1.5 * np.sqrt(T * log(20))),
    )


def test_chowdhury_linear_case() -> None:
    """IGP-UCB has the order of Theorem 3 with the gain d ln T of a linear kernel, but for ln T."""
    assert_allclose(theory.linear_order(ROUNDS, dim=3), 3 * np.sqrt(T))
    assert_allclose(theory.linear_order(ROUNDS, dim=4, power=1.5), 8 * np.sqrt(T))
    assert_allclose(theory.linear_order(ROUNDS, dim=4, power=0.5), np.sqrt(4 * T))
    many = torch.tensor([1e4, 1e12], dtype=torch.float64)
    for dim in (100, 1000):
        gain = dim * many.log()
        theorem = theory.igp_ucb_order(many, gain=gain, B=1, delta=0.1) / many.log()
        assert_allclose(theorem / theory.linear_order(many, dim=dim), 1, atol=0.1)


@pytest.mark.parametrize("feature_error", [0.0, 1e-4])
def test_deng_appendix_c5(feature_error: float) -> None:
    gamma, lam, c, m, B, R, budget = 0.9, 0.5, 4, 3, 1.5, 0.3, 2.0
    beta = B + R / sqrt(lam) * sqrt(2 * log(10) + 2 * 6.0)
    leak = 2 * lam * m * log(1 / gamma)
    terms = [
        2 * beta * np.sqrt(4 * lam * T * 5.0 + leak * T**2),
        2 / lam * c**1.5 * budget * sqrt(4 * lam * 5.0 + leak * c),
        4 * B * gamma**c / (lam * 0.1) * T,
        2 / lam * budget * c**2 * sqrt(feature_error) / 0.1,
        2 * beta * T * sqrt(feature_error) / 0.1,
    ]
    ball = {"B": B, "R": R, "delta": 0.1, "noise": lam, "gamma": gamma, "memory": c, "features": m}
    bound = theory.w_gp_ucb_regret(
        ROUNDS, gain=5.0, double_gain=6.0, budget=budget, feature_error=feature_error, **ball
    )
    assert_allclose(bound, sum(terms))


def test_deng_corollary_5() -> None:
    settled = theory.w_gp_ucb_order(ROUNDS, gain=2.0**8, budget=16.0)
    assert_allclose(settled, 2**7 * 2 * T**0.75)
    unknown = theory.w_gp_ucb_order(ROUNDS, gain=2.0**8, budget=16.0, budget_given=False)
    assert_allclose(unknown, 2**7 * 16 * T**0.75)
    assert theory.analysis_memory(100, 0.9) == ceil(10 * log(100)) == 47
    assert theory.analysis_memory(1, 0.9) == 1


def test_mauduit_orders() -> None:
    L = np.log(T)
    bandit = theory.ui_gp_ucb_order(ROUNDS, alpha=0.2, dim=2)
    assert_allclose(bandit, np.sqrt(4 * T**1.6 * L**6))
    sparq = theory.sparq_gp_ucb_order(ROUNDS, dim=2, delta=0.1)
    assert_allclose(sparq, np.sqrt((log(10) + 2 * np.log(2 * L) ** 3) * T * 2 * L**3))
    windowed = theory.w_sparq_gp_ucb_order(ROUNDS, alpha_tilde=0.25, dim=2, delta=0.1)
    assert_allclose(windowed, np.sqrt(T**1.5 * 2 * L**3 * (log(10) + 2 * T**0.25 * L**3)))
    assert_allclose(theory.bandit_lower_bound(ROUNDS, alpha=0.5), T**0.75)
    assert_allclose(theory.bandit_lower_bound(ROUNDS, alpha=2), T)


def test_mauduit_theorem_3_6() -> None:
    L = np.log(T)
    found = theory.sparq_operations_order(ROUNDS, dim=2)
    assert_allclose(found, T**2 * L * (L - np.log(L)) ** 6)


def test_mauduit_total_operations() -> None:
    found = theory.w_sparq_operations_order(ROUNDS, 1.0, 0.25, 2)
    assert_allclose(found, T**2 * (np.log(T) ** 2 + T**0.25) ** 2)
    assert_allclose(
        theory.w_sparq_operations_order(ROUNDS, 1.0, 0.0, 1), (T * (np.log(T) + 1)) ** 2
    )


def test_mauduit_proposition_3_2() -> None:
    """E[tr(K - U)] over all subsets is below the bound, whose least Q is found by hand."""
    X = np.random.default_rng(32).random((6, 1))
    K, noise, eta = np.exp(-((X - X.T) ** 2) / 0.08), 0.1, 0.5
    eigenvalues = np.linalg.eigvalsh(K)[::-1]
    bounds = [(Q + 1) * eigenvalues[Q:].sum() / noise for Q in range(1, 7)]
    Q = 1 + next(i for i, bound in enumerate(bounds) if bound <= eta)
    assert 1 < Q < 6
    assert theory.queries_for_accuracy(torch.as_tensor(K), noise, eta) == Q
    chosen = [list(each) for each in itertools.combinations(range(6), Q)]
    odds = np.array([np.linalg.det(K[np.ix_(Z, Z)]) for Z in chosen])
    left = [6 - np.trace(K[:, Z] @ np.linalg.solve(K[np.ix_(Z, Z)], K[Z])) for Z in chosen]
    assert 0 < odds @ left / odds.sum() / noise <= bounds[Q - 1] <= eta
    assert theory.queries_for_accuracy(torch.as_tensor(K), noise, 0.0) <= 6
    for eta, Q in [(8.5, 1), (5.0, 4), (4.9, 5)]:  # the bounds for Q = 1, ..., 5 are 8, 9, 8, 5, 0
        assert theory.queries_for_accuracy(torch.eye(5), 1.0, eta) == Q


def test_mauduit_proposition_3_4() -> None:
    eta, random = 0.15, np.random.default_rng(34)
    sd = random.uniform(0.6, 1.5, 20_000)  # of Q, where P is standard normal
    rest = eta + 1 + 2 * np.log(sd) - sd**2
    mean, sd = np.sqrt(rest[rest >= 0]), sd[rest >= 0]  # 2 KL is η
    of_mean, of_variance = theory.sparse_posterior_error(eta)
    assert_allclose((of_mean, of_variance), (sqrt(eta / (1 - sqrt(3 * eta))), sqrt(3 * eta)))
    assert (mean <= sd * of_mean).all()
    assert (abs(1 - sd**2) < of_variance).all()
    assert abs(1 - sd**2).max() > of_variance / 2


def test_mauduit_lemma_3_8() -> None:
    """Points that join the data and the queries never raise tr(K - K_XS K_SS^-1 K_SX)."""
    random = torch.Generator().manual_seed(38)
    points = 4 * torch.rand(16, 2, generator=random, dtype=torch.float64)
    strategy = gp_ucb(kernel=unit_kernel("se", 0.5), noise=1e-7)

    def residual(count: int, asked: Tensor) -> float:
        """Total variance at the first points, given observations without noise at some."""
        state = strategy.init(Grid(points))
        for x in asked:
            state, _ = strategy.tell(state, strategy.suggestion_at(state, x), 0.0)
        return float(strategy.posterior(state, points[:count]).variance.sum())

    K = torch.exp(-torch.cdist(points, points).square() / (2 * 0.5**2))
    explained = K[:12, :5] @ torch.linalg.solve(K[:5, :5], K[:5, :12])
    before = residual(12, points[:5])
    assert before == pytest.approx(12 - float(explained.diagonal().sum()), rel=1e-5)
    assert residual(16, torch.cat([points[:5], points[12:]])) <= before
    assert residual(16, points[:5]) > before  # a new point without a query raises it


def test_mauduit_example_2_1() -> None:
    # Steps uniform in (-σ, σ) have variance σ² / 3: injection with α = 1 and κ = 1/3.
    random, sigma, ages = np.random.default_rng(21), 0.3, np.array([0, 1, 4, 9])
    steps = random.uniform(-sigma, sigma, (40_000, 9))
    drift = np.concatenate([np.zeros((len(steps), 1)), steps.cumsum(1)], 1)[:, ages]
    error = drift + sigma * random.standard_normal(drift.shape)
    age = torch.as_tensor(ages, dtype=torch.float64)
    model = sigma**2 * UncertaintyInjection(1.0, 1 / 3).log_factor(age).exp()
    # The relative standard error of a variance of 40,000 draws is 0.7 %.
    assert_allclose(error.var(0), model, rtol=0.04)


def test_horizons_of_any_shape_and_type() -> None:
    item = theory.igp_ucb_regret(10, gain=4, B=1.5, R=0.3, delta=0.1)
    many = theory.igp_ucb_regret(torch.full((2, 3), 10), gain=4, B=1.5, R=0.3, delta=0.1)
    assert item.dtype == many.dtype == torch.float64
    assert torch.equal(many, item.expand(2, 3))
    T = torch.full((4,), 10.0, dtype=torch.float32)
    bounds = [call for call in CALLS if call.__name__.endswith(("_regret", "_order"))]
    for call in bounds:
        found = call(**(good(call) | {"T": T}))
        assert (found.dtype, found.shape) == (torch.float32, (4,)), call.__name__


def test_constants_that_touch() -> None:
    order, measured = torch.tensor([0.0, 1.0, 4.0]), torch.tensor([5.0, 2.0, 4.0])
    assert theory.smallest_constant(order, measured) == 2
    assert theory.largest_constant(order, measured) == 1


def test_forgetting_speed_of_the_mismatch() -> None:
    spread = theory.model_mismatch(
        1.0, block=4, epsilon=1e-18, noise=1.0, delta=0.1, a0=0, b0=0, parts=2
    )
    u = 64 * 1e-18 / 2
    tail = sqrt(2) * sqrt(log(2 * pi**2 * 16 / 0.3))
    assert float(spread) == pytest.approx(2 * sqrt(4 * u) + 4 * u * tail)


def test_igp_ucb_and_gp_ts_on_functions_of_given_norm() -> None:
    """[C17] Theorems 3 and 4, with λ = 1 + 2/T. IGP-UCB's bound says more than 2 B T."""
    trials, horizon, delta, B, R = 8, 100, 0.1, 1.0, 0.1
    grid = Grid.regular(points=11, dim=1)
    K = torch.exp(-((grid.X - grid.X.T) ** 2) / (2 * 0.4**2))
    a = torch.as_tensor(np.random.default_rng(0).standard_normal((trials, len(K))))
    functions = FixedFunctions(B * a @ K / (a @ K * a).sum(-1, keepdim=True).sqrt())
    lam = 1 + 2 / horizon
    shared = {"kernel": K, "noise": lam, "B": B, "R": R, "delta": delta}
    study = run_study(
        StaticWorld(grid, functions=functions, noise=R**2),
        {"IGP": igp_ucb(**shared), "TS": gp_ts(**shared)},
        **{"trials": trials, "horizon": horizon, "progress": False, "workers": 1},
    )
    igp, ts = np.cumsum(study.regret.values, axis=-1)
    rounds = torch.arange(1, horizon + 1, dtype=torch.float64)
    gain = theory.greedy_information_gain(K, lam, horizon)[1:]
    bound = theory.igp_ucb_regret(rounds, gain=gain, B=B, R=R, delta=delta).numpy()
    assert (igp <= bound).all()
    assert bound[-1] < 2 * B * horizon
    assert igp[:, -1].max() > bound[-1] / 100
    size = math.log(len(grid))
    bound = theory.gp_ts_regret(rounds, gain=gain, B=B, R=R, delta=delta, log_decisions=size)
    assert (ts <= bound.numpy()).all()


COVARIANCE = torch.eye(3, dtype=torch.float64)
GOOD = {
    **{"T": 10, "horizon": 9, "t": 9, "start": 9, "asking": [3], "period": 5, "block": 5, "dim": 2},
    **{"epsilon": 0.1, "gain": 1, "double_gain": 1, "noise": 0.5, "delta": 0.2, "r": 1.0},
    **{"a0": 1.0, "b0": 1.0, "a1": 1.0, "b1": 4.0, "B": 1, "R": 1, "L": 1, "log_decisions": 3.0},
    **{"gamma": 0.9, "budget": 1, "memory": 3, "features": 2, "mean": 3, "terms": 1, "tail": 0},
    "y_bar": 2.0,
    **{"alpha": 2.0, "alpha_tilde": 0.25, "C_p": 1, "beta_p": 3, "C_e1": 1, "C_e2": 1},
    **{"covariance": COVARIANCE, "inflation": ExponentialWeights(0.9), "kernel": "se"},
    "lengthscale": 1,
    **{"errors": torch.ones(3, dtype=torch.float64), "eta": 0.1},
    **{"beta": 2, "parts": 2, "points": 3, "arms": 4},
}
NAN = math.nan
VALUES = [  # that names refuse
    ("delta gamma", [1, 1.1, NAN]),
    ("C_e1 C_e2 C_p L a1 b1 k_bar lengthscale constant mean nu psi r noise", [0, NAN]),
    (
        "B R a0 alpha b0 budget double_gain eta feature_error gain log_decisions power tail y_bar",
        [-1, NAN],
    ),
    ("T block dim features horizon memory", [0]),
    ("period points start t terms", [0, 2.5]),
    ("epsilon", [-0.1, 1.1]),
    ("beta_p", [1.5]),
    ("alpha_tilde", [-0.1, 1 / 3, NAN]),
]
BAD = {name: values for names, values in VALUES for name in names.split()}
CALLS = [call for name in theory.__all__ if inspect.isfunction(call := getattr(theory, name))]
WORDS = [
    (theory.r_gp_ucb_regret, {"T": torch.tensor([3.0, 2.5])}, r"T is 2\.5, .* at least 1"),
    (theory.r_gp_ucb_regret, {"gain": -1}, "gain is -1, .* docstring"),
    (theory.r_gp_ucb_regret, {"a1": 1e-9}, "a1 must exceed"),
    (theory.time_varying_gain, {"block": 11}, "T is 10, .* at least 11"),
    (theory.tv_gp_ucb_order, {"nu": 2.5, "dim": None}, "dim is None"),
    (theory.analysis_block, {"nu": 2.5, "dim": None}, "dim is None"),
    (theory.gp_ts_regret, {"B": 1e-3}, r"B is 0.001, but the proof needs"),
    (theory.gp_ts_order, {"B": 0.025}, r"B d T is 0.5 .* later T"),
    (theory.log_decision_set, {"B": 1e-3}, r"is 0.2 at T = 10, .* raise B"),
    (theory.w_gp_ucb_regret, {"noise": 0.3}, "noise is 0.3, but .* 0.398"),
    (theory.w_gp_ucb_order, {"budget": 0}, "budget is 0.* igp_ucb_order"),
    (theory.sparq_gp_ucb_order, {"dim": 1, "T": 2}, "T is 2, .* at least 3"),
    (theory.exponential_gain_bound, {"noise": 100, "gamma": 0.8**0.5}, "noise is 100.* below 5"),
]


def good(call) -> dict:
    given = {name: GOOD[name] for name in inspect.signature(call).parameters if name in GOOD}
    return given | ({"nu": 2.5} if call is theory.matern_exponent else {})


# Every argument of every function is replaced by one of its bad values at a time.
SINGLE = [
    (call, {name: value}, "noise is" if name == "noise" else re.escape(f"{name} is {value}"))
    for call in CALLS
    for name in inspect.signature(call).parameters
    for value in BAD.get(name, [])
    if (call, value) != (theory.weighted_information_gain, 1)
]


@pytest.mark.parametrize(("call", "bad", "message"), SINGLE + WORDS)
def test_refused_for_the_bad_value_only(call, bad, message) -> None:
    assert call(**good(call)) is not None
    with pytest.raises(ValueError, match=message):
        call(**(good(call) | bad))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        *((call, "gain") for call in CALLS if call.__name__.endswith("ucb_regret")),
        (theory.gp_ts_regret, "log_decisions"),
        (theory.w_gp_ucb_regret, "double_gain"),
        (theory.w_gp_ucb_regret, "budget"),
    ],
)
def test_a_value_per_horizon(call, what) -> None:
    gain = theory.markov_information_gain(COVARIANCE, 0.1, 0.1, 5)
    given = good(call) | {"T": torch.arange(1, 6)}
    assert call(**(given | {what: gain[1:]})).shape == (5,)
    if what.endswith("gain"):
        with pytest.raises(ValueError, match=f"{what} starts with the value for 0 rounds"):
            call(**(given | {what: gain}))
    with pytest.raises(RuntimeError, match="must match the size"):
        call(**(given | {what: gain[:4]}))
