"""Violations, regret and hypervolume under limits that drift, against other optimisers.

    python -m benchmarks.statistics.limits --runs FOLDER [--players ours botorch-time ...]
        [--worlds drift ...] [--label ours] [--tree FOLDER] [--first 100] [--seeds 3]
        [--minutes 60] [--afresh] [--table] [--out FILE]

A call plays what FOLDER lacks, a seed on all worlds before the next seed, and stores each run in a
file ``PLAYER/WORLD-SEED.json``; then it compares the players, and with ``--table`` prints tables
and writes no record. Our strategy is stored as ``--label``, and played by the library of the
checkout ``--tree``. :mod:`benchmarks.statistics.limit_worlds` describes the worlds, and
:mod:`benchmarks.statistics.limit_players` the players. Xopt needs its package.

All players face the same noise. A round after the 30th *violates* if an outcome without noise is
above its limit then. *Regret* is the best value within the limits at that time, less the value
without noise, of those rounds after the 30th that do not violate. *Hypervolume* is that of up to
ten recommended settings at rounds 40, 50, …, as a share of the hypervolume of the best compromises
at that time.
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.command_line import command_line
from benchmarks.records import ROOT, begin, library_of, write
from benchmarks.statistics.limit_worlds import LIMITED, ROUNDS, SEVERAL, WORLDS, World, volume
from benchmarks.statistics.paired import mean_and_error
from benchmarks.statistics.regret_against_commit import commit_of

OURS = ("ours", "safe 0.95", "safe 0.99", "reference", "no context", "max step")
"""Players of this library."""
PEERS = (
    "optuna-tpe",
    "botorch-time",
    "optuna-gp",
    "safeopt",
    "ax-time",
    "xopt",
    "dbo-rule",
    "xopt max travel",
)
PLAYERS = ("random", *OURS, *PEERS)
TOGETHER = ("ours", "safe 0.95", "safe 0.99", "reference", "no context")
"""Players whose seeds are a batch of trials, which choose as loops do, if there is an objective."""
BATCH = 10
"""Seeds that are played on all worlds before the next seeds."""
AFTER = 30
"""Rounds that do not count."""
MARKS = tuple(range(40, ROUNDS + 1, 10))
"""Rounds after which settings are recommended, if there are several objectives."""
Run = dict[str, Any]


def plays(player: str, world: str) -> bool:
    """Whether a player supports a world."""
    several = world in SEVERAL
    if player == "safeopt":
        return not several and WORLDS[world](0).dim <= 3
    if player == "dbo-rule":
        return several
    if player == "no context":
        return WORLDS[world](0).context is not None
    if player in ("safe 0.95", "safe 0.99", "max step", "xopt max travel"):
        return not several and not WORLDS[world](0).jumps
    return not (several and player in ("xopt", "random", "reference"))


def play(player: str, name: str, seed: int, rounds: int = ROUNDS) -> Run:
    """A run of a player on a world."""
    import torch

    from benchmarks.statistics.limit_players import PLAYERS as makers

    torch.set_default_dtype(torch.float64)
    world = WORLDS[name](seed)
    noise = np.random.default_rng([seed, 7]).standard_normal((rounds + 1, len(world.noise)))
    began, made = time.process_time(), makers[player](world, seed)
    settings, outcomes, shares = [], [], {}
    for t in range(1, rounds + 1):
        x = made.ask(float(t))
        y = world.outcomes(x[None], float(t))[0]
        made.tell(x, float(t), y + noise[t] * world.noise)
        settings.append(x)
        outcomes.append(y)
        if world.objectives > 1 and t in MARKS:
            shares[str(t)] = world.hypervolume(made.recommended(float(t)), float(t))
    seconds = round(time.process_time() - began, 1)
    if world.objectives == 1:
        return _run(world, np.array(settings), np.array(outcomes), seconds)
    for mark in shares:
        shares[mark] /= volume(world.front(float(mark)), world.reference)
    return {"seconds": seconds, "settings": np.round(settings, 4).tolist(), "share": shares}


def play_together(player: str, name: str, seeds: Sequence[int], rounds: int = ROUNDS) -> list[Run]:
    """Runs of our strategy on a world with one objective, a trial for each seed."""
    import torch

    from benchmarks.statistics import limit_players

    torch.set_default_dtype(torch.float64)
    worlds = [WORLDS[name](seed) for seed in seeds]
    noises = [
        np.random.default_rng([seed, 7]).standard_normal((rounds + 1, len(worlds[0].noise)))
        for seed in seeds
    ]
    made: Any = limit_players.PLAYERS[player]
    began = time.process_time()
    batch = limit_players.Batch([made(world, seed) for world, seed in zip(worlds, seeds)])
    settings, outcomes = [], []
    for t in range(1, rounds + 1):
        X = batch.ask(float(t))
        Y = np.stack([world.outcomes(x[None], float(t))[0] for world, x in zip(worlds, X)])
        batch.tell(Y + np.stack([noise[t] * world.noise for noise, world in zip(noises, worlds)]))
        settings.append(X)
        outcomes.append(Y)
    seconds = round((time.process_time() - began) / len(seeds), 1)
    return [
        _run(world, np.array(settings)[:, number], np.array(outcomes)[:, number], seconds)
        for number, world in enumerate(worlds)
    ]


def _run(world: World, settings: np.ndarray, outcomes: np.ndarray, seconds: float) -> Run:
    """A run from its settings `rounds x d` and outcomes `rounds x m`."""
    regret = np.array(world.best(len(settings))) - outcomes[:, 0]
    return {
        "seconds": seconds,
        "settings": np.round(settings, 4).tolist(),
        "regret": np.round(regret, 5).tolist(),
        "excess": np.round(world.excess(outcomes), 5).tolist(),
    }


def measures(run: Run) -> dict[str, float]:
    """The figures of a run."""
    if "share" in run:
        return {"hypervolume": float(np.mean([*run["share"].values()]))}
    over, regret = np.array(run["excess"])[AFTER:] > 0, np.array(run["regret"])[AFTER:]
    found = {"violations": float(over.mean()), "violations of all": _violations(run)}
    found["regret"] = float(regret[~over].mean()) if not over.all() else math.nan
    moved = np.abs(np.diff(np.array(run["settings"])[AFTER:], axis=0))
    return found | {"travel": float(moved.mean()), "largest move": float(moved.max())}


def _violations(run: Run) -> float:
    return float((np.array(run["excess"]) > 0).mean())


def path_of(options: argparse.Namespace, player: str, world: str, seed: int) -> Path:
    """The file of a run."""
    folder = player
    if player in OURS:
        folder = options.label if player == "ours" else f"{options.label} {player}"
    return Path(options.runs) / folder / f"{world}-{seed}.json"


def comparison(options: argparse.Namespace) -> dict[str, dict[str, Run]]:
    """The figures of every player by world, with standard errors over seeds."""
    found: dict[str, dict[str, Run]] = {}
    wanted = range(options.first, options.first + options.seeds)
    for folder, world in product(sorted(options.runs.iterdir()), options.worlds):
        runs = {}
        for seed in wanted:
            path = folder / f"{world}-{seed}.json"
            if path.exists():
                runs[seed] = json.loads(path.read_text())
        if not runs:
            continue
        each = {seed: measures(run) for seed, run in runs.items()}
        row: Run = {
            name: mean_and_error([values[name] for values in each.values()])
            for name in next(iter(each.values()))
        }
        row |= {
            "seeds": len(runs),
            "of every seed": {str(seed): values for seed, values in each.items()},
            "seconds": float(np.mean([run["seconds"] for run in runs.values()])),
            "commits": sorted({run["commit"] for run in runs.values()}),
        }
        found.setdefault(world, {})[folder.name] = row
    return found


def table(found: Mapping[str, Mapping[str, Run]]) -> str:
    """The figures as tables in Markdown."""
    lines = []
    for worlds, names in (
        (LIMITED | {w: WORLDS[w] for w in ("aside", "two_of_six")}, ("violations", "regret")),
        (SEVERAL, ("hypervolume",)),
    ):
        rows = [(world, found[world]) for world in worlds if world in found]
        if not rows:
            continue
        lines += ["| world | player | seeds | " + " | ".join(names) + " | s |"]
        lines += ["|---|---|---|" + "---|" * (len(names) + 1)]
        for world, players in rows:
            for player, row in players.items():
                cells = [world, player, str(row["seeds"])]
                cells += [_pm(row[name]) for name in names] + [f"{row['seconds']:.0f}"]
                lines.append("| " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


def _pm(figure: Mapping[str, float | None]) -> str:
    error = figure["standard error"]
    return f"{figure['mean']:.3f}" + ("" if error is None else f" ± {error:.3f}")


def missing(options: argparse.Namespace, seeds: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Player, world and seeds of what the folder lacks: batches of ours, then seed by seed."""
    lacking = {
        (player, world): [
            seed
            for seed in seeds
            if options.afresh or not path_of(options, player, world, seed).exists()
        ]
        for player, world in product(options.players, options.worlds)
        if plays(player, world)
    }
    for (player, world), rest in lacking.items():
        if player in TOGETHER and world not in SEVERAL and rest:
            yield player, world, rest
    for seed, ((player, world), rest) in product(seeds, lacking.items()):
        if seed in rest and (player not in TOGETHER or world in SEVERAL):
            yield player, world, [seed]


def store(
    options: argparse.Namespace, player: str, world: str, seeds: Sequence[int], commit: str
) -> None:
    """Play and write files."""
    if player in TOGETHER and world not in SEVERAL:
        runs = play_together(player, world, seeds)
    else:
        runs = [play(player, world, seed) for seed in seeds]
    for seed, run in zip(seeds, runs):
        path = path_of(options, player, world, seed)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(run | {"commit": commit}))
        shown = {name: round(value, 3) for name, value in measures(run).items()}
        print(f"{path.parent.name} on {path.stem}: {shown}, {run['seconds']} s", flush=True)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Play what is missing, compare, and return the record."""
    parser = command_line("statistics.limits", __doc__, worlds=WORLDS, seeds=3)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--players", nargs="+", choices=PLAYERS, default=["ours"])
    parser.add_argument("--label", default="ours", help="label of our strategy")
    parser.add_argument("--tree", type=Path, default=ROOT, help="checkout whose library plays")
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no run starts")
    parser.add_argument("--afresh", action="store_true", help="replace the runs of these seeds")
    parser.add_argument("--table", action="store_true", help="print tables, write no record")
    options = parser.parse_args(arguments)
    library_of(options.tree)
    facts = begin(1, seed=options.first, packages=("optuna", "ax-platform", "xopt"))
    until, commit = time.monotonic() + 60 * options.minutes, commit_of(options.tree)
    warnings.filterwarnings("ignore")
    seeds = range(options.first, options.first + options.seeds)
    for group in (seeds[n : n + BATCH] for n in range(0, len(seeds), BATCH)):
        for player, world, lacking in missing(options, group):
            if time.monotonic() > until:
                break
            store(options, player, world, lacking, commit)
    record = {"environment": facts, "worlds": comparison(options)}
    if options.table:
        print(table(record["worlds"]))
    else:
        write(record, options.out)
    return record


if __name__ == "__main__":
    main()
