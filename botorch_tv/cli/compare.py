"""The world and strategies of a comparison, on a simulated world or a recorded one."""

from __future__ import annotations

import argparse
import math

import torch
from gpytorch.kernels import Kernel
from torch import Tensor

from botorch_tv.acquisition import Logarithmic
from botorch_tv.cli.options import DRAWN, PANEL_C1, PANEL_C2, PANEL_STRATEGIES, REPLAYED, noted
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
    return _recorded(arguments) if "panel" in arguments else _drawn(arguments)


def _drawn(arguments: argparse.Namespace) -> Compared:
    for name in REPLAYED:
        require(name not in arguments, f"{_flag(name)} is about a record; give --panel FILE.")
    if arguments.dtype == "float32" and not noted(arguments, "strategies"):
        arguments.strategies = arguments.strategies.removesuffix(",Adaptive")  # which refuses it
    kernel = unit_kernel(arguments.kernel, arguments.lengthscale)
    strategies = _line_up(
        arguments, kernel=kernel, noise=arguments.noise, epsilon=arguments.epsilon
    )
    most = _most_arms()
    if arguments.points >= 1 and arguments.dim >= 1:  # Grid says it better
        require(
            arguments.points**arguments.dim <= most,
            f"--points {arguments.points} --dim {arguments.dim} make "
            f"{arguments.points**arguments.dim:,} arms, but a covariance of more than {most:,} "
            "arms does not fit into free memory; try --points "
            f"{max(1, int(most ** (1 / arguments.dim)))}.",
        )
    world = MarkovWorld(
        Grid.regular(arguments.points, arguments.dim),
        kernel=kernel,
        epsilon=arguments.epsilon,
        noise=arguments.noise,
    )
    return world, strategies, arguments.horizon, ""


def _recorded(arguments: argparse.Namespace) -> Compared:
    given = vars(arguments)
    for name in DRAWN:
        require(
            not noted(arguments, name),
            f"{_flag(name)} is about worlds that are drawn, but --panel replays a record, to which "
            "covariance and rate of change are fitted; leave it out (see --epsilon-model and "
            "--noise-share).",
        )
    panel = load_panel(arguments.panel, given.get("key"), times=given.get("times"))
    if "without" in given:
        panel = _without(panel, given["without"])
    rounds, arms = panel.values.shape
    most = _most_arms()
    require(
        arms <= most,
        f"{arguments.panel.name} has {arms:,} arms, but a covariance of more than {most:,} arms "
        "does not fit into free memory; leave some out.",
    )
    train = given.get("train", 2 * rounds // 3)
    world = PanelWorld(
        panel,
        train,
        center=given.get("center", "all"),
        standardize=given.get("standardize", True),
        noise_share=given.get("noise_share", 0.05),
        groups=given.get("groups"),
        first_arm=given.get("first_arm", "random"),
    )
    defaults = {"strategies": PANEL_STRATEGIES, "c1": PANEL_C1, "c2": PANEL_C2}
    defaults["horizon"] = world.horizon
    for name, value in defaults.items():
        if not noted(arguments, name):
            setattr(arguments, name, value)
    require(
        1 <= arguments.horizon <= world.horizon,
        f"--horizon is {arguments.horizon}, but after {train} training rows {world.horizon} are "
        f"left to play; give 1 to {world.horizon}, or train on fewer.",
    )
    strategies = _line_up(
        arguments, kernel=world.kernel, noise=world.model_noise, epsilon=world.epsilon
    )
    told = _fitted(arguments.panel.name, panel, world, train)
    return world, strategies, arguments.horizon, told


def _fitted(file: str, panel: Panel, world: PanelWorld, train: int) -> str:
    """What was fitted to a record, and which arms have no reading to play."""
    told = (
        f"{file}: {panel!r}, {train} rounds to fit, {world.horizon} to play. "
        f"Fitted: epsilon {world.epsilon:.3g}. Noise variance {world.model_noise:.3g}: "
        f"{world.noise_share:.3g} of the variance of the training rows, not fitted; --noise-share "
        "sets it."
    )
    silent = [arm for arm, ever in zip(panel.arms, world.measured.any(0).tolist()) if not ever]
    if silent:
        names = ",".join(silent)
        told += (
            f"\nNo reading in any round to play: {names}. Their last reading before counts as "
            f"their value, and playing them teaches nothing; --without {names} leaves them out."
        )
    return told


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
    arguments: argparse.Namespace, *, kernel: Kernel | Tensor, noise: float, epsilon: float
) -> dict[str, Strategy]:
    given = vars(arguments)
    period = reset_period(epsilon, arguments.horizon)
    window = given.get("window", period)
    rate = given.get("epsilon_model", epsilon)
    horizon = arguments.horizon
    block = given.get("block", min(horizon, math.ceil(2 * math.sqrt(horizon))))
    settings = Settings(
        kernel=kernel,
        noise=noise,
        epsilon=rate,
        sigma_w2=given.get("sigma_w2", rate),
        period=given.get("period", period),
        window=window,
        gamma=given.get("gamma", 1 - 1 / max(window, 2)),
        alpha=arguments.alpha,
        delta=arguments.delta,
        width=Logarithmic(c1=arguments.c1, c2=arguments.c2),
        beta=arguments.beta,
        chance=arguments.chance,
        windows=(*(2**n for n in range(2, 32) if 2**n < block), block),
        block=block,
        horizon=horizon,
        cycle=arguments.cycle,
    )
    return line_up(arguments.strategies.split(","), settings)


def _most_arms() -> int:
    """Arms whose covariance still fits into free memory: two M x M matrices in float64."""
    return int((free_bytes(torch.device("cpu")) / 16) ** 0.5)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
