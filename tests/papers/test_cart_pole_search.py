import itertools

import numpy as np
import pytest
import torch
from helpers.synthetic_results import make_result
from scipy.linalg import expm, solve_discrete_are, solve_discrete_lyapunov
from scipy.stats import gamma

from botorch_tv.papers import EXPERIMENTS, cart_pole

Q, R = 10 * np.eye(4), np.eye(1)
LOW, HIGH = np.array([-3, -6, -50, -4.0]), np.array([-2, -4, -25, -2.0])
SCALES = np.array([1 / 8, 1 / 4, 3, 1 / 8])


def dynamics(friction: float) -> tuple[np.ndarray, np.ndarray]:
    """A total of 1 kg with friction 1 N s/m, and a pole of 80.4 g and 14.7 cm."""
    m, half = 0.0804, 0.0735
    mass = np.array([[1.0, m * half], [m * half, 4 / 3 * m * half**2]])
    A, B = np.zeros((4, 4)), np.zeros((4, 1))
    A[0, 1] = A[2, 3] = 1
    A[[1, 3]] = np.linalg.solve(mass, [[0, -1, 0, 0], [0, 0, m * 9.81 * half, -friction]])
    B[[1, 3]] = np.linalg.solve(mass, [[1.0], [0.0]])
    moved = expm(0.02 * np.block([[A, B], [np.zeros((1, 5))]]))
    return moved[:4, :4], moved[:4, 4:]


def cost(gain: np.ndarray, friction: float) -> float:
    """Expected cost of coming to rest from a random start."""
    A, B = dynamics(friction)
    closed = A - B @ gain[None]
    P = solve_discrete_lyapunov(closed.T, Q + np.outer(gain, gain))
    return float(np.diag(P) @ [16, 0, 0.01, 1e-4])


def best_gain(friction: float) -> np.ndarray:
    A, B = dynamics(friction)
    P = solve_discrete_are(A, B, Q, R)
    return np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)[0]


def test_unit_limit_and_stale_regret_by_textbook_formulas() -> None:
    before, after = 2.2e-3, 2.5 * 2.2e-3
    lowest = cost(best_gain(before), before)
    corners = [cost(np.array(c), before) / lowest for c in itertools.product(*zip(LOW, HIGH))]
    assert max(corners) < cart_pole.LIMIT < max(corners) + 0.005
    U = torch.quasirandom.SobolEngine(4, scramble=True, seed=0).draw(300, dtype=torch.float64)
    gains = LOW + (HIGH - LOW) * U.numpy()
    costs = np.array([cost(gain, before) / lowest for gain in gains])
    scale = costs.std(ddof=1)
    X = gains / SCALES
    squared = ((X[:, None] - X[None]) ** 2).sum(-1)
    inverse = np.linalg.inv(np.exp(-squared / (2 * 4.5**2)) + 0.02 * np.eye(300))
    mean = inverse.sum(0) @ costs / inverse.sum()
    assert cart_pole.unit() == pytest.approx((mean, scale), rel=1e-6)
    stale = cost(best_gain(before), after) - cost(best_gain(after), after)
    assert cart_pole.stale_regret() == pytest.approx(stale / lowest / scale, rel=1e-6)
    # The whole box is within four standard deviations of the prior mean before the change.
    assert abs(np.array([1, max(corners)]) - mean).max() < 4 * scale


def test_prior_of_the_paper() -> None:
    points = np.array([1.0, 4.5, 9.0])
    for player in EXPERIMENTS["et-fig3d"].cases["friction"].strategies(0.02).values():
        density = player.learning.lengthscale.prior.log_prob(torch.from_numpy(points)).exp()
        np.testing.assert_allclose(density, gamma.pdf(points, 15, scale=0.3), rtol=1e-5)


def test_recovery_counts_all_rounds_and_the_last_hundred() -> None:
    numbers = np.random.default_rng(0)
    regret = {label: 0.1 + 0.01 * numbers.random((20, 300)) for label in cart_pole._RIVALS}
    regret["ET-GP-UCB"] = 0.05 + 0.01 * numbers.random((20, 300))
    assert cart_pole.recovery({"friction": make_result(regret)}).holds is True
    regret["ET-GP-UCB"][:, :200] = 9.0  # far more at first, and less at the end
    outcome = cart_pole.recovery({"friction": make_result(regret)})
    assert outcome.holds is False
    held = (outcome.table["answer"] == "yes").groupby(outcome.table["case"]).all()
    assert held.to_dict() == {"friction": False, "last 100 rounds": True}
    gap = (regret["GP-UCB"] - regret["ET-GP-UCB"])[:, 200:].sum(-1)
    rows = outcome.table.query("case == 'last 100 rounds' and higher == 'GP-UCB'")
    assert rows["difference"].tolist() == pytest.approx([gap.mean()])
    assert f"ET-GP-UCB {regret['ET-GP-UCB'][:, 200:].mean():.3f}" in outcome.verdict
