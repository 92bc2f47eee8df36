"""Regret of the adaptive strategy with two of six parameters that matter, against just these two.

    python -m benchmarks.statistics.regret_of_needless_parameters [--worlds NAME ...] [--first 100]
        [--seeds 20] [--out FILE]

Worlds, seeds and noise of both loops are the same. The ratio of the mean regrets has the standard
error of paired differences.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks.command_line import command_line
from benchmarks.peers.worlds import WORLDS
from benchmarks.records import begin, write
from benchmarks.statistics.paired import mean_and_error, standard_error
from benchmarks.statistics.regret_against_commit import BATCH, on_box

NAMES = ("drifting-2", "turning", "jumping")


def played(world: str, seeds: Sequence[int]) -> np.ndarray:
    """Regret per round of each seed."""
    batches = [seeds[first : first + BATCH] for first in range(0, len(seeds), BATCH)]
    rounds = WORLDS[world](0).rounds
    return np.array([run["regret"] for batch in batches for run in on_box(world, batch, rounds)])


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Play, compare, and return the record."""
    title = "statistics.regret_of_needless_parameters"
    parser = command_line(title, __doc__, worlds=NAMES, seeds=20)
    parser.add_argument("--first", type=int, default=100, help="the first seed")
    options = parser.parse_args(arguments)
    facts, found = begin(1, seed=options.first), {}
    seeds = range(options.first, options.first + options.seeds)
    for name in options.worlds:
        six, two = played(f"{name}-of-6", seeds), played(name, seeds)
        ratio = six.mean() / two.mean()
        error = standard_error(six - ratio * two)
        found[name] = {"six": mean_and_error(six), "two": mean_and_error(two), "ratio": ratio}
        found[name]["its standard error"] = None if error is None else error / two.mean()
        print(name, found[name], flush=True)
    record = {"environment": facts, "first seed": options.first, "worlds": found}
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
