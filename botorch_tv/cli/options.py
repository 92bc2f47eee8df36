"""Options of `botorch-tv compare`: the world, and the parameters of the strategies.

Nothing heavy is imported here, so `--help` answers at once.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from botorch_tv.cli.loop import option

DRAWN: dict[str, Any] = {
    "epsilon": 0.03,
    "noise": 0.02,
    "kernel": "se",
    "lengthscale": 0.2,
    "points": 50,
    "dim": 2,
}
"""Options of worlds that are drawn, and their defaults; a panel determines these itself."""
REPLAYED = (
    *("key", "times", "without", "train", "standardize", "center", "first_arm", "groups"),
    "noise_share",
)
"""Options that require a panel."""
STRATEGIES = (
    *("GP", "IGP", "R", "BR", "SW", "TV", "UI-TVBO", "WGP", "UI", "ET", "GLR", "W-DBO", "PE"),
    *("BOB", "R-PERP", "Adaptive", "SparQ", "W-SparQ", "TS", "EI", "PI", "TV-BayesOpt", "Random"),
)
"""Short names of all strategies that can be compared."""
OF_DRAWN: dict[str, Any] = {
    "strategies": "GP,R,SW,TV,WGP,UI,ET,Adaptive",
    "c1": 0.4,
    "c2": 4.0,
    "horizon": 200,
}
OF_PANEL: dict[str, Any] = {"strategies": "GP,R,TV,ET,Random", "c1": 0.8, "c2": 0.4}
"""Defaults that depend on the world; exploration on data is that of [B16] §5.2."""


def add_compare_options(parser: argparse.ArgumentParser) -> None:
    """All options but those of the run itself."""
    told = f"comma list of {', '.join(STRATEGIES)} (default: {OF_DRAWN['strategies']}, in float32 "
    told += f"without Adaptive; with --panel {OF_PANEL['strategies']})"
    option(parser, "--strategies", told)
    add = partial(option, parser.add_argument_group("world that is drawn"))
    for name, told in {
        "epsilon": "rate of change per round",
        "noise": "variance of the noise",
        "lengthscale": "of the kernel",
        "points": "grid points per dimension",
        "dim": "dimension of the unit cube",
    }.items():
        add(f"--{name}", f"{told} (default: {DRAWN[name]})", type=type(DRAWN[name]))
    kinds = ("se", "matern12", "matern32", "matern52")
    add("--kernel", f"covariance (default: {DRAWN['kernel']})", choices=kinds)

    told = "Its first rows fit covariance, noise and rate of change; the rows after are played."
    add = partial(option, parser.add_argument_group("world that was recorded", told))
    told = "replay a record, a row per time and a column per arm: .npz, .csv or .csv.gz"
    add("--panel", told, type=Path, metavar="FILE")
    add("--key", "array of the .npz (default: the largest of numbers)")
    told = "array of the .npz or column of the table that tells times (default: a column of dates, "
    add("--times", told + "or called time; '' for none)", metavar="NAME")
    add("--without", "comma list of arms to leave out", metavar="NAMES")
    add("--train", "training rows (default: 2/3 of all)", type=int, metavar="N")
    told = "divide by the standard deviation (default) or keep the unit of the readings"
    add("--standardize", told, action=argparse.BooleanOptionalAction)
    told = "take off one mean of all (default) or each arm's own, so that arms compete by how far "
    add("--center", told + "they are above their usual reading", choices=("all", "arm"))
    told = "where all strategies of a trial start; 'each': trial i at arm i, which counts no start "
    told += "twice (default: random)"
    add("--first-arm", told, type=_first_arm, metavar="random|each|N")
    told = "every N training rows (a day, say) are independent of the others (default: all one)"
    add("--groups", told, type=int, metavar="N")
    told = "noise of the model as a share of the variance (default: 0.05)"
    add("--noise-share", told, type=float, metavar="SHARE")

    add = partial(option, parser.add_argument_group("strategies"))
    add("--period", "of R, BR and R-PERP (default: 12 epsilon^(-1/4), rounded up)", type=int)
    add("--window", "of SW (default: as the period)", type=int)
    add("--gamma", "discount of WGP (default: 1 - 1/window)", type=float)
    add("--epsilon-model", "rate of change TV is told (default: the world's)", type=float)
    told = "variance UI-TVBO adds per round (default: as --epsilon-model)"
    add("--sigma-w2", told, type=float)
    add("--alpha", "exponent of age in UI and W-SparQ", 1.0)
    add("--delta", "chance of a false alarm of ET and GLR", 0.1)
    add("--chance", "share of rounds in which GLR explores by chance", 0.05)
    told = "rounds for which BOB keeps to a window, of 4, 8, 16, ... up to all of them (default: 2 "
    add("--block", told + "sqrt(T), rounded up)", type=int)
    add("--beta", "squared half width of R-PERP's bands", 4.0)
    add("--cycle", "length of a cycle that TV-BayesOpt is told", 24.0)
    told = (
        "all explore by sqrt(c1 ln(c2 t)), but IGP and BR by the information gain and EI, PI and "
        "Random without a width"
    )
    told += f" (default: {OF_DRAWN['c1']}; with --panel {OF_PANEL['c1']})"
    add("--c1", told, type=float)
    told = f"see --c1 (default: {OF_DRAWN['c2']}; with --panel {OF_PANEL['c2']})"
    add("--c2", told, type=float)

    option(parser, "--trials", "worlds drawn, or first arms of a panel", 64)
    told = f"rounds T per trial (default: {OF_DRAWN['horizon']}; with --panel all test rows)"
    option(parser, "--horizon", told, type=int)


def _first_arm(text: str) -> str | int:
    return text if text in ("random", "each") else int(text)
