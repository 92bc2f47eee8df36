"""What it costs to be told nothing, part by part: rates, lengthscale, noise, mean and scale.

    python -m benchmarks.statistics.told_parts [--worlds static abrupt] [--trials 40]
        [--horizon 200] [--seed 1] [--out FILE]

The worlds of :mod:`benchmarks.statistics.told_nothing_grid` with nothing or two jumps in them. The
bank is told one part of the truth after another until mean and scale of y alone are left to learn;
the last two, which are no bank's, are told those as well, and GP-UCB on *static* so everything. All
widths, functions and noise are equal. Features are half as many as by default, which takes half the
time. Regret is per round, and differences are paired over trials. A few runs that stay on a lower
peak make most of a difference: one step between parts takes other seeds to be believed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.speed.common import RESULTS
from benchmarks.statistics.told_nothing_grid import LENGTHSCALE, NOISE, measure
from botorch_tv.inference.mixture.bank import Bank
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", nargs="+", choices=JUMPS, default=list(JUMPS))
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--horizon", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS / "statistics_told_parts.json")
    options = parser.parse_args(arguments)
    return measure(
        options.out,
        contenders,
        options.worlds,
        trials=options.trials,
        horizon=options.horizon,
        seed=options.seed,
    )


if __name__ == "__main__":
    main()
