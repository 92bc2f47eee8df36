"""A run of a peer: `python -m benchmarks.peers.play PEER WORLD SEED [UNIT [CHARGED]]`.

It prints a line of JSON. With a unit computing time counts; see :func:`play`. It needs numpy and
the packages of the peer alone, and runs in the environment of the peer.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version

import numpy as np

from benchmarks.peers.peers import PEERS
from benchmarks.peers.protocol import Peer
from benchmarks.peers.worlds import WORLDS, World


def play(
    peer: Peer,
    world: str,
    seed: int,
    unit: float | None = None,
    charged: float | None = None,
    *,
    most: int | None = None,
) -> dict[str, object]:
    """A run with a measurement per unit of time, or as fast as the peer if computing time counts.

    Regret per query is the mean of f*(t) - f(x, t). Regret per unit of time holds the last point
    until the next: R = ∫ f*(t) - f(x_held, t) dt / H, summed over whole units.

    Args:
        peer: The peer.
        world: The name of a world.
        seed: Seed of world and noise.
        unit: Seconds of a processor per unit of the world's time; None if computing time is free.
        charged: Seconds that a query costs in place of the measured seconds; None for those.
        most: Number of rounds, if fewer than the world's.
    """
    played = WORLDS[world](seed)
    if most is not None:
        played = replace(played, rounds=min(most, played.rounds))
    noise = noise_of(played, seed)
    queries, held, seconds, processor = [], 0.0, [], []
    now = 1.0
    while now <= played.rounds:
        began, worked = time.perf_counter(), time.process_time()
        x = np.clip(np.asarray(peer.ask(now), dtype=float).reshape(played.dim), 0, 1)
        passed, thought = time.perf_counter() - began, time.process_time() - worked
        value = float(played.values(x[None], now)[0])
        queries.append(played.best(now) - value)
        began, worked = time.perf_counter(), time.process_time()
        peer.tell(x, now, value + noise[int(now)])
        seconds.append(passed + time.perf_counter() - began)
        processor.append(thought + time.process_time() - worked)
        cost = processor[-1] if charged is None else charged
        upcoming = now + (1 if unit is None else max(1, round(cost / unit)))
        for moment in range(int(now), int(min(upcoming, played.rounds + 1))):
            held += played.best(moment) - float(played.values(x[None], float(moment))[0])
        now = upcoming
    return {
        "seconds_per_unit": unit,
        "seconds_charged": charged,
        "regret_per_query": float(np.mean(queries)),
        "regret_per_unit_of_time": held / played.rounds,
        "regret_of_each_query": [round(float(each), 5) for each in queries],
        "queries": len(queries),
        "seconds_per_round": float(np.mean(seconds)),
        "processor_seconds_per_round": float(np.mean(processor)),
        "peak_memory_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def noise_of(world: World, seed: int) -> np.ndarray:
    """Errors of the measurements by time."""
    return np.random.default_rng([seed, 7]).normal(0, world.noise, world.rounds + 1)


def main(arguments: list[str]) -> None:
    """Play and print."""
    name, world, seed, *rest = arguments
    warnings.filterwarnings("ignore")
    entry = PEERS[name]
    module, _, kind = entry.loop.partition(":")
    loop: type[Peer] = getattr(import_module(module), kind)
    loop.prepare()
    made = loop(WORLDS[world](int(seed)).dim, int(seed))
    found = play(made, world, int(seed), *map(float, rest))
    versions = {package: version(package) for package in entry.versions}
    printed = {"peer": name, "world": world, "seed": int(seed), **found, "versions": versions}
    print(json.dumps(printed))


if __name__ == "__main__":
    main(sys.argv[1:])
