"""Numbers of the parts that strategies are made of."""

from functools import partial

import pytest
import torch
from bad_input.rows import INF, NAN, Parameter, assert_refuses, table

from botorch_tv.acquisition import widths
from botorch_tv.experts import Refresh, Windows
from botorch_tv.forgetting import (
    EventTrigger,
    ExponentialWeights,
    Markov,
    PeriodicReset,
    SlidingWindow,
    UncertaintyInjection,
    Wiener,
)
from botorch_tv.kernels import MarkovKernel, WienerKernel
from botorch_tv.learning import Refit
from botorch_tv.strategies import MultiStart
from botorch_tv.test_functions.drifting import Orbit

EYE = torch.eye(3, dtype=torch.float64)
POSITIVE, SIZE = (0, -1.0, NAN, INF, 1e101), (-1.0, NAN, INF, 1e101)
WHOLE = (0, -3, 0.5, 2.5, NAN, INF)
CHANCE = (0.0, 1.0, -0.1, 1.5, NAN)
AT_LEAST_ONE = "an integer of at least 1"
STRICTLY = "strictly between 0 and 1"

FORGETTING = {
    "Markov epsilon": Parameter(
        Markov, (-0.1, 1.1, NAN, INF), "must lie in [0, 1]", "0 keeps the obj"
    ),
    "Wiener sigma_w2": Parameter(Wiener, (-0.1, NAN, INF, 1e101), "[0, 1e100]", "0 keeps the obj"),
    "ExponentialWeights gamma": Parameter(
        ExponentialWeights, (0.0, -0.5, 1.01, NAN), "must lie in (0, 1]", "1 forgets nothing"
    ),
    "UncertaintyInjection alpha": Parameter(
        UncertaintyInjection, (-0.5, NAN, INF), "finite and at least 0", "1 is usual"
    ),
    "UncertaintyInjection kappa": Parameter(
        partial(UncertaintyInjection, 1.0), (-0.5, NAN, INF), "finite and at least 0", "1 is usual"
    ),
    "PeriodicReset period": Parameter(PeriodicReset, WHOLE, AT_LEAST_ONE, "or by='time'"),
    "SlidingWindow window": Parameter(SlidingWindow, WHOLE, AT_LEAST_ONE, "or by='time'"),
    "PeriodicReset time": Parameter(
        lambda v: PeriodicReset(v, by="time"), (0.0, -3.0, NAN), "be positive and", "by='rounds'"
    ),
    "SlidingWindow time": Parameter(
        lambda v: SlidingWindow(v, by="time"), (0.0, -3.0, NAN), "be positive and", "by='rounds'"
    ),
    "EventTrigger delta": Parameter(EventTrigger, CHANCE, STRICTLY, "the papers use 0.1"),
    "MarkovKernel epsilon": Parameter(
        MarkovKernel, (-0.1, 1.1, NAN, 1 - 1e-8), "1 - 1e-6 at most", "0 keeps the objective"
    ),
    "WienerKernel sigma_w2": Parameter(
        WienerKernel, (-0.1, NAN, INF), "must lie in [0, 1e100]", "0 is static"
    ),
}


def width(make, name, **good):
    """A width with one of its numbers to be replaced."""
    return lambda value: make(**(good | {name: value}))


BAYES = {"delta": 0.1, "r": 1.0, "a1": 1.0, "b1": 1.0}
NORM = {"B": 1.0, "R": 0.1, "delta": 0.1}
FROM, UP_TO, SHARE = "in [1e-100, 1e100]", "in [0, 1e100]", "in [1e-100, 1)"
WIDTHS = {
    "Logarithmic c1": Parameter(lambda v: widths.Logarithmic(c1=v), SIZE, UP_TO, "never explores"),
    "Logarithmic c2": Parameter(lambda v: widths.Logarithmic(c2=v), POSITIVE, FROM, "papers use 4"),
    "Constant value": Parameter(widths.Constant, SIZE, UP_TO, "square of √beta"),
    "BayesTV delta": Parameter(
        width(widths.BayesTV, "delta", **BAYES), CHANCE, SHARE, "papers use 0.1"
    ),
    "BayesTV r": Parameter(width(widths.BayesTV, "r", **BAYES), POSITIVE, FROM, "length of the"),
    "BayesResetting a1": Parameter(
        width(widths.BayesResetting, "a1", **BAYES), POSITIVE, FROM, "bounds the kernel's slopes"
    ),
    "BayesEventTriggered b1": Parameter(
        width(widths.BayesEventTriggered, "b1", **BAYES), POSITIVE, FROM, "bounds the kernel's slop"
    ),
    "IGPUCB B": Parameter(width(widths.IGPUCB, "B", **NORM), SIZE, UP_TO, "bounds the norm of f"),
    "IGPUCB R": Parameter(width(widths.IGPUCB, "R", **NORM), SIZE, UP_TO, "standard deviation"),
    "IGPUCB delta": Parameter(
        width(widths.IGPUCB, "delta", **NORM), CHANCE, SHARE, "the papers use 0.1"
    ),
    "WGPUCB noise": Parameter(
        width(widths.WGPUCB, "noise", **NORM), POSITIVE, FROM, "it is a variance"
    ),
    "AgnosticGPUCB B": Parameter(
        width(widths.AgnosticGPUCB, "B", delta=0.1), SIZE, UP_TO, "bounds the norm of f"
    ),
    "Heteroscedastic delta": Parameter(
        width(widths.Heteroscedastic, "delta", B=1.0), CHANCE, SHARE, "the papers use 0.1"
    ),
    "Fixed gain": Parameter(widths.Fixed, SIZE, UP_TO, "[C17] uses 1"),
    "Greedy noise": Parameter(
        lambda v: widths.Greedy.of(EYE, v, 3),
        (0.0, NAN),
        "be positive and finite",
        "give a variance",
    ),
    "Greedy horizon": Parameter(
        lambda v: widths.Greedy.of(EYE, 0.1, v), WHOLE, AT_LEAST_ONE, "give a number of rounds"
    ),
}
OTHERS = {
    "Windows alpha": Parameter(Windows, (0, -1.0, NAN, INF), "positive and finite", "static"),
    "Refresh c_Q": Parameter(
        lambda v: Refresh(c_Q=v), (0, -1.0, NAN, INF), "be positive and finite", "1 is usual"
    ),
    "MultiStart raw_samples": Parameter(MultiStart, WHOLE, AT_LEAST_ONE, "use 512"),
    "MultiStart evaluations": Parameter(
        lambda v: MultiStart(evaluations=v), WHOLE, AT_LEAST_ONE, "use 60"
    ),
    "Refit every": Parameter(lambda v: Refit(every=v), WHOLE, AT_LEAST_ONE, "between fits"),
    "Refit least": Parameter(lambda v: Refit(least=v), WHOLE, AT_LEAST_ONE, "number of observa"),
    "Orbit period": Parameter(Orbit, (0, -1.0, NAN, INF), "positive and finite", "100 is usual"),
    "Orbit reach": Parameter(
        lambda v: Orbit(reach=v), (0, -1.0, 1.1, NAN), "must lie in (0, 1]", "0.8 is usual"
    ),
}


@pytest.mark.parametrize("row", table(FORGETTING | WIDTHS | OTHERS))
def test_refused(row):
    assert_refuses(row)
