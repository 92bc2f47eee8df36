"""This library and its living peers on the same worlds, noise and seeds.

    python -m benchmarks.peers --out FOLDER [--seeds 10] [--first 0] [--afresh]
        [--worlds turning jumping ...] [--peers nothing w-dbo ...] [--processes 1] [--minutes 60]
        [--seconds-per-unit 0] [--seconds-per-query 0]

With ``--seconds-per-unit`` thinking counts: so many seconds of a processor, as measured, and a unit
of the world's time is over. What is measured differs from machine to machine and run to run, so
``--seconds-per-query`` takes a cost that you give in its place, the same for all peers named.

Every peer runs in processes of its own, and where it needs other packages in an environment of its
own, made in FOLDER. Each run leaves a file there; the same call goes on where the last ended. What
cannot be installed or fails is told and left out. The summary of all runs in FOLDER is added to
``benchmarks/results/peers.json``, which counts no seed twice, or with ``--afresh`` takes its place;
differences are paired with our runs in the same FOLDER. ``python -m benchmarks.peers.page`` then
writes the page. ``--minutes 0`` runs nothing and only adds.
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

from benchmarks.peers.leaders import PROCESSOR
from benchmarks.peers.peers import PEERS, Entry
from benchmarks.peers.pooling import pooled
from benchmarks.peers.worlds import WORLDS
from benchmarks.speed.common import RESULTS, ROOT, commit, environment, write
from benchmarks.statistics.errors import standard_error

PLAIN = [name for name in WORLDS if "-" not in name]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
COSTS = ("queries", "seconds_per_round", PROCESSOR, "peak_memory_MiB")
KEPT = RESULTS / "peers.json"
LIMIT = 3600
"""Seconds that a run may take."""


def python_of(entry: Entry, folder: Path) -> str:
    """The interpreter of a peer, its environment made where it is not there yet."""
    if not entry.requirements:
        return sys.executable
    name = entry.loop.rpartition(".")[2].partition(":")[0]
    place = folder / "environments" / name
    python = place / "bin" / "python"
    if not (place / "ready").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", place], check=True)
        # One after the other, so that the first says which build of PyTorch it is.
        for requirement in entry.requirements:
            subprocess.run([python, "-m", "pip", "install", "-q", requirement], check=True)
        (place / "ready").touch()
    return str(python)


def run(options: argparse.Namespace, one: tuple[str, str, int]) -> None:
    """One run of a peer on a world with a seed, unless it is there or time is up."""
    name, world, seed = one
    clocks = [f"{one:g}" for one in (options.seconds_per_unit, options.seconds_per_query) if one]
    thinking = "".join(f"-{one}s" for one in clocks)
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
        last = (lines.strip().splitlines() or ["no word"])[-1]
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
    """Means over seeds by world and peer; differences to ``nothing`` are paired.

    Where thinking counts, a world has the seconds of a unit of its time beside its name.

    Args:
        runs: Of any peers on any worlds.
        earlier: An earlier summary, to which the runs of other seeds are added.
    """
    by: dict[str, dict[str, dict[int, dict[str, Any]]]] = defaultdict(lambda: defaultdict(dict))
    for one in runs:
        unit, charged = one["seconds_per_unit"], one.get("seconds_charged")
        world = one["world"] if unit is None else f"{one['world']}, {unit:g} s"
        world += "" if charged is None else f" at {charged:g} s a query"
        by[world][one["peer"]][one["seed"]] = one
    told = {world: dict(rows) for world, rows in (earlier or {}).items()}
    for world, peers in by.items():
        rows = told.setdefault(world, {})
        for name, seeds in peers.items():
            counted = rows[name]["played"] if name in rows else []
            more = {seed: one for seed, one in seeds.items() if seed not in counted}
            if more:
                rows[name] = pooled(rows.get(name), _row(name, more, peers))
    return told


def _row(
    name: str, seeds: dict[int, dict[str, Any]], peers: dict[str, dict[int, dict[str, Any]]]
) -> dict[str, Any]:
    """What a peer reached on a world, and what it cost."""
    held = "regret_per_unit_of_time"
    row = {
        "seeds": len(seeds),
        "played": sorted(seeds),
        "regret": _mean(seeds, "regret_per_query"),
        held: _mean(seeds, held),
        "standard_error": standard_error([one[held] for one in seeds.values()]),
        **{number: _mean(seeds, number) for number in COSTS},
        "versions": next(iter(seeds.values()))["versions"],
        "commits": sorted({one["commit"] for one in seeds.values()}),
        "devices": sorted({one["device"] for one in seeds.values()}),
    }
    ours = peers.get("nothing", {})
    both = sorted(set(seeds) & set(ours))
    if name != "nothing" and both:
        gaps = [seeds[seed][held] - ours[seed][held] for seed in both]
        row["pairs"] = len(both)
        row["nothing"] = float(np.mean([ours[seed][held] for seed in both]))
        row["above_nothing"] = float(np.mean(gaps))
        row["above_nothing_error"] = standard_error(gaps)
        # A ratio seed by seed, as other seeds may be of another machine.
        times = [seeds[seed][PROCESSOR] / ours[seed][PROCESSOR] for seed in both]
        row["processor_times_ours"] = float(np.mean(times))
    return row


def _mean(seeds: dict[int, dict[str, Any]], name: str) -> float | None:
    """Over the runs that know it."""
    known = [one[name] for one in seeds.values() if one[name] is not None]
    return float(np.mean(known)) if known else None


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers")
    parser.add_argument("--out", type=Path, required=True, help="folder of runs, environments")
    parser.add_argument("--seeds", type=int, default=10, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--afresh", action="store_true", help="leave out what is kept of others")
    parser.add_argument("--worlds", nargs="*", default=PLAIN, choices=list(WORLDS))
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no run begins")
    parser.add_argument(
        "--seconds-per-unit", type=float, default=0.0, help="thinking counts; 0: it does not"
    )
    parser.add_argument(
        "--seconds-per-query", type=float, default=0.0, help="thinking costs this; 0: as measured"
    )
    options = parser.parse_args()
    if options.seconds_per_query and not options.seconds_per_unit:
        parser.error("--seconds-per-query counts where --seconds-per-unit is given as well")
    return options


def main() -> None:
    """Runs what is not there yet and tells."""
    options = parse()
    (options.out / "runs").mkdir(parents=True, exist_ok=True)
    options.until = time.monotonic() + 60 * options.minutes
    options.commit, options.pythons = commit(), {}
    options.device = environment(seed=0)["device"]
    for name in options.peers:
        try:
            options.pythons[name] = python_of(PEERS[name], options.out)
        except subprocess.CalledProcessError as error:
            print(f"{name}: cannot be installed here ({error}); left out")
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
    retained = json.loads(KEPT.read_text()) if KEPT.exists() and not options.afresh else {}
    told = summary(runs, retained.get("worlds"))
    failed = retained.get("failed", {})
    failed |= {path.stem: path.read_text().strip() for path in folder.glob("*.failed")}
    what = {name: entry.what for name, entry in PEERS.items()}
    record = {**environment(seed=0), "peers": what, "worlds": told, "failed": failed}
    write(record, KEPT)


if __name__ == "__main__":
    main()
