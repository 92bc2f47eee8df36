"""Power lost on a wind farm whose wind turns, with and without steering.

    python -m benchmarks.statistics.power_of_wind_farm [--trials 5] [--horizon 100]

Three turbines in a row; the first two are yawed. The wind comes along the row and swings to either
side with a period of 80 units of time. The power of the farm is measured with noise. It takes a
minute and needs FLORIS: ``pip install 'botorch-tv[wind]'``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.command_line import command_line
from benchmarks.records import begin, write
from benchmarks.statistics.paired import standard_error
from botorch_tv.simulation import BoxWorld, run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import adaptive_gp_ucb, gp_ucb
from botorch_tv.test_functions import WindFarm

SWING, PERIOD = 12.0, 80.0
"""Degrees to either side, and period in units of time."""
NOISE, MIDDLE, SPREAD, LENGTHSCALE = 0.05, 3.9, 0.6, 20.0
"""Noise standard deviation, and given mean, standard deviation (MW) and lengthscale (degrees)."""


def farm(horizon: int) -> WindFarm:
    """The farm and its wind."""
    t = torch.arange(horizon + 1, dtype=torch.float64)
    return WindFarm(270 + SWING * torch.sin(2 * math.pi * t / PERIOD), noise_std=NOISE)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    options = command_line(
        "statistics.power_of_wind_farm", __doc__, trials=5, horizon=100, seed=0, threads=1
    ).parse_args(arguments)
    facts = begin(options.threads, seed=options.seed)
    problem = farm(options.horizon)
    times = torch.arange(1.0, options.horizon + 1, dtype=torch.float64)
    best = problem.optimal_value_at(times)  # all at once
    idle = torch.cat([torch.zeros(options.horizon, 2, dtype=torch.float64), times[:, None]], -1)
    result = run_study(
        BoxWorld(problem, shift=MIDDLE, scale=SPREAD),
        {
            "adaptive": adaptive_gp_ucb(),
            "static": gp_ucb(kernel=unit_kernel("se", LENGTHSCALE), noise=(NOISE / SPREAD) ** 2),
        },
        trials=options.trials,
        horizon=options.horizon,
        seed=options.seed,
        progress=False,
    )
    lost = {"facing the wind": float((best - problem.evaluate_true(idle)).mean())}
    errors = {}
    for label, regret in zip(result.strategies, result.regret.values * SPREAD):
        lost[label] = float(regret.mean())
        errors[label] = standard_error(regret.mean(-1).tolist())
    for label, megawatts in lost.items():
        print(f"{label}: {megawatts:.3f} of {float(best.mean()):.3f} MW lost", flush=True)
    sizes = {"trials": options.trials, "horizon": options.horizon}
    parameters = {**sizes, "noise": NOISE, "swing": SWING, "period": PERIOD}
    found = {"best": float(best.mean()), "lost": lost, "standard errors": errors}
    record = {"benchmark": "power_of_wind_farm", **facts, "parameters": parameters, "MW": found}
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
