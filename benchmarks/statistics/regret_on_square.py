"""Regret of the adaptive strategy on the unit square, against strategies with a given kernel.

    python -m benchmarks.statistics.regret_on_square [--worlds NAME ...] [--seeds 40]
        [--first 10000] [--horizon 100] [--out FILE]

All strategies face the same functions and the same noise; differences are paired over seeds.
Worlds:

- *markov*, *static*, *abrupt*: functions of a squared exponential kernel (lengthscale 0.2, noise
  variance 0.02). They drift by the Markov model at ε = 0.03, stay, or are drawn again at half time;
- *two peaks*: 50 + 10 exp(-|x - c(t)|²/0.08) + 6 exp(-|x - (.2, .2)|²/0.045), with c(t) on a circle
  of radius 0.3 about the centre, period 120 rounds, noise 0.5 (standard deviation), 60 rounds;
- *narrow peaks*: 50 and two to five peaks of heights 3 to 10 and widths 0.08 to 0.2, half of which
  move on circles of radius 0.1 to 0.3 with periods of 100 to 200 rounds, noise 0.5.

The other strategies are given kernel, noise, mean and scale. Peaks have no such kernel: the given
lengthscale is 0.15, mean and scale are those of the world over space and time. All widths are
equal. Coverage is the fraction of points and rounds in which a 95 % band contains the truth, from
the round in which the units are settled. Runs that the file has with the same settings are skipped.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from benchmarks.command_line import command_line
from benchmarks.records import begin, write
from benchmarks.statistics.paired import ADAPTIVE, REGRET, read, summary
from botorch_tv.even_points import even_points
from botorch_tv.forgetting import EventTrigger
from botorch_tv.simulation.rivals import unit_kernel
from botorch_tv.strategies import Box, Strategy, adaptive_gp_ucb, gp_ucb, tv_gp_ucb
from botorch_tv.test_functions import MarkovFunction

EPSILON, NOISE, DELTA = 0.03, 0.02, 0.01
POINTS = 128
"""Points at which bands are compared with the truth, in every fifth round."""
BAND = 1.959964
MESH = 101
"""Points per axis among which the maximum of a world of peaks is sought."""
WORLDS = ("markov", "static", "abrupt", "two peaks", "narrow peaks")
HORIZONS = {"two peaks": 60}


@dataclasses.dataclass(frozen=True)
class World:
    """Functions of all seeds, and the prior knowledge that is given to the other strategies.

    Attributes:
        value: f at points and a round from 1 on, `seeds x q x 2 -> seeds x q`.
        highest: Its maximum in a round, `seeds`.
        noise: Standard deviation.
        mean: Given mean, `seeds`.
        scale: Given standard deviation, `seeds`.
        lengthscale: Given lengthscale.
    """

    value: Callable[[Tensor, int], Tensor]
    highest: Callable[[int], Tensor]
    noise: float
    mean: Tensor
    scale: Tensor
    lengthscale: float


def drawn(seeds: range, horizon: int, epsilon: float, changes: tuple[int, ...]) -> World:
    """Functions of a kernel, one per seed."""
    functions = [
        MarkovFunction(
            unit_kernel("se", 0.2), epsilon=epsilon, changes=changes, horizon=horizon, seed=seed
        )
        for seed in seeds
    ]

    def value(X: Tensor, t: int) -> Tensor:
        timed = torch.cat([X, X.new_full((*X.shape[:-1], 1), float(t))], -1)
        return torch.stack([f.evaluate_true(at) for f, at in zip(functions, timed)])

    def highest(t: int) -> Tensor:
        return torch.stack([f.optimal_value_at(float(t)) for f in functions]).view(-1)

    zero = torch.zeros(len(seeds), dtype=torch.float64)
    return World(value, highest, NOISE**0.5, zero, zero + 1, 0.2)


def peaks(seeds: range, horizon: int, *, drawn_at_random: bool) -> World:
    """Peaks on a constant 50; the seeds of *two peaks* differ only in their noise."""
    parts = [_narrow(seed) if drawn_at_random else _two() for seed in seeds]
    height, width, centre, radius, phase, speed = (
        torch.nn.utils.rnn.pad_sequence(list(part), batch_first=True) for part in zip(*parts)
    )
    width = width.clamp_min(1e-3)

    def value(X: Tensor, t: int) -> Tensor:
        angle = phase + speed * (t - 1)
        offset = torch.stack([angle.cos() - phase.cos(), angle.sin() - phase.sin()], -1)
        place = centre + radius.unsqueeze(-1) * offset
        square = (X.unsqueeze(-2) - place.unsqueeze(1)).square().sum(-1)
        bumps = height.unsqueeze(1) * torch.exp(-square / (2 * width.square().unsqueeze(1)))
        return 50 + bumps.sum(-1)

    line = torch.linspace(0, 1, MESH, dtype=torch.float64)
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
    moves = torch.where(uniform(0, 1) < 0.5, 1.0, 0.0)
    sign = torch.where(uniform(0, 1) < 0.5, 1.0, -1.0)
    return height, width, centre, radius, phase, 2 * math.pi / turn * moves * sign


def world(name: str, seeds: range, horizon: int) -> World:
    """A world by its name."""
    if name == "markov":
        return drawn(seeds, horizon, EPSILON, ())
    if name in ("static", "abrupt"):
        return drawn(seeds, horizon, 0.0, (horizon // 2,) if name == "abrupt" else ())
    return peaks(seeds, horizon, drawn_at_random=name == "narrow peaks")


def contenders(played: World) -> dict[str, Strategy]:
    """Strategies by label, all at the width of the adaptive strategy."""
    adaptive = adaptive_gp_ucb()
    noise = NOISE if played.noise < 0.5 else float((played.noise / played.scale).square().mean())
    kernel = unit_kernel("se", played.lengthscale)
    static = gp_ucb(kernel=kernel, noise=noise, width=adaptive.width)
    drifting = tv_gp_ucb(kernel=kernel, noise=noise, epsilon=EPSILON, width=adaptive.width)
    return {
        ADAPTIVE: adaptive,
        "static": static,
        "static with a trigger": dataclasses.replace(static, retention=EventTrigger(DELTA)),
        "drifting at 0.03": drifting,
    }


def play(
    label: str, strategy: Strategy, played: World, seeds: range, horizon: int
) -> dict[str, Any]:
    """Total regret of every seed, coverage, and processor seconds per round."""
    adaptive = label == ADAPTIVE
    mean, scale = torch.zeros_like(played.mean), torch.ones_like(played.scale)
    if not adaptive:
        mean, scale = played.mean, played.scale
    generators = [torch.Generator().manual_seed(1_000_000 + seed) for seed in seeds]
    noise = torch.stack(
        [torch.randn(horizon, generator=each, dtype=torch.float64) for each in generators], -1
    )
    noise *= played.noise
    points = even_points(POINTS, 2).expand(len(seeds), -1, -1)
    square = Box(torch.tensor([[0.0, 0.0], [1.0, 1.0]]).double())
    state = strategy.init(square, batch_shape=(len(seeds),))
    regret, inside, near, seconds = [], [], [], 0.0
    for t in range(1, horizon + 1):
        start = time.process_time()
        suggestion = strategy.ask(state)
        seconds += time.process_time() - start
        if adaptive and t > adaptive_gp_ucb().starts and t % 5 == 0:
            posterior = strategy.posterior(state, points)
            error = (posterior.mean.squeeze(-1) - played.value(points, t)).abs()
            inside.append((error <= BAND * posterior.variance.squeeze(-1).sqrt()).double().mean(-1))
        f = played.value(suggestion.X.unsqueeze(-2), t).squeeze(-1)
        highest = played.highest(t)
        regret.append(highest - f)
        near.append(f > played.mean + 0.8 * (highest - played.mean))
        start = time.process_time()
        y = (f + noise[t - 1] - mean) / scale
        state, _ = strategy.tell(state, suggestion, y, consume=True)
        seconds += time.process_time() - start
    total, close = torch.stack(regret, -1), torch.stack(near, -1).double()
    found = {
        REGRET: [round(float(each), 4) for each in total.sum(-1)],
        "share of rounds near the highest, second half": float(close[:, horizon // 2 :].mean()),
        "processor seconds per round and loop": seconds / horizon / len(seeds),
    }
    if inside:
        found["coverage of bands of 95 %"] = float(torch.stack(inside).mean())
    return found


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    parser = command_line(
        "statistics.regret_on_square", __doc__, worlds=WORLDS, seeds=40, horizon=100
    )
    parser.add_argument("--first", type=int, default=10_000, help="the first seed")
    options = parser.parse_args(arguments)
    facts = begin(None, seed=options.first)
    seeds = range(options.first, options.first + options.seeds)
    for name in options.worlds:
        horizon = min(options.horizon, HORIZONS.get(name, options.horizon))
        played = world(name, seeds, horizon)
        for label, strategy in contenders(played).items():
            settings = {
                "strategy": repr(strategy),
                "seeds": [seeds.start, seeds.stop],
                "horizon": horizon,
            }
            runs = read(options.out)["worlds"].get(name, {"runs": {}})["runs"]
            if runs.get(label, {}).get("settings") == settings:
                continue
            found = play(label, strategy, played, seeds, horizon)
            record = read(options.out)  # another process may have written meanwhile
            part = record["worlds"].setdefault(name, {"runs": {}})
            part["runs"][label] = {"settings": settings, "commit": facts["commit"], **found}
            part["regret per round"] = summary(part["runs"], horizon)
            record["environment"] = facts
            write(record, options.out)
            print(name, label, part["regret per round"][label], flush=True)
    return read(options.out)


if __name__ == "__main__":
    main()
