"""The filter of a member against the textbook: dense, and over all histories of jumps."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose
from numpy.typing import NDArray
from scipy.special import logsumexp
from scipy.stats import multivariate_t
from scipy.stats import t as student_t

from botorch_tv.gp.mixture.bank import Bank, BankPrior
from botorch_tv.gp.mixture.filter import mixture_prior, observed
from botorch_tv.gp.mixture.posterior import drawn, moments

Array = NDArray[np.float64]


class History(NamedTuple):
    log_marginal_likelihood: float
    """Of the data, times the chance of the history."""
    mean: Array
    """Of f_now at some points."""
    covariance: Array


def all_histories(phi, y, times, noise, points, now, *, rate, hazard, A, B) -> list[History]:
    """All histories of jumps between observations and now, each a dense Student-t regression.

    With scale s² ~ InverseGamma(A, B) and m ~ N(0, s²), the y of a history are jointly Student-t
    with 2A degrees of freedom and squared scale (B / A) C, where C = K ∘ D ∘ J + 1 1ᵀ + N, D_ij = a
    between i and j and J_ij = 1 where no jump lies between them.

    ``phi``, `n x r`, and ``points``, `q x r`, are whitened features of observations and of query
    points; ``noise``, `n`, is in units of s², whose prior has parameters A and B.
    """
    n, q = len(y), len(points)
    rows = np.concatenate([phi, points])
    when = np.concatenate([times, np.full(q, now)])
    gaps = np.diff(np.concatenate([times, [now]]))
    chances = 1 - (1 - hazard) ** gaps
    found = []
    for jumps in itertools.product([False, True], repeat=n):
        chance = np.prod([H if jump else 1 - H for H, jump in zip(chances, jumps)])
        if chance == 0:
            continue
        era = np.concatenate([[0], np.cumsum(jumps)])
        era = np.concatenate([era[:n], np.full(q, era[n])])
        decay = (1 - rate) ** (np.abs(np.subtract.outer(when, when)) / 2)
        K = rows @ rows.T * decay * np.equal.outer(era, era) + 1
        C, k = K[:n, :n] + np.diag(noise), K[n:, :n]
        log = multivariate_t(np.zeros(n), (B / A) * C, df=2 * A).logpdf(y)
        solved = np.linalg.solve(C, y)
        scale = (B + 0.5 * y @ solved) / (A + 0.5 * n - 1)
        covariance = scale * (K[n:, n:] - k @ np.linalg.solve(C, k.T))
        found.append(History(float(log + np.log(chance)), k @ solved, covariance))
    return found


def log_likelihoods(found: list[History]) -> Array:
    return np.array([item.log_marginal_likelihood for item in found])


def over_histories(found: list[History]) -> tuple[Array, Array]:
    """Mean and covariance over histories."""
    logs = log_likelihoods(found)
    weight = np.exp(logs - logsumexp(logs))
    mean = sum(w * item.mean for w, item in zip(weight, found))
    apart = [item.mean - mean for item in found]
    spreads = [item.covariance + np.outer(off, off) for item, off in zip(found, apart)]
    return mean, sum(w * spread for w, spread in zip(weight, spreads))


FEATURES, SHAPE = 5, 2.0


def data(n: int, seed: int) -> dict:
    random = np.random.default_rng(seed)
    return {
        "phi": random.standard_normal((n, FEATURES)) / FEATURES**0.5,
        "y": random.standard_normal(n),
        "times": np.cumsum(random.uniform(0.2, 3.0, n)),
        "noise": random.uniform(0.05, 0.5, n),
        "points": random.standard_normal((3, FEATURES)) / FEATURES**0.5,
    }


class Prior(BankPrior):
    sizes = property(lambda self: [FEATURES + 1])


def prior_of(bank: Bank) -> BankPrior:
    zero = torch.zeros((), dtype=torch.float64)
    return Prior(bank, zero, zero, (), zero, zero)


def passage(gap: float, prior: BankPrior) -> tuple:
    return (1 - prior.rate) ** (gap / 2), gap * torch.log1p(-prior.hazard)


def filtered(case, now, rate, hazard, good=None, histories=4, log_wrong=None) -> tuple:
    """Log marginal likelihood, and the likeliest newest jump with its chance, after each
    observation; mean and covariance at the points."""
    bank = Bank(rates=(rate,), hazards=(hazard,), noise_ratios=(1.0,), histories=histories)
    prior, last = prior_of(bank), None
    zero, running = torch.zeros_like(prior.rate), mixture_prior(prior, torch.Size([1]))
    logs, jumps = [], []
    for i in range(len(case["y"])):
        learns = good is None or good[i]
        time = torch.tensor([case["times"][i]])
        given = dict(
            features=[(torch.tensor([[[*case["phi"][i], 1.0]]]), zero.new_zeros(1, 1))],
            y=torch.tensor([case["y"][i]]),
            noise=zero.unsqueeze(0) + (case["noise"][i] if learns else torch.inf),
            time=time,
            good=torch.tensor([learns]),
            log_wrong=torch.tensor([(log_wrong or {}).get(i, -np.inf)], dtype=torch.float64),
        )
        gap = 0.0 if last is None else case["times"][i] - last
        running, _ = observed(prior, running, passage(gap, prior), **given)
        if learns:
            running, last = running._replace(shape=running.shape + 0.5), case["times"][i]
        logs.append(float(running.log_weight.logsumexp(-1)))
        jumps.append(tuple(map(float, running.newest_jump())))
        when = torch.tensor([jumps[-1][0]], dtype=torch.float64)
        assert float(running.jump_chance(when)) == pytest.approx(jumps[-1][1], abs=1e-12)
    (part,) = moments(running, [passage(now - last, prior)])
    points = torch.tensor(np.pad(case["points"], ((0, 0), (0, 1)), constant_values=1.0))
    mean, covariance = points @ part.mean[0][0], points @ part.covariance[0][0] @ points.T
    return np.array(logs), jumps, mean.numpy(), covariance.numpy()


def by_the_book(case: dict, now: float, rate: float, hazard: float) -> list[History]:
    return all_histories(**case, now=now, rate=rate, hazard=hazard, A=SHAPE, B=SHAPE)


@pytest.mark.parametrize("rate", [0.0, 0.03, 0.5])
def test_a_member_without_jumps_is_student_t_regression(rate):
    case = data(12, seed=1)
    now = case["times"][-1] + 1.7
    logs, jumps, mean, covariance = filtered(case, now, rate, 0.0)
    found = by_the_book(case, now, rate, 0.0)
    assert len(found) == 1
    assert_allclose(logs[-1], log_likelihoods(found)[0], rtol=0, atol=1e-10)
    assert_allclose(mean, found[0].mean, rtol=0, atol=1e-10)
    assert_allclose(covariance, found[0].covariance, rtol=0, atol=1e-10)
    assert jumps == [(-np.inf, 1.0)] * 12


@pytest.mark.parametrize("y", [0.3, 2.5, 6.0])
def test_a_reading_that_may_be_wrong_is_weighed_by_both_predictions(y):
    case = {key: item[:1] if key != "points" else item for key, item in data(1, seed=4).items()}
    case["y"], log_wrong = np.array([y]), -3.0
    logs, _, mean, covariance = filtered(case, case["times"][0], 0.0, 0.0, log_wrong={0: log_wrong})
    phi, points = case["phi"][0], case["points"]
    S = phi @ phi + 1 + case["noise"][0]  # the constant has variance 1
    right = student_t(2 * SHAPE, scale=S**0.5).logpdf(y)
    assert_allclose(logs[0], np.logaddexp(right, log_wrong), rtol=0, atol=1e-12)
    r = np.exp(log_wrong - logs[0])
    gain = (points @ phi + 1) / S
    assert_allclose(mean, (1 - r) * gain * y, rtol=0, atol=1e-12)
    B = SHAPE + 0.5 * ((1 - r) * y**2 / S + r)
    s2 = B / (SHAPE + 0.5 - 1)
    prior = points @ points.T + 1
    within = prior - (1 - r) * S * np.outer(gain, gain)
    # Between the cases the means differ by gain y; in units of s² as the filter measures it.
    between = r * (1 - r) * y**2 * np.outer(gain, gain) * (SHAPE + 0.5) / B
    assert_allclose(covariance, s2 * (within + between), rtol=0, atol=1e-12)


@pytest.mark.few(2)
@pytest.mark.parametrize("hazard", [0.02, 0.3])
@pytest.mark.parametrize("n", [2, 3])
def test_the_first_jumps_are_weighed_exactly(hazard, n):
    for seed in range(5):
        case = data(n, seed)
        now = case["times"][-1]
        logs, _, mean, _ = filtered(case, now, 0.03, hazard)
        found = by_the_book(case, now, 0.03, hazard)
        assert_allclose(logs[-1], logsumexp(log_likelihoods(found)), rtol=0, atol=1e-10)
        assert_allclose(mean, over_histories(found)[0], rtol=0, atol=1e-10)


def in_function_space(case, now, rate, hazard, most) -> tuple[float, list[History]]:
    """So many histories, each a normal law of f at all points and of m, given s² = 1.

    A new jump takes the place of the least likely history, but of neither of the two newest; the
    others inherit its weight. Histories that end in one jump become one of their mean and
    covariance, y / s having the unit E[1 / s²] = A / B after the observation.
    """
    phi = np.concatenate([case["phi"], case["points"]])
    n, K = len(case["y"]), np.zeros((len(phi) + 1,) * 2)
    K[:-1, :-1] = phi @ phi.T
    level = np.zeros_like(K)
    level[-1, -1] = 1.0
    A = SHAPE
    retained = [(0.0, np.zeros(len(K)), K + level, SHAPE, -np.inf)]  # log, mean, P, B, newest jump

    def passed(mean, P, gap, jump):
        a = np.ones(len(K))
        a[:-1] = 0.0 if jump else (1 - rate) ** (gap / 2)
        return a * mean, a[:, None] * P * a + (1 - a[0] ** 2) * K

    def learned(log, mean, P, B, i):
        h = np.zeros(len(K))
        h[[i, -1]] = 1.0
        S, e = h @ P @ h + case["noise"][i], case["y"][i] - h @ mean
        log += float(student_t(2 * A, scale=np.sqrt(B / A * S)).logpdf(e))
        g = P @ h
        return log, mean + g * e / S, P - np.outer(g, g) / S, B + 0.5 * e**2 / S

    for i in range(n):
        gap = case["times"][i] - case["times"][i - 1] if i else 0.0
        stays, time = gap * np.log1p(-hazard), case["times"][i]
        H = -np.expm1(stays)
        on = [
            (*learned(log + stays, *passed(mean, P, gap, False), B, i), since)
            for log, mean, P, B, since in retained
        ]
        if H:
            ended = [
                learned(log + np.log(H), *passed(mean, P, gap, True), B, i)
                for log, mean, P, B, _ in retained
            ]
            logs = np.array([item[0] for item in ended])
            share = np.exp(logs - logsumexp(logs))
            mean, B = (sum(w * item[part] for w, item in zip(share, ended)) for part in (1, 3))
            P = sum(
                w * (item[2] + (A + 0.5) / B * np.outer(item[1] - mean, item[1] - mean))
                for w, item in zip(share, ended)
            )
            if len(on) == most:
                newest = sorted(item[4] for item in on)[-2:]
                gone = min((item for item in on if item[4] not in newest), key=lambda item: item[0])
                total = logsumexp([item[0] for item in on])
                on = [item for item in on if item is not gone]
                more = total - logsumexp([item[0] for item in on])
                on = [(log + more, *rest) for log, *rest in on]
            on.append((float(logsumexp(logs)), mean, P, B, time))
        retained, A = on, A + 0.5
    gap, found = now - case["times"][-1], []
    stays = gap * np.log1p(-hazard)
    for log, mean, P, B, _ in retained:
        for jump, chance in ((False, stays), (True, np.log(-np.expm1(stays)))):
            at, spread = passed(mean, P, gap, jump)
            points = np.eye(len(K))[n:-1] + np.eye(len(K))[-1]
            covariance = B / (A - 1) * points @ spread @ points.T
            found.append(History(log + chance, points @ at, covariance))
    return logsumexp([item[0] for item in retained]), found


LONG = 1e12  # the probability of no jump is far below the smallest positive number


@pytest.mark.few(2)
@pytest.mark.parametrize("histories", [4, 6])
@pytest.mark.parametrize(
    ("seed", "pauses", "wait"),
    [
        *[(seed, {}, 0.7) for seed in range(4)],
        (4, {7: 2e3}, 0.7),
        (5, {1: LONG}, 0.7),
        (6, {4: LONG, 5: LONG, 6: 400.0, 9: LONG}, 0.7),
        (7, {11: LONG}, LONG),
    ],
)
def test_histories_are_replaced_as_in_function_space(seed, pauses, wait, histories):
    case = data(12, seed)
    for place, pause in pauses.items():
        case["times"][place:] += pause
    now = case["times"][-1] + wait
    logs, _, mean, covariance = filtered(case, now, 0.03, 0.1, histories=histories)
    log, found = in_function_space(case, now, 0.03, 0.1, histories)
    wanted = over_histories(found)
    assert_allclose(logs[-1], log, rtol=0, atol=1e-9)
    assert_allclose(mean, wanted[0], rtol=0, atol=1e-9)
    assert_allclose(covariance, wanted[1], rtol=0, atol=1e-9)


def test_a_failed_observation_teaches_nothing_and_does_not_count_as_a_time():
    case = data(6, seed=5)
    good = [True, True, False, True, False, True]
    now = case["times"][-1] + 0.4
    logs, _, mean, covariance = filtered(case, now, 0.1, 0.1, good)
    retained = {name: part[good] if name != "points" else part for name, part in case.items()}
    wanted, _, wanted_mean, wanted_covariance = filtered(retained, now, 0.1, 0.1)
    assert_allclose(logs[good], wanted, rtol=0, atol=1e-12)
    assert_allclose(mean, wanted_mean, rtol=0, atol=1e-12)
    assert_allclose(covariance, wanted_covariance, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("a", "H"), [(1.0, 0.0), (0.7, 0.0), (1.0, 0.3), (0.7, 0.3), (0.0, 1.0)])
def test_a_function_drawn_has_the_mean_and_covariance_of_both_cases(a, H):
    random, size = np.random.default_rng(4), FEATURES + 1
    root = random.standard_normal((size, size)) / size**0.5
    P, z, s2 = root @ root.T, random.standard_normal(size), 1.7
    count = size + 1
    plain = prior_of(Bank(rates=(0.0,), hazards=(0.0,), noise_ratios=(1.0,)))
    log_stays = -np.inf if H == 1 else math.log1p(-H)
    running = mixture_prior(plain, torch.Size([count]))._replace(
        mean=(torch.tensor(z).expand(count, 1, -1),),
        covariance=(torch.tensor(P).expand(count, 1, -1, -1),),
        scale=torch.full((count, 1, 1), s2 * (SHAPE - 1), dtype=torch.float64),
    )
    normal = torch.zeros(count, 1 + size, dtype=torch.float64)
    normal[1:, 1:] = torch.eye(size)
    passage = tuple(torch.tensor([item], dtype=torch.float64) for item in (a, log_stays))
    (weights,) = drawn(running, passage, normal)
    images = (weights[1:] - weights[0]).numpy()
    carried = np.diag([a] * FEATURES + [1.0])
    static = s2 * (carried @ P @ carried + np.diag([1 - a**2] * FEATURES + [0.0]))
    jumped = s2 * np.diag([1.0] * FEATURES + [P[-1, -1]])
    m_static, m_jumped = carried @ z, np.append(np.zeros(FEATURES), z[-1])
    mean = (1 - H) * m_static + H * m_jumped
    apart = m_static - m_jumped
    covariance = (1 - H) * static + H * jumped + H * (1 - H) * np.outer(apart, apart)
    assert_allclose(weights[0], mean, rtol=0, atol=1e-12)
    assert_allclose(images.T @ images, covariance, rtol=0, atol=1e-9)
