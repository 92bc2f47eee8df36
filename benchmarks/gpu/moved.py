"""What a captured round moves, counted on a CPU: one operation at a time, and with fused passes.

    python -m benchmarks.gpu.moved --out FILE [--points 50] [--trials 16] [--horizon 200] [--seed 0]

Bytes in and out of every operation of a study's last round, the objective's included, per trial, in
the Markov world of [B16] (ε = 0.03, noise 0.02) in float64. What a fused pass moves is what it has
to, each number once; a GPU moves more where its lines of memory are not used as a whole.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from benchmarks.gpu.choices import presets
from benchmarks.gpu.world import parser, record_of, write
from benchmarks.speed.runs import EPSILON, NOISE, kernel
from benchmarks.speed.traffic import Traffic
from botorch_tv.simulation import MarkovWorld
from botorch_tv.simulation.captured import serving
from botorch_tv.simulation.captured.passes import Elapsed, Passes
from botorch_tv.simulation.captured.table import CapturedTable
from botorch_tv.simulation.cut import Chunk
from botorch_tv.simulation.settings import StudySettings
from botorch_tv.strategies import Grid, Strategy

PLAYED = ("ET-GP-UCB", "GP-UCB", "TV-GP-UCB")


class Counted(Passes):
    """Passes that count what they move, and what fused ones would."""

    by_operation = 0
    fused = 0

    @classmethod
    def start(cls) -> None:
        """Count from here on."""
        cls.by_operation = cls.fused = 0

    def choose(self, sqrt_beta: Tensor, elapsed: Elapsed | None) -> Tensor:
        with Traffic() as traffic:
            chosen = super().choose(sqrt_beta, elapsed)
        vectors = 2 if elapsed is None else 4
        self._add(traffic.bytes, vectors * self.mean.nbytes)
        return chosen

    def take_in(
        self, step: Tensor, surprise: Tensor, forgotten: Tensor | None, *, sign: int
    ) -> None:
        with Traffic() as traffic:
            super().take_in(step, surprise, forgotten, sign=sign)
        # The step times itself is read once.
        self._add(traffic.bytes - step.nbytes, 5 * self.mean.nbytes)

    def absorb(
        self,
        inverse: Tensor,
        direction: Tensor,
        square: Tensor | None,
        reach: Tensor,
        *,
        sign: int,
    ) -> None:
        with Traffic() as traffic:
            super().absorb(inverse, direction, square, reach, sign=sign)
        self._add(traffic.bytes, 2 * int(reach.square().sum()) * inverse.element_size())

    @classmethod
    def _add(cls, by_operation: int, fused: int) -> None:
        cls.by_operation += by_operation
        cls.fused += fused


def counted(strategy: Strategy, options: argparse.Namespace) -> dict[str, float]:
    """Bytes of a study's last round, per trial.

    Args:
        strategy: Plays.
        options: The command line of a study.
    """
    grid = Grid.regular(points=options.points, dim=2)
    world, cpu = (
        MarkovWorld(grid, kernel=kernel(), epsilon=EPSILON, noise=NOISE),
        torch.device("cpu"),
    )
    strategies, chunk = {"strategy": strategy}, Chunk(0, options.trials)
    settings = StudySettings(world, strategies, options.horizon, options.seed, torch.float64, cpu)
    found = serving.captured(world, strategies, settings.initial_states(), options.horizon)
    table = CapturedTable(settings, found, chunk, None, Counted)
    # A choice as it is made on a GPU.
    with mock.patch("botorch_tv.inference.linalg.FEW_NUMBERS", 2**62):
        objectives = world.objectives(settings.stream("world", chunk))
        for step, objective in zip(range(options.horizon), objectives):
            Counted.start()
            with Traffic() as traffic:
                table.play_round(step, objective)
    whole = traffic.bytes - 8 * len(grid) * options.trials  # see ``take_in``
    left = whole - Counted.by_operation
    each = {
        "by_operation": whole,
        "fused": left + Counted.fused,
        "passes_by_operation": Counted.by_operation,
        "passes_fused": Counted.fused,
    }
    return {name: one / options.trials for name, one in each.items()}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Count for every strategy; returns the record that is written."""
    made = parser("moved", trials=16, horizon=200, points=50)
    made.set_defaults(device=torch.device("cpu"))
    options = made.parse_args(arguments)
    record = record_of("moved", options)
    found = record["bytes_per_trial"] = {}
    for name in PLAYED:
        found[name] = one = counted(presets()[name], options)
        share = one["fused"] / one["by_operation"]
        print(
            f"{name:12}{one['by_operation'] / 1e3:8.0f} KB, fused {one['fused'] / 1e3:6.0f} KB "
            f"({share:.0%})",
            flush=True,
        )
        write(record, options)
    return record


if __name__ == "__main__":
    main()
