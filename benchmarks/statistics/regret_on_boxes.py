"""Regret of the adaptive strategy in six to twenty dimensions and on recorded data.

    python -m benchmarks.statistics.regret_on_boxes [--data FOLDER] [--worlds NAME ...]
        [--players NAME ...] [--seeds 10] [--horizon 300] [--out FILE]

Worlds (:mod:`benchmarks.statistics.box_worlds`):

- *hartmann*, *levy*, *levy in ten*, *levy in twenty*: Hartmann's function of six and Levy's of
  eight, ten and twenty parameters over 100 rounds. The optimum orbits: the first coordinate has a
  period of 400 rounds, others are faster. Noise is 2 % of the function's variance;
- *temperature*: the warmest of 46 cells of ERA5, drawn for every seed, 264 hours;
- *traffic*, *traffic above usual*: the fastest of 50 roads of Los Angeles, drawn for every seed,
  and the furthest above its usual speed, 84 readings of one of two mornings.

Without ``--data`` the library generates similar records. Random search, the BoTorch loop and the
learning loops of the library have no more prior knowledge than the adaptive strategy; two learning
loops are given mean and scale. The rest is given all: on functions the lengthscale and rate of the
largest likelihood of 300 readings, on records the covariance of the earlier rows. Widths are equal;
one adaptive strategy has half of the usual beta, the width of [ET].

Regret is per round and paired over seeds. Coverage is the fraction of points and rounds in which a
95 % band contains the truth (on records, the reading); also over the third of the points where the
truth is lowest, and at the points chosen. Runs that the file has with the same settings are
skipped.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.command_line import command_line
from benchmarks.records import begin, write
from benchmarks.statistics.box_players import EVERY, PLAYERS, RANDOM_STARTS, OfLibrary, Player
from benchmarks.statistics.box_worlds import (
    Trial,
    drifting,
    hartmann,
    levy,
    temperature,
    traffic,
)
from benchmarks.statistics.paired import REGRET, read, summary
from benchmarks.statistics.regret_on_square import BAND, POINTS
from botorch_tv.even_points import even_points
from botorch_tv.papers.recordings import Recordings

ROUNDS = 100
"""Of the functions."""
LEVY = {"levy": 8, "levy in ten": 10, "levy in twenty": 20}
"""Dimensions of Levy's functions."""
EVERYWHERE = "coverage of bands of 95 % of every seed"
LOWEST = "coverage of the lowest third of every seed"
CHOSEN = "coverage where it played of every seed"


def _function(problem: Callable[..., Any]) -> Callable[[Recordings, int, int], Trial]:
    return lambda records, seed, rounds: drifting(problem, seed, min(rounds, ROUNDS))


WORLDS: dict[str, Callable[[Recordings, int, int], Trial]] = {
    "hartmann": _function(hartmann),
    **{name: _function(partial(levy, dim)) for name, dim in LEVY.items()},
    "temperature": temperature,
    "traffic": partial(traffic, usual=False),
    "traffic above usual": partial(traffic, usual=True),
}


def play(make: Callable[[Trial, int], Player], trial: Trial, seed: int) -> dict[str, float]:
    """Total regret of a player, its processor seconds per round, and coverage if it has bands.

    Args:
        make: Makes the player.
        trial: The trial.
        seed: Of the noise and of the player's random numbers.
    """
    player, generator = make(trial, seed), torch.Generator().manual_seed(1_000_000 + seed)
    noise = trial.noise * torch.randn(trial.horizon, generator=generator, dtype=torch.float64)
    with_bands = player if isinstance(player, OfLibrary) else None
    points = even_points(POINTS, trial.dim) if trial.arms is None else trial.arms
    total, seconds = 0.0, 0.0
    inside: list[Tensor] = []
    lowest: list[Tensor] = []
    chosen: list[float] = []
    for t in range(1, trial.horizon + 1):
        start = time.process_time()
        point = player.ask(t)
        seconds += time.process_time() - start
        f = float(trial.value(point.unsqueeze(0), t))
        if with_bands is not None and t > RANDOM_STARTS:
            chosen.append(_inside_at_choice(with_bands, trial, f))
            if t % EVERY == 0:
                inside.append(_inside(with_bands, trial, points, t))
                low = trial.value(points, t).argsort()[: len(points) // 3]
                lowest.append(inside[-1][low])
        total += trial.highest(t) - f
        start = time.process_time()
        player.tell(t, f + float(noise[t - 1]))
        seconds += time.process_time() - start
    found = {REGRET: total, "processor seconds per round of every seed": seconds / trial.horizon}
    if inside:
        found[EVERYWHERE] = float(torch.stack(inside).mean())
        found[LOWEST] = float(torch.stack(lowest).mean())
        found[CHOSEN] = sum(chosen) / len(chosen)
    return found


def _inside_at_choice(player: OfLibrary, trial: Trial, f: float) -> float:
    """Whether the band at the chosen point contains the truth."""
    suggestion, variance = player.suggestion, player.suggestion.sd.square()
    if trial.arms is not None:
        variance = variance + player.strategy.model_noise(player.state)
    error = (suggestion.mean - (f - player.mean) / player.scale).abs()
    return float(error <= BAND * variance.sqrt())


def _inside(player: OfLibrary, trial: Trial, points: Tensor, t: int) -> Tensor:
    """Whether the bands at some points contain the truth, 0 or 1, `q`."""
    noisy = trial.arms is not None  # records have readings alone
    posterior = player.strategy.posterior(player.state, points, observation_noise=noisy)
    truth = (trial.value(points, t) - player.mean) / player.scale
    error = (posterior.mean.squeeze(-1) - truth).abs()
    inside: Tensor = error <= BAND * posterior.variance.squeeze(-1).sqrt()
    return inside.double()


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    parser = command_line(
        "statistics.regret_on_boxes", __doc__, worlds=WORLDS, seeds=10, horizon=300
    )
    parser.add_argument("--data", type=Path, help="folder of the records")
    parser.add_argument("--players", nargs="+", choices=PLAYERS, default=list(PLAYERS))
    options = parser.parse_args(arguments)
    facts, records = begin(1, seed=0), Recordings(options.data)
    source = "made up" if options.data is None else "recorded"
    settings = {"horizon": options.horizon, "records": source}
    warnings.filterwarnings("ignore")
    for name in options.worlds:
        for seed in range(options.seeds):
            trial = None
            for label in options.players:
                if len(_so_far(read(options.out), name, label, settings)[REGRET]) > seed:
                    continue
                trial = trial or WORLDS[name](records, seed, options.horizon)
                found = play(PLAYERS[label], trial, seed)
                record = read(options.out)  # another process may have written meanwhile
                run = _so_far(record, name, label, settings)
                for key, value in found.items():
                    run.setdefault(key, []).append(round(value, 5))
                run["commit"] = facts["commit"]
                world = record["worlds"].setdefault(name, {"runs": {}})
                world["runs"][label] = run
                world["regret per round"] = summary(world["runs"], trial.horizon)
                record["environment"] = facts
                write(record, options.out)
        for label, figures in read(options.out)["worlds"][name]["regret per round"].items():
            print(name, label, figures, flush=True)
    return read(options.out)


def _so_far(
    record: dict[str, Any], name: str, label: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """The stored run of these settings, a number for every seed; an empty run if there is none."""
    run: dict[str, Any] = record["worlds"].get(name, {"runs": {}})["runs"].get(label, {})
    return run if run.get("settings") == settings else {"settings": settings, REGRET: []}


if __name__ == "__main__":
    main()
