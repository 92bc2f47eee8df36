"""Sources of the information gain: closed forms by hand, the greedy bound against brute force."""

from itertools import combinations_with_replacement
from math import e, log

import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_tv.acquisition import ClosedForm, Greedy, WidthContext
from botorch_tv.acquisition.widths import greedy_gain

NAN, INF = float("nan"), float("inf")
NOISE = 0.05
# Arm 2 is the most uncertain and lies between the others, which together are more informative.
TEMPTING = torch.tensor([[1.0, 0.0, 0.8], [0.0, 1.0, 0.8], [0.8, 0.8, 1.28]], dtype=torch.float64)


def gain(covariance, arms, noise=NOISE):
    K = covariance[arms][:, arms]
    return 0.5 * torch.logdet(torch.eye(len(arms), dtype=K.dtype) + K / noise).item()


def maximum_gain(covariance, rounds):
    choices = combinations_with_replacement(range(len(covariance)), rounds)
    return max(gain(covariance, list(arms)) for arms in choices)


@pytest.mark.parametrize(
    ("source", "t", "dim", "expected"),
    [
        (ClosedForm("se"), 1, 2, 0.0),
        (ClosedForm("se"), 2, 2, 0.0),
        (ClosedForm("se"), 11, 1, log(10) ** 2),
        (ClosedForm("se"), 11, 2, log(10) ** 3),
        (ClosedForm("matern", nu=2.5), 1, 2, 0.0),
        (ClosedForm("matern", nu=2.5), 11, 1, 10 ** (2 / 7) * log(10)),
        (ClosedForm("matern", nu=2.5), 11, 2, 10 ** (6 / 11) * log(10)),
    ],
)
def test_closed_forms(source, t, dim, expected):
    value = source.value(WidthContext(t, dim))
    assert isinstance(value, float)
    assert value == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(
    ("kernel", "nu"),
    [("rbf", None), ("se", 2.5), *(("matern", nu) for nu in (None, 0.0, NAN, INF))],
)
def test_closed_form_refuses(kernel, nu):
    with pytest.raises(ValueError, match=f"kernel is '{kernel}' and nu is {nu}; choose"):
        ClosedForm(kernel, nu)


def test_greedy_is_the_gain_of_the_most_uncertain_arms_over_its_guarantee():
    bound = Greedy.of(TEMPTING, NOISE, horizon=3)
    greedy = [gain(TEMPTING, [2]), gain(TEMPTING, [2, 0]), gain(TEMPTING, [2, 0, 1])]
    assert bound.values[1:] == pytest.approx([g / (1 - 1 / e) for g in greedy], rel=1e-12)
    # Without the factor it would bound nothing: the best two arms are not the greedy choices.
    assert greedy[1] < gain(TEMPTING, [0, 1]) == pytest.approx(maximum_gain(TEMPTING, 2))


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_greedy_gain_of_a_drifting_objective(epsilon):
    arms, total = [], []
    for step in range(5):
        times = torch.arange(step + 1, dtype=torch.float64)
        decay = (1 - epsilon) ** ((times.unsqueeze(-1) - times).abs() / 2)
        past, now = decay[:step, :step], decay[:step, step:]
        noisy = TEMPTING[arms][:, arms] * past + NOISE * torch.eye(step, dtype=torch.float64)
        across = TEMPTING[arms] * now
        posterior = TEMPTING - across.T @ torch.linalg.solve(noisy, across)
        variance, arm = posterior.diagonal().max(0)
        arms.append(int(arm))
        total.append(sum(total[-1:]) + 0.5 * log(1 + float(variance) / NOISE))
    found = greedy_gain(TEMPTING, NOISE, 5, epsilon)
    assert found.tolist() == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("t", [0, 4])
def test_greedy_names_the_rounds_it_reaches(t):
    with pytest.raises(ValueError, match=f"covers rounds 1 to 3, but the round is {t}"):
        Greedy((0.0, 1.0, 1.5)).value(WidthContext(t, 1))


@pytest.mark.parametrize(
    "covariance", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.0, 1.0]], [[1.0, 0.0]], [[NAN]]]
)
def test_greedy_refuses_other_matrices(covariance):
    with pytest.raises(InputDataError, match="kernel matrix"):
        Greedy.of(torch.tensor(covariance, dtype=torch.float64), NOISE, horizon=3)
