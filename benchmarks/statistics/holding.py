"""Measurements saved by holding a setting, and false detections and delays of ``drifted``.

``hold``: a loop holds its recommended setting between measurements. It measures the first eight
rounds, then every k-th round, or when :meth:`Loop.worth_measuring` says so at some cost. Two
regrets are means over all rounds: of the recommended setting, as if measurements were made
elsewhere, and of the process, which runs at the measured setting while it is measured.

``detect``: loops measure every round of static worlds, and of worlds that change after half of the
rounds. ``drifted`` is compared with a generalised likelihood ratio of the loop's residuals
(``GLRTrigger``), at the thresholds at which both have at most one false detection in 1,000 rounds.

Each line of the file is a world and a rule with all seeds, or a world and a seed.
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

from botorch_tv import Box, Loop, adaptive_gp_ucb
from botorch_tv.even_points import even_points
from botorch_tv.forgetting import GLRTrigger
from botorch_tv.loop.log import CAUTION
from botorch_tv.loop.monitor import AT_LEAST, contenders, value_of_measuring

ROUNDS, FEATURES, NOISE = 120, 400, 0.1
"""Rounds, random features of a draw, and noise sd as a share of the objective's sd."""
LAGS = (1, 2, 3, 4, 6, 8, 11, 16, 23, 32, 45, 64, 91, 128)
"""Rounds after a measurement in which the next may be made at a given cost."""
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


def hold(worlds: list[World], rules: list[tuple[str, float]]) -> list[list[list[float]]]:
    """Measurements, and mean regrets of the recommended setting and of the process.

    Args:
        worlds: Worlds of one dimension, each played once under every rule.
        rules: ``("every", k)`` and ``("cost", c)``.

    Returns:
        For each rule and world, these three numbers.
    """
    strategy, own = adaptive_gp_ucb(), [world for _ in rules for world in worlds]
    each = torch.tensor([[value, kind == "cost"] for kind, value in rules for _ in worlds])
    limit, by_cost = each[:, 0].double(), each[:, 1] > 0
    box = Box(torch.tensor([[0.0], [1.0]]).double().expand(2, worlds[0].dim))
    state = strategy.init(box, batch_shape=(len(own),))
    due, lost = limit * 0 + 1, torch.zeros(len(own), 2, dtype=torch.float64)
    every = even_points(2048, worlds[0].dim).double()
    best = {world: [float(world.value(every, t).max()) for t in range(ROUNDS + 1)] for world in own}
    while bool((due <= ROUNDS).any()):
        now, going = due.clone(), due <= ROUNDS
        made = strategy.ask(state, now=now)
        rounds = now.clamp_max(ROUNDS).long().tolist()
        value = [float(world.value(x, t)) for world, x, t in zip(own, made.X, rounds)]
        y = torch.tensor([f + float(w.noise[t]) for f, w, t in zip(value, own, rounds)]).double()
        state, _ = strategy.tell(state, made, y, time=now, ok=going)
        held = strategy.recommend(state, now=now, caution=CAUTION)
        due = torch.where(going, now + 1, now)
        if state.rounds >= AT_LEAST:
            X = contenders(state, held, strategy.ask(state, now=now + 1).X)
            due = torch.where(going & ~by_cost, now + limit, due)
            waits = going & by_cost
            for lag in LAGS:  # as Loop.worth_measuring, in whole rounds
                worth = lag * value_of_measuring(strategy, state, X, now + lag) > limit
                due = torch.where(waits, now + lag, due)
                waits = waits & ~worth & (due <= ROUNDS)
                if not bool(waits.any()):
                    break
        for place, (world, t) in enumerate(zip(own, rounds)):
            for later in range(t, min(int(due[place]), ROUNDS + 1)) if going[place] else ():
                regret = best[world][later] - float(world.value(held[place], later))
                tried = best[world][later] - value[place] if later == t else regret
                lost[place] += torch.tensor([regret, tried])
    counts = state.history.noise.tensor().isfinite().sum(-1, keepdim=True)
    found = torch.cat([counts, lost / ROUNDS], -1).view(len(rules), len(worlds), 3)
    result: list[list[list[float]]] = found.tolist()
    return result


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
    """``holding FILE hold|detect WORLD FIRST LAST [every=2 cost=1 ...]``."""
    file, task, name, first, last, *given = sys.argv[1:]
    torch.set_num_threads(1)
    seeds = range(int(first), int(last))
    worlds = [World(name, seed) for seed in seeds]
    with Path(file).open("a") as lines:
        if task == "hold":
            pairs = [rule.split("=") for rule in given]
            rules = [(kind, float(value)) for kind, value in pairs]
            for (kind, value), found in zip(rules, hold(worlds, rules)):
                row = {"world": name, "rule": f"{kind} {value:g}", "first": seeds[0]}
                lines.write(json.dumps(row | {"found": found}) + "\n")
        else:
            for seed, world in zip(seeds, worlds):
                row = {"task": task, "world": name, "seed": seed, "found": detect(world)}
                lines.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
