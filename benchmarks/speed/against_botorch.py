"""The engine against loops written with BoTorch alone.

    python -m benchmarks.speed.against_botorch [--trials 256] [--horizon 200] [--points 50]
        [--verify-rounds ROUNDS] [--peer-rounds 50] [--repeats 3] [--epsilon 0.03]
        [--time-varying] [--threads N] [--seed 0] [--out FILE]

GP-UCB with given hyperparameters (squared exponential kernel, lengthscale 0.2, noise 0.02,
multiplier ``√(0.4 ln 4t)``) plays the Markov world of [B16]; with ``--time-varying`` it is
TV-GP-UCB, and time is a column of the peers' inputs.

1. *Verify*: every peer plays the first trial and must make the engine's choices.
2. *Time* `ask` and `tell`: the engine on all trials and rounds as a study calls it (a chunk of
   trials per core, old states consumed), the peers on the first trial, in rounds spread over the
   horizon with the data they have by then. The world is not timed. A round counts with the fastest
   of ``--repeats`` passes, which alternate between the contenders. Where Numba is installed, a
   compiled study of as many trials is timed with its world, draws and results.
3. *Report* the mean over the horizon in milliseconds per trial and round, and its ratio to the
   engine's. The peers' first round is not timed, because they have no data in it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from importlib.util import find_spec
from statistics import fmean
from typing import Any, NamedTuple

import torch

from benchmarks.command_line import command_line
from benchmarks.records import RESULTS, begin, cores, write
from benchmarks.speed.botorch_gp_ucb import LOOPS, Loop, Problem
from benchmarks.speed.engine_runs import (
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
from benchmarks.speed.markov_rewards import MarkovRewards
from botorch_tv.simulation import MarkovWorld, run_study
from botorch_tv.strategies import Grid, Strategy, gp_ucb, tv_gp_ucb
from botorch_tv.validation import counted


def strategy(epsilon: float | None) -> Strategy:
    """GP-UCB, or TV-GP-UCB with ``epsilon``, as the peers have it."""
    if epsilon is None:
        return gp_ucb(kernel=kernel(), noise=NOISE, width=WIDTH)
    return tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=epsilon, width=WIDTH)


def verify(peer: Loop, played: Play, world: MarkovRewards, rounds: int) -> None:
    """Compare the choices of a peer with the engine's first trial in the same world.

    Args:
        peer: A loop at its first round.
        played: The engine's run.
        world: The same world at its first round.
        rounds: Number of rounds.

    Raises:
        AssertionError: If a choice differs.
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
    """At most ``rounds`` of the rounds 2, ..., ``horizon``: the middles of equal parts."""
    available = horizon - 1
    count = min(rounds, available)
    return {2 + available * (2 * part + 1) // (2 * count) for part in range(count)}


def time_peer(peer: Loop, played: Play, rounds: set[int]) -> list[float]:
    """Seconds of a peer in some ``rounds`` of the first trial; in others it only observes."""
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
    """Mean over rounds of the fastest of some passes, in milliseconds per trial and round."""
    return 1e3 / trials * fmean(min(seconds) for seconds in zip(*passes, strict=True))


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = command_line(
        "speed.against_botorch",
        __doc__,
        trials=256,
        horizon=200,
        points=50,
        repeats=3,
        threads=cores(),
        seed=0,
    )
    parser.set_defaults(out=None)  # its name includes the algorithm
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
    """The engine, its peers and their world."""

    contender: Strategy
    problem: Problem
    domain: Grid
    options: argparse.Namespace

    @classmethod
    def of(cls, options: argparse.Namespace) -> Contest:
        """The contest of a command line."""
        epsilon = options.epsilon if options.time_varying else None
        domain = Grid.regular(points=options.points, dim=2)
        problem = Problem(domain.X, LENGTHSCALE, NOISE, WIDTH.c1, WIDTH.c2, epsilon)
        return cls(strategy(epsilon), problem, domain, options)

    def world(self, trials: int) -> MarkovRewards:
        """The world at its first round; its draws depend on the number of trials."""
        options = self.options
        return rewards(
            points=options.points, epsilon=options.epsilon, trials=trials, seed=options.seed
        )

    def play(self, trials: int) -> Play:
        """A run of the engine."""
        return play(self.contender, self.domain, self.world(trials), self.options.horizon)

    def study(self, trials: int) -> float:
        """Seconds of a compiled study, from its world to its results."""
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


def time_all(contest: Contest, played: Play, rounds: set[int]) -> dict[str, float]:
    """Milliseconds per trial and round: the engine, with all trials and with one; peers; a study.

    Args:
        contest: The contest.
        played: The engine's run, whose first trial the peers replay.
        rounds: Rounds in which peers are timed.
    """
    options = contest.options
    trials = {f"engine, {counted(count, 'trials')}": count for count in (options.trials, 1)}
    compiled = f"compiled study, {counted(options.trials, 'trials')}"
    can_compile = find_spec("numba") is not None
    if can_compile:
        trials[compiled] = options.trials
        contest.study(2)  # compiles
    passes: dict[str, list[list[float]]] = {}
    for _ in range(options.repeats):
        many, alone, *_ = trials
        seconds = replay(contest.contender, contest.domain, played, options.threads)
        horizon = options.horizon
        passes.setdefault(many, []).append([seconds / horizon] * horizon)
        passes.setdefault(alone, []).append(contest.play(1).seconds)
        for loop in LOOPS:
            timed = time_peer(loop(contest.problem), played, rounds)
            passes.setdefault(loop.name, []).append(timed)
        if can_compile:
            passes.setdefault(compiled, []).append(
                [contest.study(options.trials) / horizon] * horizon
            )
    return {label: fastest(found, trials.get(label, 1)) for label, found in passes.items()}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    options = parse(arguments)
    facts = begin(options.threads, seed=options.seed, packages=("numba",))

    contest = Contest.of(options)
    played = contest.play(options.trials)
    compared = min(options.verify_rounds or options.horizon, options.horizon)
    for loop in LOOPS:
        verify(loop(contest.problem), played, contest.world(options.trials), compared)
        print(f"{loop.name}: the engine's choices in {compared} of {options.horizon} rounds")

    rounds = spread(options.horizon, options.peer_rounds)
    ms = time_all(contest, played, rounds)
    engine = next(iter(ms.values()))
    rows = [{"contender": label, "ms": each, "ratio": each / engine} for label, each in ms.items()]
    for row in rows:
        print(f"{row['contender']:28}{row['ms']:12.4f} ms{row['ratio']:8.0f}")
    init = 1e3 * played.init_seconds / (options.trials * options.horizon)

    record = {
        "benchmark": "against_botorch",
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
    write(record, options.out or RESULTS / f"speed_against_botorch{suffix}.json")
    return record


if __name__ == "__main__":
    main()
