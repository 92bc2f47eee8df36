"""Cost of a round of many loops on a box, adaptive and with given hyperparameters.

    python -m benchmarks.gpu.loops --out FILE [--device cuda] [--loops 4096] [--rounds 24]
        [--bandwidth-bytes N]

Every loop follows a peak that moves through the unit square from its own starting point. The loops
are a batch of trials, as many as half of the free memory holds. As in a study, observations are
unchecked and old states are consumed. `ask` and `tell` are timed in every round; in a further round
operations, waits for the device and bytes are counted. The bandwidth reached is bytes over time and
over the bandwidth of the device. The file is written after every strategy.
"""

from __future__ import annotations

import argparse
from bisect import bisect_right
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import torch
from torch import Tensor

from benchmarks.command_line import command_line
from benchmarks.gpu.markov_study import write
from benchmarks.records import environment
from benchmarks.speed.engine_runs import EPSILON, NOISE, kernel, now
from benchmarks.speed.rates import BEYOND_CACHE, bandwidths
from benchmarks.speed.state_bytes import state_bytes
from benchmarks.speed.traffic import Traffic
from botorch_tv.memory import free_bytes
from botorch_tv.strategies import Box, State, Strategy, Suggestion, adaptive_gp_ucb, tv_gp_ucb

SQUARE = ((0.0, 0.0), (1.0, 1.0))
STRATEGIES: dict[str, Callable[[], Strategy]] = {
    "adaptive": adaptive_gp_ucb,
    "given": lambda: tv_gp_ucb(kernel=kernel(), noise=NOISE, epsilon=EPSILON),
}
MEMORY_SHARE = 0.5
SEED = 0


def value(X: Tensor, t: float, loop: Tensor) -> Tensor:
    """A peak that moves, with noise, `loops x 2 -> loops`."""
    angle = 0.02 * t + loop
    centre = 0.5 + 0.3 * torch.stack([angle.cos(), angle.sin()], -1)
    return 5 * torch.exp(-(X - centre).square().sum(-1) / 0.08) + 0.3 * torch.sin(91.0 * t + loop)


class Loops:
    """A batch of running loops, whose calls are watched."""

    def __init__(self, strategy: Strategy, loops: int, device: torch.device) -> None:
        self.strategy, self.round = strategy, 0
        self.number = torch.arange(float(loops), dtype=torch.float64, device=device)
        self.state = begun(strategy, loops, device)

    def play(self, watched: Callable[[str, Callable[[], Any]], Any]) -> None:
        """Play a round; ``watched`` takes the name of a call and the call."""
        self.round += 1
        suggestion: Suggestion = watched("ask", lambda: self.strategy.ask(self.state))
        y: Tensor = value(suggestion.X, float(self.round), self.number)
        self.state, _ = watched(
            "tell",
            lambda: self.strategy.tell(self.state, suggestion, y, check=False, consume=True),
        )


def begun(strategy: Strategy, loops: int, device: torch.device) -> State:
    """The state of some loops before their first round."""
    box = Box(torch.tensor(SQUARE, dtype=torch.float64).to(device))
    return strategy.init(box, batch_shape=(loops,))


def measure(strategy: Strategy, options: argparse.Namespace, bandwidth: float) -> dict[str, Any]:
    """Costs of the rounds of a strategy; ``bandwidth`` of the device is in bytes per second."""
    device, on_gpu = options.device, options.device.type == "cuda"
    alone, memory = begun(strategy, 1, device), MEMORY_SHARE * free_bytes(device)

    def needed(loops: int) -> int:
        return 8 * loops * strategy.numbers_per_trial(alone, options.rounds + 1, loops)

    fitting = max(1, bisect_right(range(1, options.loops + 1), memory, key=needed))
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(device)
    loops = Loops(strategy, fitting, device)
    seconds: dict[str, list[float]] = {"ask": [], "tell": []}
    counted: dict[str, dict[str, float]] = {}

    def timed(name: str, call: Callable[[], Any]) -> Any:
        begin = now(device)
        answer = call()
        seconds[name].append(now(device) - begin)
        return answer

    def count(name: str, call: Callable[[], Any]) -> Any:
        with Traffic() as traffic:
            answer = call()
        late = median(seconds[name][options.rounds // 2 :])
        counted[name] = {
            "ms": 1e3 * late,
            "operations": traffic.operations,
            "waits": traffic.waits,
            "megabytes": 1e-6 * traffic.bytes,
            "bandwidth_reached": traffic.bytes / late / bandwidth,
        }
        return answer

    for _ in range(options.rounds):
        loops.play(timed)
    loops.play(count)
    return {
        "loops": fitting,
        "calls_late": counted,
        "us_per_loop_and_round": 1e3 * sum(call["ms"] for call in counted.values()) / fitting,
        "seconds": seconds,
        "state_bytes_per_loop": state_bytes(loops.state) / fitting,
        "estimated_bytes": needed(fitting),
        "peak_bytes": torch.cuda.max_memory_allocated(device) if on_gpu else None,
    }


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    made = command_line("gpu.loops", __doc__, device="cuda")
    made.add_argument("--loops", type=int, default=4096, help="at most, as memory allows")
    made.add_argument(
        "--rounds", type=int, default=24, help="timed; the median is of the later half"
    )
    made.add_argument(
        "--bandwidth-bytes", type=int, help="of the tensors that measure the bandwidth"
    )
    return made.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    options = parse(arguments)
    beyond = options.bandwidth_bytes or BEYOND_CACHE[options.device.type]
    bandwidth = max(rate.per_second for rate in bandwidths(options.device, [beyond], repeats=3))
    parameters = {"loops": options.loops, "rounds": options.rounds, "dimension": len(SQUARE[0])}
    facts = environment(seed=SEED, device=options.device)
    record: dict[str, Any] = {"benchmark": "loops", **facts, "parameters": parameters}
    record |= {"bandwidth": bandwidth, "strategies": {}}
    for name, made in STRATEGIES.items():
        try:
            found = measure(made(), options, bandwidth)
            print(name, found["calls_late"], flush=True)
        except Exception as error:  # the other strategies are measured all the same
            found = {"error": f"{type(error).__name__}: {error}"[:2000]}
            print(f"{name}: {found['error']}", flush=True)
        record["strategies"][name] = found
        write(record, options)
    return record


if __name__ == "__main__":
    main()
