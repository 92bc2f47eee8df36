"""Whether a device chooses as the CPU does: every preset, one study each.

    python -m benchmarks.gpu.choices --out FILE [--device cuda] [--points 20] [--trials 16]
        [--horizon 100] [--seed 0]

The Markov world of [B16] (ε = 0.03, noise 0.02) in float64, trial by trial with the same random
numbers. Arms within 1e-7 standard deviations of the best are decided by their number, so rounding
decides nothing unless a difference lies at that edge; choices are then the same up to the last.
The file is written anew after every preset.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.speed.common import environment
from benchmarks.speed.runs import EPSILON, NOISE, kernel
from botorch_tv.experts import sparq_gp_ucb, w_sparq_gp_ucb
from botorch_tv.simulation import MarkovWorld, StudyResult, run_study
from botorch_tv.strategies import (
    Grid,
    Strategy,
    br_gp_ucb,
    et_gp_ucb,
    gp_ei,
    gp_pi,
    gp_ts,
    gp_ucb,
    igp_ucb,
    r_gp_ucb,
    random_search,
    sw_gp_ucb,
    tv_gp_ucb,
    ui_gp_ucb,
    ui_tvbo,
    w_gp_ucb,
)


def presets() -> dict[str, Callable[[], Strategy]]:
    """Every preset by its usual name."""
    known: dict[str, Any] = {"kernel": kernel(), "noise": NOISE}
    return {
        "GP-UCB": lambda: gp_ucb(**known),
        "IGP-UCB": lambda: igp_ucb(**known),
        "GP-TS": lambda: gp_ts(**known),
        "GP-EI": lambda: gp_ei(**known),
        "GP-PI": lambda: gp_pi(**known),
        "random": lambda: random_search(**known),
        "R-GP-UCB": lambda: r_gp_ucb(**known, period=29),
        "BR-GP-UCB": lambda: br_gp_ucb(**known, period=29),
        "SW-GP-UCB": lambda: sw_gp_ucb(**known, window=29),
        "TV-GP-UCB": lambda: tv_gp_ucb(**known, epsilon=EPSILON),
        "WGP-UCB": lambda: w_gp_ucb(**known, gamma=0.95),
        "UI-TVBO": lambda: ui_tvbo(**known, sigma_w2=0.03),
        "UI-GP-UCB": lambda: ui_gp_ucb(**known, alpha=1.0),
        "ET-GP-UCB": lambda: et_gp_ucb(**known),
        "SparQ-GP-UCB": lambda: sparq_gp_ucb(**known, steps=20),
        "W-SparQ-GP-UCB": lambda: w_sparq_gp_ucb(**known, alpha=1.0, steps=20),
    }


def compare(here: StudyResult, there: StudyResult) -> dict[str, Any]:
    """Where two runs of one strategy part, and by how much.

    Args:
        here: On the CPU.
        there: On the device.
    """
    chosen = [one.data["index"].isel(strategy=0).values for one in (here, there)]
    other = chosen[0] != chosen[1]  # trials x rounds
    parted = other.any(-1)
    regret = [one.regret.isel(strategy=0).values for one in (here, there)]
    same = np.where(other, 0.0, np.abs(regret[0] - regret[1]))
    return {
        "equal": not bool(other.any()),
        "trials_that_part": int(parted.sum()),
        "first_round_of_parting": int(other.argmax(-1)[parted].min()) + 1 if parted.any() else None,
        "resets_equal": bool((here.resets.values == there.resets.values).all()),
        "largest_difference_of_regret_before": float(same[~parted].max(initial=0.0)),
        "seconds": {
            "cpu": float(here.data.attrs["seconds"]),
            "device": float(there.data.attrs["seconds"]),
        },
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu.choices")
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--points", type=int, default=20, help="grid points per axis")
    parser.add_argument("--trials", type=int, default=16)
    parser.add_argument("--horizon", type=int, default=100, help="rounds T")
    parser.add_argument("--presets", nargs="+", choices=list(presets()), default=list(presets()))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Play every preset on both; returns the record that is written."""
    options = parse(arguments)
    grid = Grid.regular(points=options.points, dim=2)
    world = MarkovWorld(grid, kernel=kernel(), epsilon=EPSILON, noise=NOISE)
    record: dict[str, Any] = {"benchmark": "choices"}
    record |= environment(seed=options.seed, device=options.device)
    record["parameters"] = {
        name: getattr(options, name) for name in ("points", "trials", "horizon")
    }
    found = record["presets"] = {}
    for name in options.presets:
        strategy = presets()[name]()

        def study(
            device: torch.device, name: str = name, strategy: Strategy = strategy
        ) -> StudyResult:
            return run_study(
                world,
                {name: strategy},
                trials=options.trials,
                horizon=options.horizon,
                seed=options.seed,
                device=device,
                progress=False,
            )

        try:
            found[name] = compare(study(torch.device("cpu")), study(options.device))
        except Exception as error:  # the others are still worth knowing
            found[name] = {"equal": False, "error": f"{type(error).__name__}: {error}"[:2000]}
        one = found[name]
        print(f"{name:18}{'equal' if one['equal'] else one.get('error', one)}", flush=True)
        record["all_equal"] = all(each["equal"] for each in found.values())
        options.out.write_text(json.dumps(record, indent=1) + "\n")
    return record


if __name__ == "__main__":
    main()
