"""What a strategy that is told nothing costs: per round early and late, in a batch, and in memory.

    python -m benchmarks.speed.adaptive [--late 5000] [--loops 64] [--threads 2] [--out FILE]

One loop on [0, 1]² is timed over some rounds from round 100 and from a late one on; rounds between
are told at points drawn at random, without searching the box. Then a batch of loops is timed beside
single ones. Times are of asking and telling together, in seconds by the clock; the processor's own
seconds stand beside them, for machines that do other work.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, write
from benchmarks.speed.memory import state_bytes
from botorch_tv.strategies import Box, State, Strategy, adaptive_gp_ucb

SQUARE = ((0.0, 0.0), (1.0, 1.0))
TIMED = 12
"""Rounds that are timed at a time; the median is kept."""
SINGLES = 4
"""Loops that are played one by one, of which the mean stands for all."""
PLACES = 64
"""Points at which the rounds between are told."""
SEED = 0


def value(X: Tensor, t: float, loop: Tensor) -> Tensor:
    """A peak that moves, with noise, `loops x 2 -> loops`."""
    angle = 0.02 * t + loop
    centre = 0.5 + 0.3 * torch.stack([angle.cos(), angle.sin()], -1)
    return 5 * torch.exp(-(X - centre).square().sum(-1) / 0.08) + 0.3 * torch.sin(91.0 * t + loop)


def rounds(strategy: Strategy, state: State, loop: Tensor, number: int) -> tuple[State, Any]:
    """So many rounds played, and the median seconds per round of all loops together."""
    clock, processor = [], []
    for _ in range(number):
        start = time.perf_counter(), time.process_time()
        suggestion = strategy.ask(state)
        asked = time.perf_counter(), time.process_time()
        y = value(suggestion.X, float(suggestion.time.flatten()[0]), loop)
        told = time.perf_counter(), time.process_time()
        state, _ = strategy.tell(state, suggestion, y, consume=True)
        clock.append(asked[0] - start[0] + time.perf_counter() - told[0])
        processor.append(asked[1] - start[1] + time.process_time() - told[1])
    medians = (float(torch.tensor(one).median()) for one in (clock, processor))
    return state, dict(zip(("seconds", "processor seconds"), medians))


def passed(strategy: Strategy, state: State, loop: Tensor, until: int, seed: int) -> State:
    """Rounds told at some points drawn at random, up to one."""
    generator = torch.Generator().manual_seed(seed)
    points = torch.rand(PLACES, len(loop), 2, generator=generator, dtype=torch.float64)
    suggestions = [strategy.suggestion_at(state, X) for X in points]
    for t in range(state.told + 1, until):
        suggestion = suggestions[t % PLACES]
        y = value(suggestion.X, float(t), loop)
        state, _ = strategy.tell(state, suggestion, y, time=float(t), consume=True)
    return state


def begun(strategy: Strategy, loop: Tensor) -> State:
    """A batch of loops before any round."""
    return strategy.init(Box(torch.tensor(SQUARE).double()), batch_shape=(len(loop),))


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    parser = command_line("speed.adaptive", __doc__, threads=2)
    parser.add_argument("--late", type=int, default=5000)
    parser.add_argument("--loops", type=int, default=64)
    options = parser.parse_args(arguments)
    record: dict[str, Any] = {"environment": begin(options.threads, seed=SEED)}
    strategy = adaptive_gp_ucb()
    record["strategy"] = repr(strategy)

    one = torch.zeros(1, dtype=torch.float64)
    state = begun(strategy, one)
    record["bytes of a loop"] = state_bytes(state)
    record["per round of one loop"] = {}
    for late in (100, options.late):
        state = passed(strategy, state, one, late, seed=SEED + late)
        state, found = rounds(strategy, state, one, TIMED)
        record["per round of one loop"][f"from round {late} on"] = found
        print(late, found, flush=True)

    starts = 2 * strategy.starts
    singles = []
    for number in range(SINGLES):
        state, _ = rounds(strategy, begun(strategy, one), one + number, starts)
        singles.append(rounds(strategy, state, one + number, TIMED)[1]["processor seconds"])
    loops = torch.arange(float(options.loops), dtype=torch.float64)
    state, _ = rounds(strategy, begun(strategy, loops), loops, starts)
    batch = rounds(strategy, state, loops, TIMED)[1]["processor seconds"]
    single = sum(singles) / len(singles)
    record["processor seconds per round and loop"] = {
        "one by one": single,
        f"{options.loops} in a batch": batch / options.loops,
        "one by one over batch": single * options.loops / batch,
    }
    print(record["processor seconds per round and loop"], flush=True)
    write(record, options.out)
    return record


if __name__ == "__main__":
    main()
