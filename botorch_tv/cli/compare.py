"""The world and strategies of a comparison, on a simulated world or a recorded one."""

from __future__ import annotations

import argparse
import math
from typing import Any

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import Logarithmic
from botorch_tv.cli.options import DRAWN, OF_DRAWN, OF_PANEL, REPLAYED
from botorch_tv.memory import free_bytes
from botorch_tv.simulation.panels import Panel, load_panel
from botorch_tv.simulation.rivals import Settings, line_up, unit_kernel
from botorch_tv.simulation.worlds import MarkovWorld, PanelWorld, World
from botorch_tv.strategies import Grid, Strategy
from botorch_tv.theory import reset_period
from botorch_tv.validation import require

Compared = tuple[World, dict[str, Strategy], int, str]


def comparison(arguments: argparse.Namespace) -> Compared:
    """The world, the strategies by label, the horizon, and what was fitted, in words.

    As the options of `compare` ask for.

    Raises:
        ValueError: If options contradict each other or are out of range, or a panel is unusable.
        FileNotFoundError: If there is no such panel.
    """
    given = vars(arguments)
    if "panel" in given:
        return _recorded(given)
    for name in REPLAYED:
        require(name not in given, f"{_flag(name)} is about a record; give --panel FILE.")
    options = DRAWN | OF_DRAWN | given
    points, dim, epsilon = options["points"], options["dim"], options["epsilon"]
    if options["dtype"] == "float32" and "strategies" not in given:
        options["strategies"] = options["strategies"].removesuffix(",Adaptive")  # which refuses it
    kernel = unit_kernel(options["kernel"], options["lengthscale"])
    strategies = _line_up(options, kernel, options["noise"], epsilon)
    arms, most = points**dim, int((free_bytes(torch.device("cpu")) / 16) ** 0.5)
    require(arms <= most, f"--points {points} --dim {dim}: {arms:,} arms; take {most:,} at most.")
    grid = Grid.regular(points, dim)
    world = MarkovWorld(grid, kernel=kernel, epsilon=epsilon, noise=options["noise"])
    return world, strategies, options["horizon"], ""


def _recorded(given: dict[str, Any]) -> Compared:
    for name in DRAWN:
        require(
            name not in given,
            f"{_flag(name)} is about worlds that are drawn, but --panel replays a record, to which "
            "covariance and rate of change are fitted; see --epsilon-model and --noise-share.",
        )
    file = given["panel"].name
    panel = load_panel(given["panel"], given.get("key"), times=given.get("times"))
    if "without" in given:
        panel = _without(panel, given["without"])
    train = given.get("train", 2 * len(panel.values) // 3)
    names = ("center", "standardize", "noise_share", "groups", "first_arm")
    world = PanelWorld(panel, train, **{name: given[name] for name in names if name in given})
    options = OF_PANEL | {"horizon": world.horizon} | given
    require(
        options["horizon"] <= world.horizon,
        f"--horizon is {options['horizon']}, but after {train} training rows {world.horizon} are "
        "left to play; give at most that, or train on fewer.",
    )
    strategies = _line_up(options, world.kernel, world.model_noise, world.epsilon)
    told = (
        f"{file}: {panel!r}, {train} rounds to fit, {world.horizon} to play. "
        f"Fitted: epsilon {world.epsilon:.3g}. Noise variance {world.model_noise:.3g}: "
        f"{world.noise_share:.3g} of the variance of the training rows, not fitted; --noise-share "
        "sets it."
    )
    silent = [arm for arm, ever in zip(panel.arms, world.measured.any(0).tolist()) if not ever]
    if silent:
        told += (
            f"\nNo reading in any round to play: {','.join(silent)}. Their last reading before "
            "counts as their value, and playing them teaches nothing; --without leaves them out."
        )
    return world, strategies, options["horizon"], told


def _without(panel: Panel, told: str) -> Panel:
    """The panel without one arm, or a comma list of them.

    Raises:
        ValueError: If there is no such arm, or none is left.
    """
    # Arms of arrays are called by their places, "0,1".
    names = [told] if told in panel.arms else [name.strip() for name in told.split(",")]
    for name in names:
        require(
            name in panel.arms,
            f"--without {name}: the panel has no arm of this name; it has "
            f"{', '.join(panel.arms[:8])}{', ...' if len(panel.arms) > 8 else '.'}",
        )
    return panel.select([place for place, arm in enumerate(panel.arms) if arm not in names])


def _line_up(
    options: dict[str, Any], kernel: Kernel | Tensor, noise: float, epsilon: float
) -> dict[str, Strategy]:
    horizon = options["horizon"]
    period = reset_period(epsilon, horizon)
    window = options.get("window", period)
    rate = options.get("epsilon_model", epsilon)
    block = options.get("block", min(horizon, math.ceil(2 * math.sqrt(horizon))))
    settings = Settings(
        kernel=kernel,
        noise=noise,
        epsilon=rate,
        sigma_w2=options.get("sigma_w2", rate),
        period=options.get("period", period),
        window=window,
        gamma=options.get("gamma", 1 - 1 / max(window, 2)),
        width=Logarithmic(c1=options["c1"], c2=options["c2"]),
        windows=(*(2**n for n in range(2, 32) if 2**n < block), block),
        block=block,
        horizon=horizon,
        **{name: options[name] for name in ("alpha", "delta", "beta", "chance", "cycle")},
    )
    return line_up(options["strategies"].split(","), settings)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
