"""One run of one peer: `python -m benchmarks.peers.play PEER WORLD SEED [UNIT [CHARGED]]`.

A line of JSON comes out. Where a unit is given, thinking counts; see :func:`play`.

Needs numpy and the peer's own packages, so that it runs in an environment of the peer's.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from importlib import import_module
from importlib.metadata import version

import numpy as np

from benchmarks.peers.peers import PEERS
from benchmarks.peers.protocol import Peer
from benchmarks.peers.worlds import WORLDS


def play(
    peer: Peer, world: str, seed: int, unit: float | None = None, charged: float | None = None
) -> dict[str, object]:
    """A run, one measurement per unit of time or, where thinking counts, as fast as the peer is.

    Regret per query is f*(t) - f(x, t) of every measurement. Regret per unit of time holds the last
    point until the next: R = ∫ f*(t) - f(x_held, t) dt / H, summed over whole units.

    Args:
        peer: Who plays.
        world: The name of a world.
        seed: Of world and noise.
        unit: Seconds of a processor, spent on thinking, that pass as a unit of the world's time;
            None where time stands still while a peer thinks.
        charged: Seconds that a query is taken to cost in place of those measured, which no other
            machine would measure again; None for those.
    """
    played = WORLDS[world](seed)
    noise = np.random.default_rng([seed, 7]).normal(0, played.noise, played.rounds + 1)
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
        following = now + (1 if unit is None else max(1, round(cost / unit)))
        for moment in range(int(now), int(min(following, played.rounds + 1))):
            held += played.best(moment) - float(played.values(x[None], float(moment))[0])
        now = following
    return {
        "seconds_per_unit": unit,
        "seconds_charged": charged,
        "regret_per_query": float(np.mean(queries)),
        "regret_per_unit_of_time": held / played.rounds,
        "queries": len(queries),
        "seconds_per_round": float(np.mean(seconds)),
        "processor_seconds_per_round": float(np.mean(processor)),
        "peak_memory_MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main(arguments: list[str]) -> None:
    """Plays and prints."""
    name, world, seed, *rest = arguments
    warnings.filterwarnings("ignore")
    entry = PEERS[name]
    module, _, kind = entry.loop.partition(":")
    loop: type[Peer] = getattr(import_module(module), kind)
    loop.prepare()
    made = loop(WORLDS[world](int(seed)).dim, int(seed))
    found = play(made, world, int(seed), *map(float, rest))
    versions = {one: version(one) for one in entry.versions}
    told = {"peer": name, "world": world, "seed": int(seed), **found, "versions": versions}
    print(json.dumps(told))


if __name__ == "__main__":
    main(sys.argv[1:])
