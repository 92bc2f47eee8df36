"""What a strategy that is told nothing reaches beside those that are told.

    python -m benchmarks.statistics.adaptive [--worlds NAME ...] [--seeds 40] [--first 10000]
        [--horizon 100] [--out FILE]

Loops on [0, 1]² face the same functions and the same noise; regret is paired over seeds. Worlds:

- *markov*, *static*, *abrupt*: functions of a squared exponential kernel (lengthscale 0.2, noise
  variance 0.02), which drift by the Markov model at ε = 0.03, rest, or are drawn afresh once, at
  half time;
- *two peaks*: 50 + 10 exp(-|x - c(t)|²/0.08) + 6 exp(-|x - (.2, .2)|²/0.045), c(t) on a circle of
  radius 0.3 about the middle, one turn in 120 rounds, noise 0.5 (standard deviation), 60 rounds;
- *narrow peaks*: 50 and two to five peaks of heights 3 to 10 and widths 0.08 to 0.2, half of which
  wander on circles of radius 0.1 to 0.3, one turn in 100 to 200 rounds, noise 0.5.

Told strategies know kernel, noise, mean and scale, and what their name says; on peaks, where there
is no such kernel, the lengthscale 0.15 and the mean and the standard deviation of the world over
space and time. All widths are equal. Coverage is the share of points and rounds in which a band of
95 % holds the truth, from the round on in which the units are known. What is in the file with the
same settings is not played again.
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.arguments import command_line
from benchmarks.speed.common import begin, write
from benchmarks.statistics.errors import standard_error
from botorch_tv.even_points import even_points
from botorch_tv.forgetting import EventTrigger
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, Strategy, adaptive_gp_ucb, gp_ucb, tv_gp_ucb
from botorch_tv.test_functions import MarkovFunction

EPSILON = 0.03
NOISE = 0.02
DELTA = 0.01
POINTS = 128
"""Points at which bands are compared with the truth, in every fifth round."""
BAND = 1.959964
SIDE = 101
"""Points per side among which the highest of a world of peaks is sought."""


@dataclasses.dataclass(frozen=True)
class World:
    """Functions of all seeds, and what those know who are told.

    Attributes:
        value: f at points and a round from 1 on, `seeds x q x 2 -> seeds x q`.
        highest: Its maximum in a round, `seeds`.
        noise: Standard deviation.
        mean: Told, `seeds`.
        scale: Told, `seeds`.
        lengthscale: Told.
    """

    value: Callable[[Tensor, int], Tensor]
    highest: Callable[[int], Tensor]
    noise: float
    mean: Tensor
    scale: Tensor
    lengthscale: float


def drawn(seeds: range, horizon: int, epsilon: float, changes: tuple[int, ...]) -> World:
    """Functions of a kernel, one per seed."""
    each = [
        MarkovFunction(
            unit_kernel("se", 0.2), epsilon=epsilon, changes=changes, horizon=horizon, seed=seed
        )
        for seed in seeds
    ]

    def value(X: Tensor, t: int) -> Tensor:
        timed = torch.cat([X, X.new_full((*X.shape[:-1], 1), float(t))], -1)
        return torch.stack([one.evaluate_true(at) for one, at in zip(each, timed)])

    def highest(t: int) -> Tensor:
        return torch.stack([one.optimal_value_at(float(t)) for one in each]).view(-1)

    zero = torch.zeros(len(seeds), dtype=torch.float64)
    return World(value, highest, NOISE**0.5, zero, zero + 1, 0.2)


def peaks(seeds: range, horizon: int, *, drawn_at_random: bool) -> World:
    """Worlds that are 50 but for some peaks; those of the two peaks differ in their noise alone."""
    parts = [_narrow(seed) if drawn_at_random else _two() for seed in seeds]
    height, width, centre, radius, phase, speed = (
        torch.nn.utils.rnn.pad_sequence(list(one), batch_first=True) for one in zip(*parts)
    )
    width = width.clamp_min(1e-3)

    def value(X: Tensor, t: int) -> Tensor:
        angle = phase + speed * (t - 1)
        off = torch.stack([angle.cos() - phase.cos(), angle.sin() - phase.sin()], -1)
        place = centre + radius.unsqueeze(-1) * off
        square = (X.unsqueeze(-2) - place.unsqueeze(1)).square().sum(-1)
        bumps = height.unsqueeze(1) * torch.exp(-square / (2 * width.square().unsqueeze(1)))
        return 50 + bumps.sum(-1)

    line = torch.linspace(0, 1, SIDE, dtype=torch.float64)
    mesh = torch.cartesian_prod(line, line).expand(len(seeds), -1, -1)

    def highest(t: int) -> Tensor:
        return value(mesh, t).amax(-1)

    some = torch.stack([value(mesh[:, ::7], t) for t in range(1, horizon + 1, 5)])
    flat = some.movedim(0, 1).flatten(1)
    return World(value, highest, 0.5, flat.mean(-1), flat.std(-1), 0.15)


Peaks = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]
"""Heights, widths, places in the first round, radii, phases and speeds (radians per round)."""


def _two() -> Peaks:
    return (
        torch.tensor([10.0, 6.0], dtype=torch.float64),
        torch.tensor([0.08, 0.045], dtype=torch.float64).div(2).sqrt(),
        torch.tensor([[0.8, 0.5], [0.2, 0.2]], dtype=torch.float64),
        torch.tensor([0.3, 0.0], dtype=torch.float64),
        torch.zeros(2, dtype=torch.float64),
        torch.tensor([2 * math.pi / 120, 0.0], dtype=torch.float64),
    )


def _narrow(seed: int) -> Peaks:
    generator = torch.Generator().manual_seed(seed)
    number = int(torch.randint(2, 6, (1,), generator=generator))

    def uniform(low: float, high: float, *more: int) -> Tensor:
        return low + (high - low) * torch.rand(
            number, *more, generator=generator, dtype=torch.float64
        )

    height, width, centre = uniform(3, 10), uniform(0.08, 0.2), uniform(0.1, 0.9, 2)
    radius, phase, turn = uniform(0.1, 0.3), uniform(0, 2 * math.pi), uniform(100, 200)
    wanders = torch.where(uniform(0, 1) < 0.5, 1.0, 0.0)
    sign = torch.where(uniform(0, 1) < 0.5, 1.0, -1.0)
    return height, width, centre, radius, phase, 2 * math.pi / turn * wanders * sign


def world(name: str, seeds: range, horizon: int) -> World:
    """A world by its name."""
    if name == "markov":
        return drawn(seeds, horizon, EPSILON, ())
    if name == "static":
        return drawn(seeds, horizon, 0.0, ())
    if name == "abrupt":
        return drawn(seeds, horizon, 0.0, (horizon // 2,))
    return peaks(seeds, horizon, drawn_at_random=name == "narrow peaks")


WORLDS = ("markov", "static", "abrupt", "two peaks", "narrow peaks")
HORIZONS = {"two peaks": 60}


def contenders(one: World) -> dict[str, Strategy]:
    """All at the width of the strategy that is told nothing."""
    nothing = adaptive_gp_ucb()
    noise = NOISE if one.noise < 0.5 else float((one.noise / one.scale).square().mean())
    kernel = unit_kernel("se", one.lengthscale)
    static = gp_ucb(kernel=kernel, noise=noise, width=nothing.width)
    drifting = tv_gp_ucb(kernel=kernel, noise=noise, epsilon=EPSILON, width=nothing.width)
    return {
        "told nothing": nothing,
        "static": static,
        "static with a trigger": dataclasses.replace(static, retention=EventTrigger(DELTA)),
        "drifting at 0.03": drifting,
    }


def play(label: str, strategy: Strategy, one: World, seeds: range, horizon: int) -> dict[str, Any]:
    """Total regret of every seed, coverage, and seconds per round.

    Args:
        label: Who plays.
        strategy: The same.
        one: The world.
        seeds: Its seeds.
        horizon: Rounds.
    """
    nothing = label == "told nothing"
    mean, scale = (torch.zeros_like(one.mean), torch.ones_like(one.scale))
    if not nothing:
        mean, scale = one.mean, one.scale
    generators = [torch.Generator().manual_seed(1_000_000 + seed) for seed in seeds]
    noise = torch.stack(
        [torch.randn(horizon, generator=each, dtype=torch.float64) for each in generators], -1
    )
    noise *= one.noise
    points = even_points(POINTS, 2).expand(len(seeds), -1, -1)
    state = strategy.init(
        Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double()), batch_shape=(len(seeds),)
    )
    regret, inside, near, seconds = [], [], [], 0.0
    for t in range(1, horizon + 1):
        start = time.process_time()
        suggestion = strategy.ask(state)
        seconds += time.process_time() - start
        if nothing and t > adaptive_gp_ucb().starts and t % 5 == 0:
            posterior = strategy.posterior(state, points)
            error = (posterior.mean.squeeze(-1) - one.value(points, t)).abs()
            inside.append((error <= BAND * posterior.variance.squeeze(-1).sqrt()).double().mean(-1))
        f = one.value(suggestion.X.unsqueeze(-2), t).squeeze(-1)
        highest = one.highest(t)
        regret.append(highest - f)
        near.append(f > one.mean + 0.8 * (highest - one.mean))
        start = time.process_time()
        y = (f + noise[t - 1] - mean) / scale
        state, _ = strategy.tell(state, suggestion, y, consume=True)
        seconds += time.process_time() - start
    total, close = torch.stack(regret, -1), torch.stack(near, -1).double()
    found = {
        "total regret of every seed": [round(float(each), 4) for each in total.sum(-1)],
        "share of rounds near the highest, second half": float(close[:, horizon // 2 :].mean()),
        "processor seconds per round and loop": seconds / horizon / len(seeds),
    }
    if inside:
        found["coverage of bands of 95 %"] = float(torch.stack(inside).mean())
    return found


def summary(runs: dict[str, Any], horizon: int) -> dict[str, Any]:
    """Regret per round, and paired differences to the strategy that is told nothing."""
    regret = {
        label: torch.tensor(one["total regret of every seed"], dtype=torch.float64) / horizon
        for label, one in runs.items()
    }
    found: dict[str, Any] = {}
    for label, each in regret.items():
        found[label] = {"mean": float(each.mean()), "standard error": standard_error(each)}
        if label != "told nothing" and "told nothing" in regret:
            both = min(len(each), len(regret["told nothing"]))  # some play fewer seeds
            ours, each = regret["told nothing"][:both], each[:both]
            found[label]["told nothing less this"] = float((ours - each).mean())
            found[label]["its standard error"] = standard_error(ours - each)
            found[label]["told nothing as a share"] = float(ours.mean() / each.mean())
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark.

    Args:
        arguments: The command line; that of the process unless given.
    """
    parser = command_line("statistics.adaptive", __doc__, worlds=WORLDS, seeds=40, horizon=100)
    parser.add_argument("--first", type=int, default=10_000, help="the first seed")
    options = parser.parse_args(arguments)
    facts = begin(None, seed=options.first)
    seeds = range(options.first, options.first + options.seeds)
    for name in options.worlds:
        horizon = min(options.horizon, HORIZONS.get(name, options.horizon))
        one = world(name, seeds, horizon)
        for label, strategy in contenders(one).items():
            settings = {
                "strategy": repr(strategy),
                "seeds": [seeds.start, seeds.stop],
                "horizon": horizon,
            }
            # Others may have written since; what they did is kept.
            record = read(options.out)
            runs = record["worlds"].setdefault(name, {"runs": {}})["runs"]
            if runs.get(label, {}).get("settings") == settings:
                continue
            found = play(label, strategy, one, seeds, horizon)
            record = read(options.out)
            part = record["worlds"].setdefault(name, {"runs": {}})
            part["runs"][label] = {"settings": settings, "commit": facts["commit"], **found}
            part["regret per round"] = summary(part["runs"], horizon)
            record["environment"] = facts
            write(record, options.out)
            print(name, label, part["regret per round"][label], flush=True)
    return read(options.out)


def read(out: Path) -> dict[str, Any]:
    """The record of a file, or an empty one where there is none."""
    if out.is_file():
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
        return found
    return {"environment": {}, "worlds": {}}


if __name__ == "__main__":
    main()
