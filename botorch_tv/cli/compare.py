"""The world (simulated or recorded objectives) and the strategies of a comparison."""

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
    """The world and the strategies that the options select.

    Returns:
        Four items: the world, the strategies by label, the horizon, and a text on fitted values.

    Raises:
        ValueError: If an option is out of range or contradicts another, or if a panel is invalid.
        FileNotFoundError: If the file of the panel does not exist.
    """
    given = vars(arguments)
    if "panel" in given:
        return _recorded(given)
    for name in REPLAYED:
        require(name not in given, f"{_flag(name)} requires recorded data; give --panel FILE.")
    options = DRAWN | OF_DRAWN | given
    points, dim, epsilon = options["points"], options["dim"], options["epsilon"]
    if options["dtype"] == "float32" and "strategies" not in given:
        options["strategies"] = options["strategies"].removesuffix(",Adaptive")  # requires float64
    kernel = unit_kernel(options["kernel"], options["lengthscale"])
    strategies = _line_up(options, kernel, options["noise"], epsilon)
    arms, most = points**dim, int((free_bytes(torch.device("cpu")) / 16) ** 0.5)
    require(arms <= most, f"--points {points} --dim {dim}: {arms:,} arms; give at most {most:,}.")
    grid = Grid.regular(points, dim)
    world = MarkovWorld(grid, kernel=kernel, epsilon=epsilon, noise=options["noise"])
    return world, strategies, options["horizon"], ""


def _recorded(given: dict[str, Any]) -> Compared:
    for name in DRAWN:
        require(
            name not in given,
            f"{_flag(name)} is an option of simulated worlds. With --panel, covariance and rate of "
            "change are fitted to the data; to set the rate or the noise, give --epsilon-model or "
            "--noise-share.",
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
        f"--horizon is {options['horizon']}, but {world.horizon} rows follow the {train} training "
        "rows; give a horizon of at most this number of rows, or fewer training rows.",
    )
    strategies = _line_up(options, world.kernel, world.model_noise, world.epsilon)
    text = (
        f"{file}: {panel!r}, {train} training rows, {world.horizon} test rows. "
        f"Fitted: epsilon {world.epsilon:.3g}. Not fitted: noise variance {world.model_noise:.3g}, "
        f"which is {world.noise_share:.3g} of the variance of the training rows; --noise-share "
        "sets this share."
    )
    missing = [arm for arm, ever in zip(panel.arms, world.measured.any(0).tolist()) if not ever]
    if missing:
        text += f"\nNo reading in any test row: {','.join(missing)}. The value of an arm without "
        text += "test readings is its last training reading; --without drops such arms."
    return world, strategies, options["horizon"], text


def _without(panel: Panel, text: str) -> Panel:
    """Remove arms from a panel; the text is the name of an arm, or names separated by commas.

    Raises:
        ValueError: If the panel has no arm of a given name, or if no arm remains.
    """
    # The name of an arm may contain a comma, such as "0,1", so the whole text is tried first.
    names = [text] if text in panel.arms else [name.strip() for name in text.split(",")]
    some = f"{', '.join(panel.arms[:8])}{', ...' if len(panel.arms) > 8 else '.'}"
    for name in names:
        problem = f"--without {name}: the panel has no arm of this name; it has {some}"
        require(name in panel.arms, problem)
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
