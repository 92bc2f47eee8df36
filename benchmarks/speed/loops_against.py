"""Time of `ask` and `tell` of a loop on a box, in two checkouts that take turns.

    python -m benchmarks.speed.loops_against BEFORE [AFTER] [--dims 1 2 3 6 10] [--rounds 30 100]
        [--limited]

Each checkout runs in a process with one thread. The processes play the same drifting world, a
round of each in turn, so that a busy moment of the machine falls on both. Times are processor
times, averages over the last ten rounds; memory is that of the tensors of the state. With
``--limited`` the second checkout, which may be the first again, has a further outcome with a limit.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

import torch

WINDOW = 10
HERE = Path(__file__).resolve()


def height(X: list[float], t: int) -> float:
    """Values of a peak that moves, with noise that depends on the round only."""
    away = [x - 0.5 - 0.3 * math.sin(0.05 * t + i) for i, x in enumerate(X)]
    noise = 0.05 * math.sin(7919.0 * (t + 1) ** 2)
    return math.exp(-sum(a**2 for a in away) / (0.08 * len(X))) + noise


def child(dim: int, limited: bool) -> None:
    """Play a round for every line of the input; write its seconds and the bytes of the state."""
    from benchmarks.speed.state_bytes import state_bytes
    from botorch_tv import Loop

    torch.set_num_threads(1)
    limit, now = "p <= 0.5" if limited else None, time.process_time
    loop = Loop([(0.0, 1.0)] * dim, objective="y", constraints=limit)
    for t, _ in enumerate(sys.stdin):
        begin = now()
        suggestion = loop.ask()
        asked = now()
        X = suggestion.X.flatten().tolist()
        values = {"y": height(X, t)}
        if limited:
            values["p"] = fmean(X) + 0.05 * math.sin(7907.0 * (t + 1) ** 2)
        told = now()
        loop.tell(values)
        print(asked - begin, now() - told, state_bytes(loop.state), flush=True)


def main() -> None:
    """Print the table of ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("trees", nargs="*", type=Path, help="the folders of the checkouts")
    parser.add_argument("--dims", nargs="*", type=int, default=[1, 2, 3, 6, 10])
    parser.add_argument("--rounds", nargs="*", type=int, default=[30, 100])
    parser.add_argument("--limited", action="store_true", help="the second has a further outcome")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(options.child, options.limited)
        return
    trees = [*options.trees, HERE.parents[2]][:2]
    print("|  d | rounds | ask ms | tell ms | ask | tell | both | MB before | after |")
    print("|----|--------|--------|---------|-----|------|------|-----------|-------|")
    for dim in options.dims:
        _compare(trees, dim, options.rounds, options.limited)


def _compare(trees: list[Path], dim: int, rounds: list[int], limited: bool) -> None:
    with ExitStack() as stack:
        players = []
        for number, tree in enumerate(trees):
            command = [sys.executable, "-P", str(HERE), "--child", str(dim)]
            command += ["--limited"] if limited and number else []
            environment = {**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1"}
            player = subprocess.Popen(
                command,
                env=environment,
                cwd=tree,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            players.append(stack.enter_context(player))
        played: list[list[list[float]]] = [[] for _ in players]
        for number in range(1, max(rounds) + 1):
            for player, row in zip(players, played, strict=True):
                assert player.stdin is not None
                assert player.stdout is not None
                print(file=player.stdin, flush=True)
                row.append([float(part) for part in player.stdout.readline().split()])
            if number in rounds:
                before, after = (
                    [fmean(column) for column in zip(*row[-WINDOW:], strict=True)] for row in played
                )
                both = sum(after[:2]) / sum(before[:2])
                print(
                    f"| {dim:2} | {number:6} | {1e3 * after[0]:6.1f} | {1e3 * after[1]:7.1f} |"
                    f" {after[0] / before[0]:.2f} | {after[1] / before[1]:.2f} | {both:.2f} |"
                    f" {before[2] / 1e6:9.1f} | {after[2] / 1e6:5.1f} |",
                    flush=True,
                )
        for player in players:
            player.terminate()


if __name__ == "__main__":
    main()
