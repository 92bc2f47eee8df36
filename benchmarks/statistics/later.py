"""How do the algorithms since the five papers fare beside those of the papers?

Gaussian draws on a 20 x 20 grid (SE kernel, lengthscale 0.2, σ² = 0.02), 200 rounds: one that
stands still, a Markov process of ε = 0.03, one that is replaced after round 100, and one that turns
in 24 rounds into another and back. All are told kernel and noise and explore by the same width,
where theirs is not what they are; TV-GP-UCB, W-DBO and TV-BayesOpt are told ε = 0.03 everywhere,
and TV-BayesOpt the cycle. Regret is paired: all play the same worlds and noise.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, write
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
    """What is played on."""
    domain, kernel = Grid.regular(points=POINTS, dim=2), unit_kernel("se", 0.2)
    drawn: dict[str, Any] = {"functions": GaussianDraw(kernel), "noise": NOISE}
    return {
        "stands still": StaticWorld(domain, **drawn),
        "drifts": MarkovWorld(domain, kernel=kernel, epsilon=EPSILON, noise=NOISE),
        "is replaced": AbruptWorld(domain, changes=(HORIZON // 2 + 1,), **drawn),
        "turns": Turning(domain, **drawn),
    }


def settings(horizon: int) -> Settings:
    """What strategies are told."""
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
    """Play everything; returns the record that is written."""
    options = command_line(
        "statistics.later", __doc__, trials=64, horizon=HORIZON, seed=0, threads=1
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
        print(f"The objective {name}.\n{summary}\n", flush=True)
        tables[name] = {
            str(label): {str(column): float(value) for column, value in row.items()}
            for label, row in summary.iterrows()
        }
    record = {
        "benchmark": "later",
        **facts,
        "parameters": {
            "trials": options.trials,
            "horizon": options.horizon,
            "points": POINTS,
            "told": repr(settings(options.horizon)),
        },
        "worlds": tables,
    }
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
