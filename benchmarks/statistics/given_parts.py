"""What it costs to be told nothing, part by part: rates, lengthscale, noise, mean and scale.

    python -m benchmarks.statistics.given_parts [--worlds static abrupt] [--trials 40]
        [--horizon 200] [--seed 1] [--out FILE]

The worlds of :mod:`benchmarks.statistics.adaptive_grid` with nothing or two jumps in them. The
bank is told one part of the truth after another until mean and scale of y alone are left to learn;
the last two, which are no bank's, are told those as well, and GP-UCB on *static* so everything. All
widths, functions and noise are equal. Features are half as many as by default, which takes half the
time. Regret is per round, and differences are paired over trials. A few runs that stay on a lower
peak make most of a difference: one step between parts takes other seeds to be believed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.arguments import command_line
from benchmarks.statistics.adaptive_grid import LENGTHSCALE, NOISE, measure
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Strategy, adaptive_gp_ucb, et_gp_ucb, gp_ucb

JUMPS = {"static": 0, "abrupt": 2}
COARSE: dict[str, Any] = {"features": 160, "tolerance": 1e-2}


def contenders(name: str, horizon: int) -> dict[str, Strategy]:
    """Each is told what the one before it is, and a part more; then two that are no banks."""
    told, banks = dict(COARSE), {"told nothing": Bank(**COARSE)}
    parts: dict[str, dict[str, Any]] = {
        "told rate and hazard": {"rates": (0.0,), "hazards": (JUMPS[name] / horizon,)},
        "and lengthscale": {"lengthscales": (LENGTHSCALE,)},
        "and noise": {"noise_ratios": (NOISE,)},
    }
    for label, part in parts.items():
        told |= part
        banks[label] = Bank(**told)
    players: dict[str, Strategy] = {
        label: adaptive_gp_ucb(bank=bank) for label, bank in banks.items()
    }
    kernel, width = unit_kernel("se", LENGTHSCALE), adaptive_gp_ucb().width
    players["ET-GP-UCB"] = et_gp_ucb(kernel=kernel, noise=NOISE, width=width)
    players["GP-UCB"] = gp_ucb(kernel=kernel, noise=NOISE, width=width)
    return players


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    parser = command_line(
        "statistics.given_parts", __doc__, worlds=JUMPS, trials=40, horizon=200, seed=1
    )
    return measure(parser.parse_args(arguments), contenders)


if __name__ == "__main__":
    main()
