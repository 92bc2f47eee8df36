"""Coverage of the 95 % bands of the adaptive strategy, and their width against the model's own.

    python -m benchmarks.statistics.coverage_of_bands [--data FOLDER] [--worlds NAME ...]
        [--seeds 10] [--first 100] [--out FILE]

Worlds: those of :mod:`benchmarks.statistics.regret_on_boxes`, Levy's function of two parameters,
and four of :mod:`benchmarks.peers.worlds`. From the fifth round on, before every measurement, bands
are compared with the truth (on records, bands of readings with the reading) at the point chosen and
at 64 random points (on records, all arms). Coverage is the mean over rounds and seeds at the point
chosen, at all points, and at the third of the points where the truth is lowest. Figures "of the
model" are those of the model's own bands, from which choices are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.command_line import command_line
from benchmarks.peers import worlds as peers
from benchmarks.records import begin, write
from benchmarks.statistics import regret_on_boxes
from benchmarks.statistics.box_worlds import levy
from benchmarks.statistics.regret_on_square import BAND
from botorch_tv.gp.mixture.bank import FIRST
from botorch_tv.papers.recordings import Recordings
from botorch_tv.strategies import Box, Grid, adaptive_gp_ucb
from botorch_tv.strategies.pending import of_model

PLACES = 64
FIGURES = ("where it measures", "everywhere", "lowest third")
Problem = tuple[int, Tensor | None, int, float, Callable[[Tensor, int], Tensor]]
"""Coordinates d; arms, None for the cube; rounds; noise sd; and the values of points in a round."""


def _on_box(make: Callable[[Recordings, int, int], Any], records: Recordings, seed: int) -> Problem:
    trial = make(records, seed, 120)
    return trial.dim, trial.arms, trial.horizon, trial.noise, trial.value


def _of_peers(name: str, records: Recordings, seed: int) -> Problem:
    world = peers.WORLDS[name](seed)

    def value(X: Tensor, t: int) -> Tensor:
        return torch.from_numpy(world.values(X.numpy(), float(t)))

    return world.dim, None, world.rounds, world.noise, value


FUNCTIONS = {"levy in two": regret_on_boxes._function(partial(levy, 2)), **regret_on_boxes.WORLDS}
WORLDS: dict[str, Callable[[Recordings, int], Problem]] = {
    **{name: partial(_on_box, make) for name, make in FUNCTIONS.items()},
    **{name: partial(_of_peers, name) for name in ("turning", "jumping", "static", "wandering")},
}


def coverage(problem: Problem, seed: int) -> dict[str, Any]:
    """Coverage of bands with and without the factor, per figure, and the ratio of their widths."""
    dim, arms, rounds, noise, value = problem
    player, generator = adaptive_gp_ucb(), torch.Generator().manual_seed(1_000_000 + seed)
    cube = torch.tensor([[0.0] * dim, [1.0] * dim], dtype=torch.float64)
    state = player.init(Box(cube) if arms is None else Grid(arms))
    inside, wide = [], []
    for t in range(1, rounds + 1):
        suggestion = player.ask(state)
        X = suggestion.X.unsqueeze(0)
        y = value(X, t) + noise * torch.randn(1, generator=generator, dtype=torch.float64)
        if t > FIRST:
            places = arms
            if places is None:
                places = torch.rand(PLACES, dim, generator=generator, dtype=torch.float64)
            both = torch.cat([X, places])
            truth = value(both, t)
            mean, own = of_model(player, state, None, both)
            added = 0.0 if arms is None else player.model_noise(state)
            bands = own * player.band_factor(state, own.square())
            widths = (torch.stack([own, bands]).square() + added).sqrt()
            covered = ((mean - truth).abs() <= BAND * widths).double()
            low = truth[1:].argsort()[: len(places) // 3] + 1
            each = [covered[:, 0], covered[:, 1:].mean(-1), covered[:, low].mean(-1)]
            inside.append(torch.stack(each, -1))
            wide.append((widths[1, 1:] / widths[0, 1:]).mean())
        state, _ = player.tell(state, suggestion, y[0], consume=True)
    model, found = (dict(zip(FIGURES, part)) for part in torch.stack(inside).mean(0).tolist())
    return {"bands": found, "of the model": model, "width": float(torch.stack(wide).mean())}


def main(arguments: Sequence[str] | None = None) -> dict[str, Any]:
    """Run the benchmark and return its record."""
    parser = command_line("statistics.coverage_of_bands", __doc__, worlds=WORLDS, seeds=10)
    parser.add_argument("--data", type=Path, help="folder of the records")
    parser.add_argument("--first", type=int, default=100, help="first seed")
    options = parser.parse_args(arguments)
    facts, records, found = begin(1, seed=0), Recordings(options.data), {}
    for name in options.worlds:
        seeds = range(options.first, options.first + options.seeds)
        runs = [coverage(WORLDS[name](records, seed), seed) for seed in seeds]
        found[name] = {
            kind: {figure: _summary([run[kind][figure] for run in runs]) for figure in FIGURES}
            for kind in ("bands", "of the model")
        } | {"ratio of widths": _summary([run["width"] for run in runs])}
        print(name, found[name], flush=True)
    record = {"environment": facts, "first seed": options.first, "worlds": found}
    write(record, options.out)
    return record


def _summary(values: list[float]) -> list[float]:
    """Mean and standard error."""
    every = torch.tensor(values, dtype=torch.float64)
    return [round(float(every.mean()), 4), round(float(every.std()) / len(values) ** 0.5, 4)]


if __name__ == "__main__":
    main()
