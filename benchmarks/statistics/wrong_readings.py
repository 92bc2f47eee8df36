"""How much one wrong reading costs the adaptive strategy, and how much its protection costs.

    python -m benchmarks.statistics.wrong_readings [--worlds NAME ...] [--trials 100] [--seed 100]
        [--data FOLDER] [--out FILE]

*Faults* on 30 x 30 arms: a reading of round 30 is wrong by -40, -20, 15 or 40 noise standard
deviations, or one in a hundred of all 60 readings is wrong by one of these. Regret of the 15 rounds
after round 30 (of all rounds from the fifth on, where readings are wrong at random), and regret of
what is recommended in these rounds, beside the same runs without the fault. Worlds: *peak*, 50 + 40
exp(-|x - c|²/2w²), noise 1; *moving*, the same with a peak that moves by 0.004 a round; *draws*,
50 + 5 f of a squared exponential kernel of lengthscale 0.2, noise 0.7.

*Costs* without any fault: the default bank against ``Bank(outliers=0)``, paired, with its regret
per round over 100 rounds; on functions on the square and on a grid, recorded panels (with
``--data``), and six worlds of the comparison with other optimisers. *Detection*: rounds from an
abrupt change to the first in which a jump since then is likelier than not, 51 for never.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.peers import worlds as peers
from benchmarks.speed.common import begin, write
from benchmarks.statistics import (
    adaptive,
    adaptive_grid,
    adaptive_wider,
    wider_worlds,
)
from benchmarks.statistics.adaptive import read
from benchmarks.statistics.adaptive_wider import REGRET, OfLibrary
from benchmarks.statistics.errors import standard_error
from botorch_tv.gp.mixture.bank import Bank
from botorch_tv.gp.mixture.posterior import running_mixture
from botorch_tv.papers.recordings import Recordings
from botorch_tv.simulation import run_study
from botorch_tv.strategies import Box, Grid, Strategy, adaptive_gp_ucb

FAULTS = (-40.0, -20.0, 15.0, 40.0)
AT, AFTER, ROUNDS = 30, 15, 60
SHARE = 0.01
PLAYERS = {"protected": adaptive_gp_ucb(), "plain": adaptive_gp_ucb(bank=Bank(outliers=0.0))}
Values = Callable[[int], Tensor]
"""All arms' values in a round, `trials x M`."""


def functions(name: str, X: Tensor, trials: int, seed: int) -> tuple[Values, float]:
    """The objective of a world of faults, and the standard deviation of its noise."""
    own = torch.Generator().manual_seed(seed)
    if name == "draws":
        K = torch.exp(-torch.cdist(X, X).square() / (2 * 0.2**2))
        root = torch.linalg.cholesky(K + 1e-6 * torch.eye(len(X), dtype=X.dtype))
        f = 50 + 5 * (root @ torch.randn(len(X), trials, generator=own, dtype=X.dtype)).T
        return lambda t: f, 0.7
    center = 0.2 + 0.6 * torch.rand(trials, 2, generator=own, dtype=X.dtype)
    width = 0.15 + 0.15 * torch.rand(trials, generator=own, dtype=X.dtype)
    angle = 2 * math.pi * torch.rand(trials, generator=own, dtype=X.dtype)
    speed = 0.004 * (name == "moving") * torch.stack([angle.cos(), angle.sin()], -1)

    def peak(t: int) -> Tensor:
        apart = X - (center + t * speed).unsqueeze(1)
        return 50 + 40 * torch.exp(-apart.square().sum(-1) / (2 * width.square().unsqueeze(-1)))

    return peak, 1.0


def play(
    strategy: Strategy, name: str, trials: int, seed: int, fault: float = 0.0, share: float = 0.0
) -> tuple[Tensor, Tensor]:
    """Regret of every round, and of every recommendation after it, `rounds x trials`.

    Args:
        strategy: Who plays.
        name: Of the world.
        trials: Number of trials.
        seed: Of the functions, the noise and the faults.
        fault: Error of the reading of round ``AT``, in standard deviations of the noise.
        share: Of readings that are wrong by one of ``FAULTS``.
    """
    grid = Grid.regular(points=30, dim=2)
    f, sd = functions(name, grid.X, trials, seed)
    own = torch.Generator().manual_seed(seed + 10**6)
    noise = sd * torch.randn(ROUNDS + 1, trials, generator=own, dtype=torch.float64)
    wrong = torch.rand(ROUNDS + 1, trials, generator=own) < share
    kind = torch.randint(len(FAULTS), (ROUNDS + 1, trials), generator=own)
    state, regret, recommended = strategy.init(grid, batch_shape=(trials,)), [], []
    for t in range(1, ROUNDS + 1):
        suggestion = strategy.ask(state)
        assert suggestion.index is not None
        now, number = f(t), suggestion.index.unsqueeze(-1)
        y = now.gather(-1, number).squeeze(-1)
        regret.append(now.amax(-1) - y)
        y = y + noise[t] + torch.where(wrong[t], sd * torch.tensor(FAULTS)[kind[t]], 0.0)
        y = y + sd * fault * (t == AT)
        state, _ = strategy.tell(state, suggestion, y, consume=True)
        best, soon = strategy.recommended_arm(state).unsqueeze(-1), f(t + 1)
        recommended.append(soon.amax(-1) - soon.gather(-1, best).squeeze(-1))
    return torch.stack(regret), torch.stack(recommended)


def compared(ours: Tensor, wanted: Tensor, sd: float) -> dict[str, float | None]:
    """Mean regret of every trial with a fault and without, `trials` each.

    The ratio is that of the regret with it, less 0.6 standard deviations of the noise.
    """
    return {
        "with": float(ours.mean()),
        "without": float(wanted.mean()),
        "difference": float((ours - wanted).mean()),
        "its standard error": standard_error(ours - wanted),
        "ratio": float((ours.mean() - 0.6 * sd) / wanted.mean()),
    }


def faults(name: str, trials: int, seed: int) -> dict[str, Any]:
    """What every fault costs, and on one world what it costs a bank that expects none."""
    found: dict[str, Any] = {}
    for label, strategy in PLAYERS.items():
        if label == "plain" and name != "peak":
            continue
        sd = 0.7 if name == "draws" else 1.0
        clean = play(strategy, name, trials, seed)
        wrong = {f"{fault:+g}": play(strategy, name, trials, seed, fault) for fault in FAULTS}
        wrong["1 % of all"] = play(strategy, name, trials, seed, share=SHARE)
        for fault, one in wrong.items():
            # Of all rounds but those that set the units, where any may be wrong.
            after, told = slice(AT, AT + AFTER), slice(AT - 1, AT + AFTER)
            if fault == "1 % of all":
                after = told = slice(4, None)
            row = {
                "regret": compared(one[0][after].mean(0), clean[0][after].mean(0), sd),
                "recommended": compared(one[1][told].mean(0), clean[1][told].mean(0), sd),
            }
            found.setdefault(label, {})[fault] = row
            print(name, label, fault, row, flush=True)
    return found


def costs(ours: np.ndarray, plain: np.ndarray) -> dict[str, float | None]:
    """Regret per round with protection and without, of every trial."""
    apart = ours - plain
    return {
        "protected": float(ours.mean()),
        "plain": float(plain.mean()),
        "difference": float(apart.mean()),
        "its standard error": standard_error(apart),
    }


def on_grid(name: str, trials: int, seed: int) -> dict[str, Any]:
    """Functions on 50 x 50 arms."""
    world = adaptive_grid.world(name, 100)
    study = run_study(world, PLAYERS, trials=trials, horizon=100, seed=seed, progress=False)
    regret = study.data["regret"].mean("round")
    return costs(*(regret.sel(strategy=one).values for one in PLAYERS))


def on_square(name: str, trials: int, seed: int) -> dict[str, Any]:
    """Functions on the unit square."""
    horizon = adaptive.HORIZONS.get(name, 100)
    seeds = range(seed, seed + trials)
    world = adaptive.world(name, seeds, horizon)
    runs = [adaptive.play("told nothing", one, world, seeds, horizon) for one in PLAYERS.values()]
    return costs(*(np.array(one[REGRET]) / horizon for one in runs))


def of_panel(name: str, trials: int, seed: int, data: Path | None) -> dict[str, Any]:
    """Recorded readings, in arms drawn for the seed."""
    records, horizon = Recordings(data), 200
    totals: list[list[float]] = [[] for _ in PLAYERS]
    for number in range(trials):
        if name == "temperature":
            trial = wider_worlds.temperature(records, seed + number, horizon)
        else:
            trial = wider_worlds.traffic(records, seed + number, horizon, usual=False)
        for total, strategy in zip(totals, PLAYERS.values()):
            total.append(_played(strategy, trial, number) / trial.horizon)
    return costs(*(np.array(one) for one in totals))


def _played(strategy: Strategy, trial: wider_worlds.Trial, seed: int) -> float:
    """Total regret of a strategy that is given nothing."""

    def make(trial: wider_worlds.Trial, seed: int) -> OfLibrary:
        return OfLibrary(strategy, trial, told=False, box=False)

    return adaptive_wider.play(make, trial, seed)[REGRET]


def of_peers(name: str, trials: int, seed: int) -> dict[str, Any]:
    """A world of the comparison with other optimisers, one loop at a time."""
    totals: list[list[float]] = [[] for _ in PLAYERS]
    for number in range(seed, seed + trials):
        world = peers.WORLDS[name](number)
        for total, strategy in zip(totals, PLAYERS.values()):
            noise, lost = np.random.default_rng([2, number]), 0.0
            state = strategy.init(Box([(0.0, 1.0)] * world.dim))
            for t in range(1, world.rounds + 1):
                suggestion = strategy.ask(state)
                value = float(world.values(suggestion.X.numpy()[None], float(t))[0])
                lost += world.best(float(t)) - value
                y = value + world.noise * noise.standard_normal()
                state, _ = strategy.tell(state, suggestion, y, consume=True)
            total.append(lost / world.rounds)
    return costs(*(np.array(one) for one in totals))


def detection(trials: int, seed: int) -> dict[str, Any]:
    """Rounds from a change after 50 rounds on 30 x 30 arms to the first that is told of it."""
    grid, found = Grid.regular(points=30, dim=2), []
    before, _ = functions("draws", grid.X, trials, seed)
    after, sd = functions("draws", grid.X, trials, seed + 1)
    for strategy in PLAYERS.values():
        own = torch.Generator().manual_seed(seed)
        state, delay = strategy.init(grid, batch_shape=(trials,)), torch.full((trials,), 51.0)
        for t in range(1, 101):
            suggestion = strategy.ask(state)
            assert suggestion.index is not None
            f = (before if t <= 50 else after)(t).gather(-1, suggestion.index.unsqueeze(-1))
            y = f.squeeze(-1) + sd * torch.randn(trials, generator=own, dtype=torch.float64)
            state, _ = strategy.tell(state, suggestion, y, consume=True)
            noticed = running_mixture(state.data).jumped > 50
            delay = torch.where(noticed, delay.clamp_max(t - 50), delay)
        found.append(delay.numpy())
    return costs(*found)


GRIDS = ("abrupt", "static", "markov 0.03", "switching")
SQUARES = ("abrupt", "static", "markov", "narrow peaks")
PANELS = ("temperature", "traffic")
PEERS = ("turning", "jumping", "resting", "wandering", "slice-hartmann-3", "slice-eggholder")
WORLDS = (
    *(f"faults {one}" for one in ("peak", "moving", "draws")),
    *(f"grid {one}" for one in GRIDS),
    *(f"square {one}" for one in SQUARES),
    *(f"panel {one}" for one in PANELS),
    *(f"peers {one}" for one in PEERS),
    "detection",
)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    parser = command_line("statistics.wrong_readings", __doc__, worlds=WORLDS, trials=100, seed=100)
    parser.add_argument("--data", type=Path, help="folder of the records")
    options = parser.parse_args(arguments)
    facts, trials, seed = begin(1, seed=options.seed), options.trials, options.seed
    warnings.filterwarnings("ignore")
    measure: dict[str, Callable[[str], dict[str, Any]]] = {
        "faults": lambda name: faults(name, trials, seed),
        "grid": lambda name: on_grid(name, trials, seed),
        "square": lambda name: on_square(name, trials, seed),
        "panel": lambda name: of_panel(name, trials, seed, options.data),
        "peers": lambda name: of_peers(name, trials, seed),
        "detection": lambda name: detection(trials, seed),
    }
    for name in options.worlds:
        kind, _, of = name.partition(" ")
        found = measure[kind](of)
        record = read(options.out)
        record["worlds"][name] = {"environment": facts, "trials": trials, "seed": seed, **found}
        write(record, options.out)
        print(name, found, flush=True)
    return read(options.out)


if __name__ == "__main__":
    main()
