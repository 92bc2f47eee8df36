"""Regret of the algorithms that appeared after the five papers.

Functions are Gaussian draws on a 20 x 20 grid (SE kernel, lengthscale 0.2, σ² = 0.02) over 200
rounds: static, a Markov process of ε = 0.03, redrawn after round 100, or turning into another
function and back in 24 rounds. All strategies are given kernel and noise, and share one width
unless their paper fixes it. TV-GP-UCB, W-DBO and TV-BayesOpt are given ε = 0.03 in all worlds,
TV-BayesOpt also the cycle. Differences are paired: all strategies play the same functions and
noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from torch import Tensor

from benchmarks.command_line import command_line
from benchmarks.records import begin, write
from botorch_tv.acquisition import Logarithmic
from botorch_tv.simulation import AbruptWorld, MarkovWorld, run_study
from botorch_tv.simulation.rivals import Settings, line_up, unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds import GaussianDraw, GridWorld, StaticWorld
from botorch_tv.simulation.worlds.grid import DrawnWorld
from botorch_tv.strategies import Grid
from botorch_tv.theory import reset_period

EPSILON, NOISE, CYCLE, HORIZON, POINTS = 0.03, 0.02, 24, 200, 20
PLAYERS = ("GP", "TV", "ET", "GLR", "W-DBO", "PE", "BOB", "R-PERP", "TV-BayesOpt", "Random")


class Turning(DrawnWorld):
    """cos(2π t / P) f + sin(2π t / P) g."""

    def __init__(self, domain: Grid, *, functions: GaussianDraw, noise: float) -> None:
        super().__init__(domain, functions, 2, noise)

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        first, second = self.draw(stream)
        for t in count(1):
            angle = 2 * math.pi * t / CYCLE
            yield math.cos(angle) * first.values + math.sin(angle) * second.values


def worlds() -> dict[str, GridWorld]:
    """Worlds by name."""
    domain, kernel = Grid.regular(points=POINTS, dim=2), unit_kernel("se", 0.2)
    drawn: dict[str, Any] = {"functions": GaussianDraw(kernel), "noise": NOISE}
    return {
        "static": StaticWorld(domain, **drawn),
        "markov": MarkovWorld(domain, kernel=kernel, epsilon=EPSILON, noise=NOISE),
        "redrawn": AbruptWorld(domain, changes=(HORIZON // 2 + 1,), **drawn),
        "turning": Turning(domain, **drawn),
    }


def settings(horizon: int) -> Settings:
    """Hyperparameters of the strategies."""
    period, block = reset_period(EPSILON, horizon), math.ceil(2 * math.sqrt(horizon))
    return Settings(
        kernel=unit_kernel("se", 0.2),
        noise=NOISE,
        epsilon=EPSILON,
        sigma_w2=EPSILON,
        period=period,
        window=period,
        gamma=1 - 1 / period,
        alpha=1.0,
        delta=0.1,
        width=Logarithmic(c1=0.4, c2=4.0),
        cycle=CYCLE,
        windows=(*(2**n for n in range(2, 32) if 2**n < block), block),
        block=block,
        horizon=horizon,
    )


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    options = command_line(
        "statistics.regret_of_later_algorithms",
        __doc__,
        trials=64,
        horizon=HORIZON,
        seed=0,
        threads=1,
    ).parse_args(arguments)
    facts = begin(options.threads, seed=options.seed)
    players, tables = line_up(PLAYERS, settings(options.horizon)), {}
    for name, world in worlds().items():
        result = run_study(
            world,
            players,
            trials=options.trials,
            horizon=options.horizon,
            seed=options.seed,
            progress=False,
        )
        summary = result.summary()
        print(f"World: {name}\n{summary}\n", flush=True)
        tables[name] = {
            str(label): {str(column): float(value) for column, value in row.items()}
            for label, row in summary.iterrows()
        }
    record = {
        "benchmark": "regret_of_later_algorithms",
        **facts,
        "parameters": {
            "trials": options.trials,
            "horizon": options.horizon,
            "points": POINTS,
            "given": repr(settings(options.horizon)),
        },
        "worlds": tables,
    }
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
