"""Regret of the adaptive strategy against itself at another commit and against other optimisers.

    python -m benchmarks.statistics.regret_against_commit --runs FOLDER [--label now]
        [--tree FOLDER] [--players adaptive optuna-tpe optuna-gp botorch-time]
        [--worlds NAME ...] [--first 100] [--seeds 20] [--rounds 2000] [--minutes 60] [--afresh]
        [--data FOLDER] [--table] [--out FILE]

A call plays what FOLDER lacks, ten seeds on all worlds before the next ten, with the library of the
checkout ``--tree`` under a label; then it compares the labels, and with ``--table`` prints a table
and writes no record. Seeds are a batch of trials, which choose as loops do. Other optimisers run
under their own name. All face the same functions and noise. Worlds:

- *drifting-4* to *drifting-10*, *gmpb-f2-100* and those of one and two parameters of
  :mod:`benchmarks.peers.worlds`. On *gmpb-f2-100* two more figures count whole environments: the
  offline error, the mean over evaluations of f* - the best value since the change, and E_bbc, the
  same at the last evaluation before each change;
- those of :mod:`benchmarks.statistics.regret_on_square`;
- *temperature*, *traffic*, *traffic above usual*: the records of
  :mod:`benchmarks.statistics.box_worlds`, played by a loop over arms.

Regret is per round. Differences and ratios to *before* are paired by seed; the hypothesis that
regret in one or two dimensions is not above *before* is tested by a one-sided t-test, with Holm's
correction over these worlds.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import version
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student  # type: ignore[import-untyped]

from benchmarks.command_line import command_line
from benchmarks.peers import play as peers
from benchmarks.peers.peers import PEERS
from benchmarks.peers.protocol import Peer
from benchmarks.peers.worlds import WORLDS as BOXES
from benchmarks.records import ROOT, begin, library_of, write
from benchmarks.statistics.paired import ADAPTIVE, REGRET, mean_and_error, standard_error

BEFORE = "before"
HIGH = ("drifting-4", "drifting-6", "drifting-8", "drifting-10")
GMPB = "gmpb-f2-100"
CHANGE = 100
"""Evaluations between changes of that world."""
FLAT = ("turning", "jumping", "static", "slice-eggholder", "slice-rosenbrock", "slice-hartmann-3")
SQUARE = {name: f"square {name}" for name in ("markov", "abrupt", "static", "narrow peaks")}
SQUARE_ROUNDS = 100
RECORDS = ("temperature", "traffic", "traffic above usual")
LOW = (*SQUARE.values(), *FLAT, *RECORDS)
"""Worlds of one and two dimensions, over which Holm's correction is made."""
WORLDS = (*HIGH, GMPB, *LOW)
PLAYERS = (ADAPTIVE, "optuna-tpe", "optuna-gp", "botorch-time")
BATCH = 10
"""Seeds played on a world before the next world."""
EACH = "regret of every seed"
Run = dict[str, Any]


def of_peer(player: str, world: str, seed: int, rounds: int) -> Run:
    """A run of another optimiser."""
    module, _, kind = PEERS[player].loop.partition(":")
    peer: type[Peer] = getattr(import_module(module), kind)
    peer.prepare()
    made = peer(BOXES[world](seed).dim, seed)
    found: dict[str, Any] = peers.play(made, world, seed, most=rounds)
    versions = {package: version(package) for package in PEERS[player].versions}
    return _run(found["regret_of_each_query"]) | {"versions": versions}


def _run(each: Sequence[float]) -> Run:
    """A run from the regret of each round."""
    return {"regret": float(np.mean(each)), "each": [round(float(one), 5) for one in each]}


def on_box(world: str, seeds: Sequence[int], rounds: int) -> list[Run]:
    """Runs of a batch of trials, which choose as loops do, in the order of the seeds."""
    import torch

    from botorch_tv.strategies import Box, adaptive_gp_ucb

    played = [BOXES[world](seed) for seed in seeds]
    rounds, dim = min(rounds, played[0].rounds), played[0].dim
    noises = [peers.noise_of(one, seed) for one, seed in zip(played, seeds)]
    strategy, each = adaptive_gp_ucb(), []
    cube = torch.tensor([[0.0] * dim, [1.0] * dim]).double()
    state = strategy.init(Box(cube), batch_shape=(len(seeds),))
    for t in range(1, rounds + 1):
        asked = strategy.ask(state)
        X = asked.X.clamp(0, 1).numpy()
        values = [one.values(x[None], float(t))[0] for one, x in zip(played, X)]
        each.append([one.best(float(t)) - value for one, value in zip(played, values)])
        told = torch.tensor([value + noise[t] for value, noise in zip(values, noises)]).double()
        state, _ = strategy.tell(state, asked, told, consume=True)
    return [_run(regret) for regret in zip(*each)]


def on_square(world: str, seeds: Sequence[int]) -> list[Run]:
    """Runs of a batch of trials, in the order of the seeds."""
    from benchmarks.statistics import regret_on_square as square
    from botorch_tv.strategies import adaptive_gp_ucb

    name = next(short for short, full in SQUARE.items() if full == world)
    rounds = square.HORIZONS.get(name, SQUARE_ROUNDS)
    batch = range(seeds[0], seeds[-1] + 1)
    played = square.world(name, batch, rounds)
    found = square.play(ADAPTIVE, adaptive_gp_ucb(), played, batch, rounds)
    regrets = dict(zip(batch, found[REGRET]))
    return [{"regret": regrets[seed] / rounds} for seed in seeds]


def on_record(world: str, seed: int, data: Path | None) -> Run:
    """A run on recorded data."""
    from benchmarks.statistics import box_worlds
    from botorch_tv import Grid, Loop
    from botorch_tv.papers.recordings import Recordings

    records = Recordings(data)
    if world == "temperature":
        trial = box_worlds.temperature(records, seed, box_worlds.HOURS)
    else:
        usual = world == "traffic above usual"
        trial = box_worlds.traffic(records, seed, box_worlds.HOURS, usual=usual)
    assert trial.arms is not None
    loop, regret = Loop(Grid(trial.arms.double())), 0.0
    for t in range(1, trial.horizon + 1):
        asked = loop.ask(now=float(t))
        f = float(trial.value(asked.X.view(1, -1), t))
        regret += trial.highest(t) - f
        loop.tell(f, suggestion=asked)
    return {"regret": regret / trial.horizon}


def missing(options: argparse.Namespace, label: str, world: str) -> list[int]:
    """Seeds that the folder lacks."""
    seeds = range(options.first, options.first + options.seeds)
    done = stored(options.runs, label, world)
    return [seed for seed in seeds if seed not in done]


def runs(options: argparse.Namespace) -> Iterator[tuple[str, str, list[int], list[Run]]]:
    """Label, world, seeds and runs of what the folder lacks; other optimisers play boxes alone."""
    last = options.first + options.seeds
    for first, player, world in product(
        range(options.first, last, BATCH), options.players, options.worlds
    ):
        label = options.label if player == ADAPTIVE else player
        seeds = [each for each in missing(options, label, world) if 0 <= each - first < BATCH]
        if player != ADAPTIVE:
            for seed in seeds if world in BOXES else []:
                yield label, world, [seed], [of_peer(player, world, seed, options.rounds)]
        elif world in RECORDS:
            for seed in seeds:
                yield label, world, [seed], [on_record(world, seed, options.data)]
        elif seeds:
            batch = on_square(world, seeds) if world in SQUARE.values() else None
            yield label, world, seeds, batch or on_box(world, seeds, options.rounds)


def stored(folder: Path, label: str, world: str) -> dict[int, Run]:
    """Runs of a label on a world by seed."""
    path = folder / label / f"{world}.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return {run["seed"]: run for run in map(json.loads, lines)}


def figures(world: str) -> dict[str, Callable[[Run, int], float]]:
    """What is compared on a world: functions of a run and of the rounds that count, 0 for all."""
    if world != GMPB:
        return {world: lambda run, rounds: float(run["regret"])}

    def least(run: Run, rounds: int) -> np.ndarray:
        return np.minimum.accumulate(np.reshape(run["each"][:rounds], (-1, CHANGE)), -1)

    return {
        f"{world}, regret": lambda run, rounds: float(np.mean(run["each"][:rounds])),
        f"{world}, offline error": lambda run, rounds: float(least(run, rounds).mean()),
        f"{world}, E_bbc": lambda run, rounds: float(least(run, rounds)[:, -1].mean()),
    }


def compared(ours: np.ndarray, other: np.ndarray) -> Run:
    """Paired differences and ratio of regrets, with standard errors."""
    gaps, ratio = ours - other, ours.mean() / other.mean()
    error = standard_error(gaps)
    worse = None
    if error:
        worse = float(student.sf(gaps.mean() / error, len(gaps) - 1))
    spread = standard_error(ours - ratio * other)
    return {
        "pairs": len(gaps),
        "difference": float(gaps.mean()),
        "its standard error": error,
        "ratio": float(ratio),
        "standard error of the ratio": None if spread is None else spread / float(other.mean()),
        "p of worse": worse,
    }


def holm(tests: dict[str, float]) -> dict[str, float]:
    """Holm's adjusted p-values."""
    adjusted, highest = {}, 0.0
    for number, name in enumerate(sorted(tests, key=lambda name: tests[name])):
        highest = max(highest, min(1.0, tests[name] * (len(tests) - number)))
        adjusted[name] = highest
    return adjusted


def comparison(options: argparse.Namespace) -> dict[str, Run]:
    """Regret of every label by figure, and each against *before*."""
    seeds = set(range(options.first, options.first + options.seeds))
    labels = sorted(path.name for path in options.runs.iterdir() if path.is_dir())
    found: dict[str, Run] = {}
    for world in options.worlds:
        every = {label: stored(options.runs, label, world) for label in labels}
        every = {
            label: {seed: run for seed, run in rows.items() if seed in seeds}
            for label, rows in every.items()
        }
        lengths = [
            len(run["each"]) for rows in every.values() for run in rows.values() if world == GMPB
        ]
        rounds = min(lengths, default=0) // CHANGE * CHANGE
        for name, figure in figures(world).items():
            for label, rows in every.items():
                if not rows:
                    continue
                values = {seed: figure(run, rounds) for seed, run in sorted(rows.items())}
                row: Run = mean_and_error(list(values.values()))
                row |= {
                    "seeds": len(values),
                    EACH: {str(seed): round(value, 5) for seed, value in values.items()},
                    "commits": sorted({run["commit"] for run in rows.values()}),
                }
                if world == GMPB:
                    row["rounds"] = rounds
                both = [seed for seed in values if seed in every.get(BEFORE, {})]
                if label != BEFORE and both:
                    earlier = [figure(every[BEFORE][seed], rounds) for seed in both]
                    row["against before"] = compared(
                        np.array([values[seed] for seed in both]), np.array(earlier)
                    )
                found.setdefault(name, {})[label] = row
    for label in labels:
        tests = {
            name: rows[label]["against before"]["p of worse"]
            for name, rows in found.items()
            if name in LOW and "against before" in rows.get(label, {})
        }
        for name, p in holm({n: p for n, p in tests.items() if p is not None}).items():
            found[name][label]["against before"]["p of worse, Holm"] = p
    return found


def table(found: dict[str, Run]) -> str:
    """The comparison as a table in Markdown."""
    lines = [
        "| world | strategy | seeds | regret | ratio | difference | worse, p (Holm) |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rows in found.items():
        for label, row in rows.items():
            cells = [name, label, row["seeds"], _pm(row["mean"], row["standard error"])]
            pair = row.get("against before")
            if pair is None:
                cells += ["", "", ""]
            else:
                p, adjusted = pair["p of worse"], pair.get("p of worse, Holm")
                shown = "" if p is None else f"{p:.3f}"
                cells += [
                    _pm(pair["ratio"], pair["standard error of the ratio"]) + f" ({pair['pairs']})",
                    _pm(pair["difference"], pair["its standard error"]),
                    shown + ("" if adjusted is None else f" ({adjusted:.2f})"),
                ]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def _pm(mean: float, error: float | None) -> str:
    return f"{mean:.3f}" + ("" if error is None else f" ± {error:.3f}")


def commit_of(tree: Path) -> str:
    """The commit of a checkout, with ``+changes`` if the library differs from it."""
    git = ["git", "-C", str(tree)]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True)
    changed = subprocess.run(
        [*git, "status", "--porcelain", "--", "botorch_tv"], capture_output=True, text=True
    )
    return head.stdout.strip() + ("+changes" if changed.stdout.strip() else "")


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Play what is missing, compare, and return the record."""
    parser = command_line("statistics.regret_against_commit", __doc__, worlds=WORLDS, seeds=20)
    parser.add_argument("--runs", type=Path, required=True, help="folder of the runs")
    parser.add_argument("--label", default="now", help="label of the adaptive strategy")
    parser.add_argument("--tree", type=Path, default=ROOT, help="checkout whose library plays")
    parser.add_argument("--players", nargs="+", choices=PLAYERS, default=[ADAPTIVE])
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    parser.add_argument("--rounds", type=int, default=2000, help="most rounds of a run of a loop")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no run starts")
    parser.add_argument(
        "--afresh", action="store_true", help="drop the label's runs of these seeds"
    )
    parser.add_argument("--data", type=Path, help="folder of the records")
    parser.add_argument("--table", action="store_true", help="print a table, write no record")
    options = parser.parse_args(arguments)
    library_of(options.tree)
    facts = begin(1, seed=options.first, packages=("optuna", "gmpb"))
    until = time.monotonic() + 60 * options.minutes
    commit = commit_of(options.tree)
    warnings.filterwarnings("ignore")
    if options.afresh:
        drop(options)
    if options.minutes > 0:
        for label, world, seeds, each in runs(options):
            path = options.runs / label / f"{world}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("a") as file:
                for seed, run in zip(seeds, each):
                    file.write(json.dumps({"seed": seed, **run, "commit": commit}) + "\n")
            mean = np.mean([run["regret"] for run in each])
            print(f"{label} on {world}, seeds {seeds[0]} to {seeds[-1]}: {mean:.3f}", flush=True)
            if time.monotonic() > until:
                break
    record = {"environment": facts, "worlds": comparison(options)}
    if options.table:
        print(table(record["worlds"]))
    else:
        write(record, options.out)
    return record


def drop(options: argparse.Namespace) -> None:
    """Remove the runs of the label with these seeds on these worlds."""
    for world in options.worlds:
        path = options.runs / options.label / f"{world}.jsonl"
        if path.exists():
            seeds = range(options.first, options.first + options.seeds)
            rest = [
                run
                for run in stored(options.runs, options.label, world).values()
                if run["seed"] not in seeds
            ]
            path.write_text("".join(json.dumps(run) + "\n" for run in rest))


if __name__ == "__main__":
    main()
