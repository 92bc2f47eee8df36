"""Every schedule against its formula with the numbers written in, and what it must refuse."""

from math import log, pi, sqrt

import pytest
import torch

from botorch_tv.acquisition import (
    IGPUCB,
    WGPUCB,
    AgnosticGPUCB,
    BayesEventTriggered,
    BayesFinite,
    BayesResetting,
    BayesTV,
    Constant,
    Heteroscedastic,
    Logarithmic,
    WidthContext,
)

SLOPES = {"delta": 0.1, "r": 1.5, "a1": 2.0, "b1": 0.7}
USING_GAIN = [
    AgnosticGPUCB(B=2.0, delta=0.1),
    IGPUCB(B=2.0, R=0.5, delta=0.1),
    WGPUCB(B=2.0, R=0.5, noise=0.25, delta=0.1),
    Heteroscedastic(B=2.0, delta=0.1),
]


def context(t=3, dim=2, gain=None, weighted=None):
    def as_tensor(value):
        return None if value is None else torch.tensor(value, dtype=torch.float64)

    return WidthContext(t, dim, as_tensor(gain), as_tensor(weighted))


def bayes(first, second):
    """The width in round 3 with d = 2; the logarithms have factors of their own."""
    inner = sqrt(log(second * 9 * pi**2))
    return sqrt(2 * log(first * 9 * pi**2) + 4 * log(1.5 * 2 * 0.7 * 9 * inner))


@pytest.mark.parametrize(
    ("width", "t", "expected"),
    [
        (Logarithmic(), 1, sqrt(0.8 * log(4))),
        (Logarithmic(c1=0.4, c2=4.0), 10, sqrt(0.4 * log(40))),
        (Logarithmic(c1=0.8, c2=0.4), 2, 0.0),  # a negative logarithm counts as zero
        (Logarithmic(c1=0.8, c2=0.4), 5, sqrt(0.8 * log(2))),
        (Constant(9.0), 7, 3.0),
        (BayesFinite(delta=0.1, arms=50), 3, sqrt(2 * log(50 * (pi**2 * 9 / 6) / 0.1))),
        (BayesTV(**SLOPES), 3, bayes(1 / 0.2, 4 / 0.2)),
        (BayesResetting(**SLOPES), 3, bayes(2 / 0.3, 2 * 4 / 0.3)),
        (BayesEventTriggered(**SLOPES), 3, bayes(4 / 0.3, 4 * 4 / 0.3)),
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("width", USING_GAIN, ids=repr)
def test_shape_dtype_and_device_are_those_of_the_gain(width, dtype, device):
    gain = torch.zeros(4, 3, dtype=dtype, device=device)
    for result in (
        width.sqrt_beta(WidthContext(2, 1, gain, gain)),
        width.beta(WidthContext(2, 1, gain, gain)),
    ):
        assert (result.shape, result.dtype, result.device) == (gain.shape, dtype, gain.device)


@pytest.mark.parametrize("width", USING_GAIN, ids=repr)
def test_names_the_gain_it_misses(width):
    field = "weighted_information_gain" if isinstance(width, WGPUCB) else "information_gain"
    with pytest.raises(ValueError, match=rf"\(\) reads {field} from the context.*ClosedForm"):
        width.sqrt_beta(context())


@pytest.mark.parametrize("cls", [BayesTV, BayesResetting, BayesEventTriggered])
def test_bayes_names_the_constants_without_a_width(cls):
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
