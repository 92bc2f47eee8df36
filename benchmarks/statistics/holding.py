"""Measurements saved by holding a setting, and false detections and delays of ``drifted``.

``hold``: a loop holds its recommended setting between measurements. It measures the first eight
rounds, then every k-th round, or when :meth:`Loop.worth_measuring` says so at some cost. Two
regrets are means over all rounds: of the recommended setting, as if measurements were made
elsewhere, and of the process, which runs at the measured setting while it is measured.

``detect``: loops measure every round of static worlds, and of worlds that change after half of the
rounds. ``drifted`` is compared with a generalised likelihood ratio of the loop's residuals
(``GLRTrigger``), at the thresholds at which both have at most one false detection in 1,000 rounds.

Each world and seed is a line of a file; a second run adds what is missing.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from botorch.test_functions import Branin, Hartmann
from torch import Tensor

from botorch_tv import Loop
from botorch_tv.even_points import even_points
from botorch_tv.forgetting import GLRTrigger
from botorch_tv.loop.monitor import AT_LEAST

ROUNDS, FEATURES, NOISE = 120, 400, 0.1
"""Rounds, random features of a draw, and noise sd as a share of the objective's sd."""
INTERVALS = (1, 2, 3, 5, 8, 12)
COSTS = (1.0, 2.0, 4.0)
PHASE = 20
"""Rounds between the changes of rate of the world ``varied``."""
LENGTH, SD, LEVEL = 0.25, 5.0, 50.0
RATES: dict[str, Callable[[int], float]] = {
    "static": lambda t: 0.0,
    "slow": lambda t: 0.003,
    "varied": lambda t: 0.03 if t // PHASE % 3 == 2 else 0.0,
    "jump": lambda t: float(t == ROUNDS // 2 + 1),
    "half": lambda t: 0.25 * (t == ROUNDS // 2 + 1),
}
"""Rates of change: w ← sqrt(1 - rate) w + sqrt(rate) ξ before round t."""


class World:
    """Gaussian draws that change, or a static function; settings are in the unit cube."""

    def __init__(self, name: str, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        kind, _, dim = name.partition(" ")
        self.function = {"Branin": Branin, "Hartmann": Hartmann}.get(kind)
        self.dim = int(dim or 2)
        self.noise = draw(ROUNDS + 1)
        if self.function:
            own = {"dim": self.dim} if kind == "Hartmann" else {}
            self.function = self.function(negate=True, **own).double()
            self.reflected = draw(self.dim) > 0
            X = even_points(1000, self.dim).double()
            self.noise *= NOISE * float(self.value(X, 0).std())
            return
        self.waves = draw(FEATURES, self.dim) / LENGTH
        self.phases = 2 * math.pi * torch.rand(FEATURES, generator=generator).double()
        self.noise, self.weights = NOISE * SD * self.noise, [draw(FEATURES)]
        for t in range(1, ROUNDS + 1):
            rate, old = RATES[kind](t), self.weights[-1]
            new = math.sqrt(1 - rate) * old + math.sqrt(rate) * draw(FEATURES) if rate else old
            self.weights.append(new)

    def value(self, X: Tensor, t: int) -> Tensor:
        """The objective in round t at points `* x d`."""
        if self.function:
            lower, upper = self.function.bounds
            return self.function(lower + (upper - lower) * torch.where(self.reflected, 1 - X, X))
        features = torch.cos(X @ self.waves.mT + self.phases) * math.sqrt(2 / FEATURES)
        return LEVEL + SD * features @ self.weights[t]

    def loop(self) -> Loop:
        """A loop with default settings."""
        return Loop([(0.0, 1.0)] * self.dim)


def hold(world: World, interval: int | None, cost: float) -> tuple[int, float, float]:
    """Number of measurements, and mean regret of the recommended setting and of the process."""
    loop, due, total, process = world.loop(), 1.0, 0.0, 0.0
    every = even_points(2048, world.dim).double()
    for t in range(1, ROUNDS + 1):
        tried = None
        if t >= due:
            suggestion = loop.ask(now=float(t))
            tried = world.value(suggestion.X, t)
            loop.tell(float(tried + world.noise[t]))
            held, due = torch.tensor(loop.recommend(now=float(t))).double(), t + 1.0
            if len(loop.history.y) >= AT_LEAST and interval is not None:
                due = t + interval
            elif len(loop.history.y) >= AT_LEAST:
                due = t + 1 + math.ceil(loop.worth_measuring(cost, now=t + 1.0).wait - 1e-9)
        value = world.value(held, t)
        best = torch.cat([world.value(every, t), value.reshape(1)]).max()
        total += float(best - value)
        process += float(best - (value if tried is None else tried))
    return len(loop.history.y), total / ROUNDS, process / ROUNDS


def detect(world: World) -> list[tuple[float, float]]:
    """For each round: log evidence of ``drifted``, and the likelihood ratio of the residuals."""
    loop, errors, found, ratio = world.loop(), list[float](), [], GLRTrigger()
    for t in range(1, ROUNDS + 1):
        suggestion = loop.ask()
        y = float(world.value(suggestion.X, t) + world.noise[t])
        if t > AT_LEAST:
            noise = float(loop.strategy.model_noise(loop.state))
            errors.insert(0, (y - suggestion.mean) / math.sqrt(suggestion.sd**2 + noise))
        loop.tell(y)
        newest = torch.tensor(errors[: ratio.longest] + [0.0] * (ratio.longest - len(errors)))
        statistic = ratio.statistic(newest, torch.tensor(len(errors)))
        found.append((math.log(loop.drifted().evidence + 1e-9), float(statistic)))
    return found


def main() -> None:
    """``holding FILE hold|detect WORLD FIRST LAST``."""
    place, task, name, first, last = sys.argv[1:6]
    path = Path(place)
    torch.set_num_threads(1)
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    for seed in range(int(first), int(last)):
        if any((row["task"], row["world"], row["seed"]) == (task, name, seed) for row in done):
            continue
        world = World(name, seed)
        if task == "hold":
            found: object = {
                **{f"every {k}": hold(world, k, 0.0) for k in INTERVALS},
                **{f"cost {c:g}": hold(world, None, c) for c in COSTS},
            }
        else:
            found = detect(world)
        row = {"task": task, "world": name, "seed": seed, "found": found}
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
