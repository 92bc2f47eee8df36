"""Strategies with compiled or captured rounds, by kind."""

from __future__ import annotations

import torch
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel

from botorch_tv.acquisition import (
    IGPUCB,
    AgnosticGPUCB,
    ClosedForm,
    Constant,
    Heteroscedastic,
    Logarithmic,
)
from botorch_tv.forgetting import EventTrigger, Markov, PeriodicReset, SlidingWindow, Wiener
from botorch_tv.strategies import GPStrategy, Grid, Strategy

NOISE = 0.02
WIDTH = Logarithmic(c1=0.4, c2=4.0)


def smooth(lengthscale: float = 0.2) -> RBFKernel:
    kernel = RBFKernel().double()
    kernel.lengthscale = torch.tensor(lengthscale, dtype=torch.float64)
    return kernel


def rough() -> ScaleKernel:
    kernel = ScaleKernel(MaternKernel(nu=1.5)).double()
    kernel.outputscale = torch.tensor(2.0, dtype=torch.float64)
    return kernel


def ucb(**parts: object) -> Strategy:
    given = {"kernel": smooth(), "noise": NOISE, "width": WIDTH} | parts
    return GPStrategy(**given)  # type: ignore[arg-type]


KINDS: dict[str, dict[str, object]] = {
    "static": {},
    "resetting": {"retention": PeriodicReset(29)},
    "always resetting": {"retention": PeriodicReset(1)},
    "window": {"retention": SlidingWindow(17)},
    "window of one": {"retention": SlidingWindow(1)},
    "moving": {"decay": Markov(0.03)},
    "walking": {"decay": Wiener(0.03)},
    "moving and resetting": {"decay": Wiener(0.1), "retention": PeriodicReset(13)},
    "triggered": {"retention": EventTrigger(0.1)},
    "moving and triggered": {"decay": Markov(0.01), "retention": EventTrigger(0.3)},
    "walking and triggered": {"decay": Wiener(1e-4), "retention": EventTrigger(0.9)},
    "constant width": {"width": Constant(4.0), "decay": Markov(0.3)},
    "known mean": {"mean": 1.5, "retention": EventTrigger(0.1)},
    "gain": {"width": IGPUCB(B=1.0, R=0.2, delta=0.1)},
    "gain in a window": {
        "width": Heteroscedastic(B=1.0, delta=0.1),
        "retention": SlidingWindow(17),
    },
    "gain and resetting": {
        "width": AgnosticGPUCB(B=1.0, delta=0.1),
        "retention": PeriodicReset(29),
    },
    "gain, moving and triggered": {
        "width": IGPUCB(B=1.0, R=0.2, delta=0.1),
        "decay": Wiener(0.03),
        "retention": EventTrigger(0.3),
    },
    "gain known beforehand": {"width": IGPUCB(B=1.0, R=0.2, delta=0.1, gain=ClosedForm("se"))},
}
SCATTERED = Grid(torch.rand(23, 2, generator=torch.Generator().manual_seed(0)).double())
