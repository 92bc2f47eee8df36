"""Strategies with compiled or captured rounds, by kind, and their rounds beside the recursion's."""

from __future__ import annotations

from typing import Any

import numpy as np
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
from botorch_tv.simulation.rounds import EagerTable, Place
from botorch_tv.simulation.settings import Arrays, StudySettings
from botorch_tv.simulation.streams import Stream
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


def beside_the_recursion(
    table: Any, settings: StudySettings, block: range
) -> tuple[EagerTable, dict[str, Arrays]]:
    """Plays a table of compiled or captured rounds, and the recursion: both store the same.

    Returns:
        The table of the recursion, and the arrays of each strategy.
    """
    eager = EagerTable(settings, list(settings.strategies), Place(block))
    place = {"dtype": settings.dtype, "device": settings.device}
    draws = Stream(settings.seed, "world", block.start, len(block), **place)
    for step, objective in zip(range(settings.horizon), settings.world.objectives(draws)):
        table.play_round(step, objective)
        eager.play_round(step, objective)
    found, expected = table.finished(), eager.finished()
    assert found.keys() == expected.keys()
    for label, arrays in expected.items():
        assert found[label].keys() == arrays.keys()
        for name, array in arrays.items():
            assert found[label][name].dtype == array.dtype
            if name == "regret":
                np.testing.assert_allclose(found[label][name], array, rtol=0, atol=1e-12)
            else:
                np.testing.assert_array_equal(found[label][name], array, f"{name} of {label}")
    return eager, found
