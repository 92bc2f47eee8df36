"""Regret of the adaptive strategy on 50 x 50 arms, against strategies with a given kernel.

    python -m benchmarks.statistics.regret_on_grid [--worlds NAME ...] [--trials 20]
        [--horizon 400] [--seed 0] [--out FILE]

Functions of a squared exponential kernel of lengthscale 0.2, noise variance 0.02. Worlds: *markov*
at four rates ε; *static*; *abrupt*, with changes at a third and two thirds of the horizon; *slow*,
a function that turns into another over the whole horizon; *switching*, Markov at ε = 0.001 for half
of the horizon, then at 0.05; *sine*, the wave of [M] on a line of 401 arms, the same in all trials.
The other strategies are given kernel, noise and scale, TV-GP-UCB also the rate. Widths, functions
and noise are equal for all. Regret is per round; differences are paired over trials.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from gpytorch.kernels import Kernel
from torch import Tensor

from benchmarks.command_line import command_line
from benchmarks.records import begin, write
from benchmarks.statistics.paired import ADAPTIVE, REGRET, read, summary
from botorch_tv.papers import mauduit
from botorch_tv.simulation import run_study
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.simulation.streams import Stream
from botorch_tv.simulation.worlds import (
    AbruptWorld,
    DriftWorld,
    GaussianDraw,
    GridWorld,
    MarkovWorld,
    StaticWorld,
    World,
)
from botorch_tv.strategies import (
    Grid,
    Strategy,
    adaptive_gp_ucb,
    et_gp_ucb,
    gp_ucb,
    tv_gp_ucb,
)

POINTS, NOISE, LENGTHSCALE = 50, 0.02, 0.2
RATES = (0.001, 0.01, 0.03, 0.1)
USUAL_RATE = 0.03
"""Given to TV-GP-UCB where the world has no rate."""
SLOWLY, FAST = 0.001, 0.05
WORLDS = (
    *(f"markov {rate}" for rate in RATES),
    *("static", "abrupt", "slow", "switching", "sine"),
)


class SwitchingWorld(GridWorld):
    """A Markov world whose rate of change switches once.

    Args:
        domain: The arms.
        kernel: Covariance of the functions.
        rates: ε before and after the switch.
        change: First round drawn with the second rate.
        noise: Variance of the observation noise.
    """

    def __init__(
        self,
        domain: Grid,
        *,
        kernel: Kernel,
        rates: tuple[float, float],
        change: int,
        noise: float,
    ) -> None:
        super().__init__(domain, noise)
        self._draw, self.rates, self.change = GaussianDraw(kernel), rates, change

    def rounds(self, stream: Stream) -> Iterator[Tensor]:
        basis = self._draw.basis(self.domain, stream.dtype, stream.device)
        position = self._draw.coordinates(basis, stream)
        for t in count(2):
            yield basis.expand(position)
            rate = self.rates[t >= self.change]
            fresh = self._draw.coordinates(basis, stream)
            position = (1 - rate) ** 0.5 * position + rate**0.5 * fresh

    def __repr__(self) -> str:
        return f"SwitchingWorld(rates={self.rates}, change={self.change}, noise={self.noise})"


def world(name: str, horizon: int) -> World:
    """A world by its name."""
    domain, kernel = Grid.regular(points=POINTS, dim=2), unit_kernel("se", LENGTHSCALE)
    draw = GaussianDraw(kernel)
    if name == "static":
        return StaticWorld(domain, functions=draw, noise=NOISE)
    if name == "abrupt":
        changes = (horizon // 3 + 1, 2 * horizon // 3 + 1)
        return AbruptWorld(domain, functions=draw, changes=changes, noise=NOISE)
    if name == "slow":
        return DriftWorld(domain, functions=draw, horizon=horizon, noise=NOISE)
    if name == "sine":
        return mauduit.sine_world(mauduit.NOISE)
    if name == "switching":
        return SwitchingWorld(
            domain, kernel=kernel, rates=(SLOWLY, FAST), change=horizon // 2 + 1, noise=NOISE
        )
    rate = float(name.split()[-1])
    return MarkovWorld(domain, kernel=kernel, epsilon=rate, noise=NOISE)


def contenders(name: str) -> dict[str, Strategy]:
    """Strategies by label, all at the width of the adaptive strategy."""
    adaptive, kernel = adaptive_gp_ucb(), unit_kernel("se", LENGTHSCALE)
    rate = float(name.split()[-1]) if name.startswith("markov") else USUAL_RATE
    given: dict[str, Any] = {"kernel": kernel, "noise": NOISE, "width": adaptive.width}
    if name == "sine":
        given |= {"kernel": mauduit.line_kernel(), "noise": mauduit.NOISE}
    return {
        ADAPTIVE: adaptive,
        f"TV-GP-UCB given {rate}": tv_gp_ucb(epsilon=rate, **given),
        "ET-GP-UCB": et_gp_ucb(**given),
        "GP-UCB": gp_ucb(**given),
    }


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record; each world is saved as it ends."""
    options = command_line(
        "statistics.regret_on_grid", __doc__, worlds=WORLDS, trials=20, horizon=400, seed=0
    ).parse_args(arguments)
    facts, sizes = begin(1, seed=options.seed), ("trials", "horizon", "seed")
    for name in options.worlds:
        start, players = time.process_time(), contenders(name)
        study = run_study(
            world(name, options.horizon),
            players,
            **{size: getattr(options, size) for size in sizes},
            progress=False,
        )
        total = study.data["regret"].sum("round")
        runs = {
            label: {"strategy": repr(strategy), REGRET: total.sel(strategy=label).values.tolist()}
            for label, strategy in players.items()
        }
        record = read(options.out)
        record["environment"] = facts
        record["worlds"][name] = {
            "environment": facts,  # other worlds of the file may be of other days
            "trials": options.trials,
            "horizon": options.horizon,
            "processor seconds": time.process_time() - start,
            "runs": runs,
            "regret per round": summary(runs, options.horizon),
        }
        write(record, options.out)
        print(name, record["worlds"][name]["regret per round"], flush=True)
    return read(options.out)


if __name__ == "__main__":
    main()
