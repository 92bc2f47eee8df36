"""The filter of a member against the textbook: dense, and over all histories of jumps."""

import numpy as np
import pytest
import torch
from inference.mixture import dense

from botorch_tv.inference.mixture.filter import Group, Passage, Told, observed
from botorch_tv.inference.mixture.moments import moments

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


def passage(gap: float, rate: float, hazard: float) -> Passage:
    one = torch.ones(1, 1, dtype=torch.float64)
    return Passage(one * (1 - rate) ** (gap / 2), one * (1 - (1 - hazard) ** gap))


def filtered(
    case: dict, now: float, rate: float, hazard: float, good: list[bool] | None = None
) -> tuple:
    """Log marginal likelihood after each observation, and mean and covariance at the points."""
    zero = torch.zeros(1, 1, dtype=torch.float64)
    eye = torch.eye(FEATURES + 1, dtype=torch.float64).expand(1, 1, -1, -1)
    mean = torch.zeros(1, 1, FEATURES + 1, dtype=torch.float64)
    group, shape, last = Group(mean, eye, zero + SHAPE, zero, zero), SHAPE, None
    logs, jumps = [], []
    for i in range(len(case["y"])):
        learns = good is None or good[i]
        told = Told(
            features=torch.tensor([[*case["phi"][i], 1.0]]),
            residual=torch.zeros(1, dtype=torch.float64),
            y=torch.tensor([case["y"][i]]),
            noise=torch.tensor([[case["noise"][i]]]) if learns else zero + torch.inf,
            good=torch.tensor([learns]),
        )
        gap = 0.0 if last is None else case["times"][i] - last
        since = passage(gap, rate, hazard)
        group, _ = observed(group, since, told, torch.tensor([shape], dtype=torch.float64))
        if learns:
            shape, last = shape + 0.5, case["times"][i]
        logs.append(float(group.log_weight))
        jumps.append(float(group.jump))
    since = passage(now - last, rate, hazard)
    (part,) = moments((group,), (since,), torch.tensor([shape], dtype=torch.float64))
    points = torch.tensor(np.pad(case["points"], ((0, 0), (0, 1)), constant_values=1.0))
    mean = points @ part.mean[0]
    return np.array(logs), jumps, mean.numpy(), (points @ part.covariance[0] @ points.T).numpy()


def by_the_book(case: dict, now: float, rate: float, hazard: float) -> list[dense.History]:
    return dense.histories(**case, now=now, rate=rate, hazard=hazard, A=SHAPE, B=SHAPE)


@pytest.mark.parametrize("rate", [0.0, 0.03, 0.5])
def test_a_member_without_jumps_is_student_t_regression(rate):
    case = data(12, seed=1)
    now = case["times"][-1] + 1.7
    logs, jumps, mean, covariance = filtered(case, now, rate, 0.0)
    found = by_the_book(case, now, rate, 0.0)
    assert len(found) == 1
    np.testing.assert_allclose(logs[-1], dense.marginal_likelihood(found), rtol=0, atol=1e-10)
    np.testing.assert_allclose(mean, found[0].mean, rtol=0, atol=1e-10)
    np.testing.assert_allclose(covariance, found[0].covariance, rtol=0, atol=1e-10)
    assert jumps == [0.0] * 12


@pytest.mark.parametrize("hazard", [0.02, 0.3])
def test_the_first_gap_with_a_jump_is_weighed_exactly(hazard):
    """Before a collapse nothing is lost: two observations are as likely as over both cases."""
    for seed in range(5):
        case = data(2, seed)
        now = case["times"][-1]
        logs, _, mean, _ = filtered(case, now, 0.03, hazard)
        found = by_the_book(case, now, 0.03, hazard)
        np.testing.assert_allclose(logs[-1], dense.marginal_likelihood(found), rtol=0, atol=1e-10)
        # The mean over both cases is kept by the collapse, too.
        np.testing.assert_allclose(mean, dense.mixture(found)[0], rtol=0, atol=1e-10)


def test_where_there_can_be_no_doubt_about_jumps_the_collapse_loses_nothing():
    """A jump between any two observations is all but certain: so is the history."""
    case = data(7, seed=3)
    hazard = 1 - 1e-15
    case["times"] = np.arange(7.0)
    logs, jumps, mean, covariance = filtered(case, 6.0, 0.03, hazard)
    found = by_the_book(case, 6.0, 0.03, hazard)
    np.testing.assert_allclose(logs[-1], dense.marginal_likelihood(found), rtol=0, atol=1e-9)
    wanted_mean, wanted = dense.mixture(found)
    np.testing.assert_allclose(mean, wanted_mean, rtol=0, atol=1e-9)
    np.testing.assert_allclose(covariance, wanted, rtol=0, atol=1e-9)
    assert min(jumps[1:]) > 1 - 1e-9


def test_elsewhere_the_collapse_stays_close():
    """One collapse per round instead of all histories: the model is another, and is near."""
    errors, means = [], []
    for seed in range(20):
        case = data(8, seed)
        case["y"][4:] += 3.0
        now = case["times"][-1] + 1
        logs, _, mean, _ = filtered(case, now, 0.02, 0.05)
        found = by_the_book(case, now, 0.02, 0.05)
        errors.append(abs(logs[-1] - dense.marginal_likelihood(found)) / 8)
        wanted, spread = dense.mixture(found)
        means.append((np.abs(mean - wanted) / np.sqrt(np.diag(spread))).max())
    assert max(errors) < 0.15  # nats per round
    assert np.mean(errors) < 0.03
    assert max(means) < 0.5
    assert np.mean(means) < 0.15


def test_a_failed_observation_teaches_nothing_and_does_not_count_as_a_time():
    case = data(6, seed=5)
    good = [True, True, False, True, False, True]
    now = case["times"][-1] + 0.4
    logs, _, mean, covariance = filtered(case, now, 0.1, 0.1, good)
    kept = {name: part[good] if name != "points" else part for name, part in case.items()}
    wanted, _, wanted_mean, wanted_covariance = filtered(kept, now, 0.1, 0.1)
    np.testing.assert_allclose(logs[good], wanted, rtol=0, atol=1e-12)
    np.testing.assert_allclose(mean, wanted_mean, rtol=0, atol=1e-12)
    np.testing.assert_allclose(covariance, wanted_covariance, rtol=0, atol=1e-12)
