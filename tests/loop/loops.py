"""Loops and measurements for the tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from botorch.exceptions import InputDataError
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.forgetting import GLRTrigger, SlidingWindow
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.learning import Refit
from botorch_tv.loop import Loop
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import (
    Box,
    DiscreteSearch,
    Grid,
    MultiStart,
    Strategy,
    adaptive_gp_ucb,
    br_gp_ucb,
    et_gp_ucb,
    gp_ts,
    gp_ucb,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_tvbo,
    w_dbo,
    w_gp_ucb,
)
from botorch_tv.strategies.domains import Domain
from botorch_tv.strategies.state import State

NOISE = 0.01
BANK = Bank(rates=(0.0, 0.03), lengthscales=(0.3,), noise_ratios=(0.01,))
QUICK = MultiStart(raw_samples=16, restarts=1, evaluations=6)
GRID = Grid.regular(6, 2)
BOX = Box(torch.tensor([[0.0, -1.0], [1.0, 1.0]], dtype=torch.float64), search=QUICK)
WITH_CONTEXT = Box(BOX.bounds, context_dim=1, search=QUICK)


def kernel(lengthscale: float = 0.3) -> Kernel:
    return unit_kernel("se", lengthscale)


STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "static": lambda: gp_ucb(kernel=kernel(), noise=NOISE),
    "Markov": lambda: tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=0.05),
    "Wiener": lambda: ui_tvbo(kernel=kernel(), noise=NOISE, sigma_w2=0.05),
    "window": lambda: sw_gp_ucb(kernel=kernel(), noise=NOISE, window=7),
    "reset": lambda: br_gp_ucb(kernel=kernel(), noise=NOISE, period=6),
    "weights": lambda: w_gp_ucb(kernel=kernel(), noise=NOISE, gamma=0.9),
    "trigger": lambda: et_gp_ucb(kernel=kernel(), noise=NOISE),
    "confirmed": lambda: et_gp_ucb(kernel=kernel(), noise=NOISE, confirm=1),
    "Thompson": lambda: gp_ts(kernel=kernel(), noise=NOISE, B=0.5, R=0.1),
    "ratio": lambda: replace(gp_ucb(kernel=kernel(), noise=NOISE), retention=GLRTrigger(0.5)),
    "removal": lambda: w_dbo(kernel=kernel(), noise=NOISE, epsilon=0.3, alpha=1.0),
    "window by time": lambda: replace(
        gp_ucb(kernel=kernel(), noise=NOISE), retention=SlidingWindow(6.5, by="time")
    ),
    "learning": lambda: replace(
        tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=0.05),
        learning=Refit(every=4, least=3, evaluations=6),
    ),
}
FEW = {"adaptive": lambda: adaptive_gp_ucb(bank=BANK)}
SOME = Box(BOX.bounds, search=DiscreteSearch(Grid.regular(5, 2, bounds=[(0, 1), (-1, 1)]).X))
PLACES: dict[str, Domain] = {"grid": GRID, "box": BOX, "candidates": SOME}
# Every strategy on a grid, and on a box those that go through other lines there.
CASES = [(name, "grid") for name in STRATEGIES if name != "learning"]
CASES += [("learning", "box"), ("trigger", "candidates")]


def made(case: tuple[str, str], **settings: Any) -> Loop:
    """A fresh loop."""
    name, place = case
    return Loop(STRATEGIES[name](), PLACES[place], **settings)


def measured(point: Sequence[float], time: float) -> float:
    """A smooth, moving objective that changes sign at time 12."""
    sign = 1.0 if time < 12 else -1.0
    noise = 0.1 * math.sin(1e4 * sum(point) + 7.0 * time)
    return sign * (math.sin(4 * point[0] + 0.05 * time) + 0.5 * math.cos(3 * point[1])) + noise


def fired(loop: Loop) -> bool:
    """Whether the last answer triggered a reset."""
    assert loop.last is not None
    return loop.last.reset


def choices(loop: Loop) -> list[Any]:
    """The open suggestions, and the next rounds."""
    made = [loop.recommend(now=20.0)]
    for t in (20.0, 21.0, 22.0):
        while len(loop.open) < loop.pending:
            loop.ask(now=t)
        made += [(suggestion.number, suggestion.point, suggestion.time) for suggestion in loop.open]
        loop.tell(measured(loop.open[0].point, t), suggestion=loop.open[0])
        made.append(fired(loop))
    return made


def tensor(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


def number(value: float) -> Tensor:
    return torch.tensor(value, dtype=torch.float64)


def fantasized(loop: Loop, strategy: Strategy | None = None) -> State:
    """The state of a loop as if its open suggestions had been answered."""
    log = loop._record.log if strategy is None else loop._record.log._replace(quiet=strategy)
    return log.as_if_answered(
        [(suggestion.planned_for, suggestion.point) for suggestion in loop._record.open.values()],
        None,
    )


def assert_refused(loop: Loop, call: Callable[[Loop], object], message: str, folder: Path) -> None:
    """A call is refused and changes nothing that the loop saves."""
    loop.save(folder / "before")
    state = loop.state
    with pytest.raises(InputDataError, match=message):
        call(loop)
    loop.save(folder / "after")
    assert (folder / "after").read_text() == (folder / "before").read_text()
    assert loop.state is state
