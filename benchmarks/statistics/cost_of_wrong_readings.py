"""Cost of a wrong reading to the adaptive strategy, and cost of its protection.

    python -m benchmarks.statistics.cost_of_wrong_readings [--worlds NAME ...] [--trials 100]
        [--seed 100] [--data FOLDER] [--out FILE]

*Faults* on 30 x 30 arms: the reading of round 30 is wrong by -40, -20, 15 or 40 noise standard
deviations, or one in a hundred of all 60 readings is wrong by one of these. The regret of the 15
rounds after round 30 (for random faults, of all rounds from the fifth on) and the regret of the
recommendations in these rounds are compared with the same runs without the fault. Worlds: *peak*,
50 + 40 exp(-|x - c|²/2w²), noise 1; *moving*, the same with a peak that moves by 0.004 a round;
*draws*, 50 + 5 f of a squared exponential kernel of lengthscale 0.2, noise 0.7.

*Costs* without faults: the default bank against ``Bank(outliers=0)``, paired regret per round over
100 rounds, on functions of the square and of a grid, recorded panels (with ``--data``) and six
worlds of the comparison with other optimisers. *Detection*: rounds from an abrupt change to the
first round in which a jump since the change has probability above one half; 51 if there is no such
round.
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

from benchmarks.command_line import command_line
from benchmarks.peers import worlds as peers
from benchmarks.records import begin, write
from benchmarks.statistics import box_worlds, regret_on_boxes, regret_on_grid, regret_on_square
from benchmarks.statistics.box_players import OfLibrary
from benchmarks.statistics.paired import ADAPTIVE, REGRET, read, standard_error
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
"""From a round to the values of all arms, `trials x M`."""


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
        strategy: The strategy.
        name: The name of the world.
        trials: Number of trials.
        seed: Seed of functions, noise and faults.
        fault: Error of the reading of round ``AT``, in standard deviations of the noise.
        share: Fraction of readings that are wrong by a value of ``FAULTS``.
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


def compared(faulty: Tensor, clean: Tensor, sd: float) -> dict[str, float | None]:
    """Mean regret with a fault and without; both are `trials`.

    The ratio subtracts 0.6 standard deviations of the noise from the regret with the fault.
    """
    return {
        "with": float(faulty.mean()),
        "without": float(clean.mean()),
        "difference": float((faulty - clean).mean()),
        "its standard error": standard_error(faulty - clean),
        "ratio": float((faulty.mean() - 0.6 * sd) / clean.mean()),
    }


def faults(name: str, trials: int, seed: int) -> dict[str, Any]:
    """Cost of every fault; on *peak* also for a bank without a probability of outliers."""
    found: dict[str, Any] = {}
    for label, strategy in PLAYERS.items():
        if label == "plain" and name != "peak":
            continue
        sd = 0.7 if name == "draws" else 1.0
        clean = play(strategy, name, trials, seed)
        wrong = {f"{fault:+g}": play(strategy, name, trials, seed, fault) for fault in FAULTS}
        wrong["1 % of all"] = play(strategy, name, trials, seed, share=SHARE)
        for fault, (regret, recommended) in wrong.items():
            after, advised = slice(AT, AT + AFTER), slice(AT - 1, AT + AFTER)
            if fault == "1 % of all":  # all rounds but those that set the units
                after = advised = slice(4, None)
            row = {
                "regret": compared(regret[after].mean(0), clean[0][after].mean(0), sd),
                "recommended": compared(
                    recommended[advised].mean(0), clean[1][advised].mean(0), sd
                ),
            }
            found.setdefault(label, {})[fault] = row
            print(name, label, fault, row, flush=True)
    return found


def costs(protected: np.ndarray, plain: np.ndarray) -> dict[str, float | None]:
    """Mean regret per round with protection and without; both are `trials`."""
    apart = protected - plain
    return {
        "protected": float(protected.mean()),
        "plain": float(plain.mean()),
        "difference": float(apart.mean()),
        "its standard error": standard_error(apart),
    }


def on_grid(name: str, trials: int, seed: int) -> dict[str, Any]:
    """Functions on 50 x 50 arms."""
    world = regret_on_grid.world(name, 100)
    study = run_study(world, PLAYERS, trials=trials, horizon=100, seed=seed, progress=False)
    regret = study.data["regret"].mean("round")
    return costs(*(regret.sel(strategy=label).values for label in PLAYERS))


def on_square(name: str, trials: int, seed: int) -> dict[str, Any]:
    """Functions on the unit square."""
    horizon = regret_on_square.HORIZONS.get(name, 100)
    seeds = range(seed, seed + trials)
    world = regret_on_square.world(name, seeds, horizon)
    runs = [
        regret_on_square.play(ADAPTIVE, each, world, seeds, horizon) for each in PLAYERS.values()
    ]
    return costs(*(np.array(run[REGRET]) / horizon for run in runs))


def of_panel(name: str, trials: int, seed: int, data: Path | None) -> dict[str, Any]:
    """Recorded readings, in arms drawn for the seed."""
    records, horizon = Recordings(data), 200
    totals: list[list[float]] = [[] for _ in PLAYERS]
    for number in range(trials):
        if name == "temperature":
            trial = box_worlds.temperature(records, seed + number, horizon)
        else:
            trial = box_worlds.traffic(records, seed + number, horizon, usual=False)
        for total, strategy in zip(totals, PLAYERS.values()):
            total.append(_played(strategy, trial, number) / trial.horizon)
    return costs(*np.array(totals))


def _played(strategy: Strategy, trial: box_worlds.Trial, seed: int) -> float:
    """Total regret of a strategy in a trial."""

    def make(trial: box_worlds.Trial, seed: int) -> OfLibrary:
        return OfLibrary(strategy, trial, given=False, box=False)

    return regret_on_boxes.play(make, trial, seed)[REGRET]


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
    return costs(*np.array(totals))


def detection(trials: int, seed: int) -> dict[str, Any]:
    """Rounds from a change after round 50, on 30 x 30 arms, to its detection."""
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
PEERS = ("turning", "jumping", "static", "wandering", "slice-hartmann-3", "slice-eggholder")
WORLDS = (
    *(f"faults {name}" for name in ("peak", "moving", "draws")),
    *(f"grid {name}" for name in GRIDS),
    *(f"square {name}" for name in SQUARES),
    *(f"panel {name}" for name in PANELS),
    *(f"peers {name}" for name in PEERS),
    "detection",
)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    parser = command_line(
        "statistics.cost_of_wrong_readings", __doc__, worlds=WORLDS, trials=100, seed=100
    )
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
