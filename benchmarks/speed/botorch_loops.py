"""The engine against the loops people write with BoTorch.

    python -m benchmarks.speed.botorch_loops [--trials 256] [--horizon 200] [--points 50]
        [--verify-rounds ROUNDS] [--peer-rounds 50] [--repeats 3] [--epsilon 0.03]
        [--time-varying] [--threads N] [--seed 0] [--out FILE]

GP-UCB with known hyperparameters (squared exponential kernel, lengthscale 0.2, noise 0.02,
multiplier ``√(0.4 ln 4t)``) plays the Markov world of [B16]; with ``--time-varying`` it is
TV-GP-UCB, whose peers carry time as a column of their inputs. One run does three things:

1. *verify*: every peer plays the first trial by itself and has to make the engine's choices;
2. *time* `ask` and `tell`: the engine on all trials and rounds as a study calls it (one chunk of
   trials per core side by side, old states used up), the peers on that trial, in
   rounds spread evenly over the horizon with the data they really have by then (the rounds between
   are told, not decided). The world is never timed. A round counts with the fastest of
   ``--repeats`` passes, which alternate between the contenders, so that a busy moment of the
   machine falls on none of them alone;
   Where Numba is installed, a study of as many trials is timed besides, as `run_study` compiles it:
   with its world, draws and results, which nobody else pays for;
3. *report* the mean over the horizon in milliseconds per trial and round, and its ratio to the
   engine's: with all threads for everybody, with one thread for everybody, and, for whoever would
   run the peers on many trials with one process per core, the peers' time with one thread divided
   by the number of cores against the engine with all threads. No such set of processes is faster
   than that, so the last ratio is a lower bound.

The first round is left out of the peers' mean: without data they have nothing to compute.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib.util import find_spec
from statistics import fmean
from typing import Any, NamedTuple

import torch

from benchmarks.arguments import command_line
from benchmarks.speed.common import RESULTS, begin, cores, write
from benchmarks.speed.peers import LOOPS, Loop, Problem
from benchmarks.speed.runs import (
    EPSILON,
    LENGTHSCALE,
    NOISE,
    WIDTH,
    Play,
    kernel,
    play,
    replay,
    rewards,
)
from benchmarks.speed.world import MarkovRewards
from botorch_tv.simulation import MarkovWorld, run_study
from botorch_tv.strategies import Grid, Strategy, gp_ucb, tv_gp_ucb
from botorch_tv.validation import counted


def strategy(epsilon: float | None) -> Strategy:
    """GP-UCB, or TV-GP-UCB with ``epsilon``, as the peers have it."""
    if epsilon is None:
        return gp_ucb(kernel=kernel(), noise=NOISE, width=WIDTH)
    return tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=epsilon, width=WIDTH)


def verify(peer: Loop, played: Play, world: MarkovRewards, rounds: int) -> None:
    """Let a peer play the first trial of a world that the engine has played.

    Args:
        peer: A loop at its first round.
        played: The engine's run.
        world: The same world at its first round.
        rounds: How many rounds to compare.

    Raises:
        AssertionError: If the peer makes another choice than the engine.
    """
    for number in range(rounds):
        chosen, expected = peer.ask(), int(played.indices[number, 0])
        if chosen != expected:
            raise AssertionError(
                f"{peer.name} chose arm {chosen} in round {number + 1}, the engine {expected}; "
                "they are not computing the same thing, so their times cannot be compared."
            )
        arms = torch.full((world.values.shape[0],), chosen)
        peer.tell(chosen, float(world.observe(arms)[0]))
        world.advance()


def spread(horizon: int, rounds: int) -> set[int]:
    """At most ``rounds`` round numbers out of 2 … ``horizon``, the middles of equal parts."""
    available = horizon - 1
    count = min(rounds, available)
    return {2 + available * (2 * part + 1) // (2 * count) for part in range(count)}


def time_peer(peer: Loop, played: Play, rounds: set[int]) -> list[float]:
    """Seconds that each of some rounds of the engine's first trial takes a peer.

    Args:
        peer: A loop at its first round.
        played: The engine's run, whose choices and observations are replayed.
        rounds: Numbers of the rounds to time; in the others the peer is only told.
    """
    seconds = []
    for number in range(1, max(rounds) + 1):
        index, y = int(played.indices[number - 1, 0]), float(played.observations[number - 1, 0])
        begin = time.perf_counter()
        if number in rounds:
            peer.ask()
        peer.tell(index, y)
        if number in rounds:
            seconds.append(time.perf_counter() - begin)
    return seconds


def fastest(passes: Sequence[Sequence[float]], trials: int) -> float:
    """Mean over rounds of the fastest pass, in milliseconds per trial and round.

    Args:
        passes: Seconds per round, one sequence per pass.
        trials: How many trials a round advances.
    """
    return 1e3 / trials * fmean(min(seconds) for seconds in zip(*passes, strict=True))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line(
        "speed.botorch_loops",
        __doc__,
        trials=256,
        horizon=200,
        points=50,
        repeats=3,
        threads=cores(),
        seed=0,
    )
    parser.set_defaults(out=None)  # its name tells the algorithm
    parser.add_argument(
        "--epsilon", type=float, default=EPSILON, help="rate of change of the world"
    )
    parser.add_argument("--time-varying", action="store_true", help="TV-GP-UCB, not GP-UCB")
    parser.add_argument("--verify-rounds", type=int, help="choices compared (default: all)")
    parser.add_argument("--peer-rounds", type=int, default=50, help="rounds timed of peers")
    options = parser.parse_args(arguments)
    counts = (options.trials, options.points, options.threads, options.repeats)
    if min(options.horizon, options.peer_rounds + 1) < 2 or min(counts) < 1:
        parser.error("--horizon is at least 2, every other count at least 1")
    return options


class Contest(NamedTuple):
    """Who plays what: the same world for all."""

    contender: Strategy
    problem: Problem
    domain: Grid
    options: argparse.Namespace

    @classmethod
    def of(cls, options: argparse.Namespace) -> Contest:
        """The contest that the command line asks for."""
        epsilon = options.epsilon if options.time_varying else None
        domain = Grid.regular(points=options.points, dim=2)
        problem = Problem(domain.X, LENGTHSCALE, NOISE, WIDTH.c1, WIDTH.c2, epsilon)
        return cls(strategy(epsilon), problem, domain, options)

    def world(self, trials: int) -> MarkovRewards:
        """The world at its first round; the draws of a trial depend on how many there are."""
        options = self.options
        return rewards(
            points=options.points, epsilon=options.epsilon, trials=trials, seed=options.seed
        )

    def play(self, trials: int) -> Play:
        """A run of the engine."""
        return play(self.contender, self.domain, self.world(trials), self.options.horizon)

    def study(self, trials: int) -> float:
        """Seconds that a compiled study takes, from its world to its results."""
        epsilon, horizon = self.options.epsilon, self.options.horizon
        begin = time.perf_counter()
        run_study(
            MarkovWorld(self.domain, kernel=kernel(), epsilon=epsilon, noise=NOISE),
            {"it": self.contender},
            trials=trials,
            horizon=horizon,
            compiled=True,
            progress=False,
        )
        return time.perf_counter() - begin


def time_all(contest: Contest, played: Play, rounds: set[int], threads: int) -> dict[str, float]:
    """Milliseconds per trial and round of the engine and its peers.

    Args:
        contest: Who plays what.
        played: The engine's run, whose first trial the peers replay.
        rounds: Rounds of which peers are timed.
        threads: Threads of torch.

    Returns:
        One figure per contender: the engine with all trials first, then with one, then the peers,
        then the compiled study if there is one.
    """
    torch.set_num_threads(threads)
    options = contest.options
    trials = {f"engine, {counted(count, 'trials')}": count for count in (options.trials, 1)}
    compiled = f"compiled study, {counted(options.trials, 'trials')}"
    can_compile = find_spec("numba") is not None
    if can_compile:
        trials[compiled] = options.trials
        contest.study(2)  # compiles
    passes: dict[str, list[list[float]]] = {}
    for _ in range(options.repeats):
        many, one, *_ = trials
        seconds = replay(contest.contender, contest.domain, played, threads)
        horizon = options.horizon
        passes.setdefault(many, []).append([seconds / horizon] * horizon)
        passes.setdefault(one, []).append(contest.play(1).seconds)
        for loop in LOOPS:
            timed = time_peer(loop(contest.problem), played, rounds)
            passes.setdefault(loop.name, []).append(timed)
        if can_compile:
            passes.setdefault(compiled, []).append(
                [contest.study(options.trials) / horizon] * horizon
            )
    return {label: fastest(found, trials.get(label, 1)) for label, found in passes.items()}


def compare(together: dict[str, float], single: dict[str, float]) -> list[dict[str, Any]]:
    """Times and their ratios to the engine's, one row per contender.

    Args:
        together: What `time_all` found with all threads.
        single: What it found with one.
    """
    engine = next(iter(together))
    rows: list[dict[str, Any]] = []
    for label in together:
        row = {
            "contender": label,
            "ms": together[label],
            "ratio": together[label] / together[engine],
            "ms_one_thread": single[label],
            "ratio_one_thread": single[label] / single[engine],
        }
        if label in {loop.name for loop in LOOPS}:
            row["ratio_one_process_per_core"] = single[label] / cores() / together[engine]
        rows.append(row)
    return rows


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Verify, time, report; returns the record that is written."""
    options = parse(arguments)
    facts = begin(options.threads, seed=options.seed, packages=("numba",))

    contest = Contest.of(options)
    played = contest.play(options.trials)
    compared = min(options.verify_rounds or options.horizon, options.horizon)
    for loop in LOOPS:
        verify(loop(contest.problem), played, contest.world(options.trials), compared)
        print(f"{loop.name}: the engine's choices in {compared} of {options.horizon} rounds")
    arms = len(set(played.indices[:, 0].tolist()))
    print(f"(one trial of {options.trials}; it plays {arms} of {len(contest.domain)} arms)\n")

    rounds = spread(options.horizon, options.peer_rounds)
    together = time_all(contest, played, rounds, options.threads)
    single = time_all(contest, played, rounds, 1) if options.threads > 1 else together
    rows = compare(together, single)
    init = 1e3 * played.init_seconds / (options.trials * options.horizon)
    _print_table(rows, init, options.threads)

    record = {
        "benchmark": "botorch_loops",
        **facts,
        "parameters": {
            "algorithm": "TV-GP-UCB" if options.time_varying else "GP-UCB",
            "trials": options.trials,
            "horizon": options.horizon,
            "arms": len(contest.domain),
            "lengthscale": LENGTHSCALE,
            "noise": NOISE,
            "epsilon": options.epsilon,
            "dtype": "float64",
        },
        "verified_rounds": compared,
        "timed_rounds_of_peers": len(rounds),
        "repeats": options.repeats,
        "init_ms_per_trial_and_round": init,
        "contenders": rows,
    }
    suffix = "_time_varying" if options.time_varying else ""
    write(record, options.out or RESULTS / f"speed_botorch_loops{suffix}.json")
    return record


def _print_table(rows: list[dict[str, Any]], init: float, threads: int) -> None:
    print(f"{'ms per trial and round':28}{counted(threads, 'threads'):>12}{'ratio':>8}", end="")
    print(f"{'1 thread':>12}{'ratio':>8}{f'{cores()} processes':>14}")
    for row in rows:
        print(f"{row['contender']:28}{row['ms']:12.4f}{row['ratio']:8.0f}", end="")
        print(f"{row['ms_one_thread']:12.4f}{row['ratio_one_thread']:8.0f}", end="")
        bound = row.get("ratio_one_process_per_core")
        print("" if bound is None else f"{f'≥ {bound:.0f}':>14}")
    print(f"(the engine's init, once per study, adds {init:.4f})\n")


if __name__ == "__main__":
    main()
