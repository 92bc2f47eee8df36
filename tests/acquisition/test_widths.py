"""Widths and sources of the information gain: formulas with the numbers written in, and limits."""

import dataclasses
from math import e, log, pi, sqrt

import pytest
import torch
from botorch.exceptions import InputDataError

from botorch_tv.acquisition import (
    IGPUCB,
    WGPUCB,
    AgnosticGPUCB,
    BayesEventTriggered,
    BayesResetting,
    BayesTV,
    ClosedForm,
    Constant,
    DoublyWeighted,
    Greedy,
    Heteroscedastic,
    Logarithmic,
    Realized,
    WidthContext,
)
from botorch_tv.acquisition.widths import greedy_gain

NAN, INF = float("nan"), float("inf")
SLOPES = {"delta": 0.1, "r": 1.5, "a1": 2.0, "b1": 0.7}
USING_GAIN = [
    AgnosticGPUCB(B=2.0, delta=0.1),
    IGPUCB(B=2.0, R=0.5, delta=0.1),
    WGPUCB(B=2.0, R=0.5, noise=0.25, delta=0.1),
    Heteroscedastic(B=2.0, delta=0.1),
]
OF_TIME = [
    Logarithmic(),
    BayesTV(**SLOPES),
    BayesResetting(**SLOPES),
    BayesEventTriggered(**SLOPES),
]


def context(t=3, gain=None, weighted=None):
    gains = (None if g is None else torch.tensor(g, dtype=torch.float64) for g in (gain, weighted))
    return WidthContext(t, 2, *gains)


def bayes(share):
    """The width in round 3 of two dimensions, with δ's share of the union bound."""
    return sqrt(2 * log(share) + 4 * log(1.5 * 2 * 0.7 * 9 * sqrt(log(4 * share))))


@pytest.mark.parametrize(
    ("width", "t", "expected"),
    [
        (Logarithmic(), 1, sqrt(0.8 * log(4))),
        (Logarithmic(c1=0.4, c2=4.0), 10, sqrt(0.4 * log(40))),
        (Logarithmic(c1=0.8, c2=0.4), 5, sqrt(0.8 * log(2))),
        (Constant(9.0), 7, 3.0),
        (BayesTV(**SLOPES), 3, bayes(9 * pi**2 / 0.2)),
        (BayesResetting(**SLOPES), 3, bayes(2 * 9 * pi**2 / 0.3)),
        (BayesEventTriggered(**SLOPES), 3, bayes(4 * 9 * pi**2 / 0.3)),
    ],
)
def test_schedules_of_the_round_alone(width, t, expected):
    sqrt_beta = width.sqrt_beta(context(t))
    assert isinstance(sqrt_beta, float)
    assert sqrt_beta == pytest.approx(expected, rel=1e-14)
    assert width.beta(context(t)) == pytest.approx(expected**2, rel=1e-14)
    assert width.gain is None


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (AgnosticGPUCB(B=2.0, delta=0.1), sqrt(2 * 4 + 300 * 1.7 * log(30) ** 3)),
        (IGPUCB(B=2.0, R=0.5, delta=0.1), 2 + 0.5 * sqrt(2 * (1.7 + 1 + log(10)))),
        (WGPUCB(B=2.0, R=0.5, noise=0.04, delta=0.1), 2 + 2.5 * sqrt(2 * log(10) + 2 * 0.6)),
        (Heteroscedastic(B=2.0, delta=0.1), sqrt(2 * log(20) + 2 * 1.7) + 2),
    ],
)
def test_schedules_of_the_gain(width, expected):
    # The two gains differ, so that a schedule reading the wrong one fails.
    sqrt_beta = width.sqrt_beta(context(3, gain=[1.7, 0.0], weighted=[0.6, 0.0]))
    assert sqrt_beta[0].item() == pytest.approx(expected, rel=1e-14)
    assert sqrt_beta[1] < sqrt_beta[0]


def test_negative_logarithms_count_as_zero():
    width = Logarithmic(c1=0.8, c2=0.4)
    assert [width.sqrt_beta(context(t)) for t in (1, 2)] == [0.0, 0.0]
    assert width.sqrt_beta(context(3)) == pytest.approx(sqrt(0.8 * log(1.2)), rel=1e-14)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("width", USING_GAIN, ids=repr)
def test_keeps_shape_dtype_and_device(width, dtype, device):
    gain = torch.zeros(4, 3, dtype=dtype, device=device)
    at = WidthContext(2, 1, gain, gain)
    for result in (width.sqrt_beta(at), width.beta(at)):
        assert (result.shape, result.dtype, result.device) == (gain.shape, dtype, gain.device)


@pytest.mark.parametrize("gain", [ClosedForm("matern", nu=2.5), Greedy((0.0, 1.0, 1.5))])
@pytest.mark.parametrize("width", USING_GAIN, ids=repr)
def test_a_gain_of_the_round_alone_gives_a_number(width, gain):
    g = gain.value(context(3))
    sqrt_beta = dataclasses.replace(width, gain=gain).sqrt_beta(context(3))
    assert isinstance(sqrt_beta, float)
    realised = width.sqrt_beta(context(3, gain=g, weighted=g))
    assert sqrt_beta == pytest.approx(realised.item(), rel=1e-14)


@pytest.mark.parametrize("width", USING_GAIN, ids=repr)
def test_names_the_gain_it_misses(width):
    field = "weighted_information_gain" if isinstance(width, WGPUCB) else "information_gain"
    with pytest.raises(ValueError, match=rf"\(\) reads {field} from the context.*ClosedForm"):
        width.sqrt_beta(context())


@pytest.mark.parametrize("cls", [BayesTV, BayesResetting, BayesEventTriggered])
def test_bayes_names_the_constants_that_leave_no_width(cls):
    with pytest.raises(ValueError, match=r"a1=1e-05.* round 1 with d = 2.*a1 must exceed") as error:
        cls(**{**SLOPES, "a1": 1e-5}).sqrt_beta(context(1))
    limit = float(str(error.value).split("exceed ")[1].rstrip("."))
    assert cls(**{**SLOPES, "a1": 1.01 * limit}).sqrt_beta(context(1)) > 0

    with pytest.raises(ValueError, match=r"r=0.0001.* round 1 with d = 2.*raise r b1 to") as error:
        cls(**{**SLOPES, "r": 1e-4}).sqrt_beta(context(1))
    limit = float(str(error.value).split("to ")[1].rstrip(".")) / SLOPES["b1"]
    assert cls(**{**SLOPES, "r": 1.01 * limit}).sqrt_beta(context(1)) > 0
    with pytest.raises(ValueError, match="raise r b1"):
        cls(**{**SLOPES, "r": 0.99 * limit}).sqrt_beta(context(1))


PROBABILITY, POSITIVE, AT_LEAST_ZERO = [0.0, 1.0, NAN], [0.0, -1.0, INF, NAN], [-1.0, INF, NAN]
LIMITS = {
    **{"c1": AT_LEAST_ZERO, "c2": POSITIVE, "value": AT_LEAST_ZERO, "delta": PROBABILITY},
    **{"r": POSITIVE, "a1": POSITIVE, "b1": POSITIVE, "noise": POSITIVE},
    **{"B": AT_LEAST_ZERO, "R": AT_LEAST_ZERO},
}


@pytest.mark.parametrize(
    ("width", "parameter", "value"),
    [
        (width, field.name, value)
        for width in (*USING_GAIN, *OF_TIME, Constant(1.0))
        for field in dataclasses.fields(width)
        if field.name != "gain"
        for value in LIMITS[field.name]
    ],
)
def test_refuses_parameters_out_of_range(width, parameter, value):
    with pytest.raises(ValueError, match=rf"^{type(width).__name__}: {parameter} is {value}, but"):
        dataclasses.replace(width, **{parameter: value})


NOISE = 0.05
# Arm 2 is the most uncertain one and lies between the others, which together say more than it does.
TEMPTING = torch.tensor([[1.0, 0.0, 0.8], [0.0, 1.0, 0.8], [0.8, 0.8, 1.28]], dtype=torch.float64)


def gain(covariance, arms, noise=NOISE):
    K = covariance[arms][:, arms]
    return 0.5 * torch.logdet(torch.eye(len(arms), dtype=K.dtype) + K / noise).item()


def test_realised_gains_are_those_of_the_context():
    plain, weighted = torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.5])
    context = WidthContext(4, 2, plain, weighted)
    assert Realized().value(context) is plain
    assert DoublyWeighted().value(context) is weighted


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
    ("kernel", "nu", "message"),
    [
        ("rbf", None, "kernel is 'rbf' and nu is None; choose 'se', or 'matern'"),
        ("se", 2.5, "kernel is 'se' and nu is 2.5; choose"),
        ("matern", None, "kernel is 'matern' and nu is None; .* positive, finite"),
        ("matern", 0.0, "kernel is 'matern' and nu is 0.0; .* positive, finite"),
        ("matern", NAN, "kernel is 'matern' and nu is nan; .* positive, finite"),
        ("matern", INF, "kernel is 'matern' and nu is inf; .* positive, finite"),
    ],
)
def test_closed_form_refuses(kernel, nu, message):
    with pytest.raises(ValueError, match=f"^ClosedForm: {message}"):
        ClosedForm(kernel, nu)


def test_greedy_is_the_gain_of_the_most_uncertain_arms_over_its_guarantee():
    bound = Greedy.of(TEMPTING, NOISE, horizon=3)
    greedy = [gain(TEMPTING, [2]), gain(TEMPTING, [2, 0]), gain(TEMPTING, [2, 0, 1])]
    assert bound.values[1:] == pytest.approx([g / (1 - 1 / e) for g in greedy], rel=1e-12)
    # Without the factor it would bound nothing: the best two arms are not the greedy ones.
    assert greedy[1] < gain(TEMPTING, [0, 1])


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_greedy_of_what_is_redrawn_between_observations(epsilon):
    """Every step against a regression whose covariances decay by (1 - ε)^(lag / 2)."""
    arms, total = [], []
    for step in range(5):
        times = torch.arange(step + 1, dtype=torch.float64)
        decay = (1 - epsilon) ** ((times.unsqueeze(-1) - times).abs() / 2)
        past, now = decay[:step, :step], decay[:step, step:]
        noisy = TEMPTING[arms][:, arms] * past + NOISE * torch.eye(step, dtype=torch.float64)
        across = TEMPTING[arms] * now
        left = TEMPTING - across.T @ torch.linalg.solve(noisy, across)
        variance, arm = left.diagonal().max(0)
        arms.append(int(arm))
        total.append(sum(total[-1:]) + 0.5 * log(1 + float(variance) / NOISE))
    found = greedy_gain(TEMPTING, NOISE, 5, epsilon)
    assert found.tolist() == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize(
    ("covariance", "noise", "horizon", "message"),
    [
        *((TEMPTING, noise, 3, f"noise is {noise}, but") for noise in (0.0, -1.0, NAN, INF)),
        *((TEMPTING, NOISE, T, f"horizon is {T}, but") for T in (0, 2.5, True)),
        ([[1.0, 2.0], [2.0, 1.0]], NOISE, 3, "kernel matrix"),
        ([[1.0, 0.5], [0.0, 1.0]], NOISE, 3, "kernel matrix"),
        ([[1.0, 0.0]], NOISE, 3, "kernel matrix"),
        ([[NAN]], NOISE, 3, "kernel matrix"),
    ],
    ids=str,
)
def test_greedy_refuses(covariance, noise, horizon, message):
    covariance = torch.as_tensor(covariance, dtype=torch.float64)
    with pytest.raises((ValueError, InputDataError), match=message):
        Greedy.of(covariance, noise, horizon)


@pytest.mark.parametrize("t", [0, 4])
def test_greedy_names_the_rounds_it_reaches(t):
    with pytest.raises(ValueError, match=f"covers rounds 1 to 3, but the round is {t}"):
        Greedy((0.0, 1.0, 1.5)).value(WidthContext(t, 1))
