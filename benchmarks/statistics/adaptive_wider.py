"""What a strategy that is told nothing reaches in six to twenty coordinates, and on records.

    python -m benchmarks.statistics.adaptive_wider [--data FOLDER] [--worlds NAME ...]
        [--players NAME ...] [--seeds 10] [--horizon 300] [--out FILE]

Worlds, all of :mod:`benchmarks.statistics.wider_worlds`:

- *hartmann*, *levy*, *levy in ten*, *levy in twenty*: Hartmann's function of six and Levy's of
  eight, ten and twenty coordinates, 100 rounds, whose best points go round, the first coordinate
  once in 400 rounds and others faster; noise of 2 % of the function's variance;
- *temperature*: which of 46 cells of ERA5, drawn for every seed, is the warmest, 264 hours;
- *traffic*, *traffic above usual*: which of 50 roads of Los Angeles, drawn for every seed, is the
  fastest, and which is the furthest above its usual speed, 84 readings of one of two mornings.

Without ``--data`` the records are made up by the library. Not told more than the strategy that is
told nothing are chance and the loop people write with BoTorch, a ``SingleTaskGP`` on (x, t) fitted
anew every round; and the library's learning loops, static and drifting, which find lengthscale,
noise and rate as they go, in units of four random points. The same are told mean and scale,
besides. The others are told all: on functions the lengthscale and rate of largest likelihood of
300 readings of all places and times, on records the covariance of the rows before. All widths are
equal, but for one strategy that is told nothing and has half of the usual beta, the width of [ET].
Regret is per round and paired over seeds. Coverage is the share of points and rounds in which a
band of 95 % of a strategy of the library holds the truth, or on records the reading; the same of
the third of all points where the truth is the lowest; and the share of rounds in which the band of
the point chosen does. What is in the file with the same settings is not played again.
"""

from __future__ import annotations

import dataclasses
import math
import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, write
from benchmarks.statistics.adaptive import BAND, POINTS, read, summary
from benchmarks.statistics.learning_loop import DELTA, rival_choice
from benchmarks.statistics.wider_worlds import (
    Trial,
    drifting,
    hartmann,
    levy,
    temperature,
    traffic,
)
from botorch_tv.acquisition import Logarithmic
from botorch_tv.even_points import even_points
from botorch_tv.forgetting import EventTrigger
from botorch_tv.gp.mixture.bank import FIRST
from botorch_tv.learning import Refit
from botorch_tv.papers.recordings import Recordings
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import (
    Box,
    DiscreteSearch,
    Grid,
    Strategy,
    adaptive_gp_ucb,
    et_gp_ucb,
    gp_ucb,
    tv_gp_ucb,
)

NOTHING = "told nothing"
HALF = 0.5 * Logarithmic().c1
"""Of the strategy that explores less."""
ROUNDS = 100
"""Of the functions."""
LEVY = {"levy": 8, "levy in ten": 10, "levy in twenty": 20}
"""Coordinates of Levy's functions."""
RANDOM_STARTS = FIRST
"""Of the loop with BoTorch, and of those that find their units; as of who is told nothing."""
EVERYWHERE = "coverage of bands of 95 % of every seed"
LOWEST = "coverage of the lowest third of every seed"
CHOSEN = "coverage where it played of every seed"
REGRET = "total regret of every seed"
EVERY = 5
"""Rounds between fits of the learning loops, and between looks at bands."""


class Player(Protocol):
    """Who plays one trial."""

    def ask(self, t: int) -> Tensor:
        """A point of the unit cube, `d`."""

    def tell(self, t: int, y: float) -> None:
        """What was measured there."""


class OfLibrary:
    """A strategy of the library.

    Args:
        strategy: Who.
        trial: What is played.
        told: Whether mean and scale are.
        box: Whether arms are points of a box, as for who learns a kernel.
    """

    def __init__(self, strategy: Strategy, trial: Trial, *, told: bool, box: bool) -> None:
        cube = torch.tensor([[0.0] * trial.dim, [1.0] * trial.dim]).double()
        if trial.arms is None:
            domain: Box | Grid = Box(cube)
        else:
            domain = Box(cube, search=DiscreteSearch(trial.arms)) if box else Grid(trial.arms)
        self.strategy, self.state = strategy, strategy.init(domain)
        self.mean, self.scale = (trial.mean, trial.scale) if told else (0.0, 1.0)

    def ask(self, t: int) -> Tensor:
        self.suggestion = self.strategy.ask(self.state)
        return self.suggestion.X

    def tell(self, t: int, y: float) -> None:
        told = torch.tensor((y - self.mean) / self.scale, dtype=torch.float64)
        self.state, _ = self.strategy.tell(self.state, self.suggestion, told, consume=True)


class InOwnUnits(OfLibrary):
    """A strategy that takes mean and scale from random points, and then learns of these, too.

    Args:
        strategy: Who.
        trial: What is played.
        seed: Of these points.
    """

    def __init__(self, strategy: Strategy, trial: Trial, seed: int) -> None:
        super().__init__(strategy, trial, told=False, box=True)
        self.trial, self.generator = trial, torch.Generator().manual_seed(seed)
        self.first: list[tuple[Tensor, float]] = []

    def ask(self, t: int) -> Tensor:
        if t > RANDOM_STARTS:
            return super().ask(t)
        self.point = _anywhere(self.trial, self.generator)
        return self.point

    def tell(self, t: int, y: float) -> None:
        if t > RANDOM_STARTS:
            super().tell(t, y)
            return
        self.first.append((self.point, y))
        if t == RANDOM_STARTS:
            values = torch.tensor([value for _, value in self.first], dtype=torch.float64)
            self.mean, self.scale = float(values.mean()), float(values.std())
            for point, value in self.first:
                self.suggestion = self.strategy.suggestion_at(self.state, point)
                super().tell(t, value)


class OfBoTorch:
    """The loop people write."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self.trial, self.generator = trial, torch.Generator().manual_seed(seed)
        self.X = torch.empty(0, trial.dim + 1, dtype=torch.float64)
        self.Y = torch.empty(0, 1, dtype=torch.float64)
        torch.manual_seed(seed)

    def ask(self, t: int) -> Tensor:
        now = t / self.trial.horizon
        if len(self.X) < RANDOM_STARTS:
            self.point = _anywhere(self.trial, self.generator)
        else:
            self.point = rival_choice(self.X, self.Y, now, t, self.trial.arms)
        return self.point

    def tell(self, t: int, y: float) -> None:
        row = torch.cat([self.point, self.point.new_tensor([t / self.trial.horizon])])
        self.X = torch.cat([self.X, row.unsqueeze(0)])
        self.Y = torch.cat([self.Y, self.Y.new_tensor([[y]])])


class Chance:
    """Who looks at nothing."""

    def __init__(self, trial: Trial, seed: int) -> None:
        self.trial, self.generator = trial, torch.Generator().manual_seed(seed)

    def ask(self, t: int) -> Tensor:
        return _anywhere(self.trial, self.generator)

    def tell(self, t: int, y: float) -> None:
        pass


def _anywhere(trial: Trial, generator: torch.Generator) -> Tensor:
    if trial.arms is None:
        return torch.rand(trial.dim, generator=generator, dtype=torch.float64)
    return trial.arms[torch.randint(len(trial.arms), (), generator=generator)]


def _learning(trial: Trial, *, drifts: bool) -> Strategy:
    """From wrong values, as in :mod:`benchmarks.statistics.learning_loop`."""
    told: dict[str, Any] = {
        "kernel": unit_kernel("se", 0.2 * math.sqrt(trial.dim)),
        "noise": 0.1,
        "width": adaptive_gp_ucb().width,
    }
    refit = Refit(every=EVERY)
    if not drifts:
        return dataclasses.replace(gp_ucb(**told), learning=refit)
    wandering = tv_gp_ucb(epsilon=0.01, **told)
    return dataclasses.replace(wandering, learning=refit, retention=EventTrigger(DELTA))


def _told(trial: Trial, preset: Callable[..., Strategy], *, rate: bool = False) -> Player:
    known = {"epsilon": trial.epsilon} if rate else {}
    strategy = preset(
        kernel=trial.kernel, noise=trial.variance, width=adaptive_gp_ucb().width, **known
    )
    return OfLibrary(strategy, trial, told=True, box=False)


PLAYERS: dict[str, Callable[[Trial, int], Player]] = {
    NOTHING: lambda trial, seed: OfLibrary(adaptive_gp_ucb(), trial, told=False, box=False),
    "told nothing, half of beta": lambda trial, seed: OfLibrary(
        adaptive_gp_ucb(width=Logarithmic(c1=HALF)), trial, told=False, box=False
    ),
    "chance": Chance,
    "BoTorch on (x, t)": OfBoTorch,
    "learning, drifting": lambda trial, seed: InOwnUnits(
        _learning(trial, drifts=True), trial, seed
    ),
    "learning, static": lambda trial, seed: InOwnUnits(_learning(trial, drifts=False), trial, seed),
    "learning, drifting, told mean and scale": lambda trial, seed: OfLibrary(
        _learning(trial, drifts=True), trial, told=True, box=True
    ),
    "learning, static, told mean and scale": lambda trial, seed: OfLibrary(
        _learning(trial, drifts=False), trial, told=True, box=True
    ),
    "TV-GP-UCB told all": lambda trial, seed: _told(trial, tv_gp_ucb, rate=True),
    "ET-GP-UCB told all": lambda trial, seed: _told(trial, et_gp_ucb),
    "GP-UCB told all": lambda trial, seed: _told(trial, gp_ucb),
}


def _levy(dim: int) -> Callable[[Recordings, int, int], Trial]:
    problem = partial(levy, dim)
    return lambda records, seed, rounds: drifting(problem, seed, min(rounds, ROUNDS))


WORLDS: dict[str, Callable[[Recordings, int, int], Trial]] = {
    "hartmann": lambda records, seed, rounds: drifting(hartmann, seed, min(rounds, ROUNDS)),
    **{name: _levy(dim) for name, dim in LEVY.items()},
    "temperature": temperature,
    "traffic": partial(traffic, usual=False),
    "traffic above usual": partial(traffic, usual=True),
}


def play(make: Callable[[Trial, int], Player], trial: Trial, seed: int) -> dict[str, float]:
    """Total regret of one player, processor seconds per round, and coverage where it has bands.

    Args:
        make: Who plays.
        trial: What is played.
        seed: Of its noise, and of the player's chance.
    """
    player, generator = make(trial, seed), torch.Generator().manual_seed(1_000_000 + seed)
    noise = trial.noise * torch.randn(trial.horizon, generator=generator, dtype=torch.float64)
    looked_at = player if isinstance(player, OfLibrary) else None
    points = even_points(POINTS, trial.dim) if trial.arms is None else trial.arms
    total, seconds = 0.0, 0.0
    held: list[Tensor] = []
    lowest: list[Tensor] = []
    chosen: list[float] = []
    for t in range(1, trial.horizon + 1):
        start = time.process_time()
        point = player.ask(t)
        seconds += time.process_time() - start
        f = float(trial.value(point.unsqueeze(0), t))
        if looked_at is not None and t > RANDOM_STARTS:
            chosen.append(_held_there(looked_at, trial, f))
            if t % EVERY == 0:
                held.append(_held(looked_at, trial, points, t))
                low = trial.value(points, t).argsort()[: len(points) // 3]
                lowest.append(held[-1][low])
        total += trial.highest(t) - f
        start = time.process_time()
        player.tell(t, f + float(noise[t - 1]))
        seconds += time.process_time() - start
    found = {REGRET: total, "processor seconds per round of every seed": seconds / trial.horizon}
    if held:
        found[EVERYWHERE] = float(torch.stack(held).mean())
        found[LOWEST] = float(torch.stack(lowest).mean())
        found[CHOSEN] = sum(chosen) / len(chosen)
    return found


def _held_there(player: OfLibrary, trial: Trial, f: float) -> float:
    """Whether the band of the point chosen holds what is there."""
    suggestion, variance = player.suggestion, player.suggestion.sd.square()
    if trial.arms is not None:
        variance = variance + player.strategy.model_noise(player.state)
    error = (suggestion.mean - (f - player.mean) / player.scale).abs()
    return float(error <= BAND * variance.sqrt())


def _held(player: OfLibrary, trial: Trial, points: Tensor, t: int) -> Tensor:
    """Whether the bands of points hold what is there, `q`, of 0 and 1."""
    read_off = trial.arms is not None  # a reading is all there is to compare with
    posterior = player.strategy.posterior(player.state, points, observation_noise=read_off)
    truth = (trial.value(points, t) - player.mean) / player.scale
    error = (posterior.mean.squeeze(-1) - truth).abs()
    inside: Tensor = error <= BAND * posterior.variance.squeeze(-1).sqrt()
    return inside.double()


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    parser = command_line(
        "statistics.adaptive_wider", __doc__, worlds=WORLDS, seeds=10, horizon=300
    )
    parser.add_argument("--data", type=Path, help="folder of the records")
    parser.add_argument("--players", nargs="+", choices=PLAYERS, default=list(PLAYERS))
    options = parser.parse_args(arguments)
    facts, records = begin(1, seed=0), Recordings(options.data)
    source = "made up" if options.data is None else "recorded"
    warnings.filterwarnings("ignore")
    for name in options.worlds:
        for seed in range(options.seeds):
            trial = None
            for label in options.players:
                settings = {"horizon": options.horizon, "records": source}
                # Others may have written since; what they did is kept.
                if len(_so_far(read(options.out), name, label, settings)[REGRET]) > seed:
                    continue
                trial = trial or WORLDS[name](records, seed, options.horizon)
                found = play(PLAYERS[label], trial, seed)
                record = read(options.out)
                run = _so_far(record, name, label, settings)
                for key, value in found.items():
                    run.setdefault(key, []).append(round(value, 5))
                run["commit"] = facts["commit"]
                world = record["worlds"].setdefault(name, {"runs": {}})
                world["runs"][label] = run
                world["regret per round"] = summary(world["runs"], trial.horizon)
                record["environment"] = facts
                write(record, options.out)
        for label, one in read(options.out)["worlds"][name]["regret per round"].items():
            print(name, label, one, flush=True)
    return read(options.out)


def _so_far(
    record: dict[str, Any], name: str, label: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """What was played with these settings, a number for every seed."""
    run: dict[str, Any] = record["worlds"].get(name, {"runs": {}})["runs"].get(label, {})
    return run if run.get("settings") == settings else {"settings": settings, REGRET: []}


if __name__ == "__main__":
    main()
