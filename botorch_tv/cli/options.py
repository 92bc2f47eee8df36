"""Options of `botorch-tv compare`: the world, and the parameters of the strategies.

This module has no heavy imports, so that `--help` is fast.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from botorch_tv import preset_names
from botorch_tv.cli.loop import option

DRAWN: dict[str, Any] = {
    "epsilon": 0.03,
    "noise": 0.02,
    "kernel": "se",
    "lengthscale": 0.2,
    "points": 50,
    "dim": 2,
}
"""Options of simulated worlds and their defaults; recorded panels set these values themselves."""
REPLAYED = (
    *("key", "times", "without", "train", "standardize", "center", "first_arm", "groups"),
    "noise_share",
)
"""Options that require a panel."""
OF_DRAWN: dict[str, Any] = {
    "strategies": "GP,R,SW,TV,WGP,UI,ET,Adaptive",
    "c1": 0.4,
    "c2": 4.0,
    "horizon": 200,
}
OF_PANEL: dict[str, Any] = {"strategies": "GP,R,TV,ET,Random", "c1": 0.8, "c2": 0.4}
"""Defaults that differ between simulated worlds (drawn) and recorded data (panel). The exploration
constants c1 and c2 for recorded data follow [B16] §5.2."""


def add_compare_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of `compare` that define the world, the strategies, trials and horizon."""
    codes = ", ".join(names[:2][-1] for names in preset_names().values())
    text = f"comma list of {codes} (default: {OF_DRAWN['strategies']}, in float32 "
    text += f"without Adaptive; with --panel {OF_PANEL['strategies']})"
    option(parser, "--strategies", text)
    add = partial(option, parser.add_argument_group("simulated world"))
    for name, text in {
        "epsilon": "rate of change per round",
        "noise": "variance of the noise",
        "lengthscale": "of the kernel",
        "points": "grid points per dimension",
        "dim": "dimension of the unit cube",
    }.items():
        add(f"--{name}", f"{text} (default: {DRAWN[name]})", type=type(DRAWN[name]))
    kinds = ("se", "matern12", "matern32", "matern52")
    add("--kernel", f"covariance (default: {DRAWN['kernel']})", choices=kinds)

    text = "Covariance, noise and rate of change come from the first rows; later rows are the test."
    add = partial(option, parser.add_argument_group("recorded world", text))
    text = "recorded data, a row per time and a column per arm: .npz, .csv or .csv.gz"
    add("--panel", text, type=Path, metavar="FILE")
    add("--key", "array of the .npz (default: the largest numeric array)")
    text = "array of the .npz or column of the table with the times (default: a column of dates, "
    add("--times", text + "or the column time; '' for none)", metavar="NAME")
    add("--without", "comma list of arms to drop", metavar="NAMES")
    add("--train", "training rows (default: 2/3 of all)", type=int, metavar="N")
    text = "divide readings by their standard deviation (default)"
    add("--standardize", text, action=argparse.BooleanOptionalAction)
    text = "subtract the mean of all readings (default) or of each arm"
    add("--center", text, choices=("all", "arm"))
    text = "first arm of all strategies of a trial; 'each': arm i in trial i (default: random)"
    add("--first-arm", text, type=_first_arm, metavar="random|each|N")
    text = "training rows per independent group, such as a day (default: a single group)"
    add("--groups", text, type=int, metavar="N")
    text = "noise of the model as a share of the variance (default: 0.05)"
    add("--noise-share", text, type=float, metavar="SHARE")

    add = partial(option, parser.add_argument_group("strategies"))
    add("--period", "of R, BR, R-PERP and RExp3 (default: 12 epsilon^(-1/4), rounded up)", type=int)
    add("--window", "of SW (default: as the period)", type=int)
    add("--gamma", "discount of WGP (default: 1 - 1/window)", type=float)
    add("--epsilon-model", "rate of change given to TV (default: the world's)", type=float)
    text = "variance that UI-TVBO adds per round (default: as --epsilon-model)"
    add("--sigma-w2", text, type=float)
    add("--alpha", "exponent of age in UI and W-SparQ", 1.0)
    add("--delta", "probability of a false trigger of ET and GLR", 0.1)
    add("--chance", "share of rounds in which GLR explores at random", 0.05)
    text = "rounds for which BOB retains its choice of a window, 4, 8, 16, ... "
    add("--block", text + "(default: 2 sqrt(T), rounded up)", type=int)
    add("--beta", "squared half width of R-PERP's bands", 4.0)
    add("--cycle", "length of a cycle given to TV-BayesOpt", 24.0)
    width = "width sqrt(c1 ln(c2 t)) of all strategies, except IGP and BR (information gain) and "
    width += "EI, PI, RExp3 and Random (no width)"
    for name, text in {"c1": width, "c2": "see --c1"}.items():
        default = f"(default: {OF_DRAWN[name]}; with --panel {OF_PANEL[name]})"
        add(f"--{name}", f"{text} {default}", type=float)

    option(parser, "--trials", "number of worlds, or of first arms of a panel", 4)
    text = f"rounds T per trial (default: {OF_DRAWN['horizon']}; with --panel all test rows)"
    option(parser, "--horizon", text, type=int)


def _first_arm(text: str) -> str | int:
    return text if text in ("random", "each") else int(text)
