"""Options of `botorch-tv compare`: what is played on, and the parameters of the strategies.

Nothing heavy is imported here, so `--help` answers at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

DRAWN = ("epsilon", "noise", "kernel", "lengthscale", "points", "dim")
"""Options of worlds that are drawn; a panel knows these itself."""
REPLAYED = (
    "key",
    "times",
    "without",
    "train",
    "standardise",
    "center",
    "first_arm",
    "groups",
    "noise_share",
)
"""Options of a panel, which need one."""
STRATEGIES = (
    *("GP", "IGP", "R", "BR", "SW", "TV", "UI-TVBO", "WGP", "UI", "ET"),
    *("SparQ", "W-SparQ", "TS", "EI", "PI", "Random"),
)
"""Short names of all strategies that can meet."""
PANEL_STRATEGIES = "GP,R,TV,ET,Random"
PANEL_C1, PANEL_C2 = 0.8, 0.4
"""Exploration on data, [B16] §5.2."""


class Noted(argparse.Action):
    """Stores a value and notes that it was given, which a default is not."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[object] | None,
        option_string: str | None = None,
    ) -> None:
        setattr(namespace, self.dest, values)
        namespace.noted = [*getattr(namespace, "noted", []), self.dest]


def noted(arguments: argparse.Namespace, name: str) -> bool:
    """Whether a :class:`Noted` option was given."""
    return name in getattr(arguments, "noted", [])


def add_compare_options(parser: argparse.ArgumentParser) -> None:
    """All options but those of the run itself."""
    parser.add_argument(
        "--strategies",
        action=Noted,
        default="GP,R,SW,TV,WGP,UI,ET",
        help=f"comma list of {', '.join(STRATEGIES)} "
        f"(default: %(default)s; with --panel {PANEL_STRATEGIES})",
    )
    _add_world_options(parser)
    _add_panel_options(parser)
    _add_strategy_options(parser)
    parser.add_argument(
        "--trials", type=int, default=64, help="worlds drawn, or first arms of a panel"
    )
    parser.add_argument(
        "--horizon",
        action=Noted,
        type=int,
        default=200,
        help="rounds T per trial (default: %(default)s; with --panel all test rows)",
    )


def _add_world_options(parser: argparse.ArgumentParser) -> None:
    world = parser.add_argument_group("world that is drawn")
    world.add_argument(
        "--epsilon", action=Noted, type=float, default=0.03, help="rate of change per round"
    )
    world.add_argument(
        "--noise", action=Noted, type=float, default=0.02, help="variance of the noise"
    )
    world.add_argument(
        "--kernel",
        action=Noted,
        choices=("se", "matern12", "matern32", "matern52"),
        default="se",
        help="covariance",
    )
    world.add_argument("--lengthscale", action=Noted, type=float, default=0.2, help="of the kernel")
    world.add_argument(
        "--points", action=Noted, type=int, default=50, help="grid points per dimension"
    )
    world.add_argument(
        "--dim", action=Noted, type=int, default=2, help="dimension of the unit cube"
    )


def _add_panel_options(parser: argparse.ArgumentParser) -> None:
    panel = parser.add_argument_group(
        "world that was recorded",
        "Its first rows fit covariance, noise and rate of change; the rows after are played.",
    )
    unset = argparse.SUPPRESS
    panel.add_argument(
        "--panel",
        type=Path,
        default=unset,
        metavar="FILE",
        help="replay a record, a row per time and a column per arm: .npz, .csv or .csv.gz",
    )
    panel.add_argument(
        "--key", default=unset, help="array of the .npz (default: the largest of numbers)"
    )
    panel.add_argument(
        "--times",
        default=unset,
        metavar="NAME",
        help="array of the .npz or column of the table that tells times (default: a column of "
        "dates, or called time; '' for none)",
    )
    panel.add_argument(
        "--without", default=unset, metavar="NAMES", help="comma list of arms to leave out"
    )
    panel.add_argument(
        "--train", type=int, default=unset, metavar="N", help="training rows (default: 2/3 of all)"
    )
    panel.add_argument(
        "--standardise",
        action=argparse.BooleanOptionalAction,
        default=unset,
        help="divide by the standard deviation (default) or keep the unit of the readings",
    )
    panel.add_argument(
        "--center",
        choices=("all", "arm"),
        default=unset,
        help="take off one mean of all (default) or each arm's own, so that arms compete by how "
        "far they are above their usual reading",
    )
    panel.add_argument(
        "--first-arm",
        type=_first_arm,
        default=unset,
        metavar="random|each|N",
        help="where all strategies of a trial start; 'each': trial i at arm i, which counts no "
        "start twice (default: random)",
    )
    panel.add_argument(
        "--groups",
        type=int,
        default=unset,
        metavar="N",
        help="every N training rows (a day, say) are independent of the others (default: all one)",
    )
    panel.add_argument(
        "--noise-share",
        type=float,
        default=unset,
        metavar="SHARE",
        help="noise of the model as a share of the variance (default: 0.05)",
    )


def _add_strategy_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("strategies")
    derived = argparse.SUPPRESS
    group.add_argument(
        "--period",
        type=int,
        default=derived,
        help="of R and BR (default: 12 epsilon^(-1/4), rounded up)",
    )
    group.add_argument("--window", type=int, default=derived, help="of SW (default: as the period)")
    group.add_argument(
        "--gamma", type=float, default=derived, help="discount of WGP (default: 1 - 1/window)"
    )
    group.add_argument(
        "--epsilon-model",
        type=float,
        default=derived,
        help="rate of change TV is told (default: the world's)",
    )
    group.add_argument(
        "--sigma-w2",
        type=float,
        default=derived,
        help="variance UI-TVBO adds per round (default: as --epsilon-model)",
    )
    group.add_argument("--alpha", type=float, default=1.0, help="exponent of age in UI and W-SparQ")
    group.add_argument("--delta", type=float, default=0.1, help="chance of a false alarm of ET")
    group.add_argument(
        "--c1",
        action=Noted,
        type=float,
        default=0.4,
        help="all explore by sqrt(c1 ln(c2 t)), but IGP and BR by the information gain and EI, PI "
        f"and Random without a width (default: %(default)s; with --panel {PANEL_C1})",
    )
    group.add_argument(
        "--c2",
        action=Noted,
        type=float,
        default=4.0,
        help=f"see --c1 (default: %(default)s; with --panel {PANEL_C2})",
    )


def _first_arm(text: str) -> str | int:
    if text in ("random", "each"):
        return text
    try:
        return int(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(
            f"{text!r} is neither 'random' nor 'each' nor a number"
        ) from error
