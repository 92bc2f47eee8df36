"""The comparison with other optimisers on the same worlds, noise and seeds.

    python -m benchmarks.peers --out FOLDER [--seeds 10] [--first 0] [--afresh]
        [--worlds turning jumping ...] [--peers adaptive w-dbo ...] [--processes 1] [--minutes 60]
        [--seconds-per-unit 0] [--seconds-per-query 0]

With ``--seconds-per-unit`` computing time counts: after so many seconds of a processor a unit of
the world's time has passed. Measured times vary between runs, so ``--seconds-per-query`` sets a
fixed cost of a query for all named peers.

Every peer runs in processes of its own and, if it needs other packages, in an environment of its
own in FOLDER. Each run writes a file there; the same call resumes. Peers that cannot be installed
or fail are reported and skipped. The summary of all runs in FOLDER is added to
``benchmarks/results/peers.json``, which counts no seed twice, or replaces it with ``--afresh``;
differences are paired with the adaptive strategy in FOLDER. ``python -m benchmarks.peers.page``
then writes the page. ``--minutes 0`` runs nothing and only adds.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.leaders import ADAPTIVE, HELD
from benchmarks.peers.peers import PEERS, Entry
from benchmarks.peers.pooling import pooled
from benchmarks.peers.worlds import WORLDS
from benchmarks.records import RESULTS, ROOT, commit, environment, write
from benchmarks.statistics.paired import standard_error

PLAIN = [name for name in WORLDS if "-" not in name]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
PROCESSOR = "processor_seconds_per_round"
COSTS = ("queries", "seconds_per_round", PROCESSOR, "peak_memory_MiB")
RECORD = RESULTS / "peers.json"
LIMIT = 3600
"""Most seconds of a run."""


def python_of(entry: Entry, folder: Path) -> str:
    """The interpreter of a peer; its environment is created if needed."""
    if not entry.requirements:
        return sys.executable
    name = entry.loop.rpartition(".")[2].partition(":")[0]
    place = folder / "environments" / name
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        # In turn, because the first requirement fixes the build of PyTorch.
        for requirement in entry.requirements:
            subprocess.run([python, "-m", "pip", "install", "-q", requirement], check=True)
        (place / "ready").touch()
    return str(python)


def run(options: argparse.Namespace, which: tuple[str, str, int]) -> None:
    """Run a peer on a world with a seed, unless the run exists or time is over."""
    name, world, seed = which
    clocks = [f"{sec:g}" for sec in (options.seconds_per_unit, options.seconds_per_query) if sec]
    thinking = "".join(f"-{clock}s" for clock in clocks)
    path = options.out / "runs" / f"{name}-{world}-{seed}{thinking}.json"
    failed = path.with_suffix(".failed")
    if path.exists() or time.monotonic() > options.until:
        return
    played = [name, world, str(seed), *clocks]
    command = [options.pythons[name], "-m", "benchmarks.peers.play", *played]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=os.environ | ONE_THREAD, timeout=LIMIT
        )
        lines = done.stderr if done.returncode else done.stdout
        last = (lines.strip().splitlines() or ["no output"])[-1]
    except subprocess.TimeoutExpired:
        done, last = None, f"not done in {LIMIT} s"
    if done is None or done.returncode:
        failed.write_text(last + "\n")
        print(f"{name} on {world}, seed {seed}: failed: {last}", flush=True)
        return
    found = json.loads(last) | {"commit": options.commit, "device": options.device}
    path.write_text(json.dumps(found) + "\n")
    failed.unlink(missing_ok=True)
    print(f"{name} on {world}, seed {seed}: done", flush=True)


def summary(
    runs: list[dict[str, Any]], earlier: dict[str, dict[str, Any]] | None = None
) -> dict[str, Any]:
    """Means over seeds by world and peer; differences to ``adaptive`` are paired.

    Where computing time counts, the name of a world includes the seconds of a unit of its time.

    Args:
        runs: Runs of any peers on any worlds.
        earlier: An earlier summary, to which the runs of other seeds are added.
    """
    by: dict[str, dict[str, dict[int, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for found in runs:
        unit, charged = found["seconds_per_unit"], found.get("seconds_charged")
        world = found["world"] if unit is None else f"{found['world']}, {unit:g} s"
        world += "" if charged is None else f" at {charged:g} s a query"
        by[world][found["peer"]][found["seed"]] = found
    summed = {world: dict(rows) for world, rows in (earlier or {}).items()}
    for world, peers in by.items():
        rows = summed.setdefault(world, {})
        for name, seeds in peers.items():
            counted = rows[name]["played"] if name in rows else []
            more = {seed: found for seed, found in seeds.items() if seed not in counted}
            if more:
                rows[name] = pooled(rows.get(name), _row(name, more, peers))
    return summed


def _row(
    name: str, seeds: dict[int, dict[str, Any]], peers: dict[str, dict[int, dict[str, Any]]]
) -> dict[str, Any]:
    """Regret and costs of a peer on a world."""
    held = HELD
    row = {
        "seeds": len(seeds),
        "played": sorted(seeds),
        "regret": _mean(seeds, "regret_per_query"),
        held: _mean(seeds, held),
        "standard_error": standard_error([found[held] for found in seeds.values()]),
        **{number: _mean(seeds, number) for number in COSTS},
        "versions": next(iter(seeds.values()))["versions"],
        "commits": sorted({found["commit"] for found in seeds.values()}),
        "devices": sorted({found["device"] for found in seeds.values()}),
    }
    ours = peers.get(ADAPTIVE, {})
    both = sorted(set(seeds) & set(ours))
    if name != ADAPTIVE and both:
        gaps = [seeds[seed][held] - ours[seed][held] for seed in both]
        row["pairs"] = len(both)
        row["adaptive"] = float(np.mean([ours[seed][held] for seed in both]))
        row["above_adaptive"] = float(np.mean(gaps))
        row["above_adaptive_error"] = standard_error(gaps)
        # The ratio is per seed, because seeds may be of different machines.
        times = [seeds[seed][PROCESSOR] / ours[seed][PROCESSOR] for seed in both]
        row["processor_times_ours"] = float(np.mean(times))
    return row


def _mean(seeds: dict[int, dict[str, Any]], name: str) -> float | None:
    """Mean over the runs that have the figure."""
    values = [found[name] for found in seeds.values() if found[name] is not None]
    return float(np.mean(values)) if values else None


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("--out", type=Path, required=True, help="folder of runs, environments")
    parser.add_argument("--seeds", type=int, default=10, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--afresh", action="store_true", help="drop the stored results")
    parser.add_argument("--worlds", nargs="*", default=PLAIN, choices=list(WORLDS))
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no run starts")
    parser.add_argument(
        "--seconds-per-unit", type=float, default=0.0, help="computing time counts; 0: it does not"
    )
    parser.add_argument(
        "--seconds-per-query", type=float, default=0.0, help="cost of a query; 0: as measured"
    )
    options = parser.parse_args()
    if options.seconds_per_query and not options.seconds_per_unit:
        parser.error("--seconds-per-query counts where --seconds-per-unit is given as well")
    return options


def main() -> None:
    """Run what is missing and update the record."""
    options = parse()
    (options.out / "runs").mkdir(parents=True, exist_ok=True)
    options.until = time.monotonic() + 60 * options.minutes
    options.commit, options.pythons = commit(), {}
    options.device = environment(seed=0)["device"]
    for name in options.peers:
        try:
            options.pythons[name] = python_of(PEERS[name], options.out)
        except subprocess.CalledProcessError as error:
            print(f"{name}: cannot be installed here ({error}); skipped")
    work = [
        (name, world, seed)
        for seed in range(options.first, options.first + options.seeds)
        for world in options.worlds
        for name in options.pythons
    ]
    with ThreadPoolExecutor(options.processes) as pool:
        list(pool.map(partial(run, options), work))
    folder = options.out / "runs"
    runs = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    retained = json.loads(RECORD.read_text()) if RECORD.exists() and not options.afresh else {}
    worlds = summary(runs, retained.get("worlds"))
    failed = retained.get("failed", {})
    failed |= {path.stem: path.read_text().strip() for path in folder.glob("*.failed")}
    about = {name: entry.about for name, entry in PEERS.items()}
    record = {**environment(seed=0), "peers": about, "worlds": worlds, "failed": failed}
    write(record, RECORD)


if __name__ == "__main__":
    main()
